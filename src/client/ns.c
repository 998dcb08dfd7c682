/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces and logs: admin commands for operators, and peal_info(). Any thread.
 */
#include <errno.h>
#include <string.h>

#include "base/le.h"
#include "client/call.h"
#include "client/errmsg.h"
#include "client/ns.h"

enum {
	NS_ADM_GET_LOG = 0x02,
	NS_ADM_MANAGEMENT = 0x0d,
};
#define NS_LOG_EFFECTS 0x05
#define NS_CSI_KV 1u

int peal_info(struct peal *p, struct peal_info *info)
{
	struct nvme_kv_id_ns id;
	struct call call;
	struct conn *c;
	int err = call_begin(p, "info", NULL, NULL, &call);

	if (err)
		return err;
	c = call.conn;
	err = conn_admin_identify(c, 0x05, c->ns.nsid, &id, call.deadline_ns);
	if (!err) {
		*info = (struct peal_info){
			.nsid = c->ns.nsid,
			.key_max = c->ns.key_max,
			.value_max = c->ns.value_max,
			.capacity_bytes = id.nsze,
			.used_bytes = id.nuse,
			.match_max = c->ns.match_max,
			.is_immutable = c->ns.is_immutable,
			.has_lease = c->has_arena && conn_has_cmd(c, PEAL_OPC_LEASE),
		};
		memcpy(info->subsystem, c->subsystem, sizeof(info->subsystem));
	}
	return (int)call_end(&call, err);
}

int peal_ns_list(struct peal *p, uint32_t *nsids, size_t max)
{
	uint8_t list[4096];
	struct call call;
	size_t n = 0;
	int err = call_begin(p, "ns list", NULL, NULL, &call);

	if (err)
		return err;
	err = conn_admin_identify(call.conn, 0x07, 0, list, call.deadline_ns);
	for (size_t i = 0; !err && i < sizeof(list) && le32_get(list + i); i += 4, n++)
		if (n < max)
			nsids[n] = le32_get(list + i);
	return (int)call_end(&call, err ? err : (ssize_t)n);
}

int ns_admin(struct peal *p, const char *verb, struct conn_admin_cmd *cmd)
{
	struct call call;
	int err = call_begin(p, verb, NULL, NULL, &call);

	if (err)
		return err;
	err = conn_admin_exec(call.conn, cmd, call.deadline_ns);
	if (!err && (cmd->status & 0x7ff) == NVME_ST_INVALID_OPCODE && !call.conn->is_operator)
		err = errmsg_set(-EACCES,
				 "%s: this connection is not an operator's (peal_opts.is_operator, "
				 "granted to root and to the daemon's own user)",
				 verb);
	else if (!err)
		err = errmsg_status(cmd->status, verb, NULL);
	return (int)call_end(&call, err);
}

int peal_ns_create(struct peal *p, uint64_t capacity_bytes, uint32_t *nsid)
{
	uint8_t data[4096] = {0};
	struct conn_admin_cmd cmd = {
		.sqe = {.opc = NS_ADM_MANAGEMENT, .cdw11 = NS_CSI_KV << 24},
		.out = data,
		.bytes = sizeof(data),
	};
	int err;

	/* NSZE and NCAP, in bytes as the KV command set counts (NVMe Base 2.0, figure 438). */
	le64_put(data, capacity_bytes);
	le64_put(data + 8, capacity_bytes);
	err = ns_admin(p, "ns create", &cmd);
	if (!err && nsid)
		*nsid = cmd.dw0;
	return err;
}

int peal_ns_resize(struct peal *p, uint32_t nsid, uint64_t capacity_bytes)
{
	struct conn_admin_cmd cmd = {
		.sqe = {.opc = PEAL_OPC_ADMIN_NS_RESIZE,
			.nsid = nsid,
			.cdw10 = (uint32_t)capacity_bytes,
			.cdw11 = (uint32_t)(capacity_bytes >> 32)},
	};

	return ns_admin(p, "ns resize", &cmd);
}

int peal_ns_delete(struct peal *p, uint32_t nsid)
{
	struct conn_admin_cmd cmd = {.sqe = {.opc = NS_ADM_MANAGEMENT, .nsid = nsid, .cdw10 = 1}};

	return ns_admin(p, "ns delete", &cmd);
}

ssize_t peal_log(struct peal *p, uint8_t lid, uint64_t offset, void *buf, size_t bytes)
{
	struct call call;
	size_t got = 0;
	int err;

	if (offset % 4 || bytes % 4)
		return errmsg_set(-EINVAL,
				  "log %02xh: offset %llu, %zu bytes, expected multiples of 4", lid,
				  (unsigned long long)offset, bytes);
	err = call_begin(p, "log", NULL, NULL, &call);
	if (err)
		return err;
	while (!err && got < bytes) {
		size_t n = bytes - got < CONN_ADMIN_BYTES ? bytes - got : CONN_ADMIN_BYTES;
		uint32_t numd = (uint32_t)(n / 4 - 1);
		uint64_t at = offset + got;
		struct conn_admin_cmd cmd = {
			.sqe = {.opc = NS_ADM_GET_LOG,
				.nsid = CONN_ALL_NS,
				.cdw10 = lid | (numd & 0xffff) << 16,
				.cdw11 = numd >> 16,
				.cdw12 = (uint32_t)at,
				.cdw13 = (uint32_t)(at >> 32),
				.cdw14 = lid == NS_LOG_EFFECTS ? NS_CSI_KV << 24 : 0},
			.in = (uint8_t *)buf + got,
			.bytes = (uint32_t)n,
		};

		err = conn_admin_must(call.conn, &cmd, "log", call.deadline_ns);
		got += n;
	}
	return call_end(&call, err ? err : (ssize_t)got);
}
