/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes and HMAC by the examples of FIPS 180 and RFC 4231; both sides of each group come to the
 * same; values that give the secret away are refused.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "transport/tcp/tcp_crypt.h"

static void test_hash(void **state)
{
	static const uint8_t abc[3][8] = {{0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea},
					  {0xcb, 0x00, 0x75, 0x3f, 0x45, 0xa3, 0x5e, 0x8b},
					  {0xdd, 0xaf, 0x35, 0xa1, 0x93, 0x61, 0x7a, 0xba}};
	static const uint8_t jefe[3][8] = {{0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e},
					   {0xaf, 0x45, 0xd2, 0xe3, 0x76, 0x48, 0x40, 0x31},
					   {0x16, 0x4b, 0x7a, 0x7b, 0xfc, 0xf8, 0x19, 0xe2}};
	const struct tcp_crypt_part in[] = {{"what do ya ", 11}, {"want for nothing?", 17}};
	uint8_t out[NVMF_HASH_MAX];

	for (uint8_t h = NVMF_HASH_SHA256; h <= NVMF_HASH_SHA512; h++) {
		assert_int_equal(tcp_crypt_hash(h, (struct tcp_crypt_part){"abc", 3}, out), 0);
		assert_memory_equal(out, abc[h - 1], 8);
		assert_int_equal(tcp_crypt_hmac(h, (struct tcp_crypt_part){"Jefe", 4}, in, 2, out),
				 0);
		assert_memory_equal(out, jefe[h - 1], 8);
	}
}

static void test_groups(void **state)
{
	uint8_t pub[2][NVMF_GROUP_MAX], shared[2][NVMF_GROUP_MAX];
	struct tcp_crypt_dh *dh[2];

	for (uint8_t g = NVMF_GROUP_2048; g <= NVMF_GROUP_8192; g++) {
		uint32_t bytes = nvmf_group_bytes(g);

		for (unsigned i = 0; i < 2; i++)
			assert_int_equal(tcp_crypt_dh_create(g, &dh[i], pub[i]), 0);
		for (unsigned i = 0; i < 2; i++)
			assert_int_equal(tcp_crypt_dh_derive(dh[i], pub[1 - i], shared[i]), 0);
		assert_memory_equal(shared[0], shared[1], bytes);
		assert_memory_not_equal(pub[0], pub[1], bytes);
		/* 0, 1 and, beyond p, all ones. */
		memset(pub[1], 0, bytes);
		assert_int_equal(tcp_crypt_dh_derive(dh[0], pub[1], shared[0]), -EBADMSG);
		pub[1][bytes - 1] = 1;
		assert_int_equal(tcp_crypt_dh_derive(dh[0], pub[1], shared[0]), -EBADMSG);
		memset(pub[1], 0xff, bytes);
		assert_int_equal(tcp_crypt_dh_derive(dh[0], pub[1], shared[0]), -EBADMSG);
		for (unsigned i = 0; i < 2; i++)
			tcp_crypt_dh_destroy(dh[i]);
	}
}

static void test_rest(void **state)
{
	uint8_t a[32] = {0}, b[32] = {0};

	assert_true(tcp_crypt_is_same(a, b, 32));
	assert_int_equal(tcp_crypt_random(a, 32), 0);
	assert_false(tcp_crypt_is_same(a, b, 32));
	tcp_crypt_wipe(a, 32);
	assert_true(tcp_crypt_is_same(a, b, 32));
	tcp_crypt_dh_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hash),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_rest),
	};

	if (!tcp_crypt_is_there())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
