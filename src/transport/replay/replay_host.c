/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller behind replay queues. It has no admin queue and no wire: it is enabled by its own
 * register writes, and its queues are made by calls. The home's, or before the reactors run.
 */
#include <errno.h>
#include <stdlib.h>
#include "base/must.h"
#include "transport/replay/replay_int.h"

static void host_enable(struct tgt_ctrl *c, const struct tgt_queue_params *asq,
			const struct tgt_queue_params *acq)
{
	tgt_ctrl_enabled(c, true);
}

/* Only from replay_host_stop(), when no queue is left. */
static void host_disable(struct tgt_ctrl *c)
{
	struct replay_host *h = tgt_ctrl_priv(c);

	must(h->nr_running == 0);
	tgt_ctrl_disabled(c);
}

/* Queues come by calls and there are no admin commands, so nothing else is needed. */
static const struct tgt_ctrl_ops host_ops = {
	.enable = host_enable,
	.disable = host_disable,
};

int replay_host_create(struct tgt_subsys *ss, struct replay_host **out)
{
	struct tgt_ctrl_opts o = {
		.ops = &host_ops,
		.home = tgt_node_home(tgt_subsys_node(ss)),
		.max_queues = TGT_QUEUES_MAX,
		.is_fabrics = true, /* no AQA, ASQ, ACQ */
		.host = "replay",
	};
	struct replay_host *h = calloc(1, sizeof(*h));
	int err;

	if (!h)
		return -ENOMEM;
	h->ss = ss;
	list_init(&h->queues);
	err = tgt_ctrl_create(ss, &o, &h->ctrl);
	if (err) {
		free(h);
		return err;
	}
	tgt_ctrl_set_priv(h->ctrl, h);
	must(!tgt_ctrl_reg_write(h->ctrl, 0x14, 4, 0x00460061)); /* CC: I/O command sets, EN */
	*out = h;
	return 0;
}

static void host_reset(struct replay_host *h)
{
	h->is_disabling = true;
	tgt_ctrl_reset(h->ctrl, h->done, h->arg);
}

void replay_host_stopped(struct replay_host *h)
{
	must(h->nr_running > 0);
	if (--h->nr_running == 0)
		host_reset(h);
}

void replay_host_stop(struct replay_host *h, void (*done)(void *arg), void *arg)
{
	struct replay_queue *q;

	must(!h->done);
	h->done = done;
	h->arg = arg;
	h->nr_running = h->nr_queues;
	if (h->nr_running == 0)
		host_reset(h);
	list_for_each_entry(q, &h->queues, node)
		replay_queue_stop(q);
}

void replay_host_destroy(struct replay_host *h)
{
	struct replay_queue *q, *tmp;

	must(h->is_disabling);
	list_for_each_entry_safe(q, tmp, &h->queues, node) {
		list_del(&q->node);
		replay_queue_fini(q);
		free(q);
	}
	tgt_ctrl_destroy(h->ctrl);
	free(h);
}

void replay_host_record(struct replay_host *h, struct replay_record *rec)
{
	h->rec = rec;
}

struct tgt_ctrl *replay_host_ctrl(struct replay_host *h)
{
	return h->ctrl;
}
