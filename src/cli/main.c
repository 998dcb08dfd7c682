/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal(1): a table of subcommands. Options before the subcommand are the common ones; everything
 * behind it is the subcommand's, which takes the common ones too.
 */
/* tidy: no-test: test/unit/cli/t_cli.c runs the program */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const struct cli_cmd *const main_cmds[] = {
	&cmd_put,  &cmd_get,	&cmd_del,    &cmd_exist, &cmd_ls,     &cmd_match, &cmd_hint,
	&cmd_stat, &cmd_bench,	&cmd_replay, &cmd_ns,	 &cmd_class,  &cmd_log,	  &cmd_rpc,
	&cmd_top,  &cmd_doctor, &cmd_probe,  &cmd_trace, &cmd_record, &cmd_fsck,  &cmd_expire,
};
#define MAIN_NR_CMDS (sizeof(main_cmds) / sizeof(main_cmds[0]))

struct main_opts {
	struct cli cli;
	int at; /* of the subcommand in argv */
};

static error_t main_parse_opt(int key, char *arg, struct argp_state *state)
{
	struct main_opts *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->cli;
		return 0;
	case ARGP_KEY_ARG:
		o->at = state->next - 1;
		state->next = state->argc; /* the rest isn't ours */
		(void)arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* The commands, behind the options in --help. */
static char *main_help(int key, const char *text, void *input)
{
	char *out = NULL;
	size_t bytes = 0;
	FILE *f;

	(void)input;
	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)(uintptr_t)text;
	f = open_memstream(&out, &bytes);
	if (!f)
		return NULL;
	fputs("Commands:\n", f);
	for (size_t i = 0; i < MAIN_NR_CMDS; i++)
		fprintf(f, "  %-6s %-28s %s\n", main_cmds[i]->name, main_cmds[i]->args,
			main_cmds[i]->help);
	fputs("\n`peal COMMAND --help` says more. Exit status: 0 done, 1 a miss, 2 a wrong "
	      "argument, 3 a failure.",
	      f);
	fclose(f);
	return out;
}

static int main_unknown(const char *name)
{
	fprintf(stderr, "peal: '%s' is no command, expected one of", name);
	for (size_t i = 0; i < MAIN_NR_CMDS; i++)
		fprintf(stderr, "%s %s", i ? "," : "", main_cmds[i]->name);
	fputc('\n', stderr);
	return CLI_USAGE;
}

int main(int argc, char **argv)
{
	static const struct argp_child children[] = {{&cli_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {
		.parser = main_parse_opt,
		.args_doc = "COMMAND [ARG...]",
		.doc = "Talks to peald, the KV cache that GPUs can ring.\v",
		.children = children,
		.help_filter = main_help,
	};
	const char *uri = getenv("PEAL_URI");
	struct main_opts o = {.cli = {.uri = uri && *uri ? uri : CLI_URI}};
	char name[64];
	int err;

	argp_err_exit_status = CLI_USAGE;
	argp_program_version = "peal " PEAL_VERSION;
	cli_json_init();
	err = argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &o);
	if (err)
		cli_parse_failed(err);
	if (!o.at)
		return cli_usage("no command given, expected one; see peal --help");
	for (size_t i = 0; i < MAIN_NR_CMDS; i++) {
		int rc;

		if (strcmp(argv[o.at], main_cmds[i]->name) != 0)
			continue;
		snprintf(name, sizeof(name), "peal %s", main_cmds[i]->name);
		argv[o.at] = name;
		rc = main_cmds[i]->run(&o.cli, argc - o.at, argv + o.at);
		peal_close(o.cli.p);
		if (fflush(stdout) || ferror(stdout)) {
			fprintf(stderr, "peal: can't write the output: %s\n", strerror(errno));
			return CLI_ERROR;
		}
		return cli_json_end(rc);
	}
	return main_unknown(argv[o.at]);
}
