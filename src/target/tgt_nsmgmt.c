/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespace Management and Attachment (Base 2.0, 5.20 and 5.21) and the vendor's resize, for
 * operators. The work is the node's home's; the request is its controller's home worker's. A
 * request goes there and comes back as a message in its own scratch.
 *
 *   home: check, fetch --msg--> node's home: create or delete or resize --msg--> home: complete
 *
 * Namespaces are shared and attached to every controller from the moment they exist, so attaching
 * one answers "already attached" and detaching isn't served.
 */
#include "target/tgt_int.h"
#include <errno.h>
#include "base/container.h"
#include "base/le.h"
#include "base/must.h"

enum { MGMT_CREATE, MGMT_DELETE, MGMT_RESIZE };

#define MGMT_DATA_BYTES 4096u

static struct tgt_subsys *subsys_of(const struct tgt_admin *a)
{
	return a->req->sq->ctrl->ss;
}

static struct reactor *node_home_of(const struct tgt_admin *a)
{
	return tgt_node_home(subsys_of(a)->node)->reactor;
}

/* ---- the node's home ---- */

static void mgmt_back(struct mbox_msg *m)
{
	struct tgt_admin *a = container_of(m, struct tgt_admin, msg);

	if (a->status != NVME_ST_OK) {
		tgt_req_fail(a->req, a->status);
		return;
	}
	if (a->verb == MGMT_CREATE)
		a->req->dw0 = a->nsid;
	tgt_req_complete(a->req, NVME_ST_OK);
}

static void mgmt_end(void *arg, uint16_t st)
{
	struct tgt_admin *a = arg;

	a->status = st;
	a->msg.fn = mgmt_back;
	reactor_send(node_home_of(a), a->req->sq->worker->reactor, &a->msg);
}

static void create_undone(void *arg, uint16_t st)
{
	struct tgt_admin *a = arg;

	mgmt_end(a, a->status);
}

static void create_end(void *arg, uint16_t st, struct tgt_ns *ns)
{
	struct tgt_admin *a = arg;
	int err;

	tgt_subsys_ns_unreserve(subsys_of(a), a->bytes);
	if (st != NVME_ST_OK) {
		mgmt_end(a, st);
		return;
	}
	err = tgt_subsys_ns_add(subsys_of(a), ns, 0);
	if (err) {
		a->status = NVME_ST_NS_ID_UNAVAILABLE;
		ns->ops->destroy(ns, node_home_of(a), create_undone, a);
		return;
	}
	a->nsid = ns->nsid;
	mgmt_end(a, NVME_ST_OK);
}

static void mgmt_create(struct tgt_admin *a)
{
	const struct tgt_csi_ops *csi = subsys_of(a)->csi[a->csi];

	if (!tgt_subsys_ns_reserve(subsys_of(a), a->bytes)) {
		mgmt_end(a, NVME_ST_NS_INSUFFICIENT_CAPACITY);
		return;
	}
	csi->create(csi->arg, node_home_of(a), a->bytes, create_end, a);
}

/* Nothing could make it again: it is of the configuration. */
static bool delete_is_denied(struct tgt_admin *a, const struct tgt_ns *ns)
{
	const struct tgt_csi_ops *csi = subsys_of(a)->csi[ns->ops->csi];

	return !csi || !csi->create;
}

static void delete_one(struct tgt_admin *a)
{
	const struct tgt_ns *ns = tgt_subsys_ns(subsys_of(a), a->nsid);

	if (ns && delete_is_denied(a, ns))
		mgmt_end(a, NVME_ST_OP_DENIED);
	else
		tgt_subsys_ns_del(subsys_of(a), a->nsid, mgmt_end, a);
}

/* NSID FFFFFFFFh: one after the other. */
static void delete_next(void *arg, uint16_t st)
{
	struct tgt_admin *a = arg;

	if (st != NVME_ST_OK) {
		mgmt_end(a, st);
		return;
	}
	for (uint32_t nsid = 1; nsid <= TGT_NS_MAX; nsid++) {
		const struct tgt_ns *ns = tgt_subsys_ns(subsys_of(a), nsid);

		if (ns && !delete_is_denied(a, ns)) {
			tgt_subsys_ns_del(subsys_of(a), nsid, delete_next, a);
			return;
		}
	}
	mgmt_end(a, NVME_ST_OK);
}

static void mgmt_there(struct mbox_msg *m)
{
	struct tgt_admin *a = container_of(m, struct tgt_admin, msg);

	switch (a->verb) {
	case MGMT_CREATE:
		mgmt_create(a);
		return;
	case MGMT_DELETE:
		if (a->nsid == TGT_NSID_ALL)
			delete_next(a, NVME_ST_OK);
		else
			delete_one(a);
		return;
	case MGMT_RESIZE:
		tgt_subsys_ns_resize(subsys_of(a), a->nsid, a->bytes, mgmt_end, a);
		return;
	default:
		must_not_reach();
	}
}

/* ---- home ---- */

static void mgmt_send(struct tgt_req *req, uint8_t verb)
{
	struct tgt_admin *a = tgt_admin_of(req);

	a->req = req;
	a->verb = verb;
	a->msg.fn = mgmt_there;
	reactor_send(req->sq->worker->reactor, node_home_of(a), &a->msg);
}

/* Host software specified fields: NSZE and NCAP, bytes for the KV command set, stand first. */
static uint16_t create_check(struct tgt_ctrl *c, struct tgt_req *req)
{
	struct tgt_admin *a = tgt_admin_of(req);
	uint8_t buf[MGMT_DATA_BYTES];
	uint16_t st;

	a->csi = (uint8_t)(req->sqe.cdw11 >> 24);
	if (a->csi >= TGT_CSI_NR || !c->ss->csi[a->csi] || !c->ss->csi[a->csi]->create)
		return NVME_ST_IOCS_NOT_SUPPORTED;
	st = tgt_req_fetch(req, buf, sizeof(buf));
	if (st != NVME_ST_OK)
		return st;
	a->bytes = le64_get(buf);
	return a->bytes ? NVME_ST_OK : NVME_ST_INVALID_FIELD;
}

void tgt_nsmgmt_manage(struct tgt_ctrl *c, struct tgt_req *req)
{
	struct tgt_admin *a = tgt_admin_of(req);
	uint32_t sel = req->sqe.cdw10 & 0xf;
	uint16_t st;

	switch (sel) {
	case NVME_NS_MGMT_SEL_CREATE:
		st = create_check(c, req);
		if (st == NVME_ST_OK)
			mgmt_send(req, MGMT_CREATE);
		else
			tgt_req_fail(req, st);
		return;
	case NVME_NS_MGMT_SEL_DELETE:
		a->nsid = req->sqe.nsid;
		mgmt_send(req, MGMT_DELETE);
		return;
	default:
		tgt_req_fail(req, NVME_ST_INVALID_FIELD);
	}
}

/* A controller list: count, then that many IDs, ascending, each of a controller that is there. */
static uint16_t attach_check(struct tgt_ctrl *c, const uint8_t *buf)
{
	uint16_t ids[TGT_CTRLS_MAX], id, nr = le16_get(buf), last = 0;
	unsigned nr_ids = tgt_subsys_ctrl_ids(c->ss, 0, ids, TGT_CTRLS_MAX), at = 0;

	if (nr == 0 || nr > 2047)
		return NVME_ST_CTRL_LIST_INVALID;
	for (unsigned i = 0; i < nr; i++) {
		id = le16_get(buf + 2 + 2 * i);
		if (i && id <= last)
			return NVME_ST_CTRL_LIST_INVALID;
		while (at < nr_ids && ids[at] < id)
			at++;
		if (at == nr_ids || ids[at] != id)
			return NVME_ST_CTRL_LIST_INVALID;
		last = id;
	}
	return NVME_ST_NS_ALREADY_ATTACHED;
}

void tgt_nsmgmt_attach(struct tgt_ctrl *c, struct tgt_req *req)
{
	uint8_t buf[MGMT_DATA_BYTES];
	uint16_t st;

	if ((req->sqe.cdw10 & 0xf) != NVME_NS_ATTACH_SEL_CTRL_ATTACH)
		st = NVME_ST_INVALID_FIELD;
	else if (!tgt_subsys_ns(c->ss, req->sqe.nsid))
		st = NVME_ST_INVALID_NS;
	else
		st = tgt_req_fetch(req, buf, sizeof(buf));
	if (st == NVME_ST_OK)
		st = attach_check(c, buf);
	tgt_req_fail(req, st);
}

void tgt_nsmgmt_resize(struct tgt_ctrl *c, struct tgt_req *req)
{
	struct tgt_admin *a = tgt_admin_of(req);

	a->nsid = req->sqe.nsid;
	a->bytes = req->sqe.cdw10 | (uint64_t)req->sqe.cdw11 << 32;
	mgmt_send(req, MGMT_RESIZE);
}
