/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVM command set (CSI 0) on a file, a block device or an RBD image: kv/'s small sibling,
 * beside it on the same controller and transports. A path that carries a file system and not a KV
 * value has a fault above it; one that carries neither is broken itself.
 *
 *   Read:   piece of the file --> staging buffer --> mem_xfer --> host, the next piece, CQE
 *   Write:  host --> mem_xfer --> staging buffer --> file, the next piece, [fsync for FUA], CQE
 *
 * Everything that touches the file goes through the reactor's env, so no call of it waits for a
 * disk; librbd is asked asynchronously, and its threads come in by the mailbox alone. Runs on the
 * worker of the request's queue; a command's state lives in its scratch.
 *
 * What it promises: an acknowledged Flush, or Write with FUA, is on the disk; a read that fails is
 * an error and never zeros; when writing back has failed once, nothing is acknowledged as durable
 * or written any more, since the kernel tells of such a loss only once. The same when the file has
 * become shorter: a write behind its new end would turn what is gone into zeros. An image has no
 * cache here: an acknowledged Write is on its OSDs, and a cluster that doesn't answer within the
 * image's time-out is Command Interrupted, to be tried again.
 */
#ifndef BLK_BLK_H
#define BLK_BLK_H

#include "target/tgt.h"

#define BLK_WHY_BYTES 160

struct blk_ns_opts {
	/*
	 * A file, a block device or an image, blk_rbd_uri.h; locked as long as the namespace lives.
	 */
	const char *path;
	uint64_t size_bytes; /* 0 = what it has; what isn't there is made with it, sparse */
	uint32_t lba_bytes;  /* 512 or 4096; 0 = 512 */
	char *why;	     /* BLK_WHY_BYTES or NULL: set when an image can't be had */
};

/*
 * Not yet added to the subsystem. -ENOENT: no file and no size; -EINVAL: the size is none, no
 * multiple of the block, or another than the file's; -EWOULDBLOCK: another daemon has it;
 * -EOPNOTSUPP: an image, and built without librbd; -errno.
 * Before the reactors run, or on the home reactor, which the open() may then hold up.
 */
int blk_ns_create(struct tgt_subsys *ss, const struct blk_ns_opts *o, struct tgt_ns **ns);
uint64_t blk_ns_bytes(const struct tgt_ns *ns);

/* For tgt_subsys_csi_add(). Namespaces come from configuration alone, not by Management. */
const struct tgt_csi_ops *blk_csi(void);

#endif
