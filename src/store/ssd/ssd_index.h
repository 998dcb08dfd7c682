/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ssd tier knows of its keys: 40 bytes each and a share of a bucket, at most 48 in all
 * when the index is full. The same shape as the dram tier's index: buckets of one cache line in
 * hash order, twelve tags and entry numbers each, entries in a slab that is touched as it fills.
 *
 * An entry is live, or a ghost: a key of which the medium may hold something that must not be
 * served (a write that failed, a read that did not fit). Ghosts are misses, but whoever changes the
 * key must leave a tombstone, as for a live one; they go when their segment does.
 *
 * Belongs to the shard's owner.
 */
#ifndef STORE_SSD_SSD_INDEX_H
#define STORE_SSD_SSD_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "store/dram/dram_bits.h"
#include "store/store.h"

#define SSD_CHAIN_MAX 352u  /* entries of a bucket, */
#define SSD_CHAIN_FULL 48u  /* of which a key may be the last; the others have a reservation, */
#define SSD_CHAIN_MORE 128u /* or are what a recovery found */
#define SSD_SLOTS 12u
#define SSD_KEYS_MAX (1u << 30)
#define SSD_HITS_MAX 3u

struct ssd_entry {
	uint64_t key[2];
	uint64_t ver;
	uint64_t seg : 20;
	uint64_t off : 24;    /* granules */
	uint64_t key_len : 5; /* 0: the entry is free */
	uint64_t hits : 2;
	uint64_t is_ghost : 1;
	uint64_t score : 8;   /* attention, as hints said; not written to the medium */
	uint64_t is_tomb : 1; /* a ghost of a tombstone, while a recovery reads */
	uint64_t spare : 3;
	uint64_t len : 28;
	uint64_t next : 32; /* in the chain or in the free list; 0 ends both */
	uint64_t spare2 : 4;
};
_Static_assert(sizeof(struct ssd_entry) == 40, "an entry is five words");

struct ssd_bucket {
	uint8_t tag[SSD_SLOTS];
	uint32_t no[SSD_SLOTS]; /* 0 in an empty slot */
	uint32_t more;		/* a chain through next; only while all slots are taken */
};
_Static_assert(sizeof(struct ssd_bucket) == 64, "a bucket is a cache line");

struct ssd_index {
	struct ssd_bucket *buckets;
	struct ssd_entry *slab; /* [0] is never used */
	uint32_t nr_buckets;
	uint32_t nr_max;
	uint32_t nr_more; /* beyond that, for what a recovery finds that is dead, or may be */
	uint32_t nr_high; /* entries ever used */
	uint32_t nr_used;
	uint32_t nr_ghosts;
	uint32_t nr_reserved;
	uint32_t free;
	uint32_t nr_shards;
	uint32_t shard;
	struct dram_bits filled; /* bit b: bucket b may not be empty */
	void *map;
	size_t map_bytes;
	size_t fixed_bytes;
};

/* Bytes when full, everything included but what a recovery may need for a while. */
uint64_t ssd_index_cost(uint32_t nr_max);
int ssd_index_init(struct ssd_index *ix, uint32_t nr_max);
void ssd_index_fini(struct ssd_index *ix);
uint64_t ssd_index_bytes(const struct ssd_index *ix); /* resident now */

struct ssd_entry *ssd_index_find(const struct ssd_index *ix, const struct store_key *key);
/*
 * Keeps an entry for a key that may have to be added: 0, -ENOSPC (none at all), -EBUSY (its bucket
 * is full). At most SSD_CHAIN_MAX - SSD_CHAIN_MORE at a time.
 */
int ssd_index_reserve(struct ssd_index *ix, const struct store_key *key);
/* The same while a recovery reads: the medium holds more keys than those that are alive. */
int ssd_index_reserve_more(struct ssd_index *ix, const struct store_key *key);
void ssd_index_unreserve(struct ssd_index *ix);
uint32_t ssd_index_bucket(const struct ssd_index *ix, const struct store_key *key); /* its number */
/* Of a key that isn't there; everything but the key is zero. One was reserved until now. */
struct ssd_entry *ssd_index_add(struct ssd_index *ix, const struct store_key *key);
void ssd_index_remove(struct ssd_index *ix, struct ssd_entry *e);
void ssd_index_set_ghost(struct ssd_index *ix, struct ssd_entry *e, bool is_ghost);
void ssd_index_key(const struct ssd_entry *e, struct store_key *key);
void ssd_index_prefetch(const struct ssd_index *ix, const struct store_key *key, int stage);

/* The used entry with the lowest number >= *no, which becomes its number; NULL: no more. */
struct ssd_entry *ssd_index_walk(struct ssd_index *ix, uint32_t *no);

/* Live keys from a place on, in order. Valid while the index doesn't change. */
struct ssd_cursor {
	struct ssd_index *ix;
	const struct store_list *list; /* says which keys are wanted */
	uint64_t bucket;
	uint32_t nr;
	uint32_t at;
	struct store_key keys[SSD_CHAIN_MAX];
};
void ssd_index_cursor_init(struct ssd_cursor *c, struct ssd_index *ix,
			   const struct store_list *list);
const struct store_key *ssd_index_cursor_next(struct ssd_cursor *c); /* NULL: no more */

#endif
