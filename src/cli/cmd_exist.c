/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal exist KEY...: each key's size, or that it is missing.
 */
/* tidy: no-test: test/unit/cli/t_cli.c runs it */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "cli/cmd_keys.h"

static int exist_run(struct cli *c, int argc, char **argv)
{
	struct cmd_keys k;
	auto_free struct peal_key *keys = NULL;
	int rc;

	cmd_keys_parse(c, argc, argv, "Says which keys are there, and how many bytes each has.",
		       &k);
	keys = k.keys;
	rc = cli_open(c);
	for (size_t i = 0; i < k.nr && rc < CLI_USAGE; i++) {
		struct peal_call call = {0};
		int err = peal_exist(c->p, &keys[i], &call);
		char text[CLI_KEY_BYTES];

		if (err && err != -ENOENT)
			return cli_result(err);
		cli_key_text(&keys[i], text);
		if (c->is_json && err)
			printf("{\"key\":\"%s\",\"bytes\":null}\n", text);
		else if (c->is_json)
			printf("{\"key\":\"%s\",\"bytes\":%llu}\n", text,
			       (unsigned long long)call.value_bytes);
		else if (err)
			printf("%s missing\n", text);
		else
			printf("%s %llu\n", text, (unsigned long long)call.value_bytes);
		rc = err ? CLI_MISS : rc;
	}
	return rc;
}

const struct cli_cmd cmd_exist = {"exist", "KEY...", "which keys are there", exist_run};
