/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Methods about the daemon as a whole: what can be asked, who it is, how it is configured, what it
 * logs. Control thread.
 * tidy: no-test: test/peer/ctl_rpc.py asks a daemon
 */
#include <unistd.h>

#include "base/log.h"
#include "base/mono.h"
#include "ctl/ctl_rpc.h"

/* ---- rpc.methods ---- */

static void methods_run(struct rpc_req *req)
{
	json_t *list = json_array();

	for (const struct rpc_method *const *m = rpc_of(req)->methods; *m; m++)
		json_array_append_new(list, rpc_param_describe(*m));
	rpc_req_done(req, list);
}

const struct rpc_method rpc_daemon_methods = {
	.name = "rpc.methods",
	.help = "What can be asked, with parameters and what comes back",
	.result = "an array of {name, help, params: [{name, type, needed, expected, help}], "
		  "result}; type: namespace, size, number, bool, text, key, choice",
	.run = methods_run,
};

/* ---- daemon.info ---- */

static void info_run(struct rpc_req *req)
{
	struct ctl *c = ctl_of(req);

	rpc_req_done(req, json_pack("{s:s, s:s, s:i, s:f, s:i, s:s}", "name", "peald", "version",
				    PEAL_VERSION, "pid", (int)getpid(), "uptime_seconds",
				    (double)(mono_ns() - c->born_ns) / 1e9, "reactors",
				    (int)tgt_node_nr_io(c->node), "config_file", c->conf->file));
}

const struct rpc_method rpc_daemon_info = {
	.name = "daemon.info",
	.help = "Who is answering",
	.result = "{name, version, pid, uptime_seconds, reactors, config_file}",
	.run = info_run,
};

/* ---- daemon.config ---- */

static void config_put(json_t *to, const char *key, json_t *value)
{
	const char *dot = strchr(key, '.');
	char section[64];
	json_t *sub;

	if (!dot) {
		json_object_set_new(to, key, value);
		return;
	}
	snprintf(section, sizeof(section), "%.*s", (int)(dot - key), key);
	sub = json_object_get(to, section);
	if (!sub) {
		sub = json_object();
		json_object_set_new(to, section, sub);
	}
	json_object_set_new(sub, dot + 1, value);
}

static json_t *config_value(const struct opt *o, const void *group)
{
	char text[OPT_VALUE_BYTES];

	opt_get(o, group, text);
	switch (o->kind) {
	case OPT_SIZE:
	case OPT_NUMBER:
		return json_integer((json_int_t)strtoull(text, NULL, 10));
	case OPT_BOOL:
	case OPT_FLAG:
		return json_boolean(strcmp(text, "yes") == 0);
	case OPT_CALL: /* those that read yes or no themselves, too */
		if (strcmp(text, "yes") == 0 || strcmp(text, "no") == 0)
			return json_boolean(strcmp(text, "yes") == 0);
		break;
	case OPT_TEXT:
	case OPT_CHOICE:
		break;
	}
	return json_string(text);
}

static json_t *config_group(const struct opt_group *g, const void *group)
{
	json_t *to = json_object();

	for (unsigned i = 0; i < g->nr; i++)
		if (g->opts[i].key)
			config_put(to, g->opts[i].key, config_value(&g->opts[i], group));
	return to;
}

static json_t *config_ns(const struct conf_ns *ns)
{
	json_t *one = config_group(&conf_namespace, ns), *list = json_array();

	for (unsigned i = 0; i < ns->nr_classes; i++)
		json_array_append_new(list, config_group(&conf_class, &ns->classes[i]));
	json_object_set_new(one, "classes", list);
	return one;
}

static void config_run(struct rpc_req *req)
{
	const struct conf *c = ctl_of(req)->conf;
	json_t *all = config_group(&conf_daemon, c), *list = json_array();

	for (unsigned i = 0; i < conf_nr_transports; i++) {
		const struct opt_group *g = conf_transports[i];

		json_array_append_new(list, json_pack("{s:o}", g->name,
						      config_group(g, (const char *)c + g->base)));
	}
	json_object_set_new(all, "transports", list);
	list = json_array();
	for (uint32_t i = 0; i < c->nr_ns; i++)
		json_array_append_new(list, config_ns(&c->ns[i]));
	json_object_set_new(all, "namespaces", list);
	rpc_req_done(req, all);
}

const struct rpc_method rpc_daemon_config = {
	.name = "daemon.config",
	.help = "The configuration that the daemon was started with, file and command line "
		"together",
	.result = "the keys of peald.yaml(5)",
	.run = config_run,
};

/* ---- log.level ---- */

static const char *const level_names[] = {"err", "warn", "info", "debug", NULL};
static const struct rpc_param level_params[] = {
	{.name = "level",
	 .kind = RPC_CHOICE,
	 .names = level_names,
	 .help = "The new one; without it nothing changes"},
};

static void level_run(struct rpc_req *req)
{
	unsigned level = 0;

	if (req->args[0].is_given) {
		log_set_level((enum log_level)req->args[0].u);
		log_info("log level is %s now", req->args[0].text);
	}
	while (level_names[level + 1] && log_is_on((enum log_level)(level + 1)))
		level++;
	rpc_req_done(req, json_pack("{s:s}", "level", level_names[level]));
}

const struct rpc_method rpc_daemon_log_level = {
	.name = "log.level",
	.help = "What goes to the log: read it, or set it",
	.params = level_params,
	.nr_params = 1,
	.result = "{level}",
	.run = level_run,
};
