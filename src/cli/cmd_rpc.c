/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal rpc METHOD [PARAMS]: one question to the daemon's control plane, as doc/rpc.md has it.
 * Parameters are JSON, or NAME=VALUE words, whose types the daemon tells: 1234 is a number for a
 * size and a text for a key.
 */
/* tidy: no-test: test/peer/ctl_rpc.py runs it */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_rpc.h"

#define RPC_WORDS_MAX 32
#define RPC_TIMEOUT_MS 600000 /* a purge takes as long as it takes */

struct rpc_opts {
	const char *method;
	char *words[RPC_WORDS_MAX];
	unsigned nr;
};

static error_t rpc_parse_opt(int key, char *arg, struct argp_state *state)
{
	struct rpc_opts *o = state->input;

	if (key == ARGP_KEY_NO_ARGS)
		argp_error(state, "no METHOD, expected one; `peal rpc rpc.methods` lists them");
	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	if (!o->method)
		o->method = arg;
	else if (o->nr == RPC_WORDS_MAX)
		argp_error(state, "'%s' is too much", arg);
	else
		o->words[o->nr++] = arg;
	return 0;
}

static const json_t *rpc_named(const json_t *list, const char *name)
{
	const json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		const char *has = json_string_value(json_object_get(one, "name"));

		if (has && strcmp(has, name) == 0)
			return one;
	}
	return NULL;
}

/*
 * A word as JSON, by its type: texts, keys, choices and sizes are texts whatever they look like,
 * and a namespace is a number when it is written as one, since digits alone are no name. What the
 * daemon doesn't know is guessed, and refused there.
 */
static json_t *rpc_value(const json_t *param, const char *text)
{
	const char *type = json_string_value(json_object_get(param, "type"));
	json_t *v = NULL;

	if (!type || strcmp(type, "number") == 0 || strcmp(type, "bool") == 0 ||
	    (strcmp(type, "namespace") == 0 && strspn(text, "0123456789") == strlen(text)))
		v = json_loads(text, JSON_DECODE_ANY, NULL);
	return v ? v : json_string(text);
}

static int rpc_word(const json_t *method, json_t *params, char *word)
{
	char *eq = strchr(word, '=');
	json_t *v;

	if (!eq || eq == word)
		return cli_usage("'%s' is no parameter, expected NAME=VALUE, {...} or [...]", word);
	*eq++ = 0;
	v = rpc_value(rpc_named(json_object_get(method, "params"), word), eq);
	return json_object_set_new(params, word, v) ? cli_usage("'%s' is no text", word) : CLI_OK;
}

static bool rpc_is_json(const struct rpc_opts *o)
{
	return o->nr == 1 && (o->words[0][0] == '{' || o->words[0][0] == '[');
}

static int rpc_params(struct rpc_opts *o, const json_t *methods, json_t **params)
{
	json_error_t e;
	int rc = CLI_OK;

	if (rpc_is_json(o)) {
		*params = json_loads(o->words[0], 0, &e);
		if (!*params)
			return cli_usage("PARAMS is no JSON: %s at column %d", e.text, e.column);
		return CLI_OK;
	}
	*params = json_object();
	for (unsigned i = 0; i < o->nr && !rc; i++)
		rc = rpc_word(rpc_named(methods, o->method), *params, o->words[i]);
	return rc;
}

/* Asks; words need the daemon's list of methods first. */
static int rpc_ask(struct cli *c, struct rpc_opts *o, struct cli_rpc *r)
{
	unsigned timeout_ms = c->timeout_ms ? c->timeout_ms : RPC_TIMEOUT_MS;
	json_t *params = NULL, *methods = NULL, *result;
	bool is_error = false;
	int rc = CLI_OK;

	if (o->nr && !rpc_is_json(o)) {
		methods = cli_rpc_call(r, "rpc.methods", NULL, timeout_ms, &is_error);
		if (!methods || is_error)
			rc = cli_rpc_failed("rpc", r, methods);
	}
	if (!rc)
		rc = rpc_params(o, methods, &params);
	json_decref(methods);
	if (rc) {
		json_decref(params);
		return rc;
	}
	result = cli_rpc_call(r, o->method, params, timeout_ms, &is_error);
	if (!result || is_error) {
		rc = cli_rpc_failed("rpc", r, result);
	} else {
		json_dumpf(result, stdout,
			   JSON_ENCODE_ANY | (c->is_json ? JSON_COMPACT : JSON_INDENT(2)));
		putchar('\n');
	}
	json_decref(result);
	return rc;
}

static int rpc_run(struct cli *c, int argc, char **argv)
{
	static const struct argp argp = {
		.parser = rpc_parse_opt,
		.args_doc = "METHOD [NAME=VALUE...]\nMETHOD JSON",
		.doc = "Asks the daemon's control plane. Its socket is $PEAL_RPC, or rpc in the "
		       "folder "
		       "of --uri. Exit status: 0, 1 not found, 2 a wrong method or parameter, 3 a "
		       "failure.",
	};
	struct rpc_opts o = {0};
	struct cli_rpc r = {.fd = -1};
	int rc;

	cli_parse(&argp, c, argc, argv, &o);
	rc = cli_rpc_open(c, &r) ? cli_rpc_failed("rpc", &r, NULL) : rpc_ask(c, &o, &r);
	cli_rpc_close(&r);
	return rc;
}

const struct cli_cmd cmd_rpc = {"rpc", "METHOD [PARAMS]", "ask the control plane", rpc_run};
