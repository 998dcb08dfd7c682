/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block namespace: its file, its staging buffers, its making and its end. Made and ended on
 * the home reactor, or before the reactors run.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/container.h"
#include "blk/blk_int.h"

/* A file's blocks are no part of the memory that the node's capacity counts. */
static void ns_sizes(struct tgt_ns *ns, uint64_t *capacity, uint64_t *used)
{
	*capacity = 0;
	*used = 0;
}

static void ns_free(struct blk_ns *bn)
{
	for (unsigned i = 0; i < REACTORS_MAX; i++) {
		if (bn->bufs[i])
			blk_bufs_fini(bn->bufs[i]);
		free(bn->bufs[i]);
	}
	if (bn->fd >= 0)
		close(bn->fd);
	free(bn);
}

static void ns_destroy(struct tgt_ns *ns, struct reactor *home,
		       void (*done)(void *arg, uint16_t st), void *arg)
{
	ns_free(container_of(ns, struct blk_ns, ns));
	done(arg, NVME_ST_OK);
}

static const struct tgt_ns_ops ns_ops = {
	.csi = 0,
	.execute = blk_cmd_execute,
	.identify = blk_identify,
	.sizes = ns_sizes,
	.destroy = ns_destroy,
};

/* Opens, or makes with all its bytes; then it is ours alone. */
static int ns_open(const struct blk_ns_opts *o)
{
	bool is_new = false;
	int err, fd = open(o->path, O_RDWR | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT && o->size_bytes) {
		fd = open(o->path, O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL, 0600);
		is_new = true;
	}
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) || (is_new && ftruncate(fd, (off_t)o->size_bytes))) {
		err = -errno;
		if (is_new)
			unlink(o->path);
		close(fd);
		return err;
	}
	return fd;
}

static int ns_measure(struct blk_ns *bn, const struct blk_ns_opts *o)
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

static int ns_bufs(struct blk_ns *bn, struct tgt_subsys *ss)
{
	for (unsigned i = 0; i < tgt_subsys_node(ss)->nr; i++) {
		bn->bufs[i] = calloc(1, sizeof(*bn->bufs[i]));
		if (!bn->bufs[i] || blk_bufs_init(bn->bufs[i]))
			return -ENOMEM;
	}
	return 0;
}

/* From the path, so that it is the same disk to a host after a restart; never a KV name's. */
static void ns_ids(struct blk_ns *bn, struct tgt_subsys *ss, const char *path)
{
	auto_free char *full = realpath(path, NULL);
	char text[PATH_MAX + 8];

	snprintf(text, sizeof(text), "block\n%s", full ? full : path);
	tgt_subsys_ns_ids(ss, &bn->ns, text);
	snprintf(bn->ns.name, sizeof(bn->ns.name), "%s", path);
}

int blk_ns_create(struct tgt_subsys *ss, const struct blk_ns_opts *o, struct tgt_ns **ns)
{
	struct blk_ns *bn;
	int err = 0;

	if (o->lba_bytes && o->lba_bytes != 512 && o->lba_bytes != 4096)
		return -EINVAL;
	bn = aligned_alloc(_Alignof(struct blk_ns), sizeof(*bn));
	if (!bn)
		return -ENOMEM;
	memset(bn, 0, sizeof(*bn));
	bn->ns.ops = &ns_ops;
	bn->lba_shift = o->lba_bytes == 4096 ? 12 : 9;
	bn->ns.lba_shift = bn->lba_shift;
	if (o->size_bytes & ((1u << bn->lba_shift) - 1) || o->size_bytes > INT64_MAX)
		err = -EINVAL;
	bn->fd = err ? err : ns_open(o);
	err = bn->fd < 0 ? bn->fd : ns_measure(bn, o);
	if (!err)
		err = ns_bufs(bn, ss);
	if (err) {
		ns_free(bn);
		return err;
	}
	ns_ids(bn, ss, o->path);
	*ns = &bn->ns;
	return 0;
}

uint64_t blk_ns_bytes(const struct tgt_ns *ns)
{
	const struct blk_ns *bn = container_of(ns, struct blk_ns, ns);

	return bn->nr_lbas << bn->lba_shift;
}
