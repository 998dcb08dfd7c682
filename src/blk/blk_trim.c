/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write Zeroes and Dataset Management (NVM Command Set 1.0, 3.2.3 and 3.2.8). Zeroes are a zeroed
 * range of the file, or a hole when the host permits deallocation; where the file system can do
 * neither they are written. Deallocate is a hole, range by range; where there are no holes it does
 * nothing, which it may. The queue's worker.
 */
#include <errno.h>
#include <fcntl.h>

#include "base/container.h"
#include "base/le.h"
#include "blk/blk_int.h"

#define TRIM_DEAC (1u << 25) /* CDW12 of Write Zeroes */
#define TRIM_AD (1u << 2)    /* CDW11 of Dataset Management */
#define RANGE_BYTES 16u

/* Read only; io_uring's iovec has no const. */
static uint8_t trim_zeroes[BLK_PIECE_BYTES];

static bool trim_is_unsupported(int res)
{
	return res == -EOPNOTSUPP || res == -ENOSYS || res == -ENODEV || res == -EINVAL;
}

static void trim_end(struct blk_cmd *cmd)
{
	if (cmd->is_fua && blk_req_of(cmd)->sqe.opc == BLK_WRITE_ZEROES)
		blk_cmd_sync(cmd);
	else
		blk_cmd_end(cmd, NVME_ST_OK);
}

static void zeroes_piece(struct blk_cmd *cmd);

static void zeroes_written(struct blk_cmd *cmd, int res)
{
	if (res) {
		blk_cmd_end(cmd, blk_cmd_status(cmd, res));
		return;
	}
	cmd->off += cmd->piece;
	cmd->left -= cmd->piece;
	zeroes_piece(cmd);
}

static void zeroes_piece(struct blk_cmd *cmd)
{
	if (blk_req_of(cmd)->is_aborted) {
		blk_cmd_end(cmd, NVME_ST_ABORTED);
		return;
	}
	if (cmd->left == 0) {
		trim_end(cmd);
		return;
	}
	cmd->piece = (uint32_t)min_t(uint64_t, cmd->left, BLK_PIECE_BYTES);
	blk_cmd_io(cmd, IO_WRITE, trim_zeroes, zeroes_written);
}

static void zeroes_done(struct blk_cmd *cmd, int res)
{
	if (trim_is_unsupported(res))
		zeroes_piece(cmd);
	else if (res)
		blk_cmd_end(cmd, blk_cmd_status(cmd, res));
	else
		trim_end(cmd);
}

void blk_trim_zeroes(struct blk_cmd *cmd)
{
	int mode = blk_req_of(cmd)->sqe.cdw12 & TRIM_DEAC ? FALLOC_FL_PUNCH_HOLE
							  : FALLOC_FL_ZERO_RANGE;

	blk_cmd_fallocate(cmd, mode | FALLOC_FL_KEEP_SIZE, zeroes_done);
}

/* ---- Dataset Management ---- */

static uint16_t dsm_range(struct blk_cmd *cmd, uint32_t i)
{
	const uint8_t *r = cmd->buf->p + i * RANGE_BYTES;

	return blk_cmd_range(cmd, le64_get(r + 8), le32_get(r + 4));
}

static void dsm_next(struct blk_cmd *cmd);

static void dsm_done(struct blk_cmd *cmd, int res)
{
	if (res && !trim_is_unsupported(res)) {
		blk_cmd_end(cmd, blk_cmd_status(cmd, res));
		return;
	}
	dsm_next(cmd);
}

/* An empty range is no range; fallocate() would refuse it. */
static void dsm_next(struct blk_cmd *cmd)
{
	if (blk_req_of(cmd)->is_aborted) {
		blk_cmd_end(cmd, NVME_ST_ABORTED);
		return;
	}
	for (; cmd->at < cmd->nr; cmd->at++) {
		must(dsm_range(cmd, cmd->at) == NVME_ST_OK);
		if (cmd->left)
			break;
	}
	if (cmd->at == cmd->nr) {
		trim_end(cmd);
		return;
	}
	cmd->at++;
	blk_cmd_fallocate(cmd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, dsm_done);
}

/* The list is copied out once, all of it checked, then used. */
static void dsm_got(struct blk_wait *w, struct blk_buf *buf)
{
	struct blk_cmd *cmd = container_of(w, struct blk_cmd, wait);
	struct tgt_req *req = blk_req_of(cmd);
	uint16_t st;

	cmd->buf = buf;
	cmd->nr = (req->sqe.cdw10 & 0xff) + 1;
	static_assert(BLK_RANGES_MAX * RANGE_BYTES <= BLK_PIECE_BYTES &&
			      BLK_RANGES_MAX * RANGE_BYTES <= TGT_FETCH_MAX,
		      "the list fits");
	st = tgt_req_fetch(req, buf->p, cmd->nr * RANGE_BYTES);
	for (uint32_t i = 0; st == NVME_ST_OK && i < cmd->nr; i++)
		st = dsm_range(cmd, i);
	if (st != NVME_ST_OK) {
		blk_cmd_fail(cmd, st);
		return;
	}
	/* The other attributes are hints. */
	if (!(req->sqe.cdw11 & TRIM_AD)) {
		blk_cmd_end(cmd, NVME_ST_OK);
		return;
	}
	dsm_next(cmd);
}

void blk_trim_dsm(struct blk_cmd *cmd)
{
	cmd->wait.got = dsm_got;
	blk_bufs_get(blk_bufs_of(cmd), &cmd->wait);
}
