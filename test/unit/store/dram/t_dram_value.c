/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dram_value.c: views over one and over many extents, seals, meta, pins that outlive what replaces
 * them.
 */
#include "dram_world.h"

static void t_sizes(void **state)
{
	static const uint64_t lens[] = {1,     63,    64,    65,     4095,   4096,
					65535, 65536, 65537, 131072, 200001, 1 << 20};
	struct dworld dw;

	dworld_init(&dw, 16 << 20);
	for (uint32_t i = 0; i < ARRAY_SIZE(lens); i++) {
		assert_int_equal(world_put(&dw.w, i, i, lens[i]), 0);
		dworld_check(&dw);
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(lens); i++)
		assert_int_equal(world_get(&dw.w, i, i, lens[i]), 0);
	world_fini(&dw.w);
}

/*
 * Holes of 8 KiB: larger values lie in pieces, and none of their bytes is lost, nor of their
 * neighbours'.
 */
static void t_scattered(void **state)
{
	struct store_view v;
	struct mem_run runs[DRAM_EXTS_MAX];
	struct dworld dw;
	uint32_t nr = 0;

	dworld_init(&dw, 1 << 20);
	while (dworld_stats(&dw).evictions == 0)
		assert_int_equal(world_put(&dw.w, nr++, 1, 8192), 0);
	for (uint32_t i = 0; i < nr; i += 2)
		world_op(&dw.w, STORE_DEL, i);
	assert_int_equal(world_put(&dw.w, 1000, 2, 60001), 0);
	assert_int_equal(world_get(&dw.w, 1000, 2, 60001), 0);
	assert_int_equal(dworld_pin(&dw, 1000, &v), 0);
	assert_true(store_runs(&v, 0, runs, DRAM_EXTS_MAX) > 1);
	/* From inside any run on. */
	for (uint64_t off = 0; off < v.len; off += 777) {
		assert_true(store_runs(&v, off, runs, 1) == 1);
		assert_true(runs[0].len > 0);
	}
	assert_int_equal(store_runs(&v, v.len, runs, 1), 0);
	dworld_unpin(&dw, &v);
	for (uint32_t i = 1; i < nr; i += 2)
		assert_int_equal(world_get(&dw.w, i, 1, 8192), 0);
	world_fini(&dw.w);
}

static void t_meta(void **state)
{
	struct store_meta meta = {.parent_len = 3, .cls = 7, .cost_us = 9, .tag = {1, 2, 3}};
	struct world_io wi;
	struct store_view v;
	struct dworld dw;

	dworld_init(&dw, 4 << 20);
	for (uint32_t i = 0; i < 3; i++) {
		uint64_t len = 10 + i * 100000;
		uint64_t before = dram_heap_used_bytes(&dw.d->side);

		assert_int_equal(dworld_buf(&dw, &wi, i, i, len), 0);
		wi.io.op = STORE_PUT;
		wi.io.meta = &meta;
		assert_int_equal(world_run(&dw.w, 0, &wi), 0);
		assert_int_equal(world_get(&dw.w, i, i, len), 0);
		assert_int_equal(dworld_pin(&dw, i, &v), 0);
		assert_memory_equal(store_meta(&v), &meta, sizeof(meta));
		dworld_unpin(&dw, &v);
		/* 80 bytes of it in all, and they come back. */
		assert_int_equal(dram_heap_used_bytes(&dw.d->side),
				 before + align_up(80 + (i ? (i + 1) * 8 : 0), 16));
	}
	/* A put without any has none. */
	assert_int_equal(world_put(&dw.w, 0, 5, 10), 0);
	assert_int_equal(dworld_pin(&dw, 0, &v), 0);
	assert_int_equal(store_meta(&v)->cls, 0);
	dworld_unpin(&dw, &v);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(world_op(&dw.w, STORE_DEL, i), 0);
	assert_int_equal(dram_heap_used_bytes(&dw.d->side), 0);
	assert_int_equal(dw.d->arena.used_bytes, 0);
	world_fini(&dw.w);
}

/*
 * Replaced, deleted: the pinned bytes stay what they were, and their memory comes back with the
 * last pin.
 */
static void t_pins(void **state)
{
	struct store_key k = world_key(1);
	struct store_view a, b;
	struct dworld dw;

	dworld_init(&dw, 4 << 20);
	assert_int_equal(world_put(&dw.w, 1, 1, 100000), 0);
	assert_int_equal(dworld_pin(&dw, 1, &a), 0);
	assert_int_equal(dworld_pin(&dw, 1, &b), 0);
	assert_int_equal(world_put(&dw.w, 1, 2, 50000), 0);
	assert_int_equal(world_get(&dw.w, 1, 2, 50000), 0);
	assert_true(world_is_gen(&a, &k, 1));
	dworld_unpin(&dw, &a);
	assert_true(world_is_gen(&b, &k, 1) && world_seals_fit(&b, &k));
	assert_true(dworld_stats(&dw).value_bytes == 150000);
	dworld_unpin(&dw, &b);
	assert_true(dworld_stats(&dw).value_bytes == 50000);
	assert_int_equal(dworld_pin(&dw, 1, &a), 0);
	assert_int_equal(world_op(&dw.w, STORE_DEL, 1), 0);
	assert_int_equal(world_get(&dw.w, 1, 2, 50000), -ENOENT);
	assert_true(world_is_gen(&a, &k, 2));
	dworld_unpin(&dw, &a);
	assert_true(dworld_stats(&dw).value_bytes == 0);
	assert_int_equal(dw.d->nr_pinned, 0);
	world_fini(&dw.w);
}

/* A flipped bit: told once, exactly that value goes, and not its successor. */
static void t_bad(void **state)
{
	struct store_key k = world_key(1);
	struct store_view v, w;
	struct dworld dw;

	dworld_init(&dw, 4 << 20);
	assert_int_equal(world_put(&dw.w, 1, 1, 100000), 0);
	assert_int_equal(world_put(&dw.w, 2, 1, 100000), 0);
	assert_int_equal(dworld_pin(&dw, 1, &v), 0);
	assert_int_equal(dworld_pin(&dw, 1, &w), 0);
	dworld_flip(&v, 70000);
	assert_false(world_seals_fit(&v, &k));
	v.is_bad = true;
	dworld_unpin(&dw, &v);
	assert_int_equal(dw.w.nr_alerts, 1);
	assert_true(dworld_stats(&dw).bad_seals == 1);
	assert_int_equal(world_get(&dw.w, 1, 1, 100000), -ENOENT);
	assert_int_equal(world_get(&dw.w, 2, 1, 100000), 0);
	/* The second reader of the same bytes comes late: the new value is not his. */
	assert_int_equal(world_put(&dw.w, 1, 2, 100), 0);
	w.is_bad = true;
	dworld_unpin(&dw, &w);
	assert_int_equal(world_get(&dw.w, 1, 2, 100), 0);
	world_fini(&dw.w);
}

/* An unpublished buffer that is let go leaves nothing. */
static void t_let_go(void **state)
{
	struct world_io wi;
	struct dworld dw;

	dworld_init(&dw, 4 << 20);
	assert_int_equal(dworld_buf(&dw, &wi, 1, 1, 1 << 20), 0);
	for (uint32_t c = 0; c < 16; c++)
		store_seals(&wi.io.view)[c] = 1;
	dworld_unpin(&dw, &wi.io.view);
	assert_int_equal(dw.d->arena.used_bytes, 0);
	assert_int_equal(dw.d->ix.nr_used, 0);
	/* Seals of the next one are zero again. */
	wi = (struct world_io){.io = {.op = STORE_BUF, .key = world_key(1), .len = 1 << 20}};
	assert_int_equal(world_run(&dw.w, 0, &wi), 0);
	for (uint32_t c = 0; c < 16; c++)
		assert_int_equal(store_seals(&wi.io.view)[c], 0);
	dworld_unpin(&dw, &wi.io.view);
	world_fini(&dw.w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_sizes), cmocka_unit_test(t_scattered),
		cmocka_unit_test(t_meta),  cmocka_unit_test(t_pins),
		cmocka_unit_test(t_bad),   cmocka_unit_test(t_let_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
