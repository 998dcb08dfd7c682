/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See fake_dev.h. Queue operations and disable finish in later turns of the home worker, as they
 * do in a real transport.
 */
#include "fake_dev.h"
#include <errno.h>
#include <stdlib.h>
#include "base/container.h"
#include "base/must.h"
#include "peal/ring.h"

#define DEV_MAPS_MAX 1024

struct dev_cq {
	bool is_live;
	uint64_t addr;
	uint32_t size, head, tail, phase, nr_reserved;
};

struct dev_sq {
	struct tgt_sq sq;
	struct fake_dev *d;
	struct dev_cq *cq;
	struct poller poller;
	uint64_t addr;
	uint32_t size, head, tail;
	bool is_live, is_stopping;
};

enum { OP_NONE, OP_CQ_CREATE, OP_SQ_CREATE, OP_SQ_DELETE, OP_CQ_DELETE };

struct dev_op {
	int kind;
	struct tgt_queue_params p;
	struct tgt_req *req;
};

struct dev_map {
	uint64_t addr, len;
	struct mem_region *reg;
	bool is_mapped;
};

struct fake_dev {
	struct fake_node *n;
	struct tgt_ctrl *ctrl;
	struct tgt_worker *home;
	struct poller poller;
	bool is_enabling, is_disabling;
	struct tgt_queue_params asq, acq;
	struct dev_sq sq[TGT_QUEUES_MAX + 1];
	struct dev_cq cq[TGT_QUEUES_MAX + 1];
	struct dev_op ops[64];
	struct dev_map maps[DEV_MAPS_MAX];
	unsigned nr_maps;
	unsigned nr_fatal;
};

/* ---- memory ---- */

static struct dev_map *map_find(struct fake_dev *d, uint64_t addr)
{
	struct dev_map *m;

	for (unsigned i = 0; i < d->nr_maps; i++) {
		m = &d->maps[i];
		if (addr >= m->addr && addr - m->addr < m->len)
			return m;
	}
	return NULL;
}

static int dev_resolve_in(struct fake_dev *d, uint64_t addr, uint64_t len, struct mem_run *run)
{
	struct dev_map *m = map_find(d, addr);

	must(len > 0);
	if (!m || !m->is_mapped)
		return -EFAULT;
	run->reg = m->reg;
	run->off = addr - m->addr;
	run->len = len < m->len - run->off ? len : m->len - run->off;
	return 0;
}

static int dev_resolve(struct tgt_req *req, uint64_t addr, uint64_t len, enum mem_xfer_dir dir,
		       struct mem_run *run)
{
	struct dev_sq *s = req->tr;

	return dev_resolve_in(s->d, addr, len, run);
}

void fake_dev_map(struct fake_dev *d, uint64_t addr, void *base, uint64_t len)
{
	struct dev_map *m = map_find(d, addr);

	if (!m) {
		must(d->nr_maps < DEV_MAPS_MAX);
		m = &d->maps[d->nr_maps++];
		m->addr = addr;
		m->len = len;
		m->reg = mem_host_wrap(base, len, MEM_PEER | MEM_READABLE | MEM_WRITABLE);
		must(m->reg);
	}
	m->is_mapped = true;
}

void fake_dev_unmap(struct fake_dev *d, uint64_t addr)
{
	struct dev_map *m = map_find(d, addr);

	must(m && m->is_mapped);
	m->is_mapped = false;
}

/* ---- queues ---- */

static void dev_respond(struct tgt_req *req)
{
	struct dev_sq *s = req->tr;
	struct dev_cq *cq = s->cq;
	struct nvme_cqe cqe = {
		.dw0 = req->dw0,
		.dw1 = req->dw1,
		.sq_head = (uint16_t)s->head,
		.sq_id = s->sq.qid,
		.cid = req->sqe.cid,
		.status = nvme_status_wire(req->status, cq->phase),
	};
	struct mem_run run;

	must(cq->nr_reserved > 0);
	cq->nr_reserved--;
	if (!(req->watch & TGT_WATCH_SILENT) && !s->d->is_disabling) {
		if (!dev_resolve_in(s->d, cq->addr + cq->tail * 16ull, 16, &run))
			(void)!mem_poke_cqe(&run, &cqe);
		cq->phase = peal_ring_phase(cq->tail, cq->size, cq->phase);
		cq->tail = peal_ring_next(cq->tail, cq->size);
	}
	pool_put(&s->sq.worker->reqs, req);
}

static const struct tgt_sq_ops sq_ops = {
	.respond = dev_respond,
	.data = tgt_dptr_init,
	.resolve = dev_resolve,
};

static bool cq_has_room(const struct dev_cq *cq)
{
	return peal_ring_free(cq->head, cq->tail, cq->size) > cq->nr_reserved;
}

static struct tgt_req *sq_fetch(struct dev_sq *s)
{
	struct tgt_req *req = pool_get(&s->sq.worker->reqs);
	struct mem_run run;
	struct nvme_sqe sqe;

	if (!req)
		return NULL;
	if (dev_resolve_in(s->d, s->addr + s->head * 64ull, 64, &run) || mem_peek(&run, &sqe)) {
		pool_put(&s->sq.worker->reqs, req);
		s->is_stopping = true; /* the ring is gone: as good as dead */
		return NULL;
	}
	s->head = peal_ring_next(s->head, s->size);
	s->cq->nr_reserved++;
	req->tr = s;
	tgt_req_init(req, &s->sq, &sqe);
	return req;
}

static int sq_poll(struct poller *p)
{
	struct dev_sq *s = container_of(p, struct dev_sq, poller);
	struct tgt_req *reqs[TGT_BURST];
	unsigned nr = 0;

	while (nr < TGT_BURST && !s->is_stopping && s->head != s->tail && cq_has_room(s->cq)) {
		reqs[nr] = sq_fetch(s);
		if (!reqs[nr])
			break;
		nr++;
	}
	for (unsigned i = 0; i < nr; i++)
		tgt_req_prefetch(reqs[i]);
	for (unsigned i = 0; i < nr; i++)
		tgt_req_execute(reqs[i]);
	return nr > 0;
}

static void cq_open(struct dev_cq *cq, const struct tgt_queue_params *p)
{
	must(!cq->is_live);
	*cq = (struct dev_cq){.is_live = true, .addr = p->addr, .size = p->size, .phase = 1};
}

static void sq_open(struct fake_dev *d, const struct tgt_queue_params *p, struct tgt_worker *w)
{
	struct dev_sq *s = &d->sq[p->qid];

	must(!s->is_live && d->cq[p->cqid].is_live);
	*s = (struct dev_sq){
		.d = d,
		.cq = &d->cq[p->cqid],
		.poller = {.name = "fake sq", .poll = sq_poll},
		.addr = p->addr,
		.size = p->size,
		.is_live = true,
	};
	tgt_sq_init(&s->sq, &sq_ops, d->ctrl, w, p->qid);
	reactor_poller_add(w->reactor, &s->poller);
}

static void sq_close(struct dev_sq *s)
{
	must(s->sq.nr_inflight == 0);
	reactor_poller_del(s->sq.worker->reactor, &s->poller);
	s->is_live = false;
}

/* ---- the controller's side ---- */

static void op_add(struct tgt_ctrl *c, int kind, const struct tgt_queue_params *p,
		   struct tgt_req *req)
{
	struct fake_dev *d = tgt_ctrl_priv(c);

	for (unsigned i = 0; i < 64; i++) {
		if (d->ops[i].kind == OP_NONE) {
			d->ops[i] = (struct dev_op){kind, *p, req};
			return;
		}
	}
	must_not_reach();
}

static void ops_cq_create(struct tgt_ctrl *c, const struct tgt_queue_params *p, struct tgt_req *req)
{
	op_add(c, OP_CQ_CREATE, p, req);
}

static void ops_sq_create(struct tgt_ctrl *c, const struct tgt_queue_params *p, struct tgt_req *req)
{
	op_add(c, OP_SQ_CREATE, p, req);
}

static void ops_sq_delete(struct tgt_ctrl *c, uint16_t qid, struct tgt_req *req)
{
	struct fake_dev *d = tgt_ctrl_priv(c);

	d->sq[qid].is_stopping = true;
	op_add(c, OP_SQ_DELETE, &(struct tgt_queue_params){.qid = qid}, req);
}

static void ops_cq_delete(struct tgt_ctrl *c, uint16_t qid, struct tgt_req *req)
{
	op_add(c, OP_CQ_DELETE, &(struct tgt_queue_params){.qid = qid}, req);
}

static void ops_abort(struct tgt_ctrl *c, uint16_t sqid, uint16_t cid, struct tgt_req *req)
{
	struct fake_dev *d = tgt_ctrl_priv(c);

	tgt_sq_abort(&d->sq[sqid].sq, cid);
	tgt_req_complete(req, NVME_ST_OK);
}

static void ops_enable(struct tgt_ctrl *c, const struct tgt_queue_params *asq,
		       const struct tgt_queue_params *acq)
{
	struct fake_dev *d = tgt_ctrl_priv(c);

	d->asq = *asq;
	d->acq = *acq;
	d->is_enabling = true;
}

static void ops_disable(struct tgt_ctrl *c)
{
	struct fake_dev *d = tgt_ctrl_priv(c);

	d->is_disabling = true;
	for (unsigned i = 0; i <= TGT_QUEUES_MAX; i++)
		d->sq[i].is_stopping = true;
}

static void ops_fatal(struct tgt_ctrl *c, const char *why)
{
	struct fake_dev *d = tgt_ctrl_priv(c);

	d->nr_fatal++;
}

static const struct tgt_ctrl_ops ctrl_ops = {
	.enable = ops_enable,
	.disable = ops_disable,
	.cq_create = ops_cq_create,
	.sq_create = ops_sq_create,
	.sq_delete = ops_sq_delete,
	.cq_delete = ops_cq_delete,
	.abort = ops_abort,
	.fatal = ops_fatal,
};

static void op_run(struct fake_dev *d, struct dev_op *op)
{
	struct dev_op o = *op;

	if (o.kind == OP_SQ_DELETE && d->sq[o.p.qid].sq.nr_inflight)
		return;
	op->kind = OP_NONE;
	switch (o.kind) {
	case OP_CQ_CREATE:
		cq_open(&d->cq[o.p.qid], &o.p);
		break;
	case OP_SQ_CREATE:
		sq_open(d, &o.p, d->n->node.workers[(o.p.qid - 1) % d->n->node.nr]);
		if (d->is_disabling)
			d->sq[o.p.qid].is_stopping = true;
		break;
	case OP_SQ_DELETE:
		sq_close(&d->sq[o.p.qid]);
		break;
	case OP_CQ_DELETE:
		must(d->cq[o.p.qid].nr_reserved == 0);
		d->cq[o.p.qid].is_live = false;
		break;
	default:
		must_not_reach();
	}
	tgt_req_complete(o.req, NVME_ST_OK);
}

static void disable_run(struct fake_dev *d)
{
	for (unsigned i = 0; i <= TGT_QUEUES_MAX; i++)
		if (d->sq[i].is_live && d->sq[i].sq.nr_inflight)
			return;
	for (unsigned i = 0; i <= TGT_QUEUES_MAX; i++) {
		if (d->sq[i].is_live)
			sq_close(&d->sq[i]);
		d->cq[i].is_live = false;
	}
	d->is_disabling = false;
	tgt_ctrl_disabled(d->ctrl);
}

static int dev_poll(struct poller *p)
{
	struct fake_dev *d = container_of(p, struct fake_dev, poller);

	for (unsigned i = 0; i < 64; i++)
		if (d->ops[i].kind != OP_NONE && rng_chance(&d->n->rng, 1, 2))
			op_run(d, &d->ops[i]);
	if (d->is_enabling) {
		d->is_enabling = false;
		cq_open(&d->cq[0], &d->acq);
		sq_open(d, &d->asq, d->home);
		tgt_ctrl_enabled(d->ctrl, true);
	}
	if (d->is_disabling)
		disable_run(d);
	return 0;
}

void fake_dev_ring(struct fake_dev *d, uint16_t qid, uint32_t tail)
{
	must(d->sq[qid].is_live && tail < d->sq[qid].size);
	d->sq[qid].tail = tail;
}

void fake_dev_cq_head(struct fake_dev *d, uint16_t qid, uint32_t head)
{
	must(d->cq[qid].is_live && head < d->cq[qid].size);
	d->cq[qid].head = head;
}

struct tgt_ctrl *fake_dev_ctrl(struct fake_dev *d)
{
	return d->ctrl;
}

unsigned fake_dev_nr_fatal(struct fake_dev *d)
{
	return d->nr_fatal;
}

struct fake_dev *fake_dev_create(struct fake_tr *t, const struct fake_tr_opts *o)
{
	struct fake_dev *d = calloc(1, sizeof(*d));
	struct tgt_ctrl_opts co = {
		.ops = &ctrl_ops,
		.home = t->n->node.workers[o->home],
		.max_queues = o->max_queues ? o->max_queues : FAKE_QUEUES,
		.mdts = o->mdts,
		.is_operator = o->is_operator,
		.host = "fake",
	};

	must(d);
	d->n = t->n;
	d->home = co.home;
	d->poller = (struct poller){.name = "fake", .poll = dev_poll};
	must(!tgt_ctrl_create(t->ss, &co, &d->ctrl));
	tgt_ctrl_set_priv(d->ctrl, d);
	reactor_poller_add(d->home->reactor, &d->poller);
	return d;
}

static void reset_end(void *arg)
{
	*(bool *)arg = true;
}

static bool is_true(void *arg)
{
	return *(bool *)arg;
}

void fake_dev_destroy(struct fake_dev *d)
{
	bool is_reset = false;

	tgt_ctrl_reset(d->ctrl, reset_end, &is_reset);
	must(fake_node_run(d->n, is_true, &is_reset, 1000000));
	tgt_ctrl_destroy(d->ctrl);
	reactor_poller_del(d->home->reactor, &d->poller);
	for (unsigned i = 0; i < d->nr_maps; i++)
		mem_region_put(d->maps[i].reg);
	free(d);
}
