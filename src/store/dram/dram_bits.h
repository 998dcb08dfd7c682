/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bitmap with summaries: bit i of level l + 1 says that word i of level l isn't zero, up to one
 * word. Finding the first bit at or behind a place takes a few instructions per level (five levels
 * for 2^30 bits), setting and clearing touch one word unless that becomes or stops being zero.
 * Costs 1.016 bits per bit, in memory that the caller gives and that must be zero; it is touched
 * where bits are set and nowhere else.
 *
 * The buddy allocator's free blocks, the index's occupied buckets and its dirty entries are such
 * maps: no links, so nothing has to be stored in or beside what they describe. One thread.
 */
#ifndef STORE_DRAM_BITS_H
#define STORE_DRAM_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DRAM_BITS_LEVELS 5
#define DRAM_BITS_END UINT64_MAX

struct dram_bits {
	uint64_t *level[DRAM_BITS_LEVELS + 1]; /* one behind the other; the last is the end */
	uint64_t nr;
	uint32_t nr_levels;
};

/* Bytes of memory that `nr` bits take, nr <= 2^30. */
size_t dram_bits_bytes(uint64_t nr);
/* All clear; mem: dram_bits_bytes(nr) zero bytes, aligned to 8. */
void dram_bits_init(struct dram_bits *b, void *mem, uint64_t nr);
/* The first set bit at or behind `from`, or DRAM_BITS_END. */
uint64_t dram_bits_next(const struct dram_bits *b, uint64_t from);

static inline bool dram_bits_test(const struct dram_bits *b, uint64_t i)
{
	return b->level[0][i >> 6] >> (i & 63) & 1;
}

static inline void dram_bits_set(struct dram_bits *b, uint64_t i)
{
	uint64_t old;

	for (uint32_t l = 0; l < b->nr_levels; l++, i >>= 6) {
		old = b->level[l][i >> 6];
		b->level[l][i >> 6] = old | 1ull << (i & 63);
		if (old)
			break;
	}
}

static inline void dram_bits_clear(struct dram_bits *b, uint64_t i)
{
	for (uint32_t l = 0; l < b->nr_levels; l++, i >>= 6) {
		b->level[l][i >> 6] &= ~(1ull << (i & 63));
		if (b->level[l][i >> 6])
			break;
	}
}

#endif
