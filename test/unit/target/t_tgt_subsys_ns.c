/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces of a subsystem under I/O from several workers: they come, go and are resized, no
 * command meets one that is destroyed, and capacity holds.
 */
#include "fake_fix.h"
#include <errno.h>

static struct fake_node *node(unsigned nr, uint64_t capacity)
{
	struct fake_node_opts o = {.seed = unit_seed(3), .nr = nr, .capacity_bytes = capacity};
	struct fake_node *n = fake_node_create(&o);

	tgt_subsys_csi_add(n->ss, fake_ns_csi());
	return n;
}

static void test_capacity(void **state)
{
	struct fake_node *n = node(1, 1000);
	struct fake_ns *a = fake_ns_create(1, 600), *b = fake_ns_create(1, 401);
	uint16_t st = 0xffff;

	assert_int_equal(tgt_subsys_ns_add(n->ss, &a->ns, 5), 0);
	assert_int_equal(a->ns.nsid, 5);
	assert_ptr_equal(a->ns.subsys, n->ss);
	assert_int_equal(tgt_subsys_ns_add(n->ss, &b->ns, 5), -EEXIST);
	assert_int_equal(tgt_subsys_ns_add(n->ss, &b->ns, TGT_NS_MAX + 1), -ENOSPC);
	assert_int_equal(tgt_subsys_ns_add(n->ss, &b->ns, 0), -ENOSPC);
	b->capacity = 400;
	assert_int_equal(tgt_subsys_ns_add(n->ss, &b->ns, 0), 0);
	assert_int_equal(b->ns.nsid, 1);
	tgt_subsys_ns_resize(n->ss, 1, 401, fix_note, &st);
	assert_int_equal(st, NVME_ST_NS_INSUFFICIENT_CAPACITY);
	tgt_subsys_ns_resize(n->ss, 1, ~0ull, fix_note, &st);
	assert_int_equal(st, NVME_ST_NS_INSUFFICIENT_CAPACITY);
	tgt_subsys_ns_resize(n->ss, 1, 10, fix_note, &st);
	assert_int_equal(st, NVME_ST_OK);
	tgt_subsys_ns_resize(n->ss, 5, 990, fix_note, &st);
	assert_int_equal(st, NVME_ST_OK);
	tgt_subsys_ns_resize(n->ss, 2, 1, fix_note, &st);
	assert_int_equal(st, NVME_ST_INVALID_NS);
	tgt_subsys_ns_resize(n->ss, 5, 0, fix_note, &st);
	assert_int_equal(st, NVME_ST_INVALID_FIELD);
	tgt_subsys_ns_del(n->ss, 2, fix_note, &st);
	assert_int_equal(st, NVME_ST_INVALID_NS);
	assert_int_equal(fix_ns_del(n, 5), 0);
	assert_int_equal(fix_ns_del(n, 1), 0);
	assert_null(tgt_subsys_ns(n->ss, 0));
	assert_null(tgt_subsys_ns(n->ss, 5));
	assert_null(tgt_subsys_ns(n->ss, ~0u));
	fake_node_destroy(n);
}

/* Three workers send to a namespace that is deleted and made again all the time. */
static void test_churn(void **state)
{
	struct nvme_sqe ping = {.opc = FAKE_PING, .nsid = 1};
	unsigned nr_ok = 0, nr_gone = 0;
	struct fix *f = fix_create(3, NULL);
	uint16_t st = 0xffff;
	struct nvme_cqe cqe;
	bool is_there = true;

	assert_true(fake_tr_queue_create(f->t, 2, 64));
	assert_true(fake_tr_queue_create(f->t, 3, 64));
	for (int i = 0; i < 200000; i++) {
		uint16_t qid = 1 + (uint16_t)rng_below(&f->n->rng, 3);

		if (rng_chance(&f->n->rng, 1, 3))
			fake_tr_submit(f->t, qid, &ping);
		for (uint16_t c = 0; c < FAKE_CIDS && f->t->q[qid].nr_cmds > 40; c++) {
			if (!f->t->q[qid].cmds[c].is_used || !fake_tr_done(f->t, qid, c, &cqe))
				continue;
			nr_ok += fake_tr_status(&cqe) == NVME_ST_OK;
			nr_gone += (fake_tr_status(&cqe) & 0x7ff) == NVME_ST_INVALID_NS;
		}
		if (is_there && rng_chance(&f->n->rng, 1, 500)) {
			st = 0xffff;
			is_there = false;
			tgt_subsys_ns_del(f->n->ss, 1, fix_note, &st);
		}
		if (!is_there && st == 0 && rng_chance(&f->n->rng, 1, 100)) {
			f->ns = fake_ns_create(1, 1 << 20);
			assert_int_equal(tgt_subsys_ns_add(f->n->ss, &f->ns->ns, 1), 0);
			is_there = true;
		}
		fake_node_step(f->n);
	}
	assert_true(nr_ok > 1000 && nr_gone > 1000);
	while (!is_there && st != 0)
		fake_node_step(f->n);
	fix_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_capacity),
		cmocka_unit_test(test_churn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
