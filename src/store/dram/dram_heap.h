/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The side heap: what doesn't fit an index entry, that is seals of values of more than one chunk,
 * further extents, meta. Anonymous memory of a fixed size, touched as it is used, granules of 16
 * bytes, one adjacent range per value. What lies in it is read on other reactors while the value is
 * pinned; taking and giving is the shard's owner's.
 */
#ifndef STORE_DRAM_HEAP_H
#define STORE_DRAM_HEAP_H

#include <stddef.h>
#include <stdint.h>

#include "store/dram/dram_buddy.h"

#define DRAM_SIDE_GRANULE 16u
#define DRAM_SIDE_NONE 0u /* granule 0 is never given */

struct dram_heap {
	uint8_t *base;
	size_t map_bytes;
	struct dram_buddy buddy;
};

uint64_t dram_heap_cost(uint64_t bytes);
int dram_heap_init(struct dram_heap *h, uint64_t bytes);
void dram_heap_fini(struct dram_heap *h);
uint32_t dram_heap_alloc(struct dram_heap *h, uint64_t bytes); /* DRAM_SIDE_NONE: no room */
void dram_heap_free(struct dram_heap *h, uint32_t at, uint64_t bytes);

static inline void *dram_heap_at(const struct dram_heap *h, uint32_t at)
{
	return h->base + (uint64_t)at * DRAM_SIDE_GRANULE;
}

static inline uint64_t dram_heap_used_bytes(const struct dram_heap *h)
{
	return (uint64_t)(h->buddy.nr - h->buddy.nr_free) * DRAM_SIDE_GRANULE;
}

#endif
