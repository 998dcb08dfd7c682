/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: what they say, parts of chunks, chunks across extents, bytes that change under them. */
#include "t_client.h"

#include <errno.h>
#include <string.h>

#include "base/rng.h"
#include "peal/seal.h"
#include "peal/vendor.h"

#define BYTES 300000u

static int setup(void **state)
{
	return client_setup(state, NULL);
}

static int setup_no_arena(void **state)
{
	return client_setup(state, &(struct fake_opts){.no_arena = true});
}

static void test_read(void **state)
{
	struct client *c = *state;
	struct peal_key k = peal_key_text("k"), other = peal_key_text("other");
	uint8_t *v = malloc(BYTES), *got = malloc(BYTES);
	struct peal_lease *l;
	struct rng rng;

	client_fill(v, BYTES, 1);
	assert_int_equal(peal_put(c->p, &k, v, BYTES, NULL), 0);
	assert_int_equal(peal_lease(c->p, &other, 1000, &l), -ENOENT);
	assert_int_equal(peal_lease(c->p, &k, 1000, &l), 0);
	assert_int_equal(l->value_bytes, BYTES);
	assert_int_equal(l->nr_ext, 2); /* the fake cuts inside a chunk */
	assert_int_equal(l->nr_seals, 5);
	assert_memory_equal(l->ext[0].ptr, v, l->ext[0].bytes);
	assert_memory_equal(l->ext[1].ptr, v + l->ext[0].bytes, l->ext[1].bytes);
	assert_int_equal(l->seals[0], peal_seal(v, 65536, peal_seal_seed(k.b, k.len, 0)));
	assert_int_equal(peal_lease_read(c->p, l, 0, got, BYTES), BYTES);
	assert_memory_equal(got, v, BYTES);
	rng_init(&rng, unit_seed(7));
	for (unsigned i = 0; i < 300; i++) {
		size_t off = rng_below(&rng, BYTES), n = 1 + rng_below(&rng, BYTES);
		size_t expect = n < BYTES - off ? n : BYTES - off;

		memset(got, 0, BYTES);
		assert_int_equal(peal_lease_read(c->p, l, off, got, n), expect);
		assert_memory_equal(got, v + off, expect);
	}
	assert_int_equal(peal_lease_read(c->p, l, BYTES, got, 1), 0);
	assert_int_equal(peal_release(c->p, l), 0);
	free(v);
	free(got);
}

/* The daemon stops between the lease and its segment: that is said, and no release waited for. */
static void test_unmapped(void **state)
{
	struct client *c = *state;
	struct peal_key k = peal_key_text("k");
	struct peal_call call = {.timeout_ms = 50};
	uint8_t *v = malloc(BYTES), *got = malloc(BYTES);

	client_fill(v, BYTES, 1);
	assert_int_equal(peal_put(c->p, &k, v, BYTES, NULL), 0);
	fake_after(c->f, PEAL_OPC_LEASE, 1, false);
	assert_int_equal(peal_get(c->p, &k, got, BYTES, &call), -ETIMEDOUT);
	assert_non_null(strstr(peal_errmsg(), "region info"));
	fake_pause(c->f, false);
	assert_int_equal(peal_get(c->p, &k, got, BYTES, NULL), BYTES);
	assert_memory_equal(got, v, BYTES);
	assert_int_equal(peal_exist(c->p, &k, NULL), 0); /* all before it is run */
	assert_int_equal(fake_nr_cmds(c->f, PEAL_OPC_RELEASE), 2);
	free(v);
	free(got);
}

static void test_corrupt(void **state)
{
	struct client *c = *state;
	struct peal_key k = peal_key_text("k");
	uint8_t *v = calloc(1, BYTES), *got = malloc(BYTES);
	struct peal_lease *l;
	struct peal_stats st;

	assert_int_equal(peal_put(c->p, &k, v, BYTES, NULL), 0);
	assert_int_equal(peal_lease(c->p, &k, 1000, &l), 0);
	fake_corrupt(c->f, "k", 100001); /* chunk 1, the one across the extents */
	assert_int_equal(peal_lease_read(c->p, l, 0, got, 65536), 65536);
	assert_int_equal(peal_lease_read(c->p, l, 65536, got, 65536), -EILSEQ);
	assert_int_equal(peal_lease_read(c->p, l, 70000, got, 1), -EILSEQ);
	assert_int_equal(peal_lease_read(c->p, l, 2 * 65536, got, BYTES), BYTES - 2 * 65536);
	peal_stats(c->p, &st);
	assert_int_equal(st.bad_seals, 2);
	assert_int_equal(peal_release(c->p, l), 0);
	free(v);
	free(got);
}

/* The lease outlives the daemon: its memory stays mapped, its bytes stay checked. */
static void test_daemon_gone(void **state)
{
	struct client *c = *state;
	struct peal_key k = peal_key_text("k");
	uint8_t v[100] = {9}, got[100];
	struct peal_lease *l;

	assert_int_equal(peal_put(c->p, &k, v, sizeof(v), NULL), 0);
	assert_int_equal(peal_lease(c->p, &k, 1000, &l), 0);
	fake_stop(c->f);
	c->f = fake_start(NULL); /* somewhere else: for the teardown */
	assert_int_equal(peal_lease_read(c->p, l, 0, got, sizeof(got)), sizeof(got));
	assert_memory_equal(got, v, sizeof(v));
	assert_int_equal(peal_release(c->p, l), 0);
}

/*
 * Nobody waits for a release: a daemon that is stopped holds up none, until 16 are unanswered. When
 * it goes on, all of them reach it.
 */
static void test_release_stopped(void **state)
{
	struct client *c = *state;
	struct peal_key k = peal_key_text("k");
	struct peal_lease *l[20];
	unsigned nr = 0;

	assert_int_equal(peal_put(c->p, &k, "x", 1, NULL), 0);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(peal_lease(c->p, &k, 1000, &l[i]), 0);
	for (; nr < 3; nr++)
		assert_int_equal(peal_release(c->p, l[nr]), 0);
	assert_int_equal(peal_exist(c->p, &k, NULL), 0);
	assert_int_equal(fake_nr_cmds(c->f, PEAL_OPC_RELEASE), 3);
	fake_pause(c->f, true);
	for (; nr < 3 + 16; nr++)
		assert_int_equal(peal_release(c->p, l[nr]), 0);
	assert_int_equal(fake_nr_cmds(c->f, PEAL_OPC_RELEASE), 3);
	assert_int_equal(peal_release(c->p, l[nr]), -ETIMEDOUT);
	fake_pause(c->f, false);
	assert_int_equal(peal_exist(c->p, &k, NULL), 0);
	assert_int_equal(fake_nr_cmds(c->f, PEAL_OPC_RELEASE), 20);
}

static void test_none(void **state)
{
	struct client *c = *state;
	struct peal_key k = peal_key_text("k");
	struct peal_info info;
	struct peal_lease *l;

	assert_int_equal(peal_put(c->p, &k, "x", 1, NULL), 0);
	assert_int_equal(peal_lease(c->p, &k, 1000, &l), -EOPNOTSUPP);
	assert_int_equal(peal_info(c->p, &info), 0);
	assert_false(info.has_lease);
	assert_int_equal(peal_release(c->p, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_read, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_unmapped, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_corrupt, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_daemon_gone, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_release_stopped, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_none, setup_no_arena, client_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
