/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssd_bad.c: the list outlives the process, a power cut at any moment, a flipped bit and a file
 * that was made anew; it is bounded, and forgotten when somebody says so.
 */
#include "ssd_world.h"

#include "store/store_health.h"

static struct ssd_world *world(void)
{
	return ssd_world_create((3 << 20) + 4096, 128 << 10);
}

static void add(struct ssd_world *sw, uint32_t from, uint32_t to)
{
	struct store_key k;

	for (uint32_t i = from; i < to; i++) {
		k = world_key(i);
		ssd_bad_add(sw->s, &k);
		ssd_bad_add(sw->s, &k);
	}
	for (unsigned i = 0; ssd_bad_is_busy(sw->s); i++) {
		must(i < 100000);
		world_step(&sw->w);
	}
}

static uint32_t nr_of(struct ssd_world *sw, uint32_t from, uint32_t to)
{
	struct store_key k;
	uint32_t nr = 0;

	for (uint32_t i = from; i < to; i++) {
		k = world_key(i);
		nr += ssd_bad_has(sw->s, &k);
	}
	return nr;
}

static void lives(void **state)
{
	struct ssd_world *sw = world();
	struct store_key keys[2000];
	struct store_control c = {.keys = keys, .max = 2000};

	add(sw, 0, 300);
	assert_int_equal(nr_of(sw, 0, 5000), 300);
	assert_int_equal(world_put(&sw->w, 7, 1, 100), -ENOSPC);
	ssd_world_again(sw);
	assert_int_equal(nr_of(sw, 0, 5000), 300);
	for (unsigned how = 0; how < FAKE_NR_CRASHES; how++) {
		ssd_world_crash(sw, how);
		assert_int_equal(nr_of(sw, 0, 5000), 300);
	}
	ssd_bad_list(sw->s, &c);
	assert_int_equal(c.nr, 300);
	for (uint32_t i = 0; i < c.nr; i++)
		assert_true(ssd_bad_has(sw->s, &keys[i]));
	ssd_bad_clear(sw->s);
	add(sw, 1000, 1001);
	assert_int_equal(nr_of(sw, 0, 5000), 1);
	ssd_world_crash(sw, FAKE_CRASH_LOSE);
	assert_int_equal(nr_of(sw, 0, 5000), 1);
	assert_int_equal(world_put(&sw->w, 7, 1, 100), 0);
	ssd_world_destroy(sw);
}

static void bounded(void **state)
{
	struct ssd_world *sw = world();

	add(sw, 0, SSD_BAD_MAX + 200);
	assert_int_equal(nr_of(sw, 0, 200), 0);
	assert_int_equal(nr_of(sw, 200, SSD_BAD_MAX + 200), SSD_BAD_MAX);
	ssd_world_again(sw);
	assert_int_equal(nr_of(sw, 0, SSD_BAD_MAX + 200), SSD_BAD_MAX);
	/* And goes on where it was. */
	add(sw, 5000, 5010);
	assert_int_equal(nr_of(sw, 200, 210), 0);
	assert_int_equal(nr_of(sw, 210, 220), 10);
	ssd_world_destroy(sw);
}

/* Cut off at any moment: what was there before is there. */
static void cut(void **state)
{
	uint64_t seed = unit_seed(3);

	for (unsigned n = 0; n < 40; n++) {
		struct ssd_world *sw = world();
		struct store_key k = world_key(100);

		rng_init(&ssd_world_disk(sw)->rng, seed + n);
		add(sw, 0, 100);
		ssd_bad_add(sw->s, &k);
		for (unsigned i = 0; i < n; i++)
			world_step(&sw->w);
		ssd_world_crash(sw, FAKE_CRASH_SECTOR);
		assert_int_equal(nr_of(sw, 0, 100), 100);
		ssd_world_destroy(sw);
	}
}

/* A block that is damaged costs what changed last; one of another file, everything. */
static void damaged(void **state)
{
	struct ssd_world *sw = world();
	uint8_t *at = ssd_world_disk(sw)->now + SSD_BAD_AT;

	add(sw, 0, 1);
	add(sw, 1, 2);
	for (uint32_t bit = 0; bit < 2 * 4096 * 8; bit += 97) {
		at[bit / 8] ^= (uint8_t)(1u << bit % 8);
		ssd_world_crash(sw, FAKE_KILL);
		assert_in_range(nr_of(sw, 0, 1000), 1, 2);
		at[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	ssd_world_end(sw);
	memset(ssd_world_disk(sw)->now, 0, 4096);
	memset(ssd_world_disk(sw)->now + (3 << 20), 0, 4096);
	sw->o.seed = 2;
	assert_int_equal(ssd_world_begin(sw), 0);
	assert_int_equal(nr_of(sw, 0, 1000), 0);
	ssd_world_destroy(sw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(lives), cmocka_unit_test(bounded),
					   cmocka_unit_test(cut), cmocka_unit_test(damaged)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
