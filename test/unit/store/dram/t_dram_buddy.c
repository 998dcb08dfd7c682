/* SPDX-License-Identifier: Apache-2.0 */
/* dram_buddy.c: a million random allocations and frees against a byte per granule. */
#include "unit.h"

#include <string.h>

#include "base/rng.h"
#include "store/dram/dram_buddy.h"

#define LIVE_MAX 4096u

struct piece {
	uint32_t at, n;
};

struct model {
	uint8_t *taken;
	struct piece live[LIVE_MAX];
	uint32_t nr_live;
	uint64_t nr_taken;
};

static void model_take(struct model *m, uint32_t at, uint32_t n)
{
	for (uint32_t i = at; i < at + n; i++)
		assert_int_equal(m->taken[i], 0);
	memset(m->taken + at, 1, n);
	m->live[m->nr_live++] = (struct piece){at, n};
	m->nr_taken += n;
}

static void model_give(struct model *m, uint32_t at, uint32_t n)
{
	for (uint32_t i = at; i < at + n; i++)
		assert_int_equal(m->taken[i], 1);
	memset(m->taken + at, 0, n);
	m->nr_taken -= n;
}

/*
 * The longest run of free granules that is an aligned power of two: what the allocator must find.
 */
static uint32_t model_largest(const struct model *m, uint32_t nr)
{
	for (uint32_t k = 31; k-- > 0;) {
		if (1u << k > nr)
			continue;
		for (uint32_t at = 0; at + (1u << k) <= nr; at += 1u << k)
			if (!memchr(m->taken + at, 1, 1u << k))
				return 1u << k;
	}
	return 0;
}

static uint32_t random_size(struct rng *rng)
{
	uint32_t k = (uint32_t)rng_below(rng, 13);

	return 1 + (uint32_t)rng_below(rng, 1u << k);
}

static void random_alloc(struct dram_buddy *b, struct model *m, struct rng *rng)
{
	uint32_t n = random_size(rng);
	uint32_t largest = dram_buddy_largest(b);
	uint32_t at = dram_buddy_alloc(b, n);

	if (at == DRAM_BUDDY_NONE) {
		assert_true(largest < n);
		return;
	}
	assert_true(at + n <= b->nr);
	/* 4 KiB of 64-byte granules: on a page. */
	if (n >= 64)
		assert_int_equal(at % 64, 0);
	model_take(m, at, n);
}

/* A whole piece, or its middle, which leaves two. */
static void random_free(struct dram_buddy *b, struct model *m, struct rng *rng)
{
	uint32_t i = (uint32_t)rng_below(rng, m->nr_live);
	struct piece p = m->live[i], cut = p;

	m->live[i] = m->live[--m->nr_live];
	if (p.n > 2 && m->nr_live + 2 < LIVE_MAX && rng_chance(rng, 1, 8)) {
		cut.at += 1 + (uint32_t)rng_below(rng, p.n - 2);
		cut.n = 1 + (uint32_t)rng_below(rng, p.at + p.n - cut.at - 1);
		m->live[m->nr_live++] = (struct piece){p.at, cut.at - p.at};
		m->live[m->nr_live++] = (struct piece){cut.at + cut.n, p.at + p.n - cut.at - cut.n};
	}
	model_give(m, cut.at, cut.n);
	dram_buddy_free(b, cut.at, cut.n);
}

static void random_run(uint32_t nr, uint32_t steps, struct rng *rng)
{
	struct model m = {.taken = calloc(1, nr)};
	struct dram_buddy b;

	assert_non_null(m.taken);
	assert_int_equal(dram_buddy_init(&b, nr), 0);
	for (uint32_t i = 0; i < steps; i++) {
		/* Phases that fill and phases that empty. */
		uint64_t num = i / 20000 % 2 ? 2 : 3;

		if (m.nr_live + 4 < LIVE_MAX && (!m.nr_live || rng_chance(rng, num, 5)))
			random_alloc(&b, &m, rng);
		else
			random_free(&b, &m, rng);
		assert_int_equal(b.nr_free, nr - m.nr_taken);
		if (i % 5000 == 0)
			assert_int_equal(dram_buddy_largest(&b), model_largest(&m, nr));
	}
	while (m.nr_live) {
		m.nr_live--;
		dram_buddy_free(&b, m.live[m.nr_live].at, m.live[m.nr_live].n);
	}
	/* Everything has merged again: as few blocks as nr has bits. */
	assert_int_equal(b.orders, nr);
	for (uint32_t k = 0; k < DRAM_BUDDY_ORDERS; k++)
		assert_int_equal(b.nr_blocks[k], nr >> k & 1);
	dram_buddy_fini(&b);
	free(m.taken);
}

static void t_model(void **state)
{
	struct rng rng;

	rng_init(&rng, unit_seed(3));
	random_run(1u << 17, 600000, &rng);
	random_run(100003, 300000, &rng);
	random_run(777, 100000, &rng);
	random_run(1, 1000, &rng);
}

static void t_exact(void **state)
{
	struct dram_buddy b;
	uint32_t at;

	assert_int_equal(dram_buddy_init(&b, 1024), 0);
	/* 600 of 1024: the tail of 424 is free at once. */
	at = dram_buddy_alloc(&b, 600);
	assert_int_equal(at, 0);
	assert_int_equal(b.nr_free, 424);
	assert_int_equal(dram_buddy_largest(&b), 256);
	assert_int_equal(dram_buddy_alloc(&b, 257), DRAM_BUDDY_NONE);
	at = dram_buddy_alloc(&b, 256);
	assert_int_equal(at, 768);
	assert_int_equal(dram_buddy_alloc(&b, 128), 640);
	assert_int_equal(b.nr_free, 40);
	dram_buddy_free(&b, 0, 896);
	assert_int_equal(b.nr_free, 936);
	dram_buddy_fini(&b);
}

/*
 * A whole 1 GiB segment of 64-byte granules: metadata is 0.41 %, and hardly any of it is touched.
 */
static void t_large(void **state)
{
	struct dram_buddy b;
	uint32_t nr = 1u << 24;

	assert_true(dram_buddy_bytes(nr) < (1u << 30) / 1000 * 42 / 10);
	assert_int_equal(dram_buddy_init(&b, nr), 0);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(dram_buddy_alloc(&b, 1u << 21), i << 21);
	assert_int_equal(dram_buddy_alloc(&b, 1), DRAM_BUDDY_NONE);
	dram_buddy_free(&b, 0, nr);
	assert_int_equal(dram_buddy_largest(&b), nr);
	dram_buddy_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_model),
		cmocka_unit_test(t_exact),
		cmocka_unit_test(t_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
