/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of clients, for an operator. A queue counts what it does, without atomics, on its
 * worker: a round goes by and adds it up. What queues did that are gone is in their client.
 *
 * The home fills in who they are, then each worker adds its own queues' figures, then the home
 * writes them into the list. A client that goes meanwhile stays in it; a queue that is on its way
 * back to the home may be missing in the figures, once.
 */
#include <stdio.h>
#include "transport/vfu/vfu_int.h"

enum {
	LIST_QUEUES,
	LIST_CMDS,
	LIST_READ,
	LIST_WRITTEN,
};

static void list_add(struct tr_hosts *h, const struct vfu_sq *sq)
{
	_Atomic uint64_t *sums;

	if (sq->dev->list_at >= h->nr) /* came after the list was begun */
		return;
	sums = h->sums[sq->dev->list_at];
	atomic_fetch_add_explicit(&sums[LIST_QUEUES], sq->sq.qid != 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&sums[LIST_CMDS], sq->sq.nr_cmds, memory_order_relaxed);
	atomic_fetch_add_explicit(&sums[LIST_READ], sq->sq.read_bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&sums[LIST_WRITTEN], sq->sq.write_bytes, memory_order_relaxed);
}

static void list_at_worker(struct reactor_round *rd, struct reactor *r)
{
	struct tr_hosts *h = container_of(rd, struct tr_hosts, round);
	struct vfu *v = container_of(h->tr, struct vfu, tr);
	struct vfu_worker *w = &v->workers[reactor_id(r)];
	struct list *lists[] = {&w->held, &w->dying};
	struct vfu_share *s;
	struct vfu_sq *sq;

	list_for_each_entry(s, &w->shares, node)
		list_for_each_entry(sq, &s->sqs, node)
			list_add(h, sq);
	for (unsigned i = 0; i < 2; i++)
		list_for_each_entry(sq, lists[i], node)
			list_add(h, sq);
}

static void list_summed(struct reactor_round *rd)
{
	struct tr_hosts *h = container_of(rd, struct tr_hosts, round);

	for (unsigned i = 0; i < h->nr; i++) {
		h->of[i].nr_queues = (unsigned)atomic_load(&h->sums[i][LIST_QUEUES]);
		h->of[i].nr_cmds += atomic_load(&h->sums[i][LIST_CMDS]);
		h->of[i].read_bytes += atomic_load(&h->sums[i][LIST_READ]);
		h->of[i].write_bytes += atomic_load(&h->sums[i][LIST_WRITTEN]);
	}
	h->done(h);
}

static void list_host(struct tr_host *to, const struct vfu_dev *d)
{
	snprintf(to->peer, sizeof(to->peer), "%s", d->host);
	to->pid = d->pid;
	to->uid = d->uid;
	to->ctrl = d->ctrl ? tgt_ctrl_id(d->ctrl) : 0;
	to->is_operator = d->is_operator;
	to->is_recorded = d->rec != NULL;
	to->since_ns = d->since_ns;
	to->nr_cmds = d->nr_cmds;
	to->read_bytes = d->read_bytes;
	to->write_bytes = d->write_bytes;
}

void vfu_list_hosts(struct tr *tr, struct tr_hosts *h)
{
	struct vfu *v = container_of(tr, struct vfu, tr);
	struct vfu_dev *d;

	list_for_each_entry(d, &v->devs, node) {
		d->list_at = h->nr;
		if (h->nr < TR_HOSTS_MAX)
			list_host(&h->of[h->nr++], d);
	}
	h->tr = tr;
	h->round.fn = list_at_worker;
	h->round.done = list_summed;
	reactor_round_start(&h->round, vfu_home_reactor(v), v->node->reactors, v->node->nr);
}

void vfu_list_sq_gone(struct vfu_sq *sq)
{
	struct vfu_dev *d = sq->dev;

	d->nr_cmds += sq->sq.nr_cmds;
	d->read_bytes += sq->sq.read_bytes;
	d->write_bytes += sq->sq.write_bytes;
}
