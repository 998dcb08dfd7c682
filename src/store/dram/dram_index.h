/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of one shard: buckets of one cache line in hash order.
 *
 *     hash -> place in the shard's own range -> bucket (monotone):
 *
 *     bucket: | 12 tags of 8 bits | 12 entry numbers | first of what has no slot |  64 bytes
 *     entry:  | key, version, first extent, pins, links ... |                       64 bytes
 *
 * A look-up compares the tags with the hash's low byte all at once: an absent key costs the
 * bucket's line and nothing else, 97 times in 100, a present one its entry's line besides.
 * dram_index_prefetch() pulls either. What finds no slot hangs in a chain.
 *
 * Because buckets ascend with the hash, walking them and sorting each gives keys in (hash, key)
 * order, and any key is a place to go on from: List needs no second structure. A bucket holds at
 * most DRAM_CHAIN_MAX entries, so that keys made to collide cost nobody else anything.
 *
 * Entries lie in a slab that is mapped at once and touched as it fills (last freed, first used).
 * With 9 entries per bucket when it is full an entry costs 71 bytes then and 93 at a quarter. The
 * hash isn't kept: it is made again from the key where order matters.
 *
 * Belongs to the shard's owner. Readers on other reactors look at seal, ext and side of pinned
 * entries, which don't change while pinned, and at nothing else.
 */
#ifndef STORE_DRAM_INDEX_H
#define STORE_DRAM_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/evict.h"
#include "store/dram/dram_arena.h"
#include "store/dram/dram_bits.h"
#include "store/store.h"

#define DRAM_CHAIN_MAX 64u
#define DRAM_PINS_MAX ((1u << 23) - 1)
#define DRAM_KEYS_MAX (1u << 28)

struct dram_entry {
	uint64_t key[2];
	uint64_t ver;
	uint64_t seal; /* of a value's only chunk; those of longer values are in the side block */
	struct dram_ext ext;
	uint32_t side; /* DRAM_SIDE_NONE: no side block */
	uint32_t next; /* in the chain or in the free list; 0 ends both */
	struct evict_link lru;
	uint64_t len : 28;
	uint64_t key_len : 5;
	uint64_t pins : 23;
	uint64_t is_linked : 1;	 /* the index finds it */
	uint64_t is_buf : 1;	 /* unpublished, owned by its one view */
	uint64_t is_dirty : 1;	 /* the tier below hasn't got it yet */
	uint64_t is_parked : 1;	 /* linked, but taken from the policy until it is unpinned */
	uint64_t is_back : 1;	 /* a write-back of it is under way, and pins it */
	uint64_t is_owed : 1;	 /* a flush counts on it, whatever its version */
	uint64_t is_fetched : 1; /* it came before anybody asked, and nobody has */
	uint64_t is_rising : 1;	 /* is_buf, and it comes from below: pinned, not owned */
};
_Static_assert(sizeof(struct dram_entry) == 64, "an entry is a cache line");

#define DRAM_SLOTS 12u

struct dram_bucket {
	uint8_t tag[DRAM_SLOTS]; /* 0: the slot is empty */
	uint32_t no[DRAM_SLOTS]; /* 0 in an empty slot */
	uint32_t more;		 /* a chain through next; only while all slots are taken */
};
_Static_assert(sizeof(struct dram_bucket) == 64, "a bucket is a cache line");

struct dram_index {
	struct dram_bucket *buckets;
	struct dram_entry *slab; /* [0] is never used */
	uint32_t nr_buckets;
	uint32_t nr_max;  /* entries */
	uint32_t nr_high; /* entries ever used: what is resident */
	uint32_t nr_used; /* entries now, linked or not */
	uint32_t nr_linked;
	uint32_t free;
	uint32_t nr_shards;	 /* of the set, */
	uint32_t shard;		 /* and which of them this is: our range of hashes */
	struct dram_bits filled; /* bit b: bucket b may not be empty */
	void *map;
	size_t map_bytes;
	size_t fixed_bytes; /* buckets and filled */
};

/* Bytes for nr_max entries, everything included. */
uint64_t dram_index_cost(uint32_t nr_max);
int dram_index_init(struct dram_index *ix, uint32_t nr_max);
void dram_index_fini(struct dram_index *ix);
uint64_t dram_index_bytes(const struct dram_index *ix); /* resident now */

/* An entry that is zero, or NULL when all are used. */
struct dram_entry *dram_index_get(struct dram_index *ix);
void dram_index_put(struct dram_index *ix, struct dram_entry *e); /* not linked */

struct dram_entry *dram_index_find(const struct dram_index *ix, const struct store_key *key);
/*
 * The same for nr keys (at most STORE_LOOK_MAX) at once, so that their cache misses overlap. Bit i
 * of the answer: key i is there; no[i] is its entry's number, 0 when it isn't.
 */
uint64_t dram_index_look(const struct dram_index *ix, const struct store_key *const *keys,
			 unsigned nr, uint32_t *no);
/* Has key's bucket more entries than its own line holds? Touches that line alone. */
bool dram_index_has_more(const struct dram_index *ix, const struct store_key *key);
/* How many entries key's bucket holds, and the one of the lowest version (NULL: none). */
uint32_t dram_index_count(const struct dram_index *ix, const struct store_key *key,
			  struct dram_entry **oldest);
/* e's key isn't in the index, and its bucket holds less than DRAM_CHAIN_MAX. */
void dram_index_link(struct dram_index *ix, struct dram_entry *e, uint64_t hash);
void dram_index_unlink(struct dram_index *ix, struct dram_entry *e);
void dram_index_prefetch(const struct dram_index *ix, const struct store_key *key, int stage);

void dram_index_key(const struct dram_entry *e, struct store_key *key);

static inline uint32_t dram_index_no(const struct dram_index *ix, const struct dram_entry *e)
{
	return (uint32_t)(e - ix->slab);
}

/* Keys from a place on, in order. Valid while the index doesn't change. */
struct dram_cursor {
	struct dram_index *ix;
	const struct store_list *list; /* says which keys are wanted */
	uint64_t bucket;
	uint32_t nr;
	uint32_t at;
	struct store_key keys[DRAM_CHAIN_MAX];
};

void dram_index_cursor_init(struct dram_cursor *c, struct dram_index *ix,
			    const struct store_list *list);
const struct store_key *dram_index_cursor_next(struct dram_cursor *c); /* NULL: no more */

#endif
