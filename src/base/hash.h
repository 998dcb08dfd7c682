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

/*
 * CRC32C (Castagnoli, reflected) as RFC 3720 has it: seed 0 for the first piece, the previous
 * result for each further piece.
 */
uint32_t hash_crc32c(const void *p, size_t n, uint32_t seed);

/* The name of what was chosen: "avx512", "avx2" or "base". */
const char *hash_isa_name(void);
