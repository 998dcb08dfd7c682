/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line that names a namespace's tiers: what is accepted, what is refused and how that is said.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

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
	assert_string_equal(ns.tiers[1].path, "/data/peal");
}

static void test_bad(void **state)
{
	static const char *const bad[] = {
		"",
		"|",
		"dram",
		"dram 8G 9G",
		"dram lots",
		"dram 1K",
		"tape 8G",
		"dram 8G|dram 8G",
		"dram 8G | tape",
		"8G",
		"dram a b c d e",
		"ssd /data 8G",
		"dram 8G | ssd 8G",
		"dram 8G | ssd /data",
		"dram 8G | ssd /a 8G | ssd /b 8G",
	};
	static struct conf_ns ns;
	char expected[OPT_EXPECTED_BYTES];

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(conf_tier_parse(&ns, bad[i], expected), -EINVAL);
		assert_non_null(strstr(expected, "dram SIZE"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
