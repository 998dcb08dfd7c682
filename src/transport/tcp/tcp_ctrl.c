/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Controllers behind connections: what target/ wants of a transport. An association lives as long
 * as its admin connection; when that goes, or the home wants it gone, its I/O queues are closed,
 * the controller is reset, and the rest goes by itself. Disabled (CC.EN 0, shutdown) it keeps its
 * admin queue, since on Fabrics that is how its registers are asked for. Home.
 */
/* tidy: no-test: test/peer/tcp.py */
#include "transport/tcp/tcp_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/le.h"
#include "base/log.h"
#include <nvme/types.h>

static unsigned ctrl_nr_io(const struct tcp_ctrl *tc)
{
	return tc->nr_q - (tc->q[0] != NULL);
}

static void ctrl_close_io(struct tcp_ctrl *tc)
{
	for (unsigned qid = 1; qid < TCP_QUEUES; qid++)
		if (tc->q[qid])
			tcp_conn_tell_close(tc->q[qid]);
}

/* ---- what target/ asks for ---- */

static void ctrl_enable(struct tgt_ctrl *c, const struct tgt_queue_params *asq,
			const struct tgt_queue_params *acq)
{
	tgt_ctrl_enabled(c, true);
}

static void ctrl_disable(struct tgt_ctrl *c)
{
	struct tcp_ctrl *tc = tgt_ctrl_priv(c);

	must(!tc->is_disabling);
	if (ctrl_nr_io(tc) == 0) {
		tgt_ctrl_disabled(c);
		return;
	}
	tc->is_disabling = true;
	ctrl_close_io(tc);
}

struct ctrl_abort {
	struct mbox_msg msg;
	struct tcp_worker *w;
	struct tcp_conn *conn;
	struct tgt_req *req;
	uint16_t cid;
};

static void ctrl_abort_home(struct mbox_msg *m)
{
	struct ctrl_abort *a = container_of(m, struct ctrl_abort, msg);
	struct tgt_req *req = a->req;

	tcp_conn_mail_back(a->conn);
	free(a);
	tgt_req_complete(req, NVME_ST_OK);
}

static void ctrl_abort_at(struct mbox_msg *m)
{
	struct ctrl_abort *a = container_of(m, struct ctrl_abort, msg);
	struct tcp_tr *t = a->w->tcp;

	tgt_sq_abort(&a->conn->sq, a->cid);
	m->fn = ctrl_abort_home;
	reactor_send(a->w->tw->reactor, tcp_home_reactor(t), m);
}

static void ctrl_abort(struct tgt_ctrl *c, uint16_t sqid, uint16_t cid, struct tgt_req *req)
{
	struct tcp_ctrl *tc = tgt_ctrl_priv(c);
	struct tcp_conn *q = sqid < TCP_QUEUES ? tc->q[sqid] : NULL;
	struct ctrl_abort *a = q ? malloc(sizeof(*a)) : NULL;

	if (!a) {
		tgt_req_complete(req, NVME_ST_OK);
		return;
	}
	*a = (struct ctrl_abort){
		.msg.fn = ctrl_abort_at, .w = q->w, .conn = q, .req = req, .cid = cid};
	q->nr_mail++;
	reactor_send(tcp_home_reactor(tc->tcp), a->w->tw->reactor, &a->msg);
}

static void ctrl_fatal(struct tgt_ctrl *c, const char *why)
{
	struct tcp_ctrl *tc = tgt_ctrl_priv(c);

	if (tc->q[0])
		tcp_conn_close(tc->q[0], why);
}

/* ---- Discovery ---- */

static void ctrl_entry(const struct tcp_ctrl *tc, struct nvmf_disc_log_entry *e)
{
	const struct tcp_tr *t = tc->tcp;

	e->trtype = 3; /* TCP */
	e->adrfam = strchr(tc->local, ':') ? 2 : 1;
	e->subtype = 2; /* an NVM subsystem */
	e->treq = 2;	/* no secure channel */
	e->portid = htole16(1);
	e->cntlid = htole16(NVMF_CNTLID_DYNAMIC);
	e->asqsz = htole16(128);
	snprintf(e->trsvcid, sizeof(e->trsvcid), "%u", t->port);
	snprintf(e->traddr, sizeof(e->traddr), "%s", tc->local);
	snprintf(e->subnqn, sizeof(e->subnqn), "%s", tgt_subsys_nqn(t->ss));
}

/* Log 70h: a header, and an entry if there is something for this host, 1024 bytes each. */
static void ctrl_discovery(struct tgt_ctrl *c, uint64_t off, uint32_t len, void *buf)
{
	const struct tcp_ctrl *tc = tgt_ctrl_priv(c);
	struct {
		struct nvmf_discovery_log log;
		struct nvmf_disc_log_entry entry;
	} page = {0};

	static_assert(sizeof(page) == 2048, "log 70h");
	page.log.genctr = htole64(1);
	if (tcp_party_is_allowed(tc->tcp, tc->hostnqn)) {
		page.log.numrec = htole64(1);
		ctrl_entry(tc, &page.entry);
	}
	if (off < sizeof(page))
		memcpy(buf, (const uint8_t *)&page + off, min_t(uint64_t, len, sizeof(page) - off));
}

static const struct tgt_ctrl_ops ctrl_ops = {
	.enable = ctrl_enable,
	.disable = ctrl_disable,
	.abort = ctrl_abort,
	.fatal = ctrl_fatal,
	.discovery = ctrl_discovery,
};

/* ---- life ---- */

int tcp_ctrl_create(struct tcp_tr *t, bool is_discovery, const struct nvmf_connect *data,
		    struct tcp_ctrl **out)
{
	struct tcp_ctrl *tc = calloc(1, sizeof(*tc));
	struct tgt_ctrl_opts o = {
		.ops = &ctrl_ops,
		.home = tcp_home(t)->tw,
		.max_queues = TGT_QUEUES_MAX,
		.mqes = (uint16_t)(t->workers[0].conn_reqs - 1),
		.is_fabrics = true,
		.is_discovery = is_discovery,
		.host = data->hostnqn,
	};
	int err;

	if (!tc)
		return -ENOMEM;
	err = t->nr_ctrls < TCP_CTRLS ? 0 : -ENOSPC;
	if (!err)
		err = tgt_ctrl_create(t->ss, &o, &tc->ctrl);
	if (err) {
		free(tc);
		return err;
	}
	tc->tcp = t;
	tc->is_discovery = is_discovery;
	memcpy(tc->hostnqn, data->hostnqn, sizeof(tc->hostnqn));
	tgt_ctrl_set_priv(tc->ctrl, tc);
	list_add_tail(&t->ctrls, &tc->node);
	t->nr_ctrls++;
	*out = tc;
	return 0;
}

struct tcp_ctrl *tcp_ctrl_find(struct tcp_tr *t, uint16_t cntlid)
{
	struct tcp_ctrl *tc;

	list_for_each_entry(tc, &t->ctrls, node)
		if (tgt_ctrl_id(tc->ctrl) == cntlid)
			return tc;
	return NULL;
}

static void ctrl_free(struct tcp_ctrl *tc)
{
	struct tcp_tr *t = tc->tcp;

	if (!tc->is_reset || tc->nr_q)
		return;
	list_del(&tc->node);
	t->nr_ctrls--;
	tgt_ctrl_destroy(tc->ctrl);
	free(tc);
	tcp_gone(t);
}

static void ctrl_reset_done(void *arg)
{
	struct tcp_ctrl *tc = arg;

	tc->is_reset = true;
	ctrl_free(tc);
}

void tcp_ctrl_drop(struct tcp_ctrl *tc)
{
	if (tc->is_dropped)
		return;
	tc->is_dropped = true;
	if (tc->q[0])
		tcp_conn_tell_close(tc->q[0]);
	ctrl_close_io(tc);
	tgt_ctrl_reset(tc->ctrl, ctrl_reset_done, tc);
}

void tcp_ctrl_gone(struct tcp_ctrl *tc, struct tcp_conn *c)
{
	uint16_t qid = c->sq.qid;

	must(tc->q[qid] == c && tc->nr_q > 0);
	tc->q[qid] = NULL;
	tc->nr_q--;
	if (qid)
		tgt_fabrics_queue_del(tc->ctrl, qid);
	if (tc->is_disabling && ctrl_nr_io(tc) == 0) {
		tc->is_disabling = false;
		tgt_ctrl_disabled(tc->ctrl); /* of a dropped one that may have been the last */
		return;
	}
	if (tc->is_dropped)
		ctrl_free(tc);
}
