/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssd_recover*.c: what is found again after a clean end, a kill and a power cut, and what is served
 * and changed before all of it is; a bit turned over
 * anywhere in the image, every one of its sectors, costs at most what is in that segment; files
 * that are somebody else's, too new, damaged or too small are refused.
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

static struct ssd_world *filled(void)
{
	return filled_in((3 << 20) + 4096);
}

static void lives(void **state)
{
	struct ssd_world *sw = filled();

	ssd_world_again(sw);
	assert_int_equal(nr_there(sw), NR_KEYS);
	ssd_world_crash(sw, FAKE_KILL);
	assert_int_equal(nr_there(sw), NR_KEYS);
	for (unsigned i = 0; i < FAKE_NR_CRASHES; i++)
		ssd_world_crash(sw, i);
	assert_int_equal(nr_there(sw), NR_KEYS);
	assert_int_equal(ssd_world_stats(sw).evictions, 0);
	ssd_world_destroy(sw);
}

/* Nobody flushed: a kill keeps it, a power cut need not. */
static void unsynced(void **state)
{
	struct ssd_world *sw = ssd_world_create((3 << 20) + 4096, 128 << 10);

	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
	ssd_world_crash(sw, FAKE_KILL);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(world_get(&sw->w, i, 1, LEN), 0);
	ssd_world_destroy(sw);
	sw = ssd_world_create((3 << 20) + 4096, 128 << 10);
	assert_int_equal(world_put(&sw->w, 1, 1, LEN), 0);
	ssd_world_crash(sw, FAKE_CRASH_LOSE);
	assert_int_equal(world_get(&sw->w, 1, 1, LEN), -ENOENT);
	ssd_world_destroy(sw);
}

/*
 * A power cut at every step around the writing of a footer keeps any subset of what wasn't synced.
 * A footer that is whole then names only what is there: nothing that is read later looks like a
 * fault of the medium.
 */
static void footer_torn(void **state)
{
	static const enum fake_crash hows[] = {FAKE_CRASH_SECTOR, FAKE_CRASH_BLOCK};
	uint64_t seed = unit_seed(12);
	struct world_io last;

	for (uint32_t n = 0; n < 80; n++) {
		struct ssd_world *sw = ssd_world_create((3 << 20) + 4096, 128 << 10);
		struct store_key key = world_key(NR_KEYS);

		rng_init(&ssd_world_disk(sw)->rng, seed + n);
		/* One after the other: a block each. The next one doesn't fit. */
		while (sw->s->stream[SSD_DATA].nr_lines < (128 << 10) / SSD_BLOCK - 4)
			assert_int_equal(
				world_put(&sw->w, sw->s->stream[SSD_DATA].nr_lines, 1, LEN), 0);
		last = (struct world_io){.io = {.op = STORE_BUF, .key = key, .len = 3 * LEN}};
		assert_int_equal(world_run(&sw->w, 0, &last), 0);
		world_fill(&last.io.view, &key, 1);
		last.io.op = STORE_PUT;
		world_start(&sw->w, 0, &last);
		for (uint32_t i = 0; i < 64 && sw->s->stream[SSD_DATA].state == SSD_STREAM_OPEN;
		     i++)
			world_step(&sw->w);
		assert_int_not_equal(sw->s->stream[SSD_DATA].state, SSD_STREAM_OPEN);
		for (uint32_t i = 0; i < n / 2; i++)
			world_step(&sw->w);
		fake_disk_crash(ssd_world_disk(sw), hows[n % 2]);
		world_until(&sw->w, &last.is_over);
		ssd_world_end(sw);
		fake_disk_revive(ssd_world_disk(sw));
		assert_int_equal(ssd_world_begin(sw), 0);
		nr_there(sw);
		assert_int_equal(sw->w.nr_alerts, 0);
		ssd_world_destroy(sw);
	}
}

/* The most keys that one segment has. */
static uint32_t fullest(const struct ssd_world *sw)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < sw->s->nr_segs; i++)
		if (sw->s->segs[i].nr_entries > most)
			most = sw->s->segs[i].nr_entries;
	return most;
}

static void every_sector_flipped(void **state)
{
	struct ssd_world *sw = filled();
	struct fake_disk *d = ssd_world_disk(sw);
	uint8_t *image = malloc(d->dev.bytes);
	static const uint8_t zeros[FAKE_SECTOR];
	uint64_t nr_lost = 0;
	struct rng rng;
	uint32_t most;

	rng_init(&rng, unit_seed(11));
	most = fullest(sw);
	ssd_world_end(sw);
	assert_non_null(image);
	memcpy(image, d->now, d->dev.bytes);
	for (uint32_t i = 0; i < d->nr_sectors; i++) {
		uint64_t at = (uint64_t)i * FAKE_SECTOR + rng_below(&rng, FAKE_SECTOR);
		unsigned nr;

		/* Nothing was ever written there. */
		if (memcmp(image + (uint64_t)i * FAKE_SECTOR, zeros, FAKE_SECTOR) == 0)
			continue;
		memcpy(d->now, image, d->dev.bytes);
		d->now[at] ^= (uint8_t)(1u << rng_below(&rng, 8));
		assert_int_equal(ssd_world_begin(sw), 0);
		nr = nr_there(sw);
		assert_true(nr + most >= NR_KEYS);
		nr_lost += NR_KEYS - nr;
		ssd_world_end(sw);
	}
	print_message("%u sectors, %.2f keys lost for each, %u in the fullest segment\n",
		      d->nr_sectors, (double)nr_lost / d->nr_sectors, most);
	memcpy(d->now, image, d->dev.bytes);
	assert_int_equal(ssd_world_begin(sw), 0);
	assert_int_equal(nr_there(sw), NR_KEYS);
	free(image);
	ssd_world_destroy(sw);
}

/* The end of the file reads as nothing, from any sector on. */
static void truncated(void **state)
{
	struct ssd_world *sw = filled();
	struct fake_disk *d = ssd_world_disk(sw);
	uint8_t *image = malloc(d->dev.bytes);
	uint64_t at;

	ssd_world_end(sw);
	assert_non_null(image);
	memcpy(image, d->now, d->dev.bytes);
	for (uint32_t i = d->nr_sectors; i > 8; i -= 7) {
		at = (uint64_t)i * FAKE_SECTOR;
		if (at < SSD_HEAD_BYTES && i % 16)
			continue;
		memcpy(d->now, image, at);
		memset(d->now + at, 0, d->dev.bytes - at);
		assert_int_equal(ssd_world_begin(sw), 0);
		nr_there(sw);
		ssd_world_end(sw);
		if (i < 15)
			break;
	}
	memcpy(d->now, image, d->dev.bytes);
	assert_int_equal(ssd_world_begin(sw), 0);
	free(image);
	ssd_world_destroy(sw);
}

static void refused(void **state)
{
	struct ssd_world *sw = filled();
	struct fake_disk *d = ssd_world_disk(sw);
	uint64_t b = d->dev.bytes - SSD_BLOCK;

	ssd_world_end(sw);
	sw->o.name = "other";
	assert_int_equal(ssd_world_begin(sw), -EXDEV);
	sw->o.name = "test";
	sw->o.nr_shards = 2;
	assert_int_equal(ssd_world_begin(sw), -EXDEV);
	sw->o.nr_shards = 1;
	d->now[8] += SSD_VERSION; /* one of two is of a newer one */
	assert_int_equal(ssd_world_begin(sw), -EPROTONOSUPPORT);
	d->now[8] -= SSD_VERSION;
	d->now[100] ^= 1;
	assert_int_equal(ssd_world_begin(sw), 0);
	assert_int_equal(nr_there(sw), NR_KEYS);
	ssd_world_end(sw);
	d->now[100] ^= 1;
	d->now[b + 100] ^= 1;
	assert_int_equal(ssd_world_begin(sw), -EUCLEAN);
	d->now[b + 100] ^= 1;
	assert_int_equal(ssd_world_begin(sw), 0);
	ssd_world_destroy(sw);
}

/* An index that holds less than there is: some keys are lost, for good; the others are right. */
static void smaller_index(void **state)
{
	struct ssd_world *sw = filled();
	unsigned nr;

	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(world_op(&sw->w, STORE_DEL, i), 0);
	ssd_world_end(sw);
	sw->o.max_keys = NR_KEYS / 2;
	assert_int_equal(ssd_world_begin(sw), 0);
	nr = nr_there(sw);
	assert_true(nr > NR_KEYS / 2 - 20 && nr <= NR_KEYS / 2);
	ssd_world_end(sw);
	sw->o.max_keys = 16384;
	assert_int_equal(ssd_world_begin(sw), 0);
	assert_int_equal(nr_there(sw), nr);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(world_get(&sw->w, i, 1, LEN), -ENOENT);
	ssd_world_destroy(sw);
}

static void too_small(void **state)
{
	struct ssd_world sw = {.o = {.name = "test", .value_max = 1 << 20, .nr_shards = 1}};

	fake_disk_init(&sw.disks, 0, 3 << 20, 1);
	sw.o.segment_bytes = 1 << 20;
	sw.o.seed = 1;
	assert_int_equal(ssd_world_begin(&sw), -EINVAL);
	fake_disk_fini(&sw.disks.disk[0]);
}

/*
 * Whatever the medium held before, here a whole file of ours: a new file is made by its superblocks
 * alone, and nothing of what lies below is ever found in it.
 */
static void used_medium(void **state)
{
	struct ssd_world *sw = filled();
	struct fake_disk *d = ssd_world_disk(sw);
	uint64_t nr_writes;

	ssd_world_crash(sw, FAKE_KILL); /* segments of all kinds */
	for (uint32_t i = 0; i < NR_KEYS / 2; i++)
		assert_int_equal(world_put(&sw->w, i, 2, LEN), 0);
	fake_disk_crash(d, FAKE_KILL);
	ssd_world_end(sw);
	fake_disk_revive(d);
	memset(d->now, 0, SSD_BLOCK);
	memset(d->now + d->dev.bytes - SSD_BLOCK, 0, SSD_BLOCK);
	sw->o.seed = 2;
	nr_writes = d->nr_writes;
	assert_int_equal(ssd_world_begin(sw), 0);
	assert_int_equal(d->nr_writes, nr_writes + 2);
	assert_int_equal(nr_there(sw), 0);
	for (uint32_t i = 0; i < 20; i++)
		assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
	for (unsigned i = 0; i < 3; i++) {
		ssd_world_crash(sw, FAKE_KILL);
		assert_int_equal(nr_there(sw), 20);
		assert_int_equal(ssd_world_stats(sw).nr_keys, 20);
	}
	ssd_world_destroy(sw);
}

/* A device that can't even be read: refused, and nothing is made anew over what is there. */
static void unreadable(void **state)
{
	struct ssd_world *sw = filled();
	struct fake_disk *d = ssd_world_disk(sw);

	ssd_world_end(sw);
	d->faults.chance[FAKE_READ_EIO] = 65536;
	assert_true(ssd_world_begin(sw) < 0);
	d->faults.chance[FAKE_READ_EIO] = 0;
	assert_int_equal(ssd_world_begin(sw), 0);
	assert_int_equal(nr_there(sw), NR_KEYS);
	ssd_world_destroy(sw);
}

/*
 * Every request of a recovery fails once, in each way: refused, or all that is served is right, now
 * and in the life after. What is read twice isn't lost by one that fails.
 */
static void nth_failure(void **state)
{
	static const enum fake_fault kinds[] = {FAKE_READ_EIO,	FAKE_READ_FLIP,	 FAKE_READ_STALE,
						FAKE_WRITE_EIO, FAKE_WRITE_LOST, FAKE_WRITE_SHORT,
						FAKE_SYNC_EIO};
	struct ssd_world *sw = filled();
	struct fake_disk *d = ssd_world_disk(sw);
	uint8_t *image = malloc(d->dev.bytes);
	unsigned nr_refused = 0, nr = 0, nr_whole = 0;

	ssd_world_crash(sw, FAKE_KILL);
	for (uint32_t i = 0; i < 20; i++)
		assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
	fake_disk_crash(d, FAKE_KILL);
	ssd_world_end(sw);
	fake_disk_revive(d);
	assert_non_null(image);
	memcpy(image, d->now, d->dev.bytes);
	for (unsigned k = 0; k < ARRAY_SIZE(kinds); k++) {
		for (uint32_t n = 1;; n++, nr++) {
			memcpy(d->now, image, d->dev.bytes);
			d->nth_kind = kinds[k];
			d->nth_left = n;
			if (ssd_world_begin(sw)) {
				nr_refused++;
				continue;
			}
			if (d->nth_left) {
				d->nth_left = 0;
				assert_int_equal(nr_there(sw), NR_KEYS);
				ssd_world_end(sw);
				break;
			}
			nr_whole += nr_there(sw) == NR_KEYS;
			ssd_world_again(sw);
			nr_there(sw);
			ssd_world_end(sw);
		}
	}
	print_message("%u failures, %u made it refuse, %u cost nothing\n", nr, nr_refused,
		      nr_whole);
	assert_true(nr_whole + nr_refused >= nr - nr / 10);
	memcpy(d->now, image, d->dev.bytes);
	assert_int_equal(ssd_world_begin(sw), 0);
	free(image);
	ssd_world_destroy(sw);
}

/* Whether it was there isn't known yet. */
static void del(struct ssd_world *sw, uint32_t no)
{
	int res = world_op(&sw->w, STORE_DEL, no);

	assert_true(res == 0 || res == -ENOENT);
}

/* One turn after the other: what is put, deleted and asked for before anything was found again. */
static void early(void **state)
{
	uint64_t seed = unit_seed(13);

	for (unsigned n = 0; n < 60; n++) {
		struct ssd_world *sw = filled();
		struct rng rng;
		unsigned nr_old = 0;

		rng_init(&rng, seed + n);
		fake_disk_crash(ssd_world_disk(sw), FAKE_KILL);
		ssd_world_end(sw);
		fake_disk_revive(ssd_world_disk(sw));
		sw->is_early = true;
		assert_int_equal(ssd_world_begin(sw), 0);
		assert_int_equal(world_get(&sw->w, 0, 1, LEN), -ENOENT);
		for (unsigned i = 0; i < n; i++)
			world_step(&sw->w);
		assert_int_equal(world_put(&sw->w, 1, 2, LEN), 0);
		del(sw, 2);
		assert_int_equal(world_put(&sw->w, 3, 2, LEN), 0);
		assert_int_equal(world_op(&sw->w, STORE_DEL, 3), 0);
		del(sw, 4);
		assert_int_equal(world_put(&sw->w, 4, 2, LEN), 0);
		if (rng_chance(&rng, 1, 3)) /* in the middle of it */
			ssd_world_crash(sw, FAKE_KILL);
		sw->is_early = false;
		ssd_world_recover(sw);
		for (unsigned life = 0; life < 3; life++) {
			assert_int_equal(world_get(&sw->w, 1, 2, LEN), 0);
			assert_int_equal(world_get(&sw->w, 2, 1, LEN), -ENOENT);
			assert_int_equal(world_get(&sw->w, 3, 1, LEN), -ENOENT);
			assert_int_equal(world_get(&sw->w, 4, 2, LEN), 0);
			nr_old = 0;
			for (uint32_t i = 5; i < NR_KEYS; i++)
				nr_old += world_get(&sw->w, i, 1, LEN) == 0;
			assert_int_equal(nr_old + (world_get(&sw->w, 0, 1, LEN) == 0), NR_KEYS - 4);
			ssd_world_again(sw);
		}
		assert_int_equal(sw->w.nr_alerts, 0);
		ssd_world_destroy(sw);
	}
}

/* The newest come first, and are served before the oldest are known. */
static void newest_first(void **state)
{
	struct ssd_world *sw = filled();
	unsigned nr = 0;

	ssd_world_end(sw);
	sw->is_early = true;
	assert_int_equal(ssd_world_begin(sw), 0);
	while (world_get(&sw->w, NR_KEYS - 1, 1, LEN))
		world_step(&sw->w);
	assert_true(ssd_recover_is_reading(sw->s));
	assert_int_equal(world_get(&sw->w, 0, 1, LEN), -ENOENT);
	for (; ssd_recover_is_reading(sw->s); nr++)
		world_step(&sw->w);
	assert_true(nr > 0);
	assert_int_equal(nr_there(sw), NR_KEYS);
	ssd_world_destroy(sw);
}

/*
 * Same key, same bytes: but a record that was found by going through its segment may be torn, and
 * what is put again and acknowledged must not hang on it.
 */
static void torn_is_put_again(void **state)
{
	uint64_t seed = unit_seed(31);

	for (uint32_t n = 0; n < 40; n++) {
		struct ssd_world *sw = ssd_world_create((3 << 20) + 4096, 128 << 10);
		struct world_io wi = {.io = {.op = STORE_BUF, .key = world_key(1), .len = 5 * LEN}};

		sw->is_immutable = true;
		ssd_world_again(sw);
		rng_init(&ssd_world_disk(sw)->rng, seed + n);
		assert_int_equal(world_put(&sw->w, 1, 1, 5 * LEN), 0);
		ssd_world_crash(sw, FAKE_CRASH_BLOCK);
		assert_int_equal(world_run(&sw->w, 0, &wi), 0);
		world_fill(&wi.io.view, &wi.io.key, 1);
		wi.io.op = STORE_FILL;
		wi.io.ver = 1;
		assert_int_equal(world_run(&sw->w, 0, &wi), 0);
		assert_int_equal(world_get(&sw->w, 1, 1, 5 * LEN), 0);
		ssd_world_destroy(sw);
	}
}

/* All of it, page by page: is the key on it? */
static bool list_has(struct ssd_world *sw, const struct store_key *key)
{
	struct store_key page[16];
	struct world_io wi = {.io = {.op = STORE_LIST}};
	bool has = false;

	do {
		wi.io.list.keys = page;
		wi.io.list.max = ARRAY_SIZE(page);
		wi.io.list.nr = 0;
		wi.io.list.more = false;
		wi.is_over = false;
		assert_int_equal(world_run(&sw->w, 0, &wi), 0);
		for (uint32_t i = 0; i < wi.io.list.nr; i++)
			has |= store_key_equal(&page[i], key);
		if (wi.io.list.nr)
			wi.io.list.after = page[wi.io.list.nr - 1];
		wi.io.list.has_after = true;
	} while (wi.io.list.more);
	return has;
}

/* What may not be told yet, thousands of keys, doesn't end a List. */
static void list_early(void **state)
{
	struct ssd_world *sw = ssd_world_create(64 << 20, 4 << 20);
	struct store_key key = world_key(100000);
	uint32_t last = 100000;

	/* A tombstone opens a segment, and until that is read nothing that is newer is told. */
	assert_int_equal(world_put(&sw->w, 0, 1, 10), 0);
	assert_int_equal(world_op(&sw->w, STORE_DEL, 0), 0);
	for (uint32_t i = 0; i < 6000; i++)
		assert_int_equal(world_put(&sw->w, i, 1, 10), 0);
	/* Behind all of them, in the order of lists. */
	for (uint32_t i = 100000; i < 120000; i++) {
		struct store_key k = world_key(i);

		if (store_key_cmp(&k, &key) >= 0) {
			key = k;
			last = i;
		}
	}
	sw->is_early = true;
	ssd_world_again(sw);
	while (sw->s->ix.nr_used < 2000)
		world_step(&sw->w);
	assert_true(ssd_recover_is_reading(sw->s));
	assert_int_equal(world_put(&sw->w, last, 1, 10), 0);
	assert_true(ssd_recover_is_reading(sw->s));
	assert_true(list_has(sw, &key));
	ssd_world_recover(sw);
	assert_true(list_has(sw, &key));
	ssd_world_destroy(sw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lives),
		cmocka_unit_test(unsynced),
		cmocka_unit_test(footer_torn),
		cmocka_unit_test(torn_is_put_again),
		cmocka_unit_test(smaller_index),
		cmocka_unit_test(used_medium),
		cmocka_unit_test(refused),
		cmocka_unit_test(too_small),
		cmocka_unit_test(unreadable),
		cmocka_unit_test(nth_failure),
		cmocka_unit_test(early),
		cmocka_unit_test(newest_first),
		cmocka_unit_test(list_early),
		cmocka_unit_test(truncated),
		cmocka_unit_test(every_sector_flipped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
