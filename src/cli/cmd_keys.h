/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments that are one key or more, for del, exist and match.
 */
#pragma once

#include "cli/cli.h"

struct cmd_keys {
	struct peal_key *keys;
	size_t nr;
};

/* The whole of a command line KEY...; ends the program when there is none or a wrong one. The
 * array is the caller's to free. */
void cmd_keys_parse(struct cli *c, int argc, char **argv, const char *doc, struct cmd_keys *k);
