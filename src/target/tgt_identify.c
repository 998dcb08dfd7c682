/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identify (Base 2.0, 5.17). Every answer is 4096 bytes, made on the stack and moved into the
 * host's memory at once. What a command set knows about its namespaces it fills in itself
 * (tgt_ns_ops.identify). Home worker.
 *
 * Every namespace is attached to every controller, so allocated lists (CNS 10h, 11h, 1Ah, 1Bh)
 * equal the active ones; like the lists of controllers they are there for operators, who have
 * Namespace Management.
 */
#include "target/tgt_int.h"
#include "base/le.h"
#include "base/must.h"
#include "nvme/nvme_tcp.h"

#define IDENTIFY_BYTES 4096u

#ifndef PEAL_VERSION
#define PEAL_VERSION "0"
#endif

static void put_u128(uint8_t dst[16], uint64_t val)
{
	le64_put(dst, val);
	le64_put(dst + 8, 0);
}

static void ctrl_capacity(struct tgt_ctrl *c, struct nvme_id_ctrl *id)
{
	uint64_t used = tgt_subsys_ns_capacity(c->ss), all = c->ss->capacity_bytes;

	put_u128(id->tnvmcap, all);
	put_u128(id->unvmcap, all > used ? all - used : 0);
}

/* What the command sets bring, and SEL of Get Features. */
static uint16_t ctrl_oncs(const struct tgt_ctrl *c)
{
	uint16_t oncs = NVME_CTRL_ONCS_SAVE_FEATURES;

	for (unsigned csi = 0; csi < TGT_CSI_NR; csi++)
		if (c->ss->csi[csi])
			oncs |= c->ss->csi[csi]->oncs;
	return oncs;
}

static void ctrl_fabrics(struct nvme_id_ctrl *id)
{
	id->ioccsz = htole32((64 + 8192) / 16); /* 16-byte units: SQE and 8 KiB in the capsule */
	id->iorcsz = htole32(1);
	id->msdbd = 1;
	id->sgls |= htole32(1u << 20); /* offsets in capsules */
}

/* Base 2.0, 5.17.2.1: what of it a Discovery controller has. */
static void ctrl_discovery(struct nvme_id_ctrl *id)
{
	id->cntrltype = NVME_CTRL_CNTRLTYPE_DISCOVERY;
	id->cmic = 0;
	id->oacs = 0;
	id->oaes = 0;
	id->nn = 0;
	id->mnan = 0;
	id->sqes = 0;
	id->cqes = 0;
	id->vwc = 0;
	id->oncs = 0;
	snprintf(id->subnqn, sizeof(id->subnqn), "%s", NVMF_DISCOVERY_NQN);
}

static uint16_t identify_ctrl(struct tgt_ctrl *c, struct tgt_req *req, void *buf)
{
	struct nvme_id_ctrl *id = buf;

	id->vid = htole16(TGT_PCI_VID);
	id->ssvid = htole16(TGT_PCI_VID);
	tgt_put_ascii(id->sn, sizeof(id->sn), c->ss->serial);
	tgt_put_ascii(id->mn, sizeof(id->mn), c->ss->model);
	tgt_put_ascii(id->fr, sizeof(id->fr), PEAL_VERSION);
	id->cmic = NVME_CTRL_CMIC_MULTI_CTRL;
	id->mdts = c->mdts;
	id->cntlid = htole16(c->id);
	id->ver = htole32(0x00020000);
	id->rtd3e = htole32(5000000); /* us; how long a host should wait for CSTS.SHST */
	id->oaes = htole32(NVME_CTRL_OAES_NA);
	id->ctratt = htole32(NVME_CTRL_CTRATT_128_ID);
	id->cntrltype = NVME_CTRL_CNTRLTYPE_IO;
	if (c->is_operator) {
		id->oacs = htole16(NVME_CTRL_OACS_NS_MGMT);
		id->avscc = 1; /* the vendor admin command has the standard format */
		ctrl_capacity(c, id);
	}
	id->acl = TGT_ABORTS_MAX - 1;
	id->aerl = TGT_AERS_MAX - 1;
	id->wctemp = htole16(TGT_TEMP_WARN_K);
	id->cctemp = htole16(TGT_TEMP_CRIT_K);
	id->frmw = 1 | 1 << 1; /* one slot, read-only */
	id->lpa = NVME_CTRL_LPA_CMD_EFFECTS | NVME_CTRL_LPA_EXTENDED |
		  NVME_CTRL_LPA_LI0_LI5_LI12_LI13;
	id->elpe = TGT_ERRORS_MAX - 1;
	id->kas = htole16(TGT_KAS_NS / 100000000);
	id->sqes = 0x66;
	id->cqes = 0x44;
	id->maxcmd = htole16((uint16_t)(c->mqes + 1));
	id->nn = htole32(TGT_NS_MAX);
	id->mnan = htole32(TGT_NS_MAX);
	id->oncs = htole16(ctrl_oncs(c));
	id->vwc = 1 | 2 << 1; /* Flush, not for NSID FFFFFFFFh */
	id->icsvscc = 1;
	/* Any alignment, bit buckets, lists longer than the data. */
	id->sgls = htole32(1u | 1u << 16 | 1u << 18);
	snprintf(id->subnqn, sizeof(id->subnqn), "%s", c->ss->nqn);
	if (c->is_fabrics)
		ctrl_fabrics(id);
	if (c->is_discovery)
		ctrl_discovery(id);
	return NVME_ST_OK;
}

static bool csi_is_known(const struct tgt_ctrl *c, uint8_t csi)
{
	return csi < TGT_CSI_NR && c->ss->csi_mask >> csi & 1;
}

static uint8_t req_csi(const struct tgt_req *req)
{
	return (uint8_t)(req->sqe.cdw11 >> 24);
}

/* NSIDs behind `after`, ascending; csi < 0 = any. */
static uint16_t fill_list(struct tgt_ctrl *c, uint32_t after, int csi, void *buf)
{
	uint8_t *at = buf, *end = at + IDENTIFY_BYTES;
	struct tgt_ns *ns;

	if (after >= 0xfffffffeu)
		return NVME_ST_INVALID_NS;
	for (uint32_t nsid = after + 1; nsid <= TGT_NS_MAX && at < end; nsid++) {
		ns = tgt_ctrl_ns(c, nsid);
		if (!ns || (csi >= 0 && ns->ops->csi != csi))
			continue;
		le32_put(at, nsid);
		at += 4;
	}
	return NVME_ST_OK;
}

static uint16_t identify_list(struct tgt_ctrl *c, struct tgt_req *req, void *buf)
{
	return fill_list(c, req->sqe.nsid, -1, buf);
}

static uint16_t identify_list_csi(struct tgt_ctrl *c, struct tgt_req *req, void *buf)
{
	if (!csi_is_known(c, req_csi(req)))
		return NVME_ST_INVALID_FIELD;
	return fill_list(c, req->sqe.nsid, req_csi(req), buf);
}

/* An NSID that could exist but doesn't is answered with zeros (Base 2.0, 5.17.2.1). */
static uint16_t check_nsid(const struct tgt_req *req)
{
	uint32_t nsid = req->sqe.nsid;

	return nsid == 0 || nsid > TGT_NS_MAX ? NVME_ST_INVALID_NS : NVME_ST_OK;
}

static uint16_t identify_ns(struct tgt_ctrl *c, struct tgt_req *req, void *buf)
{
	struct tgt_ns *ns = tgt_ctrl_ns(c, req->sqe.nsid);

	/* What all namespaces have in common, for Namespace Management: nothing of these fields. */
	if (req->sqe.nsid == TGT_NSID_ALL && c->is_operator)
		return NVME_ST_OK;
	return ns ? ns->ops->identify(ns, NVME_IDENTIFY_CNS_NS, buf) : check_nsid(req);
}

static uint16_t identify_ns_csi(struct tgt_ctrl *c, struct tgt_req *req, void *buf)
{
	struct tgt_ns *ns = tgt_ctrl_ns(c, req->sqe.nsid);

	if (!csi_is_known(c, req_csi(req)))
		return NVME_ST_INVALID_FIELD;
	if (req->sqe.nsid == TGT_NSID_ALL && c->is_operator)
		return NVME_ST_OK;
	if (!ns)
		return check_nsid(req);
	if (ns->ops->csi != req_csi(req))
		return NVME_ST_INVALID_FIELD;
	return ns->ops->identify(ns, NVME_IDENTIFY_CNS_CSI_NS, buf);
}

static uint16_t identify_ns_independent(struct tgt_ctrl *c, struct tgt_req *req, void *buf)
{
	struct tgt_ns *ns = tgt_ctrl_ns(c, req->sqe.nsid);
	struct nvme_id_independent_id_ns *id = buf;
	uint16_t st;

	if (!ns)
		return check_nsid(req);
	id->nmic = 1;
	st = ns->ops->identify(ns, NVME_IDENTIFY_CNS_CSI_INDEPENDENT_ID_NS, buf);
	id->nstat |= 1; /* NRDY: without it Linux skips the namespace silently */
	return st;
}

static uint8_t *put_desc(uint8_t *at, uint8_t type, const void *id, uint8_t len)
{
	at[0] = type;
	at[1] = len;
	memcpy(at + 4, id, len);
	return at + 4 + len;
}

static uint16_t identify_descs(struct tgt_ctrl *c, struct tgt_req *req, void *buf)
{
	static const uint8_t none[16];
	struct tgt_ns *ns = tgt_ctrl_ns(c, req->sqe.nsid);
	uint8_t *at = buf;

	if (!ns)
		return NVME_ST_INVALID_NS;
	if (memcmp(ns->nguid, none, sizeof(none)) != 0)
		at = put_desc(at, NVME_NIDT_NGUID, ns->nguid, 16);
	if (memcmp(ns->uuid, none, sizeof(none)) != 0)
		at = put_desc(at, NVME_NIDT_UUID, ns->uuid, 16);
	put_desc(at, NVME_NIDT_CSI, &ns->ops->csi, 1);
	return NVME_ST_OK;
}

static uint16_t identify_ctrl_csi(struct tgt_ctrl *c, struct tgt_req *req, void *buf)
{
	const struct tgt_csi_ops *ops;

	/* SPDK takes success for a set that we don't have as a promise of its log 05h. */
	if (!csi_is_known(c, req_csi(req)))
		return NVME_ST_INVALID_FIELD;
	ops = c->ss->csi[req_csi(req)];
	return ops && ops->identify_ctrl ? ops->identify_ctrl(buf) : NVME_ST_OK;
}

static void fill_ctrl_ids(struct tgt_ctrl *c, uint16_t first, void *buf)
{
	uint16_t ids[TGT_CTRLS_MAX];
	unsigned nr = tgt_subsys_ctrl_ids(c->ss, first, ids, TGT_CTRLS_MAX);

	static_assert(TGT_CTRLS_MAX <= 2047, "a controller list");
	le16_put(buf, (uint16_t)nr);
	for (unsigned i = 0; i < nr; i++)
		le16_put((uint8_t *)buf + 2 + 2 * i, ids[i]);
}

/* CNS 12h: those that the namespace is attached to. CNS 13h: all. */
static uint16_t identify_ns_ctrls(struct tgt_ctrl *c, struct tgt_req *req, void *buf)
{
	if (!tgt_ctrl_ns(c, req->sqe.nsid))
		return check_nsid(req);
	fill_ctrl_ids(c, (uint16_t)(req->sqe.cdw10 >> 16), buf);
	return NVME_ST_OK;
}

static uint16_t identify_ctrls(struct tgt_ctrl *c, struct tgt_req *req, void *buf)
{
	fill_ctrl_ids(c, (uint16_t)(req->sqe.cdw10 >> 16), buf);
	return NVME_ST_OK;
}

static uint16_t identify_command_sets(struct tgt_ctrl *c, struct tgt_req *req, void *buf)
{
	uint16_t cntid = (uint16_t)(req->sqe.cdw10 >> 16);

	if (cntid != 0xffff && cntid != c->id)
		return NVME_ST_INVALID_FIELD;
	le64_put(buf, c->ss->csi_mask);
	return NVME_ST_OK;
}

static const struct identify_op {
	uint16_t (*fill)(struct tgt_ctrl *c, struct tgt_req *req, void *buf);
	bool is_operator;
} identify_ops[] = {
	[NVME_IDENTIFY_CNS_NS] = {identify_ns},
	[NVME_IDENTIFY_CNS_CTRL] = {identify_ctrl},
	[NVME_IDENTIFY_CNS_NS_ACTIVE_LIST] = {identify_list},
	[NVME_IDENTIFY_CNS_NS_DESC_LIST] = {identify_descs},
	[NVME_IDENTIFY_CNS_CSI_NS] = {identify_ns_csi},
	[NVME_IDENTIFY_CNS_CSI_CTRL] = {identify_ctrl_csi},
	[NVME_IDENTIFY_CNS_CSI_NS_ACTIVE_LIST] = {identify_list_csi},
	[NVME_IDENTIFY_CNS_CSI_INDEPENDENT_ID_NS] = {identify_ns_independent},
	[NVME_IDENTIFY_CNS_ALLOCATED_NS_LIST] = {identify_list, true},
	[NVME_IDENTIFY_CNS_ALLOCATED_NS] = {identify_ns, true},
	[NVME_IDENTIFY_CNS_NS_CTRL_LIST] = {identify_ns_ctrls, true},
	[NVME_IDENTIFY_CNS_CTRL_LIST] = {identify_ctrls, true},
	[NVME_IDENTIFY_CNS_CSI_ALLOCATED_NS_LIST] = {identify_list_csi, true},
	[NVME_IDENTIFY_CNS_CSI_ID_NS_DATA_STRUCTURE] = {identify_ns_csi, true},
	[NVME_IDENTIFY_CNS_COMMAND_SET_STRUCTURE] = {identify_command_sets},
};

void tgt_identify_execute(struct tgt_ctrl *c, struct tgt_req *req)
{
	uint8_t cns = (uint8_t)req->sqe.cdw10, buf[IDENTIFY_BYTES] __attribute__((aligned(8)));
	const struct identify_op *op = NULL;
	uint16_t st = NVME_ST_INVALID_FIELD;

	if (cns < sizeof(identify_ops) / sizeof(identify_ops[0]))
		op = &identify_ops[cns];
	if (c->is_discovery && cns != NVME_IDENTIFY_CNS_CTRL)
		op = NULL;
	if (op && op->fill && (c->is_operator || !op->is_operator)) {
		memset(buf, 0, sizeof(buf));
		st = op->fill(c, req, buf);
	}
	if (st != NVME_ST_OK) {
		tgt_req_fail(req, st);
		return;
	}
	tgt_req_send(req, buf, sizeof(buf), NVME_ST_OK);
}
