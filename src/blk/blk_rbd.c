/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks on an RBD image, by librbd's asynchronous calls. Opened and closed on the home reactor, or
 * before the reactors run; a command belongs to its worker, is librbd's while librbd works on it,
 * and comes back through the worker's mailbox:
 *
 *   image_io --> [wait for one of RBD_DEPTH] --> rbd_aio_... --> librbd's thread:
 *   image_answered --> mbox_post --> image_arrived, on the worker: the next in line, cmd->end
 *
 * What is under way is bounded here, below what librados itself would block a caller for
 * (objecter_inflight_ops and _op_bytes, which image_limits() sets). An operation that isn't
 * answered within the time-out ends with -ETIMEDOUT. Buffers are librbd's copies, so one that timed
 * out doesn't hold ours. The image's exclusive lock is ours; whoever takes it while we are cut off
 * has Ceph refuse what we write.
 * tidy: no-test: it takes a cluster, test/ceph/test_block.py
 */
#include <errno.h>
#include <fcntl.h>
#include <rbd/librbd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "blk/blk_int.h"
#include "blk/blk_rbd_uri.h"

#define RBD_DEPTH 32u  /* under way per worker */
#define RBD_OBJECTS 4u /* that one Write Zeroes of librbd's is about, one more where it lies so */

struct image_worker {
	struct list waiting; /* commands, by wait.node */
	unsigned nr;	     /* under way */
};

struct blk_rbd {
	rados_t cluster;
	rados_ioctx_t pool;
	rbd_image_t image;
	uint64_t zero_bytes;
	struct image_worker at[REACTORS_MAX];
	/* While it is closed. */
	struct blk_ns *bn;
	struct reactor *home;
	struct mbox_msg msg;
	void (*closed)(struct blk_ns *bn);
};

/* ---- I/O ---- */

static struct reactor *image_reactor(struct blk_cmd *cmd)
{
	return blk_req_of(cmd)->sq->worker->reactor;
}

/* A thread of librbd's. The completion goes first: behind the post the command is the worker's. */
static void image_answered(rbd_completion_t c, void *arg)
{
	struct blk_cmd *cmd = arg;

	cmd->res = (int)rbd_aio_get_return_value(c);
	rbd_aio_release(c);
	mbox_post(image_reactor(cmd), &cmd->msg);
}

static int image_ask(struct blk_rbd *r, struct blk_cmd *cmd, rbd_completion_t c)
{
	struct io_req *io = &cmd->io;

	switch (io->op) {
	case IO_READ:
		return rbd_aio_read(r->image, io->off, cmd->iov.iov_len, cmd->iov.iov_base, c);
	case IO_WRITE:
		return rbd_aio_write(r->image, io->off, cmd->iov.iov_len, cmd->iov.iov_base, c);
	case IO_FSYNC:
		return rbd_aio_flush(r->image, c);
	case IO_FALLOCATE:
		/* Unlike a discard, which leaves alone what is less than an object. */
		cmd->iov.iov_len = min_t(uint64_t, io->len,
					 r->zero_bytes - io->off % r->zero_bytes);
		return rbd_aio_write_zeroes(r->image, io->off, cmd->iov.iov_len, c, 0, 0);
	case IO_POLL:
	case IO_CANCEL:
		break;
	}
	return -EOPNOTSUPP;
}

static void image_start(struct blk_rbd *r, struct blk_cmd *cmd)
{
	rbd_completion_t c;
	int err = rbd_aio_create_completion(cmd, image_answered, &c);

	if (!err) {
		err = image_ask(r, cmd, c);
		if (err < 0)
			rbd_aio_release(c);
	}
	if (err < 0) {
		cmd->res = err;
		mbox_post(image_reactor(cmd), &cmd->msg);
	}
}

/* 0 when all is done, 1 when there is more to ask for, -errno. */
static int image_outcome(struct blk_cmd *cmd)
{
	struct io_req *io = &cmd->io;

	if (cmd->res < 0)
		return cmd->res;
	/* Less than all: the image was made smaller. */
	if (io->op == IO_READ && (size_t)cmd->res != cmd->iov.iov_len)
		return -EIO;
	if (io->op != IO_FALLOCATE)
		return 0;
	io->off += cmd->iov.iov_len;
	io->len -= cmd->iov.iov_len;
	return io->len > 0;
}

static void image_arrived(struct mbox_msg *m)
{
	struct blk_cmd *cmd = container_of(m, struct blk_cmd, msg), *next;
	struct blk_rbd *r = blk_ns_of(blk_req_of(cmd))->rbd;
	struct image_worker *w = &r->at[blk_req_of(cmd)->sq->worker->id];
	int res = image_outcome(cmd);

	if (res > 0) { /* behind those that wait */
		list_add_tail(&w->waiting, &cmd->wait.node);
		cmd = NULL;
	}
	if (list_is_empty(&w->waiting)) {
		w->nr--;
	} else {
		next = list_first_entry(&w->waiting, struct blk_cmd, wait.node);
		list_del(&next->wait.node);
		image_start(r, next);
	}
	if (cmd)
		cmd->end(cmd, res);
}

static void image_io(struct blk_cmd *cmd)
{
	struct blk_rbd *r = blk_ns_of(blk_req_of(cmd))->rbd;
	struct image_worker *w = &r->at[blk_req_of(cmd)->sq->worker->id];

	cmd->msg.fn = image_arrived;
	if (w->nr == RBD_DEPTH) {
		list_add_tail(&w->waiting, &cmd->wait.node);
		return;
	}
	w->nr++;
	image_start(r, cmd);
}

/* ---- the end ---- */

static void image_free(struct blk_rbd *r)
{
	if (r->pool)
		rados_ioctx_destroy(r->pool);
	if (r->cluster)
		rados_shutdown(r->cluster);
	free(r);
}

static void image_gone(struct mbox_msg *m)
{
	struct blk_rbd *r = container_of(m, struct blk_rbd, msg);
	struct blk_ns *bn = r->bn;
	void (*closed)(struct blk_ns * bn) = r->closed;

	image_free(r);
	closed(bn);
}

static void image_closed(rbd_completion_t c, void *arg)
{
	struct blk_rbd *r = arg;

	rbd_aio_release(c);
	mbox_post(r->home, &r->msg);
}

/* Gives the lock back, which a cluster that doesn't answer may hold up until the time-out. */
static void image_close(struct blk_ns *bn, struct reactor *home, void (*closed)(struct blk_ns *bn))
{
	struct blk_rbd *r = bn->rbd;
	rbd_completion_t c;

	for (unsigned i = 0; i < bn->nr_workers; i++)
		must(r->at[i].nr == 0 && list_is_empty(&r->at[i].waiting));
	r->bn = bn;
	r->home = home;
	r->closed = closed;
	r->msg.fn = image_gone;
	if (rbd_aio_create_completion(r, image_closed, &c) == 0) {
		if (rbd_aio_close(r->image, c) == 0)
			return;
		rbd_aio_release(c);
	}
	rbd_close(r->image);
	mbox_post(home, &r->msg);
}

static const struct blk_dev_ops image_ops = {
	.io = image_io,
	.is_remote = true,
	.close = image_close,
};

/* ---- the beginning ---- */

static int image_failed(const struct blk_ns_opts *o, const char *what, int err)
{
	if (o->why)
		snprintf(o->why, BLK_WHY_BYTES, "%s", what);
	return err;
}

static int image_set(struct blk_rbd *r, const char *name, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	return rados_conf_set(r->cluster, name, text);
}

/* What the conf says of these is about programs that may wait, or that keep things back. */
static int image_limits(struct blk_rbd *r, const struct blk_rbd_uri *u, unsigned nr_workers)
{
	uint64_t nr = (uint64_t)nr_workers * RBD_DEPTH;
	int err = image_set(r, "rados_osd_op_timeout", u->timeout_s);

	if (!err)
		err = image_set(r, "rados_mon_op_timeout", u->timeout_s);
	if (!err)
		err = image_set(r, "client_mount_timeout", u->timeout_s);
	if (!err)
		err = image_set(r, "objecter_inflight_ops",
				max_t(uint64_t, 1024, 2 * nr * (RBD_OBJECTS + 1)));
	if (!err)
		err = image_set(r, "objecter_inflight_op_bytes",
				max_t(uint64_t, 100 << 20, 2 * nr * BLK_PIECE_BYTES));
	if (!err)
		err = rados_conf_set(r->cluster, "log_to_stderr", "false");
	if (!err)
		err = rados_conf_set(r->cluster, "err_to_stderr", "false");
	if (!err)
		err = rados_conf_set(r->cluster, "rbd_cache", "false");
	if (!err)
		err = rados_conf_set(r->cluster, "rbd_disable_zero_copy_writes", "true");
	return err;
}

static int image_connect(struct blk_rbd *r, const struct blk_rbd_uri *u, const struct blk_ns *bn,
			 const struct blk_ns_opts *o)
{
	int err = rados_create(&r->cluster, u->id);

	if (err) {
		r->cluster = NULL;
		return image_failed(o, "librados has no room", err);
	}
	err = rados_conf_read_file(r->cluster, u->conf[0] ? u->conf : NULL);
	if (err)
		return image_failed(o, "no ceph.conf that can be read", err);
	err = image_limits(r, u, bn->nr_workers);
	if (err)
		return image_failed(o, "a setting isn't known to this librados", err);
	err = rados_connect(r->cluster);
	if (err)
		return image_failed(o, "no monitor lets us in: reachable? user and key ring right?",
				    err);
	err = rados_ioctx_create(r->cluster, u->pool, &r->pool);
	if (err) {
		r->pool = NULL;
		return image_failed(o, "the pool can't be had", err);
	}
	rados_ioctx_set_namespace(r->pool, u->space[0] ? u->space : NULL);
	return 0;
}

static int image_find(struct blk_rbd *r, const struct blk_rbd_uri *u, const struct blk_ns_opts *o)
{
	int order = 0, err = rbd_open(r->pool, u->image, &r->image, NULL);

	if (err == -ENOENT && o->size_bytes) {
		err = rbd_create(r->pool, u->image, o->size_bytes, &order);
		if (err)
			return image_failed(o, "the image can't be made", err);
		err = rbd_open(r->pool, u->image, &r->image, NULL);
	}
	if (err == -ENOENT)
		return image_failed(o, "no such image; size=SIZE would make it", err);
	return err ? image_failed(o, "the image can't be opened", err) : 0;
}

/* Open, so it may be closed. */
static int image_measure(struct blk_rbd *r, struct blk_ns *bn, const struct blk_ns_opts *o)
{
	uint64_t features;
	rbd_image_info_t info;
	int err = rbd_get_features(r->image, &features);

	if (!err)
		err = rbd_stat(r->image, &info, sizeof(info));
	if (err)
		return image_failed(o, "the image can't be looked at", err);
	if (info.size == 0 || info.size & ((1u << bn->lba_shift) - 1) ||
	    (o->size_bytes && o->size_bytes != info.size))
		return image_failed(
			o, "the image has another size, or one that isn't of its blocks", -EINVAL);
	if (!(features & RBD_FEATURE_EXCLUSIVE_LOCK))
		return image_failed(o, "the image lacks exclusive-lock: rbd feature enable",
				    -EINVAL);
	r->zero_bytes = info.obj_size * RBD_OBJECTS;
	bn->nr_lbas = info.size >> bn->lba_shift;
	err = rbd_lock_acquire(r->image, RBD_LOCK_MODE_EXCLUSIVE);
	if (err == -EROFS) /* its owner lives and keeps it */
		return image_failed(o, "another client has the image's lock", -EWOULDBLOCK);
	return err ? image_failed(o, "the image's lock can't be had", err) : 0;
}

static int image_say(struct blk_rbd *r, const struct blk_rbd_uri *u, struct blk_ns *bn, char *id)
{
	char fsid[64], image[64];
	int err = rados_cluster_fsid(r->cluster, fsid, sizeof(fsid));

	if (err >= 0)
		err = rbd_get_id(r->image, image, sizeof(image));
	if (err < 0)
		return err;
	snprintf(id, BLK_ID_BYTES, "rbd\n%s/%lld/%s/%s", fsid,
		 (long long)rados_ioctx_get_id(r->pool), u->space, image);
	snprintf(bn->ns.name, sizeof(bn->ns.name), "rbd:%.28s/%.28s", u->pool, u->image);
	return 0;
}

int blk_rbd_open(struct blk_ns *bn, const struct blk_ns_opts *o, char id[BLK_ID_BYTES])
{
	struct blk_rbd_uri u;
	struct blk_rbd *r;
	int err;

	if (blk_rbd_uri_parse(o->path, &u))
		return image_failed(o, "expected " BLK_RBD_EXPECTED, -EINVAL);
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	for (unsigned i = 0; i < REACTORS_MAX; i++)
		list_init(&r->at[i].waiting);
	err = image_connect(r, &u, bn, o);
	if (!err)
		err = image_find(r, &u, o);
	if (err)
		goto free_rbd;
	err = image_measure(r, bn, o);
	if (!err)
		err = image_say(r, &u, bn, id);
	if (err)
		goto close_image;
	bn->dev = &image_ops;
	bn->rbd = r;
	return 0;

close_image:
	rbd_close(r->image);
free_rbd:
	image_free(r);
	return err;
}
