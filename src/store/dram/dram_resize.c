/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capacity: how a budget of bytes is cut into index, side heap and segments, and how it changes at
 * run time.
 *
 *     bytes = struct, dirty map, fences, slots | index | side heap, buddy | segments, buddies
 *
 * Index and side heap are made once, for the capacity at creation; growing and shrinking add and
 * retire segments. A segment goes away when nothing lies in it any more: its entries are evicted
 * (written below first when dirty), a bounded number per call; views that are out keep it until
 * they are released. Segments can't be cut, since clients map them, so one that is too large for
 * the new budget goes as a whole and a smaller one is made in its place. Runs on the shard's owner.
 */
#include "store/dram/dram_int.h"

#include <errno.h>

#include "base/container.h"
#include "base/must.h"

uint32_t dram_resize_max_keys(uint64_t bytes, uint32_t wanted)
{
	uint64_t nr = wanted ? wanted : max_t(uint64_t, bytes / 4096, 1024);

	/* 64 bytes of entry, 7.2 of buckets. */
	nr = min_t(uint64_t, nr, bytes / 8 / 72);
	return (uint32_t)min_t(uint64_t, nr, DRAM_KEYS_MAX);
}

/* What segments may take, their metadata included. */
static uint64_t resize_budget(const struct dram *d)
{
	return d->bytes > d->fixed_bytes ? d->bytes - d->fixed_bytes : 0;
}

int dram_resize_grow(struct dram *d)
{
	uint64_t left, bytes;
	int err;

	for (;;) {
		left = resize_budget(d) - d->arena.cost_bytes;
		bytes = align_down(min_t(uint64_t, left, d->seg_bytes), DRAM_SEG_BYTES_MIN);
		while (bytes && dram_arena_seg_cost(bytes) > left)
			bytes -= DRAM_SEG_BYTES_MIN;
		if (!bytes)
			return 0;
		err = dram_arena_add(&d->arena, bytes);
		if (err)
			return err == -ENOSPC ? 0 : err;
	}
}

/* Retires from the last one on until the rest fits. */
static void resize_retire(struct dram *d)
{
	struct dram_arena *a = &d->arena;
	uint64_t keep = 0;

	for (uint32_t i = 0; i < a->nr_segs; i++) {
		if (!a->segs[i].reg || a->segs[i].is_retiring)
			continue;
		keep += dram_arena_seg_cost(a->segs[i].reg->len);
		if (keep > resize_budget(d)) {
			keep -= dram_arena_seg_cost(a->segs[i].reg->len);
			dram_arena_retire(a, i);
		}
	}
}

static void resize_evict(struct dram *d, struct dram_entry *e)
{
	if (e->is_back)
		return;
	if (e->is_dirty) {
		dram_back_start(d, e, true);
		return;
	}
	/* A pinned one leaves the index now and its memory with the last pin. */
	counter_add(&d->count.evictions, 1);
	counter_add(&d->count.evicted_bytes, e->len);
	dram_value_drop(d, e);
}

/* A bounded walk over the entries. True: a whole round found none that is in the way. */
static bool resize_sweep(struct dram *d)
{
	struct dram_entry *e;

	for (uint32_t i = 0; i < DRAM_EVICT_TURN; i++) {
		if (d->resize_at > d->ix.nr_high) {
			d->resize_at = 1;
			return true;
		}
		e = &d->ix.slab[d->resize_at++];
		if (e->is_linked && dram_value_is_retiring(d, e))
			resize_evict(d, e);
	}
	return false;
}

static bool resize_reap(struct dram *d)
{
	bool is_left = false;

	for (uint32_t i = 0; i < d->arena.nr_segs; i++)
		if (d->arena.segs[i].reg && d->arena.segs[i].is_retiring)
			is_left |= !dram_arena_reap(&d->arena, i);
	dram_count(d);
	return !is_left;
}

int dram_resize(struct store *s, uint64_t bytes)
{
	struct dram *d = dram_enter(s);
	int err;

	if (bytes < d->fixed_bytes + dram_arena_seg_cost(DRAM_SEG_BYTES_MIN))
		return -EINVAL;
	if (bytes != d->bytes) {
		d->bytes = bytes;
		d->prefetch.tier_bytes = bytes;
		d->resize_at = 1;
		resize_retire(d);
	}
	if (!resize_reap(d)) {
		resize_sweep(d);
		while (dram_promote_cancel_one(d))
			;
		if (!resize_reap(d))
			return -EAGAIN;
	}
	err = dram_resize_grow(d);
	dram_count(d);
	return err;
}
