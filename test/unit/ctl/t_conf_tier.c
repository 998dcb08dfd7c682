/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line that names a namespace's tiers: what is accepted, what is refused and how that is said.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/parse.h"
#include "ctl/conf.h"

static void test_good(void **state)
{
	static struct conf_ns ns;
	char expected[OPT_EXPECTED_BYTES], value[OPT_VALUE_BYTES];

	assert_int_equal(conf_tier_parse(&ns, "dram 8G", expected), 0);
	assert_int_equal(ns.nr_tiers, 1);
	assert_int_equal(ns.tiers[0].kind, CONF_TIER_DRAM);
	assert_int_equal(ns.tiers[0].bytes, 8ull << 30);
	conf_tier_print(&ns, value);
	assert_string_equal(value, "dram 8589934592");
	assert_int_equal(conf_tier_parse(&ns, "  dram \t 1M ", expected), 0);
	assert_int_equal(ns.tiers[0].bytes, 1 << 20);
	assert_int_equal(conf_tier_parse(&ns, "dram 1G|ssd /data/peal 500G", expected), 0);
	assert_int_equal(ns.nr_tiers, 2);
	assert_int_equal(ns.tiers[1].kind, CONF_TIER_SSD);
	assert_int_equal(ns.tiers[1].bytes, 500ull << 30);
	assert_int_equal(ns.tiers[1].nr_devices, 1);
	assert_string_equal(ns.tiers[1].devices[0].path, "/data/peal");
}

/* A comma ends a size, and is a part of a path. */
static void test_several(void **state)
{
	static const char *const same[] = {
		"dram 1G | ssd /a 500G, /b,c 1T, /d 2G",
		"dram 1G|ssd /a 500G,/b,c 1T,/d 2G",
		"dram 1073741824 | ssd /a 536870912000, /b,c 1099511627776, /d 2147483648",
	};
	static struct conf_ns ns;
	char expected[OPT_EXPECTED_BYTES], value[OPT_VALUE_BYTES];

	for (unsigned i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		assert_int_equal(conf_tier_parse(&ns, same[i], expected), 0);
		assert_int_equal(ns.nr_tiers, 2);
		assert_int_equal(ns.tiers[1].nr_devices, 3);
		assert_string_equal(ns.tiers[1].devices[1].path, "/b,c");
		assert_int_equal(ns.tiers[1].devices[2].bytes, 2ull << 30);
		assert_int_equal(ns.tiers[1].bytes, (500ull << 30) + (1ull << 40) + (2ull << 30));
		conf_tier_print(&ns, value);
		assert_string_equal(value, same[2]);
	}
}

/* Words in any order, each once. */
static void test_rados(void **state)
{
	static struct conf_ns ns;
	char expected[OPT_EXPECTED_BYTES], value[OPT_VALUE_BYTES];
	const struct ceph_words *r = &ns.tiers[1].rados;

	assert_int_equal(conf_tier_parse(&ns, "dram 1G | rados pool=kv", expected), 0);
	assert_int_equal(ns.nr_tiers, 2);
	assert_int_equal(ns.tiers[1].kind, CONF_TIER_RADOS);
	assert_string_equal(r->pool, "kv");
	assert_string_equal(r->ns, "");
	conf_tier_print(&ns, value);
	assert_string_equal(value, "dram 1073741824 | rados pool=kv");
	assert_int_equal(conf_tier_parse(&ns,
					 "dram 1G|rados keys=5000 conf=/c timeout=7 keyring=/k "
					 "user=u ns=n pool=p",
					 expected),
			 0);
	assert_int_equal(r->timeout_s, 7);
	assert_int_equal(r->max_keys, 5000);
	conf_tier_print(&ns, value);
	assert_string_equal(value, "dram 1073741824 | rados pool=p ns=n user=u conf=/c keyring=/k "
				   "timeout=7 keys=5000");
	assert_int_equal(conf_tier_parse(&ns, "dram 1G | ssd /a 8G | rados pool=kv", expected), 0);
	assert_int_equal(ns.nr_tiers, 3);
}

static void test_bad(void **state)
{
	static const char *const bad[] = {
		"",
		"|",
		"dram",
		"dram 8G 9G",
		"dram lots",
		"tape 8G",
		"dram 8G|dram 8G",
		"dram 8G | tape",
		"8G",
		"dram a b c d e",
		"ssd /data 8G",
		"dram 8G | ssd 8G",
		"dram 8G | ssd /data",
		"dram 8G | rados",
		"dram 8G | rados kv",
		"dram 8G | rados ns=kv",
		"dram 8G | rados pool=",
		"dram 8G | rados pool=a pool=b",
		"dram 8G | rados pool=a size=8G",
		"dram 8G | rados pool=a timeout=0",
		"dram 8G | rados pool=a timeout=soon",
		"dram 8G | rados pool=a keys=1",
		"dram 8G | rados pool=a | ssd /a 8G",
		"dram 8G | rados pool=a | rados pool=b",
		"rados pool=a",
		"dram 8G | ssd /a 8G | ssd /b 8G",
		"dram 8G | ssd /a 8G,",
		"dram 8G | ssd /a 8G, ",
		"dram 8G | ssd /a 8G, /b",
		"dram 8G | ssd /a 8G, /b,",
		"dram 8G | ssd /a 8G /b 8G",
		"dram 8G | ssd /a, /b 8G",
		"dram 8G | ssd /a 8G,, /b 8G",
		"dram 8G | ssd /1 1G, /2 1G, /3 1G, /4 1G, /5 1G, /6 1G, /7 1G, /8 1G, /9 1G",
	};
	static struct conf_ns ns;
	char expected[OPT_EXPECTED_BYTES];

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(conf_tier_parse(&ns, bad[i], expected), -EINVAL);
		assert_non_null(strstr(expected, "dram SIZE"));
	}
}

/* Of the right form, but no size of a tier: which, and the bounds, as other sizes are told. */
static void test_range(void **state)
{
	static const struct {
		const char *text, *size;
	} rows[] = {
		{"dram 1K", "'1K'"},
		{"dram 65T", "'65T'"},
		{"dram 8G | ssd /x 900T", "'900T'"},
		{"dram 8G | ssd /x 1T, /y 900T", "'900T'"},
		{"dram 8G | ssd /x 900T, /y 1T", "'900T'"},
		{"dram 8G | ssd /x 99999999999T", "'99999999999T'"},
	};
	static struct conf_ns ns;
	char expected[OPT_EXPECTED_BYTES], bounds[PARSE_EXPECTED_BYTES];
	uint64_t v;

	assert_true(parse_size_within("", CONF_NS_BYTES_MIN, CONF_BYTES_MAX, &v, bounds));
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(conf_tier_parse(&ns, rows[i].text, expected), -EINVAL);
		assert_memory_equal(expected, rows[i].size, strlen(rows[i].size));
		assert_non_null(strstr(expected, bounds));
	}
	assert_int_equal(conf_tier_parse(&ns, "dram 64T", expected), 0);
}

/* One folder can't be two devices, whatever slashes it ends with. */
static void test_twice(void **state)
{
	static struct conf_ns ns;
	char expected[OPT_EXPECTED_BYTES];

	assert_int_equal(conf_tier_parse(&ns, "dram 8G | ssd /q 1G, /q 1G", expected), -EINVAL);
	assert_string_equal(expected, "each folder once, and '/q' is named twice");
	assert_int_equal(conf_tier_parse(&ns, "dram 8G | ssd /q 1G, /r 1G, /q// 1G", expected),
			 -EINVAL);
	assert_string_equal(expected, "each folder once, and '/q//' is named twice");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),  cmocka_unit_test(test_several),
		cmocka_unit_test(test_rados), cmocka_unit_test(test_bad),
		cmocka_unit_test(test_range), cmocka_unit_test(test_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
