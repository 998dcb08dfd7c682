/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Methods for tests of the RPC layer: one that takes a parameter of every kind and says what it
 * got, one that fails, one that ends when the test says so.
 */
#pragma once

#include <errno.h>
#include "ctl/rpc.h"

static const char *const echo_colours[] = {"red", "green", NULL};

static const struct rpc_param echo_params[] = {
	{.name = "ns", .kind = RPC_NS, .help = "a"},
	{.name = "size", .kind = RPC_SIZE, .min = 1024, .max = 1 << 20, .help = "b"},
	{.name = "number", .kind = RPC_NUMBER, .min = 1, .max = 9, .help = "c"},
	{.name = "bool", .kind = RPC_BOOL, .help = "d"},
	{.name = "text", .kind = RPC_TEXT, .min = 1, .max = 5, .help = "e"},
	{.name = "key", .kind = RPC_KEY, .help = "f"},
	{.name = "colour", .kind = RPC_CHOICE, .names = echo_colours, .help = "g"},
};

static void echo_run(struct rpc_req *req)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < 7; i++) {
		const struct rpc_arg *a = &req->args[i];

		if (!a->is_given)
			json_array_append_new(list, json_null());
		else if (a->text)
			json_array_append_new(list, json_string(a->text));
		else
			json_array_append_new(list,
					      json_integer(i == 5 ? a->key_len : (json_int_t)a->u));
	}
	rpc_req_done(req, list);
}

static const struct rpc_method echo_method = {.name = "echo",
					      .help = "h",
					      .result = "r",
					      .params = echo_params,
					      .nr_params = 7,
					      .run = echo_run};

static const struct rpc_param fail_params[] = {
	{.name = "errno", .kind = RPC_NUMBER, .is_needed = true, .min = 1, .max = 200, .help = "i"},
};

static void fail_run(struct rpc_req *req)
{
	rpc_req_fail(req, -(int)req->args[0].u, "number %d", (int)req->args[0].u);
}

static const struct rpc_method fail_method = {.name = "fail",
					      .help = "h",
					      .result = "r",
					      .params = fail_params,
					      .nr_params = 1,
					      .run = fail_run};

/* Ends later: *(struct rpc_req **)rpc.arg is the one that waits. */
static void wait_run(struct rpc_req *req)
{
	*(struct rpc_req **)rpc_arg_of(req) = req;
}

static const struct rpc_method wait_method = {
	.name = "wait", .help = "h", .result = "r", .run = wait_run};

static const struct rpc_method *const echo_methods[] = {&echo_method, &fail_method, &wait_method,
							NULL};
