/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One attachment to a daemon: socket, mapped BAR0, controller, admin queue, and everything that is
 * made new when the daemon is (buffer pool, queues, arena mappings). Counted: whoever works with
 * it holds a reference, so a call that is copying out of a buffer keeps the mapping while the
 * keeper already builds the next connection. Since rings and buffers belong to one connection, an
 * old daemon that still writes, writes where nobody looks any more.
 *
 * Life: conn_open() attaches and enables the controller; conn_kill() marks it dead when the socket
 * says so (the keeper) and wakes every waiter; the last conn_put() frees it.
 *
 * "Dead" is proof, not suspicion: the socket gave EOF, that is, the daemon has exited or has closed
 * it, which it does after its last access to our memory. A stopped daemon is not dead.
 *
 * Threads: any. Admin commands take turns, and so do socket messages.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "client/bufs.h"
#include "client/qp.h"
#include "client/shm.h"
#include "client/wire.h"
#include "nvme/nvme_kv.h"
#include "peal/peal.h"
#include "peal/vendor.h"

#define CONN_QID_MAX 128
#define CONN_CHANS_MAX 8
#define CONN_ADMIN_BYTES 4096u /* data of one admin command */
#define CONN_ALL_NS 0xffffffffu

struct chan;
struct conn_segment;
struct peal;

struct conn_opts {
	const char *path;
	uint32_t nsid; /* 0 = the lowest KV namespace */
	uint64_t buffer_bytes;
	bool is_operator;
	bool is_silent; /* it can't ring the daemon's bell, so it doesn't ask for one */
	uint64_t deadline_ns;
};

/* The namespace as it was when we attached, except for the sizes. */
struct conn_ns {
	uint32_t nsid;
	uint32_t key_max;
	uint32_t value_max;
	uint64_t capacity_bytes;
	uint64_t used_bytes;
	uint64_t vendor_cmds; /* bit n: opcode 80h + n */
	uint32_t match_max;
	uint32_t lease_ms_max;
	uint32_t nr_segments;
	bool is_immutable;
};

/* Of one CID. */
enum conn_slot_state {
	CONN_SLOT_FREE,
	CONN_SLOT_WAITING,
	CONN_SLOT_DONE,
	CONN_SLOT_GIVEN_UP, /* its caller is gone; the CID stays taken until the CQE */
};

struct conn {
	struct list node; /* conn.c: all of this process, for fork() */
	struct peal *p;	  /* whose it is; keeper.c */
	_Atomic uint32_t refs;
	_Atomic bool is_dead;
	struct wire wire;

	/* BAR0 */
	void *doorbells;
	size_t doorbells_bytes;
	struct vfu_wake_page *wake;	    /* NULL: the daemon polls at intervals */
	int wake_fds[VFU_WAKE_WORKERS_MAX]; /* one per worker of the daemon */
	unsigned nr_wake_fds;
	uint64_t cap;
	uint32_t stride;
	uint32_t nr_vectors;
	bool has_arena;
	bool is_operator;

	/* controller */
	bool has_sgl;
	uint64_t data_max;  /* bytes of one command; MDTS */
	uint32_t nr_queues; /* granted pairs */
	char subsystem[224];
	struct conn_ns ns;

	struct turn admin_turn;
	struct qp *admin;
	struct shm admin_data; /* CONN_ADMIN_BYTES for each CID */
	struct {
		enum conn_slot_state state;
		struct nvme_cqe cqe;
	} admin_slots[QP_ADMIN_DEPTH];

	pthread_mutex_t lock; /* qids */
	bool qid_used[CONN_QID_MAX + 1];
	bool has_lost_qids;	/* taken for good: what the daemon made of them isn't known */
	struct turn chans_turn; /* making one; before admin_turn */
	struct chan *_Atomic chans[CONN_CHANS_MAX];
	pthread_mutex_t arena_lock;    /* before the wire's turn */
	struct conn_segment *segments; /* conn_arena.c: ns.nr_segments of them */

	struct bufs bufs;
};

/* -errno with a message. */
int conn_open(const struct conn_opts *o, struct conn **c);
void conn_get(struct conn *c);
void conn_put(struct conn *c);
void conn_kill(struct conn *c);
/*
 * Asks the daemon to close it: dead is what the daemon has closed, until then memory that it was
 * given is its own. The keeper sees that, and makes another.
 */
void conn_hang_up(struct conn *c);

static inline bool conn_is_dead(const struct conn *c)
{
	return atomic_load_explicit(&c->is_dead, memory_order_acquire);
}

static inline bool conn_has_cmd(const struct conn *c, enum peal_opc opc)
{
	return c->ns.vendor_cmds >> (opc - 0x80) & 1;
}

/* ---- conn_setup.c: what conn_open() is made of ---- */

int conn_setup_socket(struct conn *c, const struct conn_opts *o);
int conn_setup_ctrl(struct conn *c, const struct conn_opts *o);
int conn_setup_ns(struct conn *c, const struct conn_opts *o);

/* ---- conn_dev.c: the device behind the socket ---- */

int conn_dev_version(struct conn *c, const struct conn_opts *o);
int conn_dev_map_bar(struct conn *c, uint64_t deadline_ns);
int conn_dev_read(struct conn *c, uint32_t off, uint32_t bytes, uint64_t *v, uint64_t deadline_ns);
int conn_dev_write(struct conn *c, uint32_t off, uint32_t bytes, uint64_t v, uint64_t deadline_ns);
struct conn_dma {
	int fd;
	uint64_t offset;
	uint64_t iova;
	uint64_t bytes;
};
int conn_dev_dma_map(struct conn *c, const struct conn_dma *m, uint64_t deadline_ns);
/* 0: the daemon touches it no more. */
int conn_dev_dma_unmap(struct conn *c, uint64_t iova, uint64_t bytes, uint64_t deadline_ns);
int conn_dev_set_irq(struct conn *c, uint32_t vector, int eventfd, uint64_t deadline_ns);
/* Region `index`: its size, its descriptor (the caller's to close) and where it starts there. */
struct conn_region {
	uint64_t bytes;
	uint64_t offset;
	int fd;
};
int conn_dev_region(struct conn *c, uint32_t index, struct conn_region *r, uint64_t deadline_ns);
/* Bus addresses for `bytes`, never given twice in this process; 2 MiB aligned. */
uint64_t conn_dev_iova(uint64_t bytes);

/* ---- conn_admin.c ---- */

struct conn_admin_cmd {
	struct nvme_sqe sqe; /* all but CID and DPTR */
	const void *out;     /* to the daemon, or NULL */
	void *in;	     /* from the daemon, or NULL */
	uint32_t bytes;	     /* of either, at most CONN_ADMIN_BYTES */
	/* out */
	uint32_t dw0;
	uint16_t status;
};
int conn_admin_init(struct conn *c, uint64_t deadline_ns);
/* 0: it was answered, with `status`; -errno with a message: it was not. */
int conn_admin_exec(struct conn *c, struct conn_admin_cmd *cmd, uint64_t deadline_ns);
/* The same, where only success is of use. `what` names it in the message. */
int conn_admin_must(struct conn *c, struct conn_admin_cmd *cmd, const char *what,
		    uint64_t deadline_ns);
int conn_admin_identify(struct conn *c, uint8_t cns, uint32_t nsid, void *buf,
			uint64_t deadline_ns);

/* ---- conn_arena.c ---- */

/* The mapping of [offset, offset + bytes) of an arena segment, made on first use; it lasts as long
 * as the connection. -errno with a message. */
int conn_arena_ptr(struct conn *c, const struct peal_wire_extent *x, const void **ptr,
		   uint64_t deadline_ns);
/* A whole segment. -ENOENT: there is none of that number. */
int conn_arena_segment(struct conn *c, uint32_t index, const void **ptr, size_t *bytes,
		       uint64_t deadline_ns);
void conn_arena_fini(struct conn *c);
