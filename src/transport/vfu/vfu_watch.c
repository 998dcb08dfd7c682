/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues that somebody watches: a recording (--record, transport/replay) or a trace
 * (target/tgt_trace.c). A mark on the queue (TGT_SQ_WATCHED) takes its commands here; a request
 * that was begun before keeps out of it, by its own mark. And queues that an operator holds, which
 * stand in another list than those that are polled. So with all of it off, the way of a command has
 * no look at any of it. Run by the queue's worker.
 */
/* tidy: no-test: t_vfu_dev.c records, test/peer/trace.py traces, ctl_rpc.py holds */
#include "target/tgt_time.h"
#include "transport/vfu/vfu_int.h"

/* What is under way belongs to the recording that it was begun in. */
static void vfu_watch_rec(struct vfu_sq *sq)
{
	struct replay_record *rec = sq->sq.qid ? sq->dev->rec : NULL;
	struct tgt_req *req;

	if (sq->rec == rec)
		return;
	list_for_each_entry(req, &sq->sq.reqs, node)
		req->watch &= (uint8_t)~TGT_WATCH_RECORD;
	sq->rec = rec;
	sq->sq.ops = rec ? &vfu_watch_ops : &vfu_qp_ops;
	replay_record_queue(rec, sq->sq.qid, sq->size);
}

void vfu_watch_mark(struct vfu_sq *sq)
{
	bool was_traced = sq->is_traced;

	vfu_watch_rec(sq);
	sq->is_traced = sq->sq.qid && tgt_trace_wants(sq->w->tw, sq->dev->ctrl);
	if (sq->is_traced && !was_traced) /* for what was rung before and is fetched from now on */
		sq->bell_ns = reactor_now_ns(sq->w->tw->reactor);
	if (sq->is_traced)
		sq->cq->after |= VFU_AFTER_TRACE;
	if (sq->rec || sq->is_traced) {
		sq->sq.marks |= TGT_SQ_WATCHED;
		sq->tail_end = 0;
	} else {
		sq->sq.marks &= (uint8_t)~TGT_SQ_WATCHED;
		sq->tail_end = sq->size;
	}
}

static void vfu_watch_unmark(struct vfu_sq *sq)
{
	sq->cq->after &= (uint8_t)~VFU_AFTER_TRACE;
}

static void vfu_watch_each(struct vfu_worker *w, void (*fn)(struct vfu_sq *sq))
{
	struct vfu_share *s;
	struct vfu_sq *sq;

	list_for_each_entry(s, &w->shares, node)
		list_for_each_entry(sq, &s->sqs, node)
			fn(sq);
	list_for_each_entry(sq, &w->held, node)
		fn(sq);
	list_for_each_entry(sq, &w->dying, node)
		fn(sq);
}

/* A completion queue may be that of queues in several lists. */
static void vfu_watch_mark_all(struct vfu_worker *w)
{
	vfu_watch_each(w, vfu_watch_unmark);
	vfu_watch_each(w, vfu_watch_mark);
}

/* The doorbells of queues that are let go are seen in this turn. */
static void vfu_watch_hold(struct vfu_worker *w)
{
	struct vfu_share *s;
	struct vfu_sq *sq, *tmp;

	list_for_each_entry_safe(sq, tmp, &w->held, node) {
		list_del(&sq->node);
		list_add_tail(&sq->share->sqs, &sq->node);
	}
	if (!w->tw->is_held)
		return;
	list_for_each_entry(s, &w->shares, node) {
		list_for_each_entry_safe(sq, tmp, &s->sqs, node) {
			if (!sq->sq.qid)
				continue;
			list_del(&sq->node);
			list_add_tail(&w->held, &sq->node);
		}
	}
}

void vfu_watch_changed(struct tgt_watcher *wt)
{
	struct vfu_worker *w = container_of(wt, struct vfu_worker, watcher);

	tgt_trace_flush(w->tw);
	vfu_watch_hold(w);
	vfu_watch_mark_all(w);
}

void vfu_watch_sqe(struct vfu_sq *sq, struct tgt_req *req)
{
	if (sq->rec) {
		req->watch |= TGT_WATCH_RECORD;
		replay_record_sqe(sq->rec, req);
	}
	if (sq->is_traced)
		tgt_trace_begin(req, sq->bell_ns, sq->fetch_ns);
}

static uint16_t vfu_watch_data(struct tgt_req *req, uint64_t len, enum mem_xfer_dir dir)
{
	struct vfu_sq *sq = container_of(req->sq, struct vfu_sq, sq);

	if (req->watch & TGT_WATCH_RECORD)
		replay_record_data(sq->rec, req, len, dir);
	return vfu_qp_data(req, len, dir);
}

/* The one at which the count ran out. */
void vfu_watch_time(struct vfu_sq *sq, uint32_t nr, uint64_t over, uint64_t start_ns)
{
	struct vfu_worker *w = sq->w;
	uint32_t at = nr + (uint32_t)w->until_timed, behind = 0;

	w->until_timed = TGT_TIME_EVERY - 1;
	if (at >= nr)
		at = 0;
	if (over >> at & 1) {
		tgt_time_look(&sq->sq, &w->sqes[at], start_ns);
		return;
	}
	for (uint32_t i = at; i < nr; i++)
		behind += !(over >> i & 1);
	tgt_time_begin(w->burst[w->nr_burst - behind], start_ns);
}

void vfu_watch_cqe(struct vfu_sq *sq, struct tgt_req *req)
{
	if (req->watch & TGT_WATCH_TIME)
		tgt_time_end(req);
	if (req->watch & TGT_WATCH_RECORD)
		replay_record_cqe(sq->rec, req);
	if ((req->watch & TGT_WATCH_TRACE) && sq->is_traced && !(req->watch & TGT_WATCH_SILENT))
		tgt_trace_end(req, sq->cq);
}

const struct tgt_sq_ops vfu_watch_ops = {
	.respond = vfu_qp_respond,
	.data = vfu_watch_data,
	.resolve = vfu_qp_resolve,
	.later = vfu_qp_later,
};
