/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues that somebody watches: a recording (--record, transport/replay) or a trace
 * (target/tgt_trace.c). A mark on the queue (TGT_SQ_WATCHED) takes its commands here; a request
 * that was begun before keeps out of it, by its own mark. Run by the queue's worker.
 */
/* tidy: no-test: t_vfu_dev.c records, test/peer/trace.py traces */
#include "transport/vfu/vfu_int.h"

void vfu_watch_mark(struct vfu_sq *sq)
{
	bool was_traced = sq->is_traced;

	if (sq->sq.qid && !sq->rec && sq->dev->rec) {
		sq->rec = sq->dev->rec;
		replay_record_queue(sq->rec, sq->sq.qid, sq->size);
	}
	sq->is_traced = sq->sq.qid && tgt_trace_wants(sq->w->tw, sq->dev->ctrl);
	if (sq->is_traced && !was_traced) /* for what was rung before and is fetched from now on */
		sq->bell_ns = reactor_now_ns(sq->w->tw->reactor);
	if (sq->rec || sq->is_traced)
		sq->sq.marks |= TGT_SQ_WATCHED;
	else
		sq->sq.marks &= (uint8_t)~TGT_SQ_WATCHED;
}

void vfu_watch_turn(struct vfu_worker *w)
{
	struct vfu_sq *sq;

	w->trace_gen = tgt_trace_gen(w->tw);
	tgt_trace_flush(w->tw);
	w->is_tracing = false;
	list_for_each_entry(sq, &w->sqs, node) {
		vfu_watch_mark(sq);
		w->is_tracing = w->is_tracing || sq->is_traced;
	}
}

void vfu_watch_sqe(struct vfu_sq *sq, struct tgt_req *req)
{
	if (sq->rec) {
		req->watch |= TGT_WATCH_RECORD;
		replay_record_sqe(sq->rec, req);
	}
	if (!sq->is_traced)
		return;
	req->watch |= TGT_WATCH_TRACE;
	req->stamp_ns[TGT_STAMP_BELL] = sq->bell_ns;
	req->stamp_ns[TGT_STAMP_FETCH] = sq->fetch_ns;
	req->stamp_ns[TGT_STAMP_STORE] = 0;
	req->stamp_ns[TGT_STAMP_COPY] = 0;
}

void vfu_watch_data(struct vfu_sq *sq, struct tgt_req *req, uint64_t len, enum mem_xfer_dir dir)
{
	if (req->watch & TGT_WATCH_RECORD)
		replay_record_data(sq->rec, req, len, dir);
}

void vfu_watch_cqe(struct vfu_sq *sq, struct tgt_req *req)
{
	if (req->watch & TGT_WATCH_RECORD)
		replay_record_cqe(sq->rec, req);
	if ((req->watch & TGT_WATCH_TRACE) && sq->is_traced && !req->is_silent)
		tgt_trace_end(req, sq->cq);
}
