/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Promotion: what a get brings up from below is copied on its way, piece by piece, checked against
 * its seals, into a value of our own that nobody sees before it is whole. The view from below goes
 * on up as it is.
 *
 * Published only if no put, del, fill or inval of the key (or of one that shares its fence) has
 * passed since the first piece was asked for, and nobody else has brought the key meanwhile; the
 * version is that of the tier below.
 *
 * A value that comes in one piece is copied and published at once. A larger one takes one of
 * DRAM_PROMOTES slots; a slot whose reader went away is taken over after a while, or when a put
 * needs the room. A copy of one piece is done on the spot: about 60 us for 1 MiB. Runs on the
 * shard's owner.
 */
#include "store/dram/dram_promote_int.h"

#include <string.h>

#include "base/container.h"
#include "base/must.h"

#define PROMOTE_IDLE 1024u /* offers without a piece for it after which a slot may be taken over */

static void promote_cancel(struct dram *d, struct dram_promote *p)
{
	dram_value_destroy(d, p->e);
	p->e = NULL;
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

/* The slot for this very value; one of another version, or from before a mutation, is dropped. */
static struct dram_promote *promote_find(struct dram *d, const struct store_io *io, uint32_t fence)
{
	for (struct dram_promote *p = d->promotes; p < d->promotes + DRAM_PROMOTES; p++) {
		if (!p->e || !store_key_equal(&p->key, &io->key))
			continue;
		if (p->ver == io->ver && p->fence == fence && p->e->len == io->view.value_len)
			return p;
		promote_cancel(d, p);
	}
	return NULL;
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

static struct dram_entry *promote_room(struct dram *d, const struct store_io *io)
{
	static const struct store_meta none;
	const struct store_meta *meta = store_meta(&io->view);
	bool has_meta = memcmp(meta, &none, sizeof(none)) != 0;
	struct dram_entry *e;

	for (uint32_t i = 0; i < DRAM_EVICT_TURN; i++) {
		e = dram_value_create(d, &io->key, io->view.value_len, has_meta);
		if (e) {
			if (has_meta)
				must(dram_value_set_meta(d, e, meta) == 0);
			return e;
		}
		if (dram_room_evict(d))
			break;
	}
	return NULL;
}

static struct dram_promote *promote_begin(struct dram *d, const struct store_io *io, uint32_t fence)
{
	struct dram_promote *p = promote_slot(d);
	struct dram_entry *e;

	/* Room that puts wait for isn't ours, and one value shall not sweep out everything. */
	if (!p || d->nr_waits || io->view.value_len > d->arena.bytes / 2)
		return NULL;
	e = promote_room(d, io);
	/* Making room may have cancelled slots, never filled one. */
	if (!e)
		return NULL;
	*p = (struct dram_promote){
		.key = io->key,
		.e = e,
		.ver = io->ver,
		.fence = fence,
		.nr_left = (uint32_t)div_round_up(e->len, MEM_CHUNK_BYTES),
	};
	return p;
}

/* Chunks of the view that were asked for, one piece at most. False: a seal did not fit. */
static bool promote_copy(struct dram *d, struct dram_promote *p, const struct store_io *io)
{
	const struct store_view *v = &io->view;
	uint64_t from = max_t(uint64_t, align_down(io->off, MEM_CHUNK_BYTES), v->off);
	uint64_t len = min_t(uint64_t, io->len, STORE_PIECE_BYTES);
	uint64_t end = min_t(uint64_t, io->off + len, v->off + v->len);
	struct store_view to;

	dram_value_view(d, p->e, &to);
	for (uint64_t c = from / MEM_CHUNK_BYTES; c * MEM_CHUNK_BYTES < end; c++) {
		if (p->have[c / 64] >> (c % 64) & 1)
			continue;
		if (dram_copy_chunk(d, v, &to, &io->key, c))
			return false;
		p->have[c / 64] |= 1ull << (c % 64);
		p->nr_left--;
	}
	return true;
}

void dram_promote_offer(struct dram *d, struct store_io *io, uint32_t fence)
{
	struct dram_promote *p = promote_find(d, io, fence);

	d->promote_clock++;
	if (*dram_fence(d, &io->key) != fence || dram_index_find(&d->ix, &io->key)) {
		if (p)
			promote_cancel(d, p);
		return;
	}
	/* A slot is worth while for who reads from the start on. */
	if (!p && io->off == 0 && io->view.len)
		p = promote_begin(d, io, fence);
	if (!p)
		return;
	p->used_at = d->promote_clock;
	if (!promote_copy(d, p, io)) {
		promote_cancel(d, p);
		return;
	}
	if (p->nr_left)
		return;
	if (dram_put_publish(d, p->e, &io->key, p->ver))
		promote_cancel(d, p);
	p->e = NULL;
}
