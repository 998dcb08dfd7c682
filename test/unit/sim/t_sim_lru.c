/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_lru: small cases by hand, and random traces against a cache that is nothing but an array in
 * order of last use. One thread.
 */
#include "unit.h"

#include <string.h>

#include "base/rng.h"
#include "sim/sim_lru.h"

static void t_prefix_only(void **state)
{
	static const uint64_t a[] = {0, 1, 2};
	static const uint64_t b[] = {0, 9, 2};
	struct sim_lru *lru = sim_lru_create(SIM_LRU_UNBOUNDED);

	assert_non_null(lru);
	assert_int_equal(sim_lru_access(lru, a, 3), 0);
	assert_int_equal(sim_lru_access(lru, a, 3), 3);
	/* Block 2 is resident but behind a miss. */
	assert_int_equal(sim_lru_access(lru, b, 3), 1);
	assert_int_equal(sim_lru_access(lru, a, 0), 0);
	assert_int_equal(sim_lru_stats(lru).refs, 9);
	assert_int_equal(sim_lru_stats(lru).hits, 4);
	assert_int_equal(sim_lru_stats(lru).residents, 4);
	assert_int_equal(sim_lru_stats(lru).evictions, 0);
	sim_lru_destroy(lru);
}

/* The leaf is the first to go; a request larger than the cache leaves its root behind. */
static void t_leaf_first(void **state)
{
	static const uint64_t a[] = {0, 1, 2};
	static const uint64_t b[] = {7};
	static const uint64_t big[] = {10, 11, 12, 13, 14};
	struct sim_lru *lru = sim_lru_create(3);

	assert_non_null(lru);
	sim_lru_access(lru, a, 3);
	sim_lru_access(lru, b, 1);
	assert_int_equal(sim_lru_access(lru, a, 3), 2);
	sim_lru_access(lru, big, 5);
	assert_int_equal(sim_lru_access(lru, big, 5), 3);
	assert_int_equal(sim_lru_stats(lru).residents, 3);
	sim_lru_destroy(lru);
}

#define MODEL_MAX 4096

/* Newest first. */
struct model {
	uint64_t ids[MODEL_MAX];
	size_t nr;
	size_t capacity;
};

static size_t model_find(const struct model *m, uint64_t id)
{
	size_t i = 0;

	while (i < m->nr && m->ids[i] != id)
		i++;
	return i;
}

static uint32_t model_access(struct model *m, const uint64_t *ids, uint32_t nr)
{
	uint32_t nr_hits = 0;

	while (nr_hits < nr && model_find(m, ids[nr_hits]) < m->nr)
		nr_hits++;
	for (uint32_t i = nr; i-- > 0;) {
		size_t at = model_find(m, ids[i]);

		if (at == m->nr)
			m->nr++;
		assert_true(m->nr <= MODEL_MAX);
		memmove(m->ids + 1, m->ids, at * sizeof(*m->ids));
		m->ids[0] = ids[i];
		if (m->capacity && m->nr > m->capacity)
			m->nr = m->capacity;
	}
	return nr_hits;
}

static void check_random(uint64_t seed, size_t capacity)
{
	static struct model m;
	struct sim_lru *lru = sim_lru_create(capacity);
	struct rng r;

	assert_non_null(lru);
	memset(&m, 0, sizeof(m));
	m.capacity = capacity;
	rng_init(&r, seed);
	for (int n = 0; n < 4000; n++) {
		uint32_t nr = (uint32_t)rng_below(&r, 12);
		uint64_t ids[12];

		/* Ids of very different sizes, so that the table sees clusters and far jumps. */
		for (uint32_t i = 0; i < nr; i++)
			ids[i] = rng_below(&r, 3000) * (rng_chance(&r, 1, 2) ? 1 : 0x100000001ull);
		if (m.nr + nr > 3500 && !capacity)
			break;
		assert_int_equal(sim_lru_access(lru, ids, nr), model_access(&m, ids, nr));
		assert_int_equal(sim_lru_stats(lru).residents, m.nr);
	}
	sim_lru_destroy(lru);
}

static void t_random(void **state)
{
	uint64_t seed = unit_seed(1);

	check_random(seed, SIM_LRU_UNBOUNDED);
	check_random(seed + 1, 1);
	check_random(seed + 2, 7);
	check_random(seed + 3, 500);
	check_random(seed + 4, 2500);
}

static void t_run(void **state)
{
	static const uint64_t ids[] = {0, 1, 2};
	struct sim_trace t = {0};
	struct sim_lru_stats s;

	assert_int_equal(sim_lru_run(&t, 10, &s), 0);
	assert_true(sim_lru_percent(&s) == 0.0);
	for (int i = 0; i < 4; i++) {
		struct sim_req req = {.input_tokens = 1300, .nr_blocks = 3, .ids = ids};

		assert_int_equal(sim_trace_append(&t, &req), 0);
	}
	assert_int_equal(sim_lru_run(&t, 10, &s), 0);
	assert_true(sim_lru_percent(&s) == 75.0);
	sim_trace_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_prefix_only),
		cmocka_unit_test(t_leaf_first),
		cmocka_unit_test(t_random),
		cmocka_unit_test(t_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
