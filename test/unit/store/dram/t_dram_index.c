/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dram_index.c: look-ups and pages of a listing against a sorted array, in every shard of sets of
 * several sizes.
 */
#include "unit.h"

#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "store/dram/dram_index.h"

#define NR_KEYS 3000u

struct model {
	struct store_key at[NR_KEYS]; /* sorted */
	uint32_t nr;
};

static struct store_key make_key(uint32_t no)
{
	struct store_key k = {.len = (uint8_t)(4 + no % 13)};

	memcpy(k.b, &no, 4);
	k.hash = hash_key(k.b, k.len);
	return k;
}

static uint32_t model_slot(const struct model *m, const struct store_key *k)
{
	uint32_t i = 0;

	while (i < m->nr && store_key_cmp(&m->at[i], k) < 0)
		i++;
	return i;
}

static void toggle(struct dram_index *ix, struct model *m, const struct store_key *k)
{
	struct dram_entry *e = dram_index_find(ix, k);
	uint32_t at = model_slot(m, k);
	bool is_there = at < m->nr && store_key_equal(&m->at[at], k);

	assert_int_equal(e != NULL, is_there);
	if (e) {
		dram_index_unlink(ix, e);
		dram_index_put(ix, e);
		memmove(&m->at[at], &m->at[at + 1], (m->nr-- - at - 1) * sizeof(*k));
		return;
	}
	e = dram_index_get(ix);
	assert_non_null(e);
	e->key[0] = k->w[0];
	e->key[1] = k->w[1];
	e->key_len = k->len;
	dram_index_link(ix, e, k->hash);
	memmove(&m->at[at + 1], &m->at[at], (m->nr++ - at) * sizeof(*k));
	m->at[at] = *k;
	assert_ptr_equal(dram_index_find(ix, k), e);
}

/* A page that starts anywhere is what the model has there. */
static void check_page(struct dram_index *ix, const struct model *m, struct rng *rng)
{
	struct store_list l = {.has_after = rng_chance(rng, 1, 2),
			       .is_inclusive = rng_chance(rng, 1, 2)};
	struct dram_cursor c;
	const struct store_key *k;
	uint32_t at = 0, page = (uint32_t)rng_below(rng, 40);

	if (m->nr && rng_chance(rng, 1, 2))
		l.after = m->at[rng_below(rng, m->nr)];
	else
		l.after.hash = rng_u64(rng);
	while (at < m->nr && !store_list_wants(&l, &m->at[at]))
		at++;
	dram_index_cursor_init(&c, ix, &l);
	for (; page; page--, at++) {
		k = dram_index_cursor_next(&c);
		assert_int_equal(k != NULL, at < m->nr);
		if (!k)
			return;
		assert_int_equal(store_key_cmp(k, &m->at[at]), 0);
	}
}

/* Many at once are what each is by itself. */
static void check_look(const struct dram_index *ix, struct rng *rng)
{
	struct store_key key[STORE_LOOK_MAX];
	const struct store_key *ptr[STORE_LOOK_MAX];
	uint32_t no[STORE_LOOK_MAX], nr = 1 + (uint32_t)rng_below(rng, STORE_LOOK_MAX);
	const struct dram_entry *e;
	uint64_t here;

	for (uint32_t i = 0; i < nr; i++) {
		key[i] = make_key((uint32_t)rng_below(rng, NR_KEYS));
		ptr[i] = &key[i];
	}
	here = dram_index_look(ix, ptr, nr, no);
	for (uint32_t i = 0; i < nr; i++) {
		e = dram_index_find(ix, &key[i]);
		assert_int_equal(no[i], e ? dram_index_no(ix, e) : 0);
		assert_int_equal(here >> i & 1, e != NULL);
	}
	if (nr < 64)
		assert_int_equal(here >> nr, 0);
}

static void one_shard(uint32_t nr_shards, uint32_t shard, uint32_t nr_max, struct rng *rng)
{
	static struct model m;
	struct dram_index ix;
	struct store_key k;

	m.nr = 0;
	assert_int_equal(dram_index_init(&ix, nr_max), 0);
	ix.nr_shards = nr_shards;
	ix.shard = shard;
	for (uint32_t i = 0; i < 6000; i++) {
		k = make_key((uint32_t)rng_below(rng, NR_KEYS));
		if (store_shard_of(k.hash, nr_shards) != shard)
			continue;
		toggle(&ix, &m, &k);
		assert_int_equal(ix.nr_linked, m.nr);
		if (i % 8 == 0)
			check_page(&ix, &m, rng);
		if (i % 16 == 0)
			check_look(&ix, rng);
	}
	while (m.nr)
		toggle(&ix, &m, &m.at[(struct store_key *)&m.at[m.nr / 2] - m.at]);
	check_page(&ix, &m, rng);
	assert_int_equal(ix.nr_used, 0);
	dram_index_fini(&ix);
}

static void t_model(void **state)
{
	static const uint32_t shards[] = {1, 2, 3, 5, 64};
	struct rng rng;

	rng_init(&rng, unit_seed(4));
	for (size_t i = 0; i < sizeof(shards) / sizeof(shards[0]); i++) {
		one_shard(shards[i], 0, 5000, &rng);
		one_shard(shards[i], shards[i] - 1, 3001, &rng);
	}
}

/* Three times as many as were meant to be: most buckets have a chain. */
static void t_chains(void **state)
{
	struct dram_index ix;
	struct rng rng;
	struct dram_entry *e;
	struct store_key k;

	rng_init(&rng, unit_seed(5));
	assert_int_equal(dram_index_init(&ix, 3000), 0);
	ix.nr_buckets = 100;
	for (uint32_t i = 0; i < 3000; i += 2) {
		k = make_key(i);
		e = dram_index_get(&ix);
		e->key[0] = k.w[0];
		e->key[1] = k.w[1];
		e->key_len = k.len;
		dram_index_link(&ix, e, k.hash);
	}
	for (uint32_t i = 0; i < 200; i++)
		check_look(&ix, &rng);
	dram_index_fini(&ix);
}

/* The shard's own range spreads over all its buckets: no chain is long, whatever the share. */
static void t_spread(void **state)
{
	struct store_key k;
	struct dram_index ix;
	struct dram_entry *e;
	uint32_t longest = 0, nr = 0, len;

	assert_int_equal(dram_index_init(&ix, 20000), 0);
	ix.nr_shards = 7;
	ix.shard = 3;
	for (uint32_t i = 0; nr < 20000; i++) {
		k = make_key(i);
		if (store_shard_of(k.hash, 7) != 3)
			continue;
		e = dram_index_get(&ix);
		e->key[0] = k.w[0];
		e->key[1] = k.w[1];
		e->key_len = k.len;
		dram_index_link(&ix, e, k.hash);
		len = dram_index_count(&ix, &k, &e);
		assert_non_null(e);
		longest = len > longest ? len : longest;
		nr++;
	}
	assert_null(dram_index_get(&ix));
	assert_true(longest < 40);
	/* 64 of entry, 7.2 of buckets, page ends; 96 is allowed. */
	assert_true(dram_index_bytes(&ix) / 20000 <= 72);
	dram_index_fini(&ix);
}

/* Freed entries are used again before fresh ones: what is resident is the most there ever was. */
static void t_reuse(void **state)
{
	struct dram_index ix;
	struct dram_entry *a, *b;

	assert_int_equal(dram_index_init(&ix, 2), 0);
	a = dram_index_get(&ix);
	b = dram_index_get(&ix);
	assert_non_null(b);
	assert_null(dram_index_get(&ix));
	a->ver = 5;
	dram_index_put(&ix, a);
	assert_ptr_equal(dram_index_get(&ix), a);
	assert_int_equal(a->ver, 0);
	assert_int_equal(ix.nr_high, 2);
	dram_index_fini(&ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_model),
		cmocka_unit_test(t_chains),
		cmocka_unit_test(t_spread),
		cmocka_unit_test(t_reuse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
