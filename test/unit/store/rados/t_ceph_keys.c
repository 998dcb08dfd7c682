/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ceph_keys.c: against an array of flags, through scans that see what was there when they began, in
 * any order, while keys come and go.
 */
#include "unit.h"

#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "store/rados/ceph_keys.h"

#define NR 600u
#define SHARDS 3u
#define SHARD 1u

static struct store_key all[NR];
static bool is_there[NR], is_in_pool[NR]; /* what List has to say; what a scan will */

static int cmp(const void *a, const void *b)
{
	return store_key_cmp(a, b);
}

static void keys_make(void)
{
	for (uint32_t i = 0, n = 0; n < NR; i++) {
		struct store_key k = {.len = (uint8_t)(4 + i % 13)};

		memcpy(k.b, &i, 4);
		k.hash = hash_key(k.b, k.len);
		if (store_shard_of(k.hash, SHARDS) == SHARD)
			all[n++] = k;
	}
	qsort(all, NR, sizeof(all[0]), cmp);
	memset(is_there, 0, sizeof(is_there));
	memset(is_in_pool, 0, sizeof(is_in_pool));
}

/* Pages of at most `max`, from the start or from before this shard. */
static void check_list(const struct ceph_keys *k, uint32_t max)
{
	struct store_key page[64];
	struct store_list l = {.keys = page, .max = max};
	uint32_t at = 0;

	assert_true(max <= 64);
	do {
		l.nr = 0;
		l.more = false;
		ceph_keys_list(k, &l);
		for (uint32_t i = 0; i < l.nr; i++, at++) {
			while (at < NR && !is_there[at])
				at++;
			assert_true(at < NR && store_key_equal(&page[i], &all[at]));
		}
		if (l.nr) {
			l.after = page[l.nr - 1];
			l.has_after = true;
		}
	} while (l.more);
	for (; at < NR; at++)
		assert_false(is_there[at]);
}

static void check(const struct ceph_keys *k)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < NR; i++) {
		assert_int_equal(ceph_keys_has(k, &all[i]), is_there[i]);
		nr += is_there[i];
	}
	assert_int_equal(k->nr_keys, nr);
	check_list(k, 64);
	check_list(k, 7);
}

static void change(struct ceph_keys *k, struct rng *rng, uint32_t i)
{
	is_there[i] = is_in_pool[i] = rng_chance(rng, 1, 2);
	if (is_there[i])
		ceph_keys_put(k, &all[i]);
	else
		ceph_keys_del(k, &all[i]);
}

/* Others change the pool: that is known after the scan. */
static void scan(struct ceph_keys *k, struct rng *rng)
{
	bool was_in_pool[NR], is_changed[NR] = {false};
	uint32_t i;

	for (i = 0; i < NR; i++)
		if (rng_chance(rng, 1, 10))
			is_in_pool[i] = !is_in_pool[i];
	ceph_keys_scan_begin(k);
	memcpy(was_in_pool, is_in_pool, sizeof(was_in_pool));
	for (uint32_t n = 0; n < NR; n++) {
		if (rng_chance(rng, 1, 4)) {
			i = (uint32_t)rng_below(rng, NR);
			is_changed[i] = true;
			change(k, rng, i);
		}
		if (was_in_pool[n])
			ceph_keys_scan_seen(k, &all[n]);
	}
	while (ceph_keys_scan_end(k, true))
		;
	for (i = 0; i < NR; i++)
		if (!is_changed[i])
			is_there[i] = was_in_pool[i];
	check(k);
}

static void test_random(void **state)
{
	struct ceph_keys k;
	struct rng rng;

	rng_init(&rng, unit_seed(1));
	keys_make();
	assert_int_equal(ceph_keys_init(&k, 2 * NR, SHARD, SHARDS), 0);
	for (int round = 0; round < 20; round++) {
		for (uint32_t n = 0; n < NR; n++)
			change(&k, &rng, (uint32_t)rng_below(&rng, NR));
		check(&k);
		scan(&k, &rng);
	}
	ceph_keys_fini(&k);
}

/* A scan that failed has seen something; what it hasn't seen stays. */
static void test_stopped(void **state)
{
	struct ceph_keys k;

	keys_make();
	assert_int_equal(ceph_keys_init(&k, NR, SHARD, SHARDS), 0);
	ceph_keys_put(&k, &all[0]);
	ceph_keys_put(&k, &all[1]);
	ceph_keys_scan_begin(&k);
	ceph_keys_scan_seen(&k, &all[2]);
	ceph_keys_del(&k, &all[1]);
	while (ceph_keys_scan_end(&k, false))
		;
	is_there[0] = is_there[2] = true;
	check(&k);
	ceph_keys_fini(&k);
}

static void test_full(void **state)
{
	struct ceph_keys k;

	keys_make();
	assert_int_equal(ceph_keys_init(&k, 10, SHARD, SHARDS), 0);
	for (uint32_t i = 0; i < 10; i++) {
		ceph_keys_put(&k, &all[i]);
		is_there[i] = true;
	}
	ceph_keys_put(&k, &all[10]);
	assert_int_equal(k.nr_left_out, 1);
	check(&k);
	/* No place for a grave: what was deleted is not to come back. */
	ceph_keys_scan_begin(&k);
	ceph_keys_del(&k, &all[11]);
	ceph_keys_del(&k, &all[0]);
	ceph_keys_scan_seen(&k, &all[0]);
	ceph_keys_scan_seen(&k, &all[11]);
	while (ceph_keys_scan_end(&k, true))
		;
	is_there[0] = false;
	check(&k);
	ceph_keys_put(&k, &all[11]);
	is_there[11] = true;
	check(&k);
	ceph_keys_fini(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
