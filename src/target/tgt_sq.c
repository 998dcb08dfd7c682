/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a submission queue that is the same in every transport: its list of requests under
 * way. Runs on the queue's worker; tgt_sq_init() before the queue can be found.
 */
#include "target/tgt_int.h"

void tgt_sq_init(struct tgt_sq *sq, const struct tgt_sq_ops *ops, struct tgt_ctrl *c,
		 struct tgt_worker *w, uint16_t qid)
{
	sq->ops = ops;
	sq->ctrl = c;
	sq->worker = w;
	sq->qid = qid;
	sq->marks = qid ? 0 : TGT_SQ_ADMIN;
	sq->flow = NULL; /* the engine's own, unless the transport gives it its client's */
	sq->back_max = 0;
	sq->nr_inflight = 0;
	sq->nr_cmds = sq->read_bytes = sq->write_bytes = 0;
	list_init(&sq->reqs);
}

bool tgt_sq_abort(struct tgt_sq *sq, uint16_t cid)
{
	struct tgt_req *req;

	list_for_each_entry(req, &sq->reqs, node) {
		if (req->sqe.cid == cid) {
			req->is_aborted = true;
			return true;
		}
	}
	return false;
}

void tgt_sq_deleted(struct tgt_sq *sq)
{
	struct tgt_req *req;

	sq->marks |= TGT_SQ_DELETED;
	list_for_each_entry(req, &sq->reqs, node)
		req->is_aborted = true;
}
