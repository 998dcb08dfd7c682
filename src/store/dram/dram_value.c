/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A value's memory and its life: made unpublished by BUF, linked by PUT or FILL (dram_put.c),
 * pinned by views, dropped by whoever replaces, deletes, evicts or distrusts it, destroyed with the
 * last pin.
 *
 *   entry: key, ver, seal of the only chunk, first extent        (dram_index.h)
 *   side:  [meta, 80 bytes] [further extents, 8 each] [seals, 8 per chunk, if more than one]
 *
 * The readers of a view (runs, seals, meta) run on any reactor; the rest on the owner.
 */
#include "store/dram/dram_int.h"

#include <errno.h>
#include <string.h>

#include "base/container.h"
#include "base/must.h"

#define VALUE_META_BYTES 80u

_Static_assert(sizeof(struct store_meta) <= VALUE_META_BYTES, "meta fits");

static uint64_t value_chunks(uint64_t len)
{
	return div_round_up(len, MEM_CHUNK_BYTES);
}

/*
 * How far a value may be scattered before an eviction is the better way. Measured with random sizes
 * after the content was replaced 100 times: at 8 + one per 64 KiB, values take 88 to 96 % of the
 * whole capacity (4 to 256 KiB: 93 %, in 6 pieces on average); at half of that it is 80 %, at twice
 * as many 1 % more.
 */
static uint32_t value_exts_max(uint64_t len)
{
	return (uint32_t)min_t(uint64_t, 8 + len / 65536, DRAM_EXTS_MAX);
}

static uint64_t side_bytes(struct dram_ext first, uint64_t len)
{
	uint64_t chunks = value_chunks(len);

	return (first.has_meta ? VALUE_META_BYTES : 0) + first.nr_more * sizeof(struct dram_ext) +
	       (chunks > 1 ? chunks * sizeof(uint64_t) : 0);
}

static struct dram_ext *side_exts(const struct dram *d, const struct dram_entry *e)
{
	uint8_t *side = dram_heap_at(&d->side, e->side);

	return (struct dram_ext *)(side + (e->ext.has_meta ? VALUE_META_BYTES : 0));
}

static uint64_t *side_seals(const struct dram *d, const struct dram_entry *e)
{
	return (uint64_t *)(side_exts(d, e) + e->ext.nr_more);
}

static void value_free_memory(struct dram *d, struct dram_entry *e)
{
	uint64_t bytes = side_bytes(e->ext, e->len);

	if (e->ext.nr_more)
		dram_arena_free(&d->arena, side_exts(d, e), e->ext.nr_more);
	if (e->ext.nr)
		dram_arena_free(&d->arena, &e->ext, 1);
	if (bytes)
		dram_heap_free(&d->side, e->side, bytes);
	d->value_bytes -= e->len;
}

static int value_take_memory(struct dram *d, struct dram_entry *e, bool has_meta)
{
	struct dram_ext ext[DRAM_EXTS_MAX] = {{.nr = 0}};
	uint64_t bytes;
	int nr = 0;

	if (e->len) {
		nr = dram_arena_alloc(&d->arena, e->len, ext, value_exts_max(e->len));
		if (nr < 0)
			return nr;
		ext[0].nr_more = (uint64_t)nr - 1;
	}
	ext[0].has_meta = has_meta;
	bytes = side_bytes(ext[0], e->len);
	e->ext = ext[0];
	if (bytes) {
		e->side = dram_heap_alloc(&d->side, bytes);
		if (e->side == DRAM_SIDE_NONE) {
			dram_arena_free(&d->arena, ext, (uint32_t)nr);
			return -ENOSPC;
		}
		memset(dram_heap_at(&d->side, e->side), 0, bytes);
		memcpy(side_exts(d, e), ext + 1, e->ext.nr_more * sizeof(*ext));
	}
	d->value_bytes += e->len;
	return 0;
}

struct dram_entry *dram_value_create(struct dram *d, const struct store_key *key, uint64_t len,
				     bool has_meta)
{
	struct dram_entry *e;

	must(len < 1ull << 28);
	if (d->arena.free_bytes < align_up(len, DRAM_GRANULE))
		return NULL;
	e = dram_index_get(&d->ix);
	if (!e)
		return NULL;
	e->key[0] = key->w[0];
	e->key[1] = key->w[1];
	e->key_len = key->len;
	e->len = len;
	e->is_buf = true;
	if (d->has_scores)
		d->notes[dram_index_no(&d->ix, e)].score = 0;
	if (value_take_memory(d, e, has_meta)) {
		dram_index_put(&d->ix, e);
		return NULL;
	}
	d->nr_bufs++;
	dram_count(d);
	return e;
}

void dram_value_destroy(struct dram *d, struct dram_entry *e)
{
	must(!e->is_linked && !e->pins && !e->is_back);
	value_free_memory(d, e);
	d->nr_bufs -= e->is_buf;
	dram_index_put(&d->ix, e);
	dram_count(d);
}

int dram_value_set_meta(struct dram *d, struct dram_entry *e, const struct store_meta *meta)
{
	struct dram_entry old = *e;
	uint64_t bytes = side_bytes(e->ext, e->len);
	uint32_t side;

	must(e->is_buf);
	if (!e->ext.has_meta) {
		side = dram_heap_alloc(&d->side, bytes + VALUE_META_BYTES);
		if (side == DRAM_SIDE_NONE)
			return -ENOSPC;
		e->side = side;
		e->ext.has_meta = true;
		if (bytes) {
			memcpy(side_exts(d, e), dram_heap_at(&d->side, old.side), bytes);
			dram_heap_free(&d->side, old.side, bytes);
		}
		dram_count(d);
	}
	memcpy(dram_heap_at(&d->side, e->side), meta, sizeof(*meta));
	return 0;
}

void dram_value_set_dirty(struct dram *d, struct dram_entry *e, bool is_dirty)
{
	if (e->is_dirty != is_dirty)
		d->dirty_bytes += is_dirty ? e->len : -(uint64_t)e->len;
	counter_set(&d->count.dirty, d->dirty_bytes);
	e->is_dirty = is_dirty;
	if (is_dirty)
		dram_bits_set(&d->dirty, dram_index_no(&d->ix, e));
	else
		dram_bits_clear(&d->dirty, dram_index_no(&d->ix, e));
}

static uint16_t value_class(const struct dram *d, const struct dram_entry *e)
{
	const struct store_meta *meta = dram_heap_at(&d->side, e->side);

	return meta->cls;
}

void dram_value_link(struct dram *d, struct dram_entry *e, uint64_t hash)
{
	dram_index_link(&d->ix, e, hash);
	evict_insert(&d->evict, dram_index_no(&d->ix, e));
	if (e->ext.has_meta)
		dram_class_add(&d->classes, value_class(d, e), e->len);
}

void dram_value_drop(struct dram *d, struct dram_entry *e)
{
	dram_index_unlink(&d->ix, e);
	if (e->is_fetched)
		dram_fetch_wasted(d, e);
	if (e->ext.has_meta)
		dram_class_sub(&d->classes, value_class(d, e), e->len);
	if (!e->is_parked)
		evict_remove(&d->evict, dram_index_no(&d->ix, e));
	e->is_parked = false;
	if (e->is_dirty)
		dram_value_set_dirty(d, e, false);
	if (!e->pins)
		dram_value_destroy(d, e);
	else
		dram_count(d);
}

void dram_value_drop_bad(struct dram *d, struct dram_entry *e)
{
	struct store_key key;

	dram_index_key(e, &key);
	counter_add(&d->count.bad_seals, 1);
	store_alert(&d->st, &key, "bytes don't fit their seal");
	if (e->is_linked)
		dram_value_drop(d, e);
	else if (e->is_rising)
		dram_promote_forget(d, e);
}

bool dram_value_is_retiring(const struct dram *d, const struct dram_entry *e)
{
	const struct dram_ext *more = side_exts(d, e);
	bool is = e->ext.nr && d->arena.segs[e->ext.seg].is_retiring;

	for (uint32_t i = 0; i < e->ext.nr_more && !is; i++)
		is = d->arena.segs[more[i].seg].is_retiring;
	return is;
}

bool dram_value_is_huge(const struct dram *d, const struct dram_entry *e)
{
	const struct dram_ext *more = side_exts(d, e);
	bool is = e->ext.nr && dram_arena_is_huge(&d->arena, e->ext);

	for (uint32_t i = 0; i < e->ext.nr_more && is; i++)
		is = dram_arena_is_huge(&d->arena, more[i]);
	return is;
}

void dram_value_pin(struct dram *d, struct dram_entry *e)
{
	must(e->pins < DRAM_PINS_MAX);
	if (e->pins++ == 0)
		d->nr_pinned++;
}

void dram_value_unpin(struct dram *d, struct dram_entry *e)
{
	must(e->pins > 0);
	if (--e->pins)
		return;
	d->nr_pinned--;
	if (!e->is_linked) {
		dram_value_destroy(d, e);
	} else if (e->is_parked) {
		/* It was the oldest when it was found pinned, so it is the next one again. */
		e->is_parked = false;
		evict_insert_cold(&d->evict, dram_index_no(&d->ix, e));
	}
}

void dram_value_view(struct dram *d, struct dram_entry *e, struct store_view *v)
{
	*v = (struct store_view){
		.st = &d->st,
		.pin = e,
		.len = e->len,
		.ver = e->ver,
		.value_len = (uint32_t)e->len,
		.tier = d->st.tier,
	};
}

void dram_value_release(struct store *s, struct store_view *v)
{
	struct dram *d = dram_of(s);
	struct dram_entry *e = v->pin;
	bool is_use;

	if (e->is_buf && !e->is_rising) {
		dram_value_destroy(d, e);
		return;
	}
	if (v->is_bad)
		dram_value_drop_bad(d, e);
	is_use = v->is_use && e->is_linked;
	dram_value_unpin(d, e);
	/* Also one that was found as a victim meanwhile: it isn't the oldest any more. */
	if (is_use && !e->is_parked)
		evict_touch(&d->evict, dram_index_no(&d->ix, e));
}

/* ---- any reactor ---- */

void dram_value_prefetch(const struct dram *d, const struct dram_entry *e, uint64_t bytes)
{
	struct mem_run run = dram_arena_run(&d->arena, e->ext);
	const uint8_t *p = run.reg->base + run.off;
	uint64_t len = min_t(uint64_t, min_t(uint64_t, run.len, e->len), bytes), at = 0;

	/* Eight a round: there are 64 of them for each command. */
	for (; at + 512 <= len; at += 512)
#pragma GCC unroll 8
		for (unsigned i = 0; i < 8; i++)
			__builtin_prefetch(p + at + i * 64);
	for (; at < len; at += 64)
		__builtin_prefetch(p + at);
}

unsigned dram_value_runs(const struct store_view *v, uint64_t off, struct mem_run *runs,
			 unsigned nr)
{
	const struct dram *d = dram_of(v->st);
	const struct dram_entry *e = v->pin;
	const struct dram_ext *more = side_exts(d, e);
	uint64_t at = 0, end;
	unsigned n = 0;

	for (uint32_t i = 0; i <= e->ext.nr_more && n < nr && off < v->value_len; i++) {
		struct mem_run run = dram_arena_run(&d->arena, i ? more[i - 1] : e->ext);

		/* The last extent is longer than the value by up to a granule. */
		end = min_t(uint64_t, at + run.len, v->value_len);
		if (off < end) {
			run.off += off - at;
			run.len = end - off;
			runs[n++] = run;
			off = end;
		}
		at = end;
	}
	return n;
}

uint64_t *dram_value_seals(const struct store_view *v)
{
	struct dram_entry *e = v->pin;

	if (v->value_len <= MEM_CHUNK_BYTES)
		return &e->seal;
	/* Parts are those of a value that is on its way up. */
	return side_seals(dram_of(v->st), e) + v->off / MEM_CHUNK_BYTES;
}

const struct store_meta *dram_value_meta(const struct store_view *v)
{
	static const struct store_meta none;
	const struct dram_entry *e = v->pin;

	if (!e->ext.has_meta)
		return &none;
	return dram_heap_at(&dram_of(v->st)->side, e->side);
}
