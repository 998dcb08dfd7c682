/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dram tier: values in sealed memfd segments, found by an index of one cache line per key,
 * evicted by a policy. See dram_int.h for the parts and for how versions hold together; here it is
 * made, counted and ended.
 *
 * Runs on the shard's owner, except that stats may be asked by any thread and create runs before
 * there is an owner.
 */
#include "store/dram/dram_back_int.h"
#include "store/dram/dram_fetch_int.h"
#include "store/dram/dram_int.h"
#include "store/dram/dram_promote_int.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/container.h"
#include "base/must.h"
#include "store/store_make.h"

#define DRAM_PAGE 4096u
/*
 * Segments per shard when the caller leaves it to us: few enough for clients to map, enough to
 * shrink in steps.
 */
#define DRAM_SEGS_WANTED 8u

static const struct store_ops dram_ops;

void dram_bind(struct dram *d)
{
	d->ix.nr_shards = store_set_nr_shards(d->st.set);
	d->ix.shard = d->st.shard;
	if (dram_is_far(d))
		d->ver = max_t(uint64_t, d->ver, DRAM_VER_FAR);
	d->is_bound = true;
}

void dram_count(struct dram *d)
{
	const struct dram_arena *a = &d->arena;

	/* While it shrinks, what is still there. */
	counter_set(&d->count.capacity, max_t(uint64_t, d->bytes, d->fixed_bytes + a->cost_bytes));
	/* Of segments the metadata count whole, the memory as it is taken. */
	counter_set(&d->count.used,
		    d->fixed_bytes + a->cost_bytes - a->bytes - a->retiring_bytes + a->used_bytes);
	counter_set(&d->count.value, d->value_bytes);
	counter_set(&d->count.keys, d->ix.nr_linked);
	counter_set(&d->count.index, dram_index_bytes(&d->ix));
}

/* ---- making ---- */

/* Dirty map, fences and a chunk to bounce through: one mapping. */
static int dram_map(struct dram *d, uint32_t max_keys)
{
	size_t dirty = dram_bits_bytes((uint64_t)max_keys + 1);
	uint8_t *at;

	d->map_bytes = align_up(dirty + DRAM_FENCES * sizeof(uint32_t) + MEM_CHUNK_BYTES +
					((size_t)max_keys + 1) * sizeof(*d->notes),
				DRAM_PAGE);
	at = mmap(NULL, d->map_bytes, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return -ENOMEM;
	d->map = at;
	dram_bits_init(&d->dirty, at, (uint64_t)max_keys + 1);
	d->fences = (uint32_t *)(at + dirty);
	d->bounce = at + dirty + DRAM_FENCES * sizeof(uint32_t);
	d->notes = (struct dram_note *)(d->bounce + MEM_CHUNK_BYTES);
	return 0;
}

static uint64_t dram_side_bytes(uint64_t bytes, uint32_t max_keys)
{
	/* Meta and seals of every key, when values are large enough for that to be little. */
	uint64_t side = min_t(uint64_t, max_keys * 96ull + bytes / 4096, bytes / 64);

	return align_up(max_t(uint64_t, side, 16384), DRAM_PAGE);
}

static int dram_tables(struct dram *d, const struct store_dram_opts *o)
{
	uint32_t max_keys = dram_resize_max_keys(o->bytes, o->max_keys);
	uint64_t side = dram_side_bytes(o->bytes, max_keys);
	int err;

	if (!max_keys)
		return -EINVAL;
	err = dram_map(d, max_keys);
	if (err)
		return err;
	err = dram_heap_init(&d->side, side);
	if (err)
		goto unmap;
	err = dram_index_init(&d->ix, max_keys);
	if (err)
		goto fini_side;
	err = dram_fresh_init(d, o->fresh_ns, max_keys);
	if (err)
		goto fini_index;
	evict_set_base(&d->evict, d->ix.slab, sizeof(struct dram_entry),
		       offsetof(struct dram_entry, lru));
	d->fixed_bytes = sizeof(*d) + DRAM_BACKS * sizeof(*d->backs) +
			 DRAM_PROMOTES * sizeof(*d->promotes) + sizeof(*d->fetch) +
			 dram_ahead_cost() + d->map_bytes + dram_heap_cost(side) +
			 dram_index_cost(max_keys) + dram_fresh_cost(d, max_keys);
	if (o->bytes < d->fixed_bytes + dram_arena_seg_cost(DRAM_SEG_BYTES_MIN)) {
		err = -EINVAL;
		goto fini_index;
	}
	return 0;

fini_index:
	dram_fresh_fini(d);
	dram_index_fini(&d->ix);
fini_side:
	dram_heap_fini(&d->side);
unmap:
	munmap(d->map, d->map_bytes);
	return err;
}

static void dram_tables_fini(struct dram *d)
{
	dram_fresh_fini(d);
	dram_index_fini(&d->ix);
	dram_heap_fini(&d->side);
	munmap(d->map, d->map_bytes);
}

static uint64_t dram_seg_bytes(const struct store_dram_opts *o)
{
	uint64_t bytes = o->segment_bytes;

	/* Whole huge pages: where there is none a device can't read straight into memory. */
	if (!bytes)
		bytes = align_up(max_t(uint64_t, o->bytes / DRAM_SEGS_WANTED, HUGEMAP_BYTES),
				 HUGEMAP_BYTES);
	return min_t(uint64_t, align_up(bytes, DRAM_SEG_BYTES_MIN), DRAM_SEG_BYTES_MAX);
}

static int dram_init(struct dram *d, const struct store_dram_opts *o)
{
	int err = evict_init(&d->evict, o->policy);

	if (err)
		return err;
	err = dram_arena_init(&d->arena);
	if (err)
		return err;
	err = dram_tables(d, o);
	if (err)
		goto fini_arena;
	d->st.ops = &dram_ops;
	d->arena.on_segment = o->on_segment;
	d->arena.on_segment_gone = o->on_segment_gone;
	d->arena.arg = o->arg;
	d->bytes = o->bytes;
	d->seg_bytes = dram_seg_bytes(o);
	d->is_through = o->is_through;
	d->is_acked_below = o->is_acked_below;
	err = dram_resize_grow(d);
	if (err)
		goto fini_tables;
	dram_count(d);
	return 0;

fini_tables:
	dram_tables_fini(d);
fini_arena:
	dram_arena_fini(&d->arena);
	return err;
}

int store_dram_create(const struct store_dram_opts *o, struct store **s)
{
	struct dram *d = calloc(1, sizeof(*d));
	int err = -ENOMEM;

	if (!d)
		return err;
	d->backs = calloc(DRAM_BACKS, sizeof(*d->backs));
	d->promotes = calloc(DRAM_PROMOTES, sizeof(*d->promotes));
	d->fetch = calloc(1, sizeof(*d->fetch));
	prefetch_init(&d->prefetch, o->bytes);
	if (d->backs && d->promotes && d->fetch && !dram_ahead_init(d))
		err = dram_init(d, o);
	if (err) {
		dram_ahead_fini(d);
		free(d->fetch);
		free(d->promotes);
		free(d->backs);
		free(d);
		return err;
	}
	*s = &d->st;
	return 0;
}

/* ---- the rest of the ops ---- */

static void dram_destroy(struct store *s)
{
	struct dram *d = dram_of(s);

	while (dram_promote_cancel_one(d))
		;
	dram_back_fini(d);
	must(!d->nr_backs && !d->nr_waits && !d->flush_head && !d->nr_throughs);
	must(!d->nr_pinned && !d->nr_bufs);
	dram_tables_fini(d);
	dram_arena_fini(&d->arena);
	dram_ahead_fini(d);
	free(d->fetch);
	free(d->promotes);
	free(d->backs);
	free(d);
}

static void dram_stats(const struct store *s, struct store_stats *st)
{
	const struct dram_counters *c = &((const struct dram *)s)->count;

	st->capacity_bytes = counter_get(&c->capacity);
	st->used_bytes = counter_get(&c->used);
	st->value_bytes = counter_get(&c->value);
	st->nr_keys = counter_get(&c->keys);
	st->index_bytes = counter_get(&c->index);
	st->hits = counter_get(&c->hits);
	st->misses = counter_get(&c->misses);
	st->puts = counter_get(&c->puts);
	st->evictions = counter_get(&c->evictions);
	st->evicted_bytes = counter_get(&c->evicted_bytes);
	st->bad_seals = counter_get(&c->bad_seals);
	st->full = counter_get(&c->full);
	st->lost = counter_get(&c->lost);
	st->dirty_bytes = counter_get(&c->dirty);
	st->fetches = counter_get(&c->fetches);
	st->fetches_dropped = counter_get(&c->fetches_dropped);
	st->fetched_bytes = counter_get(&c->fetched_bytes);
	st->fetched_used = counter_get(&c->fetched_used);
	st->fetched_wasted = counter_get(&c->fetched_wasted);
	st->ahead_bytes = counter_get(&c->ahead_bytes);
	st->ahead_used = counter_get(&c->ahead_used);
	st->ahead_wasted = counter_get(&c->ahead_wasted);
}

static unsigned dram_list_classes(const struct store *s, struct store_class *to, unsigned max)
{
	return dram_class_list(&((const struct dram *)s)->classes, to, max);
}

static int dram_step(struct store *s)
{
	struct dram *d = dram_of(s);
	int n = dram_room_step(d);

	/* After the above, which may have begun a write-back that is ready to be copied. */
	n += dram_back_step(d);
	return n + dram_fetch_step(d);
}

static bool dram_is_busy(const struct store *s)
{
	const struct dram *d = (const struct dram *)s;

	return dram_fetch_is_busy(d) || dram_ahead_is_busy(d);
}

static const struct store_ops dram_ops = {
	.name = "dram",
	.is_memory = true,
	.verb =
		{
			[STORE_BUF] = dram_put_buf,
			[STORE_PUT] = dram_put,
			[STORE_GET] = dram_get,
			[STORE_FILL] = dram_put_fill,
			[STORE_INVAL] = dram_put_inval,
			[STORE_DEL] = dram_put_del,
			[STORE_EXIST] = dram_get_exist,
			[STORE_MATCH] = dram_get_match,
			[STORE_LIST] = dram_get_list,
			[STORE_FLUSH] = dram_back_flush,
		},
	.runs = dram_value_runs,
	.seals = dram_value_seals,
	.meta = dram_value_meta,
	.release = dram_value_release,
	.prefetch = dram_get_prefetch,
	.now = dram_get_now,
	.look = dram_get_look,
	.hint = dram_hint,
	.is_busy = dram_is_busy,
	.stats = dram_stats,
	.classes = dram_list_classes,
	.step = dram_step,
	.resize = dram_resize,
	.destroy = dram_destroy,
};
