/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay_hist: percentiles of random times against the sorted list of them: never below the true
 * one and at most one step above. One thread.
 */
#include "unit.h"

#include "base/rng.h"
#include "cli/replay_hist.h"

#define NR 20000

static struct replay_hist hist;

static void t_empty(void **state)
{
	hist = (struct replay_hist){0};
	assert_int_equal(replay_hist_ns(&hist, 500), 0);
}

static void t_edges(void **state)
{
	static const uint64_t times[] = {0, 1, 63, 64, 65, 127, 128, UINT32_MAX, UINT64_MAX};

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		hist = (struct replay_hist){0};
		replay_hist_add(&hist, times[i]);
		assert_int_equal(replay_hist_ns(&hist, 500), times[i]);
		assert_int_equal(replay_hist_ns(&hist, 1000), times[i]);
	}
}

static int cmp(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void t_against_sorted(void **state)
{
	static const unsigned permille[] = {1, 10, 500, 900, 990, 999, 1000};
	static uint64_t times[NR];
	struct rng rng;

	rng_init(&rng, unit_seed(7));
	hist = (struct replay_hist){0};
	for (unsigned i = 0; i < NR; i++) {
		times[i] = rng_u64(&rng) >> (20 + rng_u64(&rng) % 40);
		replay_hist_add(&hist, times[i]);
	}
	qsort(times, NR, sizeof(times[0]), cmp);
	for (size_t i = 0; i < sizeof(permille) / sizeof(permille[0]); i++) {
		uint64_t want = times[(NR * permille[i] + 999) / 1000 - 1];
		uint64_t got = replay_hist_ns(&hist, permille[i]);

		assert_true(got >= want);
		assert_true(got - want <= want / REPLAY_HIST_STEPS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_empty),
		cmocka_unit_test(t_edges),
		cmocka_unit_test(t_against_sorted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
