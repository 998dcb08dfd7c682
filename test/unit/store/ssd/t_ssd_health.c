/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssd_health.c: every byte that goes to the device is counted once; a worn device, an empty budget
 * and a device that fails are not written to, and reads go on; what can't be read comes from below
 * or is a miss; a segment that fails twice is emptied and never used again; a failed sync is never
 * talked into success; no space heals.
 */
#include "ssd_world.h"

#include "store/ssd/ssd_watch.h"
#include "store/store_health.h"

#define LEN 900u
#define NR 200u

static struct store_ssd_care care;

static struct store_health health(struct ssd_world *sw)
{
	struct store_health h;

	assert_int_equal(store_health_get(sw->w.set, 0, &h), 0);
	assert_int_equal(h.nr_shards, 1);
	return h;
}

static uint64_t wrote_all(const struct store_health *h)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < STORE_NR_WROTE; i++)
		sum += h->wrote[i];
	return sum;
}

struct word {
	struct store_control c;
	bool is_over;
};

static void word_done(struct store_control *c)
{
	container_of(c, struct word, c)->is_over = true;
}

static int say(struct ssd_world *sw, enum store_control_verb verb, uint64_t arg)
{
	struct word w = {.c = {.set = sw->w.set,
			       .home = sw->w.r[0],
			       .verb = verb,
			       .arg = arg,
			       .done = word_done}};

	store_health_control(&w.c);
	world_until(&sw->w, &w.is_over);
	return w.c.res ? w.c.res : (int)w.c.nr;
}

static struct ssd_world *world(void)
{
	struct ssd_world *sw = ssd_world_create((4 << 20) + 4096, 128 << 10);

	sw->o.care = &care;
	ssd_world_again(sw);
	return sw;
}

static void fill(struct ssd_world *sw, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
}

static unsigned nr_hits(struct ssd_world *sw, uint32_t to)
{
	unsigned nr = 0;

	for (uint32_t i = 0; i < to; i++) {
		int res = world_get(&sw->w, i, 1, LEN);

		assert_true(res == 0 || res == -ENOENT);
		nr += res == 0;
	}
	return nr;
}

/* The disk and we count the same, whatever is done, and by cause. */
static void causes(void **state)
{
	struct ssd_world *sw;
	uint64_t before;
	struct store_health h;

	care = (struct store_ssd_care){0};
	sw = world();
	sw->o.reinsert_1024 = 512;
	before = ssd_world_disk(sw)->written_bytes;
	ssd_world_end(sw);
	/* What the end wrote is nobody's any more. */
	before = ssd_world_disk(sw)->written_bytes;
	assert_int_equal(ssd_world_begin(sw), 0);
	for (uint32_t i = 0; i < 8000; i++) {
		assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
		if (i >= 50)
			world_get(&sw->w, i - 50, 1, LEN);
		if (i % 100 == 0)
			assert_int_equal(world_op(&sw->w, STORE_DEL, i), 0);
	}
	assert_int_equal(world_put(&sw->w, 1, 1, 70000), 0);
	assert_int_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
	while (ssd_world_disk(sw)->nr_flight)
		world_step(&sw->w);
	h = health(sw);
	assert_int_equal(wrote_all(&h), ssd_world_disk(sw)->written_bytes - before);
	assert_true(h.wrote[STORE_WROTE_BACK] >= 8000 * LEN);
	assert_true(h.wrote[STORE_WROTE_AGAIN] > 0);
	assert_true(h.wrote[STORE_WROTE_TABLES] > 0);
	assert_int_equal(h.wrote[STORE_WROTE_THROUGH], 0);
	ssd_world_destroy(sw);
}

/* Never faster than the rate and a burst, and never stuck: eviction, tombstones, a flush. */
static void rate(void **state)
{
	enum { RATE = 64 << 20, BURST = RATE / 10 };
	struct ssd_world *sw;
	uint64_t begin, wrote, ns;

	care = (struct store_ssd_care){.rate_bytes = RATE};
	sw = world();
	begin = sw->w.clock_ns;
	wrote = ssd_world_disk(sw)->written_bytes;
	for (uint32_t i = 0; i < 8000; i++) {
		assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
		if (i % 500 == 0)
			assert_int_equal(world_op(&sw->w, STORE_DEL, i), 0);
	}
	assert_int_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
	ns = sw->w.clock_ns - begin;
	wrote = ssd_world_disk(sw)->written_bytes - wrote;
	assert_true(wrote > 4 * BURST);
	/* A write and its debt more; never idle for long. */
	assert_true((double)wrote <= (double)RATE * (double)ns / 1e9 + BURST + (4 << 20));
	assert_true((double)wrote >= (double)RATE * (double)ns / 1e9 / 2);
	assert_true(ssd_world_stats(sw).evictions > 0);
	ssd_world_destroy(sw);
}

static void worn(void **state)
{
	struct ssd_watch_dev dev = {.may_write = true};
	struct ssd_world *sw;
	uint64_t wrote;

	care = (struct store_ssd_care){.watch = &dev};
	sw = world();
	fill(sw, 0, NR);
	assert_true(atomic_load(&dev.written_bytes) > NR * LEN);
	atomic_store(&dev.may_write, false);
	wrote = ssd_world_disk(sw)->written_bytes;
	for (uint32_t i = NR; i < 2 * NR; i++)
		assert_int_equal(world_put(&sw->w, i, 1, LEN), -ENOSPC);
	assert_int_equal(health(sw).refused[STORE_REFUSED_WEAR], NR);
	assert_int_equal(ssd_world_disk(sw)->written_bytes, wrote);
	assert_int_equal(nr_hits(sw, NR), NR);
	/* What is dead stays dead: tombstones are written. */
	assert_int_equal(world_op(&sw->w, STORE_DEL, 7), 0);
	ssd_world_crash(sw, FAKE_CRASH_LOSE);
	assert_int_equal(world_get(&sw->w, 7, 1, LEN), -ENOENT);
	atomic_store(&dev.may_write, true);
	fill(sw, NR, 2 * NR);
	ssd_world_destroy(sw);
}

static void budget(void **state)
{
	struct ssd_world *sw;
	unsigned nr_good = 0;
	struct store_health h;

	/* An eighth of a day's is there at the start: 100 KiB. */
	care = (struct store_ssd_care){.day_bytes = 8 * 100 << 10};
	sw = world();
	for (uint32_t i = 0; i < 3000; i++)
		nr_good += world_put(&sw->w, i / 3, 1, LEN) == 0;
	h = health(sw);
	assert_in_range(nr_good, 10, 110);
	assert_int_equal(h.refused[STORE_REFUSED_BUDGET] + h.refused[STORE_REFUSED_POLICY],
			 3000 - nr_good);
	assert_true(nr_hits(sw, 1000) > 0);
	assert_int_equal(h.budget_day_bytes, care.day_bytes);
	/* Below a quarter of the bucket a key has to come twice. */
	assert_true(h.refused[STORE_REFUSED_POLICY] > 0);
	/* A day later there is plenty again, and an operator can lift it. */
	sw->w.clock_ns += 24 * 3600ull * 1000000000;
	world_settle(&sw->w);
	assert_int_equal(world_put(&sw->w, 2000, 1, LEN), 0);
	assert_int_equal(say(sw, STORE_CONTROL_BUDGET, 0), 0);
	fill(sw, 3000, 4000);
	assert_int_equal(say(sw, STORE_CONTROL_BUDGET, 1000), 0);
	assert_int_equal(health(sw).budget_day_bytes, 1000);
	ssd_world_destroy(sw);
}

/* What a flush counts on is written whatever the policy thinks of it, while there is budget. */
static void budget_flush(void **state)
{
	struct ssd_world *sw;

	care = (struct store_ssd_care){.day_bytes = 8 << 20};
	sw = world();
	sw->dram_bytes = 4 << 20;
	ssd_world_again(sw);
	for (uint32_t i = 0; i < 600; i++)
		assert_int_equal(world_put(&sw->w, 1000 + i, 1, LEN), 0);
	assert_int_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
	assert_true(wear_budget_level(&sw->s->health.budget, sw->w.clock_ns) < 256);
	for (uint32_t i = 1; i < 20; i++)
		assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
	assert_int_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
	sw->dram_bytes = 0;
	ssd_world_again(sw);
	for (uint32_t i = 1; i < 20; i++)
		assert_int_equal(world_get(&sw->w, i, 1, LEN), 0);
	ssd_world_destroy(sw);
}

/* ---- a device that fails --------------------------------------------------------------------- */

/* A value of this very version in a tier below, as a write-back of ours would have left it. */
static void put_below(struct ssd_world *sw, uint32_t no, uint64_t ver)
{
	struct world_io wi = {.io = {.op = STORE_BUF, .key = world_key(no), .len = LEN}};

	wi.io.end = world_io_end;
	store_submit_below(&sw->s->st, &wi.io);
	world_until(&sw->w, &wi.is_over);
	assert_int_equal(wi.res, 0);
	world_fill(&wi.io.view, &wi.io.key, 1);
	wi.io.op = STORE_FILL;
	wi.io.ver = ver;
	wi.is_over = false;
	store_submit_below(&sw->s->st, &wi.io);
	world_until(&sw->w, &wi.is_over);
	assert_int_equal(wi.res, 0);
}

static void all_reads_fail(struct ssd_world *sw, bool do_they)
{
	ssd_world_disk(sw)->faults.chance[FAKE_READ_EIO] = do_they ? 65536 : 0;
}

/* A miss where nothing is below; the same version from below; never an older one. */
static void read_error(void **state)
{
	struct ssd_world *sw;
	struct world_io wi = {.io = {.op = STORE_EXIST}};

	care = (struct store_ssd_care){.errors_max = UINT32_MAX, .faults_max = UINT32_MAX};
	sw = world();
	sw->has_below = true;
	ssd_world_again(sw);
	fill(sw, 0, 4);
	wi.io.key = world_key(1);
	assert_int_equal(world_run(&sw->w, 0, &wi), 0);
	put_below(sw, 1, wi.io.ver);
	all_reads_fail(sw, true);
	assert_int_equal(world_get(&sw->w, 0, 1, LEN), -ENOENT);
	assert_int_equal(world_get(&sw->w, 1, 1, LEN), 0);
	assert_int_equal(world_get(&sw->w, 2, 1, LEN), -ENOENT);
	all_reads_fail(sw, false);
	/* Dropped: not asked for again. */
	assert_int_equal(world_get(&sw->w, 0, 1, LEN), -ENOENT);
	assert_int_equal(world_get(&sw->w, 1, 1, LEN), 0);
	assert_int_equal(world_get(&sw->w, 2, 1, LEN), -ENOENT);
	assert_int_equal(world_get(&sw->w, 3, 1, LEN), 0);
	assert_int_equal(health(sw).errors[STORE_ERROR_READ], 3);
	assert_int_equal(health(sw).nr_bad, 3);
	assert_int_equal(world_put(&sw->w, 0, 1, LEN), -ENOSPC);
	assert_int_equal(health(sw).refused[STORE_REFUSED_BAD], 1);
	assert_int_equal(say(sw, STORE_CONTROL_BAD_CLEAR, 0), 3);
	assert_int_equal(world_put(&sw->w, 0, 1, LEN), 0);
	assert_int_equal(world_get(&sw->w, 0, 1, LEN), 0);
	ssd_world_destroy(sw);
}

/* Many errors in a short time: read-only, then off; memory would go on. An operator is needed. */
static void trips(void **state)
{
	struct ssd_world *sw;
	uint32_t i = 0;

	care = (struct store_ssd_care){.errors_max = 8, .faults_max = UINT32_MAX};
	sw = world();
	fill(sw, 0, NR);
	all_reads_fail(sw, true);
	while (health(sw).state == TRIP_RW)
		world_get(&sw->w, i++, 1, LEN);
	assert_int_equal(i, 8);
	assert_int_equal(health(sw).state, TRIP_READ_ONLY);
	assert_int_equal(world_put(&sw->w, 1000, 1, LEN), -ENOSPC);
	assert_int_equal(health(sw).refused[STORE_REFUSED_STATE], 1);
	while (health(sw).state == TRIP_READ_ONLY)
		world_get(&sw->w, i++, 1, LEN);
	assert_int_equal(i, 32);
	assert_int_equal(health(sw).state, TRIP_OFF);
	all_reads_fail(sw, false);
	assert_int_equal(nr_hits(sw, NR), 0);
	assert_int_equal(world_op(&sw->w, STORE_EXIST, 100), -ENOENT);
	assert_int_equal(sw->w.nr_alerts, 32 + 2);
	assert_int_equal(say(sw, STORE_CONTROL_STATE, TRIP_READ_ONLY), 0);
	assert_int_equal(nr_hits(sw, NR), NR - 32);
	assert_int_equal(world_put(&sw->w, 1000, 1, LEN), -ENOSPC);
	/* Deleted while it was so: dead for ever. */
	assert_int_equal(world_op(&sw->w, STORE_DEL, 150), 0);
	assert_int_equal(say(sw, STORE_CONTROL_STATE, TRIP_RW), 0);
	assert_int_equal(world_put(&sw->w, 1000, 1, LEN), 0);
	ssd_world_again(sw);
	assert_int_equal(health(sw).state, TRIP_RW);
	assert_int_equal(world_get(&sw->w, 150, 1, LEN), -ENOENT);
	ssd_world_destroy(sw);
}

/* Few errors now and then trip nothing. */
static void forgives(void **state)
{
	struct ssd_world *sw;

	care = (struct store_ssd_care){.errors_max = 4, .faults_max = UINT32_MAX};
	sw = world();
	fill(sw, 0, NR);
	for (uint32_t i = 0; i < 50; i++) {
		all_reads_fail(sw, true);
		assert_int_equal(world_get(&sw->w, i, 1, LEN), -ENOENT);
		all_reads_fail(sw, false);
		sw->w.clock_ns += 60ull * 1000000000;
		world_settle(&sw->w);
	}
	assert_int_equal(health(sw).state, TRIP_RW);
	assert_int_equal(nr_hits(sw, NR), NR - 50);
	ssd_world_destroy(sw);
}

/* Turns bits over in the payload of a value, on the medium. */
static uint32_t damage(struct ssd_world *sw, uint32_t no)
{
	struct store_key k = world_key(no);
	const struct ssd_entry *e = ssd_index_find(&sw->s->ix, &k);

	must(e);
	ssd_world_disk(sw)
		->now[ssd_seg_addr(sw->s, e->seg) + (uint64_t)e->off * SSD_GRANULE + 300] ^= 0x10;
	return e->seg;
}

/* Its second fault: the segment's values are elsewhere, and it is dead in every later life. */
static void retires(void **state)
{
	struct ssd_world *sw;
	uint32_t seg, nr_seg;
	uint64_t epoch;

	care = (struct store_ssd_care){0};
	sw = world();
	fill(sw, 0, NR);
	assert_int_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
	seg = damage(sw, 3);
	assert_int_equal(damage(sw, 5), seg);
	nr_seg = sw->s->segs[seg].nr_entries;
	assert_int_equal(sw->s->segs[seg].state, SSD_SEALED);
	assert_int_equal(world_get(&sw->w, 3, 1, LEN), -ENOENT);
	assert_false(sw->s->segs[seg].is_condemned);
	assert_int_equal(world_get(&sw->w, 5, 1, LEN), -ENOENT);
	assert_true(sw->s->segs[seg].is_condemned && nr_seg > 20);
	for (unsigned i = 0; sw->s->segs[seg].state != SSD_DEAD; i++) {
		assert_true(i < 100000);
		world_step(&sw->w);
	}
	assert_int_equal(nr_hits(sw, NR), NR - 2);
	world_settle(&sw->w);
	assert_int_equal(health(sw).nr_dead, 1);
	assert_int_equal(health(sw).errors[STORE_ERROR_WRONG], 2);
	assert_int_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
	for (unsigned how = 0; how < FAKE_NR_CRASHES; how++) {
		ssd_world_crash(sw, how);
		assert_int_equal(sw->s->segs[seg].state, SSD_DEAD);
		assert_int_equal(health(sw).nr_dead, 1);
		assert_int_equal(nr_hits(sw, NR), NR - 2);
	}
	/* Round and round: never in it. */
	epoch = sw->s->segs[seg].epoch;
	for (uint32_t i = 1000; i < 9000; i++)
		assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
	assert_int_equal(sw->s->segs[seg].epoch, epoch);
	ssd_world_destroy(sw);
}

/* A failed sync loses the segment; one that succeeds later does not bring it back. */
static void sync_error(void **state)
{
	struct ssd_world *sw;
	struct fake_disk *d;

	care = (struct store_ssd_care){0};
	sw = world();
	d = ssd_world_disk(sw);
	fill(sw, 0, 20);
	d->faults.chance[FAKE_SYNC_EIO] = 65536;
	assert_int_equal(world_op(&sw->w, STORE_FLUSH, 0), -ENOSPC);
	d->faults.chance[FAKE_SYNC_EIO] = 0;
	assert_int_equal(nr_hits(sw, 20), 0);
	assert_int_equal(health(sw).errors[STORE_ERROR_SYNC], 1);
	/* Nothing of what was lost is said to be durable. */
	assert_int_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
	assert_int_equal(nr_hits(sw, 20), 0);
	fill(sw, 0, 20);
	assert_int_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
	ssd_world_crash(sw, FAKE_CRASH_LOSE);
	assert_int_equal(nr_hits(sw, 20), 20);
	ssd_world_destroy(sw);
}

static void no_space(void **state)
{
	struct ssd_world *sw;
	struct fake_disk *d;
	unsigned nr_good = 0;

	care = (struct store_ssd_care){0};
	sw = world();
	d = ssd_world_disk(sw);
	fill(sw, 0, NR);
	/* Now and then: the second try succeeds, nobody is told. */
	d->faults.chance[FAKE_WRITE_FULL] = 6554;
	for (uint32_t i = NR; i < 2 * NR; i++)
		nr_good += world_put(&sw->w, i, 1, LEN) == 0;
	assert_true(nr_good > NR * 9 / 10);
	/* Always: a miss, and no error of the device. */
	d->faults.chance[FAKE_WRITE_FULL] = 65536;
	for (uint32_t i = 2 * NR; i < 3 * NR; i++)
		assert_int_equal(world_put(&sw->w, i, 1, LEN), -ENOSPC);
	assert_int_equal(world_get(&sw->w, 2 * NR, 1, LEN), -ENOENT);
	assert_int_equal(health(sw).errors[STORE_ERROR_WRITE], 0);
	assert_int_equal(health(sw).state, TRIP_RW);
	d->faults.chance[FAKE_WRITE_FULL] = 0;
	fill(sw, 4 * NR, 5 * NR);
	ssd_world_destroy(sw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(causes),	cmocka_unit_test(rate),
		cmocka_unit_test(worn),		cmocka_unit_test(budget),
		cmocka_unit_test(budget_flush), cmocka_unit_test(read_error),
		cmocka_unit_test(trips),	cmocka_unit_test(forgives),
		cmocka_unit_test(retires),	cmocka_unit_test(sync_error),
		cmocka_unit_test(no_space),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
