/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared parts of peal(1), see cli.h. One thread.
 */
#include "cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_mem.h"
#include "base/parse.h"

static const struct argp_option cli_options[] = {
	{"uri", 'u', "URI", 0,
	 "The daemon: vfu:PATH or spawn:DIR (default $PEAL_URI, else " CLI_URI ")", 0},
	{"ns", 'n', "NSID", 0, "The namespace (default: the lowest)", 0},
	{"timeout", 't', "MS", 0, "Deadline of each call (default 2000)", 0},
	{"json", 'j', NULL, 0, "Machine-readable output", 0},
	{0},
};

static error_t cli_parse_opt(int key, char *arg, struct argp_state *state)
{
	struct cli *c = state->input;

	switch (key) {
	case 'u':
		c->uri = arg;
		return 0;
	case 'n':
		c->nsid = (uint32_t)cli_number("--ns", arg, 1, UINT32_MAX - 1);
		return 0;
	case 't':
		c->timeout_ms = (uint32_t)cli_number("--timeout", arg, 1, 3600000);
		return 0;
	case 'j':
		c->is_json = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp cli_argp = {.options = cli_options, .parser = cli_parse_opt};

/* Hands the common options to their parser and the rest to the command's. */
static error_t cli_parse_both(int key, char *arg, struct argp_state *state)
{
	struct cli_parse *in = state->input;
	const struct argp *own = state->root_argp->children[1].argp;

	(void)arg;
	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = in->c;
	if (own)
		state->child_inputs[1] = in->opts;
	return 0;
}

void cli_parse(const struct argp *argp, struct cli *c, int argc, char **argv, void *opts)
{
	struct argp own = {.options = argp->options, .parser = argp->parser};
	const struct argp_child children[] = {
		{&cli_argp, 0, "Common options:", 2},
		{&own, 0, NULL, 1},
		{0},
	};
	const struct argp root = {
		.parser = cli_parse_both,
		.args_doc = argp->args_doc,
		.doc = argp->doc,
		.children = children,
	};
	struct cli_parse in = {c, opts};
	int err;

	argp_err_exit_status = CLI_USAGE;
	err = argp_parse(&root, argc, argv, 0, NULL, &in);
	if (err)
		cli_parse_failed(err);
}

/* Nothing was read, or not all: no command runs with options that it wasn't given. */
void cli_parse_failed(int err)
{
	fprintf(stderr, "peal: can't read the arguments: %s\n", strerror(err));
	exit(CLI_ERROR);
}

/* ---- jansson leaves out what it has no memory for ---- */

void cli_json_init(void)
{
	json_set_alloc_funcs(json_mem_alloc, json_mem_free);
}

int cli_json_end(int rc)
{
	if (rc != CLI_OK || !json_mem_failed())
		return rc;
	fputs("peal: no memory: something may be missing in what was said\n", stderr);
	return CLI_ERROR;
}

int cli_open(struct cli *c)
{
	struct peal_opts o = {
		.timeout_ms = c->timeout_ms,
		.nsid = c->nsid,
		.is_operator = c->is_operator,
	};

	if (peal_open(c->uri, &o, &c->p) == 0)
		return CLI_OK;
	fprintf(stderr, "peal: %s\n", peal_errmsg());
	return CLI_ERROR;
}

int cli_result(ssize_t res)
{
	if (res >= 0)
		return CLI_OK;
	fprintf(stderr, "peal: %s\n", peal_errmsg());
	return res == -ENOENT ? CLI_MISS : CLI_ERROR;
}

int cli_file_error(const char *verb, const char *path, const char *what)
{
	fprintf(stderr, "peal: can't %s %s: %s\n", verb, path ? path : what, strerror(errno));
	return CLI_ERROR;
}

int cli_usage(const char *fmt, ...)
{
	va_list ap;

	fputs("peal: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return CLI_USAGE;
}

struct peal_key cli_key(const char *text)
{
	struct peal_key k = peal_key_text(text);

	if (!k.len)
		exit(cli_usage("'%s' is no key, expected 1 to 16 characters, or 0x and 2 to 32 "
			       "hex digits",
			       text));
	return k;
}

uint64_t cli_size(const char *what, const char *text, uint64_t min, uint64_t max)
{
	char expected[PARSE_EXPECTED_BYTES];
	uint64_t v = 0;

	if (parse_size_within(text, min, max, &v, expected))
		exit(cli_usage("%s is '%s', expected %s", what, text, expected));
	return v;
}

uint64_t cli_number(const char *what, const char *text, uint64_t min, uint64_t max)
{
	char expected[PARSE_EXPECTED_BYTES];
	uint64_t v = 0;

	if (parse_u64_within(text, min, max, &v, expected))
		exit(cli_usage("%s is '%s', expected %s", what, text, expected));
	return v;
}

const char *cli_key_text(const struct peal_key *k, char buf[CLI_KEY_BYTES])
{
	bool is_text = k->len > 0 && !(k->len >= 2 && k->b[0] == '0' && tolower(k->b[1]) == 'x');

	/* Quotes and backslashes would need care in JSON and shells. */
	for (unsigned i = 0; i < k->len; i++)
		is_text = is_text && (isalnum(k->b[i]) || strchr("_-.:/@+%=,", k->b[i]));
	if (is_text)
		snprintf(buf, CLI_KEY_BYTES, "%.*s", k->len, (const char *)k->b);
	else
		format_key(k->b, k->len, buf);
	return buf;
}
