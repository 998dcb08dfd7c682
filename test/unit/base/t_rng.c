/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rng.h: the published first outputs, the same sequence for the same seed, and draws that stay in
 * their range. One thread.
 */
#include "unit.h"

#include <string.h>

#include "base/rng.h"

/* xoshiro256** from state {1, 2, 3, 4}: the reference code's first outputs. */
static void t_reference(void **state)
{
	struct rng r = {{1, 2, 3, 4}};
	static const uint64_t want[] = {11520u, 0u, 1509978240u, 1215971899390074240u};

	for (int i = 0; i < 4; i++)
		assert_int_equal(rng_u64(&r), want[i]);
}

/* splitmix64 from 1234567: the reference code's first outputs. */
static void t_splitmix(void **state)
{
	uint64_t x = 1234567;

	assert_int_equal(rng_splitmix(&x), 6457827717110365317ull);
	assert_int_equal(rng_splitmix(&x), 3203168211198807973ull);
}

static void t_seeded(void **state)
{
	struct rng a, b, c;
	bool is_different = false;

	rng_init(&a, 7);
	rng_init(&b, 7);
	rng_init(&c, 8);
	for (int i = 0; i < 100; i++) {
		uint64_t x = rng_u64(&a);

		assert_int_equal(x, rng_u64(&b));
		is_different |= x != rng_u64(&c);
	}
	assert_true(is_different);
}

static void t_ranges(void **state)
{
	struct rng r;
	unsigned seen[7] = {0}, nr_true = 0;

	rng_init(&r, unit_seed(1));
	for (int i = 0; i < 70000; i++) {
		uint64_t x = rng_below(&r, 7);
		double f = rng_f64(&r);

		assert_true(x < 7);
		seen[x]++;
		assert_true(f >= 0.0 && f < 1.0);
		nr_true += rng_chance(&r, 1, 4);
	}
	/* 10000 each with a deviation of 93; 17500 with one of 115. */
	for (int i = 0; i < 7; i++)
		assert_in_range(seen[i], 9000, 11000);
	assert_in_range(nr_true, 16500, 18500);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(rng_below(&r, 1), 0);
		assert_true(rng_below(&r, (1ull << 63) + 1) <= 1ull << 63);
		assert_false(rng_chance(&r, 0, 3));
		assert_true(rng_chance(&r, 3, 3));
	}
}

static void t_fill(void **state)
{
	uint8_t a[32], b[32];
	struct rng r;

	for (size_t n = 0; n <= 24; n++) {
		memset(a, 0xEE, sizeof(a));
		rng_init(&r, 3);
		rng_fill(&r, a, n);
		for (size_t i = n; i < sizeof(a); i++)
			assert_int_equal(a[i], 0xEE);
		rng_init(&r, 3);
		rng_fill(&r, b, n);
		assert_memory_equal(a, b, n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_reference), cmocka_unit_test(t_splitmix),
		cmocka_unit_test(t_seeded),    cmocka_unit_test(t_ranges),
		cmocka_unit_test(t_fill),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
