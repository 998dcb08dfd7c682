/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of requests, inside: batch.c opens, submits and closes, batch_reap.c ends requests.
 *
 * A queue is one thread's at a time; others only read its eventfd, next_deadline_ns and wants_fd.
 * Every request that was taken comes back exactly once, by the done list, whatever happened.
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

struct batch_slot {
	enum conn_slot_state state;
	struct peal_req *req;
	uint64_t deadline_ns; /* UINT64_MAX: direct */
	struct buf buf;	      /* ptr NULL: none */
	struct peal_mem *mem; /* direct: counted */
};

struct batch_range {
	uintptr_t start;
	size_t bytes;
	uint64_t iova;
	struct peal_mem *mem; /* only while p->mem_gen is ours */
	int map_err;
};

struct peal_queue {
	struct list node;
	struct peal *p;
	struct conn *conn; /* counted; NULL: not attached */
	struct qp *q;
	uint32_t depth;
	int fd;
	bool has_tried_arm;
	_Atomic bool wants_fd;
	_Atomic uint64_t next_deadline_ns; /* no request's is earlier */
	uint32_t nr_waiting;
	struct peal_req *done_first, *done_last;
	struct {
		uint64_t hits, misses, bytes_in, bytes_out;
	} sum; /* not yet in the handle's */
	VEC(struct batch_range)
	mems;
	uint64_t mem_gen;
	struct batch_slot *slots;
};

/* batch.c: the slot's buffer and memory go back. */
void batch_drop_slot(struct peal_queue *q, struct batch_slot *s);
/* Leaves the connection; what the daemon may still touch stays with that. */
void batch_detach(struct peal_queue *q);

/* The request is over: to the done list. */
void batch_reap_finish(struct peal_queue *q, struct peal_req *req, int res);
/* The daemon is dead: nothing will come any more. Detaches. */
void batch_reap_fail_all(struct peal_queue *q);
