/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal ls: the keys of a namespace, in the store's own order, one a line.
 */
/* tidy: no-test: test/unit/cli/t_cli.c runs it */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"

#define LS_PAGE 1024

struct ls_opts {
	bool is_long;
	uint64_t max;
	struct peal_key after;
};

static const struct argp_option ls_options[] = {
	{"long", 'l', NULL, 0, "With each value's size", 0},
	{"max", 'm', "N", 0, "So many keys at most", 0},
	{"after", 'a', "KEY", 0, "Only those behind KEY", 0},
	{0},
};

static error_t ls_parse_opt(int key, char *arg, struct argp_state *state)
{
	struct ls_opts *o = state->input;

	switch (key) {
	case 'l':
		o->is_long = true;
		return 0;
	case 'm':
		o->max = cli_number("--max", arg, 0, UINT64_MAX);
		return 0;
	case 'a':
		o->after = cli_key(arg);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is too much, expected options only", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* One line. A key that went away since it was listed is left out. */
static int ls_print(struct cli *c, const struct ls_opts *o, const struct peal_key *k)
{
	struct peal_call call = {0};
	char text[CLI_KEY_BYTES];
	int err = o->is_long ? peal_exist(c->p, k, &call) : 0;

	if (err)
		return err == -ENOENT ? 0 : err;
	cli_key_text(k, text);
	if (c->is_json && o->is_long)
		printf("{\"key\":\"%s\",\"bytes\":%llu}\n", text,
		       (unsigned long long)call.value_bytes);
	else if (c->is_json)
		printf("{\"key\":\"%s\"}\n", text);
	else if (o->is_long)
		printf("%12llu %s\n", (unsigned long long)call.value_bytes, text);
	else
		printf("%s\n", text);
	return 0;
}

static int ls_run(struct cli *c, int argc, char **argv)
{
	static const struct argp argp = {
		.options = ls_options,
		.parser = ls_parse_opt,
		.doc = "Lists keys. Text as it is, anything else as 0x and hex digits.",
	};
	struct ls_opts o = {.max = UINT64_MAX};
	struct peal_key keys[LS_PAGE];
	uint64_t total = 0;
	ssize_t n = 1;
	int rc;

	cli_parse(&argp, c, argc, argv, &o);
	rc = cli_open(c);
	if (rc)
		return rc;
	while (total < o.max && n > 0) {
		size_t want = o.max - total < LS_PAGE ? (size_t)(o.max - total) : LS_PAGE;

		n = peal_list(c->p, o.after.len ? &o.after : NULL, keys, want, NULL);
		for (ssize_t i = 0; i < n; i++) {
			int err = ls_print(c, &o, &keys[i]);

			if (err)
				return cli_result(err);
		}
		if (n > 0)
			o.after = keys[n - 1];
		total += n > 0 ? (uint64_t)n : 0;
	}
	return cli_result(n);
}

const struct cli_cmd cmd_ls = {"ls", "", "list keys", ls_run};
