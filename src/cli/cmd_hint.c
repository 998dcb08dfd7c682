/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal hint VERB KEY...: what is known about keys, told to the daemon.
 */
/* tidy: no-test: test/peer/t_ssd_daemon.c calls peal_hint(), t_kv_hint.c has the command */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/container.h"
#include "cli/cli.h"

struct hint_opts {
	struct peal_hint *hints;
	size_t nr;
	enum peal_say say;
	uint32_t ms;
	uint16_t weight;
};

enum { HINT_MS = 256, HINT_WEIGHT };

static const struct argp_option hint_options[] = {
	{"ms", HINT_MS, "N", 0,
	 "prefetch: wanted within so many ms; pin: for so long; 0 to 3600000", 0},
	{"weight", HINT_WEIGHT, "N", 0,
	 "prefetch: which goes first, 0 to 65535; score: the attention, 0 to 255", 0},
	{0},
};

static const char *const hint_verbs[] = {
	[PEAL_SAY_PREFETCH] = "prefetch", [PEAL_SAY_CANCEL] = "cancel",
	[PEAL_SAY_DEMOTE] = "demote",	  [PEAL_SAY_PIN] = "pin",
	[PEAL_SAY_UNPIN] = "unpin",	  [PEAL_SAY_SCORE] = "score",
};

static enum peal_say hint_verb(struct argp_state *state, const char *arg)
{
	for (size_t i = PEAL_SAY_PREFETCH; i < ARRAY_SIZE(hint_verbs); i++)
		if (strcmp(arg, hint_verbs[i]) == 0)
			return (enum peal_say)i;
	argp_error(state, "'%s' is no verb: prefetch, cancel, demote, pin, unpin or score", arg);
	return PEAL_SAY_PREFETCH;
}

static error_t hint_parse_opt(int key, char *arg, struct argp_state *state)
{
	struct hint_opts *o = state->input;

	switch (key) {
	case HINT_MS:
		o->ms = (uint32_t)cli_number("--ms", arg, 0, 3600000);
		return 0;
	case HINT_WEIGHT:
		o->weight = (uint16_t)cli_number("--weight", arg, 0, 65535);
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num == 0)
			o->say = hint_verb(state, arg);
		else
			o->hints[o->nr++].key = cli_key(arg);
		return 0;
	case ARGP_KEY_END:
		if (!o->nr)
			argp_error(state, "expected VERB and one key or more");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int hint_run(struct cli *c, int argc, char **argv)
{
	static const char doc[] =
		"Tells what is known about keys, and says how many of the hints were taken. None "
		"is exit status 1.";
	const struct argp argp = {.options = hint_options,
				  .parser = hint_parse_opt,
				  .args_doc = "VERB KEY...",
				  .doc = doc};
	struct hint_opts o = {0};
	auto_free struct peal_hint *hints = calloc((size_t)argc, sizeof(*hints));
	ssize_t n;
	int rc;

	if (!hints)
		cli_parse_failed(ENOMEM);
	o.hints = hints;
	cli_parse(&argp, c, argc, argv, &o);
	for (size_t i = 0; i < o.nr; i++) {
		hints[i].say = o.say;
		hints[i].ms = o.ms;
		hints[i].weight = o.weight;
	}
	rc = cli_open(c);
	if (rc)
		return rc;
	n = peal_hint(c->p, hints, o.nr, NULL);
	if (n < 0)
		return cli_result(n);
	if (c->is_json)
		printf("{\"hints\":%zu,\"taken\":%zd}\n", o.nr, n);
	else
		printf("%zd of %zu taken\n", n, o.nr);
	return n ? CLI_OK : CLI_MISS;
}

const struct cli_cmd cmd_hint = {"hint", "VERB KEY...", "what is known about keys", hint_run};
