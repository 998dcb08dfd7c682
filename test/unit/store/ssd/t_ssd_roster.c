/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssd_roster.c: what becomes of each device at a start: new ones are made, missing ones are not,
 * and where values may change nothing counts of which it isn't sure that it is the last word.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/container.h"
#include "base/rng.h"
#include "store/ssd/ssd_roster.h"

#define DEVS 3u

/* Devices as they lie there: a file each, or none. */
struct world {
	struct ssd_roster_dev dev[DEVS];
	uint64_t next_id;
};

static const char *const folders[DEVS] = {"/a", "/b", "/c"};

static void world_new(struct world *w)
{
	memset(w, 0, sizeof(*w));
	w->next_id = 1000;
	for (unsigned i = 0; i < DEVS; i++)
		w->dev[i].err = -ENOENT;
}

/* A life with those of `configured`, of which `away` can't be opened; 0 or an error. */
static int life(struct world *w, unsigned configured, unsigned away, bool is_immutable)
{
	struct ssd_roster_dev dev[DEVS];
	struct ssd_roster now;
	unsigned nr = 0;
	int err;

	for (unsigned i = 0; i < DEVS; i++) {
		w->dev[i].fate = 99;
		if (!(configured >> i & 1))
			continue;
		dev[nr] = w->dev[i];
		dev[nr].folder = ssd_roster_folder(folders[i]);
		dev[nr].new_id = ++w->next_id;
		if (away >> i & 1)
			dev[nr].err = -ENOENT;
		nr++;
	}
	err = ssd_roster_decide(dev, nr, is_immutable, &now);
	nr = 0;
	for (unsigned i = 0; i < DEVS && !err; i++) {
		if (!(configured >> i & 1))
			continue;
		w->dev[i].fate = dev[nr].fate;
		if (dev[nr].fate != SSD_ROSTER_MISSING) {
			w->dev[i].err = 0;
			w->dev[i].id = dev[nr].fate == SSD_ROSTER_KEEP ? dev[nr].id
								       : dev[nr].new_id;
			w->dev[i].was = now;
		}
		nr++;
	}
	return err;
}

#define FATES(w, a, b, c) \
	do { \
		assert_int_equal((w)->dev[0].fate, a); \
		assert_int_equal((w)->dev[1].fate, b); \
		assert_int_equal((w)->dev[2].fate, c); \
	} while (0)
#define NONE 99

static void alone(void **state)
{
	struct world w;

	world_new(&w);
	assert_int_equal(life(&w, 1, 0, false), 0);
	FATES(&w, SSD_ROSTER_MAKE, NONE, NONE);
	assert_int_equal(w.dev[0].was.life, 0); /* nothing that an older daemon doesn't know */
	assert_int_equal(life(&w, 1, 0, false), 0);
	FATES(&w, SSD_ROSTER_KEEP, NONE, NONE);
	assert_int_equal(w.dev[0].was.life, 0);
}

static void added(void **state)
{
	struct world w;

	world_new(&w);
	assert_int_equal(life(&w, 1, 0, false), 0);
	assert_int_equal(life(&w, 3, 0, false), 0);
	FATES(&w, SSD_ROSTER_KEEP, SSD_ROSTER_MAKE, NONE);
	assert_int_equal(life(&w, 7, 0, false), 0);
	FATES(&w, SSD_ROSTER_KEEP, SSD_ROSTER_KEEP, SSD_ROSTER_MAKE);
	assert_int_equal(life(&w, 7, 0, false), 0);
	FATES(&w, SSD_ROSTER_KEEP, SSD_ROSTER_KEEP, SSD_ROSTER_KEEP);
}

static void missing(void **state)
{
	struct world w;

	for (unsigned is_immutable = 0; is_immutable < 2; is_immutable++) {
		enum ssd_roster_fate others = is_immutable ? SSD_ROSTER_KEEP : SSD_ROSTER_DROP;

		world_new(&w);
		assert_int_equal(life(&w, 7, 0, is_immutable), 0);
		/* Nothing tells that b did not go on without the others: once, they begin anew. */
		assert_int_equal(life(&w, 7, 2, is_immutable), 0);
		FATES(&w, others, SSD_ROSTER_MISSING, others);
		/* It may have gone on alone in between. */
		assert_int_equal(life(&w, 7, 2, is_immutable), 0);
		FATES(&w, others, SSD_ROSTER_MISSING, others);
		/* Somebody says that it hasn't. */
		assert_int_equal(life(&w, 5, 0, is_immutable), 0);
		FATES(&w, SSD_ROSTER_KEEP, NONE, SSD_ROSTER_KEEP);
		/* And back: it knows the others as they were before they began anew. */
		assert_int_equal(life(&w, 7, 0, is_immutable), 0);
		FATES(&w, others, others, others);
	}
}

/* One that failed was left out by the others: they keep what they have, it comes back empty. */
static void left(void **state)
{
	struct world w;

	world_new(&w);
	assert_int_equal(life(&w, 3, 0, false), 0);
	ssd_roster_leave(&w.dev[0].was, w.dev[1].id);
	assert_int_equal(life(&w, 3, 0, false), 0);
	FATES(&w, SSD_ROSTER_KEEP, SSD_ROSTER_DROP, NONE);
	ssd_roster_leave(&w.dev[0].was, w.dev[1].id);
	/* Drained, and taken out of the configuration. */
	assert_int_equal(life(&w, 1, 0, false), 0);
	FATES(&w, SSD_ROSTER_KEEP, NONE, NONE);
	/* The name is free again: another one may take it. */
	w.dev[1].err = -ENOENT;
	assert_int_equal(life(&w, 3, 0, false), 0);
	FATES(&w, SSD_ROSTER_KEEP, SSD_ROSTER_MAKE, NONE);
}

/* One that was drained says so itself: it begins empty, even where nothing changes. */
static void drained(void **state)
{
	struct world w;

	for (unsigned i = 0; i < 4; i++) {
		unsigned gone = i % 2;

		world_new(&w);
		assert_int_equal(life(&w, 3, 0, i / 2), 0);
		ssd_roster_leave(&w.dev[!gone].was, w.dev[gone].id);
		w.dev[gone].was = w.dev[!gone].was;
		assert_int_equal(life(&w, 3, 0, i / 2), 0);
		assert_int_equal(w.dev[gone].fate, SSD_ROSTER_DROP);
		assert_int_equal(w.dev[!gone].fate, SSD_ROSTER_KEEP);
		/* Alone, it still knows who is missing. */
		ssd_roster_leave(&w.dev[!gone].was, w.dev[gone].id);
		w.dev[gone].was = w.dev[!gone].was;
		assert_int_equal(life(&w, 3, 1u << !gone, i / 2), 0);
		assert_int_equal(w.dev[gone].fate, SSD_ROSTER_DROP);
		assert_int_equal(w.dev[!gone].fate, SSD_ROSTER_MISSING);
	}
}

/* Each has gone on without the other: nobody knows what came last. */
static void apart(void **state)
{
	struct world w;

	world_new(&w);
	assert_int_equal(life(&w, 3, 0, false), 0);
	assert_int_equal(life(&w, 1, 0, false), 0);
	FATES(&w, SSD_ROSTER_DROP, NONE, NONE);
	assert_int_equal(life(&w, 2, 0, false), 0);
	FATES(&w, NONE, SSD_ROSTER_DROP, NONE);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(life(&w, 1, 0, false), 0);
	FATES(&w, SSD_ROSTER_KEEP, NONE, NONE);
	assert_int_equal(life(&w, 3, 0, false), 0);
	FATES(&w, SSD_ROSTER_DROP, SSD_ROSTER_DROP, NONE);
	/* Two that were never together. */
	world_new(&w);
	assert_int_equal(life(&w, 1, 0, false), 0);
	assert_int_equal(life(&w, 2, 0, false), 0);
	assert_int_equal(life(&w, 3, 0, false), 0);
	FATES(&w, SSD_ROSTER_DROP, SSD_ROSTER_DROP, NONE);
}

/* A start that was killed before all superblocks were written. */
static void half_begun(void **state)
{
	struct world w, was;

	for (unsigned i = 0; i < 2; i++) {
		world_new(&w);
		assert_int_equal(life(&w, 3, 0, false), 0);
		was = w;
		assert_int_equal(life(&w, 3, 0, false), 0);
		w.dev[i] = was.dev[i];
		assert_int_equal(life(&w, 3, 0, false), 0);
		FATES(&w, SSD_ROSTER_KEEP, SSD_ROSTER_KEEP, NONE);
	}
	/* The one that was being added, too. */
	for (unsigned i = 0; i < 2; i++) {
		world_new(&w);
		assert_int_equal(life(&w, 1, 0, false), 0);
		was = w;
		assert_int_equal(life(&w, 3, 0, false), 0);
		w.dev[i] = was.dev[i];
		w.dev[1].is_blank = i == 1;
		w.dev[1].err = 0;
		assert_int_equal(life(&w, 3, 0, false), 0);
		assert_int_equal(w.dev[0].fate, i ? SSD_ROSTER_DROP : SSD_ROSTER_KEEP);
	}
}

static void mistakes(void **state)
{
	static const int errs[] = {-EBUSY, -EPROTONOSUPPORT, -EXDEV, -ENOSPC, -EDQUOT, -ENOMEM};
	struct world w;

	for (unsigned i = 0; i < ARRAY_SIZE(errs); i++) {
		world_new(&w);
		assert_int_equal(life(&w, 3, 0, true), 0);
		w.dev[1].err = errs[i];
		assert_int_equal(life(&w, 3, 0, true), errs[i]);
	}
	/* One that failed and was never ours. */
	world_new(&w);
	assert_int_equal(life(&w, 1, 0, true), 0);
	w.dev[1].err = -EUCLEAN;
	assert_int_equal(life(&w, 3, 0, true), -EUCLEAN);
	/* None can be opened. */
	world_new(&w);
	w.dev[0].err = -EIO;
	assert_int_equal(life(&w, 3, 0, true), -EIO);
	assert_true(ssd_roster_folder("/a/b") == ssd_roster_folder("/a/b//"));
	assert_true(ssd_roster_folder("/") != ssd_roster_folder("/a"));
}

/* Values have changed `change` times; who took part has seen it. */
struct times {
	struct world w;
	struct rng r;
	uint64_t change;
	uint64_t seen[DEVS];
	unsigned configured;
	unsigned nr_kept, nr_dropped;
};

/* One may fail on the way: the others say so, and it doesn't see the change. */
static void times_change(struct times *t, unsigned in)
{
	unsigned leaver = rng_chance(&t->r, 1, 5) ? (unsigned)rng_below(&t->r, DEVS) : DEVS;

	if (!(in & ~(1u << leaver)))
		leaver = DEVS;
	t->change++;
	for (unsigned i = 0; i < DEVS; i++) {
		if (!(in >> i & 1))
			continue;
		if (i != leaver)
			t->seen[i] = t->change;
		if (i != leaver && in >> leaver & 1)
			ssd_roster_leave(&t->w.dev[i].was, t->w.dev[leaver].id);
	}
}

static void times_live(struct times *t)
{
	unsigned away = 0, in = 0;

	for (unsigned i = 0; i < DEVS; i++)
		away |= rng_chance(&t->r, 1, 4) << i;
	if (rng_chance(&t->r, 1, 3))
		t->configured |= 1u << rng_below(&t->r, DEVS);
	if (!(t->configured & ~away) || life(&t->w, t->configured, away, false))
		return;
	for (unsigned i = 0; i < DEVS; i++) {
		if (!(t->configured >> i & 1) || t->w.dev[i].fate == SSD_ROSTER_MISSING)
			continue;
		in |= 1u << i;
		if (t->w.dev[i].fate == SSD_ROSTER_KEEP)
			assert_int_equal(t->seen[i], t->change);
		t->nr_kept += t->w.dev[i].fate == SSD_ROSTER_KEEP;
		t->nr_dropped += t->w.dev[i].fate == SSD_ROSTER_DROP;
	}
	times_change(t, in);
}

/*
 * Devices come, go and come back in any order: where values may change one is kept only when no
 * change has passed it by. One that is away when it is added for the first time is no case: nothing
 * could know of it.
 */
static void never_stale(void **state)
{
	struct times t = {0};

	rng_init(&t.r, unit_seed(5));
	for (unsigned n = 0; n < 20000; n++) {
		world_new(&t.w);
		t.change = 0;
		memset(t.seen, 0, sizeof(t.seen));
		t.configured = 1 + (unsigned)rng_below(&t.r, 7);
		assert_int_equal(life(&t.w, t.configured, 0, false), 0);
		for (unsigned l = 0; l < 12; l++)
			times_live(&t);
	}
	printf("%u kept, %u dropped\n", t.nr_kept, t.nr_dropped);
	assert_true(t.nr_kept > 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alone),       cmocka_unit_test(added),
		cmocka_unit_test(missing),     cmocka_unit_test(left),
		cmocka_unit_test(drained),     cmocka_unit_test(apart),
		cmocka_unit_test(half_begun),  cmocka_unit_test(mistakes),
		cmocka_unit_test(never_stale),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
