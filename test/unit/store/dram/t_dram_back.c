/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dram_back.c: flush, what it promises and what ends it, write-backs that fail, that are late, that
 * are overtaken.
 */
#include "dram_world.h"
#include "store/store_make.h"

static bool is_below(struct dworld *dw, uint32_t no)
{
	struct world_io wi = {.io = {.op = STORE_EXIST, .key = world_key(no)}};

	wi.io.end = world_io_end;
	store_submit_below(dw->st, &wi.io);
	world_until(&dw->w, &wi.is_over);
	return wi.res == 0;
}

static void t_flush(void **state)
{
	struct dworld dw;

	dworld_init_two(&dw, 4 << 20, NULL);
	for (uint32_t i = 0; i < 100; i++) {
		assert_int_equal(world_put(&dw.w, i, i, 100 + i * 300), 0);
		assert_false(is_below(&dw, i));
	}
	assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), 0);
	for (uint32_t i = 0; i < 100; i++)
		assert_true(is_below(&dw, i));
	assert_true(dram_bits_next(&dw.d->dirty, 0) == DRAM_BITS_END);
	/* The order of eviction is as it was. */
	assert_int_equal(dram_room_evict(dw.d), 0);
	assert_int_equal(dw.d->ix.nr_linked, 99);
	assert_null(dram_index_find(&dw.d->ix, &(struct store_key[]){world_key(0)}[0]));
	world_fini(&dw.w);
}

/* A large value goes a piece per turn; two flushes are answered in turn. */
static void t_large(void **state)
{
	struct world_io wi[2];
	struct dworld dw;

	dworld_init_two(&dw, 32 << 20, NULL);
	assert_int_equal(world_put(&dw.w, 1, 1, (9 << 20) + 5), 0);
	for (int i = 0; i < 2; i++) {
		wi[i] = (struct world_io){.io = {.op = STORE_FLUSH}};
		world_start(&dw.w, 0, &wi[i]);
	}
	for (int i = 0; i < 8; i++)
		world_step(&dw.w);
	assert_false(wi[0].is_over);
	world_until(&dw.w, &wi[1].is_over);
	assert_true(wi[0].is_over);
	assert_int_equal(wi[0].res, 0);
	assert_int_equal(wi[1].res, 0);
	assert_int_equal(dram_room_evict(dw.d), 0);
	assert_int_equal(world_get(&dw.w, 1, 1, (9 << 20) + 5), 0);
	world_fini(&dw.w);
}

/*
 * Nothing can be written below: a flush says so, a put still finds room, and what is lost is a
 * miss.
 */
static void t_failing(void **state)
{
	struct dworld dw;
	uint32_t nr_hits = 0;

	dworld_init(&dw, 1 << 20);
	store_set_push(dw.w.set, 0, store_fault_create(&(struct store_fault_opts){.seed = 1}));
	/* Below the fault there is no store: BUF ends with -ENOENT. */
	for (uint32_t i = 0; i < 20; i++)
		assert_int_equal(world_put(&dw.w, i, i, 10000), 0);
	assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), -ENOSPC);
	for (uint32_t i = 0; i < 20; i++)
		assert_int_equal(world_get(&dw.w, i, i, 10000), 0);
	for (uint32_t i = 20; i < 300; i++)
		assert_int_equal(world_put(&dw.w, i, i, 10000), 0);
	for (uint32_t i = 0; i < 300; i++) {
		int res = world_get(&dw.w, i, i, 10000);

		assert_true(res == 0 || res == -ENOENT);
		nr_hits += res == 0;
	}
	assert_true(nr_hits > 50);
	world_fini(&dw.w);
}

/*
 * A dirty value whose bytes went bad is found when it is written: told, dropped, and no older one
 * comes up instead.
 */
static void t_bad(void **state)
{
	struct store_view v;
	struct dworld dw;

	dworld_init_two(&dw, 4 << 20, NULL);
	assert_int_equal(world_put(&dw.w, 1, 1, 100000), 0);
	assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), 0);
	assert_int_equal(world_put(&dw.w, 1, 2, 100000), 0);
	assert_int_equal(dworld_pin(&dw, 1, &v), 0);
	dworld_flip(&v, 99999);
	dworld_unpin(&dw, &v);
	assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), -ENOSPC);
	assert_int_equal(dw.w.nr_alerts, 1);
	assert_int_equal(world_get(&dw.w, 1, 1, 100000), -ENOENT);
	/* The same when a reader finds it. */
	assert_int_equal(world_put(&dw.w, 1, 3, 100000), 0);
	assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), 0);
	assert_int_equal(world_put(&dw.w, 1, 4, 100000), 0);
	assert_int_equal(dworld_pin(&dw, 1, &v), 0);
	v.is_bad = true;
	dworld_unpin(&dw, &v);
	assert_int_equal(world_get(&dw.w, 1, 3, 100000), -ENOENT);
	/* A clean one is there again, from below. */
	assert_int_equal(world_put(&dw.w, 1, 5, 100000), 0);
	assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), 0);
	assert_int_equal(dworld_pin(&dw, 1, &v), 0);
	v.is_bad = true;
	dworld_unpin(&dw, &v);
	assert_int_equal(world_get(&dw.w, 1, 5, 100000), 0);
	world_fini(&dw.w);
}

/* Put and del while the write-back of the older value is at every possible step. */
static void t_overtaken(void **state)
{
	struct world_io wi;
	struct dworld dw;

	for (uint32_t steps = 0; steps < 12; steps++) {
		for (int is_del = 0; is_del < 2; is_del++) {
			dworld_init_two(&dw, 16 << 20, NULL);
			assert_int_equal(world_put(&dw.w, 1, 1, 5 << 20), 0);
			wi = (struct world_io){.io = {.op = STORE_FLUSH}};
			world_start(&dw.w, 0, &wi);
			for (uint32_t i = 0; i < steps; i++)
				world_step(&dw.w);
			if (is_del)
				assert_int_equal(world_op(&dw.w, STORE_DEL, 1), 0);
			else
				assert_int_equal(world_put(&dw.w, 1, 2, 100), 0);
			world_until(&dw.w, &wi.is_over);
			world_settle(&dw.w);
			assert_int_equal(dw.d->nr_backs, 0);
			assert_int_equal(world_get(&dw.w, 1, 2, 100), is_del ? -ENOENT : 0);
			if (!is_del) {
				assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), 0);
				assert_int_equal(dram_room_evict(dw.d), 0);
				assert_int_equal(world_get(&dw.w, 1, 2, 100), 0);
			} else {
				assert_false(is_below(&dw, 1));
			}
			world_fini(&dw.w);
		}
	}
}

/* The set goes away in the middle of one. */
static void t_ended(void **state)
{
	struct dworld dw;

	for (uint32_t steps = 0; steps < 8; steps++) {
		dworld_init_two(&dw, 16 << 20, NULL);
		assert_int_equal(world_put(&dw.w, 1, 1, 5 << 20), 0);
		assert_int_equal(
			dram_back_start(dw.d,
					dram_index_find(&dw.d->ix,
							&(struct store_key[]){world_key(1)}[0]),
					true),
			0);
		for (uint32_t i = 0; i < steps; i++)
			world_step(&dw.w);
		world_fini(&dw.w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_flush),     cmocka_unit_test(t_large),
		cmocka_unit_test(t_failing),   cmocka_unit_test(t_bad),
		cmocka_unit_test(t_overtaken), cmocka_unit_test(t_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
