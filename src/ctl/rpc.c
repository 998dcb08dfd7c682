/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages, requests and their replies; see rpc.h. One message is one request or a batch of them,
 * which run one after the other. A loop and not a recursion goes on to the next, so that a batch of
 * requests that end at once takes no stack. Control thread.
 */
#include "ctl/rpc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_mem.h"
#include "base/must.h"

struct rpc_msg {
	const struct rpc *rpc;
	json_t *root;
	json_t *replies; /* array */
	bool is_batch;
	bool is_forgotten;
	bool is_lost;
	bool is_inside; /* in rpc_msg_run(): a request that ends now only says so */
	bool is_over;	/* the request under way has ended */
	size_t at;	/* of the next request */
	struct rpc_req req;
	void (*done)(void *arg, char *reply, bool is_lost);
	void *arg;
};

/* The one border at which errno becomes a code of JSON-RPC. */
static int rpc_code(int err)
{
	switch (err) {
	case -ENOENT:
		return RPC_NOT_FOUND;
	case -EEXIST:
		return RPC_EXISTS;
	case -ENOSPC:
		return RPC_NO_SPACE;
	case -EBUSY:
	case -EAGAIN:
		return RPC_BUSY;
	case -ECANCELED:
		return RPC_STOPPING;
	case -EPERM:
	case -EACCES:
		return RPC_NOT_PERMITTED;
	case -EINVAL:
		return RPC_INVALID_PARAMS;
	case -ENOMEM:
		return RPC_INTERNAL;
	default:
		return RPC_FAILED;
	}
}

/* A text that was cut in the middle of a character is no UTF-8, which JSON has to be. */
static json_t *rpc_text(const char *text)
{
	json_t *s = json_string(text);
	char plain[RPC_TEXT_BYTES];
	size_t i;

	if (s)
		return s;
	for (i = 0; text[i] && i < sizeof(plain) - 1; i++)
		plain[i] = text[i] & 0x80 ? '?' : text[i];
	plain[i] = 0;
	return json_string(plain);
}

static json_t *rpc_error(const json_t *id, int code, const char *text)
{
	return json_pack("{s:s, s:{s:i, s:o}, s:O}", "jsonrpc", "2.0", "error", "code", code,
			 "message", rpc_text(text), "id", id ? id : json_null());
}

/*
 * As json_dumps(), which leaves a key out and goes on when it has no memory for it (jansson 2.14,
 * dump.c: what dump_string() says is not looked at).
 */
static char *rpc_dump(const json_t *j)
{
	size_t n = json_dumpb(j, NULL, 0, JSON_COMPACT);
	char *s = n ? malloc(n + 1) : NULL;

	if (s && json_dumpb(j, s, n, JSON_COMPACT) != n) {
		free(s);
		return NULL;
	}
	if (s)
		s[n] = 0;
	return s;
}

char *rpc_msg_error(int code, const char *text)
{
	json_t *e = rpc_error(NULL, code, text);
	char *s = e ? rpc_dump(e) : NULL;

	json_decref(e);
	return s;
}

void *rpc_arg_of(const struct rpc_req *req)
{
	return req->msg->rpc->arg;
}

const struct rpc *rpc_of(const struct rpc_req *req)
{
	return req->msg->rpc;
}

static char *rpc_reply(struct rpc_msg *msg)
{
	const json_t *out = msg->is_batch ? msg->replies : json_array_get(msg->replies, 0);

	if (msg->is_forgotten || json_array_size(msg->replies) == 0)
		return NULL;
	return rpc_dump(out);
}

static void rpc_finish(struct rpc_msg *msg)
{
	char *reply = rpc_reply(msg);
	void (*done)(void *, char *, bool) = msg->done;
	bool is_lost = msg->is_lost || msg->is_forgotten ||
		       (!reply && json_array_size(msg->replies) > 0);
	void *arg = msg->arg;

	json_decref(msg->replies);
	json_decref(msg->root);
	free(msg);
	done(arg, reply, is_lost);
}

/* Without memory for an answer the connection is closed: nobody may wait for what never comes. */
static void rpc_answer(struct rpc_msg *msg, json_t *reply)
{
	if (json_array_append_new(msg->replies, reply))
		msg->is_lost = true;
}

/* An error is answered even when the request looks like a notification that can't be told. */
static void rpc_refuse(struct rpc_msg *msg, const json_t *id, int code, const char *text)
{
	rpc_answer(msg, rpc_error(id, code, text));
}

static const struct rpc_method *rpc_find(const struct rpc *rpc, const char *name)
{
	for (const struct rpc_method *const *m = rpc->methods; *m; m++)
		if (strcmp((*m)->name, name) == 0)
			return *m;
	return NULL;
}

/* NULL, or what is wrong with it. Specification, 4: "jsonrpc", "method", "params", "id". */
static const char *rpc_check(const json_t *raw)
{
	const json_t *params = json_object_get(raw, "params"), *id = json_object_get(raw, "id");
	const char *version = json_string_value(json_object_get(raw, "jsonrpc"));

	if (!json_is_object(raw))
		return "a request is an object, expected {\"jsonrpc\": \"2.0\", ...}";
	if (!version || strcmp(version, "2.0") != 0)
		return "jsonrpc: expected \"2.0\"";
	if (!json_is_string(json_object_get(raw, "method")))
		return "method: expected a text";
	if (params && !json_is_object(params) && !json_is_array(params))
		return "params: expected an object or an array";
	if (id && !json_is_string(id) && !json_is_number(id) && !json_is_null(id))
		return "id: expected a text, a number or null";
	return NULL;
}

/* True: it has begun, and ends by rpc_req_done() or rpc_req_fail(). */
static bool rpc_begin(struct rpc_msg *msg, json_t *raw)
{
	const json_t *id = json_object_get(raw, "id");
	const char *wrong = rpc_check(raw), *name;
	struct rpc_req *req = &msg->req;
	char text[RPC_TEXT_BYTES];

	if (wrong) {
		/* Whatever the id is: when it can't be trusted the answer has none. */
		rpc_refuse(msg, json_is_string(id) || json_is_number(id) ? id : NULL,
			   RPC_INVALID_REQUEST, wrong);
		return false;
	}
	name = json_string_value(json_object_get(raw, "method"));
	*req = (struct rpc_req){.msg = msg,
				.id = json_object_get(raw, "id"),
				.raw = raw,
				.nr_failed = json_mem_failed()};
	req->method = rpc_find(msg->rpc, name);
	if (!req->method) {
		snprintf(text, sizeof(text), "'%.64s' is no method, expected one of rpc.methods",
			 name);
		if (req->id)
			rpc_refuse(msg, req->id, RPC_METHOD_NOT_FOUND, text);
		return false;
	}
	if (rpc_param_read(req, json_object_get(raw, "params"), text)) {
		if (req->id)
			rpc_refuse(msg, req->id, RPC_INVALID_PARAMS, text);
		return false;
	}
	return true;
}

static json_t *rpc_next(struct rpc_msg *msg)
{
	if (msg->is_batch)
		return json_array_get(msg->root, msg->at++);
	return msg->at++ ? NULL : msg->root;
}

static void rpc_run(struct rpc_msg *msg)
{
	json_t *raw;

	msg->is_inside = true;
	while (!msg->is_forgotten && (raw = rpc_next(msg))) {
		if (!rpc_begin(msg, raw))
			continue;
		msg->is_over = false;
		msg->req.method->run(&msg->req);
		if (!msg->is_over) {
			msg->is_inside = false;
			return; /* goes on from rpc_over() */
		}
	}
	rpc_finish(msg);
}

static void rpc_over(struct rpc_msg *msg)
{
	must(!msg->is_over);
	msg->is_over = true;
	if (!msg->is_inside)
		rpc_run(msg);
}

void rpc_req_done(struct rpc_req *req, json_t *result)
{
	struct rpc_msg *msg = req->msg;

	if (!result || json_mem_failed() != req->nr_failed) {
		json_decref(result);
		rpc_req_fail(req, -ENOMEM, "no memory");
		return;
	}
	if (req->id)
		rpc_answer(msg, json_pack("{s:s, s:o, s:O}", "jsonrpc", "2.0", "result", result,
					  "id", req->id));
	else
		json_decref(result);
	rpc_over(msg);
}

void rpc_req_fail(struct rpc_req *req, int err, const char *fmt, ...)
{
	char text[RPC_TEXT_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (req->id)
		rpc_refuse(req->msg, req->id, rpc_code(err), text);
	rpc_over(req->msg);
}

static void rpc_parse(struct rpc_msg *msg, const char *text, size_t n)
{
	uint64_t nr_failed = json_mem_failed();
	char what[RPC_TEXT_BYTES];
	json_error_t e;

	/* Duplicate keys are refused: which of two would be meant is a guess. */
	msg->root = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
	if (!msg->root || json_mem_failed() != nr_failed) {
		snprintf(what, sizeof(what), "this is no JSON: %s at column %d", e.text, e.column);
		if (json_mem_failed() != nr_failed)
			rpc_refuse(msg, NULL, RPC_INTERNAL, "no memory");
		else
			rpc_refuse(msg, NULL, RPC_PARSE_ERROR, what);
		msg->is_lost = true;
		msg->at = 1;
		return;
	}
	msg->is_batch = json_is_array(msg->root);
	if (!msg->is_batch)
		return;
	if (json_array_size(msg->root) == 0 || json_array_size(msg->root) > RPC_BATCH_MAX) {
		snprintf(what, sizeof(what), "a batch of %zu, expected 1 to %d requests",
			 json_array_size(msg->root), RPC_BATCH_MAX);
		rpc_refuse(msg, NULL, RPC_INVALID_REQUEST, what);
		/* One object is the answer, not an array of it (specification, 7). */
		msg->is_batch = false;
		msg->at = 1;
	}
}

void rpc_mem_init(void)
{
	json_set_alloc_funcs(json_mem_alloc, json_mem_free);
}

struct rpc_msg *rpc_msg_start(const struct rpc *rpc, const char *text, size_t n,
			      void (*done)(void *arg, char *reply, bool is_lost), void *arg)
{
	struct rpc_msg *msg = calloc(1, sizeof(*msg));

	if (!msg)
		return NULL;
	msg->rpc = rpc;
	msg->done = done;
	msg->arg = arg;
	msg->replies = json_array();
	if (!msg->replies) {
		free(msg);
		return NULL;
	}
	rpc_parse(msg, text, n);
	rpc_run(msg);
	return msg;
}

void rpc_msg_forget(struct rpc_msg *msg)
{
	msg->is_forgotten = true;
}
