/* SPDX-License-Identifier: Apache-2.0 */
/* peal_match(): leading keys over several commands, and the count where the chain breaks. */
#include "t_client.h"

#include <errno.h>

#include "peal/vendor.h"

#define NR 150 /* the fake takes 64 in a command */

static int setup(void **state)
{
	return client_setup(state, NULL);
}

static int setup_stranger(void **state)
{
	return client_setup(state, &(struct fake_opts){.no_vendor = true});
}

static void test_match(void **state)
{
	static const unsigned breaks[] = {127, 64, 63, 1, 0};
	struct client *c = *state;
	struct peal_key keys[NR];
	size_t in_memory = 99;

	for (uint32_t i = 0; i < NR; i++)
		keys[i] = peal_key_bytes(&i, sizeof(i));
	assert_int_equal(peal_match(c->p, keys, NR, &in_memory, NULL), 0);
	assert_int_equal(in_memory, 0);
	for (uint32_t i = 0; i < NR; i++)
		assert_int_equal(peal_put(c->p, &keys[i], "x", 1, NULL), 0);
	assert_int_equal(peal_match(c->p, keys, NR, &in_memory, NULL), NR);
	assert_int_equal(in_memory, NR);
	assert_int_equal(fake_nr_cmds(c->f, PEAL_OPC_MATCH), 1 + 3);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(peal_del(c->p, &keys[breaks[i]], NULL), 0);
		assert_int_equal(peal_match(c->p, keys, NR, NULL, NULL), breaks[i]);
	}
	assert_int_equal(peal_match(c->p, keys, 0, &in_memory, NULL), 0);
	keys[3].len = 17;
	assert_int_equal(peal_match(c->p, keys, NR, NULL, NULL), -EINVAL);
	assert_int_equal(peal_match(c->p, NULL, 1, NULL, NULL), -EINVAL);
}

static void test_stranger(void **state)
{
	struct client *c = *state;
	struct peal_key k = peal_key_text("k");

	assert_int_equal(peal_match(c->p, &k, 1, NULL, NULL), -EOPNOTSUPP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_match, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_stranger, setup_stranger, client_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
