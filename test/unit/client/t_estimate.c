/* SPDX-License-Identifier: Apache-2.0 */
/* peal_estimate(): means that follow what gets took, sums over a chain, guesses that say so. */
#include "t_client.h"

#include <errno.h>

#include "client/estimate.h"

static int setup(void **state)
{
	return client_setup(state, NULL);
}

static void test_mean(void **state)
{
	_Atomic uint64_t ns = 0;

	estimate_add(&ns, 0, 5);
	assert_int_equal(ns, 0);
	estimate_add(&ns, 2u << 20, 2000000);
	assert_int_equal(ns, 1000000);
	for (unsigned i = 0; i < 8; i++)
		estimate_add(&ns, 1u << 20, 3000000);
	assert_in_range(ns, 1900000, 2100000);
	for (unsigned i = 0; i < 200; i++)
		estimate_add(&ns, 1u << 20, 3000000);
	assert_in_range(ns, 2990000, 3000000);
	estimate_add(&ns, 128u << 20, 1);
	assert_true(ns > 0);
}

static void test_chain(void **state)
{
	static uint8_t value[200000], back[200000];
	struct client *c = *state;
	struct peal_estimate e, was;
	struct peal_key keys[4];

	for (uint32_t i = 0; i < 4; i++)
		keys[i] = peal_key_bytes(&i, sizeof(i));
	assert_int_equal(peal_estimate(c->p, keys, 4, sizeof(value), &e), 0);
	assert_int_equal(e.present, 0);
	assert_int_equal(e.load_us, 0);
	assert_true(e.is_measured); /* nothing counts, so nothing is guessed */
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(peal_put(c->p, &keys[i], value, sizeof(value), NULL), 0);
	assert_int_equal(peal_estimate(c->p, keys, 4, 4000000, &e), 0);
	assert_int_equal(e.present, 3);
	assert_int_equal(e.in_memory, 3);
	assert_false(e.is_measured);
	assert_in_range(e.memory_bytes_per_s, 3999000000, 4001000000);
	assert_in_range(e.load_us, 2998, 3002);
	assert_int_equal(peal_get(c->p, &keys[0], back, sizeof(back), NULL), sizeof(back));
	assert_int_equal(peal_estimate(c->p, keys, 4, 4000000, &e), 0);
	assert_true(e.is_measured);
	assert_true(e.memory_bytes_per_s > 0);
	assert_int_equal(e.load_us, e.memory_us);

	was = e;
	assert_int_equal(peal_estimate(c->p, keys, 4, 0, &e), -EINVAL);
	assert_int_equal(peal_estimate(c->p, keys, 4, 1ull << 40, &e), -EINVAL);
	keys[0].len = 0;
	assert_int_equal(peal_estimate(c->p, keys, 4, 1, &e), -EINVAL);
	assert_memory_equal(&e, &was, sizeof(e));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mean),
		cmocka_unit_test_setup_teardown(test_chain, setup, client_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
