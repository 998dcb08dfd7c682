/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking the daemon's control plane (doc/rpc.md) from subcommands: one connection, one question at
 * a time, with a deadline. One thread.
 */
#pragma once

#include <jansson.h>

#include "cli/cli.h"

#define CLI_RPC_PATH_BYTES 108

struct cli_rpc {
	int fd; /* -1: not open */
	char path[CLI_RPC_PATH_BYTES];
	char *in;
	size_t nr_in;
};

/*
 * $PEAL_RPC, or "rpc" in the folder that the URI names. 0 or -errno, which errno is, too. Nothing
 * is printed: some commands do without. cli_rpc_close() in any case.
 */
int cli_rpc_open(const struct cli *c, struct cli_rpc *r);
void cli_rpc_close(struct cli_rpc *r);
/*
 * Takes params over (NULL: none). The result, or an error object as JSON-RPC has it, or NULL when
 * the daemon is gone or late (errno). The caller's.
 */
json_t *cli_rpc_call(struct cli_rpc *r, const char *method, json_t *params, unsigned timeout_ms,
		     bool *is_error);
/*
 * The exit status of a call that failed, after a message: error is what the daemon said, NULL: it
 * said nothing (errno).
 */
int cli_rpc_failed(const char *cmd, const struct cli_rpc *r, const json_t *error);
/*
 * A question of a command that does without the control plane: CLI_OK and NULL where there is none
 * or it isn't for this user; else as cli_rpc_failed(). The caller's.
 */
int cli_rpc_maybe(const char *cmd, const struct cli *c, const char *method, unsigned timeout_ms,
		  json_t **result);
