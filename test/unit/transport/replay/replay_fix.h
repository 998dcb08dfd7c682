/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node with a namespace, a replay host in it, and a load of random commands that checks what
 * comes back. The model of the namespace's bytes is exact because the load keeps commands apart
 * that touch the same bytes.
 */
#pragma once

#include "fake_fix.h"
#include <errno.h>
#include "base/container.h"
#include "base/must.h"
#include "transport/replay/replay.h"
#include "transport/replay/replay_record.h"

#define LOAD_BLOCK 65536u /* a command stays inside one block of the namespace */
#define LOAD_BLOCKS (FAKE_NS_BYTES / LOAD_BLOCK)

struct load {
	struct replay_load l;
	struct rng rng;
	uint32_t nr_left, nr_done;
	uint8_t model[FAKE_NS_BYTES];
	bool is_busy[LOAD_BLOCKS];
	unsigned first_block, nr_blocks; /* this load's part of the namespace */
	struct nvme_sqe sqe[4096];	 /* by slot */
};

static inline int64_t load_next(struct replay_load *l, uint32_t slot, struct nvme_sqe *sqe,
				void *buf)
{
	struct load *ld = container_of(l, struct load, l);
	unsigned block = ld->first_block + (unsigned)rng_below(&ld->rng, ld->nr_blocks);
	uint32_t len = 1 + (uint32_t)rng_below(&ld->rng,
					       rng_chance(&ld->rng, 1, 8) ? LOAD_BLOCK : 9000);
	uint32_t off = block * LOAD_BLOCK + (uint32_t)rng_below(&ld->rng, LOAD_BLOCK - len + 1);

	if (ld->nr_left == 0 || ld->is_busy[block])
		return -EAGAIN;
	ld->nr_left--;
	*sqe = (struct nvme_sqe){.nsid = 1, .cdw10 = len, .cdw12 = off, .cdw13 = block};
	switch (rng_below(&ld->rng, 5)) {
	case 0:
	case 1:
		sqe->opc = FAKE_WRITE;
		rng_fill(&ld->rng, buf, len);
		memcpy(ld->model + off, buf, len);
		break;
	case 2:
	case 3:
		sqe->opc = FAKE_READ;
		memset(buf, 0xee, len);
		break;
	default:
		sqe->opc = rng_chance(&ld->rng, 1, 4) ? 0x77 : FAKE_PING;
		sqe->nsid = rng_chance(&ld->rng, 1, 4) ? 9 : 1;
		len = 0;
	}
	ld->is_busy[block] = true;
	ld->sqe[slot] = *sqe;
	return len;
}

static inline void load_done(struct replay_load *l, uint32_t slot, const struct nvme_cqe *cqe,
			     const void *buf)
{
	struct load *ld = container_of(l, struct load, l);
	const struct nvme_sqe *sqe = &ld->sqe[slot];
	uint16_t st = cqe->status >> 1 & 0x7ff;

	ld->is_busy[sqe->cdw13] = false;
	ld->nr_done++;
	if (sqe->nsid != 1)
		assert_int_equal(st, NVME_ST_INVALID_NS);
	else if (sqe->opc == 0x77)
		assert_int_equal(st, NVME_ST_INVALID_OPCODE);
	else
		assert_int_equal(st, NVME_ST_OK);
	if (st == NVME_ST_OK && sqe->opc == FAKE_PING)
		assert_int_equal(cqe->dw0, sqe->cdw12);
	if (sqe->opc == FAKE_READ)
		assert_memory_equal(buf, ld->model + sqe->cdw12, sqe->cdw10);
}

static inline struct load *load_create(uint64_t seed, uint32_t nr, unsigned first,
				       unsigned nr_blocks)
{
	struct load *ld = calloc(1, sizeof(*ld));

	must(ld);
	ld->l = (struct replay_load){load_next, load_done};
	rng_init(&ld->rng, seed);
	ld->nr_left = nr;
	ld->first_block = first;
	ld->nr_blocks = nr_blocks;
	return ld;
}

static inline bool load_is_over(void *arg)
{
	struct load *ld = arg;

	return ld->nr_left == 0 && memchr(ld->is_busy, true, sizeof(ld->is_busy)) == NULL;
}

struct rfix {
	struct fake_node *n;
	struct fake_ns *ns;
};

static inline void rfix_init(struct rfix *f, unsigned nr)
{
	f->n = fake_node_create(&(struct fake_node_opts){.seed = unit_seed(5), .nr = nr});
	tgt_subsys_csi_add(f->n->ss, fake_ns_csi());
	f->ns = fake_ns_create(1, 1 << 20);
	assert_int_equal(tgt_subsys_ns_add(f->n->ss, &f->ns->ns, 1), 0);
}

static inline void rfix_fini(struct rfix *f)
{
	assert_int_equal(fix_ns_del(f->n, 1), 0);
	fake_node_destroy(f->n);
}

static inline void rfix_set(void *arg)
{
	*(bool *)arg = true;
}

static inline bool rfix_is_set(void *arg)
{
	return *(bool *)arg;
}

static inline void rfix_host_end(struct rfix *f, struct replay_host *h)
{
	bool is_stopped = false;

	replay_host_stop(h, rfix_set, &is_stopped);
	assert_true(fake_node_run(f->n, rfix_is_set, &is_stopped, 100000));
	replay_host_destroy(h);
}
