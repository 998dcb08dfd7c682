/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal record CONTROLLER: has the daemon record that controller's commands from now on, to a file
 * in its own folder (peald --record, transport/replay). For operators.
 */
/* tidy: no-test: test/peer/trace.py runs it */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "client/ns.h"
#include "peal/vendor.h"

static error_t record_parse_opt(int key, char *arg, struct argp_state *state)
{
	uint32_t *ctrl = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		if (state->arg_num)
			argp_error(state, "'%s' is too much, expected one controller", arg);
		*ctrl = (uint32_t)cli_number("CONTROLLER", arg, 1, 0xffef);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no controller given, expected its number in the daemon's log");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int record_run(struct cli *c, int argc, char **argv)
{
	static const struct argp argp = {
		.parser = record_parse_opt,
		.args_doc = "CONTROLLER",
		.doc = "Records a controller's commands for replay, to a file of the daemon's that "
		       "its log names. The daemon needs --record; what it records already is "
		       "refused.",
	};
	uint32_t ctrl = 0;
	int rc;

	cli_parse(&argp, c, argc, argv, &ctrl);
	c->is_operator = true;
	rc = cli_open(c);
	if (!rc) {
		struct conn_admin_cmd cmd = {.sqe = {.opc = PEAL_OPC_ADMIN_TRACE,
						     .cdw11 = ctrl,
						     .cdw12 = PEAL_TRACE_RECORD}};

		rc = cli_result(ns_admin(c->p, "record", &cmd));
	}
	return rc;
}

const struct cli_cmd cmd_record = {"record", "CONTROLLER", "its commands, for replay", record_run};
