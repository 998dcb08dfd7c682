/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block namespace: its device, its staging buffers, its making and its end. Made and ended on
 * the home reactor, or before the reactors run.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "blk/blk_int.h"
#include "blk/blk_rbd_uri.h"

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
	free(bn);
}

static void ns_closed(struct blk_ns *bn)
{
	void (*done)(void *arg, uint16_t st) = bn->gone;
	void *arg = bn->gone_arg;

	ns_free(bn);
	done(arg, NVME_ST_OK);
}

static void ns_destroy(struct tgt_ns *ns, struct reactor *home,
		       void (*done)(void *arg, uint16_t st), void *arg)
{
	struct blk_ns *bn = container_of(ns, struct blk_ns, ns);

	bn->gone = done;
	bn->gone_arg = arg;
	bn->dev->close(bn, home, ns_closed);
}

static const struct tgt_ns_ops ns_ops = {
	.csi = 0,
	.execute = blk_cmd_execute,
	.identify = blk_identify,
	.sizes = ns_sizes,
	.destroy = ns_destroy,
};

static int ns_bufs(struct blk_ns *bn, struct tgt_subsys *ss)
{
	for (unsigned i = 0; i < tgt_subsys_node(ss)->nr; i++) {
		bn->bufs[i] = calloc(1, sizeof(*bn->bufs[i]));
		if (!bn->bufs[i] || blk_bufs_init(bn->bufs[i]))
			return -ENOMEM;
	}
	return 0;
}

int blk_ns_create(struct tgt_subsys *ss, const struct blk_ns_opts *o, struct tgt_ns **ns)
{
	char id[BLK_ID_BYTES];
	struct blk_ns *bn;
	int err;

	if (o->lba_bytes && o->lba_bytes != 512 && o->lba_bytes != 4096)
		return -EINVAL;
	bn = aligned_alloc(_Alignof(struct blk_ns), sizeof(*bn));
	if (!bn)
		return -ENOMEM;
	memset(bn, 0, sizeof(*bn));
	bn->ns.ops = &ns_ops;
	bn->lba_shift = o->lba_bytes == 4096 ? 12 : 9;
	bn->ns.lba_shift = bn->lba_shift;
	bn->nr_workers = tgt_subsys_node(ss)->nr;
	if (o->size_bytes & ((1u << bn->lba_shift) - 1) || o->size_bytes > INT64_MAX)
		err = -EINVAL;
	else
		err = ns_bufs(bn, ss);
	if (!err && blk_rbd_uri_is(o->path))
		err = blk_rbd_open(bn, o, id);
	else if (!err)
		err = blk_file_open(bn, o, id);
	if (err) {
		ns_free(bn);
		return err;
	}
	tgt_subsys_ns_ids(ss, &bn->ns, id);
	*ns = &bn->ns;
	return 0;
}

uint64_t blk_ns_bytes(const struct tgt_ns *ns)
{
	const struct blk_ns *bn = container_of(ns, struct blk_ns, ns);

	return bn->nr_lbas << bn->lba_shift;
}
