/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of a value, and the two loops over them that have to be fast.
 *
 * Word i: x = a + i * golden ratio; x plus the product of the halves of x ^ b; folded. One
 * widening 32-bit multiply a word, which every vector unit has; the loops are written so that the
 * compiler makes vector code of them at -O3. sim_value_x86.c and its twin for other machines,
 * sim_value_any.c, compile them for the instruction sets that they choose from. Pure functions,
 * any thread.
 */
#ifndef SIM_VALUE_INT_H
#define SIM_VALUE_INT_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WORD_BYTES 8u
#define GOLDEN 0x9E3779B97F4A7C15ull

/* Words that are compared before the verdict is looked at. */
#define CHECK_WORDS 64u

struct value_gen {
	uint64_t a;
	uint64_t b;
};

static inline uint64_t value_word(uint64_t x, uint64_t b)
{
	uint64_t y = x ^ b;

	x += (y & UINT32_MAX) * (y >> 32);
	return htole64(x ^ (x >> 32));
}

/* nr words from word i on. */
static inline __attribute__((always_inline)) void value_fill_loop(struct value_gen g, uint64_t i,
								  uint8_t *p, size_t nr)
{
	uint64_t x = g.a + i * GOLDEN;

	for (size_t n = 0; n < nr; n++, x += GOLDEN) {
		uint64_t w = value_word(x, g.b);

		memcpy(p + n * WORD_BYTES, &w, WORD_BYTES);
	}
}

/* How many words, in steps of CHECK_WORDS, are right from word i on; nr is a multiple of that. */
static inline __attribute__((always_inline)) size_t value_check_loop(struct value_gen g, uint64_t i,
								     const uint8_t *p, size_t nr)
{
	uint64_t x = g.a + i * GOLDEN;

	for (size_t at = 0; at < nr; at += CHECK_WORDS) {
		uint64_t diff = 0;

		for (size_t n = at; n < at + CHECK_WORDS; n++, x += GOLDEN) {
			uint64_t w;

			memcpy(&w, p + n * WORD_BYTES, WORD_BYTES);
			diff |= w ^ value_word(x, g.b);
		}
		if (diff)
			return at;
	}
	return nr;
}

/* The same two, in the best instruction set of this machine. */
void sim_value_fill_words(struct value_gen g, uint64_t i, uint8_t *p, size_t nr);
size_t sim_value_check_words(struct value_gen g, uint64_t i, const uint8_t *p, size_t nr);

#endif
