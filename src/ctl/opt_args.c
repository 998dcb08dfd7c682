/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peald's command line out of the option table, by argp. Options are only noted while argp runs:
 * the file has to be read before them, wherever --config stands. Main thread; ends the program on
 * --help, --version, --check-config and mistakes.
 */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/log.h"
#include "base/must.h"
#include "base/parse.h"
#include "ctl/conf.h"

#define ARGS_KEY 256 /* of rows without a letter, and up */
#define ARGS_ROWS_MAX 64
#define ARGS_MAX 1024

const char *argp_program_version = "peald " PEAL_VERSION;

struct args_given {
	unsigned row;
	const char *text;
};

struct args {
	struct conf *c;
	unsigned nr_rows;
	const struct opt *rows[ARGS_ROWS_MAX];
	const struct opt_group *groups[ARGS_ROWS_MAX];
	char help[ARGS_ROWS_MAX][512];
	struct argp_option options[ARGS_ROWS_MAX + 1];
	unsigned nr_given;
	struct args_given given[ARGS_MAX];
};

static void args_row(struct args *a, const struct opt_group *g, const struct opt *o)
{
	unsigned i = a->nr_rows;
	const char *dflt = o->dflt ? o->dflt : o->dflt_help, *sep;
	char range[OPT_RANGE_BYTES];

	if (!o->name)
		return;
	must(i < ARGS_ROWS_MAX);
	opt_range(o, range);
	sep = range[0] && dflt ? "; " : "";
	snprintf(a->help[i], sizeof(a->help[i]), range[0] || dflt ? "%s (%s%s%s%s)" : "%s", o->help,
		 range, sep, dflt ? "default: " : "", dflt ? dflt : "");
	a->options[i] = (struct argp_option){
		.name = o->name,
		.key = o->letter ? o->letter : (int)(ARGS_KEY + i),
		.arg = o->arg,
		.doc = a->help[i],
	};
	a->rows[i] = o;
	a->groups[i] = g;
	a->nr_rows++;
}

static void args_rows(struct args *a)
{
	const struct opt_group *g = &conf_daemon;

	for (unsigned t = 0; t <= conf_nr_transports; t++) {
		for (unsigned i = 0; i < g->nr; i++)
			args_row(a, g, &g->opts[i]);
		g = t < conf_nr_transports ? conf_transports[t] : NULL;
	}
}

static error_t args_one(int key, char *text, struct argp_state *st)
{
	struct args *a = st->input;

	if (key == ARGP_KEY_ARG) {
		argp_error(st, "'%s': no arguments are taken, only options", text);
		return 0;
	}
	for (unsigned i = 0; i < a->nr_rows; i++) {
		if (a->options[i].key != key)
			continue;
		if (a->nr_given == ARGS_MAX)
			argp_error(st, "more than %d options", ARGS_MAX);
		else
			a->given[a->nr_given++] = (struct args_given){i, text};
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static void args_apply(struct args *a, const struct args_given *g)
{
	const struct opt *o = a->rows[g->row];
	char expected[OPT_EXPECTED_BYTES];

	if (!opt_set(o, (char *)a->c + a->groups[g->row]->base, g->text, expected))
		return;
	fprintf(stderr, "peald: --%s: '%s' is not good, expected %s\n", o->name, g->text, expected);
	exit(2);
}

/* Status 2 and a word to who wrote it; when the machine is at fault, 1 and a line of the log. */
static void args_die(int rc, const char *err)
{
	if (rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE || rc == -EIO) {
		log_err("peald does not start: configuration: %s", err);
		exit(1);
	}
	fprintf(stderr, "peald: %s\n", err);
	exit(2);
}

static void args_good(const struct conf *c)
{
	char size[16];

	format_size(c->dram_bytes, size);
	printf("%s%sgood: %u reactor%s, %s of DRAM, %u namespace%s", c->file,
	       c->file[0] ? ": " : "", c->nr_reactors, c->nr_reactors == 1 ? "" : "s", size,
	       c->nr_ns, c->nr_ns == 1 ? "" : "s");
	if (c->nr_blocks)
		printf(", %u of blocks", c->nr_blocks);
	putchar('\n');
	exit(0);
}

/* --config stands in the table like everything else, but what it names comes first. */
static void args_file(struct args *a, char *err)
{
	int rc = 0;

	for (unsigned i = 0; i < a->nr_given; i++)
		if (strcmp(a->rows[a->given[i].row]->name, "config") == 0)
			args_apply(a, &a->given[i]);
	if (a->c->file[0])
		rc = conf_yaml_load(a->c, a->c->file, err);
	if (rc)
		args_die(rc, err);
}

void opt_args_parse(int argc, char **argv, struct conf *c)
{
	struct args *a = calloc(1, sizeof(*a));
	struct argp argp = {
		.options = a ? a->options : NULL,
		.parser = args_one,
		.doc = "peald: keeps LLM KV blocks in memory tiers and serves them as an NVMe "
		       "Key-Value namespace.",
	};
	char err[CONF_ERR_BYTES];
	int rc;

	if (!a)
		args_die(-ENOMEM, strerror(ENOMEM));
	a->c = c;
	args_rows(a);
	argp_err_exit_status = 2;
	rc = argp_parse(&argp, argc, argv, 0, NULL, a);
	if (rc) /* it has read nothing: it had no memory */
		args_die(-rc, strerror(rc));
	args_file(a, err);
	for (unsigned i = 0; i < a->nr_given; i++)
		args_apply(a, &a->given[i]);
	free(a);
	rc = conf_finish(c, err);
	if (rc)
		args_die(rc, err);
	if (c->is_check)
		args_good(c);
}
