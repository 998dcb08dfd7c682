/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssd_recover_seg.c and ssd_recover_clean.c: of segments that a recovery has closed nothing but the
 * footer counts, and it is written in place. A power cut while that is done costs nothing; damage
 * costs the values of the segment and no tombstone.
 */
#include "ssd_world.h"

#include "store/ssd/ssd_recover_int.h"

#define NR_KEYS 150u
#define LEN 900u

static unsigned nr_there(struct ssd_world *sw)
{
	unsigned nr = 0;

	for (uint32_t i = 0; i < NR_KEYS; i++) {
		int res = world_get(&sw->w, i, 1, LEN);

		assert_true(res == 0 || res == -ENOENT);
		nr += res == 0;
	}
	return nr;
}

static struct ssd_world *filled_in(uint64_t bytes)
{
	struct ssd_world *sw = ssd_world_create(bytes, 128 << 10);

	for (uint32_t i = 0; i < NR_KEYS; i++)
		assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
	assert_int_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
	return sw;
}

/* A recovery that is made to clean all footers, until it is about to write where `at` says. */
static void tidy_until(struct ssd_world *sw, enum ssd_recover_at at, uint32_t n)
{
	ssd_world_end(sw);
	sw->is_early = true;
	assert_int_equal(ssd_world_begin(sw), 0);
	sw->is_early = false;
	sw->s->recover->has_refused = true;
	while (ssd_recover_is_reading(sw->s)) {
		world_step(&sw->w);
		if (ssd_recover_is_reading(sw->s) && sw->s->recover->at == at &&
		    sw->s->recover->is_busy && n-- == 0)
			return;
	}
}

/* A power cut while lines of dead values go from footers that count: nothing else goes. */
static void footer_again_torn(void **state)
{
	static const enum ssd_recover_at ats[] = {SSD_AT_CLOSE, SSD_AT_COPY, SSD_AT_PLACE};
	uint64_t seed = unit_seed(13);
	unsigned nr_copied = 0;

	for (uint32_t n = 0; n < 60; n++) {
		struct ssd_world *sw = filled_in(8 << 20);

		rng_init(&ssd_world_disk(sw)->rng, seed + n);
		for (uint32_t i = 0; i < NR_KEYS; i += 3)
			assert_int_equal(world_op(&sw->w, STORE_DEL, i), 0);
		/* Once whole, so that heads are closed; then some die in what is closed. */
		if (n % 2) {
			tidy_until(sw, SSD_AT_OVER, UINT32_MAX);
			ssd_world_recover(sw);
			for (uint32_t i = 1; i < NR_KEYS; i += 3)
				assert_int_equal(world_op(&sw->w, STORE_DEL, i), 0);
		}
		tidy_until(sw, ats[n / 2 % 3], n / 6);
		ssd_world_crash(sw, FAKE_CRASH_SECTOR);
		nr_copied += sw->s->nr_copied;
		assert_int_equal(nr_there(sw), n % 2 ? NR_KEYS / 3 : NR_KEYS / 3 * 2);
		ssd_world_crash(sw, FAKE_CRASH_LOSE);
		assert_int_equal(nr_there(sw), n % 2 ? NR_KEYS / 3 : NR_KEYS / 3 * 2);
		ssd_world_destroy(sw);
	}
	assert_true(nr_copied > 0);
}

/* Footers of segments that are closed, all of them, damaged in their last block. */
static unsigned damage_closed(struct ssd_world *sw)
{
	unsigned nr = 0;

	for (uint32_t i = 0; i < sw->s->nr_segs; i++) {
		uint64_t end = ssd_seg_addr(sw->s, i) + sw->s->super.seg_bytes;

		if (sw->s->segs[i].state == SSD_FREE || !sw->s->segs[i].is_closed)
			continue;
		ssd_world_disk(sw)->now[end - SSD_BLOCK + 70] ^= 1;
		nr++;
	}
	return nr;
}

/*
 * What a crash left open is closed by the recovery. Then the footer of that is damaged: its values
 * are misses, and that is told, but what its tombstones kill elsewhere stays dead.
 */
static void closed_footer_damaged(void **state)
{
	struct ssd_world *sw = filled_in(8 << 20);
	uint32_t seg;

	seg = ssd_index_find(&sw->s->ix, &(struct store_key[]){world_key(0)}[0])->seg;
	assert_int_equal(sw->s->segs[seg].state, SSD_SEALED);
	for (uint32_t i = 0; i < 20; i++)
		assert_int_equal(world_op(&sw->w, STORE_DEL, i), 0);
	assert_int_equal(world_put(&sw->w, 20, 2, LEN), 0);
	ssd_world_crash(sw, FAKE_KILL);
	assert_int_equal(world_get(&sw->w, 20, 2, LEN), 0);
	assert_true(damage_closed(sw) >= 2);
	fake_disk_crash(ssd_world_disk(sw), FAKE_KILL);
	for (unsigned life = 0; life < 4; life++) {
		ssd_world_crash(sw, life);
		assert_int_equal(sw->w.nr_alerts > 0, life == 0);
		for (uint32_t i = 0; i < 21; i++)
			assert_int_equal(world_get(&sw->w, i, 1, LEN), -ENOENT);
		assert_int_equal(world_put(&sw->w, 5, 1, LEN), 0);
		assert_int_equal(world_op(&sw->w, STORE_DEL, 5), 0);
	}
	ssd_world_destroy(sw);
}

/* The same with one fault on the way: the tombstones count, whatever fails. */
static void closed_footer_nth(void **state)
{
	static const enum fake_fault kinds[] = {FAKE_READ_EIO, FAKE_READ_FLIP, FAKE_WRITE_EIO,
						FAKE_WRITE_LOST, FAKE_SYNC_EIO};
	struct ssd_world *sw = filled_in(8 << 20);
	struct fake_disk *d = ssd_world_disk(sw);
	uint8_t *image = malloc(d->dev.bytes);
	unsigned nr = 0;

	assert_non_null(image);
	for (uint32_t i = 0; i < 20; i++)
		assert_int_equal(world_op(&sw->w, STORE_DEL, i), 0);
	ssd_world_crash(sw, FAKE_KILL);
	assert_true(damage_closed(sw) >= 2);
	fake_disk_crash(d, FAKE_KILL);
	ssd_world_end(sw);
	fake_disk_revive(d);
	memcpy(image, d->now, d->dev.bytes);
	for (unsigned k = 0; k < ARRAY_SIZE(kinds); k++) {
		for (uint32_t n = 1;; n++, nr++) {
			memcpy(d->now, image, d->dev.bytes);
			d->nth_kind = kinds[k];
			d->nth_left = n;
			if (ssd_world_begin(sw))
				continue;
			for (uint32_t i = 0; i < 20; i++)
				assert_int_equal(world_get(&sw->w, i, 1, LEN), -ENOENT);
			if (d->nth_left)
				break;
			ssd_world_crash(sw, FAKE_CRASH_LOSE);
			for (uint32_t i = 0; i < 20; i++)
				assert_int_equal(world_get(&sw->w, i, 1, LEN), -ENOENT);
			ssd_world_end(sw);
		}
		d->nth_left = 0;
		ssd_world_end(sw);
	}
	print_message("%u failures\n", nr);
	assert_int_equal(ssd_world_begin(sw), 0);
	free(image);
	ssd_world_destroy(sw);
}

/* A head that can be read at last is the head, however often that has failed before. */
static void heads_hard_to_read(void **state)
{
	uint64_t seed = unit_seed(15);

	for (uint32_t n = 0; n < 40; n++) {
		struct ssd_world *sw = filled_in(8 << 20);
		struct fake_disk *d = ssd_world_disk(sw);

		rng_init(&d->rng, seed + n);
		ssd_world_end(sw);
		sw->is_early = true;
		assert_int_equal(ssd_world_begin(sw), 0);
		d->faults.chance[FAKE_READ_EIO] = 65536 / 8;
		while (sw->s->recover->state == SSD_RECOVER_HEADS)
			world_step(&sw->w);
		assert_true(d->nr_faults[FAKE_READ_EIO] > 0);
		d->faults.chance[FAKE_READ_EIO] = 0;
		ssd_world_recover(sw);
		assert_int_equal(nr_there(sw), NR_KEYS);
		ssd_world_destroy(sw);
	}
}

/* Footers of whatever has one, damaged in their last block. */
static void damage_all(struct ssd_world *sw)
{
	struct fake_disk *d = ssd_world_disk(sw);

	for (uint32_t i = 0; i < sw->s->nr_segs; i++)
		if (sw->s->segs[i].state == SSD_SEALED)
			d->now[ssd_seg_addr(sw->s, i) + sw->s->super.seg_bytes - SSD_BLOCK + 70] ^=
				1;
	fake_disk_crash(d, FAKE_KILL);
}

/*
 * A put that failed may be on the medium, and the footer doesn't name it: so the next life doesn't
 * know of it, and leaves no tombstone. It must not come back when that footer is damaged later.
 */
static void failed_put_unnamed(void **state)
{
	uint64_t seed = unit_seed(14);
	unsigned nr_landed = 0;

	for (uint32_t n = 0; n < 20; n++) {
		struct ssd_world *sw = filled_in(8 << 20);
		struct fake_disk *d = ssd_world_disk(sw);
		uint8_t *was = malloc(d->dev.bytes);

		assert_non_null(was);
		rng_init(&d->rng, seed + n);
		memcpy(was, d->now, d->dev.bytes);
		d->nth_kind = FAKE_WRITE_EIO;
		d->nth_left = 1;
		assert_true(world_put(&sw->w, NR_KEYS, 1, LEN) < 0);
		nr_landed += memcmp(was, d->now, d->dev.bytes) != 0;
		free(was);
		ssd_world_again(sw);
		assert_int_equal(world_get(&sw->w, NR_KEYS, 1, LEN), -ENOENT);
		assert_int_equal(nr_there(sw), NR_KEYS);
		damage_all(sw);
		ssd_world_crash(sw, FAKE_KILL);
		assert_int_equal(world_get(&sw->w, NR_KEYS, 1, LEN), -ENOENT);
		ssd_world_destroy(sw);
	}
	assert_true(nr_landed > 0);
}

/* The footer that leaves it out isn't durable: a sync has failed. It mustn't be all that counts. */
static void failed_put_no_sync(void **state)
{
	for (uint32_t n = 1; n <= 4; n++) {
		struct ssd_world *sw = ssd_world_create(8 << 20, 128 << 10);
		struct fake_disk *d = ssd_world_disk(sw);

		sw->o.is_durable = true;
		ssd_world_again(sw);
		for (uint32_t i = 0; i < NR_KEYS; i++)
			assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
		d->nth_kind = FAKE_WRITE_EIO;
		d->nth_left = 1;
		assert_true(world_put(&sw->w, NR_KEYS, 1, LEN) < 0);
		d->nth_kind = FAKE_SYNC_EIO;
		d->nth_left = n;
		ssd_world_end(sw);
		d->nth_left = 0;
		fake_disk_revive(d);
		assert_int_equal(ssd_world_begin(sw), 0);
		assert_int_equal(nr_there(sw), NR_KEYS);
		ssd_world_crash(sw, FAKE_CRASH_LOSE);
		assert_int_equal(nr_there(sw), NR_KEYS);
		ssd_world_destroy(sw);
	}
}

/*
 * Of a footer of two blocks, both damaged, there is a copy of one: not enough, so its tombstones
 * become a new one. That is no patched footer: it isn't written in place once more, where a crash
 * could tear it and no copies of it are.
 */
static void half_a_copy(void **state)
{
	struct ssd_world *sw = ssd_world_create(16 << 20, 1 << 20);
	struct fake_disk *d = ssd_world_disk(sw);
	uint32_t seg;
	uint8_t *end;

	for (uint32_t i = 0; i < NR_KEYS; i++)
		assert_int_equal(world_put(&sw->w, i, 1, 100), 0);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(world_op(&sw->w, STORE_DEL, i), 0);
	ssd_world_crash(sw, FAKE_KILL);
	seg = ssd_index_find(&sw->s->ix, &(struct store_key[]){world_key(20)}[0])->seg;
	assert_true(sw->s->segs[seg].is_closed);
	assert_int_equal(sw->s->segs[seg].nr_blocks, 2);
	end = d->now + ssd_seg_addr(sw->s, seg) + sw->s->super.seg_bytes;
	fake_disk_crash(d, FAKE_KILL);
	memcpy(d->now + SSD_FOOT_COPY_ADDR, end - 2 * SSD_BLOCK, SSD_BLOCK);
	end[70 - 2 * (int)SSD_BLOCK] ^= 1;
	end[70 - (int)SSD_BLOCK] ^= 1;
	ssd_world_end(sw);
	fake_disk_revive(d);
	sw->is_early = true;
	assert_int_equal(ssd_world_begin(sw), 0);
	while (ssd_recover_is_reading(sw->s)) {
		assert_true(sw->s->recover->at != SSD_AT_PLACE);
		world_step(&sw->w);
	}
	assert_int_equal(sw->w.nr_alerts, 1);
	assert_int_equal(sw->s->segs[seg].nr_blocks, 1);
	for (uint32_t i = 0; i < NR_KEYS; i++)
		assert_int_equal(world_get(&sw->w, i, 1, 100), -ENOENT);
	ssd_world_destroy(sw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heads_hard_to_read), cmocka_unit_test(failed_put_unnamed),
		cmocka_unit_test(failed_put_no_sync), cmocka_unit_test(half_a_copy),
		cmocka_unit_test(footer_again_torn),  cmocka_unit_test(closed_footer_damaged),
		cmocka_unit_test(closed_footer_nth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
