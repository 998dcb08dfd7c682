/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the door answers at once, without an io: hits and misses in the memory of home's own shards,
 * and the prefetches for them. Runs on home; whatever isn't simple is left to store_submit().
 */
#include <errno.h>

#include "base/must.h"
#include "store/store_int.h"

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

struct now_look {
	const struct store_key *const *keys;
	unsigned nr;
	uint64_t ask; /* keys that are left to store_submit() */
	uint64_t here;
};

/* Those of the keys that lie in shard no, which is home's. */
static void now_look_shard(struct store_set *set, unsigned no, struct now_look *l)
{
	struct store_shard *sh = &set->shard[no];
	const struct store_key *mine[STORE_LOOK_MAX];
	uint64_t here, deeper;
	uint8_t at[STORE_LOOK_MAX];
	unsigned n = 0;

	for (unsigned i = 0; i < l->nr; i++) {
		mine[n] = l->keys[i];
		at[n] = (uint8_t)i;
		n += store_shard_of(l->keys[i]->hash, set->nr_shards) == no;
	}
	if (!n)
		return;
	here = sh->top->ops->look(sh->top, mine, n, &deeper);
	counter_add(&sh->ops[STORE_EXIST], n - (unsigned)__builtin_popcountll(deeper));
	if (n == l->nr) {
		l->ask = deeper;
		l->here = here;
		return;
	}
	l->ask &= ~now_spread(now_first(n) & ~deeper, at);
	l->here |= now_spread(here, at);
}

/* tidy: name: a verb of store.h's door */
uint64_t store_look(struct store_set *set, struct reactor *home,
		    const struct store_key *const *keys, unsigned nr, uint64_t *ask)
{
	struct now_look l = {.keys = keys, .nr = nr, .ask = now_first(nr)};
	uint64_t owned = set->owned[reactor_id(home)];

	must(nr <= STORE_LOOK_MAX);
	for (; owned; owned &= owned - 1) {
		unsigned no = (unsigned)__builtin_ctzll(owned);
		const struct store_shard *sh = &set->shard[no];

		if (sh->owner == home && sh->state == STORE_SHARD_OPEN && sh->top->ops->look)
			now_look_shard(set, no, &l);
	}
	*ask = l.ask;
	return l.here;
}

/* tidy: name: a verb of store.h's door */
void store_prefetch(struct store_set *set, struct reactor *home, const struct store_key *key,
		    int stage)
{
	struct store_shard *sh = &set->shard[store_shard_of(key->hash, set->nr_shards)];

	if (sh->owner == home && sh->top->ops->prefetch)
		sh->top->ops->prefetch(sh->top, key, stage);
}
