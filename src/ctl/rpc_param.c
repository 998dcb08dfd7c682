/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of a request against the rows of its method, by name or by position. Everything is
 * checked here, so that a method only sees what its rows allow. Control thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json_mem.h"
#include "base/must.h"
#include "base/parse.h"
#include "ctl/rpc.h"

void rpc_param_expected(const struct rpc_param *p, char text[RPC_TEXT_BYTES])
{
	uint64_t v;
	size_t n = 0;

	switch (p->kind) {
	case RPC_NS:
		snprintf(text, RPC_TEXT_BYTES, "a namespace's number or name");
		return;
	case RPC_SIZE:
		parse_size_within("", p->min, p->max, &v, text);
		return;
	case RPC_NUMBER:
		parse_u64_within("", p->min, p->max, &v, text);
		return;
	case RPC_BOOL:
		snprintf(text, RPC_TEXT_BYTES, "true or false");
		return;
	case RPC_TEXT:
		snprintf(text, RPC_TEXT_BYTES, "a text of %u to %u characters", (unsigned)p->min,
			 (unsigned)p->max);
		return;
	case RPC_KEY:
		snprintf(text, RPC_TEXT_BYTES,
			 "a key: 1 to 16 characters, or 0x and 2 to 32 hex digits");
		return;
	case RPC_CHOICE:
		for (unsigned i = 0; p->names[i] && n < RPC_TEXT_BYTES; i++)
			n += (size_t)snprintf(text + n, RPC_TEXT_BYTES - n, "%s%s",
					      i ? ", " : "one of ", p->names[i]);
		return;
	}
	must_not_reach();
}

static int param_number(const struct rpc_param *p, const json_t *v, struct rpc_arg *a)
{
	char expected[PARSE_EXPECTED_BYTES];

	if (json_is_string(v) && p->kind == RPC_SIZE)
		return parse_size_within(json_string_value(v), p->min, p->max, &a->u, expected);
	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return -EINVAL;
	a->u = (uint64_t)json_integer_value(v);
	return a->u < p->min || a->u > p->max ? -EINVAL : 0;
}

static bool param_is_text(const char *s, size_t min, size_t max)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] < ' ' || s[i] == 0x7f)
			return false;
	return n >= min && n <= max;
}

static int param_ns(const json_t *v, struct rpc_arg *a)
{
	if (json_is_integer(v)) {
		a->u = (uint64_t)json_integer_value(v);
		return json_integer_value(v) < 1 || a->u > UINT32_MAX - 1 ? -EINVAL : 0;
	}
	a->text = json_string_value(v);
	return a->text && param_is_text(a->text, 1, 63) ? 0 : -EINVAL;
}

static int param_choice(const struct rpc_param *p, const json_t *v, struct rpc_arg *a)
{
	const char *s = json_string_value(v);

	for (unsigned i = 0; s && p->names[i]; i++) {
		if (strcmp(s, p->names[i]) == 0) {
			a->u = i;
			a->text = s;
			return 0;
		}
	}
	return -EINVAL;
}

static int param_one(const struct rpc_param *p, const json_t *v, struct rpc_arg *a)
{
	a->is_given = true;
	switch (p->kind) {
	case RPC_NS:
		return param_ns(v, a);
	case RPC_SIZE:
	case RPC_NUMBER:
		return param_number(p, v, a);
	case RPC_BOOL:
		a->u = json_is_true(v);
		return json_is_boolean(v) ? 0 : -EINVAL;
	case RPC_TEXT:
		a->text = json_string_value(v);
		return a->text && param_is_text(a->text, p->min, p->max) ? 0 : -EINVAL;
	case RPC_KEY:
		if (!json_is_string(v))
			return -EINVAL;
		return parse_key(json_string_value(v), a->key, &a->key_len);
	case RPC_CHOICE:
		return param_choice(p, v, a);
	}
	must_not_reach();
}

static int param_bad(const struct rpc_param *p, const json_t *v, char *text)
{
	char expected[RPC_TEXT_BYTES], *got = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);

	rpc_param_expected(p, expected);
	snprintf(text, RPC_TEXT_BYTES, "%s: %.100s is not good, expected %.300s", p->name,
		 got ? got : "this", expected);
	json_mem_free(got);
	return -EINVAL;
}

static int param_by_position(struct rpc_req *req, const json_t *params, char *text)
{
	size_t nr = json_array_size(params);

	if (nr > req->method->nr_params) {
		snprintf(text, RPC_TEXT_BYTES, "%zu parameters, expected at most %u", nr,
			 req->method->nr_params);
		return -EINVAL;
	}
	for (size_t i = 0; i < nr; i++) {
		const json_t *v = json_array_get(params, i);

		if (param_one(&req->method->params[i], v, &req->args[i]))
			return param_bad(&req->method->params[i], v, text);
	}
	return 0;
}

static int param_find(const struct rpc_method *m, const char *name)
{
	for (unsigned i = 0; i < m->nr_params; i++)
		if (strcmp(m->params[i].name, name) == 0)
			return (int)i;
	return -1;
}

static int param_by_name(struct rpc_req *req, const json_t *params, char *text)
{
	const struct rpc_method *m = req->method;
	size_t n = 0;

	for (void *it = json_object_iter((json_t *)(uintptr_t)params); it;
	     it = json_object_iter_next((json_t *)(uintptr_t)params, it)) {
		const json_t *v = json_object_iter_value(it);
		int i = param_find(m, json_object_iter_key(it));

		if (i < 0) {
			n = (size_t)snprintf(text, RPC_TEXT_BYTES, "'%.64s' is no parameter of %s",
					     json_object_iter_key(it), m->name);
			for (unsigned j = 0; j < m->nr_params && n < RPC_TEXT_BYTES; j++)
				n += (size_t)snprintf(text + n, RPC_TEXT_BYTES - n, "%s%s",
						      j ? ", " : ", expected ", m->params[j].name);
			return -EINVAL;
		}
		if (param_one(&m->params[i], v, &req->args[i]))
			return param_bad(&m->params[i], v, text);
	}
	return 0;
}

int rpc_param_read(struct rpc_req *req, const json_t *params, char text[RPC_TEXT_BYTES])
{
	const struct rpc_method *m = req->method;
	char expected[RPC_TEXT_BYTES];
	int err = 0;

	must(m->nr_params <= RPC_PARAMS_MAX);
	memset(req->args, 0, sizeof(req->args));
	if (json_is_array(params))
		err = param_by_position(req, params, text);
	else if (json_is_object(params))
		err = param_by_name(req, params, text);
	for (unsigned i = 0; i < m->nr_params && !err; i++) {
		if (!m->params[i].is_needed || req->args[i].is_given)
			continue;
		rpc_param_expected(&m->params[i], expected);
		snprintf(text, RPC_TEXT_BYTES, "%s is missing, expected %.300s", m->params[i].name,
			 expected);
		err = -EINVAL;
	}
	return err;
}

static const char *const param_types[] = {
	[RPC_NS] = "namespace", [RPC_SIZE] = "size", [RPC_NUMBER] = "number", [RPC_BOOL] = "bool",
	[RPC_TEXT] = "text",	[RPC_KEY] = "key",   [RPC_CHOICE] = "choice",
};

json_t *rpc_param_describe(const struct rpc_method *m)
{
	json_t *list = json_array();
	char expected[RPC_TEXT_BYTES];

	for (unsigned i = 0; i < m->nr_params; i++) {
		const struct rpc_param *p = &m->params[i];

		rpc_param_expected(p, expected);
		json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:s, s:s}", "name", p->name,
						      "type", param_types[p->kind], "needed",
						      p->is_needed, "expected", expected, "help",
						      p->help));
	}
	return json_pack("{s:s, s:s, s:o, s:s}", "name", m->name, "help", m->help, "params", list,
			 "result", m->result);
}
