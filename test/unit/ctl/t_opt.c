/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the option table by themselves: every kind of value there and back, its bounds, and what
 * is said when it is wrong.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "ctl/opt.h"

struct thing {
	uint64_t bytes;
	uint16_t port;
	bool is_on, is_given;
	char text[8];
	uint8_t colour;
	int nr_calls;
};

static const char *const colours[] = {"red", "green", "blue", NULL};

static int set_call(void *group, const char *text, char *expected)
{
	((struct thing *)group)->nr_calls++;
	if (!text || strcmp(text, "good") == 0)
		return 0;
	strcpy(expected, "good, and nothing else");
	return -EINVAL;
}

static void get_call(const void *group, char *value)
{
	strcpy(value, "good");
}

static const struct opt rows[] = {
	{.key = "bytes",
	 .kind = OPT_SIZE,
	 OPT_FIELD(thing, bytes),
	 .min = 1024,
	 .max = 1 << 20,
	 .dflt = "64K"},
	{.key = "net.port", .kind = OPT_NUMBER, OPT_FIELD(thing, port), .min = 1, .max = 65535},
	{.key = "net.on", .kind = OPT_BOOL, OPT_FIELD(thing, is_on), .dflt = "yes"},
	{.name = "given", .kind = OPT_FLAG, OPT_FIELD(thing, is_given)},
	{.key = "text", .kind = OPT_TEXT, OPT_FIELD(thing, text), .min = 1, .expected = "a word"},
	{.key = "colour",
	 .kind = OPT_CHOICE,
	 OPT_FIELD(thing, colour),
	 .names = colours,
	 .dflt = "green"},
	{.key = "call", .kind = OPT_CALL, .set = set_call, .get = get_call, .expected = "a call"},
};
static const struct opt_group group = {"thing", "Things.", rows, 7, 0};

static void bad(const char *key, struct thing *t, const char *text, const char *says)
{
	char expected[OPT_EXPECTED_BYTES];
	struct thing before = *t;

	assert_int_equal(opt_set(opt_find(&group, key), t, text, expected), -EINVAL);
	if (!strstr(expected, says))
		fail_msg("%s: '%s': expected '%s', not '%s'", key, text, says, expected);
	if (strcmp(key, "call") != 0)
		assert_memory_equal(&before, t, sizeof(before));
}

static void good(const char *key, struct thing *t, const char *text, const char *back)
{
	char expected[OPT_EXPECTED_BYTES], value[OPT_VALUE_BYTES];
	const struct opt *o = opt_find(&group, key);

	assert_int_equal(opt_set(o, t, text, expected), 0);
	opt_get(o, t, value);
	assert_string_equal(value, back);
}

static void test_ranges(void **state)
{
	char range[OPT_RANGE_BYTES];

	opt_range(opt_find(&group, "bytes"), range);
	assert_string_equal(range, "1.0 KiB to 1.0 MiB");
	opt_range(opt_find(&group, "net.port"), range);
	assert_string_equal(range, "1 to 65535");
	opt_range(opt_find(&group, "text"), range);
	assert_string_equal(range, "");
}

static void test_values(void **state)
{
	struct thing t = {0};

	opt_defaults(&group, &t);
	assert_int_equal(t.bytes, 65536);
	assert_true(t.is_on);
	assert_int_equal(t.colour, 1);
	good("bytes", &t, "1K", "1024");
	good("bytes", &t, "1M", "1048576");
	bad("bytes", &t, "1023", "from 1.0 KiB to 1.0 MiB");
	bad("bytes", &t, "1048577", "as in 64K or 8G");
	bad("bytes", &t, "", "a size");
	bad("bytes", &t, "-1", "a size");
	good("net.port", &t, "65535", "65535");
	bad("net.port", &t, "65536", "from 1 to 65535");
	bad("net.port", &t, "0", "from 1 to 65535");
	bad("net.port", &t, "18446744073709551616", "from 1 to 65535");
	good("net.on", &t, "off", "no");
	good("net.on", &t, "true", "yes");
	bad("net.on", &t, "maybe", "yes or no");
	good("text", &t, "1234567", "1234567");
	bad("text", &t, "12345678", "a word of 1 to 7 characters");
	bad("text", &t, "", "a word");
	bad("text", &t, "a\nb", "a word");
	good("colour", &t, "blue", "blue");
	bad("colour", &t, "pink", "red, green or blue");
	good("call", &t, "good", "good");
	bad("call", &t, "bad", "good, and nothing else");
	assert_int_equal(t.nr_calls, 2);
	assert_int_equal(opt_set(&rows[3], &t, NULL, (char[OPT_EXPECTED_BYTES]){0}), 0);
	assert_true(t.is_given);
}

static void test_names(void **state)
{
	char keys[OPT_EXPECTED_BYTES];

	assert_null(opt_find(&group, "given"));
	assert_null(opt_find(&group, "net"));
	assert_true(opt_is_section(&group, "net"));
	assert_false(opt_is_section(&group, "ne"));
	assert_false(opt_is_section(&group, "bytes"));
	opt_keys(&group, "", keys);
	assert_string_equal(keys, "bytes, net, text, colour, call");
	opt_keys(&group, "net.", keys);
	assert_string_equal(keys, "port, on");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
