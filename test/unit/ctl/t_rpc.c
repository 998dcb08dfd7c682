/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON-RPC 2.0 as its specification's examples have it: calls, notifications, batches, mistakes;
 * and requests that end later or that nobody waits for any more.
 */
#include "unit.h"

#include <string.h>

#include "rpc_echo.h"

static struct rpc_req *waiting;
static const struct rpc rpc = {.methods = echo_methods, .arg = &waiting};
static char *reply;
static bool is_done, is_lost;

static void done(void *arg, char *text, bool lost)
{
	assert_false(is_done);
	is_done = true;
	is_lost = lost;
	reply = text;
}

static struct rpc_msg *start(const char *text)
{
	free(reply);
	reply = NULL;
	is_done = false;
	waiting = NULL;
	return rpc_msg_start(&rpc, text, strlen(text), done, NULL);
}

static void says(const char *text, const char *want)
{
	start(text);
	assert_true(is_done);
	if (!want) {
		assert_null(reply);
		return;
	}
	if (!reply || !strstr(reply, want))
		fail_msg("%s: no %s in %s", text, want, reply ? reply : "nothing");
}

#define CALL(rest) "{\"jsonrpc\":\"2.0\"," rest "}"

static void test_calls(void **state)
{
	says(CALL("\"method\":\"echo\",\"id\":1"),
	     "{\"jsonrpc\":\"2.0\",\"result\":[null,null,null,null,null,null,null],\"id\":1}");
	says(CALL("\"method\":\"echo\",\"id\":\"x\",\"params\":[5]"), "\"result\":[5,");
	says(CALL("\"method\":\"echo\",\"id\":null"), "\"id\":null");
	says(CALL("\"method\":\"fail\",\"id\":2,\"params\":{\"errno\":2}"), "-32001");
	assert_non_null(strstr(reply, "number 2"));
	says(CALL("\"method\":\"fail\",\"id\":2,\"params\":{\"errno\":17}"), "-32002");
	says(CALL("\"method\":\"fail\",\"id\":2,\"params\":{\"errno\":28}"), "-32003");
	says(CALL("\"method\":\"fail\",\"id\":2,\"params\":{\"errno\":16}"), "-32004");
	says(CALL("\"method\":\"fail\",\"id\":2,\"params\":{\"errno\":125}"), "-32005");
	says(CALL("\"method\":\"fail\",\"id\":2,\"params\":{\"errno\":5}"), "-32000");
	/* Notifications: run, and not answered, not even when they fail. */
	says(CALL("\"method\":\"echo\""), NULL);
	says(CALL("\"method\":\"fail\",\"params\":[2]"), NULL);
	says(CALL("\"method\":\"nobody\""), NULL);
	says(CALL("\"method\":\"echo\",\"params\":[0]"), NULL);
}

static void test_mistakes(void **state)
{
	says("hello", "-32700");
	assert_true(is_lost);
	says("{\"jsonrpc\":\"2.0\",", "-32700");
	says("{\"a\":1,\"a\":2}", "-32700"); /* which of them? */
	says("1", "-32600");
	assert_false(is_lost);
	says("{}", "-32600");
	says("{\"jsonrpc\":\"1.0\",\"method\":\"echo\",\"id\":1}", "jsonrpc: expected");
	says(CALL("\"method\":1,\"id\":1"), "method: expected a text");
	says(CALL("\"method\":\"echo\",\"params\":1,\"id\":1"), "params: expected");
	says(CALL("\"method\":\"echo\",\"id\":[]"), "id: expected");
	assert_non_null(strstr(reply, "\"id\":null"));
	says(CALL("\"method\":\"nobody\",\"id\":1"), "-32601");
	says(CALL("\"method\":\"echo\",\"id\":1,\"params\":[0]"), "-32602");
	/* Cut in the middle of a character: still an answer. */
	says(CALL("\"method\":\"xäääääääääääääääääääääääääääääääääääääääääää\",\"id\":1"),
	     "-32601");
}

static void test_batches(void **state)
{
	char big[8192] = "[";

	says("[]", "\"code\":-32600");
	assert_int_equal(reply[0], '{');
	says("[1,2]", "[{");
	says("[" CALL("\"method\":\"echo\",\"id\":1") "," CALL("\"method\":\"echo\"") "," CALL(
		     "\"method\":\"nobody\",\"id\":2") "]",
	     "\"id\":1},{");
	assert_int_equal(reply[0], '[');
	says("[" CALL("\"method\":\"echo\"") "]", NULL);
	for (unsigned i = 0; i < RPC_BATCH_MAX + 1; i++)
		strcat(big, i ? "," CALL("\"method\":\"echo\"") : CALL("\"method\":\"echo\""));
	strcat(big, "]");
	says(big, "a batch of 65, expected 1 to 64");
}

static void test_later(void **state)
{
	struct rpc_msg *msg = start("[" CALL("\"method\":\"wait\",\"id\":1") "," CALL(
		"\"method\":\"wait\",\"id\":2") "," CALL("\"method\":\"echo\",\"id\":3") "]");

	assert_false(is_done);
	rpc_req_done(waiting, json_integer(5));
	assert_false(is_done);
	rpc_req_fail(waiting, -EBUSY, "busy");
	assert_true(is_done);
	assert_non_null(strstr(reply, "{\"jsonrpc\":\"2.0\",\"result\":5,\"id\":1}"));
	assert_non_null(strstr(reply, "\"id\":3"));
	/* No memory for the result is an error like others. */
	start(CALL("\"method\":\"wait\",\"id\":1"));
	rpc_req_done(waiting, NULL);
	assert_non_null(strstr(reply, "-32603"));
	/* The peer left: the rest of the batch isn't run. */
	msg = start("[" CALL("\"method\":\"wait\",\"id\":1") "," CALL(
		"\"method\":\"wait\",\"id\":2") "]");
	rpc_msg_forget(msg);
	assert_false(is_done);
	rpc_req_done(waiting, json_integer(5));
	assert_true(is_done && is_lost);
	assert_null(reply);
}

/* jansson leaves out what it has no memory for: such a document isn't sent. */
static void test_no_memory(void **state)
{
	json_t *list = json_array();

	start(CALL("\"method\":\"wait\",\"id\":1"));
	assert_int_equal(json_array_append_new(list, json_stringn_nocheck("x", PTRDIFF_MAX)), -1);
	assert_int_equal(json_array_append_new(list, json_integer(1)), 0);
	rpc_req_done(waiting, list);
	assert_non_null(strstr(reply, "-32603"));
	assert_non_null(strstr(reply, "no memory"));
	/* The next one has its answer. */
	says(CALL("\"method\":\"echo\",\"id\":\"x\",\"params\":[5]"), "\"result\":[5,");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls),	  cmocka_unit_test(test_mistakes),
		cmocka_unit_test(test_batches),	  cmocka_unit_test(test_later),
		cmocka_unit_test(test_no_memory),
	};
	int rc;

	rpc_mem_init();
	rc = cmocka_run_group_tests(tests, NULL, NULL);

	free(reply);
	return rc;
}
