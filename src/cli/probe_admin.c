/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layers of `peal probe` that are queues: enabling and Identify on the admin queue, an I/O
 * queue pair of 1024 slots as GPUs ask for, SQEs in waves round the ring, CQEs whose two halves
 * are known to belong together. See probe.h.
 */
/* tidy: no-test: test/peer/probe.py runs it against devices with planted faults */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/le.h"
#include "cli/probe.h"
#include "peal/vendor.h"

#define ADMIN_CC_ENABLE 0x00460061u /* IOCQES 4, IOSQES 6, CSS 110b, EN */
#define ADMIN_WAVES 3u		    /* round the ring, twice at least */
#define ADMIN_BLANK 0xc5

enum {
	ADMIN_DELETE_SQ = 0x00,
	ADMIN_CREATE_SQ = 0x01,
	ADMIN_DELETE_CQ = 0x04,
	ADMIN_CREATE_CQ = 0x05,
	ADMIN_IDENTIFY = 0x06,
	ADMIN_SET_FEATURES = 0x09,
	ADMIN_FID_QUEUES = 0x07,
	ADMIN_CNS_NS = 0x05,
	ADMIN_CNS_CTRL = 0x01,
	ADMIN_CNS_LIST = 0x07,
	ADMIN_CSI_KV = 1u << 24, /* CDW11 */
};

/* One admin command that has to succeed; else a verdict on `layer`. */
static bool admin_must(struct probe *p, struct probe_cmd *cmd, enum probe_layer layer,
		       const char *what)
{
	int err = probe_queue_exec(p, &p->admin, cmd);

	if (err == -EBADMSG)
		return false; /* said */
	if (err) {
		probe_bad(p, layer, "%s: %s", what, probe_dev_error(err));
		return false;
	}
	if (probe_queue_status(cmd)) {
		probe_bad(p, layer, "%s: status %03xh", what, probe_queue_status(cmd));
		return false;
	}
	return true;
}

static bool admin_identify(struct probe *p, uint8_t cns, uint32_t nsid, const char *what)
{
	struct probe_cmd cmd = {
		.sqe = {.opc = ADMIN_IDENTIFY,
			.nsid = nsid,
			.prp1 = PROBE_IOVA + PROBE_AT_BUF,
			.cdw10 = cns,
			.cdw11 = cns == ADMIN_CNS_CTRL ? 0 : ADMIN_CSI_KV},
	};

	memset(p->mem + PROBE_AT_BUF, ADMIN_BLANK, PROBE_PAGE);
	return admin_must(p, &cmd, PROBE_ADMIN, what);
}

/* ---- admin queue ---- */

static bool admin_enable(struct probe *p)
{
	const struct {
		uint32_t reg, bytes;
		uint64_t v;
	} writes[] = {
		{PROBE_REG_AQA, 4, (PROBE_ADMIN_SLOTS - 1) << 16 | (PROBE_ADMIN_SLOTS - 1)},
		{PROBE_REG_ASQ, 8, PROBE_IOVA + PROBE_AT_ASQ},
		{PROBE_REG_ACQ, 8, PROBE_IOVA + PROBE_AT_ACQ},
		{PROBE_REG_CC, 4, ADMIN_CC_ENABLE},
	};
	int err = 0;

	probe_queue_init(&p->admin, 0, PROBE_ADMIN_SLOTS, p->mem + PROBE_AT_ASQ,
			 p->mem + PROBE_AT_ACQ);
	for (unsigned i = 0; i < sizeof(writes) / sizeof(writes[0]) && !err; i++)
		err = probe_dev_write(p, writes[i].reg, writes[i].bytes, writes[i].v);
	if (!err) {
		p->is_enabled = true;
		err = probe_dev_wait_ready(p, true);
	}
	if (err == -EIO)
		probe_bad(p, PROBE_ADMIN, "CC.EN = 1 ends with CSTS.CFS: it can't use our rings");
	else if (err == -ETIMEDOUT)
		probe_bad(p, PROBE_REGISTERS, "CSTS is stuck: RDY stays 0 after CC.EN = 1");
	else if (err)
		probe_bad(p, PROBE_REGISTERS, "enabling: %s", probe_dev_error(err));
	return !err;
}

static bool admin_controller(struct probe *p)
{
	const uint8_t *id = p->mem + PROBE_AT_BUF;

	if (!admin_identify(p, ADMIN_CNS_CTRL, 0, "Identify Controller"))
		return false;
	if (le16_get(id) != p->vid || id[512] != 0x66 || id[513] != 0x44) {
		probe_bad(p, PROBE_ADMIN,
			  "Identify: VID %04xh, SQES %02xh, CQES %02xh, expected %04xh, 66h, 44h",
			  le16_get(id), id[512], id[513], p->vid);
		return false;
	}
	p->sgls = le32_get(id + 536);
	p->data_max = id[77] ? (uint64_t)PROBE_PAGE << (id[77] < 40 ? id[77] : 40) : UINT64_MAX;
	return true;
}

static bool admin_namespace(struct probe *p)
{
	const uint8_t *id = p->mem + PROBE_AT_BUF;
	uint32_t nsid = 0;

	if (!admin_identify(p, ADMIN_CNS_LIST, 0, "Identify, list of KV namespaces"))
		return false;
	for (unsigned i = 0; i < PROBE_PAGE / 4 && le32_get(id + 4 * i); i++) {
		nsid = le32_get(id + 4 * i);
		if (!p->nsid || p->nsid == nsid)
			break;
	}
	if (!nsid || (p->nsid && p->nsid != nsid)) {
		probe_bad(p, PROBE_ADMIN, p->nsid ? "no KV namespace %u" : "no KV namespace%.0u",
			  p->nsid);
		return false;
	}
	p->nsid = nsid;
	if (!admin_identify(p, ADMIN_CNS_NS, nsid, "Identify KV namespace"))
		return false;
	if (le16_get(id + 72) != NVME_KV_KEY_MAX || le32_get(id + 76) < PROBE_PAGE) {
		probe_bad(p, PROBE_ADMIN,
			  "namespace %u: keys of %u, values of %u bytes, expected 16 and 4096 or "
			  "more",
			  nsid, le16_get(id + 72), le32_get(id + 76));
		return false;
	}
	if (le32_get(id + 76) < p->data_max)
		p->data_max = le32_get(id + 76);
	if (le32_get(id + 3840) == PEAL_ID_MAGIC)
		p->vendor_cmds = le64_get(id + 3848);
	return true;
}

/* What was unmapped stays alone: a command that names it fails, and nothing arrives there. */
static bool admin_unmapped(struct probe *p)
{
	struct probe_cmd cmd = {
		.sqe = {.opc = ADMIN_IDENTIFY, .prp1 = PROBE_SCRATCH_IOVA, .cdw10 = ADMIN_CNS_CTRL},
	};
	bool is_touched = false;
	int err;

	memset(p->scratch, ADMIN_BLANK, PROBE_PAGE);
	err = probe_queue_exec(p, &p->admin, &cmd);
	if (err == -EBADMSG)
		return false;
	for (unsigned i = 0; i < PROBE_PAGE; i++)
		is_touched = is_touched || p->scratch[i] != ADMIN_BLANK;
	if (is_touched)
		probe_bad(p, PROBE_DMA, "the device wrote to memory after its DMA_UNMAP");
	else if (err)
		probe_bad(p, PROBE_DMA, "a command that names unmapped memory: %s",
			  probe_dev_error(err));
	else if (probe_queue_status(&cmd) == 0)
		probe_bad(p, PROBE_DMA, "a command that names unmapped memory succeeded");
	return !err;
}

void probe_admin_queue(struct probe *p)
{
	bool had_map = p->has_bell_map;

	if (!admin_enable(p) || !admin_controller(p))
		return;
	if (p->has_bell_map)
		probe_good(p, PROBE_DOORBELLS, "a page mapped, and what is stored there is seen");
	if (!admin_namespace(p) || !admin_unmapped(p))
		return;
	probe_good(p, PROBE_ADMIN, "%s, Identify: namespace %u%s, %s%s",
		   had_map == p->has_bell_map ? "enabled" : "enabled, rung by message", p->nsid,
		   p->vendor_cmds ? " of Peal's" : "", p->sgls & 3 ? "PRP and SGL" : "PRP only",
		   p->vendor_cmds ? ", vendor commands" : "");
}

/* ---- I/O queue pair ---- */

static bool io_create(struct probe *p)
{
	struct probe_cmd cmds[] = {
		{.sqe = {.opc = ADMIN_SET_FEATURES, .cdw10 = ADMIN_FID_QUEUES}},
		{.sqe = {.opc = ADMIN_CREATE_CQ,
			 .prp1 = PROBE_IOVA + PROBE_AT_IOCQ,
			 .cdw10 = (p->io.size - 1) << 16 | 1,
			 .cdw11 = 1}},
		{.sqe = {.opc = ADMIN_CREATE_SQ,
			 .prp1 = PROBE_IOVA + PROBE_AT_IOSQ,
			 .cdw10 = (p->io.size - 1) << 16 | 1,
			 .cdw11 = 1 << 16 | 1}},
	};
	static const char *const names[] = {
		"asking for a queue pair",
		"Create I/O Completion Queue",
		"Create I/O Submission Queue",
	};

	for (unsigned i = 0; i < sizeof(cmds) / sizeof(cmds[0]); i++)
		if (!admin_must(p, &cmds[i], PROBE_IOQ, names[i]))
			return false;
	return true;
}

int probe_admin_io_delete(struct probe *p)
{
	static const uint8_t opcs[] = {ADMIN_DELETE_SQ, ADMIN_DELETE_CQ};

	for (unsigned i = 0; i < sizeof(opcs); i++) {
		struct probe_cmd cmd = {.sqe = {.opc = opcs[i], .cdw10 = 1}};
		int err = probe_queue_exec(p, &p->admin, &cmd);

		if (err || probe_queue_status(&cmd))
			return err ? err : -EIO;
	}
	p->has_io = false;
	return 0;
}

/* Exist of a key that nobody has. */
static void io_absent(struct probe *p, struct probe_cmd *cmd)
{
	uint8_t key[16] = "probe-no";

	rng_fill(&p->rng, key + 8, 8);
	*cmd = (struct probe_cmd){.want = NVME_ST_KEY_NOT_FOUND};
	probe_value_sqe(p, &cmd->sqe, NVME_KV_EXIST, key);
}

void probe_admin_io(struct probe *p)
{
	uint32_t slots = (uint32_t)(p->cap & 0xffff) + 1;
	struct probe_cmd cmd;
	int err;

	slots = slots < PROBE_IO_SLOTS ? slots : PROBE_IO_SLOTS;
	probe_queue_init(&p->io, 1, slots, p->mem + PROBE_AT_IOSQ, p->mem + PROBE_AT_IOCQ);
	if (!io_create(p))
		return;
	p->has_io = true;
	io_absent(p, &cmd);
	err = probe_queue_exec(p, &p->io, &cmd);
	if (err && err != -EBADMSG) {
		probe_bad(p, PROBE_IOQ, "the first command on it (Exist): %s",
			  probe_dev_error(err));
		return;
	}
	/* Whatever the answer says: there was one. */
	probe_good(p, PROBE_IOQ, "a pair of %u slots, a command on it was answered", slots);
}

/* ---- SQEs ---- */

/* Commands that differ in each field that a status can tell. */
static void sqe_mix(struct probe *p, struct probe_cmd *cmd, unsigned i)
{
	io_absent(p, cmd);
	switch (i) {
	case 1: /* reserved in the KV command set, no data */
		cmd->sqe.opc = 0x7c;
		cmd->want = NVME_ST_INVALID_OPCODE;
		break;
	case 2:
		cmd->sqe.nsid = UINT32_MAX - 1;
		cmd->want = NVME_ST_INVALID_NS;
		break;
	default:
		break;
	}
}

void probe_admin_sqes(struct probe *p)
{
	unsigned nr = p->io.size - 1;

	if (p->lines[PROBE_SQE].verdict == PROBE_BAD)
		return;
	for (unsigned w = 0; w < ADMIN_WAVES; w++) {
		int err;

		for (unsigned i = 0; i < nr; i++)
			sqe_mix(p, &p->cmds[i], w ? nr - 1 - i : i);
		err = probe_queue_wave(p, PROBE_SQE, p->cmds, nr);
		if (err == -ETIMEDOUT)
			probe_bad(p, PROBE_SQE, "not all of a wave of %u commands were answered",
				  nr);
		if (err)
			return;
	}
	probe_good(p, PROBE_SQE, "%u commands in waves of %u: each executed as written",
		   ADMIN_WAVES * nr, nr);
}

/* ---- CQEs ---- */

/*
 * A Retrieve without room: DW0, in the first half, has to be the value's size, while the second
 * half says whose answer it is.
 */
static void cqe_mix(struct probe *p, struct probe_cmd *cmd)
{
	struct probe_key *k = &p->keys[rng_below(&p->rng, PROBE_NR_KEYS)];

	io_absent(p, cmd);
	if (!k->is_stored || rng_below(&p->rng, 4) == 0)
		return;
	probe_value_sqe(p, &cmd->sqe, NVME_KV_RETRIEVE, k->b);
	cmd->want = NVME_ST_OK;
	cmd->has_dw0 = true;
	cmd->want_dw0 = k->bytes;
}

void probe_admin_cqes(struct probe *p)
{
	unsigned nr = p->io.size - 1;

	for (unsigned w = 0; w < ADMIN_WAVES; w++) {
		int err;

		for (unsigned i = 0; i < nr; i++)
			cqe_mix(p, &p->cmds[i]);
		err = probe_queue_wave(p, PROBE_VALUE, p->cmds, nr);
		if (err == -ETIMEDOUT)
			probe_bad(p, PROBE_CQE, "not all of a wave of %u commands were answered",
				  nr);
		if (err)
			return;
	}
	if (p->nr_dw0 == 0)
		return; /* no value to ask for */
	if (p->nr_dw0_bad == p->nr_dw0)
		probe_bad(p, PROBE_VALUE, "Retrieve doesn't tell the value's size (%s)",
			  p->dw0_text);
	else if (p->nr_dw0_bad)
		probe_bad(p, PROBE_CQE, "torn: %u of %u with the first half of another (%s)",
			  p->nr_dw0_bad, p->nr_dw0, p->dw0_text);
	probe_good(p, PROBE_CQE, "%u: DW0, CID, SQ head and status agree, none changes later",
		   ADMIN_WAVES * nr);
}
