/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse.h: what is read, what is refused and with which error, and that keys survive the way out
 * and back. One thread.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/container.h"
#include "base/parse.h"
#include "base/rng.h"

static void t_size_good(void **state)
{
	static const struct {
		const char *s;
		uint64_t want;
	} cases[] = {
		{"0", 0},
		{"4096", 4096},
		{"4096B", 4096},
		{"64k", 65536},
		{"512KB", 524288},
		{"8G", 8ull << 30},
		{"8 GiB", 8ull << 30},
		{"1.5GiB", 3ull << 29},
		{"0.5k", 512},
		{"1.0000000001k", 1024},
		{"2T", 2ull << 40},
		{"15E", 15ull << 60},
		{"18446744073709551615", UINT64_MAX},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t v = 1;

		assert_int_equal(parse_size(cases[i].s, &v), 0);
		assert_int_equal(v, cases[i].want);
	}
}

static void t_size_bad(void **state)
{
	static const char *const bad[] = {"",	 " 1",	 "-1",	 "+1",	  "x",	 "1x",
					  "1.5", "1.5B", "1.k",	 ".5k",	  "1kk", "1kiB ",
					  "1i",	 "1ki",	 "0x10", "1 \tk", "1,5G"};
	static const char *const big[] = {"18446744073709551616", "16E", "99999999999999999999G"};
	uint64_t v = 42;

	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(parse_size(bad[i], &v), -EINVAL);
	for (unsigned i = 0; i < ARRAY_SIZE(big); i++)
		assert_int_equal(parse_size(big[i], &v), -ERANGE);
	assert_int_equal(v, 42);
}

static void t_u64(void **state)
{
	uint64_t v = 42;

	assert_int_equal(parse_u64("", &v), -EINVAL);
	assert_int_equal(parse_u64("0x", &v), -EINVAL);
	assert_int_equal(parse_u64("1 ", &v), -EINVAL);
	assert_int_equal(parse_u64("-1", &v), -EINVAL);
	assert_int_equal(parse_u64("1f", &v), -EINVAL);
	assert_int_equal(parse_u64("18446744073709551616", &v), -ERANGE);
	assert_int_equal(parse_u64("0x10000000000000000", &v), -ERANGE);
	assert_int_equal(v, 42);
	assert_int_equal(parse_u64("007", &v), 0);
	assert_int_equal(v, 7);
	assert_int_equal(parse_u64("0xfFfFfFfFfFfFfFfF", &v), 0);
	assert_int_equal(v, UINT64_MAX);
}

static void t_within(void **state)
{
	char text[PARSE_EXPECTED_BYTES] = "untouched";
	uint64_t v = 42;

	assert_int_equal(parse_size_within("1M", 1 << 20, 2 << 20, &v, text), 0);
	assert_int_equal(v, 1 << 20);
	assert_int_equal(parse_u64_within("32", 1, 32, &v, text), 0);
	assert_int_equal(v, 32);
	assert_string_equal(text, "untouched");

	assert_int_equal(parse_size_within("1023K", 1 << 20, 2 << 20, &v, text), -ERANGE);
	assert_string_equal(text, "a size from 1.0 MiB to 2.0 MiB, as in 64K or 8G");
	assert_int_equal(parse_size_within("lots", 1, UINT64_MAX, &v, text), -EINVAL);
	assert_string_equal(text, "a size from 1 B to 15.9 EiB, as in 64K or 8G");
	assert_int_equal(parse_u64_within("0", 1, 32, &v, text), -ERANGE);
	assert_string_equal(text, "a number from 1 to 32");
	assert_int_equal(parse_u64_within("x", 0, UINT64_MAX, &v, text), -EINVAL);
	assert_string_equal(text, "a number from 0 to 18446744073709551615");
	assert_int_equal(v, 32);
}

static void t_key(void **state)
{
	static const uint8_t zeros[16];
	uint8_t key[16], len = 0;

	memset(key, 0xEE, sizeof(key));
	assert_int_equal(parse_key("a", key, &len), 0);
	assert_int_equal(len, 1);
	assert_int_equal(key[0], 'a');
	assert_memory_equal(key + 1, zeros, 15);
	assert_int_equal(parse_key("0123456789abcdef", key, &len), 0);
	assert_int_equal(len, 16);
	assert_memory_equal(key, "0123456789abcdef", 16);
	assert_int_equal(parse_key("0X00fF", key, &len), 0);
	assert_int_equal(len, 2);
	assert_int_equal(key[0], 0);
	assert_int_equal(key[1], 0xff);
	assert_memory_equal(key + 2, zeros, 14);

	assert_int_equal(parse_key("", key, &len), -EINVAL);
	assert_int_equal(parse_key("0x", key, &len), -EINVAL);
	assert_int_equal(parse_key("0xabc", key, &len), -EINVAL);
	assert_int_equal(parse_key("0x0g", key, &len), -EINVAL);
	assert_int_equal(parse_key("0123456789abcdefg", key, &len), -ERANGE);
	assert_int_equal(parse_key("0x0123456789abcdef0123456789abcdef01", key, &len), -ERANGE);
	assert_int_equal(len, 2);
	assert_int_equal(key[1], 0xff);
}

static void t_key_round_trip(void **state)
{
	char text[PARSE_KEY_TEXT_BYTES];
	uint8_t key[16], back[16], len;
	struct rng r;

	rng_init(&r, unit_seed(1));
	for (uint8_t n = 1; n <= 16; n++) {
		memset(key, 0, sizeof(key));
		rng_fill(&r, key, n);
		format_key(key, n, text);
		assert_int_equal(strlen(text), 2u + 2u * n);
		assert_int_equal(parse_key(text, back, &len), 0);
		assert_int_equal(len, n);
		assert_memory_equal(key, back, 16);
	}
}

static void t_format_size(void **state)
{
	static const struct {
		uint64_t v;
		const char *want;
	} cases[] = {
		{0, "0 B"},
		{1023, "1023 B"},
		{1024, "1.0 KiB"},
		{1536, "1.5 KiB"},
		{1048575, "1023.9 KiB"},
		{1048576, "1.0 MiB"},
		{3ull << 29, "1.5 GiB"},
		{UINT64_MAX, "15.9 EiB"},
	};
	char buf[16];

	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		format_size(cases[i].v, buf);
		assert_string_equal(buf, cases[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_size_good),	 cmocka_unit_test(t_size_bad),
		cmocka_unit_test(t_u64),	 cmocka_unit_test(t_within),
		cmocka_unit_test(t_key),	 cmocka_unit_test(t_key_round_trip),
		cmocka_unit_test(t_format_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
