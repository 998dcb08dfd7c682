/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments and what the index has in them. A segment is written once from front to back, sealed
 * with a footer, and reclaimed as a whole, oldest first. Its epoch says when it was opened; epochs
 * grow and are never given twice in the life of a file.
 *
 *     FREE -> OPENING -> OPEN -> SEALING -> SEALED -> EVICTING -> FREE
 *                          \________________________________________ LOST, DEAD
 *
 * Every entry of the index is changed here, so that each segment knows how many point into it.
 * Runs on the shard's owner.
 * tidy: no-test: t_ssd_evict.c and test/model/m_ssd go through it
 */
#include "base/must.h"
#include "store/ssd/ssd_int.h"

uint64_t ssd_seg_addr(const struct ssd *s, uint32_t seg)
{
	return SSD_HEAD_BYTES + seg * s->super.seg_bytes;
}

struct ssd_bind ssd_seg_bind(const struct ssd *s, uint32_t seg, uint64_t off)
{
	return (struct ssd_bind){
		.epoch = s->segs[seg].epoch,
		.salt = s->segs[seg].salt,
		.addr = ssd_seg_addr(s, seg) + off,
		.low = s->segs[seg].low,
		.how = s->segs[seg].is_scanned ? SSD_FOOT_SCANNED : SSD_FOOT_WRITTEN,
	};
}

void ssd_seg_set(struct ssd *s, uint32_t seg, enum ssd_seg_state state)
{
	struct ssd_seg *g = &s->segs[seg];

	s->nr_free -= g->state == SSD_FREE;
	s->nr_free += state == SSD_FREE;
	g->state = (uint8_t)state;
	ssd_count(s);
}

void ssd_seg_lose(struct ssd *s, uint32_t seg, const char *why)
{
	ssd_seg_set(s, seg, SSD_LOST);
	if (why)
		store_alert(&s->st, NULL, why);
}

int ssd_seg_take(struct ssd *s, uint32_t keep)
{
	uint32_t i;

	if (s->nr_free < SSD_FREE_WANTED)
		ssd_evict_kick(s);
	if (s->nr_free <= keep)
		return -1;
	for (uint32_t n = 0; n < s->nr_segs; n++) {
		i = (s->seg_next + n) % s->nr_segs;
		if (s->segs[i].state != SSD_FREE || s->segs[i].nr_reads)
			continue;
		s->seg_next = i + 1;
		s->segs[i].is_scanned = s->segs[i].is_closed = s->segs[i].has_twins = false;
		s->segs[i].twin_epoch = 0;
		return (int)i;
	}
	return -1;
}

int ssd_seg_oldest(const struct ssd *s)
{
	int oldest = -1;

	for (uint32_t i = 0; i < s->nr_segs; i++)
		if (s->segs[i].state == SSD_SEALED &&
		    (oldest < 0 || s->segs[i].epoch < s->segs[oldest].epoch))
			oldest = (int)i;
	return oldest;
}

bool ssd_seg_has_older(const struct ssd *s, uint32_t but, uint64_t epoch)
{
	for (uint32_t i = 0; i < s->nr_segs; i++)
		if (i != but && s->segs[i].state != SSD_FREE && s->segs[i].state != SSD_DEAD &&
		    s->segs[i].state != SSD_HOLLOW && s->segs[i].epoch <= epoch)
			return true;
	return false;
}

int ssd_seg_last_twin(const struct ssd *s, uint32_t seg)
{
	uint64_t top = max_t(uint64_t, s->segs[seg].epoch, s->segs[seg].twin_epoch);
	int last = -1;

	if (!s->segs[seg].has_twins)
		return -1;
	for (uint32_t i = 0; i < s->nr_segs; i++) {
		const struct ssd_seg *g = &s->segs[i];

		if (g->state == SSD_FREE || g->state == SSD_OPENING || g->state == SSD_DEAD ||
		    g->state == SSD_HOLLOW || i == seg || g->epoch > top)
			continue;
		if (g->state == SSD_LOST)
			return (int)i; /* it outlives all others */
		if (last < 0 || g->epoch > s->segs[last].epoch)
			last = (int)i;
	}
	return last;
}

/* ---- entries --------------------------------------------------------------------------------- */

void ssd_seg_twin(struct ssd *s, uint32_t seg, uint64_t epoch)
{
	struct ssd_seg *g = &s->segs[seg];

	g->has_twins = true;
	g->twin_epoch = max_t(uint64_t, g->twin_epoch, epoch);
}

/* What e told of may still be there, and what else there was of the key; no record of a tomb. */
static void seg_inherit(struct ssd *s, const struct ssd_entry *e, uint32_t seg)
{
	const struct ssd_seg *from = &s->segs[e->seg];

	ssd_seg_twin(s, seg, e->is_tomb ? 0 : max_t(uint64_t, from->epoch, from->twin_epoch));
}

void ssd_seg_enter(struct ssd *s, const struct store_key *key, const struct ssd_place *p)
{
	struct ssd_entry *e = ssd_index_find(&s->ix, key);

	if (e) {
		must(s->segs[e->seg].nr_entries > 0);
		if (e->seg != p->seg)
			seg_inherit(s, e, p->seg);
		s->segs[e->seg].nr_entries--;
		s->segs[e->seg].nr_live -= !e->is_ghost;
		s->value_bytes -= e->is_ghost ? 0 : e->len;
	} else {
		e = ssd_index_add(&s->ix, key);
	}
	e->seg = p->seg;
	e->off = p->off;
	e->ver = p->ver;
	e->len = p->len;
	e->hits = 0;
	e->is_tomb = p->is_tomb;
	ssd_index_set_ghost(&s->ix, e, p->is_ghost);
	s->segs[p->seg].nr_entries++;
	s->segs[p->seg].nr_live += !p->is_ghost;
	s->value_bytes += p->is_ghost ? 0 : p->len;
	if (p->ver > s->ver)
		s->ver = p->ver;
	ssd_count(s);
}

void ssd_seg_drop(struct ssd *s, struct ssd_entry *e)
{
	must(s->segs[e->seg].nr_entries > 0);
	s->segs[e->seg].nr_entries--;
	s->segs[e->seg].nr_live -= !e->is_ghost;
	s->value_bytes -= e->is_ghost ? 0 : e->len;
	ssd_index_remove(&s->ix, e);
	ssd_count(s);
}

int ssd_seg_new_twin(const struct ssd *s, uint32_t seg)
{
	return s->segs[seg].twin_epoch > s->epoch_begin ? ssd_seg_last_twin(s, seg) : -1;
}

void ssd_seg_forget(struct ssd *s, struct ssd_entry *e, int twin)
{
	struct ssd_place p = {.ver = e->ver, .is_ghost = true};
	struct store_key key;

	if (!e->is_ghost) {
		counter_add(&s->count.evictions, 1);
		counter_add(&s->count.evicted_bytes, e->len);
	}
	if (twin < 0) {
		ssd_seg_drop(s, e);
		return;
	}
	p.seg = (uint32_t)twin;
	ssd_index_key(e, &key);
	ssd_seg_enter(s, &key, &p);
}

void ssd_seg_ghost(struct ssd *s, struct ssd_entry *e)
{
	s->segs[e->seg].nr_live -= !e->is_ghost;
	s->value_bytes -= e->is_ghost ? 0 : e->len;
	ssd_index_set_ghost(&s->ix, e, true);
	ssd_count(s);
}

struct ssd_entry *ssd_seg_live(struct ssd *s, const struct store_key *key)
{
	struct ssd_entry *e = ssd_index_find(&s->ix, key);

	return e && ssd_seg_serves(s, e) ? e : NULL;
}

bool ssd_seg_is_new(const struct ssd *s, uint32_t seg)
{
	return s->segs[seg].epoch > s->epoch_begin;
}

bool ssd_seg_serves(const struct ssd *s, const struct ssd_entry *e)
{
	bool is_final = !s->unread_epoch || ssd_seg_is_new(s, e->seg) ||
			s->segs[e->seg].low > s->unread_epoch;

	return !e->is_ghost && is_final && ssd_health_may_read(s);
}
