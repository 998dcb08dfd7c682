/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching: socket, version, BAR0, controller enable (NVMe Base 2.0, 3.5.1), Identify, number of
 * queues, and which KV namespace is ours. Runs once in the life of a connection, in the thread
 * that opens it.
 */
/* tidy: no-test: every opening is this */
#include "client/conn.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/le.h"
#include "base/mono.h"
#include "client/errmsg.h"
#include "peal/ring.h"

enum {
	CONN_REG_CAP = 0x00,
	CONN_REG_VS = 0x08,
	CONN_REG_CC = 0x14,
	CONN_REG_CSTS = 0x1c,
	CONN_REG_AQA = 0x24,
	CONN_REG_ASQ = 0x28,
	CONN_REG_ACQ = 0x30,
};
#define CONN_CAP_CSS_CSI (1ull << 43)
#define CONN_CC_ENABLE 0x00460061u /* IOCQES 4, IOSQES 6, CSS 110b: all supported sets, EN */
#define CONN_CSTS_RDY 1u
#define CONN_CSTS_CFS 2u
#define CONN_READY_POLL_MS 1
#define CONN_SET_FEATURES 0x09
#define CONN_FID_QUEUES 0x07

static int conn_setup_connect_error(int err, const char *path)
{
	if (err == -ENOENT || err == -ECONNREFUSED)
		return errmsg_set(err, "no daemon at %s (%s): is peald running?", path,
				  strerror(-err));
	if (err == -EACCES || err == -EPERM)
		return errmsg_set(-EACCES, "not allowed to connect to %s", path);
	return errmsg_set(err, "can't connect to %s: %s", path, strerror(-err));
}

int conn_setup_socket(struct conn *c, const struct conn_opts *o)
{
	int err = wire_open(&c->wire, o->path, o->deadline_ns);

	if (err) {
		c->wire.fd = -1;
		return conn_setup_connect_error(err, o->path);
	}
	err = conn_dev_version(c, o);
	if (!err)
		err = conn_dev_map_bar(c, o->deadline_ns);
	return err;
}

static int conn_setup_wait_ready(struct conn *c, bool want, uint64_t deadline_ns)
{
	for (;;) {
		uint64_t csts;
		int err = conn_dev_read(c, CONN_REG_CSTS, 4, &csts, deadline_ns);

		if (err)
			return err;
		if (csts & CONN_CSTS_CFS)
			return errmsg_set(-EIO, "the controller reports a fatal error");
		if ((csts & CONN_CSTS_RDY) == want)
			return 0;
		if (mono_ns() >= deadline_ns)
			return errmsg_set(-ETIMEDOUT, "the controller did not become %s in time",
					  want ? "ready" : "idle");
		poll(NULL, 0, CONN_READY_POLL_MS);
	}
}

static int conn_setup_enable(struct conn *c, uint64_t deadline_ns)
{
	uint64_t acq = c->admin->shm.iova + (uint64_t)((uint8_t *)c->admin->cq - c->admin->shm.ptr);
	const struct {
		uint32_t reg, bytes;
		uint64_t v;
	} writes[] = {
		{CONN_REG_AQA, 4, QP_ADMIN_DEPTH << 16 | QP_ADMIN_DEPTH},
		{CONN_REG_ASQ, 8, c->admin->shm.iova},
		{CONN_REG_ACQ, 8, acq},
		{CONN_REG_CC, 4, CONN_CC_ENABLE},
	};
	int err = 0;

	for (unsigned i = 0; i < sizeof(writes) / sizeof(writes[0]) && !err; i++)
		err = conn_dev_write(c, writes[i].reg, writes[i].bytes, writes[i].v, deadline_ns);
	return err ? err : conn_setup_wait_ready(c, true, deadline_ns);
}

static int conn_setup_registers(struct conn *c, uint64_t deadline_ns)
{
	uint64_t cc;
	int err = conn_dev_read(c, CONN_REG_CAP, 8, &c->cap, deadline_ns);

	if (err)
		return err;
	if (!(c->cap & CONN_CAP_CSS_CSI))
		return errmsg_set(-EPROTO, "the controller has no KV command set (CAP %016llx)",
				  (unsigned long long)c->cap);
	c->stride = 4u << (c->cap >> 32 & 0xf);
	/* Doorbells that are not mapped can't be rung: fewer queues then. */
	c->nr_queues = 0;
	while (c->nr_queues < CONN_QID_MAX &&
	       peal_doorbell_offset(c->nr_queues + 1, 1, c->stride) + 4 <=
		       VFU_DOORBELL_OFFSET + c->doorbells_bytes)
		c->nr_queues++;
	if (!c->nr_queues)
		return errmsg_set(-EPROTO, "doorbell stride %u in %zu mapped bytes: no I/O queue",
				  c->stride, c->doorbells_bytes);
	err = conn_dev_read(c, CONN_REG_CC, 4, &cc, deadline_ns);
	if (!err && (cc & 1))
		err = conn_dev_write(c, CONN_REG_CC, 4, cc & ~1ull, deadline_ns);
	return err ? err : conn_setup_wait_ready(c, false, deadline_ns);
}

static int conn_setup_identify(struct conn *c, uint64_t deadline_ns)
{
	uint8_t id[4096];
	uint32_t mps_shift = 12 + (uint32_t)(c->cap >> 48 & 0xf);
	int err = conn_admin_identify(c, 0x01, 0, id, deadline_ns);

	if (err)
		return err;
	c->data_max = id[77] ? 1ull << (mps_shift + id[77]) : UINT64_MAX;
	c->has_sgl = (le32_get(id + 536) & 3) != 0;
	memcpy(c->subsystem, id + 768, sizeof(c->subsystem) - 1);
	return 0;
}

static int conn_setup_queues(struct conn *c, uint64_t deadline_ns)
{
	uint32_t want = c->nr_queues - 1;
	struct conn_admin_cmd cmd = {
		.sqe = {.opc = CONN_SET_FEATURES,
			.cdw10 = CONN_FID_QUEUES,
			.cdw11 = want << 16 | want},
	};
	int err = conn_admin_must(c, &cmd, "asking for queues", deadline_ns);
	uint32_t sqs = (cmd.dw0 & 0xffff) + 1, cqs = (cmd.dw0 >> 16) + 1;

	if (err)
		return err;
	c->nr_queues = sqs < c->nr_queues ? sqs : c->nr_queues;
	c->nr_queues = cqs < c->nr_queues ? cqs : c->nr_queues;
	return 0;
}

int conn_setup_ctrl(struct conn *c, const struct conn_opts *o)
{
	int fd, err = conn_setup_registers(c, o->deadline_ns);

	if (!err)
		err = conn_admin_init(c, o->deadline_ns);
	if (err)
		return err;
	fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd < 0)
		return errmsg_set(-errno, "no eventfd: %s", strerror(errno));
	/* Without an interrupt the admin queue is looked at now and then: slower, not wrong. */
	qp_arm(c->admin, fd, o->deadline_ns);
	err = conn_setup_enable(c, o->deadline_ns);
	if (!err)
		err = conn_setup_identify(c, o->deadline_ns);
	if (!err)
		err = conn_setup_queues(c, o->deadline_ns);
	return err;
}

static int conn_setup_find_ns(struct conn *c, const struct conn_opts *o)
{
	uint8_t list[4096];
	int err = conn_admin_identify(c, 0x07, 0, list, o->deadline_ns);
	uint32_t nsid = 0;

	if (err)
		return err;
	for (size_t i = 0; i < sizeof(list) && le32_get(list + i); i += 4) {
		nsid = le32_get(list + i);
		if (!o->nsid || nsid == o->nsid)
			break;
	}
	if (!nsid)
		return errmsg_set(-ENOENT, "the daemon has no KV namespace");
	if (o->nsid && nsid != o->nsid)
		return errmsg_set(-ENOENT, "the daemon has no KV namespace %u", o->nsid);
	c->ns.nsid = nsid;
	return 0;
}

int conn_setup_ns(struct conn *c, const struct conn_opts *o)
{
	struct nvme_kv_id_ns id;
	struct peal_id_vendor v;
	int err = c->ns.nsid ? 0 : conn_setup_find_ns(c, o);

	if (!err)
		err = conn_admin_identify(c, 0x05, c->ns.nsid, &id, o->deadline_ns);
	if (err)
		return err;
	c->ns.capacity_bytes = id.nsze;
	c->ns.used_bytes = id.nuse;
	c->ns.key_max = id.kvf[0].kml < PEAL_KEY_MAX ? id.kvf[0].kml : PEAL_KEY_MAX;
	c->ns.value_max = id.kvf[0].vml < PEAL_VALUE_MAX ? id.kvf[0].vml : PEAL_VALUE_MAX;
	memcpy(&v, id.vs, sizeof(v));
	if (v.magic != PEAL_ID_MAGIC)
		return 0; /* a stranger's KV controller: the standard commands */
	if (v.version != 1 || v.chunk_shift != 16)
		return errmsg_set(-EPROTO,
				  "the daemon's vendor commands are version %u with chunks of 2^%u "
				  "bytes, this library knows version 1 with 2^16: they are of "
				  "different releases",
				  v.version, v.chunk_shift);
	c->ns.vendor_cmds = v.commands;
	c->ns.match_max = v.match_max < PEAL_MATCH_MAX ? v.match_max : PEAL_MATCH_MAX;
	c->ns.lease_ms_max = v.lease_ms_max;
	c->ns.nr_segments = v.nr_segments;
	c->ns.is_immutable = v.flags & PEAL_ID_IMMUTABLE;
	return 0;
}
