/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal ns: namespaces listed, created, resized, deleted while the daemon runs. All but list are
 * an operator's: root's or the daemon's own user's.
 */
/* tidy: no-test: test/unit/cli/t_cli.c runs it */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "cli/cli_rpc.h"

#define NS_MAX 1024
#define NS_BYTES_MAX (1ull << 50)

struct ns_opts {
	const char *args[3];
	unsigned nr;
};

static error_t ns_parse_opt(int key, char *arg, struct argp_state *state)
{
	struct ns_opts *o = state->input;

	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	if (o->nr == 3)
		argp_error(state, "'%s' is too much", arg);
	else
		o->args[o->nr++] = arg;
	return 0;
}

static int ns_print(struct cli *c, uint32_t nsid)
{
	struct cli one = {.uri = c->uri, .nsid = nsid, .timeout_ms = c->timeout_ms};
	char capacity[16], used[16];
	struct peal_info info;
	int rc = cli_open(&one);

	if (!rc)
		rc = cli_result(peal_info(one.p, &info));
	peal_close(one.p);
	if (rc)
		return rc;
	format_size(info.capacity_bytes, capacity);
	format_size(info.used_bytes, used);
	if (c->is_json)
		printf("{\"nsid\":%u,\"kind\":\"kv\",\"capacity_bytes\":%llu,"
		       "\"used_bytes\":%llu,\"immutable\":%s}\n",
		       nsid, (unsigned long long)info.capacity_bytes,
		       (unsigned long long)info.used_bytes, info.is_immutable ? "true" : "false");
	else
		printf("%5u  %10s  %10s  %s\n", nsid, capacity, used,
		       info.is_immutable ? "immutable" : "rw");
	return CLI_OK;
}

static void ns_print_block(const struct cli *c, const json_t *ns)
{
	json_int_t bytes = json_integer_value(json_object_get(ns, "capacity_bytes"));
	json_int_t nsid = json_integer_value(json_object_get(ns, "nsid"));
	char capacity[16];

	format_size((uint64_t)bytes, capacity);
	if (c->is_json)
		printf("{\"nsid\":%lld,\"kind\":\"block\",\"capacity_bytes\":%lld}\n",
		       (long long)nsid, (long long)bytes);
	else
		printf("%5lld  %10s  %10s  block\n", (long long)nsid, capacity, "-");
}

/* Those that are no key-value ones: only the control plane tells of them, where there is one. */
static int ns_list_blocks(const struct cli *c)
{
	json_t *all, *ns;
	size_t i;
	int rc = cli_rpc_maybe("ns", c, "ns.list", c->timeout_ms ? c->timeout_ms : 5000, &all);

	json_array_foreach(all, i, ns)
	{
		const char *kind = json_string_value(json_object_get(ns, "kind"));

		if (kind && strcmp(kind, "block") == 0)
			ns_print_block(c, ns);
	}
	json_decref(all);
	return rc;
}

static int ns_list(struct cli *c)
{
	uint32_t nsids[NS_MAX];
	int n, rc = cli_open(c);

	if (rc)
		return rc;
	n = peal_ns_list(c->p, nsids, NS_MAX);
	if (n < 0)
		return cli_result(n);
	peal_close(c->p); /* one handle each from here */
	c->p = NULL;
	if (!c->is_json)
		printf(" nsid    capacity        used\n");
	for (int i = 0; i < n && i < NS_MAX && !rc; i++)
		rc = ns_print(c, nsids[i]);
	if (!rc)
		rc = ns_list_blocks(c);
	return rc;
}

static int ns_create(struct cli *c, const struct ns_opts *o)
{
	uint64_t bytes;
	uint32_t nsid;
	int rc;

	if (o->nr != 2)
		return cli_usage("ns create: expected one SIZE");
	bytes = cli_size("SIZE", o->args[1], 1, NS_BYTES_MAX);
	rc = cli_open(c);
	if (!rc)
		rc = cli_result(peal_ns_create(c->p, bytes, &nsid));
	if (!rc)
		printf(c->is_json ? "{\"nsid\":%u}\n" : "namespace %u\n", nsid);
	return rc;
}

static int ns_change(struct cli *c, const struct ns_opts *o, bool is_resize)
{
	uint64_t nsid, bytes = 0;
	int rc;

	if (o->nr != (is_resize ? 3 : 2))
		return cli_usage("ns %s: expected NSID%s", o->args[0],
				 is_resize ? " and SIZE" : "");
	nsid = cli_number("NSID", o->args[1], 1, UINT32_MAX - 1);
	if (is_resize)
		bytes = cli_size("SIZE", o->args[2], 1, NS_BYTES_MAX);
	rc = cli_open(c);
	if (rc)
		return rc;
	if (is_resize)
		return cli_result(peal_ns_resize(c->p, (uint32_t)nsid, bytes));
	rc = peal_ns_delete(c->p, (uint32_t)nsid);
	if (rc != -EPERM)
		return cli_result(rc);
	fprintf(stderr,
		"peal ns: namespace %u is a block namespace, which is of the daemon's "
		"configuration since nothing could make it again, expected another\n",
		(unsigned)nsid);
	return CLI_ERROR;
}

static int ns_run(struct cli *c, int argc, char **argv)
{
	static const struct argp argp = {
		.parser = ns_parse_opt,
		.args_doc = "list\ncreate SIZE\nresize NSID SIZE\ndelete NSID",
		.doc = "Namespaces: each has its own keys and its own share of the memory.",
	};
	struct ns_opts o = {0};

	cli_parse(&argp, c, argc, argv, &o);
	c->is_operator = true;
	if (o.nr == 0 || (o.nr == 1 && strcmp(o.args[0], "list") == 0))
		return ns_list(c);
	if (strcmp(o.args[0], "create") == 0)
		return ns_create(c, &o);
	if (strcmp(o.args[0], "resize") == 0)
		return ns_change(c, &o, true);
	if (strcmp(o.args[0], "delete") == 0)
		return ns_change(c, &o, false);
	return cli_usage("ns: '%s', expected list, create, resize or delete", o.args[0]);
}

const struct cli_cmd cmd_ns = {"ns", "list|create|resize|delete", "namespaces", ns_run};
