/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside base/ only: one set of hash functions per instruction set, and the list of those that this
 * program has. hash.c picks from it; the unit test compares all that the processor can run.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

struct hash_isa {
	const char *name;
	bool (*is_supported)(void);
	uint64_t (*xxh3)(const void *p, size_t n, uint64_t seed);
	uint64_t (*copy_xxh3)(void *dst, const void *src, size_t n, uint64_t seed);
	void (*add)(struct hash_stream *st, const void *p, size_t n);
};

/* Cheap enough to be the same for all. */
void hash_base_init(struct hash_stream *st, uint64_t seed);
uint64_t hash_base_digest(const struct hash_stream *st);

uint64_t hash_base_xxh3(const void *p, size_t n, uint64_t seed);
uint64_t hash_base_copy_xxh3(void *dst, const void *src, size_t n, uint64_t seed);
void hash_base_add(struct hash_stream *st, const void *p, size_t n);
uint64_t hash_avx2_xxh3(const void *p, size_t n, uint64_t seed);
uint64_t hash_avx2_copy_xxh3(void *dst, const void *src, size_t n, uint64_t seed);
void hash_avx2_add(struct hash_stream *st, const void *p, size_t n);
uint64_t hash_avx512_xxh3(const void *p, size_t n, uint64_t seed);
uint64_t hash_avx512_copy_xxh3(void *dst, const void *src, size_t n, uint64_t seed);
void hash_avx512_add(struct hash_stream *st, const void *p, size_t n);

/* Best first; the last one runs everywhere. */
extern const struct hash_isa *const hash_isa_list[];
extern const unsigned hash_isa_nr;
