/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer's iterator that has nothing now: the transfer rests, costs no turns, goes on when its
 * owner says so; and what the iterator hears of bytes that are there and right. Values and runs are
 * cut anywhere. One thread, a virtual clock.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/must.h"
#include "base/rng.h"
#include "core/env_sim.h"
#include "mem/mem_iter.h"
#include "peal/seal.h"

#define VALUE_MAX 400000u
#define CHUNKS (VALUE_MAX / MEM_CHUNK_BYTES + 2)

static struct {
	struct reactor *r;
	struct mem_engine *e;
	struct mem_region *own, *theirs;
	uint8_t value[VALUE_MAX], peer[VALUE_MAX], seen[VALUE_MAX];
	uint64_t seals[CHUNKS];
	struct rng rng;
} t;

/* Gives runs of up to `cut` bytes, with pauses. */
struct slow {
	struct mem_iter it;
	uint64_t off, at, filled, first;
	uint32_t cut;
	bool is_resting;
	int err; /* instead of going on */
	unsigned nr_rests;
};

static int slow_next(struct mem_iter *it, uint64_t max, struct mem_run *run)
{
	struct slow *s = container_of(it, struct slow, it);

	/* Of a chunk it has all or nothing. */
	if (!s->is_resting && (s->off + s->at) % MEM_CHUNK_BYTES == s->first &&
	    rng_chance(&t.rng, 1, 2)) {
		s->is_resting = true;
		s->nr_rests++;
		return -EAGAIN;
	}
	if (s->err)
		return s->err;
	s->is_resting = false;
	s->first = 0; /* behind the first, which may begin anywhere */
	run->reg = t.theirs;
	run->off = s->at;
	run->len = min_t(uint64_t, max, 1 + rng_below(&t.rng, s->cut));
	s->at += run->len;
	return 0;
}

static void slow_filled(struct mem_iter *it, uint64_t bytes)
{
	struct slow *s = container_of(it, struct slow, it);

	/* What is there when it is said, not later. */
	memcpy(t.seen + s->filled, t.peer + s->filled, bytes);
	s->filled += bytes;
	assert_true(s->filled <= s->at);
}

struct xfer {
	struct mem_xfer x;
	struct mem_iter_runs value;
	struct mem_run run;
	struct slow peer;
	unsigned nr_ends;
	int res;
};

static void xfer_end(struct mem_xfer *x, int res)
{
	struct xfer *xf = container_of(x, struct xfer, x);

	xf->nr_ends++;
	xf->res = res;
}

static void start(struct xfer *xf, enum mem_xfer_dir dir, uint64_t off, uint64_t len,
		  uint64_t value_len)
{
	uint64_t from = dir == MEM_TO_PEER ? align_down(off, (uint64_t)MEM_CHUNK_BYTES) : off;

	memset(xf, 0, sizeof(*xf));
	xf->run = (struct mem_run){t.own, from, value_len - from};
	mem_iter_runs_init(&xf->value, &xf->run, 1);
	xf->peer = (struct slow){
		.it = {.next = slow_next, .filled = slow_filled, .is_by_chunk = true},
		.off = off,
		.first = off % MEM_CHUNK_BYTES,
		.cut = rng_chance(&t.rng, 1, 2) ? 5000 : 300000,
	};
	xf->x = (struct mem_xfer){
		.dir = dir,
		.key_len = 16,
		.check = true,
		.key_hash = 42,
		.off = off,
		.len = len,
		.value_len = value_len,
		.value = &xf->value.it,
		.peer = &xf->peer.it,
		.seals = t.seals + from / MEM_CHUNK_BYTES,
		.end = xfer_end,
	};
	mem_xfer_submit(t.e, &xf->x);
}

static void run(struct xfer *xf)
{
	for (unsigned i = 0; i < 1000000 && !xf->nr_ends; i++) {
		reactor_step(t.r);
		if (!xf->nr_ends && xf->peer.is_resting) {
			/* Resting it isn't looked at. */
			assert_int_equal(reactor_step(t.r), 0);
			mem_iter_more(t.e, &xf->peer.it);
		}
	}
	assert_int_equal(xf->nr_ends, 1);
}

static void seal_all(uint64_t len)
{
	for (uint64_t at = 0; at < len; at += MEM_CHUNK_BYTES)
		t.seals[at / MEM_CHUNK_BYTES] =
			hash_xxh3(t.value + at, min_t(uint64_t, len - at, MEM_CHUNK_BYTES),
				  peal_seal_seed_at(42, at / MEM_CHUNK_BYTES));
}

static void test_to_peer(void **state)
{
	unsigned nr_rests = 0;

	for (unsigned i = 0; i < 400; i++) {
		uint64_t value_len = 1 + rng_below(&t.rng, VALUE_MAX);
		uint64_t off = rng_below(&t.rng, value_len);
		uint64_t len = 1 + rng_below(&t.rng, value_len - off);
		static struct xfer xf;

		rng_fill(&t.rng, t.value, value_len);
		memset(t.seen, 0, sizeof(t.seen));
		seal_all(value_len);
		start(&xf, MEM_TO_PEER, off, len, value_len);
		run(&xf);
		assert_int_equal(xf.res, 0);
		assert_int_equal(xf.peer.at, len);
		assert_int_equal(xf.peer.filled, len);
		assert_memory_equal(t.seen, t.value + off, len);
		nr_rests += xf.peer.nr_rests;
	}
	assert_true(nr_rests > 100);
}

/* Of a chunk that is wrong nothing is said to be there, nor of any behind it. */
static void test_bad(void **state)
{
	for (unsigned i = 0; i < 200; i++) {
		uint64_t value_len = 1 + rng_below(&t.rng, VALUE_MAX);
		uint64_t bad = rng_below(&t.rng, value_len);
		static struct xfer xf;

		rng_fill(&t.rng, t.value, value_len);
		seal_all(value_len);
		t.value[bad] ^= 1;
		start(&xf, MEM_TO_PEER, 0, value_len, value_len);
		run(&xf);
		assert_int_equal(xf.res, -EILSEQ);
		assert_int_equal(xf.peer.filled, align_down(bad, (uint64_t)MEM_CHUNK_BYTES));
	}
}

static void test_from_peer(void **state)
{
	for (unsigned i = 0; i < 400; i++) {
		uint64_t len = 1 + rng_below(&t.rng, VALUE_MAX);
		static struct xfer xf;
		uint64_t seal;

		rng_fill(&t.rng, t.peer, len);
		start(&xf, MEM_FROM_PEER, 0, len, len);
		run(&xf);
		assert_int_equal(xf.res, 0);
		assert_int_equal(xf.peer.filled, 0);
		assert_memory_equal(t.value, t.peer, len);
		seal = hash_xxh3(t.value, min_t(uint64_t, len, MEM_CHUNK_BYTES),
				 peal_seal_seed_at(42, 0));
		assert_int_equal(t.seals[0], seal);
	}
}

/* Nothing will ever come: it ends with what the iterator says then. */
static void test_gone(void **state)
{
	for (unsigned i = 0; i < 200; i++) {
		static struct xfer xf;

		start(&xf, MEM_FROM_PEER, 0, VALUE_MAX, VALUE_MAX);
		while (!xf.peer.is_resting && !xf.nr_ends)
			reactor_step(t.r);
		if (xf.nr_ends) /* it never had to */
			continue;
		xf.peer.err = -ECANCELED;
		run(&xf);
		assert_int_equal(xf.res, -ECANCELED);
	}
}

/* Telling somebody who doesn't rest is nothing. */
static void test_more_in_vain(void **state)
{
	static struct xfer xf;

	start(&xf, MEM_FROM_PEER, 0, 1000, 1000);
	if (!xf.peer.it.starved)
		mem_iter_more(t.e, &xf.peer.it);
	run(&xf);
	mem_iter_more(t.e, &xf.peer.it);
	assert_int_equal(xf.res, 0);
}

static int setup(void **state)
{
	struct reactor_opts o = {.nr_peers = 1, .cpu = -1};

	rng_init(&t.rng, unit_seed(1));
	o.env = env_sim_create(&(struct env_sim_opts){.seed = 1});
	t.r = reactor_create(&o);
	t.e = mem_engine_create(t.r);
	t.own = mem_host_wrap(t.value, sizeof(t.value), MEM_READABLE | MEM_WRITABLE);
	t.theirs = mem_host_wrap(t.peer, sizeof(t.peer), MEM_READABLE | MEM_WRITABLE);
	return 0;
}

static int teardown(void **state)
{
	mem_region_put(t.own);
	mem_region_put(t.theirs);
	mem_engine_destroy(t.e);
	reactor_destroy(t.r);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_to_peer),	     cmocka_unit_test(test_bad),
		cmocka_unit_test(test_from_peer),    cmocka_unit_test(test_gone),
		cmocka_unit_test(test_more_in_vain),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
