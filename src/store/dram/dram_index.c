/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See dram_index.h. Runs on the shard's owner.
 */
#include "store/dram/dram_index.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/must.h"

#define INDEX_PAGE 4096u
#define GROUP_SHIFT 4 /* heads per cache line, log2 */

_Static_assert(DRAM_KEYS_MAX / 2 * 3 < UINT32_MAX, "bucket numbers fit");

static uint32_t index_buckets(uint32_t nr_max)
{
	return (uint32_t)align_up(nr_max + (uint64_t)nr_max / 2, 1u << GROUP_SHIFT);
}

static size_t index_heads_bytes(uint32_t nr_max)
{
	uint32_t nr = index_buckets(nr_max);

	return align_up(nr * sizeof(uint32_t) + dram_bits_bytes(nr >> GROUP_SHIFT), INDEX_PAGE);
}

uint64_t dram_index_cost(uint32_t nr_max)
{
	return index_heads_bytes(nr_max) +
	       align_up(((uint64_t)nr_max + 1) * sizeof(struct dram_entry), INDEX_PAGE);
}

int dram_index_init(struct dram_index *ix, uint32_t nr_max)
{
	uint8_t *at;

	must(nr_max > 0 && nr_max <= DRAM_KEYS_MAX);
	*ix = (struct dram_index){.nr_max = nr_max, .nr_shards = 1};
	ix->nr_buckets = index_buckets(nr_max);
	ix->heads_bytes = index_heads_bytes(nr_max);
	ix->map_bytes = dram_index_cost(nr_max);
	at = mmap(NULL, ix->map_bytes, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return -ENOMEM;
	ix->map = at;
	ix->heads = (uint32_t *)at;
	dram_bits_init(&ix->groups, at + ix->nr_buckets * sizeof(uint32_t),
		       ix->nr_buckets >> GROUP_SHIFT);
	ix->slab = (struct dram_entry *)(at + ix->heads_bytes);
	return 0;
}

void dram_index_fini(struct dram_index *ix)
{
	munmap(ix->map, ix->map_bytes);
}

uint64_t dram_index_bytes(const struct dram_index *ix)
{
	return ix->heads_bytes + ((uint64_t)ix->nr_high + 1) * sizeof(struct dram_entry);
}

struct dram_entry *dram_index_get(struct dram_index *ix)
{
	struct dram_entry *e;

	if (ix->free) {
		e = &ix->slab[ix->free];
		ix->free = e->next;
	} else if (ix->nr_high < ix->nr_max) {
		e = &ix->slab[++ix->nr_high];
	} else {
		return NULL;
	}
	ix->nr_used++;
	*e = (struct dram_entry){};
	return e;
}

void dram_index_put(struct dram_index *ix, struct dram_entry *e)
{
	must(!e->is_linked && ix->nr_used > 0);
	e->next = ix->free;
	ix->free = dram_index_no(ix, e);
	ix->nr_used--;
}

/*
 * The hash's place within the shard's range, scaled to the buckets. (hash >> 32) * nr_shards >> 32
 * is the shard (store_shard_of), so what is below that, the low half's product added, ascends
 * within it.
 */
static inline uint32_t index_bucket(const struct dram_index *ix, uint64_t hash)
{
	uint64_t frac = (hash >> 32) * ix->nr_shards << 32;

	if (__builtin_add_overflow(frac, (hash & UINT32_MAX) * ix->nr_shards, &frac))
		frac = UINT64_MAX;
	return (uint32_t)((unsigned __int128)frac * ix->nr_buckets >> 64);
}

static inline bool entry_is(const struct dram_entry *e, const struct store_key *key)
{
	return e->key[0] == key->w[0] && e->key[1] == key->w[1] && e->key_len == key->len;
}

struct dram_entry *dram_index_find(const struct dram_index *ix, const struct store_key *key)
{
	uint32_t i = ix->heads[index_bucket(ix, key->hash)];

	for (; i; i = ix->slab[i].next)
		if (entry_is(&ix->slab[i], key))
			return &ix->slab[i];
	return NULL;
}

uint32_t dram_index_chain(const struct dram_index *ix, const struct store_key *key,
			  struct dram_entry **last)
{
	uint32_t i = ix->heads[index_bucket(ix, key->hash)], nr = 0;

	for (; i; i = ix->slab[i].next) {
		*last = &ix->slab[i];
		nr++;
	}
	return nr;
}

void dram_index_link(struct dram_index *ix, struct dram_entry *e, uint64_t hash)
{
	uint32_t b = index_bucket(ix, hash);

	must(!e->is_linked);
	if (!ix->heads[b])
		dram_bits_set(&ix->groups, b >> GROUP_SHIFT);
	e->next = ix->heads[b];
	ix->heads[b] = dram_index_no(ix, e);
	e->is_linked = true;
	ix->nr_linked++;
}

void dram_index_unlink(struct dram_index *ix, struct dram_entry *e)
{
	uint32_t no = dram_index_no(ix, e), *at;
	struct store_key key;

	must(e->is_linked);
	dram_index_key(e, &key);
	for (at = &ix->heads[index_bucket(ix, key.hash)]; *at != no; at = &ix->slab[*at].next)
		must(*at);
	*at = e->next;
	e->next = 0;
	e->is_linked = false;
	ix->nr_linked--;
}

void dram_index_prefetch(const struct dram_index *ix, const struct store_key *key, int stage)
{
	const uint32_t *head = &ix->heads[index_bucket(ix, key->hash)];

	if (stage == 0)
		__builtin_prefetch(head);
	else if (*head)
		__builtin_prefetch(&ix->slab[*head]);
}

void dram_index_key(const struct dram_entry *e, struct store_key *key)
{
	key->w[0] = e->key[0];
	key->w[1] = e->key[1];
	key->len = (uint8_t)e->key_len;
	key->hash = hash_key(key->b, key->len);
}

/* ---- listing ---- */

void dram_index_cursor_init(struct dram_cursor *c, struct dram_index *ix,
			    const struct store_list *list)
{
	unsigned shard = store_shard_of(list->after.hash, ix->nr_shards);

	c->ix = ix;
	c->list = list;
	c->nr = 0;
	c->at = 0;
	c->bucket = 0;
	if (shard == ix->shard)
		c->bucket = index_bucket(ix, list->after.hash);
	else if (shard > ix->shard)
		c->bucket = ix->nr_buckets;
}

static void group_forget(struct dram_index *ix, uint64_t group)
{
	const uint32_t *heads = &ix->heads[group << GROUP_SHIFT];

	for (uint32_t i = 0; i < 1u << GROUP_SHIFT; i++)
		if (heads[i])
			return;
	dram_bits_clear(&ix->groups, group);
}

/* The wanted keys of one bucket, sorted. Insertion: a chain is short. */
static void cursor_load(struct dram_cursor *c, uint32_t bucket)
{
	struct dram_index *ix = c->ix;
	struct store_key key;
	uint32_t at;

	c->nr = 0;
	c->at = 0;
	for (uint32_t i = ix->heads[bucket]; i; i = ix->slab[i].next) {
		dram_index_key(&ix->slab[i], &key);
		if (!store_list_wants(c->list, &key))
			continue;
		must(c->nr < DRAM_CHAIN_MAX);
		for (at = c->nr++; at && store_key_cmp(&c->keys[at - 1], &key) > 0; at--)
			c->keys[at] = c->keys[at - 1];
		c->keys[at] = key;
	}
}

/* The next bucket that isn't empty, from c->bucket on; groups found empty are forgotten. */
static bool cursor_seek(struct dram_cursor *c)
{
	struct dram_index *ix = c->ix;
	uint64_t group, end;

	while (c->bucket < ix->nr_buckets) {
		group = dram_bits_next(&ix->groups, c->bucket >> GROUP_SHIFT);
		if (group == DRAM_BITS_END)
			break;
		if (group > c->bucket >> GROUP_SHIFT)
			c->bucket = group << GROUP_SHIFT;
		end = (group + 1) << GROUP_SHIFT;
		for (; c->bucket < end; c->bucket++)
			if (ix->heads[c->bucket])
				return true;
		group_forget(ix, group);
	}
	c->bucket = ix->nr_buckets;
	return false;
}

const struct store_key *dram_index_cursor_next(struct dram_cursor *c)
{
	while (c->at == c->nr) {
		if (!cursor_seek(c))
			return NULL;
		cursor_load(c, (uint32_t)c->bucket++);
	}
	return &c->keys[c->at++];
}
