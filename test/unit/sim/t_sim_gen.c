/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_gen: that what it makes is a trace at all - in order, ids that stand for prefixes, the same
 * for the same options - and how it takes odd options. That it is a trace *like the real one* is
 * tested in test/sim/. One thread.
 */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "sim/sim_gen.h"

static bool same_trace(const struct sim_trace *a, const struct sim_trace *b)
{
	if (a->nr_reqs != b->nr_reqs || a->nr_refs != b->nr_refs)
		return false;
	for (size_t i = 0; i < a->nr_reqs; i++)
		if (a->reqs[i].time_ns != b->reqs[i].time_ns ||
		    a->reqs[i].input_tokens != b->reqs[i].input_tokens ||
		    a->reqs[i].output_tokens != b->reqs[i].output_tokens)
			return false;
	return !memcmp(a->ids, b->ids, a->nr_refs * sizeof(*a->ids));
}

static void t_seeded(void **state)
{
	struct sim_gen_opt opt = {.seed = 5, .nr_reqs = 2000};
	struct sim_trace a = {0}, b = {0}, c = {0};

	assert_int_equal(sim_gen(&a, &opt), 0);
	assert_int_equal(sim_gen(&b, &opt), 0);
	opt.seed = 6;
	assert_int_equal(sim_gen(&c, &opt), 0);
	assert_int_equal(a.nr_reqs, 2000);
	assert_true(same_trace(&a, &b));
	assert_false(same_trace(&a, &c));
	sim_trace_fini(&a);
	sim_trace_fini(&b);
	sim_trace_fini(&c);
}

/* A longer trace begins with the shorter one: nr_reqs only says where to stop. */
static void t_prefix_of_longer(void **state)
{
	struct sim_gen_opt opt = {.seed = 7, .nr_reqs = 500};
	struct sim_trace a = {0}, b = {0};

	assert_int_equal(sim_gen(&a, &opt), 0);
	opt.nr_reqs = 1500;
	assert_int_equal(sim_gen(&b, &opt), 0);
	b.nr_reqs = a.nr_reqs;
	assert_true(b.nr_refs > a.nr_refs);
	b.nr_refs = a.nr_refs;
	assert_true(same_trace(&a, &b));
	sim_trace_fini(&a);
	sim_trace_fini(&b);
}

struct seen {
	uint64_t parent; /* id before it, + 1; 0 for a root */
	uint32_t depth;
	bool is_tail; /* a partial one */
};

/* The same id: the same depth, the same block before it, and never both a partial tail and full. */
static void check_prefixes(const struct sim_trace *t)
{
	struct seen *seen = calloc(t->nr_refs, sizeof(*seen));
	uint64_t nr_seen = 0;

	assert_non_null(seen);
	for (size_t i = 0; i < t->nr_reqs; i++) {
		const struct sim_req *req = &t->reqs[i];

		assert_true(i == 0 || req->time_ns >= req[-1].time_ns);
		assert_int_equal(req->nr_blocks, sim_trace_blocks(req->input_tokens));
		assert_int_equal(req->ids[0], 0);
		for (uint32_t b = 0; b < req->nr_blocks; b++) {
			struct seen now = {.parent = b ? req->ids[b - 1] + 1 : 0, .depth = b};
			struct seen *was = &seen[req->ids[b]];

			now.is_tail = b + 1 == req->nr_blocks && sim_trace_tail_is_partial(req);
			assert_true(req->ids[b] <= nr_seen); /* dense, in order of first use */
			if (req->ids[b] == nr_seen) {
				*was = now;
				nr_seen++;
			}
			assert_int_equal(was->parent, now.parent);
			assert_int_equal(was->depth, now.depth);
			assert_int_equal(was->is_tail, now.is_tail);
		}
	}
	free(seen);
}

static void t_prefixes(void **state)
{
	struct sim_gen_opt opt = {.seed = unit_seed(1)};
	struct sim_trace t = {0};

	assert_int_equal(sim_gen(&t, &opt), 0);
	assert_int_equal(t.nr_reqs, SIM_GEN_REQS);
	check_prefixes(&t);
	sim_trace_fini(&t);
}

static void t_scale(void **state)
{
	struct sim_gen_opt opt = {.seed = 3, .scale = 0.1};
	struct sim_trace t = {0};

	assert_int_equal(sim_gen(&t, &opt), 0);
	assert_int_equal(t.nr_reqs, 1203);
	assert_in_range(t.reqs[t.nr_reqs - 1].time_ns, SIM_GEN_DURATION_NS / 10 * 8,
			SIM_GEN_DURATION_NS / 10 * 12);
	check_prefixes(&t);
	sim_trace_fini(&t);
}

/* A small model: no prompt is longer, conversations end when they are full. */
static void t_small_context(void **state)
{
	struct sim_gen_opt opt = {.seed = 4, .nr_reqs = 3000, .max_input_tokens = 1024};
	struct sim_trace t = {0};

	assert_int_equal(sim_gen(&t, &opt), 0);
	for (size_t i = 0; i < t.nr_reqs; i++)
		assert_true(t.reqs[i].input_tokens <= 1024);
	check_prefixes(&t);
	sim_trace_fini(&t);
}

static void t_refused(void **state)
{
	static const struct sim_gen_opt bad[] = {
		{.scale = -1.0},
		{.scale = 1000.0},
		{.scale = 0.0 / 0.0},
		{.max_input_tokens = 100},
		{.max_input_tokens = UINT32_MAX},
	};
	struct sim_trace t = {0};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(sim_gen(&t, &bad[i]), -EINVAL);
		assert_null(t.reqs);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_seeded),   cmocka_unit_test(t_prefix_of_longer),
		cmocka_unit_test(t_prefixes), cmocka_unit_test(t_scale),
		cmocka_unit_test(t_refused),  cmocka_unit_test(t_small_context),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
