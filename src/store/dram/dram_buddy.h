/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A buddy allocator of granules 0 .. nr - 1 that it never touches: what a granule is (64 B of an
 * arena segment, 16 B of the side heap) is the caller's business.
 *
 * A request need not be a power of two: the smallest block that holds it is taken, lowest address
 * first, and its tail given back at once, so a granule count costs exactly itself. Any range of
 * taken granules can be freed, in any cutting; neighbours merge. A block of 2^k granules starts at
 * a multiple of 2^k, so a range of at least 4 KiB that dram_buddy_alloc() gives starts on a page.
 *
 * Free blocks are bits in one map per order (dram_bits.h), 2.03 bits per granule in all, mapped
 * lazily and outside the memory described: no list links, so the resident bound holds whatever the
 * sizes are. O(orders) per call. One thread.
 */
#ifndef STORE_DRAM_BUDDY_H
#define STORE_DRAM_BUDDY_H

#include <stddef.h>
#include <stdint.h>

#include "store/dram/dram_bits.h"

#define DRAM_BUDDY_ORDERS 29 /* up to 2^28 granules */
#define DRAM_BUDDY_NONE UINT32_MAX

struct dram_buddy {
	struct dram_bits free[DRAM_BUDDY_ORDERS];
	uint32_t nr_blocks[DRAM_BUDDY_ORDERS];
	uint32_t orders; /* bit k: nr_blocks[k] > 0 */
	uint32_t nr;
	uint32_t nr_free;
	void *map;
	size_t map_bytes;
};

/* Bytes of metadata for `nr` granules, whole pages. */
size_t dram_buddy_bytes(uint32_t nr);
int dram_buddy_init(struct dram_buddy *b, uint32_t nr); /* everything free; 0 or -ENOMEM */
void dram_buddy_fini(struct dram_buddy *b);

/* n > 0 adjacent granules: the first one, or DRAM_BUDDY_NONE when no block is that large. */
uint32_t dram_buddy_alloc(struct dram_buddy *b, uint32_t n);
void dram_buddy_free(struct dram_buddy *b, uint32_t at, uint32_t n);

/* The order of the block that dram_buddy_alloc(n) would cut, or DRAM_BUDDY_ORDERS. */
static inline uint32_t dram_buddy_fit(const struct dram_buddy *b, uint32_t n)
{
	uint32_t k = n > 1 ? 32u - (uint32_t)__builtin_clz(n - 1) : 0;
	uint32_t orders = k < DRAM_BUDDY_ORDERS ? b->orders >> k << k : 0;

	return orders ? (uint32_t)__builtin_ctz(orders) : DRAM_BUDDY_ORDERS;
}

/* Granules of the largest free block, 0 when nothing is free. */
static inline uint32_t dram_buddy_largest(const struct dram_buddy *b)
{
	return b->orders ? 1u << (31 - __builtin_clz(b->orders)) : 0;
}

#endif
