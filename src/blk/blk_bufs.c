/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging buffers: blk_int.h has the promises. Handing out is a loop, never a recursion: a waiter
 * that is served and fails at once gives its buffer back from inside, and the loop below serves the
 * next one with it. One worker's.
 */
#include <errno.h>

#include "blk/blk_int.h"

int blk_bufs_init(struct blk_bufs *b)
{
	b->base = pool_map((size_t)BLK_BUFS * BLK_PIECE_BYTES, &b->map_bytes);
	if (!b->base)
		return -ENOMEM;
	b->reg = mem_host_wrap(b->base, (uint64_t)BLK_BUFS * BLK_PIECE_BYTES,
			       MEM_READABLE | MEM_WRITABLE);
	if (!b->reg) {
		pool_unmap(b->base, b->map_bytes);
		b->base = NULL;
		return -ENOMEM;
	}
	list_init(&b->waiting);
	for (unsigned i = 0; i < BLK_BUFS; i++) {
		b->bufs[i].off = (uint64_t)i * BLK_PIECE_BYTES;
		b->bufs[i].p = (uint8_t *)b->base + b->bufs[i].off;
		b->free[b->nr_free++] = &b->bufs[i];
	}
	return 0;
}

void blk_bufs_fini(struct blk_bufs *b)
{
	if (!b->base)
		return;
	must(b->nr_free == BLK_BUFS && list_is_empty(&b->waiting));
	mem_region_put(b->reg);
	pool_unmap(b->base, b->map_bytes);
}

static void bufs_hand(struct blk_bufs *b)
{
	struct blk_wait *w;

	if (b->is_handing)
		return;
	b->is_handing = true;
	while (b->nr_free && !list_is_empty(&b->waiting)) {
		w = list_first_entry(&b->waiting, struct blk_wait, node);
		list_del(&w->node);
		w->got(w, b->free[--b->nr_free]);
	}
	b->is_handing = false;
}

void blk_bufs_get(struct blk_bufs *b, struct blk_wait *w)
{
	if (b->nr_free == 0)
		counter_add(&b->nr_waited, 1);
	list_add_tail(&b->waiting, &w->node);
	bufs_hand(b);
}

void blk_bufs_put(struct blk_bufs *b, struct blk_buf *buf)
{
	must(b->nr_free < BLK_BUFS);
	b->free[b->nr_free++] = buf;
	bufs_hand(b);
}
