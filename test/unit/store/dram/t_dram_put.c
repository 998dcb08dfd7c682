/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dram_put.c: conditions, replacement, versions; fill, inval and del by their rules; chains that
 * are made to collide.
 */
#include "dram_world.h"

static void t_versions(void **state)
{
	struct store_view v;
	struct dworld dw;
	uint64_t last = 0;

	dworld_init_two(&dw, 4 << 20, NULL);
	for (uint32_t i = 0; i < 50; i++) {
		assert_int_equal(world_put(&dw.w, 1, i, 100 + i), 0);
		assert_int_equal(dworld_pin(&dw, 1, &v), 0);
		assert_true(v.ver > last);
		last = v.ver;
		dworld_unpin(&dw, &v);
		if (i % 7 == 0)
			assert_int_equal(world_op(&dw.w, STORE_DEL, 1), 0);
	}
	world_fini(&dw.w);
}

/* Conditions are about every tier, not this one. */
static void t_if(void **state)
{
	struct world_io wi;
	struct dworld dw;

	dworld_init_two(&dw, 4 << 20, NULL);
	assert_int_equal(world_put(&dw.w, 1, 1, 100), 0);
	assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), 0);
	assert_int_equal(dram_room_evict(dw.d), 0);
	/* It is below only. */
	assert_int_equal(dworld_buf(&dw, &wi, 1, 2, 200), 0);
	wi.io.op = STORE_PUT;
	wi.io.flags = STORE_IF_ABSENT;
	assert_int_equal(world_run(&dw.w, 0, &wi), -EEXIST);
	assert_null(wi.io.view.st);
	assert_int_equal(world_get(&dw.w, 1, 1, 100), 0);
	assert_int_equal(dworld_buf(&dw, &wi, 2, 2, 200), 0);
	wi.io.op = STORE_PUT;
	wi.io.flags = STORE_IF_PRESENT;
	assert_int_equal(world_run(&dw.w, 0, &wi), -ENOENT);
	assert_int_equal(dworld_buf(&dw, &wi, 1, 3, 300), 0);
	wi.io.op = STORE_PUT;
	wi.io.flags = STORE_IF_PRESENT;
	assert_int_equal(world_run(&dw.w, 0, &wi), 0);
	assert_int_equal(world_get(&dw.w, 1, 3, 300), 0);
	/* BUF tells early what it can see. */
	wi = (struct world_io){
		.io = {.op = STORE_BUF, .key = world_key(1), .len = 1, .flags = STORE_IF_ABSENT}};
	assert_int_equal(world_run(&dw.w, 0, &wi), -EEXIST);
	assert_int_equal(dw.d->nr_bufs, 0);
	world_fini(&dw.w);
}

static int fill(struct dworld *dw, uint32_t no, uint64_t gen, uint64_t ver)
{
	struct world_io wi;

	assert_int_equal(dworld_buf(dw, &wi, no, gen, 500), 0);
	wi.io.op = STORE_FILL;
	wi.io.ver = ver;
	return world_run(&dw->w, 0, &wi);
}

static int inval(struct dworld *dw, uint32_t no, uint64_t ver)
{
	struct world_io wi = {.io = {.op = STORE_INVAL, .key = world_key(no), .ver = ver}};

	/* As a tier asks: the result comes untranslated. */
	wi.io.end = world_io_end;
	store_submit_at(dw->st, &wi.io);
	world_until(&dw->w, &wi.is_over);
	return wi.res;
}

/* As the tier below another one. */
static void t_fill_inval(void **state)
{
	struct dworld dw;
	struct store_view v;

	dworld_init(&dw, 4 << 20);
	assert_int_equal(fill(&dw, 1, 5, 50), 0);
	assert_int_equal(world_get(&dw.w, 1, 5, 500), 0);
	assert_int_equal(fill(&dw, 1, 4, 40), -ESTALE);
	assert_int_equal(fill(&dw, 1, 5, 50), -ESTALE);
	assert_int_equal(world_get(&dw.w, 1, 5, 500), 0);
	assert_int_equal(inval(&dw, 1, 49), -ESTALE);
	assert_int_equal(inval(&dw, 1, 50), 0);
	assert_int_equal(world_get(&dw.w, 1, 5, 500), 0);
	assert_int_equal(inval(&dw, 1, 60), 0);
	assert_int_equal(world_get(&dw.w, 1, 5, 500), -ENOENT);
	assert_int_equal(inval(&dw, 2, 70), 0);
	/* Its own versions go on above what it has seen. */
	assert_int_equal(world_put(&dw.w, 3, 1, 10), 0);
	assert_int_equal(dworld_pin(&dw, 3, &v), 0);
	assert_true(v.ver > 70);
	dworld_unpin(&dw, &v);
	world_fini(&dw.w);
}

static void t_del(void **state)
{
	struct dworld dw;

	dworld_init_two(&dw, 4 << 20, NULL);
	assert_int_equal(world_op(&dw.w, STORE_DEL, 1), -ENOENT);
	assert_int_equal(world_put(&dw.w, 1, 1, 100), 0);
	assert_int_equal(world_op(&dw.w, STORE_DEL, 1), 0);
	assert_int_equal(world_op(&dw.w, STORE_DEL, 1), -ENOENT);
	assert_int_equal(world_put(&dw.w, 1, 2, 100), 0);
	assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), 0);
	assert_int_equal(dram_room_evict(dw.d), 0);
	assert_int_equal(world_op(&dw.w, STORE_DEL, 1), 0);
	assert_int_equal(world_get(&dw.w, 1, 2, 100), -ENOENT);
	world_fini(&dw.w);
}

/* 200 keys of the first bucket: the chain stays bounded, the oldest go, the others are there. */
static void t_collide(void **state)
{
	static struct store_key keys[200];
	struct world_io wi;
	struct dworld dw;
	uint32_t nr = 0;

	dworld_init(&dw, 4 << 20);
	for (uint32_t no = 0; nr < 200; no++) {
		keys[nr] = world_key(no);
		if (keys[nr].hash < UINT64_MAX / dw.d->ix.nr_buckets)
			nr++;
	}
	for (uint32_t i = 0; i < 200; i++) {
		wi = (struct world_io){.io = {.op = STORE_BUF, .key = keys[i], .len = 10}};
		assert_int_equal(world_run(&dw.w, 0, &wi), 0);
		wi.io.op = STORE_PUT;
		assert_int_equal(world_run(&dw.w, 0, &wi), 0);
	}
	assert_int_equal(dw.d->ix.nr_linked, DRAM_CHAIN_MAX);
	for (uint32_t i = 0; i < 200; i++) {
		wi.io.op = STORE_EXIST;
		wi.io.key = keys[i];
		assert_int_equal(world_run(&dw.w, 0, &wi), i < 200 - DRAM_CHAIN_MAX ? -ENOENT : 0);
	}
	world_fini(&dw.w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_versions),	cmocka_unit_test(t_if),
		cmocka_unit_test(t_fill_inval), cmocka_unit_test(t_del),
		cmocka_unit_test(t_collide),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
