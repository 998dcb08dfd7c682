/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checksums. XXH3-64 is what seals values (include/peal/seal.h says how); CRC32C is what
 * NVMe/TCP digests and on-disk headers use. hash_copy_xxh3() is the inner loop of everything that
 * moves a value: it copies and checks in one pass through the cache.
 *
 * The instruction set (AVX-512, AVX2, or the machine's baseline) is chosen once, before main(); all
 * give the same numbers. Pure functions, any thread.
 */
#pragma once

#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

/* XXH3-64 of n bytes. */
uint64_t hash_xxh3(const void *p, size_t n, uint64_t seed);

/*
 * Copies n bytes from src to dst, which must not overlap, and gives XXH3-64 of the bytes as they
 * are in dst after the copy: the source may be memory that another process changes while we read,
 * and what was delivered is what must be checked.
 */
uint64_t hash_copy_xxh3(void *dst, const void *src, size_t n, uint64_t seed);

/*
 * The same hash over bytes that come in pieces. hash_stream_copy() also copies the piece, and what
 * counts is again what is in dst afterwards. Pieces of a few KiB cost about a tenth more than one.
 */
struct hash_stream {
	alignas(64) uint8_t state[576];
};

void hash_stream_init(struct hash_stream *st, uint64_t seed);
void hash_stream_add(struct hash_stream *st, const void *p, size_t n);
void hash_stream_copy(struct hash_stream *st, void *dst, const void *src, size_t n);
uint64_t hash_stream_digest(const struct hash_stream *st);

/*
 * The hash of a key that seals are seeded from: XXH3-64, seed 0, over 17 bytes {len, 16 bytes of
 * key padded with zeros}. The same as peal_key_hash() of include/peal/seal.h.
 */
uint64_t hash_key(const uint8_t key[16], uint8_t len);
/* The same of a key that is zero behind its length, as two words in memory order. */
static inline uint64_t hash_key_words(const uint64_t w[2], uint8_t len);

/*
 * CRC32C (Castagnoli, reflected) as RFC 3720 has it: seed 0 for the first piece, the previous
 * result for each further piece.
 */
uint32_t hash_crc32c(const void *p, size_t n, uint32_t seed);

/* The name of what was chosen: "avx512", "avx2" or "base". */
const char *hash_isa_name(void);

/*
 * XXH3_64bits() of 17 bytes written out (xxHash 0.8, XXH3_len_17to128_64b): both 16-byte windows of
 * {len, w}, each mixed with its 16 bytes of the default secret by a folded multiplication, then the
 * avalanche. Twenty instructions where the general function takes a hundred, and every command
 * hashes a key.
 */
static inline uint64_t hash_fold(uint64_t a, uint64_t b)
{
	__uint128_t x = (__uint128_t)a * b;

	return (uint64_t)x ^ (uint64_t)(x >> 64);
}

static inline uint64_t hash_key_words(const uint64_t w[2], uint8_t len)
{
	uint64_t h = 17 * 0x9e3779b185ebca87u;

	h += hash_fold((w[0] << 8 | len) ^ 0xbe4ba423396cfeb8u,
		       (w[1] << 8 | w[0] >> 56) ^ 0x1cad21f72c81017cu);
	h += hash_fold(w[0] ^ 0xdb979083e96dd4deu, w[1] ^ 0x1f67b3b7a4a44072u);
	h = (h ^ h >> 37) * 0x165667919e3779f9u;
	return h ^ h >> 32;
}
