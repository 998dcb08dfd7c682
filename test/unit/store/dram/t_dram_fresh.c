/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dram_fresh.c: what others may change below is answered from memory for as long as it may be, by
 * every way there is to ask, and not longer; what isn't written yet is ours.
 */
#include "dram_world.h"
#include "store/store_make.h"

#define LEN 5000u
#define FRESH_NS 1000000000ull

static struct store *mem;

static void world_of(struct dworld *dw)
{
	dworld_init_opts(dw,
			 &(struct store_dram_opts){
				 .bytes = 4 << 20, .is_through = true, .fresh_ns = FRESH_NS},
			 1);
	mem = store_mem_create();
	store_set_push(dw->w.set, 0, mem);
	dw->w.clock_ns = 5 * FRESH_NS;
}

static uint64_t mem_hits(void)
{
	struct store_stats st = {0};

	mem->ops->stats(mem, &st);
	return st.hits;
}

/* Another machine replaces it. */
static void replace_below(struct dworld *dw, uint32_t no, uint64_t gen, uint64_t ver)
{
	struct world_io wi = {.io = {.op = STORE_BUF, .key = world_key(no), .len = LEN}};

	wi.io.end = world_io_end;
	store_submit_at(mem, &wi.io);
	world_until(&dw->w, &wi.is_over);
	assert_int_equal(wi.res, 0);
	world_fill(&wi.io.view, &wi.io.key, gen);
	wi.io.op = STORE_FILL;
	wi.io.ver = ver;
	wi.is_over = false;
	store_submit_at(mem, &wi.io);
	world_until(&dw->w, &wi.is_over);
	assert_int_equal(wi.res, 0);
}

static bool is_now(struct dworld *dw, uint32_t no)
{
	struct store_key k = world_key(no);
	const struct store_key *keys = &k;
	struct store_view v;
	uint64_t ask;
	int res = store_now(dw->w.set, dw->w.r[0], &k, 0, &v);

	if (!res)
		store_release(&v, dw->w.r[0], NULL);
	assert_true(res == 0 || res == -EAGAIN);
	assert_int_equal(store_look(dw->w.set, dw->w.r[0], &keys, 1, &ask), res == 0);
	assert_int_equal(ask, res != 0);
	return res == 0;
}

static void old_is_a_miss(void **state)
{
	struct dworld dw;
	uint64_t hits;

	world_of(&dw);
	assert_int_equal(world_put(&dw.w, 1, 1, LEN), 0);
	world_settle(&dw.w); /* it is written */
	assert_int_equal(world_get(&dw.w, 1, 1, LEN), 0);
	assert_int_equal(mem_hits(), 0);
	replace_below(&dw, 1, 2, 1000);
	assert_int_equal(world_get(&dw.w, 1, 1, LEN), 0);
	assert_true(is_now(&dw, 1));
	dw.w.clock_ns += FRESH_NS;
	assert_int_equal(world_get(&dw.w, 1, 2, LEN), 0);
	hits = mem_hits();
	assert_true(hits > 0);
	/* It was promoted: fresh again, for as long. */
	assert_true(is_now(&dw, 1));
	assert_int_equal(world_get(&dw.w, 1, 2, LEN), 0);
	assert_int_equal(mem_hits(), hits);
	dw.w.clock_ns += FRESH_NS;
	assert_false(is_now(&dw, 1));
	world_fini(&dw.w);
}

static void all_ways(void **state)
{
	struct dworld dw;
	struct store_key k = world_key(1);
	uint8_t found;
	struct world_io wi;

	world_of(&dw);
	for (enum store_op op = STORE_EXIST; op <= STORE_MATCH; op++) {
		assert_int_equal(world_put(&dw.w, 1, 1, LEN), 0);
		world_settle(&dw.w);
		wi = (struct world_io){
			.io = {.op = (uint8_t)op, .key = k, .flags = STORE_MEM_ONLY}};
		if (op == STORE_MATCH)
			wi.io.match = (struct store_match){.keys = &k, .found = &found, .nr = 1};
		assert_int_equal(world_run(&dw.w, 0, &wi), 0);
		dw.w.clock_ns += FRESH_NS;
		assert_int_equal(world_run(&dw.w, 0, &wi), 0); /* of the tier below */
		assert_int_equal(dw.d->ix.nr_linked, 0);
	}
	world_fini(&dw.w);
}

/* Nobody has seen it below: there is nothing that others could have replaced. */
static void dirty_stays(void **state)
{
	struct store_key k = world_key(1);
	struct dworld dw;
	struct dram_entry *e;

	world_of(&dw);
	assert_int_equal(world_put(&dw.w, 1, 1, LEN), 0);
	world_settle(&dw.w);
	e = dram_index_find(&dw.d->ix, &k);
	assert_non_null(e);
	dram_value_set_dirty(dw.d, e, true);
	dw.w.clock_ns += 10 * FRESH_NS;
	assert_true(is_now(&dw, 1));
	dram_value_set_dirty(dw.d, e, false);
	assert_false(is_now(&dw, 1));
	world_fini(&dw.w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(old_is_a_miss),
		cmocka_unit_test(all_ways),
		cmocka_unit_test(dirty_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
