/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One segment of a recovery, a bounded piece of work at a time and one request under way:
 *
 *     TAIL -> [BLOCKS] -> CHECK -> LINES            its footer is whole: into the index
 *       \-> WINDOW <-> RECORDS -> FOOT -> CLOSE     there is none: what is found becomes one,
 *                                    \-> TAIL       which is read like any other
 *       \-> FREE                                    it was closed, and its footer is damaged
 *
 * What this recovery could not see must not come back at a later one, for nobody would know of it
 * meanwhile and leave a tombstone. So a segment counts as read when it is durable what it is: by a
 * footer that was there, by one that was written and read back behind a head that says that nothing
 * else counts, by a head that says "free", or, where even that fails, by the superblock's list of
 * the dead.
 *
 * Runs on the shard's owner.
 * tidy: no-test: t_ssd_recover.c has it, test/model/m_ssd all orders and faults
 */
#include <errno.h>
#include <string.h>

#include "base/container.h"
#include "base/must.h"
#include "store/ssd/ssd_recover_int.h"

#define SEG_READ_BLOCKS 256u /* of a footer, in a request */
#define SEG_WRITE_BLOCKS 64u /* likewise, made in a turn */
#define SEG_CHECK_BLOCKS 32u /* looked at in a turn */
#define SEG_LINES 256u	     /* likewise */
#define SEG_RECORDS 1024u    /* places where a record may begin, likewise */

/* ---- requests -------------------------------------------------------------------------------- */

static void seg_request_over(struct ssd_recover *r, int res)
{
	must(r->is_busy);
	r->is_busy = false;
	r->res = res;
	r->s->nr_busy--;
}

static void seg_read_ended(struct io_req *req, int res)
{
	struct ssd_recover *r = container_of(req, struct ssd_recover, req);

	if (res >= 0)
		res = (size_t)res == r->iov.iov_len ? 0 : -EIO;
	seg_request_over(r, res);
}

/* `pos` in the segment. */
static void seg_read(struct ssd_recover *r, enum ssd_recover_at at, void *mem, uint64_t pos,
		     uint64_t len)
{
	struct ssd *s = r->s;

	r->at = at;
	r->is_busy = true;
	s->nr_busy++;
	r->iov = (struct iovec){mem, len};
	r->req = (struct io_req){.op = IO_READ,
				 .fd = s->dev->fd,
				 .iov = &r->iov,
				 .nr_iov = 1,
				 .off = ssd_seg_addr(s, r->seg) + pos,
				 .end = seg_read_ended};
	counter_add(&s->count.recover_bytes, len);
	reactor_io(s->st.owner, &r->req);
}

static void seg_written(struct ssd_unit *u, int res)
{
	seg_request_over(container_of(u, struct ssd_recover, unit), res);
}

/* u->buf, u->len and what is wanted are set. */
static void seg_write(struct ssd_recover *r, enum ssd_recover_at at, uint64_t pos)
{
	struct ssd_unit *u = &r->unit;

	r->at = at;
	r->is_busy = true;
	r->s->nr_busy++;
	u->off = ssd_seg_addr(r->s, r->seg) + pos;
	u->why = STORE_WROTE_TABLES;
	u->end = seg_written;
	ssd_unit_submit(r->s, u);
}

static void seg_head(struct ssd_recover *r, enum ssd_recover_at at, enum ssd_seg_kind kind)
{
	struct ssd_bind b = ssd_seg_bind(r->s, r->seg, 0);

	ssd_format_seg(r->s->super.uuid, r->seg, kind, &b, r->block);
	r->unit.buf = r->block;
	r->unit.len = SSD_BLOCK;
	r->unit.wants_sync = r->unit.wants_verify = true;
	seg_write(r, at, 0);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void seg_free(struct ssd_recover *r)
{
	seg_head(r, SSD_AT_FREE, SSD_SEG_FREE);
}

/* Whatever is in it is gone for good, or nobody can make sure of that. */
static void seg_bury(struct ssd_recover *r)
{
	struct ssd *s = r->s;

	if (s->super.nr_dead == SSD_DEAD_MAX) {
		r->is_stuck = true;
		ssd_seg_set(s, r->seg, SSD_LOST);
		return;
	}
	s->super.dead[s->super.nr_dead++] = r->seg;
	ssd_seg_set(s, r->seg, SSD_DEAD);
	r->has_dead = true;
	ssd_health_super(s);
}

static void seg_freed(struct ssd_recover *r)
{
	if (r->res)
		seg_bury(r);
	else if (!r->s->segs[r->seg].nr_entries)
		ssd_seg_set(r->s, r->seg, SSD_FREE);
	r->walk = 0;
	r->at = r->s->segs[r->seg].nr_entries ? SSD_AT_WALK : SSD_AT_OVER;
}

static void seg_walk(struct ssd_recover *r)
{
	if (!ssd_recover_key_drop(r))
		return;
	if (r->s->segs[r->seg].state == SSD_SEALED)
		ssd_seg_set(r->s, r->seg, SSD_FREE);
	r->at = SSD_AT_OVER;
}

/* While it is read: gone. While it is cleaned: it goes when all others have been. */
static void seg_fail(struct ssd_recover *r)
{
	if (r->why == SSD_RECOVER_READ) {
		seg_free(r);
		return;
	}
	r->s->segs[r->seg].is_doomed = true;
	r->at = SSD_AT_OVER;
}

/* ---- a footer that is written ---------------------------------------------------------------- */

static void seg_foot(struct ssd_recover *r)
{
	struct ssd *s = r->s;
	uint32_t nr = min_t(uint32_t, r->nr_blocks - r->block_at, SEG_WRITE_BLOCKS);
	uint64_t pos = s->super.seg_bytes - (uint64_t)(r->nr_blocks - r->block_at) * SSD_BLOCK;

	for (uint32_t i = r->block_at; i < r->block_at + nr; i++) {
		struct ssd_bind b = ssd_seg_bind(s, r->seg,
						 pos + (uint64_t)(i - r->block_at) * SSD_BLOCK);

		ssd_format_footer(&r->lines[i], i, r->nr_blocks,
				  min_t(uint32_t, r->nr_lines - i * SSD_LINES, SSD_LINES), &b);
	}
	r->unit.buf = (uint8_t *)&r->lines[r->block_at];
	r->unit.len = nr * SSD_BLOCK;
	r->block_at += nr;
	r->unit.wants_sync = r->block_at == r->nr_blocks;
	r->unit.wants_verify = false;
	seg_write(r, SSD_AT_FOOT, pos);
}

/* r->lines become its footer, and all that counts in it. */
static void seg_close(struct ssd_recover *r)
{
	r->nr_blocks = r->nr_lines ? (r->nr_lines - 1) / SSD_LINES + 1 : 1;
	r->block_at = 0;
	seg_foot(r);
}

static void seg_tail(struct ssd_recover *r)
{
	uint64_t len = (uint64_t)SSD_RECOVER_TAIL * SSD_BLOCK;

	seg_read(r, SSD_AT_TAIL, r->lines, r->s->super.seg_bytes - len, len);
}

/*
 * It can't be closed. What was found counts all the same, for the only copy of a tombstone may be
 * among it; but what was not may come back in another life.
 */
static void seg_give_up(struct ssd_recover *r)
{
	if (r->why != SSD_RECOVER_READ) {
		seg_fail(r);
		return;
	}
	r->gives_up = true;
	r->line_at = 0;
	r->at = SSD_AT_LINES;
}

static void seg_foot_written(struct ssd_recover *r)
{
	if (r->res && ++r->nr_closes < SSD_RECOVER_TRIES)
		seg_close(r);
	else if (r->res)
		seg_give_up(r);
	else if (r->block_at < r->nr_blocks)
		seg_foot(r);
	else
		seg_head(r, SSD_AT_CLOSE, SSD_SEG_CLOSED);
}

/* Written twice is read once: what does not come back would not come back later. */
static void seg_closed(struct ssd_recover *r)
{
	/* The head may be there: what the footer is stays. */
	if (r->res) {
		if (++r->nr_closes < SSD_RECOVER_TRIES)
			seg_head(r, SSD_AT_CLOSE, SSD_SEG_CLOSED);
		else
			seg_give_up(r);
		return;
	}
	r->is_closed = true;
	r->is_again = true;
	r->nr_reads = 0;
	seg_tail(r);
}

/* ---- going through records ------------------------------------------------------------------- */

static uint64_t scan_end(const struct ssd_recover *r)
{
	return r->s->super.seg_bytes - SSD_BLOCK;
}

/* The window is to hold a record's head at scan_pos, or what there is. */
static void scan_load(struct ssd_recover *r)
{
	uint64_t seg_bytes = r->s->super.seg_bytes;

	r->scan_start = align_down(r->scan_pos, SSD_BLOCK);
	r->scan_len = (uint32_t)min_t(uint64_t, SSD_RECOVER_SCAN, seg_bytes - r->scan_start);
	seg_read(r, SSD_AT_WINDOW, r->scan, r->scan_start, r->scan_len);
}

static void scan_split(struct ssd_recover *r)
{
	seg_read(r, SSD_AT_SPLIT, r->scan + r->scan_split, r->scan_start + r->scan_split,
		 SSD_BLOCK);
}

static void scan_came(struct ssd_recover *r)
{
	r->scan_split = 0;
	if (r->res)
		scan_split(r);
	else
		r->at = SSD_AT_RECORDS;
}

/* What can't be read is zeros. */
static void scan_split_came(struct ssd_recover *r)
{
	if (r->res)
		memset(r->scan + r->scan_split, 0, SSD_BLOCK);
	r->scan_split += SSD_BLOCK;
	if (r->scan_split < r->scan_len)
		scan_split(r);
	else
		r->at = SSD_AT_RECORDS;
}

/* Where the next record may begin; ri->kind is SSD_REC_VOID when there was none. */
static uint64_t scan_one(const struct ssd_recover *r, struct ssd_rec_info *ri)
{
	uint64_t pos = r->scan_pos, in = pos - r->scan_start;
	struct ssd_bind b = ssd_seg_bind(r->s, r->seg, pos);

	if (ssd_format_rec_check(r->scan + in, r->scan_len - (uint32_t)in, &b, ri) || ri->piece) {
		ri->kind = SSD_REC_VOID;
		return pos + SSD_GRANULE;
	}
	if (ri->kind == SSD_REC_TOMB)
		return pos + align_up(sizeof(struct ssd_rec), SSD_GRANULE);
	return pos + ssd_format_value_bytes(ri->value_len, ri->has_meta);
}

static bool scan_has(const struct ssd_recover *r)
{
	uint64_t has = r->scan_start + r->scan_len;

	return r->scan_len && r->scan_pos >= r->scan_start &&
	       (r->scan_pos + SSD_REC_HEAD_MAX <= has || has > scan_end(r));
}

static void scan_over(struct ssd_recover *r)
{
	if (!r->nr_lines)
		seg_free(r);
	else if (r->gives_up)
		seg_give_up(r);
	else
		seg_close(r);
}

static void scan_run(struct ssd_recover *r)
{
	struct ssd_rec_info ri;
	uint64_t next, end = scan_end(r);

	for (uint32_t n = 0; n < SEG_RECORDS && r->scan_pos < end; n++, r->scan_pos = next) {
		if (!scan_has(r)) {
			r->is_window_sure = false;
			scan_load(r);
			return;
		}
		ri.kind = SSD_REC_VOID;
		next = scan_one(r, &ri);
		/* What isn't seen now is gone for good: not because one read lied. */
		if (ri.kind == SSD_REC_VOID && !r->is_window_sure) {
			r->is_window_sure = true;
			scan_load(r);
			return;
		}
		if (ri.kind == SSD_REC_VOID || next > end ||
		    r->nr_lines == r->max_blocks * SSD_LINES)
			continue;
		ssd_format_line(&ri, (uint32_t)(r->scan_pos / SSD_GRANULE),
				&r->lines[r->nr_lines / SSD_LINES].line[r->nr_lines % SSD_LINES]);
		r->nr_lines++;
	}
	if (r->scan_pos >= end)
		scan_over(r);
}

/* ---- the footer that was there --------------------------------------------------------------- */

/* There is none that is whole, as often as one looks. */
static void seg_no_footer(struct ssd_recover *r)
{
	if (++r->nr_reads < SSD_RECOVER_TRIES) {
		seg_tail(r);
		return;
	}
	/* What was written isn't there: it is found and written once more. */
	if (r->is_again && r->why == SSD_RECOVER_READ) {
		r->gives_up = ++r->nr_closes >= SSD_RECOVER_TRIES;
		r->is_closed = r->is_again = false;
	}
	if (r->why != SSD_RECOVER_READ || r->is_closed) {
		seg_fail(r);
		return;
	}
	r->scan_pos = SSD_BLOCK;
	r->scan_len = 0;
	r->nr_lines = 0;
	r->at = SSD_AT_RECORDS;
}

static void seg_blocks(struct ssd_recover *r)
{
	uint32_t nr = min_t(uint32_t, r->nr_blocks - r->block_at, SEG_READ_BLOCKS);

	seg_read(r, SSD_AT_BLOCKS, &r->lines[r->block_at],
		 r->s->super.seg_bytes - (uint64_t)(r->nr_blocks - r->block_at) * SSD_BLOCK,
		 (uint64_t)nr * SSD_BLOCK);
}

static void seg_blocks_came(struct ssd_recover *r)
{
	if (r->res) {
		seg_no_footer(r);
		return;
	}
	r->block_at += min_t(uint32_t, r->nr_blocks - r->block_at, SEG_READ_BLOCKS);
	if (r->block_at < r->nr_blocks) {
		seg_blocks(r);
		return;
	}
	r->block_at = r->nr_lines = 0;
	r->at = SSD_AT_CHECK;
}

static void seg_tail_came(struct ssd_recover *r)
{
	struct ssd *s = r->s;
	struct ssd_bind b = ssd_seg_bind(s, r->seg, s->super.seg_bytes - SSD_BLOCK);
	uint32_t index, nr = 0;

	if (r->res ||
	    ssd_format_footer_check(&r->lines[SSD_RECOVER_TAIL - 1], &b, &index, &nr) < 0 ||
	    index != nr - 1 || nr > r->max_blocks || (nr + 1ull) * SSD_BLOCK > s->super.seg_bytes) {
		seg_no_footer(r);
		return;
	}
	r->nr_blocks = nr;
	r->block_at = r->nr_lines = 0;
	if (nr > SSD_RECOVER_TAIL) {
		seg_blocks(r);
		return;
	}
	memmove(r->lines, &r->lines[SSD_RECOVER_TAIL - nr], (size_t)nr * SSD_BLOCK);
	r->at = SSD_AT_CHECK;
}

/* Of a footer only all of it counts. */
static void seg_check(struct ssd_recover *r)
{
	struct ssd *s = r->s;
	uint32_t index, nr, i = r->block_at,
			    end = min_t(uint32_t, i + SEG_CHECK_BLOCKS, r->nr_blocks);
	struct ssd_bind b;
	int n;

	for (; i < end; i++) {
		b = ssd_seg_bind(s, r->seg,
				 s->super.seg_bytes - (uint64_t)(r->nr_blocks - i) * SSD_BLOCK);
		n = ssd_format_footer_check(&r->lines[i], &b, &index, &nr);
		if (n < 0 || index != i || nr != r->nr_blocks ||
		    (n < (int)SSD_LINES && i < r->nr_blocks - 1)) {
			seg_no_footer(r);
			return;
		}
		r->nr_lines += (uint32_t)n;
	}
	r->block_at = end;
	if (end < r->nr_blocks)
		return;
	s->segs[r->seg].nr_blocks = r->nr_blocks;
	r->line_at = r->nr_kept = 0;
	r->at = SSD_AT_LINES;
	if (r->is_again && r->why != SSD_RECOVER_READ)
		r->at = SSD_AT_OVER;
}

static void seg_lines_over(struct ssd_recover *r)
{
	if (r->why != SSD_RECOVER_READ) {
		r->nr_lines = r->nr_kept;
		seg_close(r);
		return;
	}
	r->is_stuck |= r->gives_up;
	r->s->segs[r->seg].is_scanned = r->is_closed || r->gives_up;
	ssd_seg_set(r->s, r->seg, r->gives_up ? SSD_LOST : SSD_SEALED);
	r->at = SSD_AT_OVER;
}

static void seg_lines(struct ssd_recover *r)
{
	uint32_t end = min_t(uint32_t, r->line_at + SEG_LINES, r->nr_lines);
	struct ssd_line *line, *to;

	for (; r->line_at < end; r->line_at++) {
		line = &r->lines[r->line_at / SSD_LINES].line[r->line_at % SSD_LINES];
		if (r->why == SSD_RECOVER_READ) {
			ssd_recover_key_line(r, line);
		} else if (ssd_recover_key_stays(r, line)) {
			to = &r->lines[r->nr_kept / SSD_LINES].line[r->nr_kept % SSD_LINES];
			*to = *line;
			r->nr_kept++;
		}
	}
	if (r->line_at == r->nr_lines)
		seg_lines_over(r);
}

/* ---- all of it ------------------------------------------------------------------------------- */

void ssd_recover_seg_start(struct ssd_recover *r, uint32_t seg, enum ssd_recover_why why)
{
	r->seg = seg;
	r->why = (uint8_t)why;
	r->is_closed = why != SSD_RECOVER_READ || r->s->segs[seg].is_scanned;
	r->is_again = r->gives_up = false;
	r->nr_reads = r->nr_closes = 0;
	if (why == SSD_RECOVER_FREE || why == SSD_RECOVER_DROP)
		seg_free(r);
	else
		seg_tail(r);
}

int ssd_recover_seg_step(struct ssd_recover *r)
{
	static void (*const run[])(struct ssd_recover * r) = {
		[SSD_AT_TAIL] = seg_tail_came, [SSD_AT_BLOCKS] = seg_blocks_came,
		[SSD_AT_CHECK] = seg_check,    [SSD_AT_LINES] = seg_lines,
		[SSD_AT_WINDOW] = scan_came,   [SSD_AT_SPLIT] = scan_split_came,
		[SSD_AT_RECORDS] = scan_run,   [SSD_AT_FOOT] = seg_foot_written,
		[SSD_AT_CLOSE] = seg_closed,   [SSD_AT_FREE] = seg_freed,
		[SSD_AT_WALK] = seg_walk,
	};

	if (r->is_busy || r->at == SSD_AT_OVER)
		return 0;
	run[r->at](r);
	return 1;
}
