/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssd_evict.c: the log goes round many times; the oldest go first, what is used stays while the
 * budget lasts, and the disk never holds more than it has.
 */
#include "ssd_world.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_and_round),
		cmocka_unit_test(used_ones_stay),
		cmocka_unit_test(tombstones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
