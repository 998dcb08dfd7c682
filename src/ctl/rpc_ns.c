/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Methods about namespaces: what there is, making one, another size, its end, a flush. The request
 * is copied into a call; run() and what follows is the home's, done() and the JSON the control
 * thread's.
 * tidy: no-test: test/peer/ctl_rpc.py asks a daemon
 */
#include <errno.h>

#include "base/container.h"
#include "ctl/ctl_rpc.h"
#include "ctl/ctl_stat.h"
#include "ctl/ctl_ns.h"
#include "nvme/nvme_str.h"

struct ns_call {
	struct ctl_call call;
	struct rpc_req *req;
	struct ctl_ns_ref ref;
	uint64_t bytes;
	struct kv_ns_opts opts;
	struct tgt_ns *ns;
	uint32_t nsid;
	int err;
	uint16_t st;	 /* NVMe's, when that is what failed */
	const char *why; /* what speaks against a block namespace */
	struct store_io io;
};

static struct ns_call *ns_call_of(struct ctl_call *call)
{
	return container_of(call, struct ns_call, call);
}

static void ns_failed(struct ns_call *n)
{
	switch (n->err) {
	case -ENOENT:
		ctl_ns_missing(n->req, &n->ref);
		return;
	case -ENOSPC:
		rpc_req_fail(n->req, n->err, "there is not so much left of the daemon's memory");
		return;
	case -EEXIST:
		rpc_req_fail(n->req, n->err,
			     "there is a namespace '%s' already, expected another "
			     "name",
			     n->ref.name);
		return;
	case -EBUSY:
		rpc_req_fail(n->req, n->err, "the namespace is being changed already, try later");
		return;
	case -EOPNOTSUPP:
		ctl_ns_not_kv(n->req, &n->ref, n->why);
		return;
	case -EINVAL:
		if (n->bytes) {
			rpc_req_fail(n->req, n->err,
				     "size: %llu is too little, expected more than 1 MiB for each "
				     "of %u reactors and what the index takes",
				     (unsigned long long)n->bytes, tgt_node_nr_io(n->call.c->node));
			return;
		}
		/* fall through */
	default:
		rpc_req_fail(n->req, n->err, "%s",
			     n->st ? nvme_str_status(n->st) : strerror(-n->err));
	}
}

static void ns_done(struct ctl_call *call)
{
	struct ns_call *n = ns_call_of(call);

	if (n->err)
		ns_failed(n);
	else
		rpc_req_done(n->req, n->nsid ? json_pack("{s:I}", "nsid", (json_int_t)n->nsid)
					     : json_object());
	free(n);
}

/* NULL: there was no memory, and that was said. */
static struct ns_call *ns_call_create(struct rpc_req *req)
{
	struct ns_call *n = calloc(1, sizeof(*n));

	if (!n) {
		rpc_req_fail(req, -ENOMEM, "no memory");
		return NULL;
	}
	n->req = req;
	n->ref = ctl_ns_ref(&req->args[0]);
	n->call.done = ns_done;
	return n;
}

static void ns_call_go(struct ns_call *n, void (*run)(struct ctl_call *call))
{
	n->call.run = run;
	ctl_call_start(ctl_of(n->req), &n->call);
}

/* The home reactor. */
static void ns_changed(void *arg, uint16_t st)
{
	struct ns_call *n = arg;

	n->st = st;
	n->err = ctl_ns_errno(st);
	ctl_call_end(&n->call);
}

/* ---- ns.list ---- */

struct ns_list {
	struct ctl_stat_wait wait;
	struct rpc_req *req;
};

static json_t *ns_describe(const struct ctl_stat_ns *s)
{
	json_t *tiers = json_array();

	for (unsigned t = 0; t < s->nr_tiers; t++)
		json_array_append_new(tiers, json_pack("{s:s, s:I, s:I}", "name", s->tiers[t].name,
						       "capacity_bytes",
						       (json_int_t)s->tiers[t].st.capacity_bytes,
						       "used_bytes",
						       (json_int_t)s->tiers[t].st.used_bytes));
	return json_pack("{s:I, s:s, s:s, s:s, s:I, s:I, s:b, s:b, s:s, s:s, s:I, s:I, s:o}",
			 "nsid", (json_int_t)s->nsid, "name", s->name, "kind",
			 s->csi == 1 ? "kv" : "block", "command_set", s->csi == 1 ? "kv" : "nvm",
			 "capacity_bytes", (json_int_t)s->capacity_bytes, "used_bytes",
			 (json_int_t)s->used_bytes, "immutable", s->info.is_immutable, "read_only",
			 s->info.is_read_only, "ack",
			 s->info.is_acked_rados ? "rados"
			 : s->info.is_acked_ssd ? "ssd"
						: "dram",
			 "write", s->info.is_through ? "through" : "back", "value_max",
			 (json_int_t)s->info.value_max, "max_keys", (json_int_t)s->info.max_keys,
			 "tiers", tiers);
}

static void list_done(struct ctl_stat_wait *wait, const struct ctl_stat *st)
{
	struct ns_list *l = container_of(wait, struct ns_list, wait);
	struct rpc_req *req = l->req;
	json_t *list = json_array();

	for (unsigned i = 0; st && i < st->nr_ns; i++)
		json_array_append_new(list, ns_describe(&st->ns[i]));
	free(l);
	if (st) {
		rpc_req_done(req, list);
		return;
	}
	json_decref(list);
	rpc_req_fail(req, -ENOMEM, "no memory");
}

static void list_run(struct rpc_req *req)
{
	struct ns_list *l = calloc(1, sizeof(*l));

	if (!l) {
		rpc_req_fail(req, -ENOMEM, "no memory");
		return;
	}
	l->req = req;
	l->wait.done = list_done;
	ctl_stat_get(ctl_of(req), &l->wait);
}

const struct rpc_method rpc_ns_list = {
	.name = "ns.list",
	.help = "The namespaces, with their tiers",
	.result = "an array of {nsid, name, kind: kv or block, command_set, capacity_bytes, "
		  "used_bytes, immutable, "
		  "read_only, value_max, max_keys, tiers: [{name, capacity_bytes, used_bytes}]}",
	.run = list_run,
};

/* ---- ns.create ---- */

static const struct rpc_param create_params[] = {
	{.name = "name",
	 .kind = RPC_TEXT,
	 .is_needed = true,
	 .min = 1,
	 .max = 63,
	 .help = "What it is called, not digits alone; its identifiers come from it"},
	{.name = "size",
	 .kind = RPC_SIZE,
	 .is_needed = true,
	 .min = CONF_NS_BYTES_MIN,
	 .max = CONF_BYTES_MAX,
	 .help = "Its share of the daemon's memory"},
	{.name = "immutable",
	 .kind = RPC_BOOL,
	 .help = "Does a key always mean the same bytes? Without it the daemon's default"},
	{.name = "read_only", .kind = RPC_BOOL, .help = "Stores and deletes are refused"},
	{.name = "value_max",
	 .kind = RPC_SIZE,
	 .min = 1,
	 .max = NVME_KV_VALUE_MAX,
	 .help = "Largest value; without it the daemon's"},
	{.name = "max_keys",
	 .kind = RPC_NUMBER,
	 .min = 1024,
	 .max = UINT32_MAX - 1,
	 .help = "Most keys; without it the daemon's"},
};

static void create_destroyed(void *arg, uint16_t st)
{
	struct ns_call *n = arg;

	ctl_call_end(&n->call);
}

static void create_on_reactor(struct ctl_call *call)
{
	struct ns_call *n = ns_call_of(call);
	struct ctl *c = call->c;

	n->opts.name = n->ref.name;
	n->err = ctl_ns_find(c, &n->ref) ? -EEXIST : kv_ns_create(c->subsys, &n->opts, &n->ns);
	if (!n->err) {
		n->err = tgt_subsys_ns_add(c->subsys, n->ns, 0);
		if (n->err) {
			n->ns->ops->destroy(n->ns, ctl_home(c), create_destroyed, n);
			return;
		}
		n->nsid = n->ns->nsid;
	}
	ctl_call_end(call);
}

static void create_run(struct rpc_req *req)
{
	const struct conf *conf = ctl_of(req)->conf;
	const struct rpc_arg *a = req->args;
	struct ns_call *n;

	if (!conf_name_check(a[0].text)) {
		rpc_req_fail(req, -EINVAL, "name: \"%s\" is not good, expected %s", a[0].text,
			     CONF_NAME_EXPECTED);
		return;
	}
	n = ns_call_create(req);
	if (!n)
		return;
	n->opts = (struct kv_ns_opts){
		.dram_bytes = a[1].u,
		.is_immutable = a[2].is_given ? a[2].u : conf->is_immutable,
		.is_read_only = a[3].u,
		.value_max = a[4].is_given ? (uint32_t)a[4].u : conf->value_max,
		.max_keys = a[5].is_given ? (uint32_t)a[5].u : conf->max_keys,
	};
	ns_call_go(n, create_on_reactor);
}

const struct rpc_method rpc_ns_create = {
	.name = "ns.create",
	.help = "Makes a namespace; hosts are told. It isn't in the configuration file, and gone "
		"with "
		"the daemon",
	.params = create_params,
	.nr_params = ARRAY_SIZE(create_params),
	.result = "{nsid}",
	.run = create_run,
};

/* ---- ns.resize, ns.delete ---- */

static const struct rpc_param resize_params[] = {
	{.name = "ns", .kind = RPC_NS, .is_needed = true, .help = "Which"},
	{.name = "size",
	 .kind = RPC_SIZE,
	 .is_needed = true,
	 .min = CONF_NS_BYTES_MIN,
	 .max = CONF_BYTES_MAX,
	 .help = "Its new share of the memory; what no longer fits is "
		 "evicted"},
};

/* The home reactor. NULL: there is no such KV namespace, and the call has ended. */
static struct tgt_ns *ns_find_kv(struct ns_call *n, const char *why)
{
	struct tgt_ns *ns = ctl_ns_find(n->call.c, &n->ref);

	if (ns && kv_ns_is(ns))
		return ns;
	n->why = why;
	n->err = ns ? -EOPNOTSUPP : -ENOENT;
	ctl_call_end(&n->call);
	return NULL;
}

static void resize_on_reactor(struct ctl_call *call)
{
	struct ns_call *n = ns_call_of(call);
	struct tgt_ns *ns = ns_find_kv(n, " of its file's size");

	if (ns)
		tgt_subsys_ns_resize(call->c->subsys, ns->nsid, n->bytes, ns_changed, n);
}

static void resize_run(struct rpc_req *req)
{
	struct ns_call *n = ns_call_create(req);

	if (!n)
		return;
	n->bytes = req->args[1].u;
	ns_call_go(n, resize_on_reactor);
}

const struct rpc_method rpc_ns_resize = {
	.name = "ns.resize",
	.help = "Gives a namespace another size while it is used",
	.params = resize_params,
	.nr_params = ARRAY_SIZE(resize_params),
	.result = "{}",
	.run = resize_run,
};

static const struct rpc_param one_params[] = {
	{.name = "ns", .kind = RPC_NS, .is_needed = true, .help = "Which"},
};

static void delete_on_reactor(struct ctl_call *call)
{
	struct ns_call *n = ns_call_of(call);
	struct tgt_ns *ns = ns_find_kv(n, ", which is of the configuration, since nothing could "
					  "make it again");

	if (ns)
		tgt_subsys_ns_del(call->c->subsys, ns->nsid, ns_changed, n);
}

static void delete_run(struct rpc_req *req)
{
	struct ns_call *n = ns_call_create(req);

	if (n)
		ns_call_go(n, delete_on_reactor);
}

const struct rpc_method rpc_ns_delete = {
	.name = "ns.delete",
	.help = "Ends a key-value namespace, with all that is in it, when no command is in it any "
		"more; hosts are told",
	.params = one_params,
	.nr_params = 1,
	.result = "{}",
	.run = delete_run,
};

/* ---- ns.flush ---- */

static void flush_end(struct store_io *io, int res)
{
	struct ns_call *n = container_of(io, struct ns_call, io);

	n->err = res;
	ctl_ns_put(n->ns);
	ctl_call_end(&n->call);
}

static void flush_on_reactor(struct ctl_call *call)
{
	struct ns_call *n = ns_call_of(call);

	if (!ns_find_kv(n, ", which its host flushes"))
		return;
	n->ns = ctl_ns_get(call->c, &n->ref);
	n->io.op = STORE_FLUSH;
	n->io.end = flush_end;
	store_submit(kv_ns_store(n->ns), ctl_home(call->c), &n->io);
}

static void flush_run(struct rpc_req *req)
{
	struct ns_call *n = ns_call_create(req);

	if (n)
		ns_call_go(n, flush_on_reactor);
}

const struct rpc_method rpc_ns_flush = {
	.name = "ns.flush",
	.help = "Returns when everything that was acknowledged is in the lowest tier that persists",
	.params = one_params,
	.nr_params = 1,
	.result = "{}",
	.run = flush_run,
};
