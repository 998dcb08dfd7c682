/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal rpc METHOD [PARAMS]: one question to the daemon's control plane, as doc/rpc.md has it.
 * Parameters are JSON, or NAME=VALUE words.
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

static int rpc_word(json_t *params, char *word)
{
	char *eq = strchr(word, '=');
	json_t *v;

	if (!eq || eq == word)
		return cli_usage("'%s' is no parameter, expected NAME=VALUE, {...} or [...]", word);
	*eq++ = 0;
	/* Numbers, true and the like are themselves, anything else is a text. */
	v = json_loads(eq, JSON_DECODE_ANY, NULL);
	if (!v)
		v = json_string(eq);
	return json_object_set_new(params, word, v) ? cli_usage("'%s' is no text", word) : CLI_OK;
}

static int rpc_params(struct rpc_opts *o, json_t **params)
{
	json_error_t e;
	int rc = CLI_OK;

	if (o->nr == 1 && (o->words[0][0] == '{' || o->words[0][0] == '[')) {
		*params = json_loads(o->words[0], 0, &e);
		if (!*params)
			return cli_usage("PARAMS is no JSON: %s at column %d", e.text, e.column);
		return CLI_OK;
	}
	*params = json_object();
	for (unsigned i = 0; i < o->nr && !rc; i++)
		rc = rpc_word(*params, o->words[i]);
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
	json_t *params = NULL, *result;
	struct cli_rpc r = {.fd = -1};
	bool is_error = false;
	int rc;

	cli_parse(&argp, c, argc, argv, &o);
	rc = rpc_params(&o, &params);
	if (rc)
		return rc;
	if (cli_rpc_open(c, &r)) {
		rc = cli_rpc_failed("rpc", &r, NULL);
		json_decref(params);
		cli_rpc_close(&r);
		return rc;
	}
	result = cli_rpc_call(&r, o.method, params, c->timeout_ms ? c->timeout_ms : RPC_TIMEOUT_MS,
			      &is_error);
	if (!result || is_error) {
		rc = cli_rpc_failed("rpc", &r, result);
	} else {
		json_dumpf(result, stdout,
			   JSON_ENCODE_ANY | (c->is_json ? JSON_COMPACT : JSON_INDENT(2)));
		putchar('\n');
	}
	json_decref(result);
	cli_rpc_close(&r);
	return rc;
}

const struct cli_cmd cmd_rpc = {"rpc", "METHOD [PARAMS]", "ask the control plane", rpc_run};
