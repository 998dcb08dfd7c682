/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the subcommands of peal(1) share: the common options, the exit statuses, and how a failure
 * is told. A subcommand is one file, cmd_<name>.c, with one struct cli_cmd that main.c lists; its
 * run() gets its own argv (argv[0] = "peal NAME" for messages) and returns the exit status.
 */
#pragma once

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "peal/peal.h"

enum cli_exit {
	CLI_OK = 0,
	CLI_MISS = 1,  /* the key isn't there */
	CLI_USAGE = 2, /* a wrong argument */
	CLI_ERROR = 3,
};

#define CLI_URI "vfu:/run/peal/cntrl"

struct cli {
	const char *uri;
	uint32_t nsid;
	uint32_t timeout_ms;
	bool is_json;
	bool is_operator;
	struct peal *p;
};

struct cli_cmd {
	const char *name;
	const char *args; /* for the help */
	const char *help; /* one line */
	int (*run)(struct cli *c, int argc, char **argv);
};

extern const struct cli_cmd cmd_bench, cmd_class, cmd_del, cmd_exist, cmd_get, cmd_log, cmd_ls,
	cmd_hint, cmd_match, cmd_ns, cmd_probe, cmd_put, cmd_record, cmd_replay, cmd_rpc, cmd_stat,
	cmd_doctor, cmd_expire, cmd_fsck, cmd_top, cmd_trace;

/* --uri, --ns, --timeout, --json: as a child of each command's argp, whose input is *child_inputs =
 * struct cli. */
extern const struct argp cli_argp;

/* The options of a command: input gets common options in `c`, its own in `opts`. */
struct cli_parse {
	struct cli *c;
	void *opts;
};
/* Parses with `argp` (its input: opts); a mistake ends the program with CLI_USAGE. */
void cli_parse(const struct argp *argp, struct cli *c, int argc, char **argv, void *opts);
/* argp_parse() gave an errno: a message, and the end with CLI_ERROR. */
_Noreturn void cli_parse_failed(int err);

/*
 * jansson leaves out of a document what it has no memory for: between these two that is noticed,
 * and rc, the exit status, isn't CLI_OK then, after a message.
 */
void cli_json_init(void);
int cli_json_end(int rc);

/* Opens c->p. CLI_OK, or CLI_ERROR with the message on stderr. */
int cli_open(struct cli *c);
/* The exit status of a result of libpeal's; a failure is printed. */
int cli_result(ssize_t res);
/* A file that can't be read or written, by errno: a message, then CLI_ERROR. No path: `what`. */
int cli_file_error(const char *verb, const char *path, const char *what);
/* A mistake in the arguments: the text and "expected", then CLI_USAGE. */
__attribute__((format(printf, 1, 2))) int cli_usage(const char *fmt, ...);

/*
 * What an argument says. A wrong one ends the program with CLI_USAGE, after a message: what it is,
 * the text, what was expected.
 */
struct peal_key cli_key(const char *text);
uint64_t cli_size(const char *what, const char *text, uint64_t min, uint64_t max);
uint64_t cli_number(const char *what, const char *text, uint64_t min, uint64_t max);

#define CLI_KEY_BYTES 40
/* Text when it is printable and reads back as this key, hex otherwise. */
const char *cli_key_text(const struct peal_key *k, char buf[CLI_KEY_BYTES]);
