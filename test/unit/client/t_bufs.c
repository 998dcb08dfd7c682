/* SPDX-License-Identifier: Apache-2.0 */
/* The buffer pool: no overlap, reuse, a bound, quarantine, values larger than the pool. */
#include "t_client.h"

#include <errno.h>
#include <string.h>

#include "base/mono.h"
#include "base/rng.h"
#include "client/call.h"

#define POOL (1u << 20)
#define NR 64

struct rig {
	struct client c;
	struct bufs *b;
};

static int setup(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));

	r->c.f = fake_start(NULL);
	if (peal_open(fake_uri(r->c.f), &(struct peal_opts){.buffer_bytes = POOL}, &r->c.p) < 0)
		return -1;
	r->b = &r->c.p->conn->bufs;
	*state = r;
	return 0;
}

/* Random takes and gives; every buffer is filled with its number and must still have it. */
static void test_random(void **state)
{
	struct rig *r = *state;
	struct buf held[NR] = {0};
	struct rng rng;

	rng_init(&rng, unit_seed(42));
	for (unsigned i = 0; i < 20000; i++) {
		unsigned at = (unsigned)rng_below(&rng, NR);
		size_t bytes = 1 + rng_below(&rng, rng_below(&rng, 2) ? 100000 : 5000);

		if (held[at].ptr) {
			assert_int_equal(held[at].ptr[0], at);
			assert_int_equal(held[at].ptr[held[at].bytes - 1], at);
			bufs_put(r->b, &held[at]);
		} else if (bufs_get(r->b, bytes, &held[at], 0) == 0) {
			assert_true(held[at].bytes >= bytes && held[at].bytes < bytes + 4096);
			memset(held[at].ptr, (int)at, held[at].bytes);
		}
	}
	for (unsigned i = 0; i < NR; i++)
		if (held[i].ptr)
			bufs_put(r->b, &held[i]);
	/* All of it is free again, in one piece. */
	assert_int_equal(bufs_get(r->b, POOL, &held[0], 0), 0);
	bufs_put(r->b, &held[0]);
	assert_int_equal(r->b->taken_bytes, 0);
}

static void test_bound(void **state)
{
	struct rig *r = *state;
	struct buf a, b;

	assert_int_equal(bufs_get(r->b, POOL / 2 + 1, &a, 0), 0);
	assert_int_equal(bufs_get(r->b, POOL / 2, &b, 0), -EAGAIN);
	assert_int_equal(bufs_get(r->b, POOL / 2, &b, mono_ns() + MONO_NS_PER_MS), -ETIMEDOUT);
	/* Nothing but quarantine: no use waiting. */
	bufs_quarantine(r->b, &a);
	assert_int_equal(bufs_get(r->b, POOL / 2, &b, mono_ns() + 3600 * MONO_NS_PER_S), -EAGAIN);
	assert_int_equal(bufs_quarantined(r->b), a.bytes);
	bufs_put_late(r->b, &a);
	assert_int_equal(bufs_quarantined(r->b), 0);
	assert_int_equal(bufs_get(r->b, POOL / 2, &b, 0), 0);
	bufs_put(r->b, &b);
}

static void test_big(void **state)
{
	struct rig *r = *state;
	unsigned maps = fake_nr_maps(r->c.f);
	struct buf b[3];
	uint64_t soon = mono_ns() + 10 * MONO_NS_PER_S;

	assert_int_equal(bufs_get(r->b, 3 * POOL, &b[0], soon), 0);
	assert_int_equal(bufs_get(r->b, 3 * POOL, &b[1], soon), 0);
	assert_int_equal(fake_nr_maps(r->c.f), maps + 2);
	assert_int_equal(bufs_get(r->b, 3 * POOL, &b[2], 0), -EAGAIN);
	memset(b[1].ptr, 1, 3 * POOL);
	bufs_put(r->b, &b[0]);
	bufs_put(r->b, &b[1]);
	assert_int_equal(fake_nr_maps(r->c.f), maps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_random, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_bound, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_big, setup, client_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
