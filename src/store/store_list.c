/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One page of a LIST while tiers add to it: keys in order of (hash, key), each once, the smallest
 * `max` of those behind the start. Pure functions over the io's own arrays; the owner of the shard
 * runs them.
 */
#include <string.h>

#include "base/must.h"
#include "store/store.h"

bool store_list_wants(const struct store_list *l, const struct store_key *k)
{
	int c;

	if (!l->has_after)
		return k->hash >= l->after.hash;
	c = store_key_cmp(k, &l->after);
	return c > 0 || (c == 0 && l->is_inclusive);
}

/* Where k is, or belongs: from the back, because tiers add in order. */
static uint32_t store_list_find(const struct store_list *l, const struct store_key *k,
				bool *is_there)
{
	uint32_t lo = 0, hi = l->nr, mid;
	int c;

	*is_there = false;
	if (l->nr && store_key_cmp(&l->keys[l->nr - 1], k) < 0)
		return l->nr;
	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		c = store_key_cmp(&l->keys[mid], k);
		if (c == 0)
			*is_there = true;
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

bool store_list_add(struct store_list *l, const struct store_key *k)
{
	bool is_there;
	uint32_t at;

	at = store_list_find(l, k, &is_there);
	if (is_there)
		return true;
	if (at == l->max) {
		l->more = true;
		return false;
	}
	if (l->nr == l->max) {
		l->more = true;
		l->nr--;
	}
	memmove(&l->keys[at + 1], &l->keys[at], (l->nr - at) * sizeof(*k));
	l->keys[at] = *k;
	l->nr++;
	return true;
}
