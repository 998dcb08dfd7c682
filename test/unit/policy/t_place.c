/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.c: shares are as the weights say; a device that comes takes only what becomes its own, one
 * that goes gives away only what was; the order in which they are named says nothing.
 */
#include "unit.h"

#include <stdlib.h>

#include "base/container.h"
#include "policy/place.h"

#define NR 100000u

static uint64_t what(uint64_t i)
{
	return i * 0x9e3779b97f4a7c15u;
}

static void shares(void **state)
{
	static const struct place_dev devs[] = {
		{11, 500}, {22, 500}, {33, 0}, {44, 1000}, {55, 2000}};
	unsigned nr[ARRAY_SIZE(devs)] = {0};

	for (unsigned i = 0; i < NR; i++)
		nr[place_pick(what(i), devs, ARRAY_SIZE(devs))]++;
	for (unsigned d = 0; d < ARRAY_SIZE(devs); d++) {
		unsigned share = NR / 4000 * devs[d].weight;

		assert_true(nr[d] <= share + share / 25 && nr[d] >= share - share / 25);
	}
}

static void nobody(void **state)
{
	static const struct place_dev devs[] = {{1, 0}, {2, 0}};

	assert_int_equal(place_pick(5, devs, 2), -1);
	assert_int_equal(place_pick(5, devs, 0), -1);
}

/* Of equal devices a fifth one takes a fifth, all of it what is to be its own. */
static void comes_and_goes(void **state)
{
	static const struct place_dev devs[] = {{10, 7}, {20, 7}, {30, 7}, {40, 7}, {50, 7}};
	struct place_dev less[4];
	unsigned nr_moved = 0;
	int with, without;

	for (unsigned i = 0; i < NR; i++) {
		without = place_pick(what(i), devs, 4);
		with = place_pick(what(i), devs, 5);
		assert_true(with == without || with == 4);
		nr_moved += with == 4;
	}
	assert_true(nr_moved > NR / 5 - NR / 100 && nr_moved < NR / 5 + NR / 100);
	/* The second of them goes. */
	for (unsigned i = 0, n = 0; i < 5; i++)
		if (i != 1)
			less[n++] = devs[i];
	for (unsigned i = 0; i < NR; i++) {
		with = place_pick(what(i), devs, 5);
		without = place_pick(what(i), less, 4);
		assert_true(with == 1 || devs[with].id == less[without].id);
	}
}

static void any_order(void **state)
{
	static const struct place_dev a[] = {{10, 1}, {20, 2}, {30, 3}},
				      b[] = {{30, 3}, {10, 1}, {20, 2}};

	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(a[place_pick(what(i), a, 3)].id, b[place_pick(what(i), b, 3)].id);
}

/* Weights of any size, and hashes at both ends. */
static void extremes(void **state)
{
	static const struct place_dev devs[] = {{0, UINT32_MAX}, {UINT64_MAX, 1}};
	static const uint64_t ends[] = {0, 1, UINT64_MAX, 1ull << 63};
	unsigned nr = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(ends); i++)
		assert_true(place_pick(ends[i], devs, 2) >= 0);
	for (unsigned i = 0; i < NR; i++)
		nr += place_pick(what(i), devs, 2) == 0;
	assert_true(nr > NR - 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares),	  cmocka_unit_test(nobody),
		cmocka_unit_test(comes_and_goes), cmocka_unit_test(any_order),
		cmocka_unit_test(extremes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
