/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The admin queue: a table from opcode to the function that serves it. Everything that isn't in
 * the table, and what only an operator may do, ends with Invalid Opcode. Runs on the controller's
 * home worker.
 *
 * Not served, and not announced: firmware, security, Format NVM, self-test, sanitize, directives,
 * virtualization.
 */
#include "target/tgt_int.h"
#include "base/must.h"
#include "nvme/nvme_tcp.h"
#include "peal/vendor.h"

struct admin_op {
	void (*execute)(struct tgt_ctrl *c, struct tgt_req *req);
	bool is_operator; /* Invalid Opcode for everyone else */
	uint32_t effects; /* log 05h */
};

/* Log 05h: CSUPP, and what else happens. Scope (bits 31:20): controller, or NVM subsystem. */
#define EFFECT_SUPPORTED (1u << 0)
#define EFFECT_NS_INVENTORY (1u << 3)
#define EFFECT_NS_CAPABILITY (1u << 2)
#define EFFECT_SCOPE_CTRL (1u << 21)
#define EFFECT_SCOPE_SUBSYS (1u << 25)
#define EFFECT_PLAIN (EFFECT_SUPPORTED | EFFECT_SCOPE_CTRL)
#define EFFECT_NS (EFFECT_SUPPORTED | EFFECT_NS_INVENTORY | EFFECT_SCOPE_SUBSYS)

static void admin_abort_end(struct tgt_req *req)
{
	must(req->sq->ctrl->nr_aborts > 0);
	req->sq->ctrl->nr_aborts--;
}

/* Base 2.0, 5.1. DW0 bit 0 set: the command was not aborted (yet). */
static void admin_abort(struct tgt_ctrl *c, struct tgt_req *req)
{
	uint16_t sqid = (uint16_t)req->sqe.cdw10, cid = (uint16_t)(req->sqe.cdw10 >> 16);

	req->dw0 = 1;
	if (c->nr_aborts == TGT_ABORTS_MAX) {
		tgt_req_fail(req, NVME_ST_ABORT_LIMIT);
		return;
	}
	if (sqid == 0) {
		req->dw0 = !tgt_aer_abort(c, cid);
		tgt_req_complete(req, NVME_ST_OK);
		return;
	}
	if (sqid > c->max_queues || c->queues[sqid].sq != TGT_QUEUE_LIVE || !c->ops->abort) {
		tgt_req_complete(req, NVME_ST_OK);
		return;
	}
	c->nr_aborts++;
	tgt_admin_of(req)->done = admin_abort_end;
	c->ops->abort(c, sqid, cid, req);
}

static void admin_keep_alive(struct tgt_ctrl *c, struct tgt_req *req)
{
	tgt_ctrl_keep_alive(c);
	tgt_req_complete(req, NVME_ST_OK);
}

static const struct admin_op admin_ops[256] = {
	[nvme_admin_delete_sq] = {tgt_queue_delete_sq, .effects = EFFECT_PLAIN},
	[nvme_admin_create_sq] = {tgt_queue_create_sq, .effects = EFFECT_PLAIN},
	[nvme_admin_get_log_page] = {tgt_log_execute, .effects = EFFECT_PLAIN},
	[nvme_admin_delete_cq] = {tgt_queue_delete_cq, .effects = EFFECT_PLAIN},
	[nvme_admin_create_cq] = {tgt_queue_create_cq, .effects = EFFECT_PLAIN},
	[nvme_admin_identify] = {tgt_identify_execute, .effects = EFFECT_PLAIN},
	[nvme_admin_abort_cmd] = {admin_abort, .effects = EFFECT_PLAIN},
	[nvme_admin_set_features] = {tgt_feature_set, .effects = EFFECT_PLAIN},
	[nvme_admin_get_features] = {tgt_feature_get, .effects = EFFECT_PLAIN},
	[nvme_admin_async_event] = {tgt_aer_execute, .effects = EFFECT_PLAIN},
	[nvme_admin_keep_alive] = {admin_keep_alive, .effects = EFFECT_PLAIN},
	[nvme_admin_ns_mgmt] = {tgt_nsmgmt_manage, true, EFFECT_NS},
	[nvme_admin_ns_attach] = {tgt_nsmgmt_attach, true, EFFECT_NS},
	[PEAL_OPC_ADMIN_TRACE] = {tgt_trace_execute, true, EFFECT_PLAIN},
	[PEAL_OPC_ADMIN_NS_RESIZE] = {tgt_nsmgmt_resize, true, EFFECT_NS | EFFECT_NS_CAPABILITY},
};

static bool admin_is_served(const struct tgt_ctrl *c, uint8_t opc)
{
	return admin_ops[opc].execute && (c->is_operator || !admin_ops[opc].is_operator);
}

static void admin_execute(struct tgt_req *req)
{
	struct tgt_ctrl *c = req->sq->ctrl;
	uint8_t psdt = NVME_PSDT(req->sqe.flags);

	/*
	 * Fetched while the transport takes the queues down, which it does by messages: a queue
	 * made now would be none of those, a timer set now would outlive it.
	 */
	if (unlikely(c->state != TGT_CTRL_UP)) {
		/* On Fabrics the queue stays, and the host with it. */
		if (!c->is_fabrics)
			req->watch |= TGT_WATCH_SILENT;
		tgt_req_complete(req, c->is_fabrics ? NVME_ST_SEQUENCE | NVME_ST_DNR
						    : NVME_ST_ABORTED_SQ_DELETED);
		return;
	}
	if (!admin_is_served(c, req->sqe.opc)) {
		tgt_req_fail(req, NVME_ST_INVALID_OPCODE);
		return;
	}
	/* Base 2.0, figure 87: admin commands on memory transports use PRPs, on Fabrics SGLs. */
	if ((req->sqe.flags & 3) || (psdt && !c->is_fabrics)) {
		tgt_req_fail(req, NVME_ST_INVALID_FIELD);
		return;
	}
	admin_ops[req->sqe.opc].execute(c, req);
}

void tgt_admin_init(struct tgt_req *req)
{
	struct tgt_admin *a = tgt_admin_of(req);

	a->done = NULL;
	a->is_quiet = false;
	req->execute = req->sqe.opc == NVMF_OPC && req->sq->ctrl->is_fabrics ? tgt_fabrics_execute
									     : admin_execute;
}

void tgt_admin_done(struct tgt_req *req)
{
	struct tgt_admin *a = tgt_admin_of(req);

	if (a->done)
		a->done(req);
	if (req->status != NVME_ST_OK && !a->is_quiet && !req->is_aborted &&
	    !(req->watch & TGT_WATCH_SILENT))
		tgt_log_error(req->sq->ctrl, req);
}

void tgt_admin_effects(const struct tgt_ctrl *c, __le32 acs[256])
{
	for (unsigned opc = 0; opc < 256; opc++)
		acs[opc] = admin_is_served(c, (uint8_t)opc) ? admin_ops[opc].effects : 0;
}
