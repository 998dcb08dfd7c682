/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admit.c: everything while there is budget, a second touch while there is little; tails of classes
 * with one length, and classes that nobody reads, are left out, and come back when they are read.
 */
#include "unit.h"

#include <stdlib.h>

#include "base/rng.h"
#include "policy/admit.h"

static struct admit *a;

static int begin(void **state)
{
	a = calloc(1, sizeof(*a));
	return a ? 0 : -1;
}

static int end(void **state)
{
	free(a);
	return 0;
}

static void budget(void **state)
{
	for (uint64_t i = 1; i < 1000; i++) {
		assert_true(admit_wants(a, i << 32 | i, 0, 4096, 1024));
		assert_true(admit_wants(a, i << 32 | i, 0, 4096, 256));
		assert_false(admit_wants(a, i << 32 | i, 0, 4096, 255));
		assert_false(admit_wants(a, i << 32 | i, 0, 4096, 0));
	}
	for (uint64_t i = 1; i < 1000; i++)
		assert_true(admit_wants(a, i << 32 | i, 0, 4096, 1));
	/* Written, and forgotten. */
	assert_false(admit_wants(a, 7ull << 32 | 7, 0, 4096, 1));
}

static void tails(void **state)
{
	struct rng r;

	rng_init(&r, unit_seed(5));
	for (unsigned i = 0; i < 40; i++)
		assert_true(admit_wants(a, i, 9, 65536, 1024));
	/* One in eight is a tail: none of them goes, all others do. */
	for (unsigned i = 0; i < 10000; i++) {
		bool is_tail = rng_chance(&r, 1, 8);

		assert_int_equal(admit_wants(a, i, 9, is_tail ? 1024 : 65536, 1024), !is_tail);
	}
	/* Longer is no tail. Another class isn't known yet. */
	assert_true(admit_wants(a, 1, 9, 65537, 1024));
	assert_true(admit_wants(a, 1, 10, 1024, 1024));
	/* Two lengths, each of them often: no tails at all. */
	for (unsigned i = 0; i < 10000; i++)
		assert_true(admit_wants(a, i, 11, rng_chance(&r, 1, 3) ? 1024 : 65536, 1024));
	/* A class that changes its length is believed soon. */
	for (unsigned i = 0; i < 100; i++)
		admit_wants(a, i, 9, 1024, 1024);
	assert_true(admit_wants(a, 1, 9, 1024, 1024));
}

static unsigned nr_wanted(uint16_t cls)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < 160; i++)
		nr += admit_wants(a, i, cls, 100, 1024);
	return nr;
}

static void dead(void **state)
{
	for (unsigned i = 0; i < 255; i++)
		admit_gone(a, 3, false);
	assert_int_equal(nr_wanted(3), 160);
	admit_gone(a, 3, false);
	assert_int_equal(nr_wanted(3), 10);
	assert_int_equal(nr_wanted(4), 160);
	/* One of the few that went in was used. */
	for (unsigned i = 0; i < 32; i++)
		admit_gone(a, 3, i == 5);
	assert_int_equal(nr_wanted(3), 160);
	/* Little is not nothing. */
	for (unsigned i = 0; i < 10240; i++)
		admit_gone(a, 3, i % 60 == 0);
	assert_int_equal(nr_wanted(3), 160);
	for (unsigned i = 0; i < 1000; i++)
		admit_gone(a, 0, false);
	assert_int_equal(nr_wanted(0), 160);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(budget, begin, end),
		cmocka_unit_test_setup_teardown(tails, begin, end),
		cmocka_unit_test_setup_teardown(dead, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
