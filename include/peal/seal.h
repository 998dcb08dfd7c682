/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seals: the checksums that travel with a value from whoever first had its bytes to whoever uses
 * them.
 *
 * A value is cut into chunks of PEAL_CHUNK_BYTES, the last one being what is left, so a value of
 * len bytes has peal_seal_count(len) chunks. The seal of a chunk is
 *
 * 	XXH3-64(bytes of the chunk, seed = h + (chunk + 1) * 0x9E3779B97F4A7C15)      (mod 2^64)
 *
 * with chunk counted from 0 and h = XXH3-64(seed 0) over 17 bytes: the key's length (1 to 16) as
 * one byte, then the key padded with zeros to 16. "XXH3-64" with a seed is XXH3_64bits_withSeed()
 * of xxHash 0.8.
 *
 * The seed binds the seal to its place: bytes of another key, or of another chunk of the same key,
 * don't pass. Seals are stored and sent as little-endian 64-bit numbers. They detect damage; they
 * are not authentication. Only stdint and stddef are used here, so that CUDA, HIP, C++17 and C11
 * can include it.
 */
#ifndef PEAL_SEAL_H
#define PEAL_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef PEAL_INLINE
#if defined(__CUDACC__) || defined(__HIPCC__)
#define PEAL_INLINE static inline __host__ __device__
#else
#define PEAL_INLINE static inline
#endif
#endif

#define PEAL_SEAL_STEP 0x9E3779B97F4A7C15ull

/* h of the formula above; key[] has 16 bytes of which the first key_len count. In libpeal. */
uint64_t peal_key_hash(const uint8_t key[16], uint8_t key_len);

/* The seal of one chunk; n is its length, at most PEAL_CHUNK_BYTES. In libpeal. */
uint64_t peal_seal(const void *chunk, size_t n, uint64_t seed);

/* The seed of one chunk from the key's hash, for those who seal more than one chunk of a value. */
PEAL_INLINE uint64_t peal_seal_seed_at(uint64_t key_hash, uint64_t chunk_no)
{
	return key_hash + (chunk_no + 1) * PEAL_SEAL_STEP;
}

/* The seed of one chunk from the key itself; it needs peal_key_hash(), so host code only. */
static inline uint64_t peal_seal_seed(const uint8_t key[16], uint8_t key_len, uint64_t chunk_no)
{
	return peal_seal_seed_at(peal_key_hash(key, key_len), chunk_no);
}

/* How many chunks, and so seals, a value of len bytes has. */
PEAL_INLINE uint64_t peal_seal_count(uint64_t len)
{
	return (len + PEAL_CHUNK_BYTES - 1) / PEAL_CHUNK_BYTES;
}

/* The length of chunk number chunk_no of a value of len bytes; 0 behind the end. */
PEAL_INLINE uint32_t peal_seal_chunk_len(uint64_t len, uint64_t chunk_no)
{
	uint64_t at = chunk_no * PEAL_CHUNK_BYTES;

	if (at >= len)
		return 0;
	return len - at < PEAL_CHUNK_BYTES ? (uint32_t)(len - at) : PEAL_CHUNK_BYTES;
}

#ifdef __cplusplus
}
#endif

#endif
