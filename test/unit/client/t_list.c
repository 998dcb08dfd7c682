/* SPDX-License-Identifier: Apache-2.0 */
/* peal_list(): every key once, in pages of any size, and the start key not again. */
#include "t_client.h"

#include <errno.h>
#include <string.h>

#define NR 250 /* more than one reply of the fake's */

static int setup(void **state)
{
	return client_setup(state, NULL);
}

static void test_list(void **state)
{
	struct client *c = *state;
	struct peal_key keys[NR + 1], last = {0}, none = {0};
	bool seen[NR];

	assert_int_equal(peal_list(c->p, NULL, keys, NR, NULL), 0);
	for (unsigned i = 0; i < NR; i++) {
		char name[8];

		snprintf(name, sizeof(name), "k%u", i);
		keys[0] = peal_key_text(name);
		assert_int_equal(peal_put(c->p, &keys[0], "x", 1, NULL), 0);
	}
	for (size_t max = 1; max <= NR + 1; max = max * 3 + 1) {
		size_t total = 0;
		ssize_t n;

		memset(seen, 0, sizeof(seen));
		while ((n = peal_list(c->p, total ? &last : NULL, keys, max, NULL)) > 0) {
			assert_true((size_t)n <= max);
			for (ssize_t i = 0; i < n; i++) {
				unsigned id = (unsigned)atoi((char *)keys[i].b + 1);

				assert_false(seen[id]);
				seen[id] = true;
			}
			total += (size_t)n;
			last = keys[n - 1];
		}
		assert_int_equal(n, 0);
		assert_int_equal(total, NR);
	}
	assert_int_equal(peal_list(c->p, &none, keys, 1, NULL), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_list, setup, client_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
