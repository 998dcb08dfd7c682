/* SPDX-License-Identifier: Apache-2.0 */
/* The exported seal functions against the formula of peal/seal.h, computed from xxHash itself. */
#include "unit.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "peal/seal.h"

static void test_formula(void **state)
{
	uint8_t key[16] = "a key", image[17] = {5}, v[1000];
	uint64_t h;

	memcpy(image + 1, key, 16);
	h = XXH3_64bits(image, sizeof(image));
	memset(v, 7, sizeof(v));
	assert_int_equal(peal_key_hash(key, 5), h);
	assert_int_equal(peal_seal(v, sizeof(v), peal_seal_seed(key, 5, 3)),
			 XXH3_64bits_withSeed(v, sizeof(v), h + 4 * PEAL_SEAL_STEP));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formula),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
