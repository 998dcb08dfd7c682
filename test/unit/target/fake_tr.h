/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport without a wire, and the host at its other end: memory, a DMA map, rings with
 * doorbells and phases, builders for PRP and SGL. For tests of target/, kv/ and of the whole
 * daemon under a seeded scheduler; one thread, driven by fake_node_step().
 *
 * The device half (fake_dev.c) does what a real memory transport does: bursts, a reserved slot in
 * the completion queue for every command taken, drains on delete and reset. The host half
 * (fake_tr.c) keeps CIDs and finds completions by CID.
 *
 * Bus addresses start at FAKE_BUS; memory comes in pages, and every `map_pages` of them are one
 * DMA map, so that a buffer may span maps. fake_tr_unmap() takes one away under whatever runs.
 */
#pragma once

#include "fake_node.h"

#define FAKE_BUS 0x100000000ull
#define FAKE_QUEUES 16
#define FAKE_PAGE 4096u
#define FAKE_CIDS 8192u

struct fake_tr_opts {
	unsigned home;	      /* worker; default 0 */
	uint32_t mem_pages;   /* 0 = 4096 */
	uint32_t map_pages;   /* 0 = 64 */
	uint32_t max_queues;  /* 0 = FAKE_QUEUES */
	uint32_t adminq_size; /* 0 = 32 */
	uint8_t mdts;
	bool is_operator;
	struct tgt_subsys *ss; /* NULL = the node's */
};

/* One command at the host. */
struct fake_cmd {
	bool is_used, is_done;
	struct nvme_cqe cqe;
	uint64_t *lists; /* pages of PRP and SGL lists, given back when it is reaped */
	unsigned nr_lists;
};

struct fake_hostq {
	uint64_t sq, cq; /* bus addresses */
	uint32_t size, tail, sq_head, cq_head, phase;
	uint32_t nr_cmds;      /* under way */
	struct fake_cmd *cmds; /* by CID */
	uint16_t next_cid;
};

struct fake_dev;
struct fake_tr {
	struct fake_node *n;
	struct tgt_subsys *ss;
	struct tgt_ctrl *ctrl;
	struct fake_dev *dev;
	uint8_t *mem;
	uint32_t nr_pages, map_pages;
	uint64_t *page_is_used; /* bits */
	struct fake_hostq q[FAKE_QUEUES + 1];
	uint32_t adminq_size;
	uint32_t css;	    /* for CC.CSS: 6 unless a test says otherwise */
	uint64_t lists[64]; /* of the command that is being built */
	unsigned nr_lists;
	unsigned nr_strays; /* completions for CIDs that are not under way: must stay 0 */
};

struct fake_tr *fake_tr_create(struct fake_node *n, const struct fake_tr_opts *o);
void fake_tr_destroy(struct fake_tr *t); /* resets the controller first */

/* Memory: whole pages, adjacent. Asserts that there is some. */
uint64_t fake_tr_alloc(struct fake_tr *t, uint64_t bytes);
void fake_tr_free(struct fake_tr *t, uint64_t addr, uint64_t bytes);
uint8_t *fake_tr_ptr(struct fake_tr *t, uint64_t addr);
void fake_tr_unmap(struct fake_tr *t, uint64_t addr); /* the map that covers it */
void fake_tr_remap(struct fake_tr *t, uint64_t addr);

/* Registers. */
uint64_t fake_tr_reg(struct fake_tr *t, uint32_t off, uint32_t len);
void fake_tr_reg_set(struct fake_tr *t, uint32_t off, uint32_t len, uint64_t val);
/* AQA, ASQ, ACQ, CC as a host would, then steps until CSTS.RDY. */
bool fake_tr_enable(struct fake_tr *t);
bool fake_tr_disable(struct fake_tr *t);

/* Create CQ and SQ by admin commands; their worker is (qid - 1) modulo the number of workers. */
bool fake_tr_queue_create(struct fake_tr *t, uint16_t qid, uint32_t size);
bool fake_tr_queue_delete(struct fake_tr *t, uint16_t qid);

/* The SQE's data pointer. Lists take host memory until the command is reaped. */
void fake_tr_prp(struct fake_tr *t, struct nvme_sqe *sqe, uint64_t addr, uint64_t len);
void fake_tr_prp_pages(struct fake_tr *t, struct nvme_sqe *sqe, const uint64_t *pages, unsigned nr,
		       uint32_t off);
/* Data block if one, else segments of at most per_segment descriptors. */
void fake_tr_sgl(struct fake_tr *t, struct nvme_sqe *sqe, const struct nvme_sgl *descs, unsigned nr,
		 unsigned per_segment);

/* Puts the SQE in the ring (its CID is set here) and rings. The CID, or -EAGAIN: ring full. */
int fake_tr_submit(struct fake_tr *t, uint16_t qid, const struct nvme_sqe *sqe);
void fake_tr_reap(struct fake_tr *t, uint16_t qid); /* takes what is in the CQ, moves its head */
/* Reaps; true once when cid is over. */
bool fake_tr_done(struct fake_tr *t, uint16_t qid, uint16_t cid, struct nvme_cqe *cqe);
/* Submits and steps until it is over; the status without phase and DNR. cqe may be NULL. */
uint16_t fake_tr_exec(struct fake_tr *t, uint16_t qid, const struct nvme_sqe *sqe,
		      struct nvme_cqe *cqe);

/* Status of a CQE without phase; with DNR. */
static inline uint16_t fake_tr_status(const struct nvme_cqe *cqe)
{
	return cqe->status >> 1;
}
