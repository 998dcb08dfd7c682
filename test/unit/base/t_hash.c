/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash.h: known numbers, every instruction set that this processor has gives the same ones for
 * every length and alignment that takes another path, the copy is a copy, and the key hash is what
 * include/peal/seal.h defines. One thread.
 */
#include "unit.h"

#include <string.h>

#include "base/hash.h"
#include "base/hash_int.h"
#include "base/rng.h"
#include "peal/seal.h"

#define BUF_BYTES (300 * 1024)

/* The buffer that xxHash's own sanity check uses, so that its published numbers can stand here. */
static void fill_sanity(uint8_t *buf, size_t n)
{
	uint64_t gen = 2654435761u;

	for (size_t i = 0; i < n; i++) {
		buf[i] = (uint8_t)(gen >> 56);
		gen *= 11400714785074694797ull;
	}
}

static void t_xxh3_vectors(void **state)
{
	static const uint64_t prime64 = 11400714785074694797ull;
	static const struct {
		size_t n;
		uint64_t seed, want;
	} cases[] = {
		{0, 0, 0x2D06800538D394C2ull},	       {1, 0, 0xC44BDFF4074EECDBull},
		{6, 0, 0x27B56A84CD2D7325ull},	       {12, 0, 0xA713DAF0DFBB77E7ull},
		{24, 0, 0xA3FE70BF9D3510EBull},	       {48, 0, 0x397DA259ECBA1F11ull},
		{80, 0, 0xBCDEFBBB2C47C90Aull},	       {195, 0, 0xCD94217EE362EC3Aull},
		{403, 0, 0xCDEB804D65C6DEA4ull},       {512, 0, 0x617E49599013CB6Bull},
		{2048, 0, 0xDD59E2C3A5F038E0ull},      {0, prime64, 0xA8A6B918B2F0364Aull},
		{403, prime64, 0x6259F6ECFD6443FDull}, {2048, prime64, 0x66F81670669ABABCull},
	};
	uint8_t buf[2048];

	fill_sanity(buf, sizeof(buf));
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(hash_xxh3(buf, cases[i].n, cases[i].seed), cases[i].want);
}

/* Lengths at which XXH3 or the copy changes its path, and their neighbours. */
static const size_t lens[] = {0,     1,	    3,	   4,	  8,	  9,	 16,	17,
			      128,   129,   240,   241,	  256,	  512,	 1023,	1024,
			      1025,  4095,  4096,  4097,  16383,  16384, 16385, 32768,
			      40001, 65535, 65536, 65537, 262144, 300000};

static void check_len(const struct hash_isa *isa, uint8_t *src, uint8_t *dst, size_t n,
		      uint64_t seed)
{
	uint64_t want = hash_base_xxh3(src, n, seed);

	memset(dst, 0xEE, n);
	dst[n] = 0xA5;
	assert_int_equal(isa->xxh3(src, n, seed), want);
	assert_int_equal(isa->copy_xxh3(dst, src, n, seed), want);
	assert_memory_equal(dst, src, n);
	assert_int_equal(dst[n], 0xA5);
}

static void t_isas_agree(void **state)
{
	uint8_t *src = malloc(BUF_BYTES + 64), *dst = malloc(BUF_BYTES + 64);
	unsigned nr_tried = 0;
	struct rng r;

	assert_non_null(src);
	assert_non_null(dst);
	rng_init(&r, unit_seed(1));
	rng_fill(&r, src, BUF_BYTES + 64);
	for (unsigned i = 0; i < hash_isa_nr; i++) {
		if (!hash_isa_list[i]->is_supported()) {
			printf("this processor has no %s\n", hash_isa_list[i]->name);
			continue;
		}
		nr_tried++;
		for (unsigned k = 0; k < sizeof(lens) / sizeof(lens[0]); k++)
			check_len(hash_isa_list[i], src, dst, lens[k], rng_u64(&r));
		for (int k = 0; k < 200; k++)
			check_len(hash_isa_list[i], src + rng_below(&r, 63),
				  dst + rng_below(&r, 63), rng_below(&r, BUF_BYTES),
				  k % 4 ? rng_u64(&r) : 0);
	}
	assert_true(nr_tried >= 1);
	assert_non_null(hash_isa_name());
	free(src);
	free(dst);
}

static void t_front_door(void **state)
{
	uint8_t src[20000], dst[20000];
	struct rng r;

	rng_init(&r, unit_seed(2));
	rng_fill(&r, src, sizeof(src));
	assert_int_equal(hash_copy_xxh3(dst, src, sizeof(src), 5), hash_xxh3(src, sizeof(src), 5));
	assert_memory_equal(src, dst, sizeof(src));
	dst[777] ^= 1;
	assert_int_not_equal(hash_xxh3(dst, sizeof(src), 5), hash_xxh3(src, sizeof(src), 5));
	assert_int_not_equal(hash_xxh3(src, sizeof(src), 6), hash_xxh3(src, sizeof(src), 5));
}

static void t_key(void **state)
{
	uint8_t img[17] = {3, 'a', 'b', 'c'};
	uint8_t key[16] = {'a', 'b', 'c'}, dirty[16] = {'a', 'b', 'c', 'd'};
	uint64_t h = hash_key(key, 3);

	assert_int_equal(h, hash_xxh3(img, sizeof(img), 0));
	/* Only the key's own bytes count, and its length does. */
	assert_int_equal(hash_key(dirty, 3), h);
	assert_int_not_equal(hash_key(key, 4), h);
	assert_int_equal(peal_seal_seed_at(h, 0), h + 0x9E3779B97F4A7C15ull);
	assert_int_equal(peal_seal_seed_at(h, 2), h + 3 * 0x9E3779B97F4A7C15ull);
}

/* The written-out form against xxHash, over random keys of every length. */
static void t_key_random(void **state)
{
	uint64_t w[2];
	uint8_t img[17];
	struct rng r;

	rng_init(&r, unit_seed(3));
	for (unsigned i = 0; i < 16000; i++) {
		img[0] = (uint8_t)(i % 16 + 1);
		memset(img + 1, 0, 16);
		rng_fill(&r, img + 1, img[0]);
		memcpy(w, img + 1, 16);
		assert_int_equal(hash_key_words(w, img[0]), hash_xxh3(img, sizeof(img), 0));
		assert_int_equal(hash_key(img + 1, img[0]), hash_xxh3(img, sizeof(img), 0));
	}
}

static void t_chunks(void **state)
{
	assert_int_equal(peal_seal_count(0), 0);
	assert_int_equal(peal_seal_count(1), 1);
	assert_int_equal(peal_seal_count(65536), 1);
	assert_int_equal(peal_seal_count(65537), 2);
	assert_int_equal(peal_seal_chunk_len(65537, 0), 65536);
	assert_int_equal(peal_seal_chunk_len(65537, 1), 1);
	assert_int_equal(peal_seal_chunk_len(65537, 2), 0);
	assert_int_equal(peal_seal_chunk_len(100, 0), 100);
}

/* RFC 3720, appendix B.4. */
static void t_crc32c(void **state)
{
	uint8_t buf[32];

	memset(buf, 0, sizeof(buf));
	assert_int_equal(hash_crc32c(buf, 32, 0), 0x8A9136AAu);
	memset(buf, 0xFF, sizeof(buf));
	assert_int_equal(hash_crc32c(buf, 32, 0), 0x62A8AB43u);
	for (unsigned i = 0; i < 32; i++)
		buf[i] = (uint8_t)i;
	assert_int_equal(hash_crc32c(buf, 32, 0), 0x46DD794Eu);
	assert_int_equal(hash_crc32c("123456789", 9, 0), 0xE3069283u);
	assert_int_equal(hash_crc32c("56789", 5, hash_crc32c("1234", 4, 0)), 0xE3069283u);
	assert_int_equal(hash_crc32c(buf, 0, 7), 7);
}

/* Any cut into pieces, copied or not, hashes like the whole, with every instruction set. */
static void t_stream(void **state)
{
	uint8_t *src = malloc(BUF_BYTES), *dst = malloc(BUF_BYTES);
	struct rng r;

	assert_non_null(src);
	assert_non_null(dst);
	rng_init(&r, unit_seed(5));
	rng_fill(&r, src, BUF_BYTES);
	for (int i = 0; i < 600; i++) {
		size_t n = rng_below(&r, BUF_BYTES >> rng_below(&r, 18)), at = 0, len;
		size_t most = 1 + rng_below(&r, 40000 >> rng_below(&r, 15));
		const struct hash_isa *isa = hash_isa_list[i % hash_isa_nr];
		uint64_t seed = rng_u64(&r);
		struct hash_stream st, copied;

		if (!isa->is_supported())
			continue;
		hash_stream_init(&st, seed);
		hash_stream_init(&copied, seed);
		memset(dst, 0xEE, n);
		for (; at < n; at += len) {
			len = 1 + rng_below(&r, most);
			len = len < n - at ? len : n - at;
			isa->add(&st, src + at, len);
			hash_stream_copy(&copied, dst + at, src + at, len);
		}
		assert_memory_equal(dst, src, n);
		assert_int_equal(hash_stream_digest(&st), hash_xxh3(src, n, seed));
		assert_int_equal(hash_stream_digest(&copied), hash_xxh3(src, n, seed));
	}
	free(src);
	free(dst);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_xxh3_vectors), cmocka_unit_test(t_isas_agree),
		cmocka_unit_test(t_stream),	  cmocka_unit_test(t_front_door),
		cmocka_unit_test(t_key),	  cmocka_unit_test(t_key_random),
		cmocka_unit_test(t_chunks),	  cmocka_unit_test(t_crc32c),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
