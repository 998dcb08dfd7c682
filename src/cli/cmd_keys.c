/* SPDX-License-Identifier: Apache-2.0 */
/*
 * KEY... on a command line, see cmd_keys.h.
 */
/* tidy: no-test: test/unit/cli/t_cli.c runs the commands that use it */
#include "cli/cmd_keys.h"

#include <errno.h>
#include <stdlib.h>

static error_t keys_parse_opt(int key, char *arg, struct argp_state *state)
{
	struct cmd_keys *k = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		k->keys[k->nr++] = cli_key(arg);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no key given, expected one or more");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

void cmd_keys_parse(struct cli *c, int argc, char **argv, const char *doc, struct cmd_keys *k)
{
	const struct argp argp = {.parser = keys_parse_opt, .args_doc = "KEY...", .doc = doc};

	k->keys = calloc((size_t)argc, sizeof(*k->keys));
	k->nr = 0;
	if (!k->keys)
		cli_parse_failed(ENOMEM);
	cli_parse(&argp, c, argc, argv, k);
}
