/* SPDX-License-Identifier: Apache-2.0 */
/* URIs: what is taken, what is refused, and that the refusal names the culprit. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "client/uri.h"
#include "peal/peal.h"

static void test_vfu(void **state)
{
	struct uri u;

	assert_int_equal(uri_parse("vfu:/run/peal/cntrl", &u), 0);
	assert_false(u.is_spawn);
	assert_string_equal(u.path, "/run/peal/cntrl");
	/* A folder: the socket in it. */
	assert_int_equal(uri_parse("vfu:/tmp", &u), 0);
	assert_string_equal(u.path, "/tmp/cntrl");
}

static void test_spawn(void **state)
{
	struct uri u;

	assert_int_equal(uri_parse("spawn:/tmp/x", &u), 0);
	assert_true(u.is_spawn);
	assert_string_equal(u.dir, "/tmp/x");
	assert_string_equal(u.path, "/tmp/x/cntrl");
	assert_int_equal(u.linger_s, 600);
	assert_int_equal(u.dram_bytes, 0);
	assert_int_equal(uri_parse("spawn:/tmp/x?dram=1G&linger=1&reactors=2", &u), 0);
	assert_int_equal(u.dram_bytes, 1u << 30);
	assert_int_equal(u.linger_s, 1);
	assert_int_equal(u.nr_reactors, 2);
	assert_int_equal(u.ssd_bytes, 0);
	assert_int_equal(uri_parse("spawn:/tmp/x?dram=8G&ssd=100G", &u), 0);
	assert_int_equal(u.ssd_bytes, 100ull << 30);
}

static void test_refused(void **state)
{
	static const struct {
		const char *uri, *says;
	} cases[] = {
		{"", "unknown scheme"},
		{"tcp:host", "expected vfu:PATH"},
		{"vfu:", "expected a socket's path"},
		{"spawn:", "expected a folder"},
		{"spawn:?dram=1G", "expected a folder"},
		{"spawn:/x?dram", "no value"},
		{"spawn:/x?dram=lots", "dram is 'lots'"},
		{"spawn:/x?reactors=99", "1 to 31"},
		{"spawn:/x?reactors=0", "1 to 31"},
		{"spawn:/x?linger=0", "seconds, 1 to a year"},
		{"spawn:/x?colour=red", "'colour'"},
		{"spawn:/x?ssd=1G", "ssd without dram"},
		{"spawn:/x y?dram=1G&ssd=1G", "without blanks"},
		{"spawn:/x|y?dram=1G&ssd=1G", "without blanks"},
	};
	struct uri u = {.linger_s = 77};
	char longer[300] = "vfu:";

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(uri_parse(cases[i].uri, &u), -EINVAL);
		if (!strstr(peal_errmsg(), cases[i].says))
			fail_msg("'%s' isn't in '%s'", cases[i].says, peal_errmsg());
	}
	memset(longer + 4, 'x', 200);
	assert_int_equal(uri_parse(longer, &u), -EINVAL);
	memcpy(longer, "spawn:", 6);
	assert_int_equal(uri_parse(longer, &u), -EINVAL);
	assert_int_equal(uri_parse(NULL, &u), -EINVAL);
	assert_int_equal(u.linger_s, 77); /* untouched */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vfu),
		cmocka_unit_test(test_spawn),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
