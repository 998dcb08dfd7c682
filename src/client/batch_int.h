/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of requests, inside: batch.c opens, submits and closes, batch_reap.c ends requests,
 * batch_wave.c makes commands of its own for peal_run().
 *
 * A queue is one thread's at a time; others only read its eventfd, next_deadline_ns and wants_fd.
 * Between two calls, while nothing is under way but what nobody waits for (commands that timed out,
 * RELEASEs), it is parked: then another thread that is short of buffers may take their answers.
 * Every request that was taken comes back exactly once, by the done list, whatever happened; so
 * does every struct batch_cmd, by a list of its own.
 *
 * Who has a buffer: from batch_push() on the slot. A command that was answered has it back. One
 * whose deadline has come hasn't: the daemon may still write there, so the slot keeps it, in
 * quarantine, until the CQE; nor one of a daemon that is dead, whose buffers go with the
 * connection.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mono.h"
#include "base/vec.h"
#include "client/call.h"
#include "client/memreg.h"

#define BATCH_ARM_NS (200 * MONO_NS_PER_MS)
#define BATCH_CQES 64
#define BATCH_COPY_MAX (1u << 20) /* bytes of one request that isn't direct */

/* A command of the library's own, its sender's memory until it comes back by batch_pop(). */
struct batch_cmd {
	struct nvme_sqe sqe; /* all but CID, NSID and DPTR */
	struct buf buf;	     /* its data; ptr NULL: not the sender's (any more) */
	uint32_t data_bytes; /* of buf that the command names */
	/* out */
	int err; /* 0: it was answered, with status and dw0; -ETIMEDOUT, -ENOTCONN */
	uint16_t status;
	uint32_t dw0;
	struct batch_cmd *next;
};

struct batch_slot {
	enum conn_slot_state state;
	struct peal_req *req;
	struct batch_cmd *cmd; /* instead of a request; NULL: none */
	uint64_t deadline_ns;  /* UINT64_MAX: direct */
	struct buf buf;	       /* ptr NULL: none */
	struct peal_mem *mem;  /* direct: counted */
	bool is_posted;
};

struct batch_range {
	uintptr_t start;
	size_t bytes;
	uint64_t iova;
	struct peal_mem *mem; /* only while p->mem_gen is ours */
	int map_err;
};

enum batch_owner {
	BATCH_ITS_THREAD,
	BATCH_PARKED,
	BATCH_REAPED, /* in batch_reap_idle(), a moment */
};

struct peal_queue {
	struct list node;
	struct peal *p;
	_Atomic int owner; /* enum batch_owner */
	struct conn *conn; /* counted; NULL: not attached */
	struct qp *q;
	uint32_t depth;
	int fd;
	bool has_tried_arm;
	_Atomic bool wants_fd;
	_Atomic uint64_t next_deadline_ns; /* no request's is earlier */
	uint32_t nr_waiting;
	uint32_t nr_posted; /* by batch_post(), not answered */
	struct peal_req *done_first, *done_last;
	struct batch_cmd *cmds_done;
	struct {
		uint64_t hits, misses, bytes_in, bytes_out;
	} sum; /* not yet in the handle's */
	VEC(struct batch_range)
	mems;
	uint64_t mem_gen;
	struct batch_slot *slots;
};

/*
 * batch.c: attaches the queue if it isn't, until deadline_ns; ends what a dead daemon has left.
 * -errno, a message.
 */
int batch_ready(struct peal_queue *q, uint64_t deadline_ns);
/* peal_submit() of a queue that is attached; to a daemon that is dead by now, that's no matter. */
int batch_submit(struct peal_queue *q, struct peal_req *const *reqs, unsigned nr);
/*
 * Into the ring, for qp_ring(). -EAGAIN: no CID is free; -EFBIG: more than one command can name.
 * Then nothing has happened.
 */
int batch_push(struct peal_queue *q, struct batch_cmd *cmd, uint64_t deadline_ns);
/* The same, of a command without data that nobody waits for; batch_reap_posted() for its CID. */
int batch_post(struct peal_queue *q, const struct nvme_sqe *sqe);
/* One that is over, in no order; NULL: none. */
struct batch_cmd *batch_pop(struct peal_queue *q);
/* The slot's buffer and memory go back. */
void batch_drop_slot(struct peal_queue *q, struct batch_slot *s);
/* Leaves the connection; what the daemon may still touch stays with that. */
void batch_detach(struct peal_queue *q);

/* Around each call of the queue's thread that touches its slots or rings; the second, its last. */
void batch_reap_unpark(struct peal_queue *q);
void batch_reap_park(struct peal_queue *q);
/* Takes what has come, without waiting. */
void batch_reap_look(struct peal_queue *q);
/* peal_reap() inside; it waits for commands, too. */
int batch_reap_done(struct peal_queue *q, struct peal_req **done, unsigned max,
		    uint32_t timeout_ms);
/* Waits for the answer to one that was posted, or what comes before. False: neither came. */
bool batch_reap_posted(struct peal_queue *q, uint64_t until_ns);
/* The request is over: to the done list. */
void batch_reap_finish(struct peal_queue *q, struct peal_req *req, int res);
/* The daemon is dead: nothing will come any more. Detaches. */
void batch_reap_fail_all(struct peal_queue *q);
