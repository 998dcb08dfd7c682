/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal probe [URI]: checks each layer between a host and the namespace by itself and says of each
 * whether it is good, bad, or can't be checked; probe.h has the layers. Exit status 0 only when all
 * are good.
 */
/* tidy: no-test: test/peer/probe.py runs it against devices with planted faults */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/mono.h"
#include "cli/cli.h"
#include "cli/probe.h"
#include "client/uri.h"

#define PROBE_TIME_MS 2000

static const char *const cmd_verdicts[] = {
	[PROBE_UNKNOWN] = "not checked",
	[PROBE_GOOD] = "good",
	[PROBE_BAD] = "BAD",
};

static void cmd_print(const struct probe *p, const unsigned nr[3], double ms)
{
	for (unsigned l = 0; l < PROBE_NR; l++)
		printf("%-13s %-12s %s\n", probe_names[l], cmd_verdicts[p->lines[l].verdict],
		       p->lines[l].text);
	printf("%u good, %u bad, %u not checked, %.0f ms\n", nr[PROBE_GOOD], nr[PROBE_BAD],
	       nr[PROBE_UNKNOWN], ms);
}

static void cmd_print_json(const struct probe *p, const unsigned nr[3], double ms)
{
	static const char *const verdicts[] = {"not checked", "good", "bad"};

	for (unsigned l = 0; l < PROBE_NR; l++) {
		json_t *line = json_pack("{ssssss}", "layer", probe_names[l], "verdict",
					 verdicts[p->lines[l].verdict], "text", p->lines[l].text);

		json_dumpf(line, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(line);
	}
	printf("{\"good\":%u,\"bad\":%u,\"not_checked\":%u,\"ms\":%.1f}\n", nr[PROBE_GOOD],
	       nr[PROBE_BAD], nr[PROBE_UNKNOWN], ms);
}

static error_t cmd_parse_opt(int key, char *arg, struct argp_state *state)
{
	const char **uri = state->input;

	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	if (state->arg_num)
		argp_error(state, "'%s' is too much, expected one URI", arg);
	*uri = arg;
	return 0;
}

static int cmd_probe_run(struct cli *c, int argc, char **argv)
{
	static const struct argp argp = {
		.parser = cmd_parse_opt,
		.args_doc = "[URI]",
		.doc = "Checks socket, device, registers, DMA map, doorbells, queues, commands, "
		       "completions, values and data pointers, each by itself. --timeout is the "
		       "time for all (default 2000).",
	};
	auto_free struct probe *p = calloc(1, sizeof(*p));
	unsigned nr[3] = {0};
	uint64_t began;
	double ms;
	struct uri u;
	const char *text = NULL;

	cli_parse(&argp, c, argc, argv, &text);
	if (!p)
		cli_parse_failed(ENOMEM);
	if (uri_parse(text ? text : c->uri, &u))
		return cli_result(-EINVAL);
	began = mono_ns();
	probe_run(p, u.path, c->nsid,
		  (c->timeout_ms ? c->timeout_ms : PROBE_TIME_MS) * MONO_NS_PER_MS);
	ms = (double)(mono_ns() - began) / (double)MONO_NS_PER_MS;
	for (unsigned l = 0; l < PROBE_NR; l++)
		nr[p->lines[l].verdict]++;
	(c->is_json ? cmd_print_json : cmd_print)(p, nr, ms);
	return nr[PROBE_GOOD] == PROBE_NR ? CLI_OK : CLI_ERROR;
}

const struct cli_cmd cmd_probe = {"probe", "[URI]", "each layer checked by itself", cmd_probe_run};
