/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of RPC messages from bytes, cut where the first bytes say: messages are found, parsed,
 * their parameters checked; every one that begins ends once, replies are JSON.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/must.h"
#include "ctl/rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const colours[] = {"red", "green", NULL};
static const struct rpc_param params[] = {
	{.name = "ns", .kind = RPC_NS, .help = ""},
	{.name = "size", .kind = RPC_SIZE, .min = 1024, .max = 1 << 20, .help = ""},
	{.name = "number", .kind = RPC_NUMBER, .min = 1, .max = 9, .help = ""},
	{.name = "bool", .kind = RPC_BOOL, .help = ""},
	{.name = "text", .kind = RPC_TEXT, .min = 1, .max = 5, .help = ""},
	{.name = "key", .kind = RPC_KEY, .help = ""},
	{.name = "colour", .kind = RPC_CHOICE, .names = colours, .help = ""},
};

static void method_run(struct rpc_req *req)
{
	const struct rpc_arg *a = req->args;

	must(!a[1].is_given || (a[1].u >= 1024 && a[1].u <= 1 << 20));
	must(!a[2].is_given || (a[2].u >= 1 && a[2].u <= 9));
	must(!a[4].is_given || (strlen(a[4].text) >= 1 && strlen(a[4].text) <= 5));
	must(!a[5].is_given || (a[5].key_len >= 1 && a[5].key_len <= 16));
	must(a[6].u <= 1);
	if (a[3].u)
		rpc_req_fail(req, -ENOENT, "%s", a[4].is_given ? a[4].text : "nothing");
	else
		rpc_req_done(req, json_object());
}

static const struct rpc_method method = {
	.name = "m", .help = "", .result = "", .params = params, .nr_params = 7, .run = method_run};
static const struct rpc_method *const methods[] = {&method, NULL};
static const struct rpc rpc = {.methods = methods};

static unsigned nr_done;

static void done(void *arg, char *reply, bool is_lost)
{
	json_t *json = reply ? json_loads(reply, 0, NULL) : NULL;

	nr_done++;
	must(!reply || json);
	json_decref(json);
	free(reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t step = size ? 1 + data[0] % 64 : 1, begin = 0, have = 0;
	struct rpc_frame f = {0};
	unsigned nr = 0;
	char *text;

	if (size < 2)
		return 0;
	data++;
	size--;
	text = malloc(size);
	must(text);
	memcpy(text, data, size);
	nr_done = 0;
	while (have < size) {
		long n;

		have = have + step < size ? have + step : size;
		while ((n = rpc_frame_next(&f, text + begin, have - begin)) > 0) {
			must((size_t)n <= have - begin);
			must(rpc_msg_start(&rpc, text + begin, (size_t)n, done, NULL));
			begin += (size_t)n;
			nr++;
		}
		if (n < 0)
			break;
	}
	must(nr_done == nr);
	free(text);
	return 0;
}
