/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.list: who is attached and what each has done.
 *
 *   the home -> the transport's list, by a round -> the home: leases, a namespace a turn -> JSON
 *
 * One list at a time: who asks meanwhile is told to try later.
 * tidy: no-test: t_vfu_list.c lists, test/peer/ctl_rpc.py asks a daemon
 */
#include <errno.h>

#include "base/container.h"
#include "base/mono.h"
#include "ctl/ctl_rpc.h"
#include "kv/kv.h"

struct client_call {
	struct ctl_call call;
	struct rpc_req *req;
	struct tr_hosts hosts;
	struct mbox_msg again;
	uint32_t next_nsid;
	uint64_t now_ns;
	uint64_t leases[TR_HOSTS_MAX], lease_bytes[TR_HOSTS_MAX];
};

/* ---- the home ---- */

static void client_next(struct mbox_msg *m)
{
	struct client_call *n = container_of(m, struct client_call, again);
	struct ctl *c = n->call.c;
	struct tgt_ns *ns = NULL;

	while (!ns && n->next_nsid <= TGT_NS_MAX) {
		ns = tgt_subsys_ns(c->subsys, n->next_nsid++);
		if (ns && !kv_ns_is(ns))
			ns = NULL;
	}
	if (!ns) {
		ctl_call_end(&n->call);
		return;
	}
	for (unsigned i = 0; i < n->hosts.nr; i++)
		if (n->hosts.of[i].ctrl)
			kv_ns_leases_of(ns, n->hosts.of[i].ctrl, &n->leases[i], &n->lease_bytes[i]);
	reactor_send(ctl_home(c), ctl_home(c), &n->again);
}

static void client_listed(struct tr_hosts *h)
{
	struct client_call *n = container_of(h, struct client_call, hosts);

	n->now_ns = reactor_now_ns(ctl_home(n->call.c));
	n->next_nsid = 1;
	n->again.fn = client_next;
	client_next(&n->again);
}

static void client_on_reactor(struct ctl_call *call)
{
	struct client_call *n = container_of(call, struct client_call, call);
	struct tr *tr = call->c->tr;

	n->hosts.done = client_listed;
	if (tr && tr->ops->list_hosts)
		tr->ops->list_hosts(tr, &n->hosts);
	else
		client_listed(&n->hosts);
}

/* ---- the control thread ---- */

static json_t *client_describe(const struct client_call *n, unsigned i)
{
	const struct tr_host *h = &n->hosts.of[i];

	return json_pack("{s:s, s:i, s:i, s:I, s:b, s:b, s:f, s:i, s:I, s:I, s:I, s:I, s:I}",
			 "transport", n->call.c->tr->ops->name, "controller", (int)h->ctrl, "pid",
			 h->pid, "uid", (json_int_t)h->uid, "operator", h->is_operator, "recorded",
			 h->is_recorded, "seconds",
			 (double)(n->now_ns - h->since_ns) / (double)MONO_NS_PER_S, "queues",
			 (int)h->nr_queues, "commands", (json_int_t)h->nr_cmds, "read_bytes",
			 (json_int_t)h->read_bytes, "written_bytes", (json_int_t)h->write_bytes,
			 "leases", (json_int_t)n->leases[i], "lease_bytes",
			 (json_int_t)n->lease_bytes[i]);
}

static void client_done(struct ctl_call *call)
{
	struct client_call *n = container_of(call, struct client_call, call);
	json_t *list = json_array();

	call->c->is_listing = false;
	for (unsigned i = 0; i < n->hosts.nr; i++)
		json_array_append_new(list, client_describe(n, i));
	rpc_req_done(n->req, list);
	free(n);
}

static void client_run(struct rpc_req *req)
{
	struct ctl *c = ctl_of(req);
	struct client_call *n = c->is_listing ? NULL : calloc(1, sizeof(*n));

	if (!n) {
		if (c->is_listing)
			rpc_req_fail(req, -EBUSY, "somebody else asks just now, try later");
		else
			rpc_req_fail(req, -ENOMEM, "no memory");
		return;
	}
	c->is_listing = true;
	n->req = req;
	n->call.run = client_on_reactor;
	n->call.done = client_done;
	ctl_call_start(c, &n->call);
}

const struct rpc_method rpc_client_list = {
	.name = "client.list",
	.help = "Who is attached, since when, and what each has done",
	.result = "an array of {transport, controller, pid, uid, operator, recorded, seconds, "
		  "queues, commands, read_bytes, written_bytes, leases, lease_bytes}: controller 0 "
		  "is one that hasn't said yet what it is; commands are those of the admin queue, "
		  "too",
	.run = client_run,
};
