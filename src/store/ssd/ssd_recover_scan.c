/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A segment without a footer, record by record: in steps of 64 bytes where there is none, and what
 * shows none is read until two reads in a row agree, for what isn't seen now is gone for good.
 *
 * A value counts when all of it is there: heads of all its pieces, payloads that fit their seals.
 * One that a crash has torn is nothing, as if it had never been written: else it would hide the
 * older record of a key whose bytes are always the same, which may have been promised. Where only
 * tombstones count (ssd_recover_seg.c) values are passed over.
 *
 * Runs on the shard's owner.
 * tidy: no-test: t_ssd_recover.c has it, test/model/m_ssd all orders and faults
 */
#include <string.h>

#include "base/container.h"
#include "base/hash.h"
#include "store/ssd/ssd_recover_int.h"

#define SCAN_RECORDS 1024u    /* places where a record may begin, in a turn, */
#define SCAN_BYTES (1u << 20) /* and of payload */
#define SCAN_WINDOWS 6u	      /* reads of one window, if no two in a row agree */

static uint64_t scan_end(const struct ssd_recover *r)
{
	return r->s->super.seg_bytes - SSD_BLOCK;
}

static void scan_read(struct ssd_recover *r)
{
	ssd_recover_seg_read(r, SSD_AT_WINDOW, r->scan, ssd_seg_addr(r->s, r->seg) + r->scan_start,
			     r->scan_len);
}

/* The window is to hold `len` bytes at `pos`, or what there is of them. */
static void scan_load(struct ssd_recover *r, uint64_t pos, uint64_t len)
{
	r->scan_start = align_down(pos, SSD_BLOCK);
	len = align_up(pos - r->scan_start + len, SSD_BLOCK);
	r->scan_len = (uint32_t)min_t(uint64_t, len, r->s->super.seg_bytes - r->scan_start);
	r->is_window_sure = false;
	r->nr_windows = 0;
	scan_read(r);
}

/* The second one may be the one that lies: then all that the first one had would be gone. */
static void scan_here(struct ssd_recover *r)
{
	uint64_t hash = hash_xxh3(r->scan, r->scan_len, 0);

	r->is_window_sure = (r->nr_windows && hash == r->scan_hash) ||
			    r->nr_windows == SCAN_WINDOWS - 1;
	r->nr_windows++;
	r->scan_hash = hash;
	r->at = SSD_AT_RECORDS;
}

static void scan_split(struct ssd_recover *r)
{
	ssd_recover_seg_read(r, SSD_AT_SPLIT, r->scan + r->scan_split,
			     ssd_seg_addr(r->s, r->seg) + r->scan_start + r->scan_split, SSD_BLOCK);
}

void ssd_recover_scan_came(struct ssd_recover *r)
{
	r->scan_split = 0;
	if (r->res)
		scan_split(r);
	else
		scan_here(r);
}

/* What can't be read is zeros. */
void ssd_recover_scan_split_came(struct ssd_recover *r)
{
	if (r->res)
		memset(r->scan + r->scan_split, 0, SSD_BLOCK);
	r->scan_split += SSD_BLOCK;
	if (r->scan_split < r->scan_len)
		scan_split(r);
	else
		scan_here(r);
}

static uint64_t record_bytes(const struct ssd_rec_info *ri)
{
	return ri->kind == SSD_REC_TOMB ? align_up(sizeof(struct ssd_rec), SSD_GRANULE)
					: ssd_format_value_bytes(ri->value_len, ri->has_meta);
}

/* The record at scan_pos; its kind is SSD_REC_VOID when there is none. */
static void scan_one(const struct ssd_recover *r, struct ssd_rec_info *ri)
{
	uint64_t in = r->scan_pos - r->scan_start;
	struct ssd_bind b = ssd_seg_bind(r->s, r->seg, r->scan_pos);

	if (ssd_format_rec_check(r->scan + in, r->scan_len - (uint32_t)in, &b, ri) || ri->piece ||
	    r->scan_pos + record_bytes(ri) > scan_end(r))
		ri->kind = SSD_REC_VOID;
}

/* Is a record's head at scan_pos here, or what there is? */
static bool scan_has_head(const struct ssd_recover *r)
{
	uint64_t has = r->scan_start + r->scan_len;

	return r->scan_len && r->scan_pos >= r->scan_start && r->scan_pos < has &&
	       (r->scan_pos + SSD_REC_HEAD_MAX <= has || has > scan_end(r));
}

static void scan_line(struct ssd_recover *r, const struct ssd_rec_info *ri)
{
	if (r->nr_lines < r->max_blocks * SSD_LINES)
		ssd_format_line(ri, (uint32_t)(r->scan_pos / SSD_GRANULE),
				&r->lines[r->nr_lines / SSD_LINES].line[r->nr_lines % SSD_LINES]);
	r->nr_lines = min_t(uint32_t, r->nr_lines + 1, r->max_blocks * SSD_LINES);
	r->scan_pos += record_bytes(ri);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void value_begin(struct ssd_recover *r, const struct ssd_rec_info *ri)
{
	r->value = *ri;
	r->value.key.hash = hash_key(ri->key.b, ri->key.len);
	r->is_value = true;
	r->check = (struct ssd_read){
		.s = r->s,
		.key = r->value.key,
		.ver = ri->ver,
		.seg = r->seg,
		.off = (uint32_t)(r->scan_pos / SSD_GRANULE),
		.value_len = ri->value_len,
		.is_small = ri->value_len <= SSD_PACKED_MAX,
	};
}

static void value_over(struct ssd_recover *r, bool is_whole)
{
	r->is_value = false;
	if (is_whole) {
		scan_line(r, &r->value);
		return;
	}
	counter_add(&r->s->count.torn, 1);
	r->scan_pos += record_bytes(&r->value);
}

static bool value_is_here(const struct ssd_recover *r, uint64_t pos, uint64_t len)
{
	return pos >= r->scan_start && pos + len <= r->scan_start + r->scan_len;
}

/* One piece of it. 0: a request is under way; else bytes that were looked at. */
static uint32_t value_piece(struct ssd_recover *r)
{
	struct ssd_read *c = &r->check;
	uint64_t pos = r->scan_pos + (uint64_t)c->piece * SSD_PIECE_STRIDE, len;

	c->want = ssd_format_piece_len(c->value_len, c->piece);
	len = c->is_small ? record_bytes(&r->value) : SSD_BLOCK + align_up(c->want, SSD_BLOCK);
	if (!value_is_here(r, pos, len)) {
		scan_load(r, pos, c->is_small ? max_t(uint64_t, len, SSD_RECOVER_SCAN) : len);
		return 0;
	}
	c->skip = (uint32_t)(pos - r->scan_start);
	c->mem = r->scan;
	c->iov = (struct iovec){r->scan, r->scan_len};
	if (ssd_check_whole(c, (int)r->scan_len)) {
		if (!r->is_window_sure) {
			scan_read(r);
			return 0;
		}
		value_over(r, false);
	} else if (++c->piece == max_t(uint32_t, 1, ssd_format_pieces(c->value_len))) {
		value_over(r, true);
	}
	return c->want + 1;
}

/* ---- all of them ----------------------------------------------------------------------------- */

void ssd_recover_scan_start(struct ssd_recover *r)
{
	r->scan_pos = SSD_BLOCK;
	r->scan_len = 0;
	r->nr_lines = 0;
	r->is_value = false;
	r->at = SSD_AT_RECORDS;
}

/* False: a request is under way. */
static bool scan_next(struct ssd_recover *r)
{
	struct ssd_rec_info ri;

	if (!scan_has_head(r)) {
		scan_load(r, r->scan_pos, SSD_RECOVER_SCAN - SSD_BLOCK);
		return false;
	}
	scan_one(r, &ri);
	/* Not because one read lied. */
	if (ri.kind == SSD_REC_VOID && !r->is_window_sure) {
		scan_read(r);
		return false;
	}
	if (ri.kind == SSD_REC_VOID)
		r->scan_pos += SSD_GRANULE;
	else if (ri.kind == SSD_REC_VALUE && r->is_tombs_only)
		r->scan_pos += record_bytes(&ri);
	else if (ri.kind == SSD_REC_VALUE)
		value_begin(r, &ri);
	else
		scan_line(r, &ri);
	return true;
}

void ssd_recover_scan_run(struct ssd_recover *r)
{
	uint32_t bytes = 0, n;

	for (uint32_t i = 0; i < SCAN_RECORDS && bytes < SCAN_BYTES; i++) {
		if (r->is_value) {
			n = value_piece(r);
			if (!n)
				return;
			bytes += n;
		} else if (r->scan_pos >= scan_end(r)) {
			ssd_recover_seg_found(r);
			return;
		} else if (!scan_next(r)) {
			return;
		}
	}
}
