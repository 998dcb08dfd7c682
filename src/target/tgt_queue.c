/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Create and Delete I/O queues (Base 2.0, 5.4 to 5.7): every field is checked here, and the book
 * of which queues exist is kept here, those included that the transport is still making or
 * dropping. Home worker.
 */
#include "target/tgt_int.h"
#include "base/must.h"

static struct tgt_queue *queue_of(struct tgt_req *req)
{
	return &req->sq->ctrl->queues[(uint16_t)req->sqe.cdw10];
}

static bool is_ok(const struct tgt_req *req)
{
	return req->status == NVME_ST_OK;
}

static void create_cq_end(struct tgt_req *req)
{
	queue_of(req)->cq = is_ok(req) ? TGT_QUEUE_LIVE : TGT_QUEUE_NONE;
}

static void create_sq_end(struct tgt_req *req)
{
	queue_of(req)->sq = is_ok(req) ? TGT_QUEUE_LIVE : TGT_QUEUE_NONE;
	counter_add(&req->sq->ctrl->nr_sqs, is_ok(req));
}

static void delete_cq_end(struct tgt_req *req)
{
	queue_of(req)->cq = is_ok(req) ? TGT_QUEUE_NONE : TGT_QUEUE_LIVE;
}

static void delete_sq_end(struct tgt_req *req)
{
	queue_of(req)->sq = is_ok(req) ? TGT_QUEUE_NONE : TGT_QUEUE_LIVE;
	counter_add(&req->sq->ctrl->nr_sqs, -(uint64_t)is_ok(req));
}

/* What Create CQ and Create SQ have in common. */
static uint16_t queue_check(const struct tgt_ctrl *c, const struct nvme_sqe *sqe)
{
	uint16_t qid = (uint16_t)sqe->cdw10, qsize = (uint16_t)(sqe->cdw10 >> 16);

	if (qid == 0 || qid > c->feat.nr_queues)
		return NVME_ST_QID_INVALID;
	if (qsize == 0 || qsize > c->mqes)
		return NVME_ST_QSIZE_INVALID;
	if (!(sqe->cdw11 & 1)) /* PC: CAP.CQR wants contiguous queues */
		return NVME_ST_INVALID_FIELD;
	if (sqe->prp1 % TGT_PAGE)
		return NVME_ST_PRP_OFFSET;
	return NVME_ST_OK;
}

static struct tgt_queue_params queue_params(const struct nvme_sqe *sqe)
{
	return (struct tgt_queue_params){
		.qid = (uint16_t)sqe->cdw10,
		.size = (sqe->cdw10 >> 16) + 1,
		.addr = sqe->prp1,
	};
}

static uint16_t create_cq_check(const struct tgt_ctrl *c, const struct nvme_sqe *sqe)
{
	uint16_t st = queue_check(c, sqe), vector = (uint16_t)(sqe->cdw11 >> 16);

	if (st != NVME_ST_OK)
		return st;
	if (c->queues[(uint16_t)sqe->cdw10].cq != TGT_QUEUE_NONE)
		return NVME_ST_QID_INVALID;
	if ((c->cc >> 20 & 0xf) != 4) /* IOCQES was never set */
		return NVME_ST_INVALID_FIELD;
	/* One vector for each queue pair and one for the admin queue. */
	if ((sqe->cdw11 & 2) && vector > c->max_queues)
		return NVME_ST_INVALID_VECTOR;
	return NVME_ST_OK;
}

void tgt_queue_create_cq(struct tgt_ctrl *c, struct tgt_req *req)
{
	struct tgt_queue_params p = queue_params(&req->sqe);
	uint16_t st = c->ops->cq_create ? create_cq_check(c, &req->sqe) : NVME_ST_INVALID_OPCODE;

	if (st != NVME_ST_OK) {
		tgt_req_fail(req, st);
		return;
	}
	p.has_irq = req->sqe.cdw11 & 2;
	p.vector = p.has_irq ? (uint16_t)(req->sqe.cdw11 >> 16) : 0;
	queue_of(req)->cq = TGT_QUEUE_COMING;
	tgt_admin_of(req)->done = create_cq_end;
	c->ops->cq_create(c, &p, req);
}

static uint16_t create_sq_check(const struct tgt_ctrl *c, const struct nvme_sqe *sqe)
{
	uint16_t st = queue_check(c, sqe), cqid = (uint16_t)(sqe->cdw11 >> 16);

	if (st != NVME_ST_OK)
		return st;
	if (c->queues[(uint16_t)sqe->cdw10].sq != TGT_QUEUE_NONE)
		return NVME_ST_QID_INVALID;
	if (cqid == 0 || cqid > c->feat.nr_queues || c->queues[cqid].cq != TGT_QUEUE_LIVE)
		return NVME_ST_CQ_INVALID;
	if ((c->cc >> 16 & 0xf) != 6)
		return NVME_ST_INVALID_FIELD;
	return NVME_ST_OK;
}

void tgt_queue_create_sq(struct tgt_ctrl *c, struct tgt_req *req)
{
	struct tgt_queue_params p = queue_params(&req->sqe);
	uint16_t st = c->ops->sq_create ? create_sq_check(c, &req->sqe) : NVME_ST_INVALID_OPCODE;

	if (st != NVME_ST_OK) {
		tgt_req_fail(req, st);
		return;
	}
	p.cqid = (uint16_t)(req->sqe.cdw11 >> 16);
	queue_of(req)->sq = TGT_QUEUE_COMING;
	queue_of(req)->cqid = p.cqid;
	tgt_admin_of(req)->done = create_sq_end;
	c->ops->sq_create(c, &p, req);
}

void tgt_queue_delete_sq(struct tgt_ctrl *c, struct tgt_req *req)
{
	uint16_t qid = (uint16_t)req->sqe.cdw10;

	if (!c->ops->sq_delete) {
		tgt_req_fail(req, NVME_ST_INVALID_OPCODE);
		return;
	}
	if (qid == 0 || qid > TGT_QUEUES_MAX || c->queues[qid].sq != TGT_QUEUE_LIVE) {
		tgt_req_fail(req, NVME_ST_QID_INVALID);
		return;
	}
	c->queues[qid].sq = TGT_QUEUE_GOING;
	tgt_admin_of(req)->done = delete_sq_end;
	c->ops->sq_delete(c, qid, req);
}

static bool cq_is_used(const struct tgt_ctrl *c, uint16_t cqid)
{
	for (unsigned qid = 1; qid <= TGT_QUEUES_MAX; qid++)
		if (c->queues[qid].sq != TGT_QUEUE_NONE && c->queues[qid].cqid == cqid)
			return true;
	return false;
}

void tgt_queue_delete_cq(struct tgt_ctrl *c, struct tgt_req *req)
{
	uint16_t qid = (uint16_t)req->sqe.cdw10;

	if (!c->ops->cq_delete) {
		tgt_req_fail(req, NVME_ST_INVALID_OPCODE);
		return;
	}
	if (qid == 0 || qid > TGT_QUEUES_MAX || c->queues[qid].cq != TGT_QUEUE_LIVE) {
		tgt_req_fail(req, NVME_ST_QID_INVALID);
		return;
	}
	if (cq_is_used(c, qid)) {
		tgt_req_fail(req, NVME_ST_INVALID_QUEUE_DELETION);
		return;
	}
	c->queues[qid].cq = TGT_QUEUE_GOING;
	tgt_admin_of(req)->done = delete_cq_end;
	c->ops->cq_delete(c, qid, req);
}

bool tgt_queue_exists(const struct tgt_ctrl *c)
{
	for (unsigned qid = 1; qid <= TGT_QUEUES_MAX; qid++)
		if (c->queues[qid].sq != TGT_QUEUE_NONE || c->queues[qid].cq != TGT_QUEUE_NONE)
			return true;
	return false;
}
