/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal put KEY [FILE]: a value from a file, standard input or the command line.
 */
/* tidy: no-test: test/unit/cli/t_cli.c runs it */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/cli.h"

struct put_opts {
	struct peal_key key;
	const char *file, *value;
	uint32_t flags;
	uint16_t cls;
};

enum { PUT_IF_ABSENT = 256, PUT_IF_PRESENT, PUT_CLASS };

static const struct argp_option put_options[] = {
	{"value", 'v', "TEXT", 0, "This text is the value", 0},
	{"class", PUT_CLASS, "N", 0, "The value's class, 1 to 65535, one that the namespace knows",
	 0},
	{"if-absent", PUT_IF_ABSENT, NULL, 0, "Fail when the key is there", 0},
	{"if-present", PUT_IF_PRESENT, NULL, 0, "Miss when the key isn't there", 0},
	{0},
};

static error_t put_parse_opt(int key, char *arg, struct argp_state *state)
{
	struct put_opts *o = state->input;

	switch (key) {
	case 'v':
		o->value = arg;
		return 0;
	case PUT_CLASS:
		o->cls = (uint16_t)cli_number("--class", arg, 1, 65535);
		return 0;
	case PUT_IF_ABSENT:
		o->flags |= PEAL_IF_ABSENT;
		return 0;
	case PUT_IF_PRESENT:
		o->flags |= PEAL_IF_PRESENT;
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num > 1 || (state->arg_num == 1 && o->value))
			argp_error(state, "'%s' is too much, expected KEY and one source", arg);
		else if (state->arg_num == 1)
			o->file = arg;
		else
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

/* The whole file, with one byte of room more than a value may have. */
static int put_read(const char *path, char **value, size_t *bytes)
{
	size_t room = PEAL_VALUE_MAX + 1ul, n;
	auto_fclose FILE *f = path && strcmp(path, "-") != 0 ? fopen(path, "re") : NULL;
	FILE *in = f ? f : stdin;

	if (path && !f && strcmp(path, "-") != 0)
		return cli_file_error("read", path, "");
	*value = malloc(room);
	if (!*value) {
		fprintf(stderr, "peal: no memory for a value\n");
		return CLI_ERROR;
	}
	n = fread(*value, 1, room, in);
	if (ferror(in))
		return cli_file_error("read", path, "standard input");
	*bytes = n;
	return CLI_OK;
}

static int put_run(struct cli *c, int argc, char **argv)
{
	static const struct argp argp = {
		.options = put_options,
		.parser = put_parse_opt,
		.args_doc = "KEY [FILE]",
		.doc = "Stores a value: the bytes of FILE, of standard input (no FILE, or -), or "
		       "TEXT.",
	};
	struct put_opts o = {0};
	struct peal_meta meta = {0};
	struct peal_call call = {0};
	auto_free char *read = NULL;
	size_t bytes;
	int rc;

	cli_parse(&argp, c, argc, argv, &o);
	bytes = o.value ? strlen(o.value) : 0;
	rc = o.value ? CLI_OK : put_read(o.file, &read, &bytes);
	if (!rc)
		rc = cli_open(c);
	if (rc)
		return rc;
	call.flags = o.flags;
	meta.cls = o.cls;
	if (o.cls)
		call.meta = &meta;
	return cli_result(peal_put(c->p, &o.key, o.value ? o.value : read, bytes, &call));
}

const struct cli_cmd cmd_put = {"put", "KEY [FILE]", "store a value", put_run};
