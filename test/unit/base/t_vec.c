/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vec.h: growth keeps what is there, structs can be pushed, overflow is refused. One thread.
 */
#include "unit.h"

#include <string.h>

#include "base/vec.h"

struct pair {
	int a, b;
};

static void t_push_pop(void **state)
{
	VEC(int)
	v = VEC_EMPTY;
	int sum = 0;

	vec_for_each(&v, p)
		sum += *p;
	assert_int_equal(sum, 0);
	for (int i = 0; i < 1000; i++)
		assert_true(vec_push(&v, i));
	assert_int_equal(v.nr, 1000);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(v.at[i], i);
	vec_for_each(&v, p)
		sum += *p;
	assert_int_equal(sum, 499500);
	assert_int_equal(vec_last(&v), 999);
	assert_int_equal(vec_pop(&v), 999);
	assert_int_equal(v.nr, 999);
	vec_clear(&v);
	assert_int_equal(v.nr, 0);
	vec_fini(&v);
	assert_null(v.at);
}

static void t_struct(void **state)
{
	VEC(struct pair)
	v;

	vec_init(&v);
	assert_true(vec_push(&v, (struct pair){1, 2}));
	assert_int_equal(v.at[0].b, 2);
	vec_fini(&v);
}

static void t_too_large(void **state)
{
	VEC(struct pair)
	v = VEC_EMPTY;

	assert_true(vec_push(&v, (struct pair){1, 2}));
	assert_false(vec_reserve(&v, SIZE_MAX));
	assert_false(vec_reserve(&v, SIZE_MAX / 4));
	assert_int_equal(v.nr, 1);
	assert_int_equal(v.at[0].a, 1);
	vec_fini(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_push_pop),
		cmocka_unit_test(t_struct),
		cmocka_unit_test(t_too_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
