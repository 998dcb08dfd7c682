/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A key with records in two segments, of a namespace whose values don't change: one put over
 * another, a copy that eviction makes while the key is put, writes that failed. The index knows of
 * the key until both are gone, so a delete always kills both; and what failed kills nothing.
 */
#include "ssd_world.h"

#define LEN 3000u

static struct ssd_world *twin_world(bool is_durable)
{
	struct ssd_world *sw = ssd_world_create(4 << 20, 128 << 10);

	sw->is_immutable = true;
	sw->o.is_durable = is_durable;
	sw->o.reinsert_1024 = 1024;
	return sw;
}

static void fail_next(struct ssd_world *sw, enum fake_fault kind)
{
	ssd_world_disk(sw)->nth_kind = kind;
	ssd_world_disk(sw)->nth_left = 1;
}

static struct ssd_entry *entry(struct ssd_world *sw, uint32_t no)
{
	struct store_key key = world_key(no);

	return ssd_index_find(&sw->s->ix, &key);
}

/* Others push it out. Forgotten or a ghost: deleting it leaves nothing to come back. */
static void check_gone(struct ssd_world *sw, uint32_t no)
{
	for (uint32_t n = 0; n < 3000 && entry(sw, no); n++)
		assert_int_equal(world_put(&sw->w, 1000 + n, 1, LEN), 0);
	assert_true(!entry(sw, no) || entry(sw, no)->is_ghost);
	assert_int_equal(world_op(&sw->w, STORE_DEL, no), -ENOENT);
	ssd_world_crash(sw, FAKE_KILL);
	assert_int_equal(world_get(&sw->w, no, 1, LEN), -ENOENT);
	ssd_world_destroy(sw);
}

/* A put over something in a lost segment fails, is tried again with its version, and flushed. */
static void retry_outlives_failure(void **state)
{
	struct ssd_world *sw = twin_world(false);

	sw->dram_bytes = 4 << 20;
	ssd_world_again(sw);
	assert_int_equal(world_put(&sw->w, 0, 1, LEN), 0);
	fail_next(sw, FAKE_SYNC_EIO);
	assert_int_not_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
	assert_true(entry(sw, 0)->is_ghost);
	for (uint32_t i = 0; i < 2000; i++)
		world_step(&sw->w);
	assert_int_equal(sw->s->segs[entry(sw, 0)->seg].state, SSD_LOST);
	assert_int_equal(world_put(&sw->w, 1, 1, LEN), 0);
	assert_int_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
	/* By this memory learns of the versions below. */
	assert_int_equal(world_op(&sw->w, STORE_DEL, 1), 0);
	assert_int_equal(world_put(&sw->w, 0, 1, LEN), 0);
	fail_next(sw, FAKE_WRITE_EIO);
	assert_int_not_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
	assert_int_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
	assert_int_equal(world_get(&sw->w, 0, 1, LEN), 0);
	ssd_world_again(sw);
	assert_int_equal(world_get(&sw->w, 0, 1, LEN), 0);
	ssd_world_destroy(sw);
}

/* What was acknowledged is still there when the same, put again, could not be written. */
static void failure_kills_nothing(void **state)
{
	struct ssd_world *sw = twin_world(true);

	ssd_world_again(sw);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
	ssd_seg_set(sw->s, entry(sw, 0)->seg, SSD_LOST);
	fail_next(sw, FAKE_WRITE_EIO);
	assert_int_equal(world_put(&sw->w, 0, 1, LEN), -ENOSPC);
	assert_int_equal(world_get(&sw->w, 0, 1, LEN), 0);
	ssd_world_again(sw);
	assert_int_equal(world_get(&sw->w, 0, 1, LEN), 0);
	ssd_world_destroy(sw);
}

/*
 * The same over a record that goes before what failed: in a sealed segment, in the open one that
 * the write fails in, in one that is about to be evicted.
 */
static void failure_leaves_older(void **state)
{
	enum { SEALED, OPEN, EVICTING, NR };

	for (unsigned where = SEALED; where < NR; where++) {
		struct ssd_world *sw = twin_world(true);
		uint32_t no = where == OPEN ? 99 : 0;

		sw->o.reinsert_1024 = 0;
		ssd_world_again(sw);
		for (uint32_t i = 0; i < 100; i++)
			assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
		assert_int_equal(sw->s->segs[entry(sw, no)->seg].state,
				 where == OPEN ? SSD_OPEN : SSD_SEALED);
		if (where == EVICTING)
			ssd_evict_force(sw->s);
		fail_next(sw, FAKE_WRITE_EIO);
		assert_int_equal(world_put(&sw->w, no, 1, LEN), -ENOSPC);
		if (where != EVICTING)
			assert_int_equal(world_get(&sw->w, no, 1, LEN), 0);
		check_gone(sw, no);
	}
}

/*
 * A tombstone is no record of the same bytes: what failed has to be known, for the next delete to
 * kill it. Recoveries leave such entries; here one is made.
 */
static void failure_over_tombstone(void **state)
{
	struct ssd_world *sw = twin_world(true);

	ssd_world_again(sw);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
	ssd_seg_ghost(sw->s, entry(sw, 0));
	entry(sw, 0)->is_tomb = true;
	ssd_seg_set(sw->s, entry(sw, 0)->seg, SSD_LOST);
	fail_next(sw, FAKE_WRITE_EIO);
	assert_int_equal(world_put(&sw->w, 0, 1, LEN), -ENOSPC);
	assert_true(entry(sw, 0)->is_ghost);
	assert_false(entry(sw, 0)->is_tomb);
	assert_int_equal(world_get(&sw->w, 0, 1, LEN), -ENOENT);
	ssd_world_destroy(sw);
}

/* A delete fails because its tombstone finds no place: it is nowhere, and kills nothing. */
static void tombstone_nowhere(void **state)
{
	struct world_io del = {.io = {.op = STORE_DEL, .key = world_key(0)}};
	struct ssd_world *sw = twin_world(true);

	ssd_world_again(sw);
	assert_int_equal(world_put(&sw->w, 0, 1, LEN), 0);
	world_start(&sw->w, 0, &del);
	for (uint32_t i = 0; i < 1000 && list_is_empty(&sw->s->stream[SSD_COLD].waiting); i++)
		world_step(&sw->w);
	for (uint32_t i = 0; i < SSD_STREAMS; i++)
		ssd_stream_fail(sw->s, i, -ENOSPC);
	/* The other copy may have been placed before. */
	world_until(&sw->w, &del.is_over);
	assert_int_equal(del.res, -ENOSPC);
	assert_int_equal(world_get(&sw->w, 0, 1, LEN), 0);
	assert_int_equal(world_op(&sw->w, STORE_DEL, 0), 0);
	ssd_world_crash(sw, FAKE_KILL);
	assert_int_equal(world_get(&sw->w, 0, 1, LEN), -ENOENT);
	ssd_world_destroy(sw);
}

static void until_idle(struct ssd_world *sw)
{
	for (uint32_t i = 0; i < 20000 && sw->s->evict.state != SSD_EVICT_IDLE; i++)
		world_step(&sw->w);
	assert_int_equal(sw->s->evict.state, SSD_EVICT_IDLE);
}

/*
 * A put fails at any time while the segment of the older record goes, up to the moment before its
 * entries do: the key stays known.
 */
static void failure_while_evicted(void **state)
{
	uint32_t nr_failed = 0, nr_second = 0;

	for (uint32_t turns = 0; turns < 150; turns++) {
		struct ssd_world *sw = twin_world(true);
		struct world_io put;

		sw->o.reinsert_1024 = 0;
		ssd_world_again(sw);
		for (uint32_t i = 0; i < 100; i++)
			assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
		ssd_world_buf(sw, &put, 0, 1, LEN);
		ssd_evict_force(sw->s);
		for (uint32_t i = 0; i < turns; i++)
			world_step(&sw->w);
		if (!entry(sw, 0))
			turns = UINT32_MAX - 1; /* too late from now on */
		fail_next(sw, FAKE_WRITE_EIO);
		world_start(&sw->w, 0, &put);
		world_until(&sw->w, &put.is_over);
		nr_failed += put.res != 0;
		nr_second += put.res && sw->s->evict.state != SSD_EVICT_IDLE &&
			     sw->s->evict.is_second;
		until_idle(sw);
		assert_non_null(entry(sw, 0));
		ssd_world_destroy(sw);
	}
	assert_true(nr_failed > 10);
	assert_true(nr_second > 0);
}

/* Key 0 is in the oldest segment, which is being evicted; it was used, so it is saved. */
static struct ssd_world *evicting_world(uint32_t nr_turns, struct world_io *put)
{
	struct ssd_world *sw = twin_world(true);

	ssd_world_again(sw);
	for (uint32_t i = 0; i < 60; i++)
		assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
	ssd_world_again(sw);
	for (uint32_t i = 100; i < 110; i++)
		assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
	assert_int_equal(world_get(&sw->w, 0, 1, LEN), 0);
	ssd_evict_force(sw->s);
	for (uint32_t i = 0; i < nr_turns; i++)
		world_step(&sw->w);
	ssd_world_put(sw, put, 0, 1, LEN);
	return sw;
}

static bool is_saving(struct ssd_world *sw)
{
	struct store_key key = world_key(0);

	return ssd_evict_is_saving(sw->s, &key);
}

static void saved_while_put(void **state)
{
	uint32_t nr_saving = 0;

	for (uint32_t turns = 0; turns < 80; turns += 4) {
		struct world_io put;
		struct ssd_world *sw = evicting_world(turns, &put);

		nr_saving += is_saving(sw);
		world_until(&sw->w, &put.is_over);
		assert_int_equal(put.res, 0);
		until_idle(sw);
		check_gone(sw, 0);
	}
	assert_true(nr_saving > 0);
}

/* False: the put was over before. */
static bool killed_after(uint32_t turns, uint32_t more, uint32_t *nr_saving)
{
	struct world_io put;
	struct ssd_world *sw = evicting_world(turns, &put);

	for (uint32_t i = 0; i < more && !put.is_over; i++)
		world_step(&sw->w);
	if (put.is_over) {
		ssd_world_destroy(sw);
		return false;
	}
	*nr_saving += is_saving(sw);
	fake_disk_crash(ssd_world_disk(sw), FAKE_KILL);
	world_until(&sw->w, &put.is_over);
	ssd_world_end(sw);
	fake_disk_revive(ssd_world_disk(sw));
	assert_int_equal(ssd_world_begin(sw), 0);
	check_gone(sw, 0);
	return true;
}

static void saved_while_put_and_killed(void **state)
{
	uint32_t nr_saving = 0;

	for (uint32_t turns = 10; turns < 80; turns += 7)
		for (uint32_t more = 0; killed_after(turns, more, &nr_saving);)
			more += 8;
	assert_true(nr_saving > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(retry_outlives_failure),
		cmocka_unit_test(failure_kills_nothing),
		cmocka_unit_test(failure_leaves_older),
		cmocka_unit_test(failure_over_tombstone),
		cmocka_unit_test(tombstone_nowhere),
		cmocka_unit_test(failure_while_evicted),
		cmocka_unit_test(saved_while_put),
		cmocka_unit_test(saved_while_put_and_killed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
