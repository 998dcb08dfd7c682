/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dram_get.c: hits, misses, wanted versions, ranges; exist, match and list alone and over another
 * tier.
 */
#include "dram_world.h"

static void t_get(void **state)
{
	struct world_io wi;
	struct store_view v;
	struct dworld dw;
	uint64_t ver;

	dworld_init(&dw, 4 << 20);
	assert_int_equal(world_get(&dw.w, 1, 0, 0), -ENOENT);
	assert_int_equal(world_put(&dw.w, 1, 1, 100000), 0);
	assert_int_equal(dworld_pin(&dw, 1, &v), 0);
	ver = v.ver;
	assert_true(ver > 0);
	assert_int_equal(v.len, 100000);
	assert_int_equal(v.tier, 0);
	dworld_unpin(&dw, &v);
	wi = (struct world_io){.io = {.op = STORE_GET, .key = world_key(1), .len = 5, .ver = ver}};
	assert_int_equal(world_run(&dw.w, 0, &wi), 0);
	assert_int_equal(wi.io.ver, ver);
	dworld_unpin(&dw, &wi.io.view);
	wi.io.ver = ver + 1;
	assert_int_equal(world_run(&dw.w, 0, &wi), -ESTALE);
	/* Past the end: found, nothing in the view. */
	wi.io.ver = 0;
	wi.io.off = 100000;
	assert_int_equal(world_run(&dw.w, 0, &wi), 0);
	assert_int_equal(wi.io.view.len, 0);
	assert_int_equal(wi.io.view.value_len, 100000);
	dworld_unpin(&dw, &wi.io.view);
	assert_true(dworld_stats(&dw).hits == 3 && dworld_stats(&dw).misses == 1);
	world_fini(&dw.w);
}

static void t_exist(void **state)
{
	struct world_io wi = {.io = {.op = STORE_EXIST, .key = world_key(1)}};
	struct dworld dw;

	dworld_init(&dw, 4 << 20);
	assert_int_equal(world_run(&dw.w, 0, &wi), -ENOENT);
	assert_int_equal(world_put(&dw.w, 1, 1, 777), 0);
	assert_int_equal(world_run(&dw.w, 0, &wi), 0);
	assert_int_equal(wi.io.view.value_len, 777);
	assert_int_equal(dw.d->nr_pinned, 0);
	world_fini(&dw.w);
}

static void check_match(struct dworld *dw, uint8_t even, uint8_t odd)
{
	struct store_key keys[100];
	uint8_t found[100];
	struct world_io wi = {
		.io = {.op = STORE_MATCH, .match = {.keys = keys, .found = found, .nr = 100}}};

	for (uint32_t i = 0; i < 100; i++)
		keys[i] = world_key(i);
	assert_int_equal(world_run(&dw->w, 0, &wi), 0);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(found[i], i % 10 == 9 ? STORE_ABSENT : i % 2 ? odd : even);
}

static void t_match(void **state)
{
	struct dworld dw;

	dworld_init_two(&dw, 4 << 20, NULL);
	for (uint32_t i = 0; i < 100; i++)
		if (i % 10 != 9)
			assert_int_equal(world_put(&dw.w, i, 1, 100), 0);
	check_match(&dw, STORE_MEMORY, STORE_MEMORY);
	/* Below only: written there, gone here. (mem says memory as well: it is.) */
	assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), 0);
	while (!dram_room_evict(dw.d))
		;
	assert_int_equal(dworld_stats(&dw).nr_keys, 0);
	check_match(&dw, STORE_MEMORY, STORE_MEMORY);
	world_fini(&dw.w);
}

static void check_look(struct dworld *dw, bool is_two)
{
	struct store_key key[STORE_LOOK_MAX];
	const struct store_key *ptr[STORE_LOOK_MAX];
	uint64_t here, ask;

	for (uint32_t i = 0; i < STORE_LOOK_MAX; i++) {
		key[i] = world_key(i);
		ptr[i] = &key[i];
	}
	here = store_look(dw->w.set, dw->w.r[0], ptr, STORE_LOOK_MAX, &ask);
	for (uint32_t i = 0; i < STORE_LOOK_MAX; i++) {
		assert_int_equal(here >> i & 1, i % 3 == 0);
		assert_int_equal(ask >> i & 1, is_two && i % 3);
	}
	here = store_look(dw->w.set, dw->w.r[0], ptr, 2, &ask);
	assert_int_equal(here, 1);
	assert_int_equal(ask, is_two ? 2 : 0);
}

/* What isn't in memory may lie below; alone, it is absent. */
static void t_look(void **state)
{
	struct dworld dw;

	for (int is_two = 0; is_two < 2; is_two++) {
		if (is_two)
			dworld_init_two(&dw, 4 << 20, NULL);
		else
			dworld_init(&dw, 4 << 20);
		for (uint32_t i = 0; i < STORE_LOOK_MAX; i += 3)
			assert_int_equal(world_put(&dw.w, i, 1, 100), 0);
		check_look(&dw, is_two);
		world_fini(&dw.w);
	}
}

/* All keys by pages of `page`: how many, sorted, each once. */
static uint32_t list_all(struct dworld *dw, uint32_t page)
{
	struct store_key keys[64];
	struct world_io wi = {.io = {.op = STORE_LIST, .list = {.keys = keys, .max = page}}};
	struct store_list *l = &wi.io.list;
	uint32_t nr = 0;

	do {
		assert_int_equal(world_run(&dw->w, 0, &wi), 0);
		assert_true(l->nr == page || !l->more);
		for (uint32_t i = 0; i < l->nr; i++) {
			assert_true(nr + i == 0 || store_key_cmp(&l->after, &keys[i]) < 0);
			l->after = keys[i];
			l->has_after = true;
		}
		nr += l->nr;
	} while (l->more);
	return nr;
}

static void t_list(void **state)
{
	struct dworld dw;

	dworld_init_two(&dw, 4 << 20, NULL);
	assert_int_equal(list_all(&dw, 7), 0);
	for (uint32_t i = 0; i < 200; i++)
		assert_int_equal(world_put(&dw.w, i, 1, 100), 0);
	assert_int_equal(list_all(&dw, 7), 200);
	/* Half of them below only, some in both, some in dram only. */
	assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), 0);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(dram_room_evict(dw.d), 0);
	for (uint32_t i = 200; i < 250; i++)
		assert_int_equal(world_put(&dw.w, i, 1, 100), 0);
	assert_int_equal(list_all(&dw, 1), 250);
	assert_int_equal(list_all(&dw, 7), 250);
	assert_int_equal(list_all(&dw, 64), 250);
	/* A deleted key is in no tier's list. */
	for (uint32_t i = 0; i < 250; i += 5)
		assert_int_equal(world_op(&dw.w, STORE_DEL, i), 0);
	assert_int_equal(list_all(&dw, 50), 200);
	world_fini(&dw.w);
}

static void t_touch(void **state)
{
	struct world_io wi = {.io = {.op = STORE_GET, .key = world_key(0), .len = 1}};
	struct dworld dw;
	uint32_t nr;

	dworld_init(&dw, 1 << 20);
	for (nr = 0; dworld_stats(&dw).evictions == 0; nr++) {
		assert_int_equal(world_put(&dw.w, nr, 1, 8192), 0);
		dworld_check(&dw);
	}
	/* 0 went first. Look at 1, use 2: 1 goes next, then 3. */
	wi.io.flags = STORE_NO_TOUCH;
	wi.io.key = world_key(1);
	assert_int_equal(world_run(&dw.w, 0, &wi), 0);
	dworld_unpin(&dw, &wi.io.view);
	assert_int_equal(world_get(&dw.w, 2, 1, 8192), 0);
	assert_int_equal(world_put(&dw.w, nr++, 1, 8192), 0);
	assert_int_equal(world_put(&dw.w, nr++, 1, 8192), 0);
	assert_int_equal(world_op(&dw.w, STORE_EXIST, 1), -ENOENT);
	assert_int_equal(world_op(&dw.w, STORE_EXIST, 2), 0);
	assert_int_equal(world_op(&dw.w, STORE_EXIST, 3), -ENOENT);
	assert_int_equal(world_op(&dw.w, STORE_EXIST, 4), 0);
	world_fini(&dw.w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_get),  cmocka_unit_test(t_exist), cmocka_unit_test(t_match),
		cmocka_unit_test(t_list), cmocka_unit_test(t_touch), cmocka_unit_test(t_look),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
