/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssd_recover_trim.c: a value that is dead, which is known only after it has come, costs none that
 * lives; what a smaller index has no room for goes for good, the oldest first, whatever is changed
 * and whichever life ends meanwhile.
 */
#include "ssd_world.h"

#include "store/ssd/ssd_recover_int.h"

#define NR_KEYS 150u
#define NR_FEW 60u
#define LEN 900u

static void put_all(struct ssd_world *sw)
{
	for (uint32_t i = 0; i < NR_KEYS; i++)
		assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
}

static uint64_t open_epoch(const struct ssd *s, unsigned stream)
{
	return s->segs[s->stream[stream].seg].epoch;
}

/* Where second copies of tombstones go was opened before anything that is put from now on. */
static void open_cold(struct ssd_world *sw)
{
	const struct ssd *s = sw->s;
	uint64_t gen = 1;

	do
		assert_int_equal(world_put(&sw->w, NR_KEYS, gen++, LEN), 0);
	while (s->stream[SSD_COLD].state != SSD_STREAM_OPEN ||
	       open_epoch(s, s->data) < open_epoch(s, SSD_COLD));
	assert_int_equal(world_op(&sw->w, STORE_DEL, NR_KEYS), 0);
}

/*
 * The index has room for all that live and no more. Of the newest value, whose segment is read
 * first, one copy of its tombstone has failed, as often as it was tried, and the other one lies in
 * a segment that was opened before those of all that live.
 */
static void dead_first(void **state)
{
	struct ssd_world *sw = ssd_world_create(8 << 20, 128 << 10);
	struct ssd_stream *st;
	struct ssd_line *line;

	open_cold(sw);
	put_all(sw);
	assert_int_equal(world_put(&sw->w, NR_KEYS, 1, LEN), 0);
	assert_int_equal(world_op(&sw->w, STORE_DEL, NR_KEYS), 0);
	assert_true(open_epoch(sw->s, sw->s->data) > open_epoch(sw->s, SSD_COLD));
	st = &sw->s->stream[sw->s->data];
	line = &st->lines[(st->nr_lines - 1) / SSD_LINES].line[(st->nr_lines - 1) % SSD_LINES];
	assert_int_equal(line->kind, SSD_REC_TOMB);
	line->kind = SSD_REC_VOID;
	sw->o.max_keys = NR_KEYS;
	ssd_world_again(sw);
	for (uint32_t i = 0; i < NR_KEYS; i++)
		assert_int_equal(world_get(&sw->w, i, 1, LEN), 0);
	assert_int_equal(world_get(&sw->w, NR_KEYS, 1, LEN), -ENOENT);
	assert_int_equal(ssd_world_stats(sw).evictions, 0);
	ssd_world_destroy(sw);
}

/* The newest stay, and what went is told. */
static void oldest_go(void **state)
{
	struct ssd_world *sw = ssd_world_create(8 << 20, 128 << 10);
	uint32_t nr = 0, nr_per_seg;

	put_all(sw);
	nr_per_seg = sw->s->segs[0].nr_entries;
	for (uint32_t i = 1; i < sw->s->nr_segs; i++)
		if (sw->s->segs[i].nr_entries > nr_per_seg)
			nr_per_seg = sw->s->segs[i].nr_entries;
	sw->o.max_keys = NR_FEW;
	ssd_world_again(sw);
	for (uint32_t i = 0; i < NR_KEYS; i++) {
		bool is_there = world_get(&sw->w, i, 1, LEN) == 0;

		nr += is_there;
		assert_true(is_there || i < NR_KEYS - NR_FEW + nr_per_seg);
		assert_true(!is_there || i + NR_FEW + nr_per_seg >= NR_KEYS);
	}
	assert_int_equal(nr, NR_FEW);
	assert_int_equal(ssd_world_stats(sw).evictions, NR_KEYS - NR_FEW);
	ssd_world_destroy(sw);
}

/*
 * A put over a value that a recovery has found fails, and may be there all the same. Then that
 * value goes: the index knows the key as long as the other record may exist.
 */
static void failed_over(void **state)
{
	struct ssd_world *sw = ssd_world_create(8 << 20, 128 << 10);
	uint32_t last = 10 * NR_KEYS;
	struct store_key key = world_key(last);
	const struct ssd_entry *e;

	sw->is_immutable = true;
	ssd_world_again(sw);
	for (uint32_t i = 0; i <= last; i++)
		assert_int_equal(world_put(&sw->w, i, 1, LEN), 0);
	ssd_world_end(sw);
	sw->is_early = true;
	assert_int_equal(ssd_world_begin(sw), 0);
	while (!ssd_index_find(&sw->s->ix, &key))
		world_step(&sw->w);
	assert_int_equal(world_put(&sw->w, last + 1, 1, LEN), 0); /* a segment is open */
	ssd_world_disk(sw)->nth_kind = FAKE_WRITE_EIO;
	ssd_world_disk(sw)->nth_left = 1;
	assert_true(world_put(&sw->w, last, 1, LEN) < 0);
	assert_int_equal(sw->s->recover->state, SSD_RECOVER_SEGS);
	sw->s->ix.nr_max = 0; /* all are too many */
	ssd_world_recover(sw);
	e = ssd_index_find(&sw->s->ix, &key);
	assert_non_null(e);
	assert_true(e->is_ghost && ssd_seg_is_new(sw->s, e->seg));
	assert_true(sw->s->ix.nr_used < NR_KEYS); /* of the others those of its segment at most */
	ssd_world_destroy(sw);
}

/* ---- while it goes on ------------------------------------------------------------------------ */

struct change {
	uint32_t no;
	bool is_put;
	int res;
};

/* Keys that went and keys that stayed. Where the index is too full already a put fails. */
static void change_all(struct ssd_world *sw, struct change *changes, uint32_t nr, uint32_t first)
{
	for (uint32_t i = 0; i < nr; i++) {
		struct change *c = &changes[(first + i) % nr];

		c->res = c->is_put ? world_put(&sw->w, c->no, sw->is_immutable ? 1 : 3, LEN)
				   : world_op(&sw->w, STORE_DEL, c->no);
		assert_true(!c->res || c->res == (c->is_put ? -ENOSPC : -ENOENT));
	}
}

static const struct change *change_of(const struct change *c, uint32_t nr, uint32_t no)
{
	for (uint32_t i = 0; i < nr; i++)
		if (c[i].no == no)
			return &c[i];
	return NULL;
}

/* What is there is the newest of its key; how much is it? */
static uint32_t check_all(struct ssd_world *sw, const struct change *changes, uint32_t nr_changes)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < NR_KEYS; i++) {
		const struct change *c = change_of(changes, nr_changes, i);
		bool is_put = c && c->is_put && !c->res;
		uint64_t gen = is_put ? 3 : i % 5 ? 1 : 2;
		int res;

		/* One that failed may have killed what was there, or not. */
		if (c && c->is_put && c->res)
			continue;
		res = world_get(&sw->w, i, sw->is_immutable ? 1 : gen, LEN);
		assert_true(res == 0 || res == -ENOENT);
		assert_true(!is_put || res == 0);
		assert_true(is_put || res || (i % 7 && !c));
		nr += res == 0;
	}
	return nr;
}

static void trim_once(uint64_t seed, uint32_t n, bool is_immutable)
{
	struct change c[] = {{1, false, 0},
			     {2, true, 0},
			     {3, true, 0},
			     {NR_KEYS - 2, false, 0},
			     {NR_KEYS - 1, true, 0}};
	struct ssd_world *sw = ssd_world_create(8 << 20, 128 << 10);
	struct rng rng;
	uint32_t nr;

	rng_init(&rng, seed + n);
	sw->is_immutable = is_immutable;
	ssd_world_again(sw);
	put_all(sw);
	for (uint32_t i = 0; i < NR_KEYS; i += 5)
		assert_int_equal(world_put(&sw->w, i, is_immutable ? 1 : 2, LEN), 0);
	for (uint32_t i = 0; i < NR_KEYS; i += 7)
		assert_int_equal(world_op(&sw->w, STORE_DEL, i), 0);
	sw->o.max_keys = NR_FEW;
	sw->is_early = true;
	ssd_world_again(sw);
	while (n % 2 && sw->s->recover->state < SSD_RECOVER_TRIM)
		world_step(&sw->w);
	for (uint64_t i = rng_below(&rng, 40); i && ssd_recover_is_reading(sw->s); i--)
		world_step(&sw->w);
	change_all(sw, c, ARRAY_SIZE(c), n / 2);
	for (uint64_t i = rng_below(&rng, 200); i && ssd_recover_is_reading(sw->s); i--)
		world_step(&sw->w);
	sw->is_early = false;
	if (n % 3 == 1)
		assert_int_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
	if (n % 3)
		ssd_world_crash(sw, n % 3 == 1 ? FAKE_CRASH_SECTOR : FAKE_KILL);
	ssd_world_recover(sw);
	nr = check_all(sw, c, ARRAY_SIZE(c));
	assert_true(nr <= NR_FEW + ARRAY_SIZE(c));
	sw->o.max_keys = 16384;
	for (uint32_t life = 0; life < 2; life++) {
		ssd_world_again(sw);
		assert_true(check_all(sw, c, ARRAY_SIZE(c)) <= nr);
	}
	assert_int_equal(sw->w.nr_alerts, 0);
	ssd_world_destroy(sw);
}

static void meanwhile(void **state)
{
	uint64_t seed = unit_seed(41);

	for (uint32_t n = 0; n < 60; n++)
		trim_once(seed, n, n >= 40);
}

/* ---- what is forgotten ----------------------------------------------------------------------- */

/* A recovery that is about to clean, with `nr_free` segments free. */
static struct ssd_world *about_to_clean(uint32_t nr_free)
{
	struct ssd_world *sw = ssd_world_create(4 << 20, 128 << 10);

	put_all(sw);
	for (uint32_t i = 0; i < NR_KEYS; i += 5)
		assert_int_equal(world_op(&sw->w, STORE_DEL, i), 0);
	sw->is_early = true;
	ssd_world_again(sw);
	sw->is_early = false;
	sw->s->recover->has_refused = true;
	while (sw->s->recover->state < SSD_RECOVER_SEGS)
		world_step(&sw->w);
	for (uint32_t i = 0; sw->s->nr_free > nr_free; i++)
		if (sw->s->segs[i].state == SSD_FREE)
			ssd_seg_set(sw->s, i, SSD_HOLLOW);
	return sw;
}

/* With one segment free eviction can begin: it picks what goes, not the recovery. */
static void one_free(void **state)
{
	for (uint32_t nr_free = 0; nr_free < 2; nr_free++) {
		struct ssd_world *sw = about_to_clean(nr_free);

		ssd_world_recover(sw);
		if (nr_free)
			assert_int_equal(ssd_world_stats(sw).evictions, 0);
		else
			assert_true(ssd_world_stats(sw).evictions > 0);
		for (uint32_t i = 0; i < NR_KEYS; i += 5)
			assert_int_equal(world_get(&sw->w, i, 1, LEN), -ENOENT);
		ssd_world_destroy(sw);
	}
}

/*
 * A segment was found to be dead, and the superblocks that are to say so can't be written: it may
 * come back, so no tombstone goes in this life.
 */
static void dead_not_durable(void **state)
{
	struct ssd_world *sw = about_to_clean(0);

	while (sw->s->recover->state < SSD_RECOVER_FORGET)
		world_step(&sw->w);
	ssd_world_disk(sw)->faults.chance[FAKE_WRITE_EIO] = 65536;
	sw->s->recover->has_dead = true;
	ssd_health_super(sw->s);
	ssd_world_recover(sw);
	assert_int_equal(ssd_world_stats(sw).evictions, 0);
	assert_int_equal(sw->s->nr_free, 0);
	ssd_world_disk(sw)->faults.chance[FAKE_WRITE_EIO] = 0;
	ssd_world_again(sw);
	for (uint32_t i = 0; i < NR_KEYS; i++)
		assert_int_equal(world_get(&sw->w, i, 1, LEN), i % 5 ? 0 : -ENOENT);
	ssd_world_destroy(sw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dead_first),  cmocka_unit_test(oldest_go),
		cmocka_unit_test(failed_over), cmocka_unit_test(meanwhile),
		cmocka_unit_test(one_free),    cmocka_unit_test(dead_not_durable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
