/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal class: what the class numbers of a namespace's values stand for and which it takes; listed,
 * added, removed and purged while the daemon runs, through its control plane (doc/rpc.md).
 */
/* tidy: no-test: test/peer/ctl_rpc.py runs it */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "cli/cli_rpc.h"

#define CLASS_ARGS_MAX 8
#define CLASS_TIMEOUT_MS 600000 /* a purge takes as long as it takes */

struct class_opts {
	char *args[CLASS_ARGS_MAX];
	unsigned nr;
};

static error_t class_parse_opt(int key, char *arg, struct argp_state *state)
{
	struct class_opts *o = state->input;

	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	if (o->nr == CLASS_ARGS_MAX)
		argp_error(state, "'%s' is too much, expected fewer words", arg);
	else
		o->args[o->nr++] = arg;
	return 0;
}

/* The namespace that -n names, or the first that has keys. CLI_OK, or that there is none. */
static int class_ns(struct cli *c, struct cli_rpc *r, json_int_t *nsid)
{
	bool is_error = true;
	json_t *list, *one;
	size_t i;
	int rc = CLI_OK;

	*nsid = c->nsid;
	if (*nsid)
		return CLI_OK;
	list = cli_rpc_call(r, "ns.list", NULL, CLASS_TIMEOUT_MS, &is_error);
	if (!list || is_error)
		rc = cli_rpc_failed("class", r, list);
	json_array_foreach(list, i, one)
	{
		const char *set = json_string_value(json_object_get(one, "command_set"));

		if (set && strcmp(set, "kv") == 0 && !*nsid)
			*nsid = json_integer_value(json_object_get(one, "nsid"));
	}
	json_decref(list);
	if (!rc && !*nsid) {
		fprintf(stderr, "peal class: the daemon has no key-value namespace\n");
		rc = CLI_ERROR;
	}
	return rc;
}

static const char *class_text(const json_t *one, const char *key)
{
	const char *text = json_string_value(json_object_get(one, key));

	return text && *text ? text : "-";
}

static void class_print(const struct cli *c, const json_t *list)
{
	json_t *one;
	char size[16];
	size_t i;

	if (!c->is_json)
		printf("class        keys       bytes  name  model  layout  dtype\n");
	json_array_foreach(list, i, one)
	{
		if (c->is_json) {
			json_dumpf(one, stdout, JSON_COMPACT);
			putchar('\n');
			continue;
		}
		format_size((uint64_t)json_integer_value(json_object_get(one, "memory_bytes")),
			    size);
		printf("%5lld  %10lld  %10s  ",
		       (long long)json_integer_value(json_object_get(one, "class")),
		       (long long)json_integer_value(json_object_get(one, "memory_keys")), size);
		if (json_is_true(json_object_get(one, "registered")))
			printf("%s  %s  %s  %s\n", class_text(one, "name"),
			       class_text(one, "model"), class_text(one, "layout"),
			       class_text(one, "dtype"));
		else
			printf("(not registered)\n");
	}
}

/* name=TEXT and the like, for class.add. */
static int class_fields(const struct class_opts *o, json_t *params)
{
	static const char *const fields[] = {"name", "model", "layout", "dtype", "codec"};

	for (unsigned i = 2; i < o->nr; i++) {
		char *eq = strchr(o->args[i], '=');
		size_t n = eq ? (size_t)(eq - o->args[i]) : 0, f = 0;

		while (f < 5 && (strlen(fields[f]) != n || strncmp(fields[f], o->args[i], n) != 0))
			f++;
		if (!eq || f == 5)
			return cli_usage("class add: '%s', expected name=, model=, layout=, dtype= "
					 "or codec= and a text",
					 o->args[i]);
		if (json_object_set_new(params, fields[f], json_string(eq + 1)))
			return cli_usage("class add: '%s' is no text, expected one", o->args[i]);
	}
	return CLI_OK;
}

struct class_verb {
	const char *name, *method;
	unsigned nr_min, nr_max; /* words with the verb */
};

static const struct class_verb *class_verb(const struct class_opts *o)
{
	static const struct class_verb verbs[] = {{"list", "class.list", 1, 1},
						  {"add", "class.add", 2, CLASS_ARGS_MAX},
						  {"remove", "class.remove", 2, 2},
						  {"purge", "key.purge", 2, 2}};

	if (o->nr == 0)
		return &verbs[0];
	for (unsigned i = 0; i < 4; i++) {
		if (strcmp(o->args[0], verbs[i].name) != 0)
			continue;
		if (o->nr >= verbs[i].nr_min && o->nr <= verbs[i].nr_max)
			return &verbs[i];
		cli_usage("class %s: expected %s", verbs[i].name,
			  i ? "one CLASS" : "nothing behind it");
		return NULL;
	}
	cli_usage("class: '%s', expected list, add, remove or purge", o->args[0]);
	return NULL;
}

static int class_ask(struct cli *c, struct cli_rpc *r, const struct class_verb *verb,
		     json_t *params)
{
	bool is_error = true;
	json_int_t ns;
	json_t *result;
	int rc = class_ns(c, r, &ns);

	if (rc) {
		json_decref(params);
		return rc;
	}
	json_object_set_new(params, "ns", json_integer(ns));
	result = cli_rpc_call(r, verb->method, params, CLASS_TIMEOUT_MS, &is_error);
	rc = result && !is_error ? CLI_OK : cli_rpc_failed("class", r, result);
	if (!rc && json_is_array(result))
		class_print(c, result);
	else if (!rc && json_object_get(result, "deleted"))
		printf(c->is_json ? "{\"deleted\":%lld}\n" : "%lld deleted\n",
		       (long long)json_integer_value(json_object_get(result, "deleted")));
	json_decref(result);
	return rc;
}

static int class_run(struct cli *c, int argc, char **argv)
{
	static const struct argp argp = {
		.parser = class_parse_opt,
		.args_doc = "list\nadd CLASS [name=TEXT] [model=TEXT] [layout=TEXT] "
			    "[dtype=TEXT]\nremove CLASS\npurge CLASS",
		.doc = "Classes: what the numbers that values carry stand for. A namespace that "
		       "has some takes no values of others. What is added isn't in the "
		       "configuration file. Keys and bytes are those in memory.",
	};
	struct class_opts o = {0};
	const struct class_verb *verb;
	struct cli_rpc r = {.fd = -1};
	json_t *params = json_object();
	int rc = CLI_OK;

	cli_parse(&argp, c, argc, argv, &o);
	verb = class_verb(&o);
	if (!verb)
		rc = CLI_USAGE;
	if (!rc && o.nr > 1)
		json_object_set_new(
			params, "class",
			json_integer((json_int_t)cli_number("CLASS", o.args[1], 1, 65535)));
	if (!rc && o.nr > 2)
		rc = class_fields(&o, params);
	if (!rc && cli_rpc_open(c, &r))
		rc = cli_rpc_failed("class", &r, NULL);
	if (rc)
		json_decref(params);
	else
		rc = class_ask(c, &r, verb, params);
	cli_rpc_close(&r);
	return rc;
}

const struct cli_cmd cmd_class = {"class", "list|add|remove|purge", "classes of values", class_run};
