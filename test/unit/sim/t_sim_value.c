/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_value: keys against an independent BLAKE2b, values that are the same however they are cut,
 * and every kind of fault found at its byte. One thread.
 */
#include "unit.h"

#include <string.h>

#include "base/rng.h"
#include "sim/sim_value.h"

/* Made with Python: hashlib.blake2b(b"peal-trace" + struct.pack("<QQ", 7, 12)).digest()[:16] */
static void t_key(void **state)
{
	static const uint8_t want[SIM_KEY_BYTES] = {0xdd, 0x03, 0x89, 0xbc, 0x3b, 0x10, 0x8d, 0x8f,
						    0x60, 0xd3, 0x95, 0x0c, 0xb3, 0x83, 0xb2, 0x99};
	uint8_t key[SIM_KEY_BYTES];

	sim_value_key(key, 7, 12);
	assert_memory_equal(key, want, sizeof(want));
	sim_value_key(key, 12, 7);
	assert_memory_not_equal(key, want, sizeof(want));
}

#define VALUE_BYTES 8192

static uint8_t whole[VALUE_BYTES];
static uint8_t piece[VALUE_BYTES + 16];

/* Any cut of a value is the same bytes, at any alignment, and nothing around it is touched. */
static void t_cuts(void **state)
{
	uint8_t key[SIM_KEY_BYTES];
	struct rng r;

	rng_init(&r, unit_seed(1));
	sim_value_key(key, 1, 2);
	sim_value_fill(key, 0, whole, sizeof(whole));
	for (int n = 0; n < 2000; n++) {
		size_t off = rng_below(&r, VALUE_BYTES);
		size_t max = n % 2 ? 40 : VALUE_BYTES;
		size_t len = rng_below(&r, (VALUE_BYTES - off < max ? VALUE_BYTES - off : max) + 1);
		uint8_t *at = piece + 1 + rng_below(&r, 8);

		memset(piece, 0xEE, sizeof(piece));
		sim_value_fill(key, off, at, len);
		assert_memory_equal(at, whole + off, len);
		assert_int_equal(at[-1], 0xEE);
		assert_int_equal(at[len], 0xEE);
		assert_int_equal(sim_value_check(key, off, at, len), -1);
	}
}

/* One flipped bit is found at its byte, wherever it is. */
static void t_flips(void **state)
{
	uint8_t key[SIM_KEY_BYTES];
	struct rng r;

	rng_init(&r, unit_seed(2));
	sim_value_key(key, 3, 4);
	for (int n = 0; n < 4000; n++) {
		uint64_t off = rng_below(&r, 1000) * (n % 3 ? 1 : 1ull << 33);
		size_t len = 1 + rng_below(&r, n % 2 ? 64 : 4096);
		size_t wrong = rng_below(&r, len);
		size_t also = wrong + rng_below(&r, len - wrong);

		sim_value_fill(key, off, piece, len);
		piece[wrong] ^= (uint8_t)(1u << rng_below(&r, 8));
		if (also != wrong)
			piece[also] ^= 0xFF;
		assert_int_equal(sim_value_check(key, off, piece, len), wrong);
	}
}

/* A value in the wrong place, of the wrong key or seed, or shifted, is wrong at once. */
static void t_mixups(void **state)
{
	uint8_t key[SIM_KEY_BYTES];
	uint8_t other[SIM_KEY_BYTES];
	struct rng r;

	rng_init(&r, unit_seed(3));
	for (int n = 0; n < 2000; n++) {
		uint64_t id = rng_u64(&r);
		uint64_t shift = 1 + rng_below(&r, 1 << 20);

		sim_value_key(key, 5, id);
		sim_value_fill(key, 0, piece, 4096);
		sim_value_key(other, 5, id ^ (1ull << rng_below(&r, 64)));
		assert_in_range(sim_value_check(other, 0, piece, 4096), 0, 7);
		sim_value_key(other, 6, id);
		assert_in_range(sim_value_check(other, 0, piece, 4096), 0, 7);
		assert_in_range(sim_value_check(key, shift, piece, 4096), 0, 7);
	}
}

/* No short cycle and no constant part: each of the 64 bit columns is about half ones. */
static void t_spread(void **state)
{
	enum { NR = VALUE_BYTES / 8 };
	uint8_t key[SIM_KEY_BYTES];
	uint32_t ones[64] = {0};

	sim_value_key(key, 8, 9);
	sim_value_fill(key, 0, whole, sizeof(whole));
	for (size_t i = 0; i < NR; i++) {
		uint64_t w;

		memcpy(&w, whole + 8 * i, 8);
		for (int b = 0; b < 64; b++)
			ones[b] += w >> b & 1;
		for (size_t j = 0; j < i; j++)
			assert_memory_not_equal(whole + 8 * i, whole + 8 * j, 8);
	}
	for (int b = 0; b < 64; b++)
		assert_in_range(ones[b], NR / 2 - NR / 8, NR / 2 + NR / 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_key),    cmocka_unit_test(t_cuts),	cmocka_unit_test(t_flips),
		cmocka_unit_test(t_mixups), cmocka_unit_test(t_spread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
