/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dram_fetch.c, dram_hint.c, store_hint.c over a disk: what is prefetched is in memory before its
 * time, what is cancelled isn't read, what is demoted is below; chains that a MATCH asks about; and
 * reads that somebody waits for go first, whichever namespace's they are.
 */
#include "ssd_world.h"

#include "store/dram/dram_int.h"

#define MIB (1u << 20)
#define MS 1000000ull

static struct store_stats dram_stats(struct ssd_world *sw)
{
	struct store_stats st = {0};

	assert_int_equal(store_set_stats(sw->w.set, 0, &st), 0);
	return st;
}

static struct dram *dram(struct ssd_world *sw)
{
	return dram_of(sw->w.set ? sw->top : NULL);
}

static bool is_here(struct ssd_world *sw, uint32_t no)
{
	struct store_key k = world_key(no);

	return dram_index_find(&dram(sw)->ix, &k);
}

static int hint(struct ssd_world *sw, enum store_hint_verb verb, uint32_t no, uint64_t until_ns)
{
	struct store_hint h = {.key = world_key(no), .until_ns = until_ns, .verb = (uint8_t)verb};

	return store_hint(sw->w.set, &h);
}

/* Keys 0 .. nr - 1 of `len` bytes on the disk, none in memory. */
static struct ssd_world *world_below(uint32_t nr, uint64_t len, uint64_t dram_bytes)
{
	struct ssd_world *sw = ssd_world_create(96 * MIB, 8 * MIB);

	for (uint32_t i = 0; i < nr; i++)
		assert_int_equal(world_put(&sw->w, i, 1, len), 0);
	sw->dram_bytes = dram_bytes;
	sw->delay_max_ns = MS;
	ssd_world_again(sw);
	return sw;
}

static void settle(struct ssd_world *sw)
{
	while (dram_fetch_is_busy(dram(sw)) || dram_fetch_step(dram(sw)))
		world_step(&sw->w);
}

static void prefetch_in_time(void **state)
{
	static const uint64_t lens[] = {1000, 70000, 3 * MIB + 5};
	struct ssd_world *sw;
	uint64_t until, bytes;

	for (uint32_t i = 0; i < ARRAY_SIZE(lens); i++) {
		sw = world_below(4, lens[i], 64 * MIB);
		until = sw->w.clock_ns + 100 * MS;
		for (uint32_t no = 0; no < 4; no++)
			assert_int_equal(hint(sw, STORE_HINT_PREFETCH, no, until), 0);
		settle(sw);
		assert_true(sw->w.clock_ns < until);
		for (uint32_t no = 0; no < 4; no++)
			assert_true(is_here(sw, no));
		assert_int_equal(dram_stats(sw).fetches, 4);
		assert_int_equal(dram_stats(sw).fetched_bytes, 4 * lens[i]);
		assert_int_equal(dram_stats(sw).misses, 0);
		/* Read from memory, and counted once as used. */
		bytes = ssd_world_stats(sw).read_bytes;
		for (uint32_t k = 0; k < 2; k++)
			for (uint32_t no = 0; no < 4; no++)
				assert_int_equal(world_get(&sw->w, no, 1, lens[i]), 0);
		assert_int_equal(ssd_world_stats(sw).read_bytes, bytes);
		assert_int_equal(dram_stats(sw).fetched_used, 4 * lens[i]);
		ssd_world_destroy(sw);
	}
}

static void too_late_or_absent(void **state)
{
	struct ssd_world *sw = world_below(4, MIB, 64 * MIB);

	sw->w.clock_ns += 5 * MS;
	assert_int_equal(hint(sw, STORE_HINT_PREFETCH, 1, sw->w.clock_ns - MS), 0);
	assert_int_equal(hint(sw, STORE_HINT_PREFETCH, 77, UINT64_MAX), 0);
	settle(sw);
	assert_false(is_here(sw, 1));
	assert_int_equal(dram_stats(sw).fetches, 0);
	assert_int_equal(dram_stats(sw).fetches_dropped, 2);
	assert_int_equal(ssd_world_stats(sw).read_bytes, 0);
	ssd_world_destroy(sw);
}

/* What the device has begun ends, nothing else is read. */
static void cancel(void **state)
{
	struct ssd_world *sw = world_below(20, 2 * MIB, 64 * MIB);
	uint64_t bytes;

	for (uint32_t no = 0; no < 20; no++)
		assert_int_equal(hint(sw, STORE_HINT_PREFETCH, no, UINT64_MAX), 0);
	while (ssd_world_stats(sw).read_bytes == 0)
		world_step(&sw->w);
	bytes = ssd_world_stats(sw).read_bytes;
	for (uint32_t no = 0; no < 20; no++)
		hint(sw, STORE_HINT_CANCEL, no, 0);
	settle(sw);
	assert_int_equal(ssd_world_stats(sw).read_bytes, bytes);
	assert_int_equal(dram_stats(sw).fetches, 0);
	assert_int_equal(hint(sw, STORE_HINT_CANCEL, 3, 0), -ENOENT);
	ssd_world_destroy(sw);
}

/* A quarter of the tier, until somebody uses what came. */
static void bounded(void **state)
{
	struct ssd_world *sw = world_below(60, MIB, 32 * MIB);
	struct store_stats st;

	for (uint32_t no = 0; no < 60; no++)
		assert_int_equal(hint(sw, STORE_HINT_PREFETCH, no, UINT64_MAX), 0);
	settle(sw);
	st = dram_stats(sw);
	assert_int_equal(st.fetched_bytes, 8 * MIB);
	assert_int_equal(st.fetches_dropped, 52);
	for (uint32_t no = 0; no < 60; no++)
		if (is_here(sw, no))
			assert_int_equal(world_get(&sw->w, no, 1, MIB), 0);
	assert_int_equal(dram(sw)->prefetch.out_bytes, 0);
	assert_int_equal(hint(sw, STORE_HINT_PREFETCH, 59, UINT64_MAX), 0);
	settle(sw);
	assert_true(is_here(sw, 59));
	ssd_world_destroy(sw);
}

static void demote(void **state)
{
	struct ssd_world *sw = world_below(2, 100000, 32 * MIB);
	struct store_view v;
	struct store_key k = world_key(5);

	assert_int_equal(world_put(&sw->w, 5, 1, 300000), 0);
	assert_int_equal(hint(sw, STORE_HINT_DEMOTE, 5, 0), 0);
	while (is_here(sw, 5))
		world_step(&sw->w);
	assert_int_equal(world_get(&sw->w, 5, 1, 300000), 0); /* from below, and up again */
	assert_true(is_here(sw, 5));
	assert_int_equal(store_now(sw->w.set, sw->w.r[0], &k, STORE_NO_TOUCH, &v), 0);
	assert_int_equal(hint(sw, STORE_HINT_DEMOTE, 5, 0), -EBUSY);
	store_release(&v, sw->w.r[0], NULL);
	assert_int_equal(hint(sw, STORE_HINT_DEMOTE, 5, 0), 0);
	assert_false(is_here(sw, 5));
	assert_int_equal(hint(sw, STORE_HINT_DEMOTE, 5, 0), -ENOENT);
	assert_int_equal(world_get(&sw->w, 5, 1, 300000), 0);
	ssd_world_destroy(sw);
}

static void score(void **state)
{
	struct ssd_world *sw = world_below(2, 100000, 32 * MIB);
	struct store_key k = world_key(1);
	struct store_hint h = {.key = k, .weight = 77, .verb = STORE_HINT_SCORE};

	assert_int_equal(store_hint(sw->w.set, &h), 0);
	assert_int_equal(ssd_index_find(&sw->s->ix, &k)->score, 77);
	assert_int_equal(world_get(&sw->w, 1, 1, 100000), 0);
	h.weight = 1000;
	assert_int_equal(store_hint(sw->w.set, &h), 0);
	assert_int_equal(dram_hint_score(dram(sw), dram_index_find(&dram(sw)->ix, &k)), 255);
	h.key = world_key(9);
	assert_int_equal(store_hint(sw->w.set, &h), -ENOENT);
	ssd_world_destroy(sw);
}

/* A chain that was asked about comes up while the caller gets ready to read it. */
static void chain(void **state)
{
	struct ssd_world *sw = world_below(6, MIB, 64 * MIB);
	struct store_key keys[6];
	uint8_t found[6];
	struct world_io wi = {.io = {.op = STORE_MATCH,
				     .flags = STORE_NO_TOUCH,
				     .match = {.keys = keys, .found = found, .nr = 6}}};

	for (uint32_t i = 0; i < 6; i++)
		keys[i] = world_key(i == 4 ? 99 : i);
	assert_int_equal(world_run(&sw->w, 0, &wi), 0);
	settle(sw);
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(is_here(sw, i), i < 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(world_get(&sw->w, i, 1, MIB), 0);
	assert_int_equal(dram_stats(sw).fetched_used, 4 * MIB);
	ssd_world_destroy(sw);
}

/*
 * While somebody reads, whoever it is, no more than one part in 4 ms is fetched; between two such
 * reads one at a time; else some.
 */
static void waited_first(void **state)
{
	struct ssd_world *sw = world_below(40, MIB, 64 * MIB);
	uint64_t start, bytes;

	++*reactor_waited_reads(sw->w.r[0]); /* another namespace's */
	for (uint32_t no = 0; no < 10; no++)
		assert_int_equal(hint(sw, STORE_HINT_PREFETCH, no, UINT64_MAX), 0);
	start = sw->w.clock_ns;
	while (sw->w.clock_ns < start + 40 * MS) {
		world_step(&sw->w);
		assert_true(sw->s->nr_background <= 1);
	}
	bytes = ssd_world_stats(sw).read_bytes;
	assert_true(bytes > 0 && bytes <= 11 * (STORE_PART_BYTES + SSD_BLOCK));
	--*reactor_waited_reads(sw->w.r[0]);
	start = sw->w.clock_ns;
	while (sw->w.clock_ns < start + 9 * MS && dram_fetch_is_busy(dram(sw))) {
		world_step(&sw->w);
		assert_true(sw->s->nr_background <= 1);
	}
	settle(sw);
	assert_int_equal(dram_stats(sw).fetches, 10);
	assert_int_equal(*reactor_unwaited_reads(sw->w.r[0]), 0);
	assert_int_equal(*reactor_waited_reads(sw->w.r[0]), 0);
	ssd_world_destroy(sw);
}

/* The end comes with wishes left. */
static void at_the_end(void **state)
{
	struct ssd_world *sw = world_below(40, MIB, 64 * MIB);

	for (uint32_t no = 0; no < 40; no++)
		assert_int_equal(hint(sw, STORE_HINT_PREFETCH, no, UINT64_MAX), 0);
	for (uint32_t i = 0; i < 20; i++)
		world_step(&sw->w);
	ssd_world_destroy(sw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prefetch_in_time),
		cmocka_unit_test(too_late_or_absent),
		cmocka_unit_test(cancel),
		cmocka_unit_test(bounded),
		cmocka_unit_test(demote),
		cmocka_unit_test(score),
		cmocka_unit_test(chain),
		cmocka_unit_test(waited_first),
		cmocka_unit_test(at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
