/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssd_index.c: look-ups, walks and pages of a listing against an array; what an entry costs.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "store/ssd/ssd_index.h"

#define NR_KEYS 3000u

static struct store_key make_key(uint32_t no)
{
	struct store_key k = {.len = (uint8_t)(4 + no % 13)};

	memcpy(k.b, &no, 4);
	k.hash = hash_key(k.b, k.len);
	return k;
}

static struct ssd_entry *add(struct ssd_index *ix, const struct store_key *k)
{
	assert_int_equal(ssd_index_reserve(ix, k), 0);
	ssd_index_unreserve(ix);
	return ssd_index_add(ix, k);
}

static void check_all(struct ssd_index *ix, const bool *is_there, const bool *is_ghost)
{
	uint32_t nr = 0, nr_listed = 0, nr_live = 0, no = 0;
	struct store_list all = {0};
	const struct store_key *k;
	struct store_key last;
	struct ssd_cursor c;

	for (uint32_t i = 0; i < NR_KEYS; i++) {
		struct store_key key = make_key(i);
		struct ssd_entry *e = ssd_index_find(ix, &key);

		assert_int_equal(e != NULL, is_there[i]);
		if (e)
			assert_int_equal(e->ver, i + 1);
		nr += is_there[i];
		nr_live += is_there[i] && !is_ghost[i];
	}
	assert_int_equal(ix->nr_used, nr);
	assert_int_equal(ix->nr_used - ix->nr_ghosts, nr_live);
	for (uint32_t i = 0; i < nr; i++, no++)
		assert_non_null(ssd_index_walk(ix, &no));
	assert_null(ssd_index_walk(ix, &no));
	ssd_index_cursor_init(&c, ix, &all);
	for (; (k = ssd_index_cursor_next(&c)); nr_listed++, last = *k)
		assert_true(nr_listed == 0 || store_key_cmp(&last, k) < 0);
	assert_int_equal(nr_listed, nr_live);
}

static void random_order(void **state)
{
	static bool is_there[NR_KEYS], is_ghost[NR_KEYS];
	struct ssd_index ix;
	struct rng rng;

	rng_init(&rng, unit_seed(5));
	assert_int_equal(ssd_index_init(&ix, NR_KEYS), 0);
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned n = 0; n < 2000; n++) {
			uint32_t i = (uint32_t)rng_below(&rng, NR_KEYS);
			struct store_key k = make_key(i);
			struct ssd_entry *e = ssd_index_find(&ix, &k);

			if (e && rng_chance(&rng, 1, 3)) {
				is_ghost[i] = !is_ghost[i];
				ssd_index_set_ghost(&ix, e, is_ghost[i]);
			} else if (e) {
				ssd_index_remove(&ix, e);
				is_there[i] = is_ghost[i] = false;
			} else {
				add(&ix, &k)->ver = i + 1;
				is_there[i] = true;
			}
		}
		check_all(&ix, is_there, is_ghost);
	}
	ssd_index_fini(&ix);
}

/* Keys that all fall into one bucket: others get no room at some point, and those are all found. */
static void collisions(void **state)
{
	struct store_key k = {.len = 16, .hash = 77};
	struct ssd_index ix;
	uint32_t n = 0;

	assert_int_equal(ssd_index_init(&ix, 4096), 0);
	for (; n < 1000; n++) {
		k.w[1] = n;
		if (ssd_index_reserve(&ix, &k))
			break;
		ssd_index_unreserve(&ix);
		/* Entries make their hash again from the key, so nothing of these is removed. */
		ssd_index_add(&ix, &k);
	}
	assert_int_equal(ssd_index_reserve(&ix, &k), -EBUSY);
	assert_true(n >= SSD_CHAIN_FULL && n < SSD_CHAIN_MAX);
	for (uint32_t i = 0; i < n; i++) {
		k.w[1] = i;
		assert_non_null(ssd_index_find(&ix, &k));
	}
	ssd_index_fini(&ix);
}

static void full(void **state)
{
	struct ssd_index ix;
	struct store_key k;

	assert_int_equal(ssd_index_init(&ix, 10), 0);
	for (uint32_t i = 0; i < 9; i++) {
		k = make_key(i);
		add(&ix, &k);
	}
	k = make_key(9);
	assert_int_equal(ssd_index_reserve(&ix, &k), 0);
	k = make_key(10);
	assert_int_equal(ssd_index_reserve(&ix, &k), -ENOSPC);
	ssd_index_unreserve(&ix);
	assert_int_equal(ssd_index_reserve(&ix, &k), 0);
	ssd_index_unreserve(&ix);
	ssd_index_fini(&ix);
}

/* The figure that the design sets: 48 bytes an entry, everything included. */
static void cost(void **state)
{
	assert_true(ssd_index_cost(1 << 20) <= (48ull << 20));
	assert_true(ssd_index_cost(100 << 20) <= (48ull * 100 << 20));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_order),
		cmocka_unit_test(collisions),
		cmocka_unit_test(full),
		cmocka_unit_test(cost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
