/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quiesce and resume: the transports take no more I/O commands, what is under way ends. For
 * snapshots below the daemon and for moving hosts. A client sees commands that take long, and its
 * deadlines; admin commands go on. It ends by itself after the time that was asked for: a script
 * that dies holds nobody up for ever.
 *
 *   the home: round: each worker is held -> every ms: a round that counts what is under way -> 0
 *
 * The last word counts: quiesce, resume and the end of the time each take a new number, and a
 * quiesce that waits and finds another number than its own is over, and fails. Only the first round
 * of a call holds or lets go; rounds reach a worker in the order in which they began.
 *
 * Runs on the home but for the JSON.
 */
#include <errno.h>

#include "base/container.h"
#include "base/log.h"
#include "base/mono.h"
#include "ctl/ctl_rpc.h"

#define HOLD_LOOK_NS MONO_NS_PER_MS
#define HOLD_SECONDS 60
#define HOLD_WAIT_MS 5000

struct hold_call {
	struct ctl_call call;
	struct rpc_req *req;
	bool is_held;
	bool is_set;   /* the workers know */
	bool is_ended; /* by another word than its own */
	uint32_t gen;
	uint64_t hold_ns, until_ns;
	_Atomic uint64_t nr_busy;
	struct reactor_round round;
	struct timeout look;
};

static void hold_set(struct reactor_round *rd, struct reactor *r)
{
	struct hold_call *h = container_of(rd, struct hold_call, round);
	struct tgt_worker *w = h->call.c->node->workers[reactor_id(r)];

	if (!h->is_set && w->is_held != h->is_held) {
		w->is_held = h->is_held;
		tgt_worker_changed(w);
	}
	atomic_fetch_add(&h->nr_busy, w->nr_busy);
}

static void hold_round(struct hold_call *h);

static void hold_look(struct timeout *t)
{
	hold_round(container_of(t, struct hold_call, look));
}

static void hold_counted(struct reactor_round *rd)
{
	struct hold_call *h = container_of(rd, struct hold_call, round);
	struct reactor *home = ctl_home(h->call.c);
	uint64_t now = reactor_now_ns(home);

	h->is_set = true;
	h->is_ended = h->gen != h->call.c->hold_gen;
	if (!h->is_held || h->is_ended || atomic_load(&h->nr_busy) == 0 || now >= h->until_ns ||
	    atomic_load(&h->call.c->is_stopping)) {
		ctl_call_end(&h->call);
		return;
	}
	timeout_set(home, &h->look, now + HOLD_LOOK_NS);
}

static void hold_round(struct hold_call *h)
{
	const struct tgt_node *node = h->call.c->node;

	atomic_store(&h->nr_busy, 0);
	h->round.fn = hold_set;
	h->round.done = hold_counted;
	reactor_round_start(&h->round, tgt_node_home(node)->reactor, node->reactors, node->nr);
}

/* ---- the end that nobody asked for ---- */

static void hold_let_go(struct reactor_round *rd, struct reactor *r)
{
	struct ctl *c = container_of(rd, struct ctl, hold_round);
	struct tgt_worker *w = c->node->workers[reactor_id(r)];

	w->is_held = false;
	tgt_worker_changed(w);
}

static void hold_gone(struct reactor_round *rd)
{
	container_of(rd, struct ctl, hold_round)->is_letting_go = false;
}

static void hold_over(struct timeout *t)
{
	struct ctl *c = container_of(t, struct ctl, hold);

	if (c->is_letting_go) {
		/* An earlier end is still on its way, and may be older than this quiesce. */
		timeout_set(ctl_home(c), t, reactor_now_ns(ctl_home(c)) + HOLD_LOOK_NS);
		return;
	}
	log_warn("quiesced for as long as it was asked for: commands are taken again");
	c->hold_gen++;
	c->is_letting_go = true;
	c->hold_round.fn = hold_let_go;
	c->hold_round.done = hold_gone;
	reactor_round_start(&c->hold_round, ctl_home(c), c->node->reactors, c->node->nr);
}

static void hold_run(struct ctl_call *call)
{
	struct hold_call *h = container_of(call, struct hold_call, call);
	struct ctl *c = call->c;
	uint64_t now = reactor_now_ns(ctl_home(c));

	h->gen = ++c->hold_gen;
	h->until_ns += now;
	timeout_init(&h->look, hold_look);
	timeout_cancel(&c->hold);
	timeout_init(&c->hold, hold_over);
	if (h->is_held)
		timeout_set(ctl_home(c), &c->hold, now + h->hold_ns);
	hold_round(h);
}

static void hold_done(struct ctl_call *call)
{
	struct hold_call *h = container_of(call, struct hold_call, call);
	uint64_t nr = atomic_load(&h->nr_busy);

	if (!h->req)
		;
	else if (h->is_held && h->is_ended)
		rpc_req_fail(h->req, -EINTR,
			     "ended before its time by resume, another quiesce or its seconds, "
			     "with %llu commands under way, expected none of them",
			     (unsigned long long)nr);
	else if (h->is_held)
		rpc_req_done(h->req, json_pack("{s:b, s:I}", "drained", nr == 0, "inflight",
					       (json_int_t)nr));
	else
		rpc_req_done(h->req, json_object());
	free(h);
}

static void hold_start(struct ctl *c, struct rpc_req *req, struct hold_call *h)
{
	h->req = req;
	h->call.run = hold_run;
	h->call.done = hold_done;
	ctl_call_start(c, &h->call);
}

static const struct rpc_param quiesce_params[] = {
	{.name = "seconds",
	 .kind = RPC_NUMBER,
	 .min = 1,
	 .max = 3600,
	 .help = "After so long commands are taken again whatever happens; 60 without it"},
	{.name = "wait_ms",
	 .kind = RPC_NUMBER,
	 .min = 0,
	 .max = 600000,
	 .help = "How long to wait for what is under way, but never longer than seconds; 5000 "
		 "without it"},
};

static void quiesce_run(struct rpc_req *req)
{
	struct hold_call *h = calloc(1, sizeof(*h));
	const struct rpc_arg *a = req->args;

	if (!h) {
		rpc_req_fail(req, -ENOMEM, "no memory");
		return;
	}
	h->is_held = true;
	h->hold_ns = (a[0].is_given ? a[0].u : HOLD_SECONDS) * MONO_NS_PER_S;
	h->until_ns = (a[1].is_given ? a[1].u : HOLD_WAIT_MS) * MONO_NS_PER_MS;
	hold_start(ctl_of(req), req, h);
}

const struct rpc_method rpc_hold_quiesce = {
	.name = "quiesce",
	.help = "Takes no more I/O commands from any queue and waits for those under way. Clients' "
		"commands wait meanwhile, or run into their deadlines; admin commands go on",
	.params = quiesce_params,
	.nr_params = ARRAY_SIZE(quiesce_params),
	.result = "{drained, inflight}: held in any case; inflight commands weren't over in time. "
		  "An error when resume, another quiesce or the end of its seconds came first",
	.run = quiesce_run,
};

static void resume_run(struct rpc_req *req)
{
	struct hold_call *h = calloc(1, sizeof(*h));

	if (h)
		hold_start(ctl_of(req), req, h);
	else
		rpc_req_fail(req, -ENOMEM, "no memory");
}

const struct rpc_method rpc_hold_resume = {
	.name = "resume",
	.help = "Ends quiesce, one that still waits, too",
	.result = "{}",
	.run = resume_run,
};

void rpc_hold_end(struct ctl *c)
{
	struct hold_call *h = calloc(1, sizeof(*h));

	/* Without memory the timer is left to the reactor, which ends before what it is in. */
	if (h)
		hold_start(c, NULL, h);
}
