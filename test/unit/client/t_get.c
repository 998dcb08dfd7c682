/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal_get() in its ways: which commands it uses, ranges, metadata and tags, values that change or
 * go bad under it.
 */
#include "t_client.h"

#include <errno.h>
#include <string.h>

#include "nvme/nvme_kv.h"
#include "peal/vendor.h"

#define BIG (3u << 20)

static int setup(void **state)
{
	return client_setup(state, NULL);
}

static int setup_no_arena(void **state)
{
	return client_setup(state, &(struct fake_opts){.no_arena = true});
}

static void test_ways(void **state)
{
	struct client *c = *state;
	struct peal_key small = peal_key_text("small"), big = peal_key_text("big");
	struct peal_call call = {0};
	uint8_t *v = malloc(BIG), *got = malloc(BIG);

	client_fill(v, BIG, 3);
	assert_int_equal(peal_put(c->p, &small, v, 4096, NULL), 0);
	assert_int_equal(peal_put(c->p, &big, v, BIG, NULL), 0);
	assert_int_equal(peal_get(c->p, &small, got, 4096, NULL), 4096);
	assert_int_equal(fake_nr_cmds(c->f, NVME_KV_RETRIEVE), 1);
	assert_int_equal(peal_get(c->p, &small, got, 4096, &call), 4096);
	assert_int_equal(call.version, 1);
	assert_int_equal(fake_nr_cmds(c->f, PEAL_OPC_RETRIEVE_EX), 1);
	assert_int_equal(peal_get(c->p, &big, got, BIG, &call), BIG);
	assert_int_equal(call.version, 2);
	assert_memory_equal(got, v, BIG);
	assert_int_equal(fake_nr_cmds(c->f, PEAL_OPC_LEASE), 1);
	assert_int_equal(fake_nr_cmds(c->f, PEAL_OPC_RETRIEVE_EX), 1);
	/* A release isn't waited for; it is taken before what comes behind it on its queue. */
	assert_int_equal(peal_exist(c->p, &big, NULL), 0);
	assert_int_equal(fake_nr_cmds(c->f, PEAL_OPC_RELEASE), 1);
	/* The daemon has no lease to give: in pieces. */
	fake_fail_next(c->f, PEAL_OPC_LEASE, NVME_ST_INTERRUPTED);
	memset(got, 0, BIG);
	assert_int_equal(peal_get(c->p, &big, got, BIG, NULL), BIG);
	assert_memory_equal(got, v, BIG);
	assert_int_equal(fake_nr_cmds(c->f, PEAL_OPC_RETRIEVE_EX), 4);
	assert_int_equal(peal_get(c->p, &big, got, 0, NULL), -EMSGSIZE);
	free(v);
	free(got);
}

static void test_ranges(void **state)
{
	struct client *c = *state;
	struct peal_key k = peal_key_text("k");
	uint8_t *v = malloc(BIG), *got = malloc(BIG);
	static const struct {
		uint64_t offset;
		size_t room, expect;
	} cases[] = {{4096, 1000, 1000},
		     {4096, 100000, 100000},
		     {65536, 65536, 65536},
		     {61440, 200000, 200000},
		     {1u << 20, BIG, BIG - 5 - (1u << 20)},
		     {BIG - 4096, BIG, 4091},
		     {0, 70000, 70000}};

	client_fill(v, BIG, 4);
	assert_int_equal(peal_put(c->p, &k, v, BIG - 5, NULL), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct peal_call call = {.offset = cases[i].offset, .flags = PEAL_PART};

		memset(got, 0, BIG);
		assert_int_equal(peal_get(c->p, &k, got, cases[i].room, &call), cases[i].expect);
		assert_memory_equal(got, v + cases[i].offset, cases[i].expect);
		assert_int_equal(got[cases[i].expect], 0);
		assert_int_equal(call.value_bytes, BIG - 5);
	}
	for (size_t room = 100; room <= 100000; room += 99900) {
		struct peal_call whole = {.offset = 4096}, odd = {.offset = 1},
				 behind = {.offset = BIG};

		assert_int_equal(peal_get(c->p, &k, got, room, &whole), -EMSGSIZE);
		assert_int_equal(peal_get(c->p, &k, got, room, &odd), -EINVAL);
		assert_int_equal(peal_get(c->p, &k, got, room, &behind), -EINVAL);
	}
	free(v);
	free(got);
}

static void test_meta(void **state)
{
	struct client *c = *state;
	struct peal_key k = peal_key_text("k");
	struct peal_meta in = {.parent = peal_key_text("mum"),
			       .group = peal_key_text("root"),
			       .cls = 7,
			       .cost_us = 1234};
	uint8_t *v = malloc(BIG), *got = malloc(BIG), other[PEAL_TAG_BYTES] = {1};

	memset(in.tag, 0x5a, sizeof(in.tag));
	for (size_t bytes = 100; bytes <= BIG; bytes += BIG - 100) {
		struct peal_meta out = {0};
		struct peal_call put = {.meta = &in}, get = {.meta = &out, .want_tag = in.tag};
		struct peal_call wrong = {.want_tag = other};
		struct peal_stats st;

		client_fill(v, bytes, bytes);
		assert_int_equal(peal_put(c->p, &k, v, bytes, &put), 0);
		assert_int_equal(peal_get(c->p, &k, got, BIG, &get), bytes);
		assert_memory_equal(got, v, bytes);
		assert_string_equal((char *)out.parent.b, "mum");
		assert_int_equal(out.group.len, 4);
		assert_int_equal(out.cls, 7);
		assert_int_equal(out.cost_us, 1234);
		assert_memory_equal(out.tag, in.tag, sizeof(in.tag));
		assert_int_equal(peal_get(c->p, &k, got, bytes, &get), bytes);
		memset(got, 0x11, bytes);
		assert_int_equal(peal_get(c->p, &k, got, BIG, &wrong), -ENOENT);
		assert_non_null(strstr(peal_errmsg(), "tag"));
		assert_int_equal(got[0], 0x11);
		peal_stats(c->p, &st);
		assert_int_equal(st.bad_tags, bytes == 100 ? 1 : 2);
	}
	free(v);
	free(got);
}

static void test_changing(void **state)
{
	struct client *c = *state;
	struct peal_key k = peal_key_text("k");
	uint8_t *v = malloc(BIG), *got = malloc(BIG);

	client_fill(v, BIG, 5);
	assert_int_equal(peal_put(c->p, &k, v, BIG, NULL), 0);
	fake_churn(c->f, true);
	assert_int_equal(peal_get(c->p, &k, got, BIG, NULL), -ENOENT);
	fake_churn(c->f, false);
	assert_int_equal(peal_get(c->p, &k, got, BIG, NULL), BIG);
	assert_memory_equal(got, v, BIG);
	free(v);
	free(got);
}

/* A flipped bit: never these bytes, whichever way, and the client says that it caught it. */
static void test_corrupt(void **state)
{
	struct client *c = *state;
	struct peal_key k = peal_key_text("k");
	uint8_t *v = malloc(BIG), *got = malloc(BIG);
	struct peal_stats st;

	client_fill(v, BIG, 6);
	assert_int_equal(peal_put(c->p, &k, v, BIG, NULL), 0);
	fake_corrupt(c->f, "k", BIG - 1);
	assert_int_equal(peal_get(c->p, &k, got, BIG, NULL), -ENOENT);
	peal_stats(c->p, &st);
	assert_int_equal(st.bad_seals, 1);
	assert_int_equal(st.misses, 1);
	assert_int_equal(peal_get(c->p, &k, got, 4096, NULL), -ENOENT);
	free(v);
	free(got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_ways, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_ranges, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_ranges, setup_no_arena, client_teardown),
		cmocka_unit_test_setup_teardown(test_meta, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_meta, setup_no_arena, client_teardown),
		cmocka_unit_test_setup_teardown(test_changing, setup_no_arena, client_teardown),
		cmocka_unit_test_setup_teardown(test_corrupt, setup, client_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
