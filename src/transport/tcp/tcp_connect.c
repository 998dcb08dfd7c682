/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fabrics Connect (Base 2.0, 6.3): which controller a connection becomes a queue of, and which
 * worker serves it. An admin queue makes its controller; an I/O queue has to know the controller's
 * ID and be of the same host. Home.
 */
/* tidy: no-test: test/peer/tcp.py */
#include "transport/tcp/tcp_int.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/log.h"
#include "nvme/nvme_auth.h"

#define CONNECT_ADMIN_MIN 32u /* slots (Base 2.0, 6.3.2) */
#define CONNECT_NO_FLOW (1u << 2)

struct connect {
	struct tcp_conn *c;
	const struct nvme_sqe *sqe;
	const struct nvmf_connect *data;
	uint16_t qid;
	uint32_t size;
	uint32_t dw0;
};

/* Invalid Parameter: where it lies. */
static uint16_t connect_bad(struct connect *cn, uint32_t off, bool is_data)
{
	cn->dw0 = off | (is_data ? NVMF_PARAM_DATA : 0);
	return NVMF_ST_PARAM | NVME_ST_DNR;
}

/*
 * A command that isn't taken for want of a request keeps what follows it in the stream, and that
 * may be data that others wait for: so a queue is no longer than there are requests for it.
 */
static uint32_t connect_size_max(const struct connect *cn)
{
	const struct tcp_tr *t = cn->c->tcp;

	return (cn->qid ? &t->workers[0] : tcp_home(t))->conn_reqs;
}

static uint16_t connect_check(struct connect *cn)
{
	uint32_t off = tcp_pdu_check_connect(cn->data);

	if (cn->sqe->cdw10 & 0xffff)
		return NVMF_ST_FORMAT | NVME_ST_DNR;
	if (off)
		return connect_bad(cn, off, true);
	if (cn->qid > TGT_QUEUES_MAX)
		return connect_bad(cn, 42, false);
	if (cn->size < (cn->qid ? 2 : CONNECT_ADMIN_MIN) || cn->size > connect_size_max(cn))
		return connect_bad(cn, 44, false);
	return NVME_ST_OK;
}

static void connect_queue(struct connect *cn, struct tcp_ctrl *tc, struct tcp_worker *w)
{
	struct tcp_conn *c = cn->c;

	tgt_sq_init(&c->sq, &tcp_sq_ops, tc->ctrl, w->tw, cn->qid);
	c->sq.flow = &c->flow;
	c->sq.back_max = TCP_BACK_BYTES;
	c->ctrl = tc;
	c->size = cn->size;
	c->sqhd = 1 % cn->size; /* Connect was the first command */
	c->has_flow = !(cn->sqe->cdw11 >> 16 & CONNECT_NO_FLOW);
	c->connect_cid = cn->sqe->cid;
	tc->q[cn->qid] = c;
	tc->nr_q++;
}

static uint16_t connect_full(const struct connect *cn, int err)
{
	log_some_warn("tcp: %s: Connect: %s", cn->c->host,
		      err == -EUSERS ? "this host has all that it may have"
				     : strerrorname_np(-err));
	cn->c->tcp->refused.nr_told++;
	if (err == -EACCES)
		return NVMF_ST_HOST | NVME_ST_DNR;
	return err == -ENOSPC || err == -EUSERS ? NVMF_ST_BUSY : NVME_ST_INTERNAL;
}

static uint16_t connect_admin(struct connect *cn)
{
	struct tcp_tr *t = cn->c->tcp;
	bool is_discovery = strcmp(cn->data->subnqn, NVMF_DISCOVERY_NQN) == 0;
	struct tcp_conn *c = cn->c;
	struct tcp_ctrl *tc;
	int err;

	if (!is_discovery && strcmp(cn->data->subnqn, tgt_subsys_nqn(t->ss)) != 0)
		return connect_bad(cn, offsetof(struct nvmf_connect, subnqn), true);
	if (!is_discovery && !tcp_party_is_allowed(t, cn->data->hostnqn)) {
		t->refused.nr_told++;
		return NVMF_ST_HOST | NVME_ST_DNR;
	}
	if (cn->data->cntlid != NVMF_CNTLID_DYNAMIC)
		return connect_bad(cn, offsetof(struct nvmf_connect, cntlid), true);
	err = tcp_login_begin(c, is_discovery ? NULL : cn->data->hostnqn);
	if (!err)
		err = tcp_party_get(c, cn->data->hostnqn, true);
	if (err)
		return connect_full(cn, err);
	err = tcp_ctrl_create(t, is_discovery, cn->data, &tc);
	if (err) {
		tcp_party_put(c, true);
		return connect_full(cn, err);
	}
	tcp_conn_local(c, tc->local);
	connect_queue(cn, tc, tcp_home(t));
	tgt_fabrics_admin(tc->ctrl, cn->data->hostid, cn->sqe->cdw12);
	if (c->login) {
		c->state = TCP_CONN_AUTH;
		return NVME_ST_OK;
	}
	tcp_share_move(c, &c->party->of[c->w->id]);
	c->state = TCP_CONN_LIVE;
	timeout_cancel(&c->late);
	return NVME_ST_OK;
}

static uint16_t connect_io(struct connect *cn)
{
	struct tcp_tr *t = cn->c->tcp;
	struct tcp_ctrl *tc = tcp_ctrl_find(t, cn->data->cntlid);
	uint16_t st;
	int err;

	if (!tc || tc->is_dropped || tc->is_disabling || tc->is_discovery)
		return connect_bad(cn, offsetof(struct nvmf_connect, cntlid), true);
	if (strcmp(cn->data->subnqn, tgt_subsys_nqn(t->ss)) != 0)
		return connect_bad(cn, offsetof(struct nvmf_connect, subnqn), true);
	if (strcmp(cn->data->hostnqn, tc->hostnqn) != 0)
		return connect_bad(cn, offsetof(struct nvmf_connect, hostnqn), true);
	if (!tgt_fabrics_is_host(tc->ctrl, cn->data->hostid))
		return connect_bad(cn, offsetof(struct nvmf_connect, hostid), true);
	if (tc->q[cn->qid])
		return NVMF_ST_BUSY;
	err = tcp_login_begin(cn->c, cn->data->hostnqn);
	if (!err)
		err = tcp_party_get(cn->c, cn->data->hostnqn, false);
	if (err)
		return connect_full(cn, err);
	st = tgt_fabrics_queue_add(tc->ctrl, cn->qid, cn->size);
	if (st != NVME_ST_OK)
		tcp_party_put(cn->c, false);
	if (st == NVMF_ST_PARAM)
		return connect_bad(cn, 42, false);
	if (st != NVME_ST_OK)
		return st | NVME_ST_DNR;
	cn->c->to = &t->workers[t->next_worker++ % tgt_node_nr_io(t->node)];
	connect_queue(cn, tc, cn->c->to);
	cn->c->is_answered = cn->c->login;
	cn->c->state = cn->c->login ? TCP_CONN_AUTH : TCP_CONN_MOVING;
	return NVME_ST_OK;
}

void tcp_connect(struct tcp_conn *c, const struct nvme_sqe *sqe, const struct nvmf_connect *data)
{
	struct connect cn = {.c = c,
			     .sqe = sqe,
			     .data = data,
			     .qid = (uint16_t)(sqe->cdw10 >> 16),
			     .size = (sqe->cdw11 & 0xffff) + 1};
	uint16_t st = connect_check(&cn);
	struct nvme_cqe cqe;

	if (st == NVME_ST_OK)
		st = cn.qid ? connect_io(&cn) : connect_admin(&cn);
	if (c->state == TCP_CONN_MOVING)
		return; /* its worker says so */
	if (st != NVME_ST_OK)
		log_some_warn("tcp: %s: Connect of queue %u refused with status %xh, field %xh",
			      c->host, cn.qid, st & 0x7ff, cn.dw0);
	if (st == NVME_ST_OK)
		cn.dw0 = tgt_ctrl_id(c->sq.ctrl) | (c->login ? NVMF_CONNECT_ATR : 0);
	cqe = (struct nvme_cqe){.dw0 = cn.dw0,
				.sq_head = st || c->has_flow ? (uint16_t)c->sqhd : 0xffff,
				.cid = sqe->cid,
				.status = nvme_status_wire(st, 0)};
	tcp_send_resp(c, &cqe);
}
