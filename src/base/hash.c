/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Picks the XXH3 code for this processor before main() and forwards to it; hash.h has the promises.
 * The choice is written once, by a constructor, and only read afterwards, so no thread needs to
 * synchronise.
 */
#include "base/hash.h"

#include <isa-l/crc.h>
#include <limits.h>
#include <string.h>

#include "base/hash_int.h"
#include "base/must.h"

#define HASH_STREAM_BYTES 16384u

/* Valid without the constructor, for constructors of others that run earlier. */
static struct hash_isa hash_best = {"base", NULL, hash_base_xxh3, hash_base_copy_xxh3,
				    hash_base_add};

__attribute__((constructor)) static void hash_pick(void)
{
	__builtin_cpu_init();
	for (unsigned i = 0; i < hash_isa_nr; i++) {
		if (hash_isa_list[i]->is_supported()) {
			hash_best = *hash_isa_list[i];
			return;
		}
	}
}

const char *hash_isa_name(void)
{
	return hash_best.name;
}

uint64_t hash_xxh3(const void *p, size_t n, uint64_t seed)
{
	return hash_best.xxh3(p, n, seed);
}

uint64_t hash_copy_xxh3(void *dst, const void *src, size_t n, uint64_t seed)
{
	return hash_best.copy_xxh3(dst, src, n, seed);
}

void hash_stream_init(struct hash_stream *st, uint64_t seed)
{
	hash_base_init(st, seed);
}

void hash_stream_add(struct hash_stream *st, const void *p, size_t n)
{
	hash_best.add(st, p, n);
}

void hash_stream_copy(struct hash_stream *st, void *dst, const void *src, size_t n)
{
	uint8_t *to = dst;
	const uint8_t *from = src;
	size_t len;

	/* In pieces that are still in the first levels of cache when they are hashed. */
	for (; n; n -= len, to += len, from += len) {
		len = n < HASH_STREAM_BYTES ? n : HASH_STREAM_BYTES;
		memcpy(to, from, len);
		__asm__ volatile("" : : : "memory");
		hash_best.add(st, to, len);
	}
}

uint64_t hash_stream_digest(const struct hash_stream *st)
{
	return hash_base_digest(st);
}

uint64_t hash_key(const uint8_t key[16], uint8_t len)
{
	uint64_t w[2];
	unsigned drop;

	must(len >= 1 && len <= 16);
	memcpy(w, key, 16);
	drop = 8 * (16u - len);
	/* Bytes behind len don't count; the two shifts keep each below the width of a word. */
	if (len <= 8) {
		w[1] = 0;
		w[0] = w[0] << (drop - 64) >> (drop - 64);
	} else {
		w[1] = w[1] << drop >> drop;
	}
	return hash_key_words(w, len);
}

uint32_t hash_crc32c(const void *p, size_t n, uint32_t seed)
{
	unsigned char *at = (unsigned char *)(uintptr_t)p;
	size_t len;

	/* ISA-L takes the raw register, hence the two inversions, and an int for the length. */
	seed = ~seed;
	for (; n; n -= len, at += len) {
		len = n < INT_MAX ? n : INT_MAX;
		seed = crc32_iscsi(at, (int)len, seed);
	}
	return ~seed;
}
