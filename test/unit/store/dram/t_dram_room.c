/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dram_room.c: eviction in LRU order under a hard bound, BUFs that wait for pins and for write-
 * backs, and when they fail.
 */
#include "dram_world.h"

/* Random sizes and uses: used never exceeds capacity, and what is there is what was used last. */
static void t_bound(void **state)
{
	struct dworld dw;
	struct rng rng;

	rng_init(&rng, unit_seed(5));
	dworld_init(&dw, 2 << 20);
	for (uint32_t i = 0; i < 20000; i++) {
		uint32_t no = (uint32_t)rng_below(&rng, 500);

		if (rng_chance(&rng, 1, 2))
			world_op(&dw.w, STORE_EXIST, no);
		else
			assert_int_equal(world_put(&dw.w, no, i, rng_below(&rng, 30000)), 0);
		dworld_check(&dw);
	}
	assert_true(dworld_stats(&dw).evictions > 1000);
	world_fini(&dw.w);
}

static uint32_t fill_up(struct dworld *dw, uint64_t len)
{
	uint32_t nr = 0;

	while (dworld_stats(dw).evictions == 0)
		assert_int_equal(world_put(&dw->w, nr++, 1, len), 0);
	return nr;
}

static void t_too_big(void **state)
{
	struct dworld dw;

	dworld_init(&dw, 1 << 20);
	assert_int_equal(world_put(&dw.w, 1, 1, 1000), 0);
	assert_int_equal(world_put(&dw.w, 2, 1, 1 << 20), -EFBIG);
	assert_int_equal(world_get(&dw.w, 1, 1, 1000), 0);
	assert_int_equal(world_put(&dw.w, 2, 1, dw.d->arena.bytes), 0);
	assert_int_equal(world_get(&dw.w, 2, 1, dw.d->arena.bytes), 0);
	world_fini(&dw.w);
}

/* Pinned entries are passed over and are the next victims once let go. */
static void t_pinned(void **state)
{
	struct store_view v[2];
	struct dworld dw;
	uint32_t nr;

	dworld_init(&dw, 1 << 20);
	nr = fill_up(&dw, 20000);
	assert_int_equal(dworld_pin(&dw, 1, &v[0]), 0);
	assert_int_equal(dworld_pin(&dw, 2, &v[1]), 0);
	for (uint32_t i = 0; i < 3 * nr; i++)
		assert_int_equal(world_put(&dw.w, nr + i, 1, 20000), 0);
	assert_int_equal(world_get(&dw.w, 1, 1, 20000), 0);
	dworld_unpin(&dw, &v[0]);
	assert_int_equal(world_put(&dw.w, 4 * nr, 1, 20000), 0);
	assert_int_equal(world_op(&dw.w, STORE_EXIST, 1), -ENOENT);
	assert_int_equal(world_get(&dw.w, 2, 1, 20000), 0);
	dworld_unpin(&dw, &v[1]);
	world_fini(&dw.w);
}

/* Everything pinned: a BUF waits, is served when room comes, fails when none comes for long. */
static void t_wait(void **state)
{
	struct world_io wi[2];
	struct store_view v[64];
	struct dworld dw;
	uint32_t nr;

	dworld_init(&dw, 1 << 20);
	nr = fill_up(&dw, 40000);
	for (uint32_t i = 1; i < nr; i++)
		assert_int_equal(dworld_pin(&dw, i, &v[i]), 0);
	for (uint32_t i = 0; i < 2; i++) {
		wi[i] = (struct world_io){
			.io = {.op = STORE_BUF, .key = world_key(100 + i), .len = 40000}};
		world_start(&dw.w, 0, &wi[i]);
	}
	world_settle(&dw.w);
	assert_false(wi[0].is_over || wi[1].is_over);
	dworld_unpin(&dw, &v[1]);
	world_until(&dw.w, &wi[0].is_over);
	assert_int_equal(wi[0].res, 0);
	assert_false(wi[1].is_over);
	world_until(&dw.w, &wi[1].is_over);
	assert_int_equal(wi[1].res, -ENOSPC);
	assert_true(dworld_stats(&dw).full == 1);
	dworld_unpin(&dw, &wi[0].io.view);
	for (uint32_t i = 2; i < nr; i++)
		dworld_unpin(&dw, &v[i]);
	world_fini(&dw.w);
}

/* The queue is bounded. */
static void t_queue(void **state)
{
	static struct world_io wi[DRAM_WAITS_MAX + 1];
	struct store_view v;
	struct dworld dw;

	dworld_init(&dw, 1 << 20);
	assert_int_equal(world_put(&dw.w, 1, 1, dw.d->arena.bytes), 0);
	assert_int_equal(dworld_pin(&dw, 1, &v), 0);
	for (uint32_t i = 0; i <= DRAM_WAITS_MAX; i++) {
		wi[i] = (struct world_io){
			.io = {.op = STORE_BUF, .key = world_key(100 + i), .len = 100}};
		world_start(&dw.w, 0, &wi[i]);
	}
	assert_false(wi[DRAM_WAITS_MAX - 1].is_over);
	assert_true(wi[DRAM_WAITS_MAX].is_over);
	assert_int_equal(wi[DRAM_WAITS_MAX].res, -ENOSPC);
	dworld_unpin(&dw, &v);
	world_until(&dw.w, &wi[DRAM_WAITS_MAX - 1].is_over);
	for (uint32_t i = 0; i < DRAM_WAITS_MAX; i++) {
		assert_int_equal(wi[i].res, 0);
		dworld_unpin(&dw, &wi[i].io.view);
	}
	world_fini(&dw.w);
}

/* Over a tier below everything is dirty at first: victims are written, nothing is lost. */
static void t_dirty(void **state)
{
	struct dworld dw;

	dworld_init_two(&dw, 1 << 20, NULL);
	for (uint32_t i = 0; i < 300; i++) {
		assert_int_equal(world_put(&dw.w, i, i, 5000 + i * 100), 0);
		dworld_check(&dw);
	}
	for (uint32_t i = 0; i < 300; i++)
		assert_int_equal(world_get(&dw.w, i, i, 5000 + i * 100), 0);
	assert_int_equal(dw.w.nr_alerts, 0);
	world_fini(&dw.w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_bound), cmocka_unit_test(t_too_big), cmocka_unit_test(t_pinned),
		cmocka_unit_test(t_wait),  cmocka_unit_test(t_queue),	cmocka_unit_test(t_dirty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
