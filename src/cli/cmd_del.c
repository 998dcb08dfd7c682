/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal del KEY...: the worst outcome of all of them is the exit status.
 */
/* tidy: no-test: test/unit/cli/t_cli.c runs it */
#include <stdlib.h>

#include "base/cleanup.h"
#include "cli/cmd_keys.h"

static int del_run(struct cli *c, int argc, char **argv)
{
	struct cmd_keys k;
	auto_free struct peal_key *keys = NULL;
	int rc;

	cmd_keys_parse(c, argc, argv, "Deletes keys. One that isn't there is a miss.", &k);
	keys = k.keys;
	rc = cli_open(c);
	for (size_t i = 0; i < k.nr && rc < CLI_USAGE; i++) {
		int one = cli_result(peal_del(c->p, &keys[i], NULL));

		rc = one > rc ? one : rc;
	}
	return rc;
}

const struct cli_cmd cmd_del = {"del", "KEY...", "delete values", del_run};
