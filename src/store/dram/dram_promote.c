/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Promotion: what a get brings up from below fills a value of our own that nobody finds before it
 * is whole. Either the tier below reads straight into it (store_into): then the view that goes on
 * up is one of our memory; or its view is copied on its way, checked against its seals.
 *
 *     miss -> how long? (EXIST below) -> room, a slot -> GET below, with our memory
 *       straight: seals are there, chunks count as here        else: copied, as much as was asked
 *
 * A chunk is asked for straight by one get only: were there two, one that fails could write over
 * what the other has checked. Memory is let go by whoever wrote there last: pins.
 *
 * Published only if no put, del, fill or inval of the key (or of one that shares its fence) has
 * passed since the first piece was asked for, and nobody else has brought the key meanwhile; the
 * version is that of the tier below.
 *
 * A value takes one of DRAM_PROMOTES slots while it isn't whole; a slot whose reader went away is
 * taken over after a while, or when a put needs the room. A copy of one piece is done on the spot:
 * about 60 us for 1 MiB. Runs on the shard's owner.
 */
#include "store/dram/dram_promote_int.h"

#include <errno.h>
#include <string.h>

#include "base/container.h"
#include "base/must.h"

#define PROMOTE_IDLE 4096u /* offers without a piece for it after which a slot may be taken over */

static void promote_cancel(struct dram *d, struct dram_promote *p)
{
	struct dram_entry *e = p->e;

	p->e = NULL;
	d->nr_rising--;
	dram_value_unpin(d, e);
}

static struct dram_promote *promote_of(struct dram *d, const void *e)
{
	for (struct dram_promote *p = d->promotes; p < d->promotes + DRAM_PROMOTES; p++)
		if (e && p->e == e)
			return p;
	return NULL;
}

void dram_promote_forget(struct dram *d, const struct dram_entry *e)
{
	struct dram_promote *p = promote_of(d, e);

	if (p)
		promote_cancel(d, p);
}

bool dram_promote_cancel_one(struct dram *d)
{
	struct dram_promote *oldest = NULL;

	for (struct dram_promote *p = d->promotes; p < d->promotes + DRAM_PROMOTES; p++)
		if (p->e && (!oldest || p->used_at < oldest->used_at))
			oldest = p;
	if (oldest)
		promote_cancel(d, oldest);
	return oldest;
}

/* The slot for this very value; one from before a mutation is dropped. */
static struct dram_promote *promote_find(struct dram *d, const struct store_key *key,
					 uint32_t fence)
{
	if (!d->nr_rising)
		return NULL;
	for (struct dram_promote *p = d->promotes; p < d->promotes + DRAM_PROMOTES; p++) {
		if (!p->e || p->key.hash != key->hash || !store_key_equal(&p->key, key))
			continue;
		if (p->fence == fence)
			return p;
		promote_cancel(d, p);
	}
	return NULL;
}

bool dram_promote_is_rising(struct dram *d, const struct store_key *key)
{
	return promote_find(d, key, *dram_fence(d, key));
}

static struct dram_promote *promote_slot(struct dram *d)
{
	for (struct dram_promote *p = d->promotes; p < d->promotes + DRAM_PROMOTES; p++) {
		if (p->e && d->promote_clock - p->used_at > PROMOTE_IDLE)
			promote_cancel(d, p);
		if (!p->e)
			return p;
	}
	return NULL;
}

static struct dram_entry *promote_room(struct dram *d, const struct store_key *key, uint64_t len,
				       bool has_meta)
{
	struct dram_entry *e;

	for (uint32_t i = 0; i < DRAM_EVICT_TURN; i++) {
		e = dram_value_create(d, key, len, has_meta);
		if (e)
			return e;
		/* Not for another's that is on its way: what a device is writing to isn't free. */
		if (dram_room_evict_value(d))
			break;
	}
	return NULL;
}

static struct dram_promote *promote_begin(struct dram *d, const struct store_io *io, uint64_t len,
					  uint64_t ver, bool has_meta)
{
	const struct store_key *key = &io->key;
	uint64_t begin_ns = dram_frame((struct store_io *)io)->at_ns;
	struct dram_promote *p = promote_slot(d);
	struct dram_entry *e;

	/* Room that puts wait for isn't ours, and one value shall not sweep out everything. */
	if (!p || d->nr_waits || len > d->arena.bytes / 2)
		return NULL;
	e = promote_room(d, key, len, has_meta);
	/* Making room may have cancelled slots, never filled one. */
	if (!e)
		return NULL;
	e->is_rising = true;
	d->nr_rising++;
	dram_value_pin(d, e);
	*p = (struct dram_promote){
		.key = *key,
		.e = e,
		.ver = ver,
		.fence = *dram_fence(d, key),
		.used_at = d->promote_clock,
		.begin_ns = begin_ns,
		.nr_left = (uint32_t)div_round_up(len, MEM_CHUNK_BYTES),
	};
	return p;
}

/* ---- straight -------------------------------------------------------------------------------- */

/* The chunks that a get asks for, within its piece: [*from, return). */
static uint64_t promote_range(const struct dram_promote *p, const struct store_io *io,
			      uint64_t *from)
{
	uint64_t piece = align_down(io->off, STORE_PIECE_BYTES) + STORE_PIECE_BYTES;
	uint64_t end = min_t(uint64_t, io->off + min_t(uint64_t, io->len, STORE_PIECE_BYTES),
			     piece);

	*from = io->off / MEM_CHUNK_BYTES;
	return div_round_up(min_t(uint64_t, end, p->e->len), MEM_CHUNK_BYTES);
}

static bool promote_is_asked(const struct dram_promote *p, uint64_t from, uint64_t end)
{
	for (uint64_t c = from; c < end; c++)
		if ((p->asked[c / 64] | p->have[c / 64]) >> (c % 64) & 1)
			return true;
	return false;
}

/* Where meta goes; NULL: there is none, a piece that was copied has said so. */
static struct store_meta *promote_meta(const struct dram_entry *e, const struct store_view *v)
{
	return e->ext.has_meta ? (struct store_meta *)dram_value_meta(v) : NULL;
}

/* The get brings our memory, if nobody else writes there. */
static void promote_offer_into(struct dram *d, struct dram_promote *p, struct store_io *io)
{
	struct dram_entry *e = p->e;
	struct store_view v;
	uint64_t from, end = promote_range(p, io, &from);

	p->used_at = d->promote_clock;
	if (from >= end || promote_is_asked(p, from, end) || e->pins == DRAM_PINS_MAX)
		return;
	for (uint64_t c = from; c < end; c++)
		p->asked[c / 64] |= 1ull << (c % 64);
	dram_value_pin(d, e);
	dram_value_view(d, e, &v);
	io->into = (struct store_into){
		.st = &d->st,
		.pin = e,
		.ver = p->ver,
		.value_len = (uint32_t)e->len,
		.is_huge = dram_value_is_huge(d, e),
		.seals = dram_value_seals(&v),
		.meta = promote_meta(e, &v),
	};
	dram_frame(io)->rising = e;
}

bool dram_promote_before(struct dram *d, struct store_io *io)
{
	struct dram_promote *p;

	dram_frame(io)->rising = NULL;
	/*
	 * One piece of a short value is copied: it doesn't lie right for a device anyway. So is
	 * what a tier above has memory for.
	 */
	if ((io->len <= MEM_CHUNK_BYTES && !io->off) || io->into.st)
		return true;
	p = promote_find(d, &io->key, dram_frame(io)->fence);
	if (!p)
		return io->off != 0;
	promote_offer_into(d, p, io);
	return true;
}

void dram_promote_sized(struct dram *d, struct store_io *io, uint64_t len, uint64_t ver)
{
	struct dram_promote *p;

	if (len <= MEM_CHUNK_BYTES || *dram_fence(d, &io->key) != dram_frame(io)->fence ||
	    dram_index_find(&d->ix, &io->key) || promote_find(d, &io->key, dram_frame(io)->fence))
		return;
	/* With meta, whether there is any or not: it can't be added once somebody looks. */
	p = promote_begin(d, io, len, ver, true);
	if (p)
		promote_offer_into(d, p, io);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Meta and the chunks of the view that were asked for. False: a seal did not fit. */
static bool promote_copy(struct dram *d, struct dram_promote *p, const struct store_io *io)
{
	const struct store_view *v = &io->view;
	struct store_meta *meta;
	uint64_t from, end = promote_range(p, io, &from);
	struct store_view to;

	dram_value_view(d, p->e, &to);
	meta = promote_meta(p->e, &to);
	if (meta && memcmp(meta, store_meta(v), sizeof(*meta)) != 0)
		*meta = *store_meta(v);
	from = max_t(uint64_t, from, v->off / MEM_CHUNK_BYTES);
	end = min_t(uint64_t, end, div_round_up(v->off + v->len, MEM_CHUNK_BYTES));
	for (uint64_t c = from; c < end; c++) {
		if ((p->have[c / 64] | p->asked[c / 64]) >> (c % 64) & 1)
			continue;
		if (dram_copy_chunk(d, v, &to, &io->key, c))
			return false;
		p->have[c / 64] |= 1ull << (c % 64);
		p->nr_left--;
	}
	return true;
}

static void promote_here(struct dram_promote *p, const struct store_view *v)
{
	uint64_t end = div_round_up(v->off + v->len, MEM_CHUNK_BYTES);

	for (uint64_t c = v->off / MEM_CHUNK_BYTES; c < end; c++) {
		must(!(p->have[c / 64] >> (c % 64) & 1));
		p->have[c / 64] |= 1ull << (c % 64);
		p->nr_left--;
	}
}

static void promote_finish(struct dram *d, struct dram_promote *p)
{
	struct dram_entry *e = p->e;

	if (p->nr_left)
		return;
	if (dram_put_publish(d, e, &p->key, p->ver)) {
		promote_cancel(d, p);
		return;
	}
	dram_fresh_seen(d, e, p->begin_ns);
	p->e = NULL;
	d->nr_rising--;
	dram_value_unpin(d, e);
}

/* The chunks that were asked for straight came otherwise: they may be copied. */
static void promote_unask(struct dram_promote *p, const struct store_io *io)
{
	uint64_t from, end = promote_range(p, io, &from);

	for (uint64_t c = from; c < end; c++)
		p->asked[c / 64] &= ~(1ull << (c % 64));
}

static bool promote_has_meta(const struct store_view *v)
{
	static const struct store_meta none;

	return memcmp(store_meta(v), &none, sizeof(none)) != 0;
}

static void promote_copied(struct dram *d, struct store_io *io)
{
	struct dram_promote *p = promote_find(d, &io->key, dram_frame(io)->fence);

	if (p && (p->ver != io->ver || p->e->len != io->view.value_len)) {
		promote_cancel(d, p);
		p = NULL;
	}
	/*
	 * A slot is worth while for who reads from the start on. From far away its parts come in
	 * any order.
	 */
	if (!p && io->view.len && (io->off == 0 || (io->flags & STORE_CONTINUES && dram_is_far(d))))
		p = promote_begin(d, io, io->view.value_len, io->ver, promote_has_meta(&io->view));
	if (!p)
		return;
	p->used_at = d->promote_clock;
	if (!promote_copy(d, p, io))
		promote_cancel(d, p);
	else
		promote_finish(d, p);
}

void dram_promote_after(struct dram *d, struct store_io *io, int res)
{
	struct dram_entry *e = dram_frame(io)->rising;
	struct dram_promote *p = e ? promote_of(d, e) : NULL;
	bool is_straight = !res && e && io->view.st == &d->st && io->view.pin == e;
	bool is_back = e && io->into.st; /* nobody took it */

	d->promote_clock++;
	if (is_back) {
		io->into.st = NULL;
		if (p)
			promote_unask(p, io);
		dram_value_unpin(d, e);
		e = NULL;
	}
	/* Taken and lost on the way: those chunks will never be here. */
	if (e && !is_straight && p) {
		promote_cancel(d, p);
		p = NULL;
	}
	if (res)
		return;
	if (*dram_fence(d, &io->key) != dram_frame(io)->fence ||
	    dram_index_find(&d->ix, &io->key)) {
		p = promote_find(d, &io->key, dram_frame(io)->fence);
		if (p)
			promote_cancel(d, p);
		return;
	}
	if (!is_straight) {
		promote_copied(d, io);
	} else if (p) {
		promote_here(p, &io->view);
		promote_finish(d, p);
	}
}
