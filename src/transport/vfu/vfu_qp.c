/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hot path: SQEs out of the client's memory, requests through target/, CQEs back. One poller
 * per worker, run by its reactor, serves all queues there in turn:
 *
 *   for each client, as much as its share of the turn (vfu_share.c) lets it have:
 *     for each SQ: doorbell (acquire) -> room in the CQ? -> free requests? -> guarded copy of
 *                  SQEs -> tgt_req_look(), the rest -> tgt_req_init()    at most TGT_BURST over all
 *     then tgt_req_prefetch() over all, then tgt_req_execute() over all
 *     for each CQ with something staged: guarded posting, oldest first; one interrupt each
 *
 * An SQE is taken only when a slot of its CQ is promised to it, so a completion always has a
 * place, and only when a request is free. Each queue of a client gets an even part of what the
 * client may take, and the order moves on every turn, of clients and of queues.
 *
 * Rings and doorbells are the client's and may change at any moment: a doorbell is loaded once and
 * checked, an SQE is copied once and used from our copy. A ring that is not mapped just now stands
 * still until it is (firmware moves memory under live queues); a ring whose memory faults ends the
 * controller with CSTS.CFS. BAR0 itself is our own memfd, sealed against shrinking: a hole that
 * the client punches into it reads as zero and doesn't fault, so doorbells are loaded unguarded.
 *
 * Budget, Exist at 20 M/s on one core: 50 ns a command in all, of which 12 here: two copies of 64
 * bytes, one guard per burst and queue, one for each run of CQEs.
 */
#include <errno.h>
#include "core/probe.h"
#include "peal/ring.h"
#include "transport/vfu/vfu_int.h"

/* ---- completions ---- */

/* The queue's memory is gone: nothing can be said there any more. */
static void vfu_qp_cq_broken(struct vfu_cq *cq)
{
	cq->is_broken = true;
	vfu_queue_fatal(cq->w, cq->dev, &cq->note_fatal);
}

static void vfu_qp_cq_drop(struct vfu_cq *cq)
{
	cq->nr_busy -= peal_ring_used(cq->tail, cq->staged, cq->size);
	cq->tail = cq->staged;
}

static int vfu_qp_post(struct vfu_cq *cq, uint32_t nr)
{
	struct mem_run run = {.off = cq->addr + cq->tail * sizeof(struct nvme_cqe),
			      .len = nr * sizeof(struct nvme_cqe)};

	if (vfu_dma_run(cq->dev->view[cq->w->id].snap, &cq->hit, MEM_WRITABLE, &run))
		return 0;
	nr = (uint32_t)(run.len / sizeof(struct nvme_cqe));
	run.len = nr * sizeof(struct nvme_cqe);
	if (mem_poke_cqe(&run, &cq->stage[cq->tail])) {
		vfu_qp_cq_broken(cq);
		return -EFAULT;
	}
	cq->tail += nr;
	if (cq->tail == cq->size)
		cq->tail = 0;
	cq->nr_busy -= nr;
	return (int)nr;
}

static void vfu_qp_posted(struct vfu_cq *cq)
{
	if (cq->after & VFU_AFTER_TRACE)
		tgt_trace_posted(cq->w->tw, cq);
	if (cq->after & VFU_AFTER_IRQ)
		vfu_irq_fire(&cq->vec);
}

/*
 * Posts what is staged and interrupts once. What a ring can't take that isn't mapped just now stays
 * staged, and nobody looks at that queue again before the map has changed (vfu_dma_view()).
 */
void vfu_qp_flush(struct vfu_cq *cq)
{
	int nr = 0;

	while (cq->tail != cq->staged && !cq->is_broken) {
		uint32_t end = cq->staged > cq->tail ? cq->staged : cq->size;
		int res = vfu_qp_post(cq, end - cq->tail);

		if (res == 0)
			break;
		nr += res > 0;
	}
	if (cq->is_broken)
		vfu_qp_cq_drop(cq);
	if (nr) {
		PEAL_PROBE(vfu_post, cq->dev, cq->qid, nr);
		if (cq->after)
			vfu_qp_posted(cq);
	}
	list_del(&cq->dirty);
	if (cq->tail != cq->staged)
		list_add_tail(&cq->dev->view[cq->w->id].stuck, &cq->dirty);
}

static inline void vfu_qp_stage(struct vfu_sq *sq, uint16_t cid, uint16_t status, uint32_t dw0,
				uint32_t dw1)
{
	struct vfu_cq *cq = sq->cq;

	PEAL_PROBE(vfu_cqe, sq->dev, sq->sq.qid, cid, status);
	cq->stage[cq->staged] = (struct nvme_cqe){.dw0 = dw0,
						  .dw1 = dw1,
						  .sq_head = (uint16_t)sq->head,
						  .sq_id = sq->sq.qid,
						  .cid = cid,
						  .status = nvme_status_wire(status, cq->phase)};
	cq->phase = peal_ring_phase(cq->staged, cq->size, cq->phase);
	cq->staged = peal_ring_next(cq->staged, cq->size);
	if (!list_is_linked(&cq->dirty))
		list_add_tail(&sq->w->dirty, &cq->dirty);
}

void vfu_qp_respond(struct tgt_req *req)
{
	struct vfu_sq *sq = container_of(req->sq, struct vfu_sq, sq);
	struct vfu_worker *w = sq->w;

	if (req->tr)
		vfu_dma_unpin(w, req->tr);
	if (unlikely(req->watch))
		vfu_watch_cqe(sq, req);
	if (unlikely(req->watch & TGT_WATCH_SILENT))
		sq->cq->nr_busy--;
	else
		vfu_qp_stage(sq, req->sqe.cid, req->status, req->dw0, req->dw1);
	pool_put(&w->tw->reqs, req);
}

/* ---- data ---- */

static struct vfu_snap *vfu_qp_pin(struct vfu_sq *sq, struct tgt_req *req)
{
	struct vfu_snap *s = req->tr;

	if (!s) {
		s = sq->dev->view[sq->w->id].snap;
		if (s) {
			s->pin[sq->w->id].nr++;
			req->tr = s;
		}
	}
	return s;
}

int vfu_qp_resolve(struct tgt_req *req, uint64_t addr, uint64_t len, enum mem_xfer_dir dir,
		   struct mem_run *run)
{
	struct vfu_sq *sq = container_of(req->sq, struct vfu_sq, sq);

	run->off = addr;
	run->len = len;
	return vfu_dma_run(vfu_qp_pin(sq, req), &sq->data_hit,
			   dir == MEM_FROM_PEER ? MEM_READABLE : MEM_WRITABLE, run);
}

uint16_t vfu_qp_data(struct tgt_req *req, uint64_t len, enum mem_xfer_dir dir)
{
	vfu_qp_pin(container_of(req->sq, struct vfu_sq, sq), req);
	return tgt_dptr_init(req, len, dir);
}

void vfu_qp_later(struct tgt_req *req)
{
	struct vfu_sq *sq = container_of(req->sq, struct vfu_sq, sq);

	list_add_tail(&sq->share->later, &req->later);
}

const struct tgt_sq_ops vfu_qp_ops = {
	.respond = vfu_qp_respond,
	.data = vfu_qp_data,
	.later = vfu_qp_later,
	.resolve = vfu_qp_resolve,
};

/* ---- submissions ---- */

/* Slots of the CQ that are neither posted and unread nor promised. */
static uint32_t vfu_qp_room(const struct vfu_cq *cq)
{
	return peal_ring_free(cq->head, cq->tail, cq->size) - cq->nr_busy;
}

/* The client's CQ head may only move over what was posted. */
static void vfu_qp_look_head(struct vfu_cq *cq)
{
	uint32_t head = atomic_load_explicit(cq->bell, memory_order_acquire);

	if (head == cq->head)
		return;
	if (head < cq->size && peal_ring_used(cq->head, head, cq->size) <=
				       peal_ring_used(cq->head, cq->tail, cq->size)) {
		cq->head = head;
		return;
	}
	if (!cq->is_bell_bad) {
		cq->is_bell_bad = true;
		vfu_queue_bad_bell(cq->w, cq->dev, &cq->note_bell);
	}
}

/* A watched queue's, or an invalid one: that is reported once and the last valid one stays. */
static __attribute__((noinline, cold)) void vfu_qp_look_tail_odd(struct vfu_sq *sq, uint32_t tail)
{
	if (tail < sq->size) {
		sq->tail = tail;
		sq->bell_ns = reactor_now_ns(sq->w->tw->reactor);
		PEAL_PROBE(vfu_doorbell, sq->dev, sq->sq.qid, tail);
	} else if (!sq->is_bell_bad) {
		sq->is_bell_bad = true;
		vfu_queue_bad_bell(sq->w, sq->dev, &sq->note_bell);
	}
}

/* The client's SQ tail. */
static inline void vfu_qp_look_tail(struct vfu_sq *sq, uint32_t tail)
{
	if (unlikely(tail >= sq->tail_end)) {
		vfu_qp_look_tail_odd(sq, tail);
		return;
	}
	sq->tail = tail;
	PEAL_PROBE(vfu_doorbell, sq->dev, sq->sq.qid, tail);
}

/* How many SQEs may be taken now: there, contiguous, with a slot and a request each. */
static uint32_t vfu_qp_may_take(struct vfu_sq *sq, uint32_t max)
{
	uint32_t nr = peal_ring_used(sq->head, sq->tail, sq->size);

	nr = min_t(uint32_t, nr, min_t(uint32_t, max, sq->size - sq->head));
	if (vfu_qp_room(sq->cq) < nr) {
		vfu_qp_look_head(sq->cq);
		nr = min_t(uint32_t, nr, vfu_qp_room(sq->cq));
		if (nr == 0)
			sq->w->is_blocked = true; /* waits for a CQ head */
	}
	return min_t(uint32_t, nr, vfu_share_reqs(sq));
}

static inline struct tgt_req *vfu_qp_init(struct vfu_sq *sq, const struct nvme_sqe *sqe)
{
	struct vfu_worker *w = sq->w;
	struct tgt_req *req = pool_get(&w->tw->reqs);

	req->tr = NULL;
	tgt_req_init(req, &sq->sq, sqe);
	PEAL_PROBE(vfu_sqe, req, sq->sq.qid, sqe->cid, sqe->opc);
	w->burst[w->nr_burst++] = req;
	return req;
}

/* The admin queue's, or a watched one's: all take the way with a request. */
static __attribute__((noinline, cold)) void vfu_qp_init_odd(struct vfu_sq *sq, uint32_t nr)
{
	struct vfu_worker *w = sq->w;

	if (sq->sq.marks & TGT_SQ_WATCHED)
		sq->fetch_ns = reactor_now_ns(w->tw->reactor);
	for (uint32_t i = 0; i < nr; i++) {
		struct tgt_req *req = vfu_qp_init(sq, &w->sqes[i]);

		if (sq->sq.marks & TGT_SQ_WATCHED)
			vfu_watch_sqe(sq, req);
	}
}

static void vfu_qp_init_all(struct vfu_sq *sq, uint32_t nr)
{
	struct vfu_worker *w = sq->w;
	uint16_t status[TGT_BURST];
	uint64_t start_ns = 0, over;

	w->until_timed -= (int32_t)nr;
	if (unlikely(w->until_timed < 0))
		start_ns = reactor_now_ns(w->tw->reactor);
	over = tgt_req_look(&sq->sq, w->sqes, nr, status);
	for (uint32_t i = 0; i < nr; i++) {
		if (over >> i & 1)
			vfu_qp_stage(sq, w->sqes[i].cid, status[i], 0, 0);
		else
			vfu_qp_init(sq, &w->sqes[i]);
	}
	if (unlikely(w->until_timed < 0))
		vfu_watch_time(sq, nr, over, start_ns);
}

static uint32_t vfu_qp_take(struct vfu_sq *sq, uint32_t nr)
{
	struct vfu_worker *w = sq->w;
	struct mem_run run = {.off = sq->addr + sq->head * sizeof(struct nvme_sqe),
			      .len = nr * sizeof(struct nvme_sqe)};

	if (vfu_dma_run(sq->dev->view[w->id].snap, &sq->hit, MEM_READABLE, &run))
		return 0;
	nr = (uint32_t)(run.len / sizeof(struct nvme_sqe));
	run.len = nr * sizeof(struct nvme_sqe);
	if (mem_peek(&run, w->sqes)) {
		sq->is_broken = true;
		vfu_queue_fatal(w, sq->dev, &sq->note_fatal);
		return 0;
	}
	sq->head += nr;
	if (sq->head == sq->size)
		sq->head = 0;
	sq->cq->nr_busy += nr;
	sq->sq.nr_cmds += nr;
	if (unlikely(sq->sq.marks & (TGT_SQ_ADMIN | TGT_SQ_WATCHED)))
		vfu_qp_init_odd(sq, nr);
	else
		vfu_qp_init_all(sq, nr);
	return nr;
}

static uint32_t vfu_qp_fetch(struct vfu_sq *sq, uint32_t max)
{
	uint32_t tail = atomic_load_explicit(sq->bell, memory_order_acquire), nr;

	if (likely(tail == sq->head && tail == sq->tail))
		return 0;
	if (sq->is_broken || sq->cq->is_broken)
		return 0;
	if (tail != sq->tail)
		vfu_qp_look_tail(sq, tail);
	nr = vfu_qp_may_take(sq, max);
	return nr ? vfu_qp_take(sq, nr) : 0;
}

/* The next turn begins behind the first `nr`. */
static void vfu_qp_rotate(struct list *all, uint32_t nr)
{
	struct list *first;

	for (; nr; nr--) {
		first = all->next;
		list_del(first);
		list_add_tail(all, first);
	}
}

/*
 * Of one client's queues, an even part of `max` each; how many were taken. At most `looks` queues
 * are looked at: a doorbell that its client writes to all the time costs a cache miss each time.
 */
static uint32_t vfu_qp_fetch_all(struct vfu_worker *w, struct vfu_share *s, uint32_t max,
				 uint32_t looks)
{
	uint32_t part = max / (s->nr_ready ? s->nr_ready : 1), nr_ready = 0;
	uint32_t left = max, nr_looks = 0, nr;
	struct vfu_sq *sq;

	if (part == 0)
		part = 1;
	w->nr_burst = 0;
	list_for_each_entry(sq, &s->sqs, node) {
		if (left == 0 || nr_looks == looks)
			break;
		nr = vfu_qp_fetch(sq, min_t(uint32_t, part, left));
		left -= nr;
		nr_ready += nr != 0;
		nr_looks++;
		/* Is there more, as far as is known? */
		s->is_cut = left == 0 && sq->tail != sq->head;
	}
	w->nr_looks += nr_looks;
	s->nr_ready = nr_ready;
	if (nr_looks == looks)
		vfu_qp_rotate(&s->sqs, nr_looks);
	else if (nr_ready)
		vfu_qp_rotate(&s->sqs, 1);
	return max - left;
}

int vfu_qp_flush_all(struct vfu_worker *w)
{
	struct vfu_cq *cq, *tmp;
	int nr = 0;

	list_for_each_entry_safe(cq, tmp, &w->dirty, dirty) {
		uint32_t tail = cq->tail;

		vfu_qp_flush(cq);
		nr += tail != cq->tail;
	}
	return nr;
}

/*
 * In the middle of a burst: queues that are polled. One that wants an interrupt gets one a burst.
 */
static void vfu_qp_flush_early(void *arg)
{
	struct vfu_worker *w = arg;
	struct vfu_cq *cq, *tmp;

	list_for_each_entry_safe(cq, tmp, &w->dirty, dirty)
		if (!(cq->after & VFU_AFTER_IRQ))
			vfu_qp_flush(cq);
}

uint32_t vfu_qp_serve(struct vfu_worker *w, struct vfu_share *s, uint32_t max, uint32_t looks)
{
	uint32_t nr = vfu_qp_fetch_all(w, s, max, looks);

	if (w->nr_burst)
		tgt_req_burst(w->burst, w->nr_burst, vfu_qp_flush_early, w);
	return nr;
}

bool vfu_qp_has_more(const struct vfu_share *s)
{
	const struct vfu_sq *sq;

	/* To look at all of them takes turns. */
	if (s->nr_live > VFU_LOOKS_MAX)
		return s->is_cut;
	list_for_each_entry(sq, &s->sqs, node)
		if (atomic_load_explicit(sq->bell, memory_order_relaxed) != sq->head)
			return true;
	return false;
}

/* No other client has an I/O queue, anywhere, and nothing is left of when one had. */
static inline bool vfu_qp_is_alone(const struct vfu_worker *w)
{
	return w->nr_shares == 1 && w->nr_active < 2 &&
	       atomic_load_explicit(&w->vfu->nr_busy_devs, memory_order_relaxed) < 2;
}

static inline int vfu_qp_serve_one(struct vfu_worker *w, struct vfu_share *s)
{
	uint32_t nr = unlikely(!list_is_empty(&s->later)) ? vfu_share_step(s) : 0;

	return (int)(nr + vfu_qp_serve(w, s, TGT_BURST, UINT32_MAX));
}

int vfu_qp_poll(struct vfu_worker *w)
{
	int nr = 0;

	w->is_blocked = false;
	/* What a device or another reactor has brought is told before anything new begins. */
	if (!list_is_empty(&w->dirty)) {
		nr = vfu_qp_flush_all(w);
		reactor_io_push(w->tw->reactor);
	}
	if (likely(vfu_qp_is_alone(w)))
		nr += vfu_qp_serve_one(w, list_first_entry(&w->shares, struct vfu_share, node));
	else if (w->nr_shares)
		nr += vfu_share_serve(w);
	if (!list_is_empty(&w->dirty))
		nr += vfu_qp_flush_all(w);
	if (!list_is_empty(&w->dying))
		nr += vfu_queue_drained(w);
	return nr;
}
