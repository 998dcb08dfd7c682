/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One segment by itself: is its footer whole, is each record where its line says, and do its
 * values fit their seals. See ssd_fsck.h.
 * tidy: no-test: t_ssd_fsck.c has it
 *
 * What may be a crash's work and what can't: a record's head that a footer names was written
 * before the footer, or was seen whole by the recovery that wrote it. In a segment that had no
 * footer when the daemon died, payloads and later pieces may be torn, for nothing says that they
 * had been written.
 */
#include <stdio.h>
#include <string.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/le.h"
#include "base/parse.h"
#include "peal/seal.h"
#include "store/ssd/ssd_fsck_int.h"

/* ---- footers --------------------------------------------------------------------------------- */

static struct ssd_bind seg_bind(const struct fsck *f, uint32_t seg, uint64_t addr)
{
	return (struct ssd_bind){f->segs[seg].epoch, f->segs[seg].salt, addr};
}

/* Does it look like a block of this segment's footer, whole or not? */
static bool footer_shows(const struct ssd_footer *foot, const struct ssd_bind *b)
{
	unsigned nr = memcmp(foot->magic, "PFoo", 4) == 0;

	nr += le64_get(foot->epoch) == b->epoch;
	nr += le64_get(foot->salt) == b->salt;
	nr += le64_get(foot->addr) == b->addr;
	return nr >= 3;
}

/* As it lies there or, where a crash has torn it, as it lies among the copies. */
static const struct ssd_footer *footer_at(struct fsck *f, uint32_t seg, uint64_t addr)
{
	const struct ssd_footer *foot = (const void *)ssd_fsck_at(f, addr, SSD_BLOCK, 0);
	struct ssd_bind b = seg_bind(f, seg, addr);
	uint32_t index, nr;

	if (!f->segs[seg].is_closed || ssd_format_footer_check(foot, &b, &index, &nr) >= 0)
		return foot;
	for (uint32_t i = 0; i < SSD_FOOT_COPIES; i++) {
		if (ssd_format_footer_check(&f->copies[i], &b, &index, &nr) < 0)
			continue;
		f->has_copied = true;
		return &f->copies[i];
	}
	return foot;
}

static int footer_block(struct fsck *f, uint32_t seg, uint64_t addr, uint32_t *index, uint32_t *nr)
{
	struct ssd_bind b = seg_bind(f, seg, addr);

	return ssd_format_footer_check(footer_at(f, seg, addr), &b, index, nr);
}

/* How many blocks; 0: there is none that is whole, and does something show that there was one? */
static uint32_t footer_find(struct fsck *f, uint32_t seg, enum ssd_fsck_gravity *g, bool *shows)
{
	uint64_t end = fsck_addr(f, seg) + f->super.seg_bytes, addr = end - SSD_BLOCK;
	struct ssd_bind b = seg_bind(f, seg, addr);
	uint32_t index, nr, k;
	int n = footer_block(f, seg, addr, &index, &nr);

	*g = SSD_FSCK_DAMAGE;
	if (n < 0 || index != nr - 1) {
		*shows = footer_shows((const void *)ssd_fsck_at(f, addr, SSD_BLOCK, 0), &b);
		/* Blocks are written forward: a crash leaves the first ones. */
		if (!*shows && footer_block(f, seg, addr - SSD_BLOCK, &index, &nr) >= 0) {
			*shows = true;
			*g = SSD_FSCK_TORN;
		}
		return 0;
	}
	*shows = true;
	if ((nr + 1ull) * SSD_BLOCK > f->super.seg_bytes)
		return 0;
	addr = end - (uint64_t)nr * SSD_BLOCK;
	for (uint32_t i = 0; i < nr; i++, addr += SSD_BLOCK) {
		n = footer_block(f, seg, addr, &index, &k);
		if (n < 0 || index != i || k != nr || (n < (int)SSD_LINES && i < nr - 1))
			return 0;
	}
	return nr;
}

/* ---- line by line ---------------------------------------------------------------------------- */

static void lines_of_footer(struct fsck *f, uint32_t seg, fsck_line_fn *fn)
{
	uint64_t addr = fsck_addr(f, seg) + f->super.seg_bytes;
	struct ssd_rec_info ri;
	uint32_t off, index, nr;
	int n;

	addr -= (uint64_t)f->segs[seg].nr_blocks * SSD_BLOCK;
	for (uint32_t i = 0; i < f->segs[seg].nr_blocks; i++, addr += SSD_BLOCK) {
		n = footer_block(f, seg, addr, &index, &nr);
		/* The window moves while lines are looked at. */
		memcpy(f->foot, footer_at(f, seg, addr), SSD_BLOCK);
		for (int k = 0; k < n; k++) {
			const struct ssd_line *line = &f->foot->line[k];

			off = le32_get(line->off);
			if (!ssd_format_line_get(line, &ri, &off) && ri.kind != SSD_REC_VOID)
				ri.key.len = 0; /* nonsense */
			fn(f, seg, &ri, off);
		}
	}
}

static void lines_of_records(struct fsck *f, uint32_t seg, fsck_line_fn *fn)
{
	uint64_t base = fsck_addr(f, seg), pos = SSD_BLOCK, next;
	uint64_t end = f->super.seg_bytes - SSD_BLOCK;
	struct ssd_rec_info ri;

	for (; pos < end; pos = next) {
		struct ssd_bind b = seg_bind(f, seg, base + pos);
		uint32_t room = (uint32_t)min_t(uint64_t, SSD_REC_HEAD_MAX,
						f->super.seg_bytes - pos);
		const uint8_t *at = ssd_fsck_at(f, base + pos, room, FSCK_AHEAD_BYTES);

		next = pos + SSD_GRANULE;
		if (ssd_format_rec_check(at, room, &b, &ri) || ri.piece)
			continue;
		if (ri.kind == SSD_REC_TOMB)
			next = pos + align_up(sizeof(struct ssd_rec), SSD_GRANULE);
		else
			next = pos + ssd_format_value_bytes(ri.value_len, ri.has_meta);
		if (next > end) {
			next = pos + SSD_GRANULE;
			continue;
		}
		if (f->segs[seg].is_closed && ri.kind != SSD_REC_TOMB)
			continue;
		ri.key.hash = hash_key(ri.key.b, ri.key.len);
		fn(f, seg, &ri, (uint32_t)(pos / SSD_GRANULE));
	}
}

void ssd_fsck_seg_lines(struct fsck *f, uint32_t seg, fsck_line_fn *fn)
{
	if (f->segs[seg].nr_blocks)
		lines_of_footer(f, seg, fn);
	else
		lines_of_records(f, seg, fn);
}

/* ---- records --------------------------------------------------------------------------------- */

static void entry_bad(struct fsck *f, uint32_t seg, const struct ssd_rec_info *ri, uint32_t off,
		      const char *what)
{
	struct ssd_fsck_seg *out = f->out;
	bool is_written = f->segs[seg].how == SSD_FOOT_WRITTEN || out->state == SSD_FSCK_SEALED;
	bool is_torn = !is_written && what[0] == '+';
	char key[PARSE_KEY_TEXT_BYTES];

	what += what[0] == '+';
	format_key(ri->key.b, ri->key.len, key);
	ssd_fsck_say(f, is_torn ? SSD_FSCK_TORN : SSD_FSCK_DAMAGE, seg,
		     fsck_addr(f, seg) + (uint64_t)off * SSD_GRANULE, "key %s, version %llu: %s",
		     key, (unsigned long long)ri->ver, what);
	out->nr_bad++;
	if (f->bad.nr < FSCK_BAD_MAX && !vec_push(&f->bad, fsck_place(seg, off)))
		f->has_no_memory = true;
}

static bool rec_is_same(const struct ssd_rec_info *a, const struct ssd_rec_info *b)
{
	return a->kind == b->kind && a->key.len == b->key.len &&
	       memcmp(a->key.b, b->key.b, 16) == 0 && a->ver == b->ver &&
	       a->value_len == b->value_len;
}

/*
 * The record at `addr`, piece `no` of what the line says. NULL, or what is wrong; "+" before what a
 * crash may do.
 */
static const char *piece_check(struct fsck *f, const struct ssd_rec_info *line,
			       const struct ssd_bind *b, uint32_t no)
{
	bool is_packed = line->value_len <= SSD_PACKED_MAX;
	uint32_t ahead = is_packed ? FSCK_AHEAD_BYTES : f->o->has_data ? FSCK_WINDOW_BYTES : 0;
	uint64_t seals[SSD_PIECE_SEALS], key_hash = line->key.hash;
	struct ssd_rec_info ri;
	const uint8_t *at = ssd_fsck_at(f, b->addr, SSD_REC_HEAD_MAX, ahead);
	uint32_t len;

	if (ssd_format_rec_check(at, SSD_REC_HEAD_MAX, b, &ri))
		return no ? "+a piece is damaged" : "its record's head is damaged";
	if (ri.piece != no || !rec_is_same(&ri, line))
		return no ? "+a piece is another's" : "its record is another's";
	if (!f->o->has_data || ri.kind != SSD_REC_VALUE)
		return NULL;
	ssd_format_rec_seals(at, &ri, seals);
	at = ssd_fsck_at(f, b->addr, ri.payload_off + ri.payload_len, ahead) + ri.payload_off;
	for (uint32_t i = 0; i < ri.nr_seals; i++, at += len) {
		uint64_t chunk = no * (uint64_t)SSD_PIECE_SEALS + i;

		len = min_t(uint32_t, ri.payload_len - i * MEM_CHUNK_BYTES, MEM_CHUNK_BYTES);
		if (hash_xxh3(at, len, peal_seal_seed_at(key_hash, chunk)) != seals[i])
			return "+its bytes don't fit their seal";
	}
	return NULL;
}

static void line_check(struct fsck *f, uint32_t seg, const struct ssd_rec_info *ri, uint32_t off)
{
	uint64_t in = (uint64_t)off * SSD_GRANULE, bytes;
	struct ssd_bind b = seg_bind(f, seg, fsck_addr(f, seg) + in);
	const char *what = NULL;

	if (ri->kind == SSD_REC_VOID) {
		f->out->nr_void++;
		return;
	}
	if (!ri->key.len) {
		ssd_fsck_say(f, SSD_FSCK_DAMAGE, seg, b.addr, "a line of the footer is nonsense");
		return;
	}
	bytes = ri->kind == SSD_REC_VALUE ? ssd_format_value_bytes(ri->value_len, false)
					  : sizeof(struct ssd_rec);
	if (in < SSD_BLOCK || in + bytes + SSD_BLOCK > f->super.seg_bytes) {
		entry_bad(f, seg, ri, off, "its line leads out of the segment");
		return;
	}
	if (ri->kind == SSD_REC_VALUE) {
		f->out->nr_values++;
		f->out->value_bytes += ri->value_len;
	} else {
		f->out->nr_tombs++;
	}
	if (ri->ver >> 40 > f->super.generation)
		what = "its version is of a life that has not been";
	for (uint32_t i = 0; !what && i < ssd_format_pieces(ri->value_len);
	     i++, b.addr += SSD_PIECE_STRIDE)
		what = piece_check(f, ri, &b, i);
	if (what)
		entry_bad(f, seg, ri, off, what);
}

void ssd_fsck_seg_check(struct fsck *f, uint32_t seg, bool is_closed, struct ssd_fsck_seg *out)
{
	enum ssd_fsck_gravity g = SSD_FSCK_DAMAGE;
	uint64_t end = out->addr + f->super.seg_bytes - SSD_BLOCK;
	bool shows = false;

	f->segs[seg].is_closed = is_closed;
	f->has_copied = false;
	f->segs[seg].nr_blocks = footer_find(f, seg, &g, &shows);
	if (f->segs[seg].nr_blocks)
		f->segs[seg].how = footer_at(f, seg, end)->how;
	if (f->segs[seg].nr_blocks && f->has_copied)
		ssd_fsck_say(f, SSD_FSCK_TORN, seg, end,
			     "the footer was being written again: it is whole with the copies of "
			     "its blocks");
	if (is_closed && !f->segs[seg].nr_blocks)
		ssd_fsck_say(f, SSD_FSCK_DAMAGE, seg, end,
			     "the footer is damaged, and but for tombstones nothing else counts "
			     "here: the values that it named are lost");
	else if (!f->segs[seg].nr_blocks && shows)
		ssd_fsck_say(f, g, seg, end,
			     "the footer is %s: the segment's records are gone through instead",
			     g == SSD_FSCK_TORN ? "not whole" : "damaged");
	out->state = is_closed		      ? SSD_FSCK_CLOSED
		     : f->segs[seg].nr_blocks ? SSD_FSCK_SEALED
					      : SSD_FSCK_OPEN;
	f->out = out;
	ssd_fsck_seg_lines(f, seg, line_check);
	f->out = NULL;
}
