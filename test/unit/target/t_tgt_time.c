/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timed commands: they land in the bucket of what they took, under their opcode; a namespace that
 * goes waits for them; quantiles are the upper bounds of buckets.
 */
#include "fake_fix.h"
#include "target/tgt_int.h"
#include "target/tgt_time.h"

static void t_opcodes(void **state)
{
	assert_int_equal(tgt_time_opcode(1, 0), -1);
	assert_int_equal(tgt_time_opcode(1, 3), NVME_KV_RETRIEVE);
	assert_int_equal(tgt_time_opcode(0, 1), 0);
	assert_int_equal(tgt_time_opcode(0, 6), -1);
	for (unsigned v = 1; v < TGT_TIME_VERBS; v++)
		assert_int_not_equal(tgt_time_opcode(1, v), -1);
}

static void t_quantiles(void **state)
{
	uint64_t b[TGT_TIME_BUCKETS] = {0};

	assert_int_equal(tgt_time_quantile(b, 500), 0);
	b[3] = 1;
	assert_int_equal(tgt_time_quantile(b, 500), 2048);
	assert_int_equal(tgt_time_quantile(b, 999), 2048);
	b[0] = 98;
	b[24] = 1;
	assert_int_equal(tgt_time_quantile(b, 500), 256);
	assert_int_equal(tgt_time_quantile(b, 990), 2048);
	assert_int_equal(tgt_time_quantile(b, 999), 256ull << 24);
}

/* A request of worker `id`, begun `ago` before now. */
static void take(struct fix *f, unsigned id, uint8_t opc, uint64_t ago)
{
	struct tgt_worker *w = f->n->node.workers[id];
	struct tgt_sq sq = {.ctrl = f->t->ctrl, .worker = w, .qid = 1};
	static struct tgt_req req;

	req = (struct tgt_req){.sqe = {.opc = opc, .nsid = 1}, .sq = &sq};
	req.ns = tgt_subsys_ns(f->n->ss, 1);
	f->n->clock_ns += ago;
	tgt_time_begin(&req, reactor_now_ns(w->reactor) - ago);
	assert_int_equal(req.watch, TGT_WATCH_TIME);
	assert_int_equal(counter_get(&req.ns->stat[id].inflight), 1);
	tgt_time_end(&req);
	assert_int_equal(counter_get(&req.ns->stat[id].inflight), 0);
	req.ns = NULL;
	req.watch = 0;
	tgt_time_begin(&req, 0); /* of no namespace: not at all */
	assert_int_equal(req.watch, 0);
}

static void t_buckets(void **state)
{
	struct fix *f = fix_create(2, NULL);
	struct tgt_ns *ns = tgt_subsys_ns(f->n->ss, 1);
	unsigned verb = 3;
	uint8_t opc = (uint8_t)tgt_time_opcode(ns->ops->csi, verb);
	struct tgt_time_sum sum;

	assert_false(tgt_time_sum(ns, verb, &sum));
	take(f, 0, opc, 0);
	take(f, 0, opc, 255);
	take(f, 1, opc, 256);
	take(f, 1, opc, 511);
	take(f, 1, opc, 512);
	take(f, 0, opc, 1ull << 40);
	take(f, 0, 0x77, 5);
	assert_true(tgt_time_sum(ns, verb, &sum));
	assert_int_equal(sum.nr, 6);
	assert_int_equal(sum.ns, 255 + 256 + 511 + 512 + (1ull << 40));
	assert_int_equal(sum.bucket[0], 2);
	assert_int_equal(sum.bucket[1], 2);
	assert_int_equal(sum.bucket[2], 1);
	assert_int_equal(sum.bucket[TGT_TIME_BUCKETS - 1], 1);
	assert_true(tgt_time_sum(ns, 0, &sum));
	assert_int_equal(sum.nr, 1);
	fix_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_opcodes),
		cmocka_unit_test(t_quantiles),
		cmocka_unit_test(t_buckets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
