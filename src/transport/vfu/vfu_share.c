/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who gets how much of a worker: see struct vfu_share. Deficit round robin over clients, those
 * first that had nothing a moment ago (fq_codel, RFC 8290), paid afterwards, since what a command
 * costs isn't in its SQE. While one client alone has commands a turn takes TGT_BURST of them. While
 * several have - messages count as one, when clients elsewhere have commands -
 *
 *	a turn looks at all that had nothing last time (`idle`), at some of those that had nothing
 *	  for long (`quiet`), then at those that have more (`busy`), in turn, one at least, until it
 *	  has cost VFU_TURN_COST, or VFU_SMALL_COST while one of `idle` has a command now and then
 *	of a client with many queues some are looked at, in turn
 *	each takes as many commands as its even part of that pays for, at least one, and copies as
 *	  much inside them; or one step of a List, MATCH or HINT. The copy engine has the rest
 *	its debt grows by a command's cost and the engine's work, or the time that it took; each
 *	  turn takes its part of a turn off, or of the time that went by; meanwhile it has none,
 *	  but for VFU_SMALL_COST of one of `idle`
 *
 * So a command of a client that had none waits for the rest of one such turn, however many attack.
 * Requests: a client leaves to others the share that each is sure of, half of all split by the most
 * clients there may be; above that who comes first has them. Run by the worker.
 */
#include "transport/vfu/vfu_int.h"

void vfu_share_init(struct vfu_share *s, struct vfu_dev *d)
{
	s->dev = d;
	list_init(&s->node);
	list_init(&s->turn);
	list_init(&s->sqs);
	list_init(&s->later);
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
	s->has_more = false;
	list_add_tail(&w->shares, &s->node);
	list_add_tail(&w->idle, &s->turn);
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

/* For other workers: somebody has commands there. */
static void vfu_share_active(struct vfu_share *s, bool is)
{
	_Atomic uint32_t *all = &s->dev->vfu->nr_active_devs, *one = &s->dev->nr_active;

	if (is == s->is_active)
		return;
	s->is_active = is;
	if (is && atomic_fetch_add_explicit(one, 1, memory_order_relaxed) == 0)
		atomic_fetch_add_explicit(all, 1, memory_order_relaxed);
	if (!is && atomic_fetch_sub_explicit(one, 1, memory_order_relaxed) == 1)
		atomic_fetch_sub_explicit(all, 1, memory_order_relaxed);
}

void vfu_share_rest(struct vfu_worker *w)
{
	struct vfu_share *s;

	list_for_each_entry(s, &w->shares, node)
		vfu_share_active(s, false);
}

void vfu_share_del(struct vfu_worker *w, struct vfu_share *s)
{
	must(s->nr_queues > 0);
	if (--s->nr_queues)
		return;
	must(list_is_empty(&s->later));
	vfu_share_active(s, false);
	list_del(&s->node);
	list_del(&s->turn);
	w->nr_shares--;
	vfu_share_changed(w);
}

uint32_t vfu_share_step(struct vfu_share *s)
{
	struct tgt_req *req = list_first_entry(&s->later, struct tgt_req, later);

	list_del(&req->later);
	tgt_req_again(req);
	return 1;
}

/* ---- a turn ---- */

/* How much of a client's debt is gone by now. */
static void vfu_share_pay(const struct vfu_worker *w, struct vfu_share *s, uint64_t now_ns)
{
	uint64_t turns = (w->turn - s->paid_turn) * VFU_TURN_COST;
	uint64_t time = (now_ns - s->paid_ns) * VFU_NS_COST;

	s->paid_turn = w->turn;
	s->paid_ns = now_ns;
	if (w->nr_active < 2)
		s->debt = 0;
	s->debt -= min_t(uint64_t, s->debt,
			 max_t(uint64_t, turns, time) / max_t(uint32_t, w->nr_active, 1));
}

/* The last look before a sleep is at all doorbells: who rang before it has woken nobody. */
static uint32_t vfu_share_looks(const struct vfu_worker *w)
{
	return w->nr_shares < 2 || w->is_armed ? UINT32_MAX : VFU_LOOKS_MAX;
}

/* One step, or commands, in turn while there are both. What that cost; 0: it has nothing. */
static uint64_t vfu_share_give(struct vfu_worker *w, struct vfu_share *s, uint32_t max,
			       uint64_t *now_ns)
{
	uint64_t work = mem_engine_work(w->tw->engine), ns = *now_ns;
	uint32_t nr = 0, nr_steps = 0;

	if (list_is_empty(&s->later) || !s->is_step_next)
		nr = vfu_qp_serve(w, s, max, vfu_share_looks(w));
	if (!nr && !list_is_empty(&s->later))
		nr_steps = vfu_share_step(s);
	s->is_step_next = !nr_steps;
	s->has_more = nr_steps || vfu_qp_has_more(s);
	if (!nr && !nr_steps)
		return 0;
	if (!list_is_empty(&w->dirty))
		vfu_qp_flush_all(w);
	*now_ns = reactor_now_ns(w->tw->reactor);
	s->seen_ns = *now_ns;
	work = mem_engine_work(w->tw->engine) - work + nr * VFU_COMMAND_COST +
	       nr_steps * VFU_STEP_COST;
	work = max_t(uint64_t, work, (*now_ns - ns) * VFU_NS_COST);
	s->debt = (uint32_t)min_t(uint64_t, s->debt + work, VFU_DEBT_MAX);
	return work;
}

/* Commands that one may take at once, of a turn of that cost. */
static uint32_t vfu_share_max(const struct vfu_worker *w, uint32_t cost)
{
	if (w->nr_active < 2)
		return TGT_BURST;
	return max_t(uint32_t, cost / w->nr_active / VFU_COMMAND_COST, 1);
}

/* Where it stands until it is looked at again. */
static struct list *vfu_share_list(struct vfu_worker *w, const struct vfu_share *s, uint64_t now_ns)
{
	if (s->has_more)
		return &w->busy;
	return s->seen_ns && now_ns - s->seen_ns < VFU_ACTIVE_NS ? &w->idle : &w->quiet;
}

struct vfu_share_sum {
	uint64_t now_ns, cost; /* so far */
	unsigned nr_served;    /* that had something, or would have been asked but for a debt */
};

/* All of a list that weren't looked at in this turn, from its head, up to that cost. */
static void vfu_share_serve_list(struct vfu_worker *w, struct list *from, uint32_t cost,
				 struct vfu_share_sum *sum)
{
	uint64_t looks = w->nr_looks + (w->is_armed ? UINT32_MAX : VFU_LOOKS_TURN);
	uint32_t max = vfu_share_max(w, cost);
	struct vfu_share *s;
	struct list todo;
	uint64_t work;
	bool is_late;

	list_init(&todo);
	list_splice_tail(&todo, from);
	while (!list_is_empty(&todo)) {
		s = list_first_entry(&todo, struct vfu_share, turn);
		if (s->paid_turn == w->turn)
			break; /* from here on they have come from the other list */
		vfu_share_pay(w, s, sum->now_ns);
		is_late = s->debt > (from == &w->busy ? 0 : VFU_SMALL_COST);
		work = is_late ? 0 : vfu_share_give(w, s, max, &sum->now_ns);
		sum->nr_served += work || is_late;
		sum->cost += work;
		list_del(&s->turn);
		list_add_tail(vfu_share_list(w, s, sum->now_ns), &s->turn);
		if ((work && sum->cost >= cost) || (from == &w->quiet && w->nr_looks >= looks))
			break;
	}
	/* Whoever had no turn is first in the next. */
	list_splice_tail(&todo, from);
	list_splice_tail(from, &todo);
}

/* Somebody else's commands may wait for this reactor without a queue on it. */
static bool vfu_share_has_mail(struct vfu_worker *w, unsigned nr_active)
{
	uint64_t mails = counter_get(&reactor_stats(w->tw->reactor)->mails);
	uint64_t now_ns = reactor_turn_ns(w->tw->reactor);

	if (mails != w->nr_mails) {
		w->nr_mails = mails;
		w->mail_ns = now_ns;
	}
	return now_ns - w->mail_ns < VFU_ACTIVE_NS &&
	       atomic_load_explicit(&w->vfu->nr_active_devs, memory_order_relaxed) > nr_active;
}

/* Who had commands lately, for the next turn. */
static void vfu_share_count(struct vfu_worker *w, uint64_t now_ns)
{
	uint32_t nr_active = 0, nr_small = 0;
	struct vfu_share *s;

	list_for_each_entry(s, &w->shares, node) {
		vfu_share_active(s, s->seen_ns && now_ns - s->seen_ns < VFU_ACTIVE_NS);
		nr_active += s->is_active;
		nr_small += s->is_active && !s->has_more;
	}
	nr_active += vfu_share_has_mail(w, nr_active);
	if (nr_active == w->nr_active && nr_small == w->nr_small)
		return;
	w->nr_active = nr_active;
	w->nr_small = nr_small;
	w->tw->is_shared = nr_active >= 2;
	if (nr_active < 2)
		mem_engine_share(w->tw->engine, MEM_INLINE_BYTES, MEM_TURN_PIECES);
	else
		mem_engine_share(w->tw->engine,
				 max_t(uint32_t, VFU_TURN_COST / nr_active, VFU_INLINE_LEAST),
				 nr_small ? VFU_SMALL_PIECES : MEM_TURN_PIECES);
}

int vfu_share_serve(struct vfu_worker *w)
{
	struct vfu_share_sum sum = {.now_ns = reactor_now_ns(w->tw->reactor)};

	w->turn++;
	vfu_share_serve_list(w, &w->idle, VFU_TURN_COST, &sum);
	vfu_share_serve_list(w, &w->quiet, VFU_TURN_COST, &sum);
	vfu_share_serve_list(w, &w->busy, w->nr_small ? VFU_SMALL_COST : VFU_TURN_COST, &sum);
	vfu_share_count(w, sum.now_ns);
	return (int)sum.nr_served;
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
