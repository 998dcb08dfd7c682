/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a controller does for a Fabrics transport (Base 2.0, 6): Property Get and Set, which are its
 * registers, and the book of I/O queues, which come by Connect and not by Create. Connect itself is
 * the transport's: it decides which connection is a queue of which controller. Home worker.
 */
/* tidy: no-test: test/peer/tcp.py */
#include "target/tgt_int.h"
#include "base/must.h"
#include "nvme/nvme_tcp.h"

enum {
	PROP_CAP = 0x00,
	PROP_VS = 0x08,
	PROP_CC = 0x14,
	PROP_CSTS = 0x1c,
	PROP_NSSR = 0x20,
	PROP_CRTO = 0x68,
};

/* Base 2.0, figure 35: the properties there are on Fabrics; how long, 0 = there is none. */
static uint32_t prop_bytes(uint32_t off)
{
	switch (off) {
	case PROP_CAP:
		return 8;
	case PROP_VS:
	case PROP_CC:
	case PROP_CSTS:
	case PROP_NSSR:
	case PROP_CRTO:
		return 4;
	default:
		return 0;
	}
}

/* CDW10 2:0 is the size, 0 for 4 bytes and 1 for 8; CDW11 the offset. */
static bool prop_check(const struct nvme_sqe *sqe)
{
	uint32_t size = sqe->cdw10 & 7;

	return size <= 1 && prop_bytes(sqe->cdw11) == (size ? 8u : 4u);
}

static void fabrics_get(struct tgt_ctrl *c, struct tgt_req *req)
{
	uint64_t val = 0;

	if (!prop_check(&req->sqe)) {
		tgt_req_fail(req, NVME_ST_INVALID_FIELD);
		return;
	}
	must(!tgt_ctrl_reg_read(c, req->sqe.cdw11, prop_bytes(req->sqe.cdw11), &val));
	req->dw0 = (uint32_t)val;
	req->dw1 = (uint32_t)(val >> 32);
	tgt_req_complete(req, NVME_ST_OK);
}

static void fabrics_set(struct tgt_ctrl *c, struct tgt_req *req)
{
	const struct nvme_sqe *sqe = &req->sqe;

	if (!prop_check(sqe) || (sqe->cdw11 != PROP_CC && sqe->cdw11 != PROP_NSSR)) {
		tgt_req_fail(req, NVME_ST_INVALID_FIELD);
		return;
	}
	/* NSSR: CAP.NSSRS is 0, so a write does nothing. */
	must(!tgt_ctrl_reg_write(c, sqe->cdw11, 4, sqe->cdw12));
	tgt_req_complete(req, NVME_ST_OK);
}

void tgt_fabrics_execute(struct tgt_req *req)
{
	struct tgt_ctrl *c = req->sq->ctrl;

	tgt_admin_of(req)->is_quiet = true;
	switch (nvmf_type(&req->sqe)) {
	case NVMF_PROPERTY_GET:
		fabrics_get(c, req);
		return;
	case NVMF_PROPERTY_SET:
		fabrics_set(c, req);
		return;
	case NVMF_CONNECT: /* it is connected */
		tgt_req_fail(req, NVME_ST_SEQUENCE);
		return;
	default:
		tgt_req_fail(req, NVME_ST_INVALID_OPCODE);
	}
}

void tgt_fabrics_admin(struct tgt_ctrl *c, const uint8_t hostid[16], uint32_t kato_ms)
{
	must(c->is_fabrics);
	memcpy(c->fabrics_host_id, hostid, sizeof(c->fabrics_host_id));
	c->fabrics_kato_ms = kato_ms;
	tgt_feature_reset(c);
	/* From Connect on, not from CC.EN: a host that dies in between is noticed, too. */
	tgt_ctrl_keep_alive(c);
}

bool tgt_fabrics_is_host(const struct tgt_ctrl *c, const uint8_t hostid[16])
{
	return memcmp(c->fabrics_host_id, hostid, sizeof(c->fabrics_host_id)) == 0;
}

uint16_t tgt_fabrics_queue_add(struct tgt_ctrl *c, uint16_t qid, uint32_t size)
{
	if (c->is_discovery || qid == 0 || qid > c->feat.nr_queues)
		return NVMF_ST_PARAM;
	if (size < 2 || size > c->mqes + 1u)
		return NVMF_ST_PARAM;
	if (c->state != TGT_CTRL_UP || (c->cc >> 16 & 0xf) != 6 || (c->cc >> 20 & 0xf) != 4)
		return NVME_ST_SEQUENCE;
	/* Still closing, or a host that connects a queue twice. */
	if (c->queues[qid].sq != TGT_QUEUE_NONE)
		return NVMF_ST_BUSY;
	c->queues[qid] =
		(struct tgt_queue){.sq = TGT_QUEUE_LIVE, .cq = TGT_QUEUE_LIVE, .cqid = qid};
	counter_add(&c->nr_sqs, 1);
	return NVME_ST_OK;
}

/* A controller that goes down has closed its book already. */
void tgt_fabrics_queue_del(struct tgt_ctrl *c, uint16_t qid)
{
	must(qid > 0 && qid <= TGT_QUEUES_MAX);
	if (c->queues[qid].sq == TGT_QUEUE_NONE)
		return;
	c->queues[qid] = (struct tgt_queue){.sq = TGT_QUEUE_NONE};
	counter_add(&c->nr_sqs, -(uint64_t)1);
}
