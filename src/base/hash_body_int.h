/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of hash_base.c, hash_avx2.c and hash_avx512.c, which differ in compiler flags and in
 * HASH_FN, the prefix of the functions made here. xxHash's inline header sees the flags and
 * picks its vector code by itself. Pure functions, any thread.
 *
 * The long copy is a software pipeline over XXH3's blocks of 1 KiB: while block i of dst goes
 * through the multipliers, block i + 1 is copied, and the source 3 KiB further on is on its way
 * from memory. Copying and hashing use different parts of the core, so together they take little
 * more than the copy alone (Zen 3, AVX2, cold source, against plain memcpy: 64 KiB 1.05, 1 MiB 1.1,
 * 32 MiB 0.96; memcpy and streaming XXH3 by pieces of 16 KiB: 0.72, 0.76, 0.88).
 *
 * For that it uses four inner functions of xxhash.h, whose names and meaning are the same in 0.8.0
 * to 0.8.3; the unit test compares the result with the public function for every kind of length.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <assert.h>
#include <stdalign.h>
#include <string.h>

#include "base/hash_int.h"

#define HASH_CAT_(a, b) a##b
#define HASH_CAT(a, b) HASH_CAT_(a, b)

#define HASH_STRIPE_BYTES 64u
#define HASH_BLOCK_STRIPES 16u
#define HASH_BLOCK_BYTES (HASH_STRIPE_BYTES * HASH_BLOCK_STRIPES)
#define HASH_SECRET_BYTES 192u

/* How far ahead of the copy the source is asked for. */
#define HASH_AHEAD_BYTES 3072u

/* Up to here memcpy and XXH3 one after the other are faster: the pipeline has to fill. */
#define HASH_SHORT_BYTES 6144u

struct hash_long {
	XXH_ALIGN(64) uint64_t acc[8];
	XXH_ALIGN(64) uint8_t secret[HASH_SECRET_BYTES];
};

/* XXH3's long form: lane sums of one stripe, with the secret moved on by 8 bytes per stripe. */
XXH_FORCE_INLINE void hash_stripe(struct hash_long *h, const uint8_t *p, unsigned nr)
{
	XXH3_accumulate_512(h->acc, p, h->secret + 8 * nr);
}

XXH_FORCE_INLINE void hash_end_block(struct hash_long *h)
{
	XXH3_scrambleAcc(h->acc, h->secret + HASH_SECRET_BYTES - HASH_STRIPE_BYTES);
}

XXH_FORCE_INLINE void hash_copy_stripe(uint8_t *dst, const uint8_t *src)
{
	/* Never faults, so it may run past the end; what follows is often the next chunk anyway. */
	__builtin_prefetch(src + HASH_AHEAD_BYTES);
	memcpy(dst, src, HASH_STRIPE_BYTES);
}

/* Hashes the block at `done` and copies the one behind it meanwhile. */
XXH_FORCE_INLINE void hash_step(struct hash_long *h, uint8_t *done, const uint8_t *src)
{
	uint8_t *dst = done + HASH_BLOCK_BYTES;

	for (unsigned i = 0; i < HASH_BLOCK_STRIPES; i++) {
		hash_copy_stripe(dst + i * HASH_STRIPE_BYTES, src + i * HASH_STRIPE_BYTES);
		hash_stripe(h, done + i * HASH_STRIPE_BYTES, i);
	}
	hash_end_block(h);
	/*
	 * What is hashed is what a reader of dst sees: nothing of it may stay behind in
	 * registers.
	 */
	__asm__ volatile("" : : : "memory");
}

/* n > HASH_BLOCK_BYTES. The last block, 1 to 1024 bytes, has its own rule in XXH3. */
static uint64_t hash_copy_long(uint8_t *dst, const uint8_t *src, size_t n, uint64_t seed)
{
	struct hash_long h = {.acc = XXH3_INIT_ACC};
	size_t last = (n - 1) / HASH_BLOCK_BYTES * HASH_BLOCK_BYTES, at;
	unsigned nr_stripes = (unsigned)((n - 1 - last) / HASH_STRIPE_BYTES);

	XXH3_initCustomSecret(h.secret, seed);
	for (unsigned i = 0; i < HASH_BLOCK_STRIPES; i++)
		hash_copy_stripe(dst + i * HASH_STRIPE_BYTES, src + i * HASH_STRIPE_BYTES);
	for (at = 0; at + HASH_BLOCK_BYTES < last; at += HASH_BLOCK_BYTES)
		hash_step(&h, dst + at, src + at + HASH_BLOCK_BYTES);
	memcpy(dst + last, src + last, n - last);
	__asm__ volatile("" : : : "memory");
	for (unsigned i = 0; i < HASH_BLOCK_STRIPES; i++)
		hash_stripe(&h, dst + at + i * HASH_STRIPE_BYTES, i);
	hash_end_block(&h);
	for (unsigned i = 0; i < nr_stripes; i++)
		hash_stripe(&h, dst + last + i * HASH_STRIPE_BYTES, i);
	XXH3_accumulate_512(h.acc, dst + n - HASH_STRIPE_BYTES,
			    h.secret + HASH_SECRET_BYTES - HASH_STRIPE_BYTES -
				    XXH_SECRET_LASTACC_START);
	return XXH3_mergeAccs(h.acc, h.secret + XXH_SECRET_MERGEACCS_START, n * XXH_PRIME64_1);
}

uint64_t HASH_CAT(HASH_FN, xxh3)(const void *p, size_t n, uint64_t seed)
{
	return XXH3_64bits_withSeed(p, n, seed);
}

uint64_t HASH_CAT(HASH_FN, copy_xxh3)(void *dst, const void *src, size_t n, uint64_t seed)
{
	if (n > HASH_SHORT_BYTES)
		return hash_copy_long(dst, src, n, seed);
	memcpy(dst, src, n);
	__asm__ volatile("" : : : "memory");
	return XXH3_64bits_withSeed(dst, n, seed);
}

static_assert(sizeof(XXH3_state_t) == sizeof(struct hash_stream), "room for xxHash's state");
static_assert(alignof(XXH3_state_t) == alignof(struct hash_stream), "aligned like xxHash's state");

void HASH_CAT(HASH_FN, add)(struct hash_stream *st, const void *p, size_t n)
{
	XXH3_64bits_update((XXH3_state_t *)st, p, n);
}
