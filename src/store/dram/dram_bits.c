/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of dram_bits.h that aren't inline: layout and search. Pure over the caller's memory,
 * one thread.
 */
#include "store/dram/dram_bits.h"

#include "base/container.h"
#include "base/must.h"

static uint64_t bits_words(uint64_t nr)
{
	return nr ? div_round_up(nr, 64) : 1;
}

size_t dram_bits_bytes(uint64_t nr)
{
	uint64_t words = bits_words(nr), sum = words;

	while (words > 1) {
		words = bits_words(words);
		sum += words;
	}
	return sum * sizeof(uint64_t);
}

void dram_bits_init(struct dram_bits *b, void *mem, uint64_t nr)
{
	uint64_t words = bits_words(nr);
	uint64_t *at = mem;

	b->nr = nr;
	b->nr_levels = 0;
	for (;;) {
		must(b->nr_levels < DRAM_BITS_LEVELS);
		b->level[b->nr_levels++] = at;
		at += words;
		if (words == 1)
			break;
		words = bits_words(words);
	}
	b->level[b->nr_levels] = at;
}

/* Down from a set bit of level l to the first set bit of level 0 below it. */
static uint64_t bits_descend(const struct dram_bits *b, uint32_t l, uint64_t i)
{
	while (l-- > 0)
		i = i << 6 | (uint64_t)__builtin_ctzll(b->level[l][i]);
	return i;
}

uint64_t dram_bits_next(const struct dram_bits *b, uint64_t from)
{
	uint64_t i = from, word;

	if (from >= b->nr)
		return DRAM_BITS_END;
	for (uint32_t l = 0; l < b->nr_levels; l++) {
		/*
		 * i may have moved just past the last word of this level; the next level begins
		 * there.
		 */
		if (b->level[l] + (i >> 6) >= b->level[l + 1])
			return DRAM_BITS_END;
		word = b->level[l][i >> 6] & ~0ull << (i & 63);
		if (word)
			return bits_descend(b, l, (i & ~63ull) | (uint64_t)__builtin_ctzll(word));
		i = (i >> 6) + 1;
	}
	return DRAM_BITS_END;
}
