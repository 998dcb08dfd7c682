/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal match KEY...: how far a chain of keys is there from its start.
 */
/* tidy: no-test: test/unit/cli/t_cli.c runs it */
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "cli/cmd_keys.h"

static int match_run(struct cli *c, int argc, char **argv)
{
	struct cmd_keys k;
	auto_free struct peal_key *keys = NULL;
	size_t in_memory = 0;
	ssize_t n;
	int rc;

	cmd_keys_parse(
		c, argc, argv,
		"Counts the keys that are there from the first on, up to the first miss. None "
		"is exit status 1.",
		&k);
	keys = k.keys;
	rc = cli_open(c);
	if (rc)
		return rc;
	n = peal_match(c->p, keys, k.nr, &in_memory, NULL);
	if (n < 0)
		return cli_result(n);
	if (c->is_json)
		printf("{\"keys\":%zu,\"present\":%zd,\"in_memory\":%zu}\n", k.nr, n, in_memory);
	else
		printf("%zd of %zu present, %zu in memory\n", n, k.nr, in_memory);
	return n ? CLI_OK : CLI_MISS;
}

const struct cli_cmd cmd_match = {"match", "KEY...", "how far a chain is there", match_run};
