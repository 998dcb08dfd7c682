/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What most tests of target/ start from: a node, a KV namespace 1, and an enabled controller with
 * one I/O queue. An operator's, unless the test makes its own.
 */
#pragma once

#include "unit.h"
#include "fake_ns.h"
#include "fake_tr.h"

struct fix {
	struct fake_node *n;
	struct fake_tr *t;
	struct fake_ns *ns;
};

static inline void fix_note(void *arg, uint16_t st)
{
	*(uint16_t *)arg = st;
}

static inline bool fix_is_noted(void *arg)
{
	return *(uint16_t *)arg != 0xffff;
}

static inline uint16_t fix_ns_del(struct fake_node *n, uint32_t nsid)
{
	uint16_t st = 0xffff;

	tgt_subsys_ns_del(n->ss, nsid, fix_note, &st);
	assert_true(fake_node_run(n, fix_is_noted, &st, 100000));
	return st;
}

static inline struct fix *fix_create(unsigned nr, const struct fake_tr_opts *o)
{
	static const struct fake_tr_opts operator= {.is_operator = true};
	struct fix *f = calloc(1, sizeof(*f));

	f->n = fake_node_create(&(struct fake_node_opts){
		.seed = unit_seed(1), .nr = nr, .capacity_bytes = 1ull << 40});
	tgt_subsys_csi_add(f->n->ss, fake_ns_csi());
	f->ns = fake_ns_create(1, 1 << 30);
	assert_int_equal(tgt_subsys_ns_add(f->n->ss, &f->ns->ns, 1), 0);
	f->t = fake_tr_create(f->n, o ? o : &operator);
	assert_true(fake_tr_enable(f->t));
	assert_true(fake_tr_queue_create(f->t, 1, 64));
	return f;
}

static inline void fix_destroy(struct fix *f)
{
	fake_tr_destroy(f->t);
	for (uint32_t nsid = 1; nsid <= TGT_NS_MAX; nsid++)
		if (tgt_subsys_ns(f->n->ss, nsid))
			assert_int_equal(fix_ns_del(f->n, nsid), 0);
	fake_node_destroy(f->n);
	free(f);
}

/* A command with a data buffer of one page, filled before or read after. The status without DNR. */
static inline uint16_t fix_data(struct fake_tr *t, uint16_t qid, struct nvme_sqe *sqe, void *page,
				struct nvme_cqe *cqe)
{
	uint64_t addr = fake_tr_alloc(t, FAKE_PAGE);
	uint16_t st;

	memcpy(fake_tr_ptr(t, addr), page, FAKE_PAGE);
	sqe->prp1 = addr;
	sqe->prp2 = 0;
	st = fake_tr_exec(t, qid, sqe, cqe);
	memcpy(page, fake_tr_ptr(t, addr), FAKE_PAGE);
	fake_tr_free(t, addr, FAKE_PAGE);
	return st;
}
