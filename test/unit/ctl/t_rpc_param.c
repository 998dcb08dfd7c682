/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters by name and by position, of every kind, at their bounds; what is said when one is
 * wrong.
 */
#include "unit.h"

#include <string.h>

#include "rpc_echo.h"

static struct rpc_req req = {.method = &echo_method};
static char text[RPC_TEXT_BYTES];

static int read_params(const char *json)
{
	json_t *p = json_loads(json, 0, NULL);
	int err;

	assert_non_null(p);
	req.raw = p;
	text[0] = 0;
	err = rpc_param_read(&req, p, text);
	/* Texts are looked at while the request lives. */
	if (!err && req.args[4].is_given)
		assert_true(strlen(req.args[4].text) <= 5);
	json_decref(p);
	return err;
}

static void bad(const char *json, const char *says)
{
	assert_int_equal(read_params(json), -EINVAL);
	if (!strstr(text, says))
		fail_msg("%s: no '%s' in '%s'", json, says, text);
}

static void test_good(void **state)
{
	static const char *const good[] = {
		"{}",
		"[]",
		"[1, 1024, 1, true, \"a\", \"k\", \"red\"]",
		"[\"x\", \"1M\", 9, false, \"abcde\", \"0x00\", \"green\"]",
		"{\"key\": \"sixteen bytes it\", \"size\": 1048576}",
		"{\"ns\": 4294967294}",
	};

	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (read_params(good[i]))
			fail_msg("%s: %s", good[i], text);
	assert_int_equal(rpc_param_read(&req, NULL, text), 0);
	assert_int_equal(read_params("[7, \"64K\", 3, true]"), 0);
	assert_int_equal(req.args[0].u, 7);
	assert_int_equal(req.args[1].u, 65536);
	assert_int_equal(req.args[2].u, 3);
	assert_int_equal(req.args[3].u, 1);
	assert_false(req.args[4].is_given);
}

static void test_bad(void **state)
{
	bad("[0]", "ns: 0 is not good, expected a namespace's number or name");
	bad("[\"\"]", "ns: \"\"");
	bad("[-1]", "ns: -1");
	bad("[4294967295]", "ns: ");
	bad("[[]]", "ns: []");
	bad("{\"size\": 1023}", "size: 1023 is not good, expected a size from 1.0 KiB to 1.0 MiB");
	bad("{\"size\": \"2M\"}", "size: \"2M\"");
	bad("{\"size\": true}", "size: true");
	bad("{\"number\": 10}", "a number from 1 to 9");
	bad("{\"number\": -1}", "a number from 1 to 9");
	bad("{\"number\": \"1\"}", "a number from 1 to 9");
	bad("{\"number\": 1.5}", "a number from 1 to 9");
	bad("{\"bool\": 1}", "true or false");
	bad("{\"text\": \"abcdef\"}", "a text of 1 to 5 characters");
	bad("{\"text\": \"a\\nb\"}", "a text of 1 to 5 characters");
	bad("{\"key\": \"seventeen bytes..\"}", "1 to 16 characters, or 0x");
	bad("{\"key\": \"0x0\"}", "0x and 2 to 32 hex digits");
	bad("{\"key\": 1}", "a key");
	bad("{\"colour\": \"blue\"}", "one of red, green");
	bad("{\"what\": 1}", "'what' is no parameter of echo, expected ns, size, number");
	bad("[1,2,3,4,5,6,7,8]", "8 parameters, expected at most 7");
	req.method = &fail_method;
	bad("{}", "errno is missing, expected a number from 1 to 200");
	req.method = &echo_method;
}

static void test_describe(void **state)
{
	json_t *d = rpc_param_describe(&echo_method);

	assert_string_equal(json_string_value(json_object_get(d, "name")), "echo");
	assert_int_equal(json_array_size(json_object_get(d, "params")), 7);
	json_decref(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_describe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
