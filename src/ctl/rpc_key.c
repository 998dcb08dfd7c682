/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Methods about keys: where one lies, how many there are of each class, and deleting all of a class
 * or of a namespace. The work is the home's (ctl_walk.c) or the key's owner's (store_where.c), the
 * JSON the control thread's.
 * tidy: no-test: test/peer/ctl_rpc.py asks a daemon
 */
#include <errno.h>

#include "base/container.h"
#include "base/parse.h"
#include "ctl/ctl_rpc.h"
#include "ctl/ctl_walk.h"

/* ---- key.where ---- */

static const struct rpc_param where_params[] = {
	{.name = "ns", .kind = RPC_NS, .is_needed = true, .help = "In which namespace"},
	{.name = "key", .kind = RPC_KEY, .is_needed = true, .help = "Which"},
};

struct where_call {
	struct ctl_call call;
	struct rpc_req *req;
	struct ctl_ns_ref ref;
	struct tgt_ns *ns;
	struct store_where w;
	int err; /* -ENXIO: no such namespace; -EOPNOTSUPP: it has no keys */
};

static json_t *where_tier(const struct store_where_tier *t)
{
	char parent[PARSE_KEY_TEXT_BYTES], group[PARSE_KEY_TEXT_BYTES];

	format_key(t->meta.parent, t->meta.parent_len, parent);
	format_key(t->meta.group, t->meta.group_len, group);
	return json_pack("{s:i, s:s, s:I, s:I, s:i, s:i, s:s*, s:s*}", "tier", (int)t->tier, "name",
			 t->name, "value_bytes", (json_int_t)t->value_len, "version",
			 (json_int_t)t->ver, "class", (int)t->meta.cls, "cost_us",
			 (int)t->meta.cost_us, "parent", t->meta.parent_len ? parent : NULL,
			 "group", t->meta.group_len ? group : NULL);
}

static void where_done(struct ctl_call *call)
{
	struct where_call *n = container_of(call, struct where_call, call);
	json_t *list = json_array();

	for (unsigned i = 0; i < n->w.nr; i++)
		json_array_append_new(list, where_tier(&n->w.found[i]));
	if (n->err == -ENXIO) {
		json_decref(list);
		ctl_ns_missing(n->req, &n->ref);
	} else if (n->err == -EOPNOTSUPP) {
		json_decref(list);
		ctl_ns_not_kv(n->req, &n->ref, "");
	} else if (n->err && n->err != -ENOENT) {
		json_decref(list);
		rpc_req_fail(n->req, n->err, "%s", strerror(-n->err));
	} else {
		rpc_req_done(n->req, json_pack("{s:b, s:o}", "found", n->w.nr > 0, "tiers", list));
	}
	free(n);
}

static void where_found(struct store_where *w, int res)
{
	struct where_call *n = container_of(w, struct where_call, w);

	n->err = res;
	ctl_ns_put(n->ns);
	ctl_call_end(&n->call);
}

static void where_on_reactor(struct ctl_call *call)
{
	struct where_call *n = container_of(call, struct where_call, call);

	n->ns = ctl_ns_get(call->c, &n->ref);
	if (!n->ns || !kv_ns_is(n->ns)) {
		n->err = n->ns ? -EOPNOTSUPP : -ENXIO;
		if (n->ns)
			ctl_ns_put(n->ns);
		ctl_call_end(call);
		return;
	}
	n->w.set = kv_ns_store(n->ns);
	n->w.home = ctl_home(call->c);
	n->w.done = where_found;
	store_where_start(&n->w);
}

static void where_run(struct rpc_req *req)
{
	struct where_call *n = calloc(1, sizeof(*n));

	if (!n || kv_ns_key(req->args[1].key, req->args[1].key_len, &n->w.key)) {
		free(n);
		rpc_req_fail(req, -ENOMEM, "no memory");
		return;
	}
	n->req = req;
	n->ref = ctl_ns_ref(&req->args[0]);
	n->call.run = where_on_reactor;
	n->call.done = where_done;
	ctl_call_start(ctl_of(req), &n->call);
}

const struct rpc_method rpc_key_where = {
	.name = "key.where",
	.help = "Which tiers hold a key, and what they know of its value; a look, not a use",
	.params = where_params,
	.nr_params = ARRAY_SIZE(where_params),
	.result = "{found, tiers: [{tier, name, value_bytes, version, class, cost_us, parent, "
		  "group}]}, "
		  "from the top down",
	.run = where_run,
};

/* ---- walks ---- */

static void walk_free(struct ctl_walk *w)
{
	free(w->known.of);
	free(w);
}

static void walk_failed(struct ctl_walk *w)
{
	if (w->res == -ENOENT)
		ctl_ns_missing(w->req, &w->ref);
	else if (w->res == -EINVAL)
		ctl_ns_not_kv(w->req, &w->ref, "");
	else
		rpc_req_fail(w->req, w->res, "%s, after %llu keys", strerror(-w->res),
			     (unsigned long long)w->nr_seen);
}

static struct ctl_walk *walk_create(struct rpc_req *req, void (*done)(struct ctl_call *call))
{
	struct ctl_walk *w = calloc(1, sizeof(*w));

	if (!w) {
		rpc_req_fail(req, -ENOMEM, "no memory");
		return NULL;
	}
	w->req = req;
	w->ref = ctl_ns_ref(&req->args[0]);
	w->call.done = done;
	return w;
}

static const struct rpc_param purge_params[] = {
	{.name = "ns", .kind = RPC_NS, .is_needed = true, .help = "Of which namespace"},
	{.name = "class",
	 .kind = RPC_NUMBER,
	 .max = 65535,
	 .help = "Only values of this class; 0 are those without one. Without it all"},
};

static void purge_done(struct ctl_call *call)
{
	struct ctl_walk *w = container_of(call, struct ctl_walk, call);

	if (w->res)
		walk_failed(w);
	else
		rpc_req_done(w->req, json_pack("{s:I, s:I}", "seen", (json_int_t)w->nr_seen,
					       "deleted", (json_int_t)w->nr_deleted));
	walk_free(w);
}

static void purge_run(struct rpc_req *req)
{
	struct ctl_walk *w = walk_create(req, purge_done);

	if (!w)
		return;
	w->is_purge = true;
	w->has_class = req->args[1].is_given;
	w->cls = (uint16_t)req->args[1].u;
	ctl_walk_start(ctl_of(req), w);
}

const struct rpc_method rpc_key_purge = {
	.name = "key.purge",
	.help = "Deletes all values of a namespace, or those of one class, in every tier. Commands "
		"go "
		"on meanwhile: what is stored during a purge may stay",
	.params = purge_params,
	.nr_params = ARRAY_SIZE(purge_params),
	.result = "{seen, deleted}: keys that were looked at, and those that are gone",
	.run = purge_run,
};

static const struct rpc_param usage_params[] = {
	{.name = "ns", .kind = RPC_NS, .is_needed = true, .help = "Of which namespace"},
};

static const struct kv_class *usage_find(const struct ctl_walk *w, uint16_t cls)
{
	for (unsigned i = 0; i < w->known.nr; i++)
		if (w->known.of[i].id == cls)
			return &w->known.of[i];
	return NULL;
}

static json_t *usage_class(const struct ctl_walk *w, const struct ctl_walk_class *c)
{
	const struct kv_class *k = usage_find(w, c->cls);
	json_t *one = json_pack("{s:i, s:I, s:I}", "class", (int)c->cls, "keys",
				(json_int_t)c->nr_keys, "value_bytes", (json_int_t)c->bytes);

	if (k)
		json_object_update_new(one, rpc_class_describe(k));
	return one;
}

static void usage_done(struct ctl_call *call)
{
	struct ctl_walk *w = container_of(call, struct ctl_walk, call);
	const struct ctl_walk_class *rest = &w->classes[CTL_WALK_CLASSES];
	json_t *list = json_array();

	for (unsigned i = 0; i < w->nr_classes; i++)
		json_array_append_new(list, usage_class(w, &w->classes[i]));
	if (w->res) {
		json_decref(list);
		walk_failed(w);
	} else {
		rpc_req_done(w->req,
			     json_pack("{s:I, s:o, s:I}", "keys", (json_int_t)w->nr_seen, "classes",
				       list, "other_keys", (json_int_t)rest->nr_keys));
	}
	walk_free(w);
}

static void usage_run(struct rpc_req *req)
{
	struct ctl_walk *w = walk_create(req, usage_done);

	if (w)
		ctl_walk_start(ctl_of(req), w);
}

const struct rpc_method rpc_key_usage = {
	.name = "key.usage",
	.help = "Counts keys and bytes of each class of a namespace, by looking at every key",
	.params = usage_params,
	.nr_params = ARRAY_SIZE(usage_params),
	.result =
		"{keys, classes: [{class, keys, value_bytes, name, model, layout, dtype, codec}], "
		"other_keys}; the last five where the class is registered",
	.run = usage_run,
};
