/* SPDX-License-Identifier: Apache-2.0 */
/* store_list.c: pages against a sorted array, for every size of page and any order of adding. */
#include "world.h"

#define NR_KEYS 50

static int cmp(const void *a, const void *b)
{
	return store_key_cmp(a, b);
}

static void t_cmp(void **state)
{
	struct store_key a = world_key_bytes("a", 1), b = world_key_bytes("a\0", 2),
			 c = world_key_bytes("b", 1);

	a.hash = b.hash = c.hash = 5;
	assert_true(store_key_cmp(&a, &b) < 0 && store_key_cmp(&b, &c) < 0 &&
		    store_key_cmp(&c, &a) > 0);
	assert_int_equal(store_key_cmp(&a, &a), 0);
	c.hash = 1ull << 63;
	assert_true(store_key_cmp(&b, &c) < 0 && store_key_cmp(&c, &b) > 0);
}

static void t_wants(void **state)
{
	struct store_list l = {.after = world_key(3)};
	struct store_key k = world_key(3);

	assert_true(store_list_wants(&l, &k));
	k.hash--;
	assert_false(store_list_wants(&l, &k));
	l.has_after = true;
	assert_false(store_list_wants(&l, &k));
	k.hash++;
	assert_false(store_list_wants(&l, &k));
	l.is_inclusive = true;
	assert_true(store_list_wants(&l, &k));
}

static void t_pages(void **state)
{
	struct store_key all[NR_KEYS], page[NR_KEYS], dice[2 * NR_KEYS];
	struct rng rng;

	rng_init(&rng, unit_seed(9));
	for (uint32_t i = 0; i < NR_KEYS; i++) {
		all[i] = world_key(i);
		all[i].hash = rng_below(&rng, 30); /* some the same */
	}
	qsort(all, NR_KEYS, sizeof(all[0]), cmp);
	for (uint32_t max = 0; max <= NR_KEYS; max++) {
		struct store_list l = {.keys = page, .max = max};
		bool is_sorted = max % 2;

		for (uint32_t i = 0; i < 2 * NR_KEYS; i++)
			dice[i] = all[i / 2]; /* each twice: two tiers have it */
		for (uint32_t i = 2 * NR_KEYS; !is_sorted && i > 1; i--) {
			uint32_t j = (uint32_t)rng_below(&rng, i);
			struct store_key k = dice[j];

			dice[j] = dice[i - 1];
			dice[i - 1] = k;
		}
		for (uint32_t i = 0; i < 2 * NR_KEYS; i++)
			if (!store_list_add(&l, &dice[i]) && is_sorted)
				break;
		assert_int_equal(l.nr, max);
		assert_int_equal(l.more, max < NR_KEYS);
		assert_memory_equal(page, all, max * sizeof(all[0]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_cmp),
		cmocka_unit_test(t_wants),
		cmocka_unit_test(t_pages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
