/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues coming and going: what target/ asks a transport for (tgt_ctrl_ops). The tables of a
 * client's queues belong to the home; a queue itself to the worker that serves it, told by
 * messages:
 *
 *   create   the home makes it, the worker starts to look at it
 *   delete   the worker stops fetching, marks what is under way as aborted, waits until the last
 *            of it is answered, posts what is staged, sends it back; the home frees it, answers
 *   disable  delete of all SQs, then of all CQs, then tgt_ctrl_disabled()
 *
 * CQs are spread over the workers in turn; an SQ is served where its CQ is, so that posting takes
 * no lock. The admin queues live on the home worker.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "transport/vfu/vfu_int.h"

static void vfu_queue_send(struct vfu_worker *from, struct vfu_worker *to, struct mbox_msg *m)
{
	reactor_send(from->tw->reactor, to->tw->reactor, m);
}

static void vfu_queue_settle(struct vfu_dev *d);

/* ---- notes to the home ---- */

static void vfu_queue_bad_bell_home(struct mbox_msg *m)
{
	struct vfu_dev *d = container_of(m, struct vfu_note, msg)->dev;

	/* Base 2.0, figure 146: error status, invalid doorbell write value; error log */
	tgt_ctrl_aen(d->ctrl, 0, 1, 1);
}

void vfu_queue_bad_bell(struct vfu_worker *w, struct vfu_dev *d, struct vfu_note *n)
{
	n->dev = d;
	n->msg.fn = vfu_queue_bad_bell_home;
	vfu_queue_send(w, vfu_home(w->vfu), &n->msg);
}

static void vfu_queue_fatal_home(struct mbox_msg *m)
{
	struct vfu_dev *d = container_of(m, struct vfu_note, msg)->dev;

	if (d->is_disabling)
		return;
	log_some_warn("vfu: %s: a ring's memory is gone, controller failed", d->host);
	tgt_ctrl_fatal(d->ctrl);
}

void vfu_queue_fatal(struct vfu_worker *w, struct vfu_dev *d, struct vfu_note *n)
{
	n->dev = d;
	n->msg.fn = vfu_queue_fatal_home;
	vfu_queue_send(w, vfu_home(w->vfu), &n->msg);
}

/* ---- on the worker ---- */

static void vfu_queue_sq_add_at(struct mbox_msg *m)
{
	struct vfu_sq *sq = container_of(m, struct vfu_sq, add);
	struct vfu_worker *w = sq->w;

	vfu_share_add(w, sq->share);
	list_add_tail(w->tw->is_held && sq->sq.qid ? &w->held : &sq->share->sqs, &sq->node);
	vfu_watch_mark(sq);
	if (!sq->dev->has_wake)
		w->nr_stock++;
}

static void vfu_queue_sq_gone(struct mbox_msg *m);

/* The queue's last command is answered. */
static void vfu_queue_sq_back(struct vfu_sq *sq)
{
	list_del(&sq->node);
	vfu_share_del(sq->w, sq->share);
	if (list_is_linked(&sq->cq->dirty))
		vfu_qp_flush(sq->cq);
	sq->del.fn = vfu_queue_sq_gone;
	vfu_queue_send(sq->w, vfu_home(sq->w->vfu), &sq->del);
}

int vfu_queue_drained(struct vfu_worker *w)
{
	struct vfu_sq *sq, *tmp;
	int nr = 0;

	list_for_each_entry_safe(sq, tmp, &w->dying, node) {
		if (sq->sq.nr_inflight)
			continue;
		vfu_queue_sq_back(sq);
		nr++;
	}
	return nr;
}

static void vfu_queue_sq_del_at(struct mbox_msg *m)
{
	struct vfu_sq *sq = container_of(m, struct vfu_sq, del);
	struct vfu_worker *w = sq->w;

	list_del(&sq->node);
	vfu_share_dying(sq->share);
	if (!sq->dev->has_wake)
		w->nr_stock--;
	else
		__atomic_store_n(&vfu_dev_wake(sq->dev)->worker[w->id].sleeping, 0,
				 __ATOMIC_RELAXED);
	tgt_sq_deleted(&sq->sq);
	list_add_tail(&w->dying, &sq->node);
	vfu_queue_drained(w);
}

static void vfu_queue_cq_gone(struct mbox_msg *m);

static void vfu_queue_cq_back(struct vfu_vec *v)
{
	struct vfu_cq *cq = container_of(v, struct vfu_cq, vec);

	cq->del.fn = vfu_queue_cq_gone;
	vfu_queue_send(cq->w, vfu_home(cq->w->vfu), &cq->del);
}

static void vfu_queue_cq_del_at(struct mbox_msg *m)
{
	struct vfu_cq *cq = container_of(m, struct vfu_cq, del);

	/* What the client left no way to post is dropped: it deletes the ring. */
	list_del(&cq->dirty);
	vfu_irq_stop(&cq->vec, vfu_queue_cq_back);
}

/* ---- on the home: going ---- */

static void vfu_queue_sq_gone(struct mbox_msg *m)
{
	struct vfu_sq *sq = container_of(m, struct vfu_sq, del);
	struct vfu_dev *d = sq->dev;
	struct tgt_req *req = sq->req;

	sq->cq->nr_sqs--;
	if (sq->sq.qid)
		vfu_share_queues(d, -1);
	vfu_list_sq_gone(sq);
	d->sq[sq->sq.qid] = NULL;
	d->nr_queues--;
	free(sq);
	if (req)
		tgt_req_complete(req, NVME_ST_OK);
	vfu_queue_settle(d);
}

static void vfu_queue_cq_free(struct vfu_cq *cq)
{
	free(cq->stage);
	free(cq);
}

static void vfu_queue_cq_gone(struct mbox_msg *m)
{
	struct vfu_cq *cq = container_of(m, struct vfu_cq, del);
	struct vfu_dev *d = cq->dev;
	struct tgt_req *req = cq->req;

	d->cq[cq->qid] = NULL;
	d->nr_queues--;
	vfu_queue_cq_free(cq);
	if (req)
		tgt_req_complete(req, NVME_ST_OK);
	vfu_queue_settle(d);
}

static void vfu_queue_sq_del(struct vfu_sq *sq, struct tgt_req *req)
{
	must(!sq->is_dying);
	sq->is_dying = true;
	sq->req = req;
	sq->del.fn = vfu_queue_sq_del_at;
	vfu_queue_send(vfu_home(sq->w->vfu), sq->w, &sq->del);
}

static void vfu_queue_cq_del(struct vfu_cq *cq, struct tgt_req *req)
{
	must(!cq->is_dying && cq->nr_sqs == 0);
	cq->is_dying = true;
	cq->req = req;
	cq->del.fn = vfu_queue_cq_del_at;
	vfu_queue_send(vfu_home(cq->w->vfu), cq->w, &cq->del);
}

static void vfu_queue_bell_reset(struct vfu_dev *d, uint16_t qid, bool is_cq)
{
	atomic_store_explicit(vfu_dev_bell(d, qid, is_cq), 0, memory_order_release);
}

/* One step of a disable, each time that a queue has gone. */
static void vfu_queue_settle(struct vfu_dev *d)
{
	if (!d->is_disabling)
		return;
	if (d->nr_queues == 0) {
		d->is_disabling = false;
		for (uint16_t qid = 0; qid < VFU_QUEUES; qid++) {
			vfu_queue_bell_reset(d, qid, false);
			vfu_queue_bell_reset(d, qid, true);
		}
		tgt_ctrl_disabled(d->ctrl);
		return;
	}
	for (unsigned i = 0; i < VFU_QUEUES; i++) {
		struct vfu_cq *cq = d->cq[i];

		if (cq && cq->nr_sqs == 0 && !cq->is_dying)
			vfu_queue_cq_del(cq, NULL);
	}
}

static void vfu_queue_disable(struct tgt_ctrl *c)
{
	struct vfu_dev *d = tgt_ctrl_priv(c);

	must(!d->is_disabling);
	d->is_disabling = true;
	for (unsigned i = 0; i < VFU_QUEUES; i++) {
		if (d->sq[i] && !d->sq[i]->is_dying)
			vfu_queue_sq_del(d->sq[i], NULL);
	}
	vfu_queue_settle(d);
}

static void vfu_queue_sq_delete(struct tgt_ctrl *c, uint16_t qid, struct tgt_req *req)
{
	struct vfu_dev *d = tgt_ctrl_priv(c);
	struct vfu_sq *sq = qid && qid < VFU_QUEUES ? d->sq[qid] : NULL;

	if (!sq || sq->is_dying)
		tgt_req_complete(req, NVME_ST_QID_INVALID | NVME_ST_DNR);
	else
		vfu_queue_sq_del(sq, req);
}

static void vfu_queue_cq_delete(struct tgt_ctrl *c, uint16_t qid, struct tgt_req *req)
{
	struct vfu_dev *d = tgt_ctrl_priv(c);
	struct vfu_cq *cq = qid && qid < VFU_QUEUES ? d->cq[qid] : NULL;

	if (!cq || cq->is_dying)
		tgt_req_complete(req, NVME_ST_QID_INVALID | NVME_ST_DNR);
	else if (cq->nr_sqs)
		tgt_req_complete(req, NVME_ST_INVALID_QUEUE_DELETION | NVME_ST_DNR);
	else
		vfu_queue_cq_del(cq, req);
}

/* ---- on the home: coming ---- */

static int vfu_queue_cq_new(struct vfu_dev *d, const struct tgt_queue_params *p,
			    struct vfu_worker *w)
{
	struct vfu_cq *cq;

	must(p->qid < VFU_QUEUES && p->size >= 2 && p->size <= TGT_MQES + 1 && !d->cq[p->qid]);
	if (!vfu_dma_covers(d, p->addr, p->size * sizeof(struct nvme_cqe), MEM_WRITABLE))
		return -EFAULT;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	cq->stage = calloc(p->size, sizeof(*cq->stage));
	if (!cq->stage) {
		free(cq);
		return -ENOMEM;
	}
	cq->dev = d;
	cq->w = w;
	cq->bell = vfu_dev_bell(d, p->qid, true);
	cq->addr = p->addr;
	cq->size = p->size;
	cq->phase = 1;
	cq->qid = p->qid;
	cq->vec = (struct vfu_vec){.dev = d, .w = w, .vector = p->vector};
	cq->after = p->has_irq ? VFU_AFTER_IRQ : 0;
	list_init(&cq->dirty);
	vfu_queue_bell_reset(d, p->qid, true);
	d->cq[p->qid] = cq;
	d->nr_queues++;
	return 0;
}

static int vfu_queue_sq_new(struct vfu_dev *d, const struct tgt_queue_params *p, struct vfu_cq *cq)
{
	struct vfu_sq *sq;

	must(p->qid < VFU_QUEUES && p->size >= 2 && p->size <= TGT_MQES + 1 && !d->sq[p->qid]);
	if (!vfu_dma_covers(d, p->addr, p->size * sizeof(struct nvme_sqe), MEM_READABLE))
		return -EFAULT;
	sq = calloc(1, sizeof(*sq));
	if (!sq)
		return -ENOMEM;
	tgt_sq_init(&sq->sq, &vfu_qp_ops, d->ctrl, cq->w->tw, p->qid);
	sq->dev = d;
	sq->w = cq->w;
	sq->cq = cq;
	sq->share = &d->view[cq->w->id].share;
	sq->sq.flow = &sq->share->flow;
	sq->bell = vfu_dev_bell(d, p->qid, false);
	sq->addr = p->addr;
	sq->size = p->size;
	list_init(&sq->node);
	cq->nr_sqs++;
	vfu_queue_bell_reset(d, p->qid, false);
	vfu_dev_wake(d)->queue_worker[p->qid] = (uint8_t)cq->w->id;
	d->sq[p->qid] = sq;
	d->nr_queues++;
	if (p->qid)
		vfu_share_queues(d, 1);
	sq->add.fn = vfu_queue_sq_add_at;
	vfu_queue_send(vfu_home(d->vfu), sq->w, &sq->add);
	return 0;
}

static uint16_t vfu_queue_status(int err)
{
	if (err == 0)
		return NVME_ST_OK;
	return err == -EFAULT ? NVME_ST_INVALID_FIELD | NVME_ST_DNR : NVME_ST_INTERNAL;
}

static void vfu_queue_enable(struct tgt_ctrl *c, const struct tgt_queue_params *asq,
			     const struct tgt_queue_params *acq)
{
	struct vfu_dev *d = tgt_ctrl_priv(c);
	int err;

	must(d->nr_queues == 0);
	err = vfu_queue_cq_new(d, acq, vfu_home(d->vfu));
	if (!err) {
		err = vfu_queue_sq_new(d, asq, d->cq[0]);
		if (err) {
			vfu_queue_cq_free(d->cq[0]);
			d->cq[0] = NULL;
			d->nr_queues--;
		}
	}
	if (err)
		log_some_warn("vfu: %s: admin queues: %s", d->host, strerrorname_np(-err));
	tgt_ctrl_enabled(c, err == 0);
}

static void vfu_queue_cq_create(struct tgt_ctrl *c, const struct tgt_queue_params *p,
				struct tgt_req *req)
{
	struct vfu_dev *d = tgt_ctrl_priv(c);
	struct vfu *v = d->vfu;

	if (p->has_irq && p->vector >= VFU_VECTORS) {
		tgt_req_complete(req, NVME_ST_INVALID_VECTOR | NVME_ST_DNR);
		return;
	}
	tgt_req_complete(req,
			 vfu_queue_status(vfu_queue_cq_new(
				 d, p, &v->workers[v->next_worker++ % tgt_node_nr_io(v->node)])));
}

static void vfu_queue_sq_create(struct tgt_ctrl *c, const struct tgt_queue_params *p,
				struct tgt_req *req)
{
	struct vfu_dev *d = tgt_ctrl_priv(c);
	struct vfu_cq *cq = p->cqid < VFU_QUEUES ? d->cq[p->cqid] : NULL;

	if (!cq || cq->is_dying) {
		tgt_req_complete(req, NVME_ST_CQ_INVALID | NVME_ST_DNR);
		return;
	}
	tgt_req_complete(req, vfu_queue_status(vfu_queue_sq_new(d, p, cq)));
}

/* ---- Abort ---- */

struct vfu_queue_abort {
	struct mbox_msg msg;
	struct vfu_sq *sq;
	struct tgt_req *req;
	uint16_t cid;
};

static void vfu_queue_abort_home(struct mbox_msg *m)
{
	struct vfu_queue_abort *a = container_of(m, struct vfu_queue_abort, msg);
	struct tgt_req *req = a->req;

	free(a);
	tgt_req_complete(req, NVME_ST_OK);
}

static void vfu_queue_abort_at(struct mbox_msg *m)
{
	struct vfu_queue_abort *a = container_of(m, struct vfu_queue_abort, msg);
	struct vfu_worker *w = a->sq->w;

	tgt_sq_abort(&a->sq->sq, a->cid);
	m->fn = vfu_queue_abort_home;
	vfu_queue_send(w, vfu_home(w->vfu), m);
}

static void vfu_queue_abort(struct tgt_ctrl *c, uint16_t sqid, uint16_t cid, struct tgt_req *req)
{
	struct vfu_dev *d = tgt_ctrl_priv(c);
	struct vfu_sq *sq = sqid < VFU_QUEUES ? d->sq[sqid] : NULL;
	struct vfu_queue_abort *a;

	/* A delete that is under way has aborted everything, and its answer frees the queue. */
	a = sq && !sq->is_dying ? malloc(sizeof(*a)) : NULL;
	if (!a) {
		tgt_req_complete(req, NVME_ST_OK);
		return;
	}
	*a = (struct vfu_queue_abort){
		.msg.fn = vfu_queue_abort_at, .sq = sq, .req = req, .cid = cid};
	vfu_queue_send(vfu_home(d->vfu), sq->w, &a->msg);
}

static void vfu_queue_keep_alive_lost(struct tgt_ctrl *c, const char *why)
{
	struct vfu_dev *d = tgt_ctrl_priv(c);

	log_some_warn("vfu: %s: %s, closed", d->host, why);
	vfu_sock_shut(d);
}

static int vfu_queue_record(struct tgt_ctrl *c, bool is_on)
{
	return is_on ? vfu_dev_record(tgt_ctrl_priv(c)) : vfu_dev_record_stop(tgt_ctrl_priv(c));
}

static void vfu_queue_record_end(struct tgt_ctrl *c)
{
	vfu_dev_record_end(tgt_ctrl_priv(c));
}

const struct tgt_ctrl_ops vfu_queue_ops = {
	.enable = vfu_queue_enable,
	.disable = vfu_queue_disable,
	.cq_create = vfu_queue_cq_create,
	.sq_create = vfu_queue_sq_create,
	.sq_delete = vfu_queue_sq_delete,
	.cq_delete = vfu_queue_cq_delete,
	.abort = vfu_queue_abort,
	.record = vfu_queue_record,
	.record_end = vfu_queue_record_end,
	.fatal = vfu_queue_keep_alive_lost,
};
