/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trip.c: few errors in a long time are forgiven, many in a short one are not, and only somebody
 * who says so brings the device back.
 */
#include "unit.h"

#include "policy/trip.h"

static void slow(void **state)
{
	struct trip t;

	trip_init(&t, 4, 100, 0);
	for (uint64_t i = 1; i < 1000; i++)
		assert_int_equal(trip_error(&t, i * 100), TRIP_RW);
	/* Three at once every three leaks. */
	for (uint64_t i = 0; i < 999; i++)
		assert_int_equal(trip_error(&t, 200000 + i / 3 * 300), TRIP_RW);
}

static void fast(void **state)
{
	struct trip t;
	unsigned n = 0;

	trip_init(&t, 4, 100, 0);
	while (trip_error(&t, 5) == TRIP_RW)
		n++;
	assert_int_equal(n, 3);
	while (trip_error(&t, 5) == TRIP_READ_ONLY)
		n++;
	assert_int_equal(n, 14);
	/* Quiet for ever: still off. */
	assert_int_equal(trip_error(&t, 1ull << 60), TRIP_OFF);
	trip_set(&t, TRIP_RW);
	assert_int_equal(trip_error(&t, 1ull << 60), TRIP_RW);
	assert_string_equal(trip_name(TRIP_READ_ONLY), "read_only");
}

static void never(void **state)
{
	struct trip t;

	trip_init(&t, 0, 100, 0);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(trip_error(&t, 1), TRIP_RW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(slow), cmocka_unit_test(fast),
					   cmocka_unit_test(never)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
