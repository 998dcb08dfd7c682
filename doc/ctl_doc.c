/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Documents out of the tables: the options of peald(8), peald.yaml(5), doc/rpc.md. tools/gendoc
 * runs this and says when what is in the tree is stale. One argument, text on standard output.
 */
#include <stdio.h>
#include <string.h>

#include "ctl/ctl_rpc.h"

/* scdoc reads * and _ as emphasis, and a backslash takes that away. */
static void doc_text(const char *s)
{
	for (; *s; s++) {
		if (strchr("*_\\<>", *s))
			putchar('\\');
		putchar(*s);
	}
}

static void doc_default(const struct opt *o)
{
	const char *dflt = o->dflt ? o->dflt : o->dflt_help;

	if (dflt) {
		printf(" Default: ");
		doc_text(dflt);
		putchar('.');
	}
	putchar('\n');
}

/* "[ADDR:]PORT": words in capitals are to be filled in. */
static void doc_arg(const char *arg)
{
	bool is_on = false;

	for (; *arg; arg++) {
		bool is_word = (*arg >= 'A' && *arg <= 'Z') ||
			       (is_on && *arg >= '0' && *arg <= '9');

		if (is_word != is_on)
			putchar('_');
		is_on = is_word;
		if (strchr("*_\\<>", *arg))
			putchar('\\');
		putchar(*arg);
	}
	if (is_on)
		putchar('_');
}

static void doc_option(const struct opt *o)
{
	char range[OPT_RANGE_BYTES];

	if (!o->name)
		return;
	if (o->letter)
		printf("*-%c*, ", o->letter);
	printf("*--%s*", o->name);
	if (o->arg) {
		putchar(' ');
		doc_arg(o->arg);
	}
	printf("\n\t");
	doc_text(o->help);
	putchar('.');
	opt_range(o, range);
	if (range[0])
		printf(" %s.", range);
	doc_default(o);
	putchar('\n');
}

static void doc_options(void)
{
	for (unsigned i = 0; i < conf_daemon.nr; i++)
		doc_option(&conf_daemon.opts[i]);
	for (unsigned t = 0; t < conf_nr_transports; t++)
		for (unsigned i = 0; i < conf_transports[t]->nr; i++)
			doc_option(&conf_transports[t]->opts[i]);
	printf("*--help*, *--version*\n\tSay it and stop.\n");
}

static void doc_group(const struct opt_group *g)
{
	char expected[OPT_EXPECTED_BYTES];

	for (unsigned i = 0; i < g->nr; i++) {
		const struct opt *o = &g->opts[i];

		if (!o->key)
			continue;
		opt_expected(o, expected);
		printf("*%s*\n\t", o->key);
		doc_text(o->help);
		printf(". Takes ");
		doc_text(expected);
		putchar('.');
		doc_default(o);
		putchar('\n');
	}
}

static void doc_yaml(void)
{
	printf("peald.yaml(5)\n\n# NAME\n\npeald.yaml - the configuration of peald\n\n"
	       "# SYNOPSIS\n\n*peald* *--config* _FILE_\n\n# DESCRIPTION\n\n"
	       "A YAML mapping. Every key may be left out; the command line of *peald*(8) "
	       "overrides "
	       "the\n"
	       "file. A key with a point in its name here, as log.level, is a key in a mapping:\n"
	       "\"log: {level: info}\". A mistake is told with file, line, column, value and what "
	       "was\n"
	       "expected; *peald --check-config* looks without starting anything.\n\n"
	       "# THE DAEMON\n\n");
	doc_group(&conf_daemon);
	printf("# TRANSPORTS\n\nUnder the key *transports*, a list of \"- NAME: {...}\".\n\n");
	for (unsigned t = 0; t < conf_nr_transports; t++) {
		printf("## %s\n\n%s\n\n", conf_transports[t]->name, conf_transports[t]->help);
		doc_group(conf_transports[t]);
	}
	printf("# NAMESPACES\n\nUnder the key *namespaces*, a list of mappings. %s Namespace N "
	       "of the "
	       "list is NVMe namespace N.\n\n",
	       conf_namespace.help);
	doc_group(&conf_namespace);
	printf("# TIERS\n\nThe key *tiers* of a namespace names them from the top down, with | "
	       "between "
	       "them:\n\n");
	for (unsigned i = 0; i < conf_nr_tier_rows; i++)
		printf("*%s* %s\n\t%s.\n\n", conf_tier_rows[i].name, conf_tier_rows[i].args,
		       conf_tier_rows[i].help);
	printf("# CLASSES\n\nUnder the key *classes* of a namespace, a list of mappings. %s\n\n",
	       conf_class.help);
	doc_group(&conf_class);
	printf("# BLOCK NAMESPACES\n\nUnder the key *blocks*, a list of texts as *--block* of "
	       "*peald*(8) takes them. Their numbers follow those of the namespaces.\n\n"
	       "# SEE ALSO\n\n*peald*(8), *peal*(1); a sample is contrib/peald.yaml.\n");
}

static void doc_params(const struct rpc_method *m)
{
	char expected[RPC_TEXT_BYTES];

	if (!m->nr_params) {
		printf("No parameters.\n\n");
		return;
	}
	printf("| parameter | takes | |\n| --- | --- | --- |\n");
	for (unsigned i = 0; i < m->nr_params; i++) {
		const struct rpc_param *p = &m->params[i];

		rpc_param_expected(p, expected);
		printf("| `%s`%s | %s | %s |\n", p->name, p->is_needed ? "" : " (optional)",
		       expected, p->help);
	}
	putchar('\n');
}

static void doc_rpc(void)
{
	printf("# The control plane's methods\n\n"
	       "Generated from the tables in src/ctl by `tools/gendoc`; don't edit.\n\n"
	       "peald answers [JSON-RPC 2.0](https://www.jsonrpc.org/specification) on a unix "
	       "stream socket: `rpc` in the\n"
	       "folder of `--dir`, or `--rpc PATH`. Its mode is 0600, and the kernel must say that "
	       "the peer is root or the\n"
	       "daemon's own user. `peal rpc METHOD [NAME=VALUE...]` asks from a shell.\n\n"
	       "- A message is an object or a batch of at most %d; it ends with its last bracket, "
	       "and a line break behind it\n"
	       "  is fine. Replies are one line each. At most 1 MiB, 64 levels deep, 64 "
	       "connections; one message of a\n"
	       "  connection at a time.\n"
	       "- Parameters by name or by position. Namespaces by number or name, sizes as "
	       "numbers of bytes or as texts\n"
	       "  such as `\"8G\"`, keys as 1 to 16 characters or as `0x` and hex digits.\n"
	       "- After a message that is no JSON the connection is closed: where the next one "
	       "begins would be a guess.\n\n"
	       "| code | means |\n| --- | --- |\n"
	       "| -32700, -32600, -32601, -32602 | no JSON, no request, no such method, wrong "
	       "parameters: the message says which and what was expected |\n"
	       "| -32603 | no memory |\n| %d | not found |\n| %d | exists already |\n"
	       "| %d | no space left |\n| %d | busy, try later |\n| %d | the daemon stops |\n"
	       "| %d | not permitted |\n| %d | anything else |\n",
	       RPC_BATCH_MAX, RPC_NOT_FOUND, RPC_EXISTS, RPC_NO_SPACE, RPC_BUSY, RPC_STOPPING,
	       RPC_NOT_PERMITTED, RPC_FAILED);
	for (const struct rpc_method *const *m = rpc_table_methods; *m; m++) {
		printf("\n## %s\n\n%s.\n\n", (*m)->name, (*m)->help);
		doc_params(*m);
		printf("Result: %s.\n", (*m)->result);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";

	if (strcmp(what, "options") == 0)
		doc_options();
	else if (strcmp(what, "yaml") == 0)
		doc_yaml();
	else if (strcmp(what, "rpc") == 0)
		doc_rpc();
	else
		return 2;
	return ferror(stdout) ? 1 : 0;
}
