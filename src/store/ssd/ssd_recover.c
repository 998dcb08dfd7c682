/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a file to an index. Heads and footers are read, of segments without a footer the heads of
 * their records; of each key the highest version wins, then tombstones take what they kill.
 *
 * What this recovery could not see must not come back at a later one, for nobody would know of it
 * meanwhile and leave a tombstone. So a segment that was gone through is closed: a footer of what
 * was found, and a head that says that nothing else counts. One whose head or whose only footer is
 * damaged is made free, durably; where even that fails it goes on the superblock's list of the
 * dead.
 *
 * Blocking, on the thread that builds the store, before it is used.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/le.h"
#include "base/must.h"
#include "base/vec.h"
#include "store/ssd/ssd_int.h"
#include "store/ssd/ssd_recover_int.h"

#define SCAN_BYTES (128u * 1024)
#define FREE_AT_START 2u /* segments, that eviction needs to begin with */

static uint32_t recover_max_lines(const struct ssd *s)
{
	return s->stream[SSD_DATA].max_lines;
}

/* ---- what was found -------------------------------------------------------------------------- */

/* Of two records of a key: which one counts? The later one, of the same version. */
static bool recover_is_newer(const struct ssd *s, const struct ssd_entry *e,
			     const struct ssd_place *p)
{
	if (p->ver != e->ver)
		return p->ver > e->ver;
	if (p->seg != e->seg)
		return s->segs[p->seg].epoch > s->segs[e->seg].epoch;
	return p->off > e->off;
}

static void recover_value(struct ssd_recover *r, const struct ssd_rec_info *ri, uint32_t seg,
			  uint32_t off)
{
	struct ssd *s = r->s;
	struct ssd_place p = {.seg = seg, .off = off, .ver = ri->ver, .len = ri->value_len};
	struct ssd_entry *e = ssd_index_find(&s->ix, &ri->key);

	if (e && !recover_is_newer(s, e, &p)) {
		s->segs[e->seg].has_twins |= e->seg != seg;
		return;
	}
	if (!e) {
		if (ssd_index_reserve(&s->ix, &ri->key)) {
			r->is_full = true;
			return;
		}
		ssd_index_unreserve(&s->ix);
	}
	ssd_seg_enter(s, &ri->key, &p);
}

static int recover_line(struct ssd_recover *r, const struct ssd_line *line, uint32_t seg)
{
	struct ssd_rec_info ri;
	uint32_t off;

	if (!ssd_format_line_get(line, &ri, &off))
		return 0;
	/* A line is as good as its block's checksum; still, nothing in it may lead outside. */
	if ((uint64_t)off * SSD_GRANULE + ssd_format_value_bytes(ri.value_len, false) >
	    r->s->super.seg_bytes)
		return 0;
	r->s->ver = max_t(uint64_t, r->s->ver, ri.ver);
	if (ri.kind == SSD_REC_VALUE) {
		recover_value(r, &ri, seg, off);
		return 0;
	}
	return vec_push(&r->tombs, (struct ssd_recover_tomb){ri.key, ri.ver}) ? 0 : -ENOMEM;
}

static int recover_lines(struct ssd_recover *r, uint32_t seg)
{
	int err = 0;

	for (uint32_t i = 0; i < r->nr_lines && !err; i++)
		err = recover_line(r, &r->lines[i / SSD_LINES].line[i % SSD_LINES], seg);
	return err;
}

/*
 * A ghost, not nothing: the tombstone that was read may be one whose sync failed, and gone at the
 * next power cut. Who changes the key meanwhile leaves one of its own.
 */
static void recover_bury(struct ssd_recover *r)
{
	struct ssd_entry *e;

	vec_for_each(&r->tombs, t) {
		e = ssd_index_find(&r->s->ix, &t->key);
		if (e && e->ver < t->ver && !e->is_ghost)
			ssd_seg_ghost(r->s, e);
	}
}

/* ---- a segment's own footer ------------------------------------------------------------------ */

/* The lines of a footer that is whole, into r->lines; false: there is none. */
static bool footer_read(struct ssd_recover *r, uint32_t seg)
{
	struct ssd *s = r->s;
	struct ssd_bind b = ssd_seg_bind(s, seg, s->super.seg_bytes - SSD_BLOCK);
	uint32_t index, nr = 0, k;
	int n;

	if (s->dev->ops->read(s->dev, r->lines, SSD_BLOCK, b.addr) ||
	    ssd_format_footer_check(r->lines, &b, &index, &nr) < 0 || index != nr - 1 ||
	    nr > recover_max_lines(s) / SSD_LINES || (nr + 1ull) * SSD_BLOCK > s->super.seg_bytes)
		return false;
	b.addr -= (nr - 1ull) * SSD_BLOCK;
	r->nr_lines = 0;
	for (uint32_t i = 0; i < nr; i++, b.addr += SSD_BLOCK) {
		if (s->dev->ops->read(s->dev, &r->lines[i], SSD_BLOCK, b.addr))
			return false;
		n = ssd_format_footer_check(&r->lines[i], &b, &index, &k);
		if (n < 0 || index != i || k != nr || (n < (int)SSD_LINES && i < nr - 1))
			return false;
		r->nr_lines += (uint32_t)n;
	}
	s->segs[seg].nr_blocks = nr;
	return true;
}

static int block_write(struct ssd *s, const void *block, uint64_t addr)
{
	int err = s->dev->ops->write(s->dev, block, SSD_BLOCK, addr);

	ssd_health_wrote(s, STORE_WROTE_TABLES, SSD_BLOCK);
	return err ? err : s->dev->ops->sync(s->dev);
}

/* A head, durable and proven. */
static int head_write(struct ssd_recover *r, uint32_t seg, enum ssd_seg_kind kind)
{
	struct ssd *s = r->s;
	struct ssd_bind b = ssd_seg_bind(s, seg, 0);
	int err;

	ssd_format_seg(s->super.uuid, seg, kind, &b, r->block);
	err = block_write(s, r->block, b.addr);
	if (!err)
		err = s->dev->ops->read(s->dev, r->scan, SSD_BLOCK, b.addr);
	return err ? err : memcmp(r->block, r->scan, SSD_BLOCK) ? -EIO : 0;
}

/* r->lines become the segment's footer and all that counts in it. */
static int seg_close(struct ssd_recover *r, uint32_t seg)
{
	struct ssd *s = r->s;
	uint32_t nr = r->nr_lines ? (r->nr_lines - 1) / SSD_LINES + 1 : 1;
	struct ssd_bind b = ssd_seg_bind(s, seg, s->super.seg_bytes - (uint64_t)nr * SSD_BLOCK);
	int err = 0;

	for (uint32_t i = 0; i < nr && !err; i++, b.addr += SSD_BLOCK) {
		ssd_format_footer(&r->lines[i], i, nr,
				  min_t(uint32_t, r->nr_lines - i * SSD_LINES, SSD_LINES), &b);
		err = s->dev->ops->write(s->dev, &r->lines[i], SSD_BLOCK, b.addr);
		ssd_health_wrote(s, STORE_WROTE_TABLES, SSD_BLOCK);
	}
	if (!err)
		err = s->dev->ops->sync(s->dev);
	if (!err)
		err = head_write(r, seg, SSD_SEG_CLOSED);
	/* Written twice is read once: what does not come back would not come back later. */
	if (!err && !footer_read(r, seg))
		err = -EIO;
	return err;
}

/* Whatever is in it is gone for good: 0, or -errno when not even that can be made sure of. */
static int seg_free(struct ssd_recover *r, uint32_t seg)
{
	struct ssd *s = r->s;
	int err = head_write(r, seg, SSD_SEG_FREE);

	if (!err) {
		ssd_seg_set(s, seg, SSD_FREE);
		return 0;
	}
	if (s->super.nr_dead == SSD_DEAD_MAX)
		return err;
	s->super.dead[s->super.nr_dead++] = seg;
	ssd_seg_set(s, seg, SSD_DEAD);
	return ssd_super_write(s);
}

/* ---- going through a segment ----------------------------------------------------------------- */

/* The window holds a record's head at pos, or what there is; what can't be read is zero. */
static void scan_load(struct ssd_recover *r, uint32_t seg, uint64_t pos)
{
	struct ssd *s = r->s;
	uint64_t start = align_down(pos, SSD_BLOCK);
	uint32_t len = (uint32_t)min_t(uint64_t, SCAN_BYTES, s->super.seg_bytes - start);
	uint64_t at = ssd_seg_addr(s, seg) + start;

	r->scan_start = start;
	r->scan_len = len;
	if (!s->dev->ops->read(s->dev, r->scan, len, at))
		return;
	for (uint32_t i = 0; i < len; i += SSD_BLOCK)
		if (s->dev->ops->read(s->dev, r->scan + i, SSD_BLOCK, at + i))
			memset(r->scan + i, 0, SSD_BLOCK);
}

/* Where the next record may begin; ri->kind is SSD_REC_VOID when there was none at pos. */
static uint64_t scan_one(struct ssd_recover *r, uint32_t seg, uint64_t pos, struct ssd_rec_info *ri)
{
	uint64_t in = pos - r->scan_start;
	struct ssd_bind b = ssd_seg_bind(r->s, seg, pos);

	ri->kind = SSD_REC_VOID;
	if (ssd_format_rec_check(r->scan + in, r->scan_len - (uint32_t)in, &b, ri) || ri->piece) {
		ri->kind = SSD_REC_VOID;
		return pos + SSD_GRANULE;
	}
	if (ri->kind == SSD_REC_TOMB)
		return pos + align_up(sizeof(struct ssd_rec), SSD_GRANULE);
	return pos + ssd_format_value_bytes(ri->value_len, ri->has_meta);
}

static void seg_scan(struct ssd_recover *r, uint32_t seg)
{
	uint64_t pos = SSD_BLOCK, next, end = r->s->super.seg_bytes - SSD_BLOCK;
	struct ssd_rec_info ri;
	uint32_t n;

	r->nr_lines = 0;
	r->scan_len = 0;
	for (; pos < end; pos = next) {
		if (!r->scan_len || pos < r->scan_start ||
		    pos + SSD_REC_HEAD_MAX > r->scan_start + r->scan_len)
			scan_load(r, seg, pos);
		next = scan_one(r, seg, pos, &ri);
		n = r->nr_lines;
		if (ri.kind == SSD_REC_VOID || next > end || n == recover_max_lines(r->s))
			continue;
		ssd_format_line(&ri, (uint32_t)(pos / SSD_GRANULE),
				&r->lines[n / SSD_LINES].line[n % SSD_LINES]);
		r->nr_lines++;
	}
}

static int recover_seg(struct ssd_recover *r, uint32_t seg)
{
	struct ssd *s = r->s;
	struct ssd_bind b = {.addr = ssd_seg_addr(s, seg)};
	enum ssd_seg_kind kind;

	if (s->dev->ops->read(s->dev, r->block, SSD_BLOCK, b.addr) ||
	    ssd_format_seg_check(r->block, s->super.uuid, &kind, &b)) {
		/* Never used, or damaged: said to be free with the others. */
		ssd_seg_set(s, seg, SSD_OPENING);
		return 0;
	}
	s->segs[seg].epoch = b.epoch;
	s->segs[seg].salt = b.salt;
	s->epoch = max_t(uint64_t, s->epoch, b.epoch);
	if (kind == SSD_SEG_FREE) {
		ssd_seg_set(s, seg, SSD_OPENING); /* until recover_free() */
		return 0;
	}
	if (!footer_read(r, seg)) {
		if (kind == SSD_SEG_CLOSED)
			return seg_free(r, seg);
		seg_scan(r, seg);
		if (!r->nr_lines || seg_close(r, seg))
			return seg_free(r, seg);
		kind = SSD_SEG_CLOSED;
	}
	s->segs[seg].is_scanned = kind == SSD_SEG_CLOSED;
	ssd_seg_set(s, seg, SSD_SEALED);
	return recover_lines(r, seg);
}

/* ---- room to begin with ---------------------------------------------------------------------- */

/* Of values only what the index serves stays a line. */
static int seg_clean(struct ssd_recover *r, uint32_t seg, bool keeps_tombs)
{
	struct ssd *s = r->s;
	struct ssd_rec_info ri;
	struct ssd_entry *e;
	uint32_t off, nr = 0;

	if (!footer_read(r, seg))
		return -EIO;
	for (uint32_t i = 0; i < r->nr_lines; i++) {
		struct ssd_line *line = &r->lines[i / SSD_LINES].line[i % SSD_LINES];
		bool stays;

		if (!ssd_format_line_get(line, &ri, &off))
			continue;
		e = ssd_seg_live(s, &ri.key);
		stays = ri.kind == SSD_REC_VALUE ? e && e->seg == seg && e->off == off
						 : keeps_tombs;
		if (stays)
			r->lines[nr / SSD_LINES].line[nr % SSD_LINES] = *line, nr++;
	}
	r->nr_lines = nr;
	return seg_close(r, seg);
}

static int recover_forget(struct ssd_recover *r, uint32_t seg)
{
	struct ssd *s = r->s;
	struct ssd_entry *e;
	uint32_t no = 0;
	int err = seg_free(r, seg);

	for (; !err && s->segs[seg].nr_entries && (e = ssd_index_walk(&s->ix, &no)); no++)
		if (e->seg == seg)
			ssd_seg_drop(s, e);
	return err;
}

/* All that is sealed; what can't be cleaned is forgotten. */
static int recover_clean(struct ssd_recover *r, bool keeps_tombs)
{
	struct ssd *s = r->s;
	int err = 0;

	for (uint32_t i = 0; i < s->nr_segs; i++)
		if (s->segs[i].state == SSD_SEALED)
			s->segs[i].nr_faults = seg_clean(r, i, keeps_tombs) != 0;
	for (uint32_t i = 0; i < s->nr_segs && !err; i++)
		if (s->segs[i].state == SSD_SEALED && s->segs[i].nr_faults) {
			s->segs[i].nr_faults = 0;
			err = recover_forget(r, i);
		}
	return err;
}

/*
 * A crash in the middle of an eviction may leave nothing free, and eviction needs something; and a
 * smaller index than before can't know all that is there. So dead values go, and only when all of
 * them have, what killed them: then no ghost is needed either.
 */
static int recover_room(struct ssd_recover *r)
{
	struct ssd *s = r->s;
	struct ssd_entry *e;
	int seg, err;

	if (s->nr_free >= FREE_AT_START && !r->is_full)
		return 0;
	err = recover_clean(r, true);
	if (!err)
		err = recover_clean(r, false);
	for (uint32_t no = 0; !err && (e = ssd_index_walk(&s->ix, &no)); no++)
		if (e->is_ghost)
			ssd_seg_drop(s, e);
	while (!err && s->nr_free < FREE_AT_START && (seg = ssd_seg_oldest(s)) >= 0)
		err = recover_forget(r, (uint32_t)seg);
	return err;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/*
 * Nothing is written to a segment before it is used: whatever lies there, zeros or what the medium
 * held before, has no head of this file's id, and nothing that a salt of this file's covers.
 */
static void recover_format(struct ssd_recover *r)
{
	for (uint32_t i = 0; i < r->s->nr_segs; i++)
		ssd_seg_set(r->s, i, SSD_FREE);
}

/*
 * Heads that say "free" are written again: what was read may be what a failed sync left in a cache,
 * and below it lie the head and the records of a life that is over. Those that are damaged, and the
 * places of segments that were never used, are free from now on as well. One sync for all.
 */
static int recover_free(struct ssd_recover *r)
{
	struct ssd *s = r->s;
	struct ssd_bind b;
	int err = 0, lost = 0;

	for (uint32_t i = 0; i < s->nr_segs; i++) {
		if (s->segs[i].state != SSD_OPENING)
			continue;
		b = ssd_seg_bind(s, i, 0);
		ssd_format_seg(s->super.uuid, i, SSD_SEG_FREE, &b, r->block);
		lost |= s->dev->ops->write(s->dev, r->block, SSD_BLOCK, b.addr);
		ssd_health_wrote(s, STORE_WROTE_TABLES, SSD_BLOCK);
	}
	lost |= s->dev->ops->sync(s->dev);
	for (uint32_t i = 0; i < s->nr_segs && !err; i++) {
		if (s->segs[i].state != SSD_OPENING)
			continue;
		b = ssd_seg_bind(s, i, 0);
		ssd_format_seg(s->super.uuid, i, SSD_SEG_FREE, &b, r->block);
		if (lost || s->dev->ops->read(s->dev, r->scan, SSD_BLOCK, b.addr) ||
		    memcmp(r->block, r->scan, SSD_BLOCK))
			err = seg_free(r, i); /* one by one */
		else
			ssd_seg_set(s, i, SSD_FREE);
	}
	return err;
}

static int recover_segs(struct ssd_recover *r)
{
	struct ssd *s = r->s;
	int err = 0;

	for (uint32_t i = 0; i < s->super.nr_dead; i++)
		if (s->super.dead[i] < s->nr_segs)
			ssd_seg_set(s, s->super.dead[i], SSD_DEAD);
	for (uint32_t i = 0; i < s->nr_segs && !err; i++)
		if (s->segs[i].state != SSD_DEAD)
			err = recover_seg(r, i);
	if (!err)
		err = recover_free(r);
	if (err)
		return err;
	recover_bury(r);
	return recover_room(r);
}

/*
 * Versions that an earlier life gave and did not write must not be given again: each life has 2^40
 * of its own, and begins anywhere in the low 32 bits, which are all that some clients remember.
 */
static void recover_versions(struct ssd *s)
{
	uint64_t first = s->super.generation << 40 | (rng_u64(&s->rng) & UINT32_MAX);

	s->ver = s->floor = max_t(uint64_t, s->ver, first);
}

int ssd_recover(struct ssd *s, bool is_new)
{
	struct ssd_recover r = {.s = s, .lines = s->stream[SSD_DATA].lines};
	int err = -ENOMEM;

	r.block = aligned_alloc(SSD_BLOCK, SSD_BLOCK);
	r.scan = aligned_alloc(SSD_BLOCK, SCAN_BYTES);
	/* Not yet free, whatever they are. */
	for (uint32_t i = 0; i < s->nr_segs; i++)
		s->segs[i].state = SSD_LOST;
	if (r.block && r.scan)
		err = is_new ? 0 : recover_segs(&r);
	if (is_new)
		recover_format(&r);
	if (!err)
		err = ssd_super_write(s);
	recover_versions(s);
	s->epoch_begin = s->epoch;
	vec_fini(&r.tombs);
	free(r.scan);
	free(r.block);
	return err;
}

void ssd_recover_close(struct ssd *s)
{
	/* As when a segment is sealed: a footer isn't there before what it names. */
	if (s->dev->ops->sync(s->dev))
		return;
	for (uint32_t i = 0; i < SSD_STREAMS; i++) {
		struct ssd_stream *st = &s->stream[i];
		uint64_t off;
		uint32_t nr;

		if (st->state != SSD_STREAM_OPEN || st->is_lost)
			continue;
		nr = ssd_log_footer(st, &off);
		for (uint32_t k = 0; k < nr; k++)
			if (s->dev->ops->write(s->dev, &st->lines[k], SSD_BLOCK,
					       off + (uint64_t)k * SSD_BLOCK))
				return;
	}
	s->dev->ops->sync(s->dev);
}
