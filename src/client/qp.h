/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue pair as an NVMe host drives it: both rings in one shared mapping, doorbells, CIDs, the
 * wake-up of a sleeping worker. No policy: who waits how, and what a CID stands for, is its
 * owner's (conn_admin.c, chan.c, batch.c).
 *
 *	cid = qp_cid_get(q); sqe = qp_sqe(q); fill it; qp_push(q); ... qp_ring(q);
 *	n = qp_reap(q, cqes, max); for each: its CID's owner, then qp_cid_put()
 *
 * A CID is free again only after its CQE (or never, when the daemon doesn't answer), so a late
 * completion can't be taken for another command's. There are fewer CIDs than ring slots, so the
 * submission ring is never full and the completion ring never overruns.
 *
 * One thread at a time; the owner sees to it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "client/shm.h"
#include "nvme/nvme_kv.h"

#define QP_ADMIN_DEPTH 31u
#define QP_DEPTH_MAX 4095u

#if defined(__x86_64__) || defined(__i386__)
#define QP_RELAX() __builtin_ia32_pause()
#else
#define QP_RELAX() __asm__ volatile("" ::: "memory")
#endif

struct conn;

struct qp {
	struct conn *conn;
	uint16_t qid; /* 0: admin */
	uint16_t vector;
	uint32_t size; /* slots of each ring */
	uint32_t sq_tail;
	uint32_t cq_head;
	uint32_t phase;
	uint32_t nr_free;
	struct nvme_sqe *sq;
	struct nvme_cqe *cq;
	uint32_t *sq_doorbell;
	uint32_t *cq_doorbell;
	const uint32_t *sleeping; /* of the worker that serves us; NULL: it needs no waking */
	int wake_fd;		  /* that worker's; the connection's */
	struct shm shm;
	uint8_t *prp_lists; /* a page for each CID; NULL when the controller takes SGLs */
	uint64_t prp_iova;
	int fd; /* the completion vector's eventfd; -1 until qp_arm() */
	bool is_armed;
	uint16_t free_cids[];
};

/* An I/O queue of `depth` CIDs, made by admin commands; -errno with a message. */
int qp_create(struct conn *c, uint32_t depth, struct qp **q, uint64_t deadline_ns);
/* The admin queue's memory; conn_setup.c tells the controller. */
int qp_create_admin(struct conn *c, struct qp **q, uint64_t deadline_ns);
/* Deletes it at the daemon; the memory goes in any case. 0: the daemon has confirmed it or is dead,
 * so no command of this queue will touch anything any more. */
int qp_destroy(struct qp *q, uint64_t deadline_ns);

/* The memory alone. */
void qp_free(struct qp *q);

int qp_cid_get(struct qp *q); /* -EAGAIN: all under way */
void qp_cid_put(struct qp *q, uint16_t cid);

struct nvme_sqe *qp_sqe(struct qp *q); /* the next slot, zeroed */
/* Names `bytes` at bus address iova; -EFBIG when neither SGL nor one PRP list can. */
int qp_set_data(struct qp *q, struct nvme_sqe *sqe, uint64_t iova, uint64_t bytes);
void qp_push(struct qp *q);
void qp_ring(struct qp *q);
/* Ends the worker's sleep: something will come. False: it didn't sleep. Any thread. */
bool qp_wake(const struct qp *q);

bool qp_has_cqe(const struct qp *q);
unsigned qp_reap(struct qp *q, struct nvme_cqe *cqes, unsigned max);

/* Completions write `fd` from now on. Look once more before you wait. -errno: none to be had. */
int qp_arm(struct qp *q, int fd, uint64_t deadline_ns);
/* Sleeps until the armed eventfd is written, until_ns has come or some milliseconds have passed:
 * the caller looks, and comes back. Not armed: a short nap. */
void qp_doze(struct qp *q, uint64_t until_ns);
