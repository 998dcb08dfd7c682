/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVM command set: a table from opcode to function, the checks that come before it, I/O to
 * the device, and the border where errno becomes an NVMe status. NVM Command Set 1.0, 3.2.
 *
 * No metadata, no protection information: PRINFO and the storage tag are ignored, as the
 * specification wants of formats without them. Command dwords of hints (DSM in CDW13, directives)
 * are ignored too.
 */
#include <errno.h>
#include <string.h>

#include "base/container.h"
#include "base/log.h"
#include "blk/blk_int.h"

#define CMD_FUA (1u << 30) /* CDW12 */

void blk_cmd_end(struct blk_cmd *cmd, uint16_t st)
{
	struct blk_bufs *b = blk_bufs_of(cmd);
	struct blk_buf *buf = cmd->buf;

	/* The namespace may be gone behind complete(); the buffer's next owner is served first. */
	if (buf)
		blk_bufs_put(b, buf);
	tgt_req_complete(blk_req_of(cmd), st);
}

void blk_cmd_fail(struct blk_cmd *cmd, uint16_t st)
{
	blk_cmd_end(cmd, st | NVME_ST_DNR);
}

/* The first ten of a namespace, then every thousandth. */
static void cmd_alert(struct blk_cmd *cmd, const char *what, int res)
{
	struct blk_ns *bn = blk_ns_of(blk_req_of(cmd));
	uint32_t nr = atomic_fetch_add(&bn->nr_alerts, 1) + 1;

	if (nr <= 10 || nr % 1000 == 0)
		log_warn("namespace %u, %s: %s at byte %llu: %s (alert %u)", bn->ns.nsid,
			 bn->ns.name, what, (unsigned long long)cmd->off, strerror(-res), nr);
}

uint16_t blk_cmd_status(struct blk_cmd *cmd, int res)
{
	struct blk_ns *bn = blk_ns_of(blk_req_of(cmd));

	if (res == 0)
		return NVME_ST_OK;
	if (cmd->io.op == IO_FSYNC && !bn->dev->is_remote) {
		atomic_store(&bn->is_lost, true);
		cmd_alert(cmd, "flush, no more writes are taken", res);
		return NVME_ST_WRITE_FAULT;
	}
	switch (res) {
	case -EAGAIN:
	case -EINTR:
	case -ENOMEM: /* nothing is lost, the host tries again */
		return NVME_ST_INTERRUPTED;
	case -ETIMEDOUT: /* a disk's is the medium's fault */
		if (!bn->dev->is_remote)
			break;
		cmd_alert(cmd, "no answer", res);
		return NVME_ST_INTERRUPTED;
	case -ENOSPC:
	case -EDQUOT:
	case -EFBIG:
		cmd_alert(cmd, "write", res);
		return NVME_ST_CAPACITY_EXCEEDED;
	default:
		break;
	}
	if (cmd->io.op == IO_READ) {
		cmd_alert(cmd, "read", res);
		tgt_subsys_media_error(bn->ns.subsys);
		return NVME_ST_READ_ERROR;
	}
	cmd_alert(cmd, "write", res);
	return NVME_ST_WRITE_FAULT;
}

/* ---- the device ---- */

static void cmd_io(struct blk_cmd *cmd, enum io_op op, void (*end)(struct blk_cmd *cmd, int res))
{
	cmd->io.op = op;
	cmd->io.off = cmd->off;
	cmd->end = end;
	blk_ns_of(blk_req_of(cmd))->dev->io(cmd);
}

void blk_cmd_io(struct blk_cmd *cmd, enum io_op op, void *p, void (*end)(struct blk_cmd *, int))
{
	cmd->iov = (struct iovec){p, cmd->piece};
	cmd_io(cmd, op, end);
}

void blk_cmd_fallocate(struct blk_cmd *cmd, int mode, void (*end)(struct blk_cmd *cmd, int res))
{
	cmd->io.mode = mode;
	cmd->io.len = cmd->left;
	cmd_io(cmd, IO_FALLOCATE, end);
}

void blk_cmd_fsync(struct blk_cmd *cmd, void (*end)(struct blk_cmd *cmd, int res))
{
	cmd_io(cmd, IO_FSYNC, end);
}

static void cmd_synced(struct blk_cmd *cmd, int res)
{
	struct blk_ns *bn = blk_ns_of(blk_req_of(cmd));
	uint16_t st = blk_cmd_status(cmd, res);

	/* Another one's fsync may have taken the news while ours was on its way. */
	if (st == NVME_ST_OK && atomic_load(&bn->is_lost))
		st = NVME_ST_WRITE_FAULT;
	blk_cmd_end(cmd, st);
}

void blk_cmd_sync(struct blk_cmd *cmd)
{
	blk_cmd_fsync(cmd, cmd_synced);
}

/* ---- commands ---- */

uint16_t blk_cmd_range(struct blk_cmd *cmd, uint64_t slba, uint64_t nlb)
{
	const struct blk_ns *bn = blk_ns_of(blk_req_of(cmd));

	if (slba > bn->nr_lbas || nlb > bn->nr_lbas - slba)
		return NVME_ST_LBA_RANGE;
	cmd->off = slba << bn->lba_shift;
	cmd->left = nlb << bn->lba_shift;
	return NVME_ST_OK;
}

enum {
	CMD_RANGE = 1 << 0,  /* SLBA in CDW10 and 11, NLB in CDW12 */
	CMD_WRITES = 1 << 1, /* not when writes were lost */
	CMD_IN = 1 << 2,     /* data from the host, as many as the range has */
	CMD_OUT = 1 << 3,    /* data to the host */
};

static const struct cmd_entry {
	void (*fn)(struct blk_cmd *cmd);
	uint8_t flags;
} cmd_table[256] = {
	[BLK_FLUSH] = {blk_cmd_sync, CMD_WRITES},
	[BLK_WRITE] = {blk_rw_write, CMD_RANGE | CMD_WRITES | CMD_IN},
	[BLK_READ] = {blk_rw_read, CMD_RANGE | CMD_OUT},
	[BLK_COMPARE] = {blk_rw_compare, CMD_RANGE | CMD_IN},
	[BLK_WRITE_ZEROES] = {blk_trim_zeroes, CMD_RANGE | CMD_WRITES},
	[BLK_DSM] = {blk_trim_dsm, CMD_WRITES},
};

/* What log 02h counts: Read and Compare, Write. */
static void cmd_count(struct tgt_req *req, uint8_t flags, uint64_t bytes)
{
	struct tgt_ns_stat *st = &req->ns->stat[req->sq->worker->id];

	if (!(flags & (CMD_IN | CMD_OUT)))
		return;
	if (flags & CMD_WRITES) {
		counter_add(&st->writes, 1);
		counter_add(&st->write_bytes, bytes);
		req->sq->write_bytes += bytes;
	} else {
		counter_add(&st->reads, 1);
		counter_add(&st->read_bytes, bytes);
		req->sq->read_bytes += bytes;
	}
}

static uint16_t cmd_check(struct blk_cmd *cmd, uint8_t flags)
{
	struct tgt_req *req = blk_req_of(cmd);
	const struct nvme_sqe *sqe = &req->sqe;
	uint16_t st = NVME_ST_OK;

	if (flags & CMD_RANGE)
		st = blk_cmd_range(cmd, sqe->cdw10 | (uint64_t)sqe->cdw11 << 32,
				   (sqe->cdw12 & 0xffff) + 1);
	if (st == NVME_ST_OK && flags & (CMD_IN | CMD_OUT))
		st = req->sq->ops->data(req, cmd->left,
					flags & CMD_IN ? MEM_FROM_PEER : MEM_TO_PEER);
	return st;
}

static bool cmd_is_lost(struct blk_cmd *cmd)
{
	struct blk_ns *bn = blk_ns_of(blk_req_of(cmd));

	if (atomic_load(&bn->is_lost))
		return true;
	if (!bn->dev->is_short || !bn->dev->is_short(bn))
		return false;
	if (!atomic_exchange(&bn->is_lost, true))
		log_warn("namespace %u, %s: the file has become shorter, no more writes are taken",
			 bn->ns.nsid, bn->ns.name);
	return true;
}

void blk_cmd_execute(struct tgt_req *req)
{
	const struct cmd_entry *e = &cmd_table[req->sqe.opc];
	struct blk_cmd *cmd = blk_cmd_of(req);
	uint16_t st;

	cmd->buf = NULL;
	if (!e->fn) {
		tgt_req_fail(req, NVME_ST_INVALID_OPCODE);
		return;
	}
	cmd->off = 0;
	cmd->left = 0;
	cmd->at = 0;
	cmd->nr = 0;
	cmd->is_fua = req->sqe.cdw12 & CMD_FUA;
	st = cmd_check(cmd, e->flags);
	if (st != NVME_ST_OK) {
		tgt_req_fail(req, st);
		return;
	}
	if ((e->flags & CMD_WRITES) && cmd_is_lost(cmd)) {
		tgt_req_complete(req, NVME_ST_WRITE_FAULT);
		return;
	}
	cmd_count(req, e->flags, cmd->left);
	e->fn(cmd);
}
