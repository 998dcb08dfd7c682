/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses to listen on: what is taken, what it becomes as text, what is refused. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "ctl/conf.h"

static void test_good(void **state)
{
	static const struct {
		const char *text, *host, *back;
		uint16_t port;
	} rows[] = {
		{"4420", "127.0.0.1", "127.0.0.1:4420", 4420},
		{":4420", "127.0.0.1", "127.0.0.1:4420", 4420},
		{"localhost:1", "127.0.0.1", "127.0.0.1:1", 1},
		{"0.0.0.0:65535", "0.0.0.0", "0.0.0.0:65535", 65535},
		{"[::1]:0", "::1", "[::1]:0", 0},
		{"none", "", "none", 0},
	};
	char host[CONF_HOST_BYTES], value[OPT_VALUE_BYTES];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint16_t port = 0;

		assert_int_equal(conf_listen_parse(rows[i].text, host, &port), 0);
		assert_string_equal(host, rows[i].host);
		assert_int_equal(port, rows[i].port);
		conf_listen_print(host, port, value);
		assert_string_equal(value, rows[i].back);
	}
}

static void test_bad(void **state)
{
	static const char *const texts[] = {
		"",
		":",
		"65536",
		"1.2.3.4",
		"1.2.3:4420",
		"host:4420",
		"::1:4420",
		"[::1]",
		"[1.2.3.4]:1",
		"4420x",
		"-1",
		"1.2.3.4:",
		"[]:1",
		"0000000000000000000000000000000000000000000000000000000000000000000000.1:1",
	};
	char host[CONF_HOST_BYTES] = "before";
	uint16_t port = 7;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(conf_listen_parse(texts[i], host, &port), -EINVAL);
	assert_string_equal(host, "before");
	assert_int_equal(port, 7);
}

static void test_hosts(void **state)
{
	static const char *const good[] = {"nqn.2014-08.org.nvmexpress:uuid:1",
					   "nqn.a,nqn.b,nqn.c"};
	static const char *const bad[] = {"",	   ",",		"nqn.", "nqn.a,", ",nqn.a",
					  "iqn.a", "nqn.a,any", "any,", " nqn.a"};
	const struct opt *o = opt_find(&conf_tcp, "hosts");
	char expected[OPT_EXPECTED_BYTES], value[OPT_VALUE_BYTES];
	char longest[225] = "nqn.", all[5 * 224] = "";
	struct conf_tcp t = {.hosts = "before"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(opt_set(o, &t, bad[i], expected), -EINVAL);
	memset(longest + 4, 'x', 220);
	assert_int_equal(opt_set(o, &t, longest, expected), -EINVAL);
	longest[223] = 0;
	for (unsigned i = 0; i < 5; i++) {
		strcat(all, i ? "," : "");
		strcat(all, longest);
	}
	assert_int_equal(opt_set(o, &t, all, expected), -EINVAL); /* too many */
	assert_string_equal(t.hosts, "before");
	assert_int_equal(opt_set(o, &t, longest, expected), 0);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(opt_set(o, &t, good[i], expected), 0);
		opt_get(o, &t, value);
		assert_string_equal(value, good[i]);
	}
	assert_int_equal(opt_set(o, &t, "any", expected), 0);
	assert_string_equal(t.hosts, "");
	opt_get(o, &t, value);
	assert_string_equal(value, "any");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_hosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
