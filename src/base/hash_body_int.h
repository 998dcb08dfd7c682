/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of hash_base.c, hash_avx2.c and hash_avx512.c, which differ in compiler flags and in HASH_FN,
 * the prefix of the two functions made here. xxHash's inline header sees the flags and picks its
 * vector code by itself. Pure functions, any thread.
 */
#define XXH_INLINE_ALL
#define XXH_NO_XXH32
#include <xxhash.h>

#include <string.h>

#include "base/hash_int.h"

#define HASH_CAT_(a, b) a##b
#define HASH_CAT(a, b) HASH_CAT_(a, b)

/*
 * Small enough that a piece is still in the first or second level of cache when it is hashed, large
 * enough that the calls don't show.
 */
#define HASH_PIECE_BYTES 16384u

uint64_t HASH_CAT(HASH_FN, xxh3)(const void *p, size_t n, uint64_t seed)
{
	return XXH3_64bits_withSeed(p, n, seed);
}

static uint64_t hash_copy_pieces(uint8_t *dst, const uint8_t *src, size_t n, uint64_t seed)
{
	XXH3_state_t st;
	size_t len;

	XXH3_INITSTATE(&st);
	XXH3_64bits_reset_withSeed(&st, seed);
	for (; n; n -= len, dst += len, src += len) {
		len = n < HASH_PIECE_BYTES ? n : HASH_PIECE_BYTES;
		memcpy(dst, src, len);
		XXH3_64bits_update(&st, dst, len);
	}
	return XXH3_64bits_digest(&st);
}

uint64_t HASH_CAT(HASH_FN, copy_xxh3)(void *dst, const void *src, size_t n, uint64_t seed)
{
	if (n > HASH_PIECE_BYTES)
		return hash_copy_pieces(dst, src, n, seed);
	memcpy(dst, src, n);
	return XXH3_64bits_withSeed(dst, n, seed);
}
