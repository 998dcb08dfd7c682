/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dram_promote.c: what comes up is copied, whole and in pieces, never seen half, never older than a
 * put that has passed.
 */
#include "dram_world.h"
#include "store/store_make.h"

/* Key `no` only below. */
static void put_below(struct dworld *dw, uint32_t no, uint64_t gen, uint64_t len)
{
	struct dram_entry *e;
	struct store_key k = world_key(no);

	assert_int_equal(world_put(&dw->w, no, gen, len), 0);
	assert_int_equal(world_op(&dw->w, STORE_FLUSH, 0), 0);
	e = dram_index_find(&dw->d->ix, &k);
	assert_non_null(e);
	dram_value_drop(dw->d, e);
}

static bool is_here(struct dworld *dw, uint32_t no)
{
	struct store_key k = world_key(no);

	return dram_index_find(&dw->d->ix, &k);
}

static int get_piece(struct dworld *dw, uint32_t no, uint64_t off, uint64_t len, uint8_t flags)
{
	struct world_io wi = {.io = {.op = STORE_GET,
				     .key = world_key(no),
				     .off = off,
				     .len = len,
				     .flags = flags}};
	int res = world_run(&dw->w, 0, &wi);

	if (!res)
		dworld_unpin(dw, &wi.io.view);
	return res;
}

static void t_whole(void **state)
{
	struct store_view v;
	struct dworld dw;
	uint64_t ver;

	dworld_init_two(&dw, 8 << 20, NULL);
	for (uint32_t i = 0; i < 20; i++) {
		put_below(&dw, i, i, i * 50000 + 1);
		ver = dw.d->ver;
		assert_int_equal(get_piece(&dw, i, 0, UINT32_MAX, STORE_NO_TOUCH), 0);
		assert_false(is_here(&dw, i));
		assert_int_equal(world_get(&dw.w, i, i, i * 50000 + 1), 0);
		assert_true(is_here(&dw, i));
		/* It has the version from below, and isn't written there again. */
		assert_int_equal(dworld_pin(&dw, i, &v), 0);
		assert_int_equal(v.ver, ver);
		assert_int_equal(v.tier, 0);
		dworld_unpin(&dw, &v);
		assert_int_equal(world_get(&dw.w, i, i, i * 50000 + 1), 0);
	}
	assert_true(dram_bits_next(&dw.d->dirty, 0) == DRAM_BITS_END);
	world_fini(&dw.w);
}

static void t_meta(void **state)
{
	struct store_meta meta = {.cls = 3, .cost_us = 4};
	struct store_key k = world_key(1);
	struct world_io wi;
	struct store_view v;
	struct dworld dw;

	dworld_init_two(&dw, 8 << 20, NULL);
	assert_int_equal(dworld_buf(&dw, &wi, 1, 1, 70000), 0);
	wi.io.op = STORE_PUT;
	wi.io.meta = &meta;
	assert_int_equal(world_run(&dw.w, 0, &wi), 0);
	assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), 0);
	dram_value_drop(dw.d, dram_index_find(&dw.d->ix, &k));
	assert_int_equal(world_get(&dw.w, 1, 1, 70000), 0);
	assert_true(is_here(&dw, 1));
	assert_int_equal(dworld_pin(&dw, 1, &v), 0);
	assert_memory_equal(store_meta(&v), &meta, sizeof(meta));
	dworld_unpin(&dw, &v);
	world_fini(&dw.w);
}

/* Pieces in any order; what is missing keeps it unseen. */
static void t_pieces(void **state)
{
	uint64_t len = (5 << 20) + 4321;
	struct dworld dw;

	dworld_init_two(&dw, 16 << 20, NULL);
	put_below(&dw, 1, 1, len);
	assert_int_equal(get_piece(&dw, 1, 1 << 20, 1 << 20, 0), 0);
	assert_int_equal(dw.d->nr_bufs, 0);
	assert_int_equal(get_piece(&dw, 1, 0, 1 << 20, 0), 0);
	assert_int_equal(dw.d->nr_bufs, 1);
	for (uint64_t off = 5 << 20; off; off -= 1 << 20) {
		assert_false(is_here(&dw, 1));
		assert_int_equal(get_piece(&dw, 1, off, 1 << 20, 0), 0);
	}
	assert_true(is_here(&dw, 1));
	assert_int_equal(dw.d->nr_bufs, 0);
	assert_int_equal(world_get(&dw.w, 1, 1, len), 0);
	world_fini(&dw.w);
}

/* A put, a del, a fill between two pieces, or between going down and coming up. */
static void t_fence(void **state)
{
	uint64_t len = (1 << 20) + 1;
	struct dworld dw;

	dworld_init_two(&dw, 16 << 20, NULL);
	put_below(&dw, 1, 1, len);
	assert_int_equal(get_piece(&dw, 1, 0, 1 << 20, 0), 0);
	assert_int_equal(world_op(&dw.w, STORE_DEL, 1), 0);
	put_below(&dw, 1, 2, len);
	/*
	 * The second piece is of the new value: the copy of the old one is dropped, not finished.
	 */
	assert_int_equal(get_piece(&dw, 1, 1 << 20, 1, 0), 0);
	assert_false(is_here(&dw, 1));
	assert_int_equal(dw.d->nr_bufs, 0);
	assert_int_equal(get_piece(&dw, 1, 0, 1 << 20, 0), 0);
	assert_int_equal(get_piece(&dw, 1, 1 << 20, 1, 0), 0);
	assert_true(is_here(&dw, 1));
	assert_int_equal(world_get(&dw.w, 1, 2, len), 0);
	world_fini(&dw.w);
}

/* Answers from below held back until a mutation has passed: nothing old is ever published. */
static void t_late(void **state)
{
	struct store_fault_opts late = {.seed = 11, .stale_1024 = 700, .delay_1024 = 300};
	struct world_io get, put;
	struct dworld dw;
	uint64_t gen = 1;

	dworld_init_two(&dw, 4 << 20, &late);
	put_below(&dw, 1, gen, 1000);
	for (uint32_t i = 0; i < 2000; i++) {
		get = (struct world_io){.io = {.op = STORE_GET, .key = world_key(1), .len = 4096}};
		world_start(&dw.w, 0, &get);
		assert_int_equal(dworld_buf(&dw, &put, 1, ++gen, 1000), 0);
		put.io.op = STORE_PUT;
		assert_int_equal(world_run(&dw.w, 0, &put), 0);
		/* Acknowledged: from here on only this one, whatever is still under way. */
		if (i % 2) {
			assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), 0);
			while (!dram_room_evict(dw.d))
				;
		}
		world_until(&dw.w, &get.is_over);
		if (!get.res)
			dworld_unpin(&dw, &get.io.view);
		assert_int_equal(world_get(&dw.w, 1, gen, 1000), 0);
		world_settle(&dw.w);
		assert_int_equal(world_get(&dw.w, 1, gen, 1000), 0);
		if (i % 2) {
			while (!dram_room_evict(dw.d))
				;
		}
	}
	world_fini(&dw.w);
}

/* A wrong bit below is copied by nobody. */
static void t_bad(void **state)
{
	struct store_fault_opts flip = {.seed = 3, .flip_1024 = 1024};
	struct dworld dw;

	dworld_init_two(&dw, 4 << 20, &flip);
	put_below(&dw, 1, 1, 100000);
	assert_int_equal(get_piece(&dw, 1, 0, UINT32_MAX, 0), 0);
	assert_false(is_here(&dw, 1));
	assert_int_equal(dw.d->nr_bufs, 0);
	world_fini(&dw.w);
}

/* More streams than slots; a put that needs the room of copies that don't end. */
static void t_slots(void **state)
{
	uint64_t len = (1 << 20) + 1;
	struct dworld dw;

	dworld_init_two(&dw, 64 << 20, NULL);
	for (uint32_t i = 0; i < DRAM_PROMOTES + 4; i++)
		put_below(&dw, i, 1, len);
	for (uint32_t i = 0; i < DRAM_PROMOTES + 4; i++)
		assert_int_equal(get_piece(&dw, i, 0, 1 << 20, 0), 0);
	assert_int_equal(dw.d->nr_bufs, DRAM_PROMOTES);
	assert_int_equal(world_put(&dw.w, 100, 1, dw.d->arena.bytes - (1 << 20)), 0);
	assert_int_equal(dw.d->nr_bufs, 0);
	world_fini(&dw.w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_whole), cmocka_unit_test(t_meta), cmocka_unit_test(t_pieces),
		cmocka_unit_test(t_fence), cmocka_unit_test(t_late), cmocka_unit_test(t_bad),
		cmocka_unit_test(t_slots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
