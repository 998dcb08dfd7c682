/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simple calls (put, del, exist, flush) and what they have in common, against the fake daemon:
 * results, error texts, options, sizes, PRP and SGL.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "fake_peald.h"
#include "nvme/nvme_kv.h"
#include "peal/peal.h"
#include "t_client.h"

static void test_put_get_del(void **state)
{
	struct client *c = *state;
	struct peal_key k = peal_key_text("hello");
	char buf[64];

	assert_int_equal(peal_get(c->p, &k, buf, sizeof(buf), NULL), -ENOENT);
	assert_int_equal(peal_exist(c->p, &k, NULL), -ENOENT);
	assert_int_equal(peal_put(c->p, &k, "world", 5, NULL), 0);
	assert_int_equal(peal_exist(c->p, &k, NULL), 0);
	assert_int_equal(peal_get(c->p, &k, buf, sizeof(buf), NULL), 5);
	assert_memory_equal(buf, "world", 5);
	assert_int_equal(peal_del(c->p, &k, NULL), 0);
	assert_int_equal(peal_del(c->p, &k, NULL), -ENOENT);
	assert_non_null(strstr(peal_errmsg(), "'hello'"));
	assert_int_equal(peal_get(c->p, &k, buf, sizeof(buf), NULL), -ENOENT);
	assert_int_equal(peal_flush(c->p, NULL), 0);
}

static void test_options(void **state)
{
	struct client *c = *state;
	struct peal_key k = peal_key_text("opt");
	struct peal_call absent = {.flags = PEAL_IF_ABSENT};
	struct peal_call present = {.flags = PEAL_IF_PRESENT};
	struct peal_call both = {.flags = PEAL_IF_PRESENT | PEAL_IF_ABSENT};
	struct peal_call size = {0};

	assert_int_equal(peal_put(c->p, &k, "a", 1, &present), -ENOENT);
	assert_int_equal(peal_put(c->p, &k, "a", 1, &absent), 0);
	assert_int_equal(peal_put(c->p, &k, "b", 1, &absent), -EEXIST);
	assert_int_equal(peal_put(c->p, &k, "bc", 2, &present), 0);
	assert_int_equal(peal_put(c->p, &k, "b", 1, &both), -EINVAL);
	assert_int_equal(peal_exist(c->p, &k, &size), 0);
	assert_true(size.version > 0);
	assert_int_equal(size.value_bytes, 2);
}

static void test_arguments(void **state)
{
	struct client *c = *state;
	struct peal_key none = {0}, k = peal_key_text("k");
	char b = 0;

	assert_int_equal(peal_put(c->p, &none, "x", 1, NULL), -EINVAL);
	assert_non_null(strstr(peal_errmsg(), "expected 1 to 16"));
	assert_int_equal(peal_put(c->p, NULL, "x", 1, NULL), -EINVAL);
	assert_int_equal(peal_put(c->p, &k, "x", 0, NULL), -EINVAL);
	assert_int_equal(peal_put(c->p, &k, &b, PEAL_VALUE_MAX + 1ul, NULL), -EFBIG);
	assert_non_null(strstr(peal_errmsg(), "134217728"));
	assert_int_equal(peal_del(c->p, NULL, NULL), -EINVAL);
	assert_int_equal(peal_exist(c->p, &none, NULL), -EINVAL);
	assert_int_equal(peal_key_hex("12").len, 0);
	assert_int_equal(peal_key_text("seventeen bytes !").len, 0);
	assert_int_equal(peal_key_bytes("\0\1", 2).len, 2);
}

static void test_statuses(void **state)
{
	struct client *c = *state;
	struct peal_key k = peal_key_text("st");
	static const struct {
		uint16_t status;
		int err;
	} cases[] = {
		{NVME_ST_CAPACITY_EXCEEDED, -ENOSPC},
		{NVME_ST_INVALID_VALUE_SIZE, -EFBIG},
		{NVME_ST_UNRECOVERED, -ENOENT},
		{NVME_ST_NS_WRITE_PROTECTED, -EACCES},
		{NVME_ST_INTERNAL, -EIO},
		{NVME_ST_INTERRUPTED | NVME_ST_DNR, -EAGAIN},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake_fail_next(c->f, NVME_KV_STORE, cases[i].status);
		assert_int_equal(peal_put(c->p, &k, "x", 1, NULL), cases[i].err);
	}
	assert_int_equal(peal_put(c->p, &k, "x", 1, NULL), 0);
}

/* Every size class: within a page, two pages, a list, larger than a chunk, larger than a piece. */
static void test_sizes(void **state)
{
	static const size_t sizes[] = {1,      4095,	 4096,		 4097,
				       8192,   65535,	 65536,		 65537,
				       300000, 1u << 20, (1u << 20) + 1, (2u << 20) - 5};
	struct client *c = *state;
	uint8_t *v = malloc(2u << 20), *got = malloc(2u << 20);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct peal_key k = peal_key_bytes(&sizes[i], sizeof(sizes[i]));
		struct peal_call call = {0};

		client_fill(v, sizes[i], i);
		assert_int_equal(peal_put(c->p, &k, v, sizes[i], NULL), 0);
		memset(got, 0, sizes[i]);
		assert_int_equal(peal_get(c->p, &k, got, 2u << 20, NULL), sizes[i]);
		assert_memory_equal(got, v, sizes[i]);
		memset(got, 0, sizes[i]);
		assert_int_equal(peal_get(c->p, &k, got, sizes[i], &call), sizes[i]);
		assert_memory_equal(got, v, sizes[i]);
		assert_int_equal(call.value_bytes, sizes[i]);
		if (sizes[i] > 1) {
			assert_int_equal(peal_get(c->p, &k, got, sizes[i] - 1, &call), -EMSGSIZE);
			assert_int_equal(call.value_bytes, sizes[i]);
			assert_int_equal(peal_get(c->p, &k, got, sizes[i] - 1, NULL), -EMSGSIZE);
		}
	}
	free(v);
	free(got);
}

static int setup(void **state)
{
	return client_setup(state, NULL);
}

static int setup_prp(void **state)
{
	return client_setup(state, &(struct fake_opts){.no_sgl = true, .no_arena = true});
}

static int setup_stranger(void **state)
{
	return client_setup(
		state, &(struct fake_opts){.no_vendor = true, .no_arena = true, .no_stride = true});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_put_get_del, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_options, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_arguments, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_statuses, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_sizes, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_sizes, setup_prp, client_teardown),
		cmocka_unit_test_setup_teardown(test_sizes, setup_stranger, client_teardown),
		cmocka_unit_test_setup_teardown(test_put_get_del, setup_stranger, client_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
