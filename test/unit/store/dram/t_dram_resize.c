/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dram_resize.c: how a budget is cut, growing, shrinking with pins, dirty entries and puts under
 * way.
 */
#include "dram_world.h"
#include "store/store_make.h"

static int resize(struct dworld *dw, uint64_t bytes, struct world_wait *wait)
{
	*wait = (struct world_wait){.is_over = false};
	store_set_resize(dw->w.set, dw->w.r[0], bytes, world_done, wait);
	return 0;
}

static void check_cut(uint64_t bytes, uint64_t seg, uint32_t max_keys)
{
	struct store_dram_opts o = {.bytes = bytes, .segment_bytes = seg, .max_keys = max_keys};
	struct dworld dw;

	dworld_init_opts(&dw, &o, 1);
	dworld_check(&dw);
	/*
	 * Index at most 1/8, side heap 1/64; what is left over is less than the smallest segment
	 * costs.
	 */
	assert_true(dram_index_cost(dw.d->ix.nr_max) <= bytes / 8 + 8192);
	assert_true(bytes - dw.d->fixed_bytes - dw.d->arena.cost_bytes < 2 * DRAM_SEG_BYTES_MIN);
	if (max_keys)
		assert_true(dw.d->ix.nr_max <= max_keys);
	world_fini(&dw.w);
}

static void t_cut(void **state)
{
	check_cut(1 << 20, 0, 0);
	check_cut(3000000, 1 << 16, 0);
	check_cut(64 << 20, 0, 0);
	check_cut(64 << 20, 1 << 20, 100);
	check_cut(1 << 20, 0, 1u << 30);
	check_cut(4ull << 30, 1 << 30, 0);
}

static void t_too_small(void **state)
{
	struct store *s = (void *)1;

	assert_int_equal(store_dram_create(&(struct store_dram_opts){.bytes = 1000}, &s), -EINVAL);
	assert_int_equal(store_dram_create(&(struct store_dram_opts){.bytes = 200000}, &s),
			 -EINVAL);
	assert_int_equal(store_dram_create(
				 &(struct store_dram_opts){.bytes = 1 << 20, .policy = "none"}, &s),
			 -EINVAL);
	assert_ptr_equal(s, (void *)1);
}

static void t_grow(void **state)
{
	struct world_wait wait;
	struct dworld dw;
	uint64_t nr;

	dworld_init(&dw, 4 << 20);
	for (uint32_t i = 0; i < 200; i++)
		assert_int_equal(world_put(&dw.w, i, i, 50000), 0);
	nr = dworld_stats(&dw).nr_keys;
	assert_true(nr < 100);
	resize(&dw, 16 << 20, &wait);
	world_until(&dw.w, &wait.is_over);
	assert_int_equal(wait.res, 0);
	assert_true(dworld_stats(&dw).capacity_bytes == 16 << 20);
	for (uint32_t i = 0; i < 200; i++)
		assert_int_equal(world_put(&dw.w, i, i, 50000), 0);
	for (uint32_t i = 0; i < 200; i++)
		assert_int_equal(world_get(&dw.w, i, i, 50000), 0);
	dworld_check(&dw);
	world_fini(&dw.w);
}

static void t_shrink(void **state)
{
	struct world_wait wait;
	struct store_view v;
	struct dworld dw;

	dworld_init_two(&dw, 16 << 20, NULL);
	for (uint32_t i = 0; i < 300; i++)
		assert_int_equal(world_put(&dw.w, i, i, 30000 + i), 0);
	/* The last segment has a pinned value; it is held up by that and by nothing else. */
	assert_int_equal(dworld_pin(&dw, 299, &v), 0);
	resize(&dw, 4 << 20, &wait);
	for (uint32_t i = 0; i < 2000; i++)
		world_step(&dw.w);
	assert_false(wait.is_over);
	assert_true(dworld_stats(&dw).capacity_bytes > 4 << 20);
	assert_true(world_is_gen(&v, &(struct store_key[]){world_key(299)}[0], 299));
	/* It still serves. */
	assert_int_equal(world_put(&dw.w, 1000, 5, 100000), 0);
	assert_int_equal(world_get(&dw.w, 1000, 5, 100000), 0);
	dworld_unpin(&dw, &v);
	world_until(&dw.w, &wait.is_over);
	assert_int_equal(wait.res, 0);
	dworld_check(&dw);
	assert_true(dworld_stats(&dw).capacity_bytes == 4 << 20);
	/* Nothing was lost: what went was written below. */
	for (uint32_t i = 0; i < 300; i++)
		assert_int_equal(world_get(&dw.w, i, i, 30000 + i), 0);
	resize(&dw, 100000, &wait);
	world_until(&dw.w, &wait.is_over);
	assert_int_equal(wait.res, -EINVAL);
	world_fini(&dw.w);
}

/* Up and down in a row, with puts in between. */
static void t_swing(void **state)
{
	struct world_wait wait;
	struct dworld dw;
	struct rng rng;

	rng_init(&rng, unit_seed(8));
	dworld_init(&dw, 8 << 20);
	for (uint32_t i = 0; i < 40; i++) {
		uint64_t bytes = (2 << 20) + rng_below(&rng, 20 << 20);

		resize(&dw, bytes, &wait);
		for (uint32_t k = 0; k < 30; k++) {
			uint32_t no = (uint32_t)rng_below(&rng, 300);

			assert_int_equal(world_put(&dw.w, no, no, 1 + rng_below(&rng, 200000)), 0);
		}
		world_until(&dw.w, &wait.is_over);
		assert_int_equal(wait.res, 0);
		dworld_check(&dw);
		assert_true(dw.d->bytes == bytes);
		assert_true(bytes - dw.d->fixed_bytes - dw.d->arena.cost_bytes <
			    2 * DRAM_SEG_BYTES_MIN);
	}
	world_fini(&dw.w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_cut),    cmocka_unit_test(t_too_small), cmocka_unit_test(t_grow),
		cmocka_unit_test(t_shrink), cmocka_unit_test(t_swing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
