/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admin commands, one at a time each with a deadline. Data go through a page that
 * belongs to the command's CID. A command that timed out keeps its CID and its page until its CQE
 * comes, so a late answer lands where nobody looks; with all of them gone that way the answer is
 * -EAGAIN. Any thread.
 */
/* tidy: no-test: t_ns.c and every opening go through it */
#include "client/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mono.h"
#include "base/must.h"
#include "client/errmsg.h"

#define CONN_ADMIN_IDENTIFY 0x06

int conn_admin_init(struct conn *c, uint64_t deadline_ns)
{
	int err = qp_create_admin(c, &c->admin, deadline_ns);

	if (err)
		return err;
	return shm_create(c, QP_ADMIN_DEPTH * CONN_ADMIN_BYTES, "peal-admin", &c->admin_data,
			  deadline_ns);
}

static void conn_admin_reap(struct conn *c)
{
	struct nvme_cqe cqe;

	while (qp_reap(c->admin, &cqe, 1)) {
		/* A CID that is nobody's comes from a broken peer, which can't hurt us by that. */
		if (cqe.cid >= QP_ADMIN_DEPTH)
			continue;
		if (c->admin_slots[cqe.cid].state == CONN_SLOT_WAITING) {
			c->admin_slots[cqe.cid].cqe = cqe;
			c->admin_slots[cqe.cid].state = CONN_SLOT_DONE;
		} else if (c->admin_slots[cqe.cid].state == CONN_SLOT_GIVEN_UP) {
			c->admin_slots[cqe.cid].state = CONN_SLOT_FREE;
			qp_cid_put(c->admin, cqe.cid);
		}
	}
}

static int conn_admin_wait(struct conn *c, int cid, uint64_t deadline_ns)
{
	for (;;) {
		conn_admin_reap(c);
		if (c->admin_slots[cid].state == CONN_SLOT_DONE)
			return 0;
		if (conn_is_dead(c))
			return -ENOTCONN;
		if (mono_ns() >= deadline_ns)
			return -ETIMEDOUT;
		qp_doze(c->admin, deadline_ns);
	}
}

static int conn_admin_run(struct conn *c, struct conn_admin_cmd *cmd, uint64_t deadline_ns)
{
	struct nvme_sqe *sqe;
	uint8_t *data;
	int cid, err;

	conn_admin_reap(c);
	cid = qp_cid_get(c->admin);
	if (cid < 0)
		return cid;
	data = c->admin_data.ptr + (size_t)cid * CONN_ADMIN_BYTES;
	sqe = qp_sqe(c->admin);
	*sqe = cmd->sqe;
	sqe->cid = (uint16_t)cid;
	if (cmd->out)
		memcpy(data, cmd->out, cmd->bytes);
	if (cmd->bytes)
		sqe->prp1 = c->admin_data.iova + (uint64_t)cid * CONN_ADMIN_BYTES;
	c->admin_slots[cid].state = CONN_SLOT_WAITING;
	qp_push(c->admin);
	qp_ring(c->admin);
	err = conn_admin_wait(c, cid, deadline_ns);
	if (err) {
		c->admin_slots[cid].state = CONN_SLOT_GIVEN_UP;
		return err;
	}
	cmd->dw0 = c->admin_slots[cid].cqe.dw0;
	cmd->status = c->admin_slots[cid].cqe.status >> 1;
	if (cmd->in)
		memcpy(cmd->in, data, cmd->bytes);
	c->admin_slots[cid].state = CONN_SLOT_FREE;
	qp_cid_put(c->admin, (uint16_t)cid);
	return 0;
}

int conn_admin_exec(struct conn *c, struct conn_admin_cmd *cmd, uint64_t deadline_ns)
{
	int err = turn_take(&c->admin_turn, deadline_ns);

	must(cmd->bytes <= CONN_ADMIN_BYTES);
	if (!err) {
		err = conn_is_dead(c) ? -ENOTCONN : conn_admin_run(c, cmd, deadline_ns);
		turn_give(&c->admin_turn);
	}
	if (err == -ETIMEDOUT)
		errmsg_set(err, "no answer from the daemon to an admin command in time");
	else if (err == -ENOTCONN)
		errmsg_set(err, "the daemon is gone");
	else if (err)
		errmsg_set(err, "%u admin commands wait for the daemon already", QP_ADMIN_DEPTH);
	return err;
}

int conn_admin_must(struct conn *c, struct conn_admin_cmd *cmd, const char *what,
		    uint64_t deadline_ns)
{
	int err = conn_admin_exec(c, cmd, deadline_ns);

	return err ? err : errmsg_status(cmd->status, what, NULL);
}

int conn_admin_identify(struct conn *c, uint8_t cns, uint32_t nsid, void *buf, uint64_t deadline_ns)
{
	struct conn_admin_cmd cmd = {
		.sqe = {.opc = CONN_ADMIN_IDENTIFY, .nsid = nsid, .cdw10 = cns},
		.in = buf,
		.bytes = CONN_ADMIN_BYTES,
	};

	if (cns == 0x05 || cns == 0x06 || cns == 0x07)
		cmd.sqe.cdw11 = 1u << 24; /* CSI 1: KV */
	return conn_admin_must(c, &cmd, "identify", deadline_ns);
}
