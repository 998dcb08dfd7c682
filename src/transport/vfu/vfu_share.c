/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who gets how much of a worker: see struct vfu_share. Deficit round robin over clients, paid
 * afterwards, since what a command costs isn't in its SQE: a Retrieve of 64 KiB may be a miss, an
 * SGL of 64 pieces costs more than its bytes, and memory that faults more than either.
 *
 *	a turn of several clients: VFU_TURN_COST / nr_active each
 *	  takes at most that / VFU_COMMAND_COST commands, at least one
 *	  copies at most that (VFU_INLINE_LEAST at least) inside them; the rest goes to the copy
 *	  engine, which cuts it and lets flows take turns
 *	  its debt is then VFU_COMMAND_COST a command + the engine's work, or the time that it took,
 *	  whichever is more; each turn takes its part off, and there is none for it meanwhile
 *
 * So a command that comes in waits for the rest of one such turn and for its client's place in the
 * next, whatever others have outstanding. Requests: a client leaves to each other one that has
 * queues here the share that it is sure of, half of all of them split by the most clients there may
 * be; above that who comes first has them. Run by the worker.
 */
#include "transport/vfu/vfu_int.h"

void vfu_share_init(struct vfu_share *s)
{
	list_init(&s->node);
	list_init(&s->sqs);
	mem_flow_init(&s->flow);
}

static uint32_t vfu_share_sure(const struct vfu_worker *w)
{
	return w->tw->reqs.nr / 2 / w->vfu->max_clients;
}

static void vfu_share_changed(struct vfu_worker *w)
{
	w->nr_kept = w->tw->reqs.nr / 16;
	if (w->nr_shares > 1)
		w->nr_kept += (w->nr_shares - 1) * vfu_share_sure(w);
}

void vfu_share_add(struct vfu_worker *w, struct vfu_share *s)
{
	s->nr_live++;
	s->flow.is_stopped = false;
	if (s->nr_queues++)
		return;
	s->debt = 0;
	list_add_tail(&w->shares, &s->node);
	w->nr_shares++;
	vfu_share_changed(w);
}

/*
 * Of a client that has gone, or gives up all its queues here, nobody sees what is still copied: a
 * thousand large values would keep it here, and a stop waiting, for half a minute.
 */
void vfu_share_dying(struct vfu_share *s)
{
	must(s->nr_live > 0);
	s->flow.is_stopped = --s->nr_live == 0;
}

void vfu_share_del(struct vfu_worker *w, struct vfu_share *s)
{
	must(s->nr_queues > 0);
	if (--s->nr_queues)
		return;
	list_del(&s->node);
	w->nr_shares--;
	vfu_share_changed(w);
}

static uint32_t vfu_share_part(const struct vfu_worker *w)
{
	return VFU_TURN_COST / w->nr_active;
}

uint32_t vfu_share_turn(struct vfu_worker *w, struct vfu_share *s, struct vfu_spent *since)
{
	uint32_t part;

	since->ns = reactor_turn_ns(w->tw->reactor);
	since->work = mem_engine_work(w->tw->engine);
	if (w->nr_active < 2)
		return TGT_BURST;
	part = vfu_share_part(w);
	s->debt -= min_t(uint32_t, s->debt, part);
	if (s->debt)
		return 0;
	since->ns = reactor_now_ns(w->tw->reactor);
	return max_t(uint32_t, part / VFU_COMMAND_COST, 1);
}

void vfu_share_spent(struct vfu_worker *w, struct vfu_share *s, uint32_t nr,
		     const struct vfu_spent *since)
{
	uint64_t work, ns;

	s->seen_ns = since->ns;
	if (w->nr_active < 2)
		return;
	ns = reactor_now_ns(w->tw->reactor) - since->ns;
	work = mem_engine_work(w->tw->engine) - since->work + nr * VFU_COMMAND_COST;
	work = max_t(uint64_t, work, ns * VFU_NS_COST);
	s->debt = (uint32_t)min_t(uint64_t, work, VFU_DEBT_MAX);
}

/* Somebody else may wait for this reactor without a queue on it. */
static bool vfu_share_has_mail(struct vfu_worker *w)
{
	uint64_t mails = counter_get(&reactor_stats(w->tw->reactor)->mails);
	uint64_t now_ns = reactor_turn_ns(w->tw->reactor);

	if (mails != w->nr_mails) {
		w->nr_mails = mails;
		w->mail_ns = now_ns;
	}
	return now_ns - w->mail_ns < VFU_ACTIVE_NS;
}

void vfu_share_count(struct vfu_worker *w, unsigned nr_active)
{
	if (atomic_load_explicit(&w->vfu->nr_busy_devs, memory_order_relaxed) > 1)
		nr_active += vfu_share_has_mail(w);
	if (nr_active == w->nr_active)
		return;
	w->nr_active = nr_active;
	mem_engine_share(w->tw->engine,
			 nr_active < 2 ? MEM_INLINE_BYTES
				       : max_t(uint32_t, vfu_share_part(w), VFU_INLINE_LEAST));
}

void vfu_share_queues(struct vfu_dev *d, int more)
{
	unsigned before = d->nr_io_sqs;

	d->nr_io_sqs = (unsigned)((int)before + more);
	if (!before || !d->nr_io_sqs)
		atomic_fetch_add_explicit(&d->vfu->nr_busy_devs, (uint32_t)more,
					  memory_order_relaxed);
}

static uint32_t vfu_share_taken_in(const struct vfu_share *s, const struct list *sqs)
{
	const struct vfu_sq *sq;
	uint32_t nr = 0;

	list_for_each_entry(sq, sqs, node)
		nr += sq->share == s ? sq->sq.nr_inflight : 0;
	return nr;
}

/* All of its client's, here: those of queues that it is deleting, too. */
static uint32_t vfu_share_taken(const struct vfu_worker *w, const struct vfu_share *s)
{
	return vfu_share_taken_in(s, &s->sqs) + vfu_share_taken_in(s, &w->held) +
	       vfu_share_taken_in(s, &w->dying);
}

/*
 * The last of the pool, from its end on:
 *
 *	1/32              for clients that have none, one each
 *	others' sure part for who has fewer than it is sure of
 *	1/32              for queues that have none, one each: a client's small one beside its flood
 *
 * AERs wait for ever: nobody is served because of those.
 */
uint32_t vfu_share_reqs(const struct vfu_sq *sq)
{
	const struct vfu_worker *w = sq->w;
	uint32_t nr_free = w->tw->reqs.nr_free, keep = w->tw->reqs.nr / 32, taken;
	uint32_t aers = sq->sq.qid ? 0 : TGT_AERS_MAX;

	if (likely(nr_free > w->nr_kept))
		return nr_free - w->nr_kept;
	taken = vfu_share_taken(w, sq->share);
	if (nr_free > keep && taken < vfu_share_sure(w))
		return min_t(uint32_t, nr_free - keep, vfu_share_sure(w) - taken);
	if (nr_free > w->nr_kept - keep)
		return sq->sq.nr_inflight <= aers;
	return nr_free && taken <= aers;
}
