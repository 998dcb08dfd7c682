/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a recovery finds, into the index, in whatever order it comes: of each key the record of the
 * highest version counts, the later one of equal ones, unless a tombstone kills it.
 *
 * A tombstone is an entry, too, until all is known: a ghost of the version below its own, so that
 * older records that come later are known to be dead. Once one has come it is a ghost as any other;
 * those for which none came go at the end (ssd_recover_key_end()).
 * A value may come before the tombstone that kills it, too, from another stream's segment: so none
 * is refused because there are too many that live, before all are known (ssd_recover_trim.c).
 *
 * The tier serves meanwhile. An entry of this life is newer than whatever is found, and has seen to
 * it that older ones die: by a tombstone (ssd_kill.c, which leaves an entry of that kind here), or,
 * in a set whose values don't change, by being the same.
 *
 * Runs on the shard's owner.
 * tidy: no-test: t_ssd_recover.c has it, test/model/m_ssd all orders and faults
 */
#include "store/ssd/ssd_recover_int.h"

#include <errno.h>

#include "base/container.h"
#include "base/must.h"

#define KEY_WALK 1024u /* entries looked at in a turn */

/* Of two records of a key: is what was found the one that counts? Of equal versions the later. */
static bool key_is_newer(const struct ssd *s, const struct ssd_entry *e, const struct ssd_place *p)
{
	if (e->is_ghost || p->ver != e->ver)
		return p->ver > e->ver;
	if (p->seg != e->seg)
		return s->segs[p->seg].epoch > s->segs[e->seg].epoch;
	return p->off > e->off;
}

static void key_add(struct ssd_recover *r, const struct store_key *key, const struct ssd_place *p)
{
	struct ssd_index *ix = &r->s->ix;
	uint32_t b = ssd_index_bucket(ix, key);
	int err = -ENOSPC;

	/* Once full it stays so: a tombstone that found no room kills what would come later. */
	if (!r->is_full && !(r->stuffed[b / 64] >> b % 64 & 1))
		err = ssd_index_reserve_more(ix, key);
	if (!err) {
		ssd_index_unreserve(ix);
		ssd_seg_enter(r->s, key, p);
		return;
	}
	r->has_refused = true;
	r->stuffed[b / 64] |= 1ull << b % 64;
	r->is_full |= err == -ENOSPC && ix->nr_used + ix->nr_reserved >= ix->nr_max + ix->nr_more;
}

/*
 * Versions of this life are above all that an earlier one gave, unless both superblocks lied about
 * how many there were. Then it can't be told which is newer: a miss.
 */
static void value_and_new(struct ssd *s, const struct store_key *key, struct ssd_entry *e,
			  struct ssd_place *p)
{
	if (p->ver <= e->ver) {
		s->segs[e->seg].has_twins |= !e->is_tomb;
		return;
	}
	p->is_ghost = true;
	ssd_seg_enter(s, key, p);
}

static void key_value(struct ssd_recover *r, const struct ssd_rec_info *ri, uint32_t off)
{
	struct ssd *s = r->s;
	struct ssd_place p = {.seg = r->seg, .off = off, .ver = ri->ver, .len = ri->value_len};
	struct ssd_entry *e = ssd_index_find(&s->ix, &ri->key);

	if (!e) {
		key_add(r, &ri->key, &p);
	} else if (ssd_seg_is_new(s, e->seg)) {
		value_and_new(s, &ri->key, e, &p);
	} else if (key_is_newer(s, e, &p)) {
		ssd_seg_enter(s, &ri->key, &p);
	} else if (e->is_tomb) {
		/* Dead. The ghost stays as long as its record; the tombstone may not be durable. */
		p.ver = e->ver;
		p.is_ghost = true;
		ssd_seg_enter(s, &ri->key, &p);
	} else {
		s->segs[e->seg].has_twins |= e->seg != r->seg;
	}
}

/*
 * A ghost, not nothing: the tombstone that was read may be one whose sync failed, and gone at the
 * next power cut. Who changes the key meanwhile leaves one of its own.
 */
static void key_tomb(struct ssd_recover *r, const struct ssd_rec_info *ri, uint32_t off)
{
	struct ssd *s = r->s;
	struct ssd_place p = {
		.seg = r->seg, .off = off, .ver = ri->ver - 1, .is_ghost = true, .is_tomb = true};
	struct ssd_entry *e = ssd_index_find(&s->ix, &ri->key);

	if (!ri->ver)
		return;
	if (!e) {
		key_add(r, &ri->key, &p);
		return;
	}
	if (e->ver > p.ver)
		return;
	if (!e->is_ghost)
		ssd_seg_ghost(s, e);
	if (!ssd_seg_is_new(s, e->seg))
		e->ver = p.ver;
}

void ssd_recover_key_line(struct ssd_recover *r, const struct ssd_line *line)
{
	struct ssd *s = r->s;
	struct ssd_rec_info ri;
	uint32_t off;

	if (!ssd_format_line_get(line, &ri, &off))
		return;
	/* A line is as good as its block's checksum; still, nothing in it may lead outside. */
	if ((uint64_t)off * SSD_GRANULE + ssd_format_value_bytes(ri.value_len, false) >
	    s->super.seg_bytes)
		return;
	s->ver = max_t(uint64_t, s->ver, ri.ver);
	if (ri.kind == SSD_REC_VALUE)
		key_value(r, &ri, off);
	else
		key_tomb(r, &ri, off);
}

bool ssd_recover_key_stays(struct ssd_recover *r, const struct ssd_line *line)
{
	struct ssd_rec_info ri;
	struct ssd_entry *e;
	uint32_t off;

	if (!ssd_format_line_get(line, &ri, &off))
		return false;
	if (ri.kind == SSD_REC_TOMB)
		return true;
	e = ssd_index_find(&r->s->ix, &ri.key);
	return e && !e->is_ghost && e->seg == r->seg && e->off == off;
}

bool ssd_recover_key_drop(struct ssd_recover *r)
{
	struct ssd *s = r->s;
	int twin = ssd_seg_new_twin(s, r->seg);
	struct ssd_entry *e;

	for (uint32_t n = 0; n < KEY_WALK && s->segs[r->seg].nr_entries; n++) {
		e = ssd_index_walk(&s->ix, &r->walk);
		must(e); /* else nr_entries was wrong */
		r->walk++;
		if (e->seg != r->seg)
			continue;
		ssd_seg_forget(s, e, twin);
	}
	return !s->segs[r->seg].nr_entries;
}

bool ssd_recover_key_end(struct ssd_recover *r)
{
	struct ssd_entry *e;

	for (uint32_t n = 0; n < KEY_WALK; n++) {
		e = ssd_index_walk(&r->s->ix, &r->walk);
		if (!e)
			return true;
		r->walk++;
		if (e->is_tomb)
			ssd_seg_drop(r->s, e);
	}
	return false;
}
