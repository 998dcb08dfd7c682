/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arena: where value bytes lie. A list of sealed memfd segments, mapped when they are made and
 * touched when they are used, without any metadata inside, so that a client may map them read-only.
 * A value is a list of extents; one when a block is large enough, else the largest ones there are,
 * up to a bound that the caller names.
 *
 * Memory that is used for the first time is made of huge pages where the kernel can: a device takes
 * a request of small ones in as many segments, and a copy pays a page walk for each.
 *
 * An extent is 8 bytes: granule, length in granules, segment. The two spare fields of the word
 * belong to the value (dram_index.h): readers on other reactors look at this word while the value
 * is pinned, so what is in it never changes in that time.
 *
 * Belongs to the shard's owner; dram_arena_run() may be called anywhere for a pinned value.
 */
#ifndef STORE_DRAM_ARENA_H
#define STORE_DRAM_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hugemap.h"
#include "mem/mem.h"
#include "store/dram/dram_buddy.h"

#define DRAM_GRANULE 64u
#define DRAM_SEGS_MAX 1024u
#define DRAM_EXTS_MAX 128u /* of one value */
#define DRAM_SEG_BYTES_MAX (1ull << 30)
#define DRAM_SEG_BYTES_MIN 65536u
#define DRAM_SEG_HUGES (DRAM_SEG_BYTES_MAX / HUGEMAP_BYTES)

struct dram_ext {
	uint64_t at : 24; /* granules */
	uint64_t nr : 22;
	uint64_t seg : 10;
	uint64_t nr_more : 7; /* of a value's first extent: how many others are in the side block */
	uint64_t has_meta : 1; /* likewise: the side block begins with a store_meta */
};
_Static_assert(sizeof(struct dram_ext) == 8, "an extent is one word");

struct dram_seg {
	struct mem_region *reg; /* NULL: a free slot */
	struct dram_buddy buddy;
	bool is_retiring; /* gives nothing any more */
	/* By huge page: were they asked for, and are they? */
	uint64_t asked[DRAM_SEG_HUGES / 64];
	uint64_t huge[DRAM_SEG_HUGES / 64];
};

struct dram_arena {
	struct dram_seg *segs;	 /* DRAM_SEGS_MAX; slots don't move: other reactors read reg */
	uint32_t nr_segs;	 /* slots in use or once used */
	uint64_t bytes;		 /* of the segments that give */
	uint64_t free_bytes;	 /* in them */
	uint64_t retiring_bytes; /* of the others */
	uint64_t used_bytes;	 /* taken, retiring segments included */
	uint64_t cost_bytes;	 /* of all segments, see dram_arena_seg_cost() */
	uint32_t nr_refused;	 /* times the kernel had no huge page */
	int (*on_segment)(void *arg, struct mem_region *reg);
	void (*on_segment_gone)(void *arg, struct mem_region *reg); /* reaped; not by fini */
	void *arg;
};

static inline uint32_t dram_granules(uint64_t bytes)
{
	return (uint32_t)((bytes + DRAM_GRANULE - 1) / DRAM_GRANULE);
}

/* What a segment of `bytes` costs in all, its metadata included. */
uint64_t dram_arena_seg_cost(uint64_t bytes);

int dram_arena_init(struct dram_arena *a);
void dram_arena_fini(struct dram_arena *a);
/*
 * bytes: a multiple of DRAM_SEG_BYTES_MIN. 0, -ENOMEM, -ENOSPC (no slot), or what the memfd or
 * on_segment said.
 */
int dram_arena_add(struct dram_arena *a, uint64_t bytes);
/*
 * Stops segment i from giving. It goes away by dram_arena_reap() once nothing in it is taken: true
 * then.
 */
void dram_arena_retire(struct dram_arena *a, uint32_t i);
bool dram_arena_reap(struct dram_arena *a, uint32_t i);

/* Extents for `bytes` > 0 in ext[0 .. max): how many, or -ENOSPC with nothing taken. */
int dram_arena_alloc(struct dram_arena *a, uint64_t bytes, struct dram_ext *ext, uint32_t max);
void dram_arena_free(struct dram_arena *a, const struct dram_ext *ext, uint32_t nr);

/* Does all of it lie in huge pages? */
bool dram_arena_is_huge(const struct dram_arena *a, struct dram_ext e);

static inline struct mem_run dram_arena_run(const struct dram_arena *a, struct dram_ext e)
{
	return (struct mem_run){
		.reg = a->segs[e.seg].reg,
		.off = (uint64_t)e.at * DRAM_GRANULE,
		.len = (uint64_t)e.nr * DRAM_GRANULE,
	};
}

#endif
