/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssd_room.c: a file system that others fill gets room back, and gives it again; never more is
 * taken than is said, after every operation; a smaller configuration shrinks an old file; what
 * can't be given is refused.
 */
#include "ssd_world.h"

#include "store/ssd/ssd_watch.h"
#include "store/store_health.h"

#define LEN 900u
#define SEG (128u << 10)

static struct ssd_watch_dev dev;
static struct store_ssd_care care;

static struct ssd_world *world(void)
{
	struct ssd_world *sw;

	atomic_store(&dev.may_write, true);
	atomic_store(&dev.is_tight, false);
	atomic_store(&dev.spare_bytes, 1ull << 40);
	care = (struct store_ssd_care){.watch = &dev};
	sw = ssd_world_create((4 << 20) + 4096, SEG);
	sw->o.care = &care;
	ssd_world_again(sw);
	return sw;
}

/* What is taken on the medium is what is said, and no more. */
static void look(struct ssd_world *sw)
{
	struct fake_disk *d = ssd_world_disk(sw);
	struct store_stats st = ssd_world_stats(sw);

	assert_true(st.used_bytes <= st.capacity_bytes);
	/* Heads stay; one segment may be on its way. */
	assert_true(d->dev.bytes - d->nr_holes * 4096 <=
		    st.capacity_bytes + (uint64_t)sw->s->room.nr_hollow * 4096 + SEG);
}

/* Puts and gets under way meanwhile, a second goes by with each. */
static unsigned live(struct ssd_world *sw, uint32_t *no, unsigned seconds)
{
	unsigned nr_refused = 0;

	for (unsigned i = 0; i < seconds; i++) {
		int res = world_put(&sw->w, *no, 1, LEN);

		assert_true(res == 0 || res == -ENOSPC);
		nr_refused += res != 0;
		*no += res == 0;
		look(sw);
		if (*no)
			world_get(&sw->w, *no - 1, 1, LEN);
		sw->w.clock_ns += 1000000000;
		for (unsigned k = 0; k < 200; k++)
			world_step(&sw->w);
		look(sw);
	}
	return nr_refused;
}

static void tight(void **state)
{
	struct ssd_world *sw = world();
	struct store_stats before = ssd_world_stats(sw), st;
	uint32_t no = 0, kept;

	for (; no < 3000; no++)
		assert_int_equal(world_put(&sw->w, no, 1, LEN), 0);
	atomic_store(&dev.is_tight, true);
	assert_int_equal(live(sw, &no, 30), 0);
	st = ssd_world_stats(sw);
	assert_true(st.capacity_bytes <= before.capacity_bytes - 6 * SEG);
	assert_true(ssd_world_disk(sw)->nr_holes * 4096 >= 6 * (SEG - 4096));
	/* Enough: it stays as it is while there isn't plenty. */
	atomic_store(&dev.is_tight, false);
	atomic_store(&dev.spare_bytes, SEG);
	live(sw, &no, 30);
	assert_int_equal(ssd_world_stats(sw).capacity_bytes, st.capacity_bytes);
	kept = no;
	/* Plenty: all of it again, written with zeros. */
	atomic_store(&dev.spare_bytes, 1ull << 40);
	live(sw, &no, 400);
	assert_int_equal(ssd_world_stats(sw).capacity_bytes, before.capacity_bytes);
	assert_int_equal(ssd_world_disk(sw)->nr_holes, 0);
	assert_int_equal(world_get(&sw->w, kept - 1, 1, LEN), 0);
	ssd_world_destroy(sw);
}

/* For ever: eight segments stay, and nothing more is written. */
static void out(void **state)
{
	struct ssd_world *sw = world();
	struct store_health h;
	uint32_t no = 0;

	atomic_store(&dev.is_tight, true);
	assert_true(live(sw, &no, 400) > 100);
	assert_int_equal(sw->s->nr_segs - sw->s->room.nr_hollow, SSD_SEGS_MIN);
	assert_int_equal(store_health_get(sw->w.set, 0, &h), 0);
	assert_true(h.refused[STORE_REFUSED_ROOM] > 100);
	assert_int_equal(h.given_back_bytes, (uint64_t)sw->s->room.nr_hollow * SEG);
	assert_int_equal(world_get(&sw->w, no - 1, 1, LEN), 0);
	/* What was a hole is free in the next life, and may be given again. */
	ssd_world_crash(sw, FAKE_CRASH_SECTOR);
	assert_int_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
	atomic_store(&dev.is_tight, false);
	for (uint32_t i = 0; i < 6000; i++)
		assert_int_equal(world_put(&sw->w, 10000 + i, 1, LEN), 0);
	ssd_world_destroy(sw);
}

/* No holes on this file system: refused, and said. */
static void unable(void **state)
{
	struct ssd_world *sw = world();
	uint32_t no = 0;

	assert_int_equal(live(sw, &no, 1), 0);
	ssd_world_disk(sw)->faults.chance[FAKE_WRITE_EIO] = 65536;
	atomic_store(&dev.is_tight, true);
	for (unsigned i = 0; i < 1000; i++) {
		sw->w.clock_ns += 1000000;
		world_step(&sw->w);
	}
	ssd_world_disk(sw)->faults.chance[FAKE_WRITE_EIO] = 0;
	assert_int_equal(live(sw, &no, 10), 10);
	atomic_store(&dev.is_tight, false);
	assert_int_equal(live(sw, &no, 10), 0);
	ssd_world_destroy(sw);
}

/* A namespace that gets less than its file once had. */
static void smaller(void **state)
{
	struct ssd_world *sw = world();
	uint32_t no = 0;

	for (; no < 3000; no++)
		assert_int_equal(world_put(&sw->w, no, 1, LEN), 0);
	sw->o.bytes = (2 << 20) + 4096;
	ssd_world_again(sw);
	live(sw, &no, 200);
	assert_true(ssd_world_stats(sw).capacity_bytes <= sw->o.bytes);
	assert_true(ssd_world_disk(sw)->dev.bytes - ssd_world_disk(sw)->nr_holes * 4096 <=
		    sw->o.bytes + 40 * 4096);
	assert_int_equal(world_get(&sw->w, no - 1, 1, LEN), 0);
	sw->o.bytes = 0;
	ssd_world_again(sw);
	live(sw, &no, 20);
	assert_int_equal(ssd_world_stats(sw).capacity_bytes, ssd_world_disk(sw)->dev.bytes);
	ssd_world_destroy(sw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(tight), cmocka_unit_test(out),
					   cmocka_unit_test(unable), cmocka_unit_test(smaller)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
