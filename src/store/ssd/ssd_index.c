/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See ssd_index.h. Runs on the shard's owner.
 */
#include "store/ssd/ssd_index.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/must.h"

#define INDEX_PAGE 4096u
#define ENTRIES_PER_BUCKET 9u
#define MORE_TIMES 3u /* entries that a recovery may need besides; only those used cost memory */
#define MORE_LEAST 1024u

static uint32_t index_buckets(uint32_t nr_max)
{
	return (uint32_t)div_round_up(nr_max, ENTRIES_PER_BUCKET);
}

static size_t index_fixed_bytes(uint32_t nr_max)
{
	uint32_t nr = index_buckets(nr_max);

	return align_up(nr * sizeof(struct ssd_bucket) + dram_bits_bytes(nr), INDEX_PAGE);
}

uint64_t ssd_index_cost(uint32_t nr_max)
{
	return index_fixed_bytes(nr_max) +
	       align_up(((uint64_t)nr_max + 1) * sizeof(struct ssd_entry), INDEX_PAGE);
}

int ssd_index_init(struct ssd_index *ix, uint32_t nr_max)
{
	uint8_t *at;

	must(nr_max > 0 && nr_max <= SSD_KEYS_MAX);
	*ix = (struct ssd_index){.nr_max = nr_max, .nr_shards = 1};
	ix->nr_more = (uint32_t)min_t(
		uint64_t, max_t(uint64_t, (uint64_t)nr_max * MORE_TIMES, MORE_LEAST), SSD_KEYS_MAX);
	ix->nr_buckets = index_buckets(nr_max);
	ix->fixed_bytes = index_fixed_bytes(nr_max);
	ix->map_bytes = ssd_index_cost(nr_max) + ix->nr_more * sizeof(struct ssd_entry);
	at = mmap(NULL, ix->map_bytes, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return -ENOMEM;
	ix->map = at;
	ix->buckets = (struct ssd_bucket *)at;
	dram_bits_init(&ix->filled, &ix->buckets[ix->nr_buckets], ix->nr_buckets);
	ix->slab = (struct ssd_entry *)(at + ix->fixed_bytes);
	return 0;
}

void ssd_index_fini(struct ssd_index *ix)
{
	munmap(ix->map, ix->map_bytes);
}

uint64_t ssd_index_bytes(const struct ssd_index *ix)
{
	return ix->fixed_bytes + ((uint64_t)ix->nr_high + 1) * sizeof(struct ssd_entry);
}

/* The hash's place within the shard's range, scaled to the buckets: it ascends with the hash. */
static inline struct ssd_bucket *index_bucket(const struct ssd_index *ix, uint64_t hash)
{
	uint32_t place = (uint32_t)((hash >> 32) * ix->nr_shards);

	return &ix->buckets[(uint64_t)place * ix->nr_buckets >> 32];
}

static inline uint8_t index_tag(uint64_t hash)
{
	return (uint8_t)hash ? (uint8_t)hash : 1;
}

static inline bool entry_is(const struct ssd_entry *e, const struct store_key *key)
{
	return e->key[0] == key->w[0] && e->key[1] == key->w[1] && e->key_len == key->len;
}

static uint32_t index_no(const struct ssd_index *ix, const struct ssd_entry *e)
{
	return (uint32_t)(e - ix->slab);
}

struct ssd_entry *ssd_index_find(const struct ssd_index *ix, const struct store_key *key)
{
	const struct ssd_bucket *b = index_bucket(ix, key->hash);
	uint8_t tag = index_tag(key->hash);

	for (uint32_t i = 0; i < SSD_SLOTS; i++)
		if (b->tag[i] == tag && b->no[i] && entry_is(&ix->slab[b->no[i]], key))
			return &ix->slab[b->no[i]];
	for (uint32_t no = b->more; no; no = ix->slab[no].next)
		if (entry_is(&ix->slab[no], key))
			return &ix->slab[no];
	return NULL;
}

/* Entry numbers of a bucket, at most SSD_CHAIN_MAX. */
static uint32_t index_members(const struct ssd_index *ix, const struct ssd_bucket *b,
			      uint32_t no[SSD_CHAIN_MAX])
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < SSD_SLOTS; i++)
		if (b->no[i])
			no[nr++] = b->no[i];
	for (uint32_t i = b->more; i; i = ix->slab[i].next) {
		must(nr < SSD_CHAIN_MAX);
		no[nr++] = i;
	}
	return nr;
}

static int index_reserve(struct ssd_index *ix, const struct store_key *key, uint32_t nr_max,
			 uint32_t chain_max)
{
	const struct ssd_bucket *b = index_bucket(ix, key->hash);
	uint32_t no[SSD_CHAIN_MAX];

	if (ix->nr_used + ix->nr_reserved >= nr_max)
		return -ENOSPC;
	if (b->more && index_members(ix, b, no) >= chain_max)
		return -EBUSY;
	ix->nr_reserved++;
	return 0;
}

int ssd_index_reserve(struct ssd_index *ix, const struct store_key *key)
{
	return index_reserve(ix, key, ix->nr_max, SSD_CHAIN_FULL);
}

int ssd_index_reserve_more(struct ssd_index *ix, const struct store_key *key)
{
	return index_reserve(ix, key, ix->nr_max + ix->nr_more, SSD_CHAIN_MORE);
}

uint32_t ssd_index_bucket(const struct ssd_index *ix, const struct store_key *key)
{
	return (uint32_t)(index_bucket(ix, key->hash) - ix->buckets);
}

void ssd_index_unreserve(struct ssd_index *ix)
{
	must(ix->nr_reserved > 0);
	ix->nr_reserved--;
}

static struct ssd_entry *index_take(struct ssd_index *ix)
{
	struct ssd_entry *e;

	if (ix->free) {
		e = &ix->slab[ix->free];
		ix->free = e->next;
	} else {
		must(ix->nr_high < ix->nr_max + ix->nr_more);
		e = &ix->slab[++ix->nr_high];
	}
	ix->nr_used++;
	return e;
}

struct ssd_entry *ssd_index_add(struct ssd_index *ix, const struct store_key *key)
{
	struct ssd_bucket *b = index_bucket(ix, key->hash);
	struct ssd_entry *e = index_take(ix);
	uint32_t i = 0;

	*e = (struct ssd_entry){.key = {key->w[0], key->w[1]}, .key_len = key->len};
	while (i < SSD_SLOTS && b->no[i])
		i++;
	if (i < SSD_SLOTS) {
		b->tag[i] = index_tag(key->hash);
		b->no[i] = index_no(ix, e);
		dram_bits_set(&ix->filled, (uint64_t)(b - ix->buckets));
	} else {
		e->next = b->more;
		b->more = index_no(ix, e);
	}
	return e;
}

/* The chain's first entry moves to the slot that has become empty. */
static void index_refill(struct ssd_index *ix, struct ssd_bucket *b, uint32_t slot)
{
	struct ssd_entry *e = &ix->slab[b->more];
	struct store_key key;

	if (!b->more)
		return;
	ssd_index_key(e, &key);
	b->tag[slot] = index_tag(key.hash);
	b->no[slot] = b->more;
	b->more = (uint32_t)e->next;
	e->next = 0;
}

static void index_unlink_more(struct ssd_index *ix, struct ssd_bucket *b, uint32_t no)
{
	struct ssd_entry *prev;

	if (b->more == no) {
		b->more = (uint32_t)ix->slab[no].next;
		return;
	}
	for (prev = &ix->slab[b->more]; prev->next != no; prev = &ix->slab[prev->next])
		must(prev->next);
	prev->next = ix->slab[no].next;
}

void ssd_index_remove(struct ssd_index *ix, struct ssd_entry *e)
{
	uint32_t no = index_no(ix, e), i = 0;
	struct ssd_bucket *b;
	struct store_key key;

	must(e->key_len);
	ssd_index_set_ghost(ix, e, false);
	ssd_index_key(e, &key);
	b = index_bucket(ix, key.hash);
	while (i < SSD_SLOTS && b->no[i] != no)
		i++;
	if (i < SSD_SLOTS) {
		b->tag[i] = 0;
		b->no[i] = 0;
		index_refill(ix, b, i);
	} else {
		index_unlink_more(ix, b, no);
	}
	*e = (struct ssd_entry){.next = ix->free};
	ix->free = no;
	ix->nr_used--;
}

void ssd_index_set_ghost(struct ssd_index *ix, struct ssd_entry *e, bool is_ghost)
{
	ix->nr_ghosts += is_ghost;
	ix->nr_ghosts -= e->is_ghost;
	e->is_ghost = is_ghost;
}

void ssd_index_key(const struct ssd_entry *e, struct store_key *key)
{
	key->w[0] = e->key[0];
	key->w[1] = e->key[1];
	key->len = (uint8_t)e->key_len;
	key->hash = hash_key(key->b, key->len);
}

void ssd_index_prefetch(const struct ssd_index *ix, const struct store_key *key, int stage)
{
	if (stage == 0)
		__builtin_prefetch(index_bucket(ix, key->hash));
}

struct ssd_entry *ssd_index_walk(struct ssd_index *ix, uint32_t *no)
{
	for (*no = *no ? *no : 1; *no <= ix->nr_high; ++*no)
		if (ix->slab[*no].key_len)
			return &ix->slab[*no];
	return NULL;
}

/* ---- listing ---- */

void ssd_index_cursor_init(struct ssd_cursor *c, struct ssd_index *ix,
			   const struct store_list *list)
{
	unsigned shard = store_shard_of(list->after.hash, ix->nr_shards);

	c->ix = ix;
	c->list = list;
	c->nr = 0;
	c->at = 0;
	c->bucket = 0;
	if (shard == ix->shard)
		c->bucket = (uint64_t)(index_bucket(ix, list->after.hash) - ix->buckets);
	else if (shard > ix->shard)
		c->bucket = ix->nr_buckets;
}

/* The wanted keys of one bucket, sorted. Insertion: they are few. */
static void cursor_load(struct ssd_cursor *c, const struct ssd_bucket *b)
{
	struct ssd_index *ix = c->ix;
	uint32_t no[SSD_CHAIN_MAX], at, nr = index_members(ix, b, no);
	struct store_key key;

	c->nr = 0;
	c->at = 0;
	for (uint32_t i = 0; i < nr; i++) {
		if (ix->slab[no[i]].is_ghost)
			continue;
		ssd_index_key(&ix->slab[no[i]], &key);
		if (!store_list_wants(c->list, &key))
			continue;
		for (at = c->nr++; at && store_key_cmp(&c->keys[at - 1], &key) > 0; at--)
			c->keys[at] = c->keys[at - 1];
		c->keys[at] = key;
	}
	if (!nr)
		dram_bits_clear(&ix->filled, (uint64_t)(b - ix->buckets));
}

const struct store_key *ssd_index_cursor_next(struct ssd_cursor *c)
{
	while (c->at == c->nr) {
		if (c->bucket >= c->ix->nr_buckets)
			return NULL;
		c->bucket = dram_bits_next(&c->ix->filled, c->bucket);
		if (c->bucket == DRAM_BITS_END)
			return NULL;
		cursor_load(c, &c->ix->buckets[c->bucket++]);
	}
	return &c->keys[c->at++];
}
