/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spine: every command comes in by tgt_req_init() and leaves by tgt_req_complete(), on the
 * worker of its queue. Those that tgt_req_look() answers before need no request at all: an Exist
 * costs 50 ns that way and 65 with one.
 *
 * Init and complete touch the first two cache lines of a request, one line of the queue and one of
 * the namespace, and nothing is zeroed that the next owner writes anyway. Promises: a command that
 * was inited completes exactly once; whatever its SQE says, init doesn't fail.
 */
#include "target/tgt_int.h"
#include "base/must.h"

static_assert(offsetof(struct tgt_req, iter) == 128, "init and complete stay within two lines");

static void req_bad_ns(struct tgt_req *req)
{
	tgt_req_fail(req, NVME_ST_INVALID_NS);
}

static void req_bad_field(struct tgt_req *req)
{
	tgt_req_fail(req, NVME_ST_INVALID_FIELD);
}

static void req_busy(struct tgt_worker *w)
{
	if (w->nr_busy++ == 0)
		w->busy_since_ns = reactor_turn_ns(w->reactor);
}

static void req_idle(struct tgt_worker *w)
{
	must(w->nr_busy > 0);
	if (--w->nr_busy == 0)
		counter_add(&w->busy_ns, reactor_turn_ns(w->reactor) - w->busy_since_ns);
}

static void req_pick(struct tgt_req *req, struct tgt_sq *sq)
{
	struct tgt_ns *ns = tgt_ctrl_ns(sq->ctrl, req->sqe.nsid);

	req->ns = ns;
	if (unlikely(!ns)) {
		req->execute = req_bad_ns;
		return;
	}
	counter_add(&ns->stat[sq->worker->id].inflight, 1);
	if (unlikely(!tgt_check_flags(&req->sqe))) {
		req->execute = req_bad_field;
		return;
	}
	req->execute = ns->ops->execute;
	if (ns->ops->prepare) {
		ns->ops->prepare(req);
		req->is_prepared = true;
	}
}

uint64_t tgt_req_look(struct tgt_sq *sq, const struct nvme_sqe *sqes, unsigned nr, uint16_t *status)
{
	struct tgt_ns *ns;

	must(sq->qid != 0 && nr > 0 && nr <= TGT_BURST);
	ns = tgt_ctrl_ns(sq->ctrl, sqes[0].nsid);
	if (!ns || !ns->ops->look)
		return 0;
	return ns->ops->look(ns, sq->worker, sqes, nr, status);
}

void tgt_req_init(struct tgt_req *req, struct tgt_sq *sq, const struct nvme_sqe *sqe)
{
	req->sqe = *sqe;
	req->sq = sq;
	req->dw0 = 0;
	req->dw1 = 0;
	req->status = NVME_ST_OK;
	req->is_aborted = false;
	req->is_prepared = false;
	req->watch = 0;
	list_add_tail(&sq->reqs, &req->node);
	sq->nr_inflight++;
	if (unlikely(sq->qid == 0)) {
		req->ns = NULL;
		tgt_admin_init(req);
		return;
	}
	req_busy(sq->worker);
	req_pick(req, sq);
}

void tgt_req_prefetch(struct tgt_req *req)
{
	if (req->is_prepared && req->ns->ops->prefetch)
		req->ns->ops->prefetch(req);
}

void tgt_req_execute(struct tgt_req *req)
{
	if (unlikely(req->is_aborted)) {
		tgt_req_complete(req, NVME_ST_ABORTED);
		return;
	}
	req->execute(req);
}

void tgt_req_again(struct tgt_req *req)
{
	if (req->is_aborted)
		tgt_req_complete(req, NVME_ST_ABORTED);
	else
		req->again(req);
}

static void req_turn(struct mbox_msg *m)
{
	tgt_req_again(container_of(m, struct tgt_req, turn));
}

void tgt_req_later(struct tgt_req *req, void (*step)(struct tgt_req *req))
{
	struct reactor *r = req->sq->worker->reactor;

	req->again = step;
	if (req->sq->ops->later) {
		req->sq->ops->later(req);
		return;
	}
	req->turn.fn = req_turn;
	reactor_send(r, r, &req->turn);
}

static void req_warm(struct tgt_req *req)
{
	if (req->is_prepared && req->ns->ops->warm)
		req->ns->ops->warm(req);
}

void tgt_req_burst(struct tgt_req *const *reqs, unsigned nr, void (*flush)(void *arg), void *arg)
{
	for (unsigned i = 0; i < nr; i++)
		tgt_req_prefetch(reqs[i]);
	for (unsigned i = 0; i < nr; i++) {
		if (i + 1 < nr)
			req_warm(reqs[i + 1]);
		tgt_req_execute(reqs[i]);
		if (flush && i % TGT_FLUSH_EVERY == TGT_FLUSH_EVERY - 1)
			flush(arg);
	}
}

__attribute__((noinline)) static void req_count_bad(struct tgt_worker *w, unsigned kind,
						    uint8_t opc, uint16_t status)
{
	bool is_miss = (status & 0x7ff) == NVME_ST_KEY_NOT_FOUND;

	tgt_count(w, kind, opc, is_miss ? TGT_MISSED : TGT_FAILED, 1);
	counter_add(&w->counts.bad[status >> 8 & 7][status & 0xff], 1);
}

static inline void req_count(struct tgt_req *req, struct tgt_sq *sq, uint16_t status)
{
	unsigned kind = req->ns ? req->ns->ops->csi & 1 : sq->qid ? TGT_KIND_NONE : TGT_KIND_ADMIN;

	if (likely(status == NVME_ST_OK))
		tgt_count(sq->worker, kind, req->sqe.opc, TGT_DONE, 1);
	else
		req_count_bad(sq->worker, kind, req->sqe.opc, status);
}

/*
 * Base 2.0, generic status 08h: what was given up because its queue is deleted says so, whoever
 * gave it up: we, or whoever found its transfer stopped.
 */
__attribute__((noinline)) static uint16_t req_status_failed(const struct tgt_sq *sq,
							    uint16_t status)
{
	if (sq->marks & TGT_SQ_DELETED &&
	    (status == NVME_ST_ABORTED || status == NVME_ST_NS_NOT_READY))
		return NVME_ST_ABORTED_SQ_DELETED;
	return status;
}

void tgt_req_complete(struct tgt_req *req, uint16_t status)
{
	struct tgt_sq *sq = req->sq;

	if (unlikely(status != NVME_ST_OK))
		status = req_status_failed(sq, status);
	req->status = status;
	list_del(&req->node);
	must(sq->nr_inflight > 0);
	sq->nr_inflight--;
	req_count(req, sq, status);
	if (unlikely(sq->qid == 0))
		tgt_admin_done(req);
	else
		req_idle(sq->worker);
	/* Last of all that touches the namespace: whoever deletes it waits for zero. */
	if (req->ns)
		counter_add(&req->ns->stat[sq->worker->id].inflight, (uint64_t)-1);
	sq->ops->respond(req);
}

void tgt_req_fail(struct tgt_req *req, uint16_t status)
{
	tgt_req_complete(req, status | NVME_ST_DNR);
}

uint16_t tgt_req_iter_status(const struct tgt_req *req)
{
	if (req->iter == &req->dptr.it && req->dptr.status)
		return req->dptr.status;
	return NVME_ST_DATA_TRANSFER;
}

uint16_t tgt_req_iter_get(struct tgt_req *req, void *buf, uint32_t len)
{
	uint8_t *at = buf;
	struct mem_run run;

	while (len) {
		if (req->iter->next(req->iter, len, &run))
			return tgt_req_iter_status(req);
		must(run.len > 0 && run.len <= len);
		if (mem_peek(&run, at))
			return NVME_ST_DATA_TRANSFER;
		at += run.len;
		len -= (uint32_t)run.len;
	}
	return NVME_ST_OK;
}

uint16_t tgt_req_iter_put(struct tgt_req *req, const void *buf, uint32_t len)
{
	const uint8_t *at = buf;
	struct mem_run run;

	while (len) {
		if (req->iter->next(req->iter, len, &run))
			return tgt_req_iter_status(req);
		must(run.len > 0 && run.len <= len);
		if (mem_poke(&run, at))
			return NVME_ST_DATA_TRANSFER;
		if (req->iter->filled)
			req->iter->filled(req->iter, run.len);
		at += run.len;
		len -= (uint32_t)run.len;
	}
	return NVME_ST_OK;
}

void tgt_req_send(struct tgt_req *req, const void *buf, uint32_t len, uint16_t status)
{
	uint16_t st = req->sq->ops->data(req, len, MEM_TO_PEER);

	if (st == NVME_ST_OK)
		st = tgt_req_iter_put(req, buf, len);
	if (st != NVME_ST_OK) {
		tgt_req_fail(req, st);
		return;
	}
	tgt_req_complete(req, status);
}

uint16_t tgt_req_fetch(struct tgt_req *req, void *buf, uint32_t len)
{
	uint16_t st;

	must(len <= TGT_FETCH_MAX);
	st = req->sq->ops->data(req, len, MEM_FROM_PEER);
	return st == NVME_ST_OK ? tgt_req_iter_get(req, buf, len) : st;
}
