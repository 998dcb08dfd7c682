/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces, logs and info, against the fake daemon. */
#include "t_client.h"

#include <errno.h>
#include <string.h>

static int setup(void **state)
{
	return client_setup(state, NULL);
}

static void test_info(void **state)
{
	struct client *c = *state;
	struct peal_info info;

	assert_int_equal(peal_info(c->p, &info), 0);
	assert_int_equal(info.nsid, 1);
	assert_int_equal(info.key_max, 16);
	assert_int_equal(info.value_max, PEAL_VALUE_MAX);
	assert_int_equal(info.match_max, 64);
	assert_true(info.has_lease);
	assert_string_equal(info.subsystem, "nqn.2025-01.test:fake");
	assert_true(info.capacity_bytes > 0);
}

static void test_namespaces(void **state)
{
	struct client *c = *state;
	uint32_t list[4], nsid = 0;
	struct peal_key k = peal_key_text("k");
	struct peal *other;
	struct fake *f = c->f;

	assert_int_equal(peal_ns_list(c->p, list, 4), 1);
	assert_int_equal(peal_ns_create(c->p, 1u << 30, &nsid), 0);
	assert_int_equal(nsid, 2);
	assert_int_equal(peal_ns_list(c->p, list, 1), 2); /* the count, whatever the room */
	assert_int_equal(peal_ns_resize(c->p, nsid, 2u << 30), 0);
	assert_int_equal(peal_ns_delete(c->p, 7), -EINVAL);
	assert_int_equal(peal_ns_delete(c->p, nsid), 0);
	assert_int_equal(peal_ns_list(c->p, list, 4), 1);
	assert_int_equal(peal_put(c->p, &k, "x", 1, NULL), 0);
	/* A namespace that isn't there. One client at a time: after ours. */
	peal_close(c->p);
	c->p = NULL;
	assert_int_equal(peal_open(fake_uri(f), &(struct peal_opts){.nsid = 5}, &other), -ENOENT);
	assert_non_null(strstr(peal_errmsg(), "namespace 5"));
}

static void test_log(void **state)
{
	struct client *c = *state;
	uint8_t buf[10000];

	/* The fake's pages say where their bytes are: the pieces were put together right. */
	assert_int_equal(peal_log(c->p, 2, 512, buf, sizeof(buf)), sizeof(buf));
	for (size_t i = 0; i < sizeof(buf); i++)
		assert_int_equal(buf[i], (uint8_t)(2 + (512 + i) / 256));
	assert_int_equal(peal_log(c->p, 2, 1, buf, 4), -EINVAL);
	assert_int_equal(peal_log(c->p, 2, 0, buf, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_info, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_namespaces, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_log, setup, client_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
