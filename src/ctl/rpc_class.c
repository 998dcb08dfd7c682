/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Methods about the classes of a namespace: what its values' 16 bits stand for, and which of them
 * it takes (kv_class.c). What is changed here isn't in the configuration file, and gone with the
 * daemon. run() is the home's, the JSON the control thread's.
 * tidy: no-test: t_ctl_walk.c and test/peer/ctl_rpc.py ask
 */
#include <errno.h>

#include "base/container.h"
#include "ctl/ctl_ns.h"
#include "ctl/ctl_rpc.h"

struct class_call {
	struct ctl_call call;
	struct rpc_req *req;
	struct ctl_ns_ref ref;
	struct kv_class one;
	struct ctl_ns_classes all;
	int err; /* -ENXIO: no such namespace; -EOPNOTSUPP: it has no classes */
};

static void class_failed(struct class_call *n)
{
	switch (n->err) {
	case -ENXIO:
		ctl_ns_missing(n->req, &n->ref);
		return;
	case -EOPNOTSUPP:
		ctl_ns_not_kv(n->req, &n->ref, "");
		return;
	case -EEXIST:
		rpc_req_fail(n->req, n->err, "class %u is there already, expected another one",
			     n->one.id);
		return;
	case -ENOENT:
		rpc_req_fail(n->req, n->err, "class %u isn't there, expected one of class.list",
			     n->one.id);
		return;
	case -ENOSPC:
		rpc_req_fail(n->req, n->err, "the namespace has %u classes, which is the most",
			     KV_CLASSES_MAX);
		return;
	default:
		rpc_req_fail(n->req, n->err, "%s", strerror(-n->err));
	}
}

static void class_free(struct class_call *n)
{
	free(n->all.of);
	free(n);
}

static void class_done(struct ctl_call *call)
{
	struct class_call *n = container_of(call, struct class_call, call);

	if (n->err)
		class_failed(n);
	else
		rpc_req_done(n->req, json_object());
	class_free(n);
}

/* The home reactor. NULL: there is no such KV namespace, and that is noted. */
static struct tgt_ns *class_ns(struct class_call *n)
{
	struct tgt_ns *ns = ctl_ns_find(n->call.c, &n->ref);

	if (ns && kv_ns_is(ns))
		return ns;
	n->err = ns ? -EOPNOTSUPP : -ENXIO;
	return NULL;
}

static void class_start(struct rpc_req *req, void (*run)(struct ctl_call *),
			void (*done)(struct ctl_call *), const struct kv_class *one)
{
	struct class_call *n = calloc(1, sizeof(*n));

	if (!n) {
		rpc_req_fail(req, -ENOMEM, "no memory");
		return;
	}
	n->req = req;
	n->ref = ctl_ns_ref(&req->args[0]);
	if (one)
		n->one = *one;
	n->call.run = run;
	n->call.done = done;
	ctl_call_start(ctl_of(req), &n->call);
}

/* ---- class.list ---- */

static const struct rpc_param list_params[] = {
	{.name = "ns", .kind = RPC_NS, .is_needed = true, .help = "Of which namespace"},
};

static void list_on_reactor(struct ctl_call *call)
{
	struct class_call *n = container_of(call, struct class_call, call);
	struct tgt_ns *ns = class_ns(n);

	if (ns)
		n->err = ctl_ns_classes(ns, &n->all);
	ctl_call_end(call);
}

json_t *rpc_class_describe(const struct kv_class *k)
{
	return json_pack("{s:i, s:s, s:s, s:s, s:s, s:s}", "class", (int)k->id, "name", k->name,
			 "model", k->model, "layout", k->layout, "dtype", k->dtype, "codec",
			 k->codec);
}

static json_t *list_one(const struct ctl_ns_classes *all, unsigned i)
{
	const struct kv_class_stat *st = &all->st.of[i];
	bool is_known = i < all->nr;
	json_t *to = is_known ? rpc_class_describe(&all->of[i])
			      : json_pack("{s:i}", "class", (int)st->id);

	json_object_set_new(to, "registered", json_boolean(is_known));
	json_object_set_new(to, "memory_keys", json_integer((json_int_t)st->nr_keys));
	json_object_set_new(to, "memory_bytes", json_integer((json_int_t)st->value_bytes));
	return to;
}

static void list_done(struct ctl_call *call)
{
	struct class_call *n = container_of(call, struct class_call, call);
	json_t *list;

	if (n->err) {
		class_failed(n);
	} else {
		list = json_array();
		for (unsigned i = 0; i < n->all.st.nr; i++)
			json_array_append_new(list, list_one(&n->all, i));
		rpc_req_done(n->req, list);
	}
	class_free(n);
}

static void list_run(struct rpc_req *req)
{
	class_start(req, list_on_reactor, list_done, NULL);
}

const struct rpc_method rpc_class_list = {
	.name = "class.list",
	.help = "The classes of a namespace, those that are registered and, where none is, those "
		"that values have; what each has in memory. key.usage counts all tiers",
	.params = list_params,
	.nr_params = ARRAY_SIZE(list_params),
	.result = "an array of {class, name, model, layout, dtype, codec, registered, memory_keys, "
		  "memory_bytes}; of one that isn't registered only class and the last three",
	.run = list_run,
};

/* ---- class.add ---- */

#define CLASS_TEXT(field, bytes, what) \
	{ \
		.name = field, .kind = RPC_TEXT, .max = (bytes)-1, .help = what \
	}

static const struct rpc_param add_params[] = {
	{.name = "ns", .kind = RPC_NS, .is_needed = true, .help = "To which namespace"},
	{.name = "class",
	 .kind = RPC_NUMBER,
	 .is_needed = true,
	 .min = 1,
	 .max = 65535,
	 .help = "The 16 bits that values of this class carry"},
	CLASS_TEXT("name", 64, "For people and metrics; class- and its number without it"),
	CLASS_TEXT("model", 128, "The model whose values they are"),
	CLASS_TEXT("layout", 128, "How the numbers of a block lie: heads, layers, tokens"),
	CLASS_TEXT("dtype", 32, "What a number is: bf16, fp8_e4m3"),
	CLASS_TEXT("codec", 32, "How values are stored; raw without it"),
};

static void add_on_reactor(struct ctl_call *call)
{
	struct class_call *n = container_of(call, struct class_call, call);
	struct tgt_ns *ns = class_ns(n);

	if (ns)
		n->err = kv_class_add(ns, &n->one);
	ctl_call_end(call);
}

static void add_text(char *to, size_t bytes, const struct rpc_arg *a, const char *dflt)
{
	snprintf(to, bytes, "%s", a->is_given && a->text[0] ? a->text : dflt);
}

static void add_run(struct rpc_req *req)
{
	const struct rpc_arg *a = req->args;
	struct kv_class k = {.id = (uint16_t)a[1].u};
	char name[16];

	snprintf(name, sizeof(name), "class-%u", k.id);
	add_text(k.name, sizeof(k.name), &a[2], name);
	add_text(k.model, sizeof(k.model), &a[3], "");
	add_text(k.layout, sizeof(k.layout), &a[4], "");
	add_text(k.dtype, sizeof(k.dtype), &a[5], "");
	add_text(k.codec, sizeof(k.codec), &a[6], "raw");
	class_start(req, add_on_reactor, class_done, &k);
}

const struct rpc_method rpc_class_add = {
	.name = "class.add",
	.help = "Registers a class. From the first one on a namespace refuses values of others, "
		"with status 1C0h; values without a class are always fine. It isn't in the "
		"configuration file, and gone with the daemon",
	.params = add_params,
	.nr_params = ARRAY_SIZE(add_params),
	.result = "{}",
	.run = add_run,
};

/* ---- class.remove ---- */

static const struct rpc_param remove_params[] = {
	{.name = "ns", .kind = RPC_NS, .is_needed = true, .help = "From which namespace"},
	{.name = "class",
	 .kind = RPC_NUMBER,
	 .is_needed = true,
	 .min = 1,
	 .max = 65535,
	 .help = "Which"},
};

static void remove_on_reactor(struct ctl_call *call)
{
	struct class_call *n = container_of(call, struct class_call, call);
	struct tgt_ns *ns = class_ns(n);

	if (ns)
		n->err = kv_class_del(ns, n->one.id);
	ctl_call_end(call);
}

static void remove_run(struct rpc_req *req)
{
	struct kv_class k = {.id = (uint16_t)req->args[1].u};

	class_start(req, remove_on_reactor, class_done, &k);
}

const struct rpc_method rpc_class_remove = {
	.name = "class.remove",
	.help = "Takes a class away. Its values stay, to be read and purged; new ones are refused, "
		"unless it was the last: a namespace without classes takes any",
	.params = remove_params,
	.nr_params = ARRAY_SIZE(remove_params),
	.result = "{}",
	.run = remove_run,
};
