/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the door answers at once, without an io: hits and misses in the memory of home's own shard,
 * and the prefetches for them. Runs on home; whatever isn't simple is left to store_submit().
 */
#include <errno.h>

#include "base/must.h"
#include "store/store_int.h"

/* The shard that home owns, in use; NULL: it owns none. reactors[i] owns shard i (store.h). */
static struct store_shard *now_shard(struct store_set *set, struct reactor *home)
{
	unsigned no = reactor_id(home);

	if (no >= set->nr_shards || set->shard[no].owner != home ||
	    set->shard[no].state != STORE_SHARD_OPEN)
		return NULL;
	return &set->shard[no];
}

/* Bits 0 to nr - 1. */
static uint64_t now_first(unsigned nr)
{
	return nr ? UINT64_MAX >> (64 - nr) : 0;
}

int store_now(struct store_set *set, struct reactor *home, const struct store_key *key,
	      unsigned flags, struct store_view *view)
{
	struct store_shard *sh = &set->shard[store_shard_of(key->hash, set->nr_shards)];
	int res;

	if (sh->owner != home || sh->state != STORE_SHARD_OPEN || !sh->top->ops->now)
		return -EAGAIN;
	res = sh->top->ops->now(sh->top, key, flags, view);
	if (likely(res != -EAGAIN))
		counter_add(&sh->ops[STORE_GET], 1);
	return res;
}

/* Bits 0..nr-1 go to the places at[0..nr-1]. */
static uint64_t now_spread(uint64_t bits, const uint8_t *at)
{
	uint64_t out = 0;

	for (; bits; bits &= bits - 1)
		out |= 1ull << at[__builtin_ctzll(bits)];
	return out;
}

/* tidy: name: a verb of store.h's door */
uint64_t store_look(struct store_set *set, struct reactor *home,
		    const struct store_key *const *keys, unsigned nr, uint64_t *ask)
{
	struct store_shard *sh = now_shard(set, home);
	const struct store_key *mine[STORE_LOOK_MAX];
	uint64_t here, deeper;
	uint8_t at[STORE_LOOK_MAX];
	unsigned n = 0;

	must(nr <= STORE_LOOK_MAX);
	*ask = now_first(nr);
	if (!sh || !sh->top->ops->look)
		return 0;
	for (unsigned i = 0; i < nr; i++) {
		mine[n] = keys[i];
		at[n] = (uint8_t)i;
		n += store_shard_of(keys[i]->hash, set->nr_shards) == reactor_id(home);
	}
	here = sh->top->ops->look(sh->top, mine, n, &deeper);
	counter_add(&sh->ops[STORE_EXIST], n - (unsigned)__builtin_popcountll(deeper));
	if (n == nr) {
		*ask = deeper;
		return here;
	}
	*ask &= ~now_spread(now_first(n) & ~deeper, at);
	return now_spread(here, at);
}

/* tidy: name: a verb of store.h's door */
void store_prefetch(struct store_set *set, struct reactor *home, const struct store_key *key,
		    int stage)
{
	struct store_shard *sh = &set->shard[store_shard_of(key->hash, set->nr_shards)];

	if (sh->owner == home && sh->top->ops->prefetch)
		sh->top->ops->prefetch(sh->top, key, stage);
}
