/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal record CONTROLLER: has the daemon record that controller's commands from now on, to a file
 * in its own folder (peald --record, transport/replay); --stop ends that. For operators.
 */
/* tidy: no-test: test/peer/trace.py runs it */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "client/ns.h"
#include "peal/vendor.h"

struct record_opts {
	uint32_t ctrl;
	bool is_stop;
};

static const struct argp_option record_options[] = {
	{"stop", 's', NULL, 0, "Record it no more; the file is whole then", 0},
	{0},
};

static error_t record_parse_opt(int key, char *arg, struct argp_state *state)
{
	struct record_opts *o = state->input;

	switch (key) {
	case 's':
		o->is_stop = true;
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num)
			argp_error(state, "'%s' is too much, expected one controller", arg);
		o->ctrl = (uint32_t)cli_number("CONTROLLER", arg, 1, 0xffef);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no controller given, expected its number in the daemon's log");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int record_refused(const struct record_opts *o, int err, uint16_t status)
{
	if (status == NVME_ST_INVALID_FIELD) {
		fprintf(stderr, "peal record: no controller %u, expected one of the daemon's log\n",
			o->ctrl);
		return CLI_MISS;
	}
	if (status != NVME_ST_SEQUENCE)
		return cli_result(err);
	fprintf(stderr,
		o->is_stop ? "peal record: controller %u isn't recorded, expected one that is\n"
			   : "peal record: controller %u is recorded already, or peald has no "
			     "--record, expected neither\n",
		o->ctrl);
	return CLI_ERROR;
}

static int record_run(struct cli *c, int argc, char **argv)
{
	static const struct argp argp = {
		.options = record_options,
		.parser = record_parse_opt,
		.args_doc = "CONTROLLER",
		.doc = "Records a controller's commands for replay, to a file of the daemon's that "
		       "its log names. The daemon needs --record; what it records already is "
		       "refused, and so is --stop of what it doesn't.",
	};
	struct record_opts o = {0};
	int rc;

	cli_parse(&argp, c, argc, argv, &o);
	c->is_operator = true;
	rc = cli_open(c);
	if (!rc) {
		uint32_t verb = o.is_stop ? PEAL_TRACE_RECORD_STOP : PEAL_TRACE_RECORD;
		struct conn_admin_cmd cmd = {
			.sqe = {.opc = PEAL_OPC_ADMIN_TRACE, .cdw11 = o.ctrl, .cdw12 = verb}};

		rc = ns_admin(c->p, "record", &cmd);
		if (rc)
			rc = record_refused(&o, rc, cmd.status & 0x7ff);
	}
	return rc;
}

const struct cli_cmd cmd_record = {"record", "[--stop] CONTROLLER", "its commands, for replay",
				   record_run};
