/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read, Write and Compare: a command has one staging buffer and goes through its range a piece of
 * at most 64 KiB at a time; the next piece starts when the one before is done, so a command of any
 * length has fixed state and large ones take turns with small ones. The queue's worker.
 *
 *   Read     file -> buffer -> host                 Write  host -> buffer -> file
 *   Compare  half the buffer from the file, the other half from the host
 */
#include <string.h>

#include "base/container.h"
#include "blk/blk_int.h"

static struct blk_cmd *rw_of(struct mem_xfer *x)
{
	return container_of(x, struct blk_cmd, x);
}

/* Moves the piece between the host and byte `at` of the buffer. */
static void rw_xfer(struct blk_cmd *cmd, uint32_t at, enum mem_xfer_dir dir,
		    void (*end)(struct mem_xfer *x, int res))
{
	struct tgt_req *req = blk_req_of(cmd);
	struct mem_xfer *x = &cmd->x;

	cmd->run.reg = blk_bufs_of(cmd)->reg;
	cmd->run.off = cmd->buf->off + at;
	cmd->run.len = cmd->piece;
	mem_iter_runs_init(&cmd->vi, &cmd->run, 1);
	x->dir = dir;
	x->key_len = 0;
	x->check = false;
	x->key_hash = 0;
	x->flow = req->sq->flow;
	x->off = 0;
	x->len = cmd->piece;
	x->value_len = cmd->piece;
	x->value = &cmd->vi.it;
	x->peer = req->iter;
	x->seals = cmd->seals;
	x->end = end;
	mem_xfer_submit(req->sq->worker->engine, x);
}

/* False: the command is over, one way or the other. */
static bool rw_next(struct blk_cmd *cmd, uint32_t max)
{
	if (blk_req_of(cmd)->is_aborted) {
		blk_cmd_end(cmd, NVME_ST_ABORTED);
		return false;
	}
	if (cmd->left == 0) {
		if (cmd->is_fua && blk_req_of(cmd)->sqe.opc == BLK_WRITE)
			blk_cmd_sync(cmd);
		else
			blk_cmd_end(cmd, NVME_ST_OK);
		return false;
	}
	cmd->piece = (uint32_t)min_t(uint64_t, cmd->left, max);
	return true;
}

static void rw_advance(struct blk_cmd *cmd)
{
	cmd->off += cmd->piece;
	cmd->left -= cmd->piece;
}

static void rw_start(struct blk_cmd *cmd, void (*got)(struct blk_wait *w, struct blk_buf *buf))
{
	cmd->wait.got = got;
	blk_bufs_get(blk_bufs_of(cmd), &cmd->wait);
}

/* True when something failed and the command is over. */
static bool rw_file_failed(struct blk_cmd *cmd, int res)
{
	if (res)
		blk_cmd_end(cmd, blk_cmd_status(cmd, res));
	return res;
}

static bool rw_host_failed(struct blk_cmd *cmd, int res)
{
	if (res)
		blk_cmd_end(cmd, tgt_req_iter_status(blk_req_of(cmd)));
	return res;
}

/* ---- Read ---- */

static void read_piece(struct blk_cmd *cmd);

static void read_sent(struct mem_xfer *x, int res)
{
	struct blk_cmd *cmd = rw_of(x);

	if (rw_host_failed(cmd, res))
		return;
	rw_advance(cmd);
	read_piece(cmd);
}

static void read_done(struct blk_cmd *cmd, int res)
{
	if (!rw_file_failed(cmd, res))
		rw_xfer(cmd, 0, MEM_TO_PEER, read_sent);
}

static void read_piece(struct blk_cmd *cmd)
{
	if (rw_next(cmd, BLK_PIECE_BYTES))
		blk_cmd_io(cmd, IO_READ, cmd->buf->p, read_done);
}

static void read_got(struct blk_wait *w, struct blk_buf *buf)
{
	struct blk_cmd *cmd = container_of(w, struct blk_cmd, wait);

	cmd->buf = buf;
	read_piece(cmd);
}

static void read_synced(struct blk_cmd *cmd, int res)
{
	if (!rw_file_failed(cmd, res))
		rw_start(cmd, read_got);
}

/* With FUA it is what is on the disk: what is newer in the cache has to get there first. */
void blk_rw_read(struct blk_cmd *cmd)
{
	if (cmd->is_fua)
		blk_cmd_fsync(cmd, read_synced);
	else
		rw_start(cmd, read_got);
}

/* ---- Write ---- */

static void write_piece(struct blk_cmd *cmd);

static void write_done(struct blk_cmd *cmd, int res)
{
	if (rw_file_failed(cmd, res))
		return;
	rw_advance(cmd);
	write_piece(cmd);
}

static void write_fetched(struct mem_xfer *x, int res)
{
	struct blk_cmd *cmd = rw_of(x);

	if (!rw_host_failed(cmd, res))
		blk_cmd_io(cmd, IO_WRITE, cmd->buf->p, write_done);
}

static void write_piece(struct blk_cmd *cmd)
{
	if (rw_next(cmd, BLK_PIECE_BYTES))
		rw_xfer(cmd, 0, MEM_FROM_PEER, write_fetched);
}

static void write_got(struct blk_wait *w, struct blk_buf *buf)
{
	struct blk_cmd *cmd = container_of(w, struct blk_cmd, wait);

	cmd->buf = buf;
	write_piece(cmd);
}

void blk_rw_write(struct blk_cmd *cmd)
{
	rw_start(cmd, write_got);
}

/* ---- Compare ---- */

#define COMPARE_BYTES (BLK_PIECE_BYTES / 2)

static void compare_piece(struct blk_cmd *cmd);

static void compare_fetched(struct mem_xfer *x, int res)
{
	struct blk_cmd *cmd = rw_of(x);

	if (rw_host_failed(cmd, res))
		return;
	if (memcmp(cmd->buf->p, cmd->buf->p + COMPARE_BYTES, cmd->piece)) {
		blk_cmd_end(cmd, NVME_ST_COMPARE_FAILURE);
		return;
	}
	rw_advance(cmd);
	compare_piece(cmd);
}

static void compare_read(struct blk_cmd *cmd, int res)
{
	if (!rw_file_failed(cmd, res))
		rw_xfer(cmd, COMPARE_BYTES, MEM_FROM_PEER, compare_fetched);
}

static void compare_piece(struct blk_cmd *cmd)
{
	if (rw_next(cmd, COMPARE_BYTES))
		blk_cmd_io(cmd, IO_READ, cmd->buf->p, compare_read);
}

static void compare_got(struct blk_wait *w, struct blk_buf *buf)
{
	struct blk_cmd *cmd = container_of(w, struct blk_cmd, wait);

	cmd->buf = buf;
	compare_piece(cmd);
}

void blk_rw_compare(struct blk_cmd *cmd)
{
	rw_start(cmd, compare_got);
}
