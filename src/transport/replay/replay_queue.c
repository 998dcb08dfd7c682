/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One I/O queue pair with its host. The poller's turn: reap completions, let the load fill slots,
 * then what any memory transport does: take up to TGT_BURST SQEs, init, prefetch, execute.
 *
 * Bus addresses are offsets into the queue's one mapping plus QUEUE_BUS. Runs on the queue's
 * worker.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/container.h"
#include "base/must.h"
#include "peal/ring.h"
#include "transport/replay/replay_file.h"
#include "transport/replay/replay_int.h"

#define QUEUE_BUS 0x10000000000ull
#define QUEUE_PAGE 4096u

static uint64_t pages_of(uint64_t bytes)
{
	return (bytes + QUEUE_PAGE - 1) / QUEUE_PAGE;
}

/* ---- device half ---- */

static int queue_resolve(struct tgt_req *req, uint64_t addr, uint64_t len, enum mem_xfer_dir dir,
			 struct mem_run *run)
{
	struct replay_queue *q = container_of(req->sq, struct replay_queue, sq);
	uint64_t off = addr - QUEUE_BUS;

	if (addr < QUEUE_BUS || off >= q->map_bytes)
		return -EFAULT;
	run->reg = q->region;
	run->off = off;
	run->len = len < q->map_bytes - off ? len : q->map_bytes - off;
	return 0;
}

static void queue_respond(struct tgt_req *req)
{
	struct replay_queue *q = container_of(req->sq, struct replay_queue, sq);

	if (q->rec)
		replay_record_cqe(q->rec, req);
	q->cqes[q->cq_tail] = (struct nvme_cqe){
		.dw0 = req->dw0,
		.dw1 = req->dw1,
		.sq_head = (uint16_t)q->sq_head,
		.sq_id = q->sq.qid,
		.cid = req->sqe.cid,
		.status = nvme_status_wire(req->status, q->dev_phase),
	};
	q->dev_phase = (uint8_t)peal_ring_phase(q->cq_tail, q->size, q->dev_phase);
	q->cq_tail = peal_ring_next(q->cq_tail, q->size);
	pool_put(&q->sq.worker->reqs, req);
}

static uint16_t queue_data(struct tgt_req *req, uint64_t len, enum mem_xfer_dir dir)
{
	struct replay_queue *q = container_of(req->sq, struct replay_queue, sq);

	if (q->rec)
		replay_record_data(q->rec, req, len, dir);
	return tgt_dptr_init(req, len, dir);
}

static const struct tgt_sq_ops queue_ops = {
	.respond = queue_respond,
	.data = queue_data,
	.resolve = queue_resolve,
};

static unsigned queue_serve(struct replay_queue *q)
{
	struct tgt_req *reqs[TGT_BURST];
	unsigned nr = 0;

	if (unlikely(q->sq.worker->is_held))
		return 0;
	while (nr < TGT_BURST && q->sq_head != q->sq_tail) {
		reqs[nr] = pool_get(&q->sq.worker->reqs);
		if (!reqs[nr])
			break;
		tgt_req_init(reqs[nr], &q->sq, &q->sqes[q->sq_head]);
		q->sq_head = peal_ring_next(q->sq_head, q->size);
		if (q->rec)
			replay_record_sqe(q->rec, reqs[nr]);
		nr++;
	}
	tgt_req_burst(reqs, nr, NULL, NULL);
	return nr;
}

/* ---- host half ---- */

static void *slot_buf(struct replay_queue *q, uint32_t slot)
{
	return q->mem + (q->slots[slot].prp1 - QUEUE_BUS);
}

static unsigned queue_reap(struct replay_queue *q)
{
	unsigned nr = 0;
	uint32_t slot;

	for (; nr < TGT_BURST && (q->cqes[q->cq_head].status & 1) == q->host_phase; nr++) {
		struct nvme_cqe cqe = q->cqes[q->cq_head];

		q->host_phase = (uint8_t)peal_ring_phase(q->cq_head, q->size, q->host_phase);
		q->cq_head = peal_ring_next(q->cq_head, q->size);
		slot = cqe.cid;
		q->load->done(q->load, slot, &cqe, slot_buf(q, slot));
		q->free[q->nr_free++] = (uint16_t)slot;
	}
	return nr;
}

/* Entries for all pages but the first; the last entry of a full list page leads to the next. */
static void slot_list(struct replay_queue *q, const struct replay_slot *s, uint64_t nr_pages)
{
	uint64_t *list = (uint64_t *)(q->mem + (s->list - QUEUE_BUS)), at = 0;

	for (uint64_t page = 1; page < nr_pages; page++, at++) {
		if (at % 512 == 511 && page + 1 < nr_pages) {
			list[at] = s->list + (at + 1) * 8;
			at++;
		}
		list[at] = s->prp1 + page * QUEUE_PAGE;
	}
}

static void queue_submit(struct replay_queue *q, uint32_t slot, struct nvme_sqe *sqe, uint64_t len)
{
	const struct replay_slot *s = &q->slots[slot];

	must(len <= q->slot_bytes);
	sqe->cid = (uint16_t)slot;
	sqe->flags &= 3;
	sqe->prp1 = len ? s->prp1 : 0;
	sqe->prp2 = 0;
	if (len > 2 * QUEUE_PAGE) {
		sqe->prp2 = s->list;
		slot_list(q, s, pages_of(len));
	} else if (len > QUEUE_PAGE) {
		sqe->prp2 = s->prp1 + QUEUE_PAGE;
	}
	q->sqes[q->sq_tail] = *sqe;
	q->sq_tail = peal_ring_next(q->sq_tail, q->size);
}

static unsigned queue_fill(struct replay_queue *q)
{
	struct nvme_sqe sqe;
	unsigned nr = 0;
	uint32_t slot;
	int64_t len;

	for (; nr < TGT_BURST && q->nr_free && !q->is_stopping; nr++) {
		slot = q->free[q->nr_free - 1];
		memset(&sqe, 0, sizeof(sqe));
		len = q->load->next(q->load, slot, &sqe, slot_buf(q, slot));
		if (len < 0)
			break;
		q->nr_free--;
		queue_submit(q, slot, &sqe, (uint64_t)len);
	}
	return nr;
}

static void queue_stopped(struct mbox_msg *m)
{
	replay_host_stopped(container_of(m, struct replay_queue, stopped)->host);
}

static int queue_poll(struct poller *p)
{
	struct replay_queue *q = container_of(p, struct replay_queue, poller);
	struct reactor *r = q->sq.worker->reactor;
	unsigned nr = queue_reap(q);

	nr += queue_fill(q);
	nr += queue_serve(q);
	if (q->is_stopping && q->nr_free == q->size - 1) {
		reactor_poller_del(r, p);
		q->stopped.fn = queue_stopped;
		reactor_send(r, tgt_node_home(tgt_subsys_node(q->host->ss))->reactor, &q->stopped);
	}
	return nr > 0;
}

/* ---- life ---- */

/*
 * List pages of a buffer of that many pages: entries for all but the first, 511 to a page and a
 * pointer.
 */
static uint64_t list_pages_of(uint64_t nr_pages)
{
	return nr_pages > 2 ? (nr_pages - 1 + 510) / 511 : 0;
}

int replay_queue_init(struct replay_queue *q, const struct replay_queue_opts *o)
{
	uint64_t nr_pages = pages_of(o->slot_bytes), at;
	uint64_t slot_pages = nr_pages + list_pages_of(nr_pages);

	q->load = o->load;
	q->size = o->depth + 1;
	q->slot_bytes = (uint32_t)(nr_pages * QUEUE_PAGE);
	q->dev_phase = 1;
	q->host_phase = 1;
	at = (pages_of(q->size * 64ull) + pages_of(q->size * 16ull)) * QUEUE_PAGE;
	q->mem = pool_map(at + o->depth * slot_pages * QUEUE_PAGE, &q->map_bytes);
	q->free = calloc(o->depth, sizeof(*q->free));
	q->slots = calloc(o->depth, sizeof(*q->slots));
	if (q->mem)
		q->region = mem_host_wrap(q->mem, q->map_bytes, MEM_READABLE | MEM_WRITABLE);
	if (!q->mem || !q->free || !q->slots || !q->region) {
		replay_queue_fini(q);
		return -ENOMEM;
	}
	q->sqes = (struct nvme_sqe *)q->mem;
	q->cqes = (struct nvme_cqe *)(q->mem + pages_of(q->size * 64ull) * QUEUE_PAGE);
	for (uint32_t slot = 0; slot < o->depth; slot++) {
		q->slots[slot].list = QUEUE_BUS + at + slot * slot_pages * QUEUE_PAGE;
		q->slots[slot].prp1 = q->slots[slot].list + list_pages_of(nr_pages) * QUEUE_PAGE;
		q->free[q->nr_free++] = (uint16_t)(o->depth - 1 - slot);
	}
	return 0;
}

void replay_queue_fini(struct replay_queue *q)
{
	if (q->region)
		mem_region_put(q->region);
	if (q->mem)
		pool_unmap(q->mem, q->map_bytes);
	free(q->free);
	free(q->slots);
}

static void queue_run(struct mbox_msg *m)
{
	struct replay_queue *q = container_of(m, struct replay_queue, start);

	reactor_poller_add(q->sq.worker->reactor, &q->poller);
}

static void queue_halt(struct mbox_msg *m)
{
	container_of(m, struct replay_queue, stop)->is_stopping = true;
}

void replay_queue_start(struct replay_queue *q)
{
	q->poller = (struct poller){.name = "replay", .poll = queue_poll};
	q->start.fn = queue_run;
	mbox_post(q->sq.worker->reactor, &q->start);
}

void replay_queue_stop(struct replay_queue *q)
{
	q->stop.fn = queue_halt;
	mbox_post(q->sq.worker->reactor, &q->stop);
}

int replay_queue_create(struct replay_host *h, const struct replay_queue_opts *o,
			struct replay_queue **out)
{
	const struct tgt_node *node = tgt_subsys_node(h->ss);
	struct replay_queue *q;
	int err;

	if (o->worker >= tgt_node_nr_io(node) || o->depth == 0 || o->depth > TGT_MQES ||
	    o->slot_bytes > REPLAY_DATA_MAX || h->nr_queues == TGT_QUEUES_MAX)
		return -EINVAL;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	err = replay_queue_init(q, o);
	if (err) {
		free(q);
		return err;
	}
	q->host = h;
	q->rec = h->rec;
	if (q->rec)
		replay_record_queue(q->rec, h->nr_queues + 1, q->size);
	tgt_sq_init(&q->sq, &queue_ops, h->ctrl, node->workers[o->worker], ++h->nr_queues);
	list_add_tail(&h->queues, &q->node);
	replay_queue_start(q);
	if (out)
		*out = q;
	return 0;
}
