/* SPDX-License-Identifier: Apache-2.0 */
/* null.c: takes everything, has nothing, leaks nothing. */
#include "world.h"
#include "store/store_make.h"

static void t_null(void **state)
{
	struct world w;
	struct store_key keys[2] = {world_key(1), world_key(2)};
	uint8_t found[2];
	struct world_io match = {
		.io = {.op = STORE_MATCH, .match = {.keys = keys, .found = found, .nr = 2}}};
	struct world_io list = {.io = {.op = STORE_LIST, .list = {.keys = keys, .max = 2}}};
	struct world_io wi = {.io = {.op = STORE_BUF, .key = world_key(1), .len = 70000}};

	world_init(&w, 1, 1);
	world_set(&w, 1, 1 << 20);
	store_set_push(w.set, 0, store_null_create());
	assert_int_equal(world_put(&w, 1, 1, 70000), 0);
	assert_int_equal(world_get(&w, 1, 1, 70000), -ENOENT);
	assert_int_equal(world_op(&w, STORE_EXIST, 1), -ENOENT);
	assert_int_equal(world_op(&w, STORE_DEL, 1), -ENOENT);
	assert_int_equal(world_op(&w, STORE_INVAL, 1), 0);
	assert_int_equal(world_op(&w, STORE_FLUSH, 1), 0);
	assert_int_equal(world_run(&w, 0, &match), 0);
	assert_int_equal(found[0] | found[1], STORE_ABSENT);
	assert_int_equal(world_run(&w, 0, &list), 0);
	assert_int_equal(list.io.list.nr, 0);
	assert_false(list.io.list.more);
	/* A buffer that is given back instead, and one that a fill takes. */
	assert_int_equal(world_run(&w, 0, &wi), 0);
	store_release(&wi.io.view, w.r[0], NULL);
	assert_null(wi.io.view.st);
	assert_int_equal(world_run(&w, 0, &wi), 0);
	wi.io.op = STORE_FILL;
	assert_int_equal(world_run(&w, 0, &wi), 0);
	assert_null(wi.io.view.st);
	wi.io.op = STORE_BUF;
	wi.io.flags = STORE_IF_PRESENT;
	assert_int_equal(world_run(&w, 0, &wi), -ENOENT);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(t_null)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
