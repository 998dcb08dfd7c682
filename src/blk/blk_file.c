/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks in a file or on a block device, through the reactor's env. Opened on the home reactor, or
 * before the reactors run; I/O on the worker of the command's queue.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/container.h"
#include "base/linger.h"
#include "blk/blk_int.h"

/* Opens, or makes with all its bytes; then it is ours alone. */
static int file_open(const struct blk_ns_opts *o)
{
	bool is_new = false;
	int err, fd = open(o->path, O_RDWR | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT && o->size_bytes) {
		fd = open(o->path, O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL, 0600);
		is_new = true;
	}
	if (fd < 0)
		return -errno;
	err = linger_lock(fd);
	if (err == -EBUSY)
		err = -EWOULDBLOCK;
	if (!err && is_new && ftruncate(fd, (off_t)o->size_bytes))
		err = -errno;
	if (err) {
		if (is_new)
			unlink(o->path);
		close(fd);
		return err;
	}
	return fd;
}

static int file_measure(struct blk_ns *bn, const struct blk_ns_opts *o)
{
	struct stat st;
	off_t bytes;

	if (fstat(bn->fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return -EINVAL;
	bytes = lseek(bn->fd, 0, SEEK_END);
	if (bytes < 0)
		return -errno;
	if (bytes == 0 || (bytes & ((1 << bn->lba_shift) - 1)) ||
	    (o->size_bytes && o->size_bytes != (uint64_t)bytes))
		return -EINVAL;
	bn->nr_lbas = (uint64_t)bytes >> bn->lba_shift;
	return 0;
}

/* A read that ends early met the end of a file that has shrunk. */
static void file_moved(struct io_req *io, int res)
{
	struct blk_cmd *cmd = container_of(io, struct blk_cmd, io);

	if (res == 0)
		res = -EIO;
	if (res < 0) {
		cmd->end(cmd, res);
		return;
	}
	must((size_t)res <= cmd->iov.iov_len);
	cmd->iov.iov_base = (uint8_t *)cmd->iov.iov_base + res;
	cmd->iov.iov_len -= (size_t)res;
	io->off += (uint64_t)res;
	if (cmd->iov.iov_len)
		reactor_io(blk_req_of(cmd)->sq->worker->reactor, io);
	else
		cmd->end(cmd, 0);
}

static void file_end(struct io_req *io, int res)
{
	struct blk_cmd *cmd = container_of(io, struct blk_cmd, io);

	cmd->end(cmd, res < 0 ? res : 0);
}

static void file_io(struct blk_cmd *cmd)
{
	struct tgt_req *req = blk_req_of(cmd);
	bool is_moved = cmd->io.op == IO_READ || cmd->io.op == IO_WRITE;

	cmd->io.fd = blk_ns_of(req)->fd;
	cmd->io.iov = &cmd->iov;
	cmd->io.nr_iov = is_moved;
	cmd->io.end = is_moved ? file_moved : file_end;
	reactor_io(req->sq->worker->reactor, &cmd->io);
}

/* The size of a block device isn't st_size, nor does it change. */
static bool file_is_short(struct blk_ns *bn)
{
	struct stat st;

	return fstat(bn->fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       (uint64_t)st.st_size < bn->nr_lbas << bn->lba_shift;
}

static void file_close(struct blk_ns *bn, struct reactor *home, void (*closed)(struct blk_ns *bn))
{
	close(bn->fd);
	closed(bn);
}

static const struct blk_dev_ops file_ops = {
	.io = file_io,
	.is_short = file_is_short,
	.close = file_close,
};

int blk_file_open(struct blk_ns *bn, const struct blk_ns_opts *o, char id[BLK_ID_BYTES])
{
	auto_free char *full = NULL;
	int err;

	bn->dev = &file_ops;
	bn->fd = file_open(o);
	err = bn->fd < 0 ? bn->fd : file_measure(bn, o);
	if (err) {
		if (bn->fd >= 0)
			close(bn->fd);
		return err;
	}
	full = realpath(o->path, NULL);
	static_assert(BLK_ID_BYTES >= PATH_MAX + 8, "a path fits");
	snprintf(id, BLK_ID_BYTES, "block\n%s", full ? full : o->path);
	snprintf(bn->ns.name, sizeof(bn->ns.name), "%s", o->path);
	return 0;
}
