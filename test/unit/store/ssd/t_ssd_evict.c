/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssd_evict.c: the log goes round many times; the oldest go first, what is used stays while the
 * budget lasts, and the disk never holds more than it has.
 */
#include "ssd_world.h"

#include "store/store_health.h"

#define LEN 3000u

static void round_and_round(void **state)
{
	struct ssd_world *sw = ssd_world_create(4 << 20, 128 << 10);
	struct store_stats st;
	uint32_t nr = 12000; /* about 12 times what there is room for */

	for (uint32_t i = 0; i < nr; i++) {
		assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
		st = ssd_world_stats(sw);
		assert_true(st.used_bytes <= st.capacity_bytes);
	}
	assert_true(st.evictions > nr * 8 / 10);
	assert_true(st.nr_keys > 200);
	/* The newest are there, the oldest are not. */
	for (uint32_t i = nr - 100; i < nr; i++)
		assert_int_equal(world_get(&sw->w, i, 1, LEN), 0);
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(world_get(&sw->w, i, 1, LEN), -ENOENT);
	ssd_world_again(sw);
	for (uint32_t i = nr - 100; i < nr; i++)
		assert_int_equal(world_get(&sw->w, i, 1, LEN), 0);
	assert_int_equal(sw->w.nr_alerts, 0);
	ssd_world_destroy(sw);
}

/* Ten keys that are read all the time outlive everything else; without a budget they don't. */
static unsigned nr_kept(uint32_t reinsert_1024)
{
	struct ssd_world *sw = ssd_world_create(4 << 20, 128 << 10);
	unsigned nr = 0;

	sw->o.reinsert_1024 = reinsert_1024;
	ssd_world_again(sw);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(world_put(&sw->w, i, 1, i == 9 ? 80000 : LEN), 0);
	for (uint32_t i = 100; i < 8000; i++) {
		assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
		world_get(&sw->w, i % 10, 1, i % 10 == 9 ? 80000 : LEN);
	}
	for (uint32_t i = 0; i < 10; i++)
		nr += world_get(&sw->w, i, 1, i == 9 ? 80000 : LEN) == 0;
	ssd_world_again(sw);
	for (uint32_t i = 0; i < 10; i++)
		nr += world_get(&sw->w, i, 1, i == 9 ? 80000 : LEN) == 0;
	ssd_world_destroy(sw);
	return nr;
}

static void used_ones_stay(void **state)
{
	assert_int_equal(nr_kept(1024), 20);
	assert_int_equal(nr_kept(0), 0);
}

/* A key dies; its tombstone is carried on while a record of it may be there, and not for ever. */
static void tombstones(void **state)
{
	struct ssd_world *sw = ssd_world_create(4 << 20, 128 << 10);

	for (uint32_t i = 0; i < 3000; i++) {
		assert_int_equal(world_put(&sw->w, i % 50, i, LEN), 0);
		if (i % 7 == 0)
			assert_int_equal(world_op(&sw->w, STORE_DEL, i % 50), 0);
		if (i % 500 == 499) {
			ssd_world_crash(sw, FAKE_KILL);
			for (uint32_t k = 0; k < 50; k++) {
				uint32_t last = i - (i % 50 + 50 - k) % 50;

				assert_int_equal(world_get(&sw->w, k, last, LEN),
						 last % 7 == 0 ? -ENOENT : 0);
			}
		}
	}
	ssd_world_destroy(sw);
}

/*
 * A footer that can't be read may name the only copy of a tombstone: nothing in its segment goes
 * before it could be read.
 */
static void footer_unreadable(void **state)
{
	static const enum fake_fault kinds[] = {FAKE_READ_EIO, FAKE_READ_SHORT};

	for (uint32_t f = 0; f < ARRAY_SIZE(kinds); f++) {
		struct ssd_world *sw = ssd_world_create(4 << 20, 128 << 10);
		struct fake_disk *d = ssd_world_disk(sw);

		for (uint32_t i = 0; i < 400; i++)
			assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
		assert_int_equal(ssd_world_stats(sw).evictions, 0);
		d->nth_kind = kinds[f];
		d->nth_left = 1;
		ssd_evict_force(sw->s);
		for (uint32_t i = 0; i < 20000 && !sw->s->evict.nr_failed; i++) {
			assert_int_equal(ssd_world_stats(sw).evictions, 0);
			world_step(&sw->w);
		}
		assert_int_equal(d->nth_left, 0);
		assert_int_equal(sw->s->evict.nr_failed, 1);
		assert_int_equal(ssd_world_stats(sw).evictions, 0);
		/* It is tried again. */
		for (uint32_t i = 0; i < 20000 && !ssd_world_stats(sw).evictions; i++) {
			ssd_evict_force(sw->s);
			world_step(&sw->w);
		}
		assert_true(ssd_world_stats(sw).evictions > 0);
		ssd_world_destroy(sw);
	}
}

/* One that never can be costs its segment until the next start, and that is told, once. */
static void footer_lost(void **state)
{
	static const enum store_error errors[] = {STORE_ERROR_READ, STORE_ERROR_WRONG};

	for (uint32_t f = 0; f < ARRAY_SIZE(errors); f++) {
		struct ssd_world *sw = ssd_world_create(4 << 20, 128 << 10);
		struct fake_disk *d = ssd_world_disk(sw);
		struct store_health h;
		uint64_t end;
		int seg;

		for (uint32_t i = 0; i < 400; i++)
			assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
		seg = ssd_seg_oldest(sw->s);
		end = ssd_seg_addr(sw->s, (uint32_t)seg) + sw->s->super.seg_bytes;
		if (errors[f] == STORE_ERROR_READ)
			d->faults.chance[FAKE_READ_EIO] = 65536;
		else
			d->now[end - SSD_BLOCK + 100] ^= 1;
		for (uint32_t i = 0; i < 20000 && sw->s->segs[seg].state != SSD_LOST; i++) {
			ssd_evict_force(sw->s);
			world_step(&sw->w);
		}
		d->faults.chance[FAKE_READ_EIO] = 0;
		assert_int_equal(sw->s->segs[seg].state, SSD_LOST);
		assert_int_equal(sw->w.nr_alerts, 1);
		assert_int_equal(store_health_get(sw->w.set, 0, &h), 0);
		assert_int_equal(h.errors[errors[f]], 3);
		assert_int_equal(h.errors[STORE_ERROR_READ] + h.errors[STORE_ERROR_WRONG], 3);
		/* The others go on, and what is in it is read. */
		assert_int_equal(world_get(&sw->w, 0, 1, LEN), 0);
		for (uint32_t i = 0; i < 2000; i++)
			assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
		assert_int_equal(sw->s->segs[seg].state, SSD_LOST);
		assert_int_equal(sw->w.nr_alerts, 1);
		ssd_world_destroy(sw);
	}
}

/* A head that can't be written: nothing of it may be forgotten, and it is told. */
static void head_unwritable(void **state)
{
	struct ssd_world *sw = ssd_world_create(4 << 20, 128 << 10);
	struct fake_disk *d = ssd_world_disk(sw);
	int seg;

	for (uint32_t i = 0; i < 400; i++)
		assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
	assert_int_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
	seg = ssd_seg_oldest(sw->s);
	d->nth_kind = FAKE_WRITE_EIO;
	d->nth_left = 1;
	ssd_evict_force(sw->s);
	for (uint32_t i = 0; i < 20000 && sw->s->segs[seg].state != SSD_LOST; i++)
		world_step(&sw->w);
	assert_int_equal(sw->s->segs[seg].state, SSD_LOST);
	assert_int_equal(sw->w.nr_alerts, 1);
	assert_int_equal(world_get(&sw->w, 0, 1, LEN), 0);
	ssd_world_destroy(sw);
}

/* Does segment `seg` hold a tombstone of key `no` that counts? */
static bool has_tomb(struct ssd_world *sw, uint32_t seg, uint32_t no)
{
	struct ssd *s = sw->s;
	struct store_key key = world_key(no);

	if (s->segs[seg].state == SSD_FREE)
		return false;
	for (uint64_t at = SSD_BLOCK; at < s->super.seg_bytes; at += SSD_GRANULE) {
		struct ssd_bind b = ssd_seg_bind(s, seg, at);
		struct ssd_rec_info ri;

		if (!ssd_format_rec_check(ssd_world_disk(sw)->now + b.addr,
					  (uint32_t)(s->super.seg_bytes - at), &b, &ri) &&
		    ri.kind == SSD_REC_TOMB && store_key_equal(&ri.key, &key))
			return true;
	}
	return false;
}

/* Puts keys one after another, and deletes some that it has put. */
static void carry_on(struct ssd_world *sw, uint32_t from, uint32_t nr)
{
	for (uint32_t i = from; i < from + nr; i++) {
		assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
		if (i % 10 == 0 && i > 200)
			assert_int_equal(world_op(&sw->w, STORE_DEL, i - 60), 0);
	}
}

/*
 * A tombstone is carried on for long, by eviction of what it was in. Its copies are in two segments
 * at any time: each of them may be lost.
 */
static void two_copies(void **state)
{
	struct store_key key = world_key(0);

	for (unsigned which = 0;; which++) {
		struct ssd_world *sw = ssd_world_create(4 << 20, 128 << 10);
		uint32_t seg, nr = 0, lost = UINT32_MAX;

		assert_int_equal(world_put(&sw->w, 0, 1, LEN), 0);
		seg = ssd_index_find(&sw->s->ix, &key)->seg;
		carry_on(sw, 1, 100);
		assert_int_equal(sw->s->segs[seg].state, SSD_SEALED);
		ssd_seg_set(sw->s, seg, SSD_LOST);
		assert_int_equal(world_op(&sw->w, STORE_DEL, 0), 0);
		carry_on(sw, 101, 4000);
		assert_int_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
		for (uint32_t i = 0; i < sw->s->nr_segs; i++) {
			if (!has_tomb(sw, i, 0))
				continue;
			if (nr++ == which)
				lost = i;
		}
		assert_true(nr >= 2);
		if (which == nr) {
			ssd_world_destroy(sw);
			break;
		}
		memset(ssd_world_disk(sw)->now + ssd_seg_addr(sw->s, lost), 0,
		       sw->s->super.seg_bytes);
		ssd_world_crash(sw, FAKE_KILL);
		assert_int_equal(world_get(&sw->w, 0, 1, LEN), -ENOENT);
		ssd_world_destroy(sw);
	}
}

/* As few segments as there may be: eviction finds a place for what it saves all the same. */
static void few_segments(void **state)
{
	uint64_t bytes = SSD_HEAD_BYTES + SSD_SEGS_MIN * (128ull << 10) + SSD_BLOCK;
	struct ssd_world *sw = ssd_world_create(bytes, 128 << 10);
	uint32_t nr_deleted = 0;

	assert_int_equal(sw->s->nr_segs, SSD_SEGS_MIN);
	for (uint32_t i = 0; i < 4000; i++) {
		assert_int_equal(world_put(&sw->w, i % 20, i, LEN), 0);
		world_get(&sw->w, i % 20, i, LEN);
		if (i % 3)
			continue;
		nr_deleted++;
		assert_int_equal(world_op(&sw->w, STORE_DEL, i % 20), 0);
		if (i % 300 == 0)
			ssd_world_crash(sw, FAKE_KILL);
		assert_int_equal(world_get(&sw->w, i % 20, i, LEN), -ENOENT);
	}
	/* Nothing but deletions, each of a key that is there. */
	for (uint32_t i = 0; i < 20; i++)
		world_op(&sw->w, STORE_DEL, i);
	assert_int_equal(sw->w.nr_alerts, 0);
	assert_int_equal(sw->s->evict.nr_failed, 0);
	assert_true(nr_deleted > 1000);
	ssd_world_destroy(sw);
}

/*
 * A segment that a failed sync has lost counts as one that is there, so no tombstone ever goes, and
 * in a small file they fill all of it: puts fail then, and go on ending.
 */
static void ends_when_all_is_needed(void **state)
{
	uint64_t bytes = SSD_HEAD_BYTES + SSD_SEGS_MIN * (128ull << 10) + SSD_BLOCK;
	struct ssd_world *sw = ssd_world_create(bytes, 128 << 10);
	uint32_t nr_failed = 0;

	sw->o.reinsert_1024 = 1024;
	ssd_world_again(sw);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(world_put(&sw->w, i, i, 100), 0);
	ssd_world_disk(sw)->nth_kind = FAKE_SYNC_EIO;
	ssd_world_disk(sw)->nth_left = 1;
	assert_int_not_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
	assert_int_equal(sw->w.nr_alerts, 1);
	for (uint32_t i = 100; i < 1500; i++) {
		int res = world_put(&sw->w, i % 60, i, 100);

		assert_true(!res || res == -ENOSPC);
		nr_failed += res < 0;
		for (uint32_t k = 0; k < 3; k++) {
			struct world_io get = {.io = {.op = STORE_GET,
						      .key = world_key((i + k * 97) % 60),
						      .len = UINT32_MAX}};

			if (!world_run(&sw->w, 0, &get))
				store_release(&get.io.view, sw->w.r[0], NULL);
		}
	}
	assert_true(nr_failed > 0);
	ssd_world_destroy(sw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_and_round),
		cmocka_unit_test(used_ones_stay),
		cmocka_unit_test(tombstones),
		cmocka_unit_test(two_copies),
		cmocka_unit_test(few_segments),
		cmocka_unit_test(footer_unreadable),
		cmocka_unit_test(footer_lost),
		cmocka_unit_test(head_unwritable),
		cmocka_unit_test(ends_when_all_is_needed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
