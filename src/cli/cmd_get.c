/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal get KEY: a value, or a part of it, to standard output or a file. Nothing is written before
 * all of it is there.
 */
/* tidy: no-test: test/unit/cli/t_cli.c runs it */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/cli.h"

#define GET_TRIES 4
#define GET_FIRST_BYTES 65536u

struct get_opts {
	struct peal_key key;
	const char *file;
	uint64_t offset, length;
	bool has_length;
};

static const struct argp_option get_options[] = {
	{"output", 'o', "FILE", 0, "Write to FILE", 0},
	{"offset", 'O', "BYTES", 0, "Start there; a multiple of 4096", 0},
	{"length", 'l', "BYTES", 0, "So many bytes at most", 0},
	{0},
};

static error_t get_parse_opt(int key, char *arg, struct argp_state *state)
{
	struct get_opts *o = state->input;

	switch (key) {
	case 'o':
		o->file = arg;
		return 0;
	case 'O':
		o->offset = cli_size("--offset", arg, 0, PEAL_VALUE_MAX);
		if (o->offset % 4096)
			argp_error(state, "--offset is %s, expected a multiple of 4096", arg);
		return 0;
	case 'l':
		o->length = cli_size("--length", arg, 1, PEAL_VALUE_MAX);
		o->has_length = true;
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num > 0)
			argp_error(state, "'%s' is too much, expected one KEY", arg);
		o->key = cli_key(arg);
		return 0;
	case ARGP_KEY_END:
		if (!o->key.len)
			argp_error(state, "no key given, expected KEY");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* What doesn't fit says its size; a larger one may replace it before it is asked for again. */
static ssize_t get_value(struct cli *c, const struct get_opts *o, char **value)
{
	uint64_t room = o->has_length ? o->length : GET_FIRST_BYTES;
	ssize_t n = -EMSGSIZE;

	for (unsigned i = 0; i < GET_TRIES && n == -EMSGSIZE; i++) {
		struct peal_call call = {.offset = o->offset,
					 .flags = o->has_length ? PEAL_PART : 0};

		free(*value);
		*value = malloc(room);
		if (!*value) {
			fprintf(stderr, "peal: no memory for a value\n");
			exit(CLI_ERROR);
		}
		n = peal_get(c->p, &o->key, *value, room, &call);
		room = call.value_bytes - o->offset;
	}
	return n;
}

static int get_write(const char *path, const char *value, size_t bytes)
{
	auto_fclose FILE *f = path ? fopen(path, "we") : NULL;
	FILE *out = f ? f : stdout;

	if ((path && !f) || fwrite(value, 1, bytes, out) != bytes || fflush(out))
		return cli_file_error("write", path, "standard output");
	return CLI_OK;
}

static int get_run(struct cli *c, int argc, char **argv)
{
	static const struct argp argp = {
		.options = get_options,
		.parser = get_parse_opt,
		.args_doc = "KEY",
		.doc = "Writes the value of KEY. A miss is exit status 1 and no output.",
	};
	struct get_opts o = {0};
	auto_free char *value = NULL;
	ssize_t n;
	int rc;

	cli_parse(&argp, c, argc, argv, &o);
	rc = cli_open(c);
	if (rc)
		return rc;
	n = get_value(c, &o, &value);
	return n < 0 ? cli_result(n) : get_write(o.file, value, (size_t)n);
}

const struct cli_cmd cmd_get = {"get", "KEY", "write a value", get_run};
