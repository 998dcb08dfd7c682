/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssd_span_out.c, ssd_span_move.c: a device is missing at a start, fails while it runs, is drained,
 * comes back; through crashes, under changes; and never is a value served that was put over or
 * deleted.
 */
#include "span_rig.h"

/* ---- lost ------------------------------------------------------------------------------------ */

/* It can't be read at a start: nothing is made in its place, the others go on. */
static void missing(void **state)
{
	struct rig *g = rig_new(2, true);
	unsigned nr;

	put_all(g);
	end(g);
	g->disks.disk[1].is_dead = true;
	begin_well(g);
	assert_int_equal(part(g, 1).state, STORE_PART_MISSING);
	assert_true(g->w.nr_alerts > 0);
	nr = nr_there(g);
	assert_true(nr > NR / 4 && nr < NR - NR / 4);
	put_all(g);
	assert_int_equal(nr_there(g), NR);
	end(g);
	/* And back, with what it had. */
	g->disks.disk[1].is_dead = false;
	begin_well(g);
	assert_int_equal(part(g, 1).state, STORE_PART_IN);
	assert_true(part(g, 1).st.nr_keys > NR / 4);
	assert_int_equal(nr_there(g), NR);
	rig_old(g);
}

/* Where values may change what was away counts nothing when it comes back. */
static void away(void **state)
{
	struct rig *g = rig_new(2, false);

	put_all(g);
	end(g);
	g->disks.disk[1].is_dead = true;
	begin_well(g);
	/* Nobody knows whether that one has gone on alone. */
	assert_int_equal(nr_there(g), 0);
	for (uint32_t i = 0; i < NR; i += 2)
		assert_int_equal(put(g, i), 0);
	for (uint32_t i = 0; i < NR; i += 8)
		assert_int_equal(del(g, i), 0);
	end(g);
	g->disks.disk[1].is_dead = false;
	begin_well(g);
	nr_there(g);
	put_all(g);
	again(g);
	assert_int_equal(nr_there(g), NR);
	rig_old(g);
}

/* It fails while it runs: soon the others go on without it, and what they have is kept. */
static void failed(void **state)
{
	for (unsigned is_immutable = 0; is_immutable < 2; is_immutable++) {
		struct rig *g = rig_new(3, is_immutable);
		unsigned nr_failed = 0, nr;

		end(g);
		g->errors_max = 4;
		begin_well(g);
		put_all(g);
		below(g);
		g->disks.disk[1].is_dead = true;
		for (unsigned n = 0; part(g, 1).state != STORE_PART_LOST; n++) {
			uint32_t no = n % NR;

			must(n < 100000);
			has(g, no);
			nr_failed += put(g, no) != 0;
			world_settle(&g->w);
		}
		/* Now nothing hangs on it any more. */
		for (uint32_t i = 0; i < NR; i++)
			if (!is_immutable || !has(g, i))
				assert_int_equal(put(g, i), 0);
		assert_int_equal(del(g, 3), 0);
		assert_int_equal(nr_there(g), NR - 1);
		assert_int_equal(part(g, 1).st.nr_keys, 0);
		below(g);
		g->disks.disk[1].is_dead = false;
		if (is_immutable)
			g->least[3] = 0; /* it doesn't know of that */
		again(g);
		nr = nr_there(g);
		assert_true(nr >= NR - 1);
		assert_int_equal(part(g, 1).state, STORE_PART_IN);
		printf("%u puts failed until it was out\n", nr_failed);
		rig_old(g);
	}
}

/* ---- drained --------------------------------------------------------------------------------- */

static void drained(void **state)
{
	for (unsigned how = 0; how < 4; how++) {
		struct rig *g = rig_new(2, how % 2);

		g->is_durable = how / 2;
		again(g);
		put_all(g);
		below(g);
		assert_true(part(g, 1).st.nr_keys > NR / 4);
		assert_int_equal(say(g, STORE_CONTROL_DRAIN, "/x", 1), -ENOENT);
		assert_int_equal(say(g, STORE_CONTROL_DRAIN, "/b", 0), 0);
		assert_int_equal(say(g, STORE_CONTROL_DRAIN, "/b", 1), 0);
		assert_int_equal(say(g, STORE_CONTROL_DRAIN, "/b", 1), 0);
		assert_int_equal(say(g, STORE_CONTROL_DRAIN, "/a", 1), -EBUSY);
		until(g, 1, STORE_PART_DRAINED);
		assert_int_equal(part(g, 1).st.nr_keys, 0);
		assert_true(part(g, 1).moved > NR / 4);
		assert_int_equal(part(g, 0).st.nr_keys, NR);
		assert_int_equal(say(g, STORE_CONTROL_DRAIN, "/b", 1), 0);
		assert_int_equal(say(g, STORE_CONTROL_DRAIN, "/b", 0), -EBUSY);
		/* Whatever becomes of it. */
		g->disks.disk[1].is_dead = true;
		assert_int_equal(nr_there(g), NR);
		if (!g->is_immutable)
			put_all(g);
		assert_int_equal(nr_there(g), NR);
		assert_int_equal(g->w.nr_alerts, 1);
		end(g);
		g->nr = 1;
		begin_well(g);
		assert_int_equal(nr_there(g), NR);
		end(g);
		/* The same again, with what it had: it counts nothing, where values change. */
		g->nr = 2;
		g->disks.disk[1].is_dead = false;
		begin_well(g);
		assert_int_equal(nr_there(g), NR);
		rig_old(g);
	}
}

static int drain_at(struct rig *g, const char *folder, uint64_t rate)
{
	return say_all(g, &(struct store_control){.verb = STORE_CONTROL_DRAIN,
						  .folder = folder,
						  .arg = 1,
						  .rate_bytes = rate});
}

/* No more than its rate and a burst at any time; not much less; asked again it has another one. */
static void drained_slowly(void **state)
{
	uint64_t rate = 16 << 20, begin_ns, ns, total;
	struct rig *g = rig_new(2, true);

	put_all(g);
	below(g);
	total = part(g, 1).st.value_bytes;
	assert_true(total > 8 << 20);
	begin_ns = g->w.clock_ns;
	assert_int_equal(drain_at(g, "/b", rate), 0);
	while (part(g, 1).moved_bytes < total / 2) {
		g->w.clock_ns += 100000;
		world_step(&g->w);
		ns = g->w.clock_ns - begin_ns;
		assert_true(part(g, 1).moved_bytes <=
			    (3 << 20) + (uint64_t)((double)ns / 1e9 * (double)rate));
		assert_true(ns < 1000000000);
	}
	assert_int_equal(drain_at(g, "/b", 0), 0);
	begin_ns = g->w.clock_ns;
	until(g, 1, STORE_PART_DRAINED);
	assert_true(g->w.clock_ns - begin_ns < 1000000000);
	assert_int_equal(nr_there(g), NR);
	rig_old(g);
}

/* While values are put, over and away: what is moved is never older than what is there. */
static void drained_busy(void **state)
{
	uint64_t seed = unit_seed(9);

	for (unsigned n_how = 0; n_how < 18; n_how++) {
		unsigned how = n_how % 6;
		struct rig *g = rig_new(2 + how % 2, false);
		struct rng r;

		rng_init(&r, seed + n_how);
		put_all(g);
		below(g);
		assert_int_equal(say(g, STORE_CONTROL_DRAIN, "/a", 1), 0);
		for (unsigned n = 0; n < 4000 && part(g, 0).state != STORE_PART_DRAINED; n++) {
			uint32_t no = (uint32_t)rng_below(&r, NR);

			switch (rng_below(&r, 4)) {
			case 0:
				assert_int_equal(put(g, no), 0);
				break;
			case 1:
				del(g, no);
				break;
			default:
				has(g, no);
			}
			if (n == 300 && how == 2) {
				assert_int_equal(say(g, STORE_CONTROL_DRAIN, "/a", 0), 0);
				assert_int_equal(say(g, STORE_CONTROL_DRAIN, "/a", 1), 0);
			}
			if (n == 100 && how >= 4)
				break;
		}
		if (how < 4)
			until(g, 0, STORE_PART_DRAINED);
		nr_there(g);
		if (how >= 4) {
			below(g);
			crash(g, how == 4 ? FAKE_CRASH_LOSE : FAKE_KILL);
			nr_there(g);
			/* Where copies lie twice, both go. */
			for (uint32_t i = 0; i < NR; i++)
				assert_int_equal(put(g, i), 0);
		}
		below(g);
		crash(g, FAKE_CRASH_SECTOR);
		nr_there(g);
		rig_old(g);
	}
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Lives that end anyhow, devices that are away, fail or are drained: never a value of before. */
static void any(void **state)
{
	uint64_t seed = unit_seed(17), nr_hits = 0, nr_ops = 0;

	for (unsigned world = 0; world < 12; world++) {
		struct rig *g = rig_new(2 + world % 2, world % 4 == 3);
		struct rng r;

		rng_init(&r, seed + world);
		g->is_durable = world % 3 == 0;
		for (unsigned life = 0; life < 7; life++) {
			unsigned nr = 200 + (unsigned)rng_below(&r, 900);
			bool is_clean = rng_chance(&r, 1, 3);

			for (unsigned n = 0; n < nr; n++, nr_ops++) {
				uint32_t no = (uint32_t)rng_below(&r, NR);

				switch (rng_below(&r, 8)) {
				case 0:
				case 1:
				case 2:
					put(g, no);
					break;
				case 3:
					if (!g->is_immutable)
						del(g, no);
					break;
				default:
					nr_hits += has(g, no);
				}
				if (rng_chance(&r, 1, 400))
					say(g, STORE_CONTROL_DRAIN, folders[rng_below(&r, g->nr)],
					    rng_below(&r, 3) > 0);
				if (rng_chance(&r, 1, 1000))
					g->disks.disk[rng_below(&r, g->nr)].is_dead = true;
			}
			if (is_clean) {
				world_op(&g->w, STORE_FLUSH, 0);
			} else {
				for (unsigned i = 0; i < DISKS; i++)
					fake_disk_crash(
						&g->disks.disk[i],
						(enum fake_crash)rng_below(&r, FAKE_NR_CRASHES));
			}
			world_fini(&g->w);
			for (unsigned i = 0; i < DISKS; i++)
				fake_disk_revive(&g->disks.disk[i]);
			for (unsigned i = 0; i < g->nr; i++)
				g->disks.disk[i].is_dead = rng_chance(&r, 1, 6);
			g->errors_max = rng_chance(&r, 1, 2) ? 3 : 0;
			if (begin(g)) {
				for (unsigned i = 0; i < g->nr; i++)
					g->disks.disk[i].is_dead = false;
				assert_int_equal(begin(g), 0);
			}
		}
		rig_old(g);
	}
	printf("%llu operations, %llu hits\n", (unsigned long long)nr_ops,
	       (unsigned long long)nr_hits);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(missing),
		cmocka_unit_test(away),
		cmocka_unit_test(failed),
		cmocka_unit_test(drained),
		cmocka_unit_test(drained_slowly),
		cmocka_unit_test(drained_busy),
		cmocka_unit_test(any),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
