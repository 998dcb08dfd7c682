/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One segment of a recovery, a bounded piece of work at a time and one request under way:
 *
 *     TAIL -> [BLOCKS] -> CHECK -> LINES            its footer is whole: into the index
 *       ^-- CLOSE <- FOOT <-/                       it may not name all that is there
 *       \-> WINDOW <-> RECORDS -> FOOT -> CLOSE     there is none: what is found becomes one,
 *                                    \-> TAIL       which is read like any other
 *       \-> COPIES -> BLOCKS -> CHECK -> PLACE      it was being written again when a life ended
 *       \-> WINDOW <-> RECORDS -> FOOT -> ...      it was closed, and its footer is damaged
 *
 * What this recovery could not see must not come back at a later one, for nobody would know of it
 * meanwhile and leave a tombstone. So a segment counts as read when it is durable what it is: by a
 * footer that was there, by one that was written and read back behind a head that says that nothing
 * else counts, by a head that says "free", or, where even that fails, by the superblock's list of
 * the dead.
 *
 * Of a closed segment a footer that is damaged takes the values with it: its records may be some
 * that it didn't name, dead since, with nothing left that says so. Tombstones are never wrong, and
 * what they kill may lie elsewhere: they are found by going through, and become the footer.
 *
 * Runs on the shard's owner.
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

void ssd_recover_seg_read(struct ssd_recover *r, enum ssd_recover_at at, void *mem, uint64_t addr,
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
				 .off = addr,
				 .end = seg_read_ended};
	counter_add(&s->count.recover_bytes, len);
	reactor_io(s->st.owner, &r->req);
}

static void seg_written(struct ssd_unit *u, int res)
{
	seg_request_over(container_of(u, struct ssd_recover, unit), res);
}

void ssd_recover_seg_write(struct ssd_recover *r, enum ssd_recover_at at, uint64_t addr)
{
	struct ssd_unit *u = &r->unit;

	r->at = at;
	r->is_busy = true;
	r->s->nr_busy++;
	u->off = addr;
	u->why = STORE_WROTE_TABLES;
	u->end = seg_written;
	ssd_unit_submit(r->s, u);
}

void ssd_recover_seg_head(struct ssd_recover *r, enum ssd_recover_at at, enum ssd_seg_kind kind)
{
	struct ssd_bind b = ssd_seg_bind(r->s, r->seg, 0);

	ssd_format_seg(r->s->super.uuid, r->seg, kind, &b, r->block);
	r->unit.buf = r->block;
	r->unit.len = SSD_BLOCK;
	r->unit.wants_sync = r->unit.wants_verify = true;
	ssd_recover_seg_write(r, at, b.addr);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void seg_free(struct ssd_recover *r)
{
	ssd_recover_seg_head(r, SSD_AT_FREE, SSD_SEG_FREE);
}

/*
 * Whatever is in it is gone for good, or nobody can make sure of that. Until the superblocks say
 * so it may come back, and counts as older than what is there: SSD_LOST (ssd_health_super()).
 */
static void seg_bury(struct ssd_recover *r)
{
	struct ssd *s = r->s;

	if (s->super.nr_dead == SSD_DEAD_MAX) {
		r->is_stuck = true;
		ssd_seg_set(s, r->seg, SSD_LOST);
		return;
	}
	s->super.dead[s->super.nr_dead++] = r->seg;
	ssd_seg_set(s, r->seg, SSD_LOST);
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
void ssd_recover_seg_fail(struct ssd_recover *r)
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
	ssd_recover_seg_write(r, SSD_AT_FOOT, ssd_seg_addr(s, r->seg) + pos);
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

	ssd_recover_seg_read(r, SSD_AT_TAIL, r->lines,
			     ssd_seg_addr(r->s, r->seg) + r->s->super.seg_bytes - len, len);
}

/*
 * It can't be closed. What was found counts all the same, for the only copy of a tombstone may be
 * among it; but what was not may come back in another life.
 */
static void seg_give_up(struct ssd_recover *r)
{
	if (r->why != SSD_RECOVER_READ) {
		ssd_recover_seg_fail(r);
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
		ssd_recover_seg_head(r, SSD_AT_CLOSE, SSD_SEG_CLOSED);
}

/* Written twice is read once: what does not come back would not come back later. */
static void seg_closed(struct ssd_recover *r)
{
	/* The head may be there: what the footer is stays. */
	if (r->res) {
		if (++r->nr_closes < SSD_RECOVER_TRIES)
			ssd_recover_seg_head(r, SSD_AT_CLOSE, SSD_SEG_CLOSED);
		else
			seg_give_up(r);
		return;
	}
	r->s->segs[r->seg].is_closed = true;
	if (r->why != SSD_RECOVER_READ) {
		ssd_recover_clean_start(r);
		return;
	}
	r->is_again = true;
	r->nr_reads = 0;
	seg_tail(r);
}

/* ---- the footer that was there --------------------------------------------------------------- */

void ssd_recover_seg_tombs(struct ssd_recover *r)
{
	struct ssd_seg *g = &r->s->segs[r->seg];

	if (!r->is_tombs_only)
		store_alert(&r->s->st, NULL,
			    "a segment's footer on the SSD is damaged: its values are misses");
	r->is_tombs_only = g->is_scanned = true;
	r->has_copies = false;
	ssd_recover_scan_start(r);
}

/* There is none that is whole, as often as one looks. */
static void seg_no_footer(struct ssd_recover *r)
{
	struct ssd_seg *g = &r->s->segs[r->seg];

	/* What was patched of it is no part of the next one. */
	r->is_patched = false;
	memset(r->is_changed, 0, r->max_blocks);
	if (++r->nr_reads < SSD_RECOVER_TRIES) {
		if (r->has_copies)
			ssd_recover_clean_look(r);
		else
			seg_tail(r);
		return;
	}
	/* What was written isn't there: it is found and written once more. */
	if (r->is_again) {
		r->gives_up = ++r->nr_closes >= SSD_RECOVER_TRIES;
		g->is_closed = r->has_copies = r->is_tombs_only;
		r->is_again = false;
	}
	if (r->why != SSD_RECOVER_READ) {
		ssd_recover_seg_fail(r);
	} else if (g->is_closed && r->has_copies) {
		ssd_recover_seg_tombs(r);
	} else if (g->is_closed) {
		r->nr_reads = 0;
		ssd_recover_clean_look(r);
	} else {
		g->is_scanned = true;
		ssd_recover_scan_start(r);
	}
}

void ssd_recover_seg_found(struct ssd_recover *r)
{
	if (!r->nr_lines)
		seg_free(r);
	else if (r->gives_up)
		seg_give_up(r);
	else
		seg_close(r);
}

void ssd_recover_seg_blocks(struct ssd_recover *r)
{
	uint32_t nr = min_t(uint32_t, r->nr_blocks - r->block_at, SEG_READ_BLOCKS);

	ssd_recover_seg_read(r, SSD_AT_BLOCKS, &r->lines[r->block_at],
			     ssd_seg_addr(r->s, r->seg) + r->s->super.seg_bytes -
				     (uint64_t)(r->nr_blocks - r->block_at) * SSD_BLOCK,
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
		ssd_recover_seg_blocks(r);
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
		ssd_recover_seg_blocks(r);
		return;
	}
	memmove(r->lines, &r->lines[SSD_RECOVER_TAIL - nr], (size_t)nr * SSD_BLOCK);
	r->at = SSD_AT_CHECK;
}

/* Lines in block i; -EINVAL: it isn't what it must be. */
static int seg_block_check(const struct ssd_recover *r, uint32_t i)
{
	struct ssd_bind b = ssd_seg_bind(
		r->s, r->seg, r->s->super.seg_bytes - (uint64_t)(r->nr_blocks - i) * SSD_BLOCK);
	uint32_t index, nr;
	int n = ssd_format_footer_check(&r->lines[i], &b, &index, &nr);

	if (n < 0 || index != i || nr != r->nr_blocks ||
	    (n < (int)SSD_LINES && i < r->nr_blocks - 1))
		return -EINVAL;
	return n;
}

/* Does it leave out a record that may be there: one whose write failed? */
static bool seg_has_unnamed(const struct ssd_recover *r)
{
	for (uint32_t i = 0; i < r->nr_lines; i++)
		if (r->lines[i / SSD_LINES].line[i % SSD_LINES].kind == SSD_REC_VOID)
			return true;
	return false;
}

void ssd_recover_seg_whole(struct ssd_recover *r)
{
	struct ssd_seg *g = &r->s->segs[r->seg];

	g->nr_blocks = r->nr_blocks;
	if (r->why == SSD_RECOVER_READ && r->lines->how == SSD_FOOT_UNTOLD)
		g->is_scanned = g->is_closed;
	else if (r->why == SSD_RECOVER_READ)
		g->is_scanned = r->lines->how == SSD_FOOT_SCANNED;
	/*
	 * Else who goes through it, should the footer be damaged one day, finds that. It is written
	 * again first: what was read may be what a failed sync left in a cache.
	 */
	if (r->why == SSD_RECOVER_READ && !g->is_closed && (g->is_scanned || seg_has_unnamed(r))) {
		seg_close(r);
		return;
	}
	r->line_at = 0;
	r->at = SSD_AT_LINES;
}

/* Of a footer only all of it counts. */
static void seg_check(struct ssd_recover *r)
{
	uint32_t i = r->block_at, end = min_t(uint32_t, i + SEG_CHECK_BLOCKS, r->nr_blocks);
	int n;

	for (; i < end; i++) {
		n = seg_block_check(r, i);
		if (n < 0 && ssd_recover_clean_patch(r, i))
			n = seg_block_check(r, i);
		if (n < 0) {
			seg_no_footer(r);
			return;
		}
		r->nr_lines += (uint32_t)n;
	}
	r->block_at = end;
	if (end < r->nr_blocks)
		return;
	if (r->is_patched)
		ssd_recover_clean_start(r);
	else
		ssd_recover_seg_whole(r);
}

static void seg_lines_over(struct ssd_recover *r)
{
	struct ssd_seg *g = &r->s->segs[r->seg];

	if (r->why == SSD_RECOVER_READ) {
		r->is_stuck |= r->gives_up;
		ssd_seg_set(r->s, r->seg, r->gives_up ? SSD_LOST : SSD_SEALED);
		r->at = SSD_AT_OVER;
	} else if (g->is_closed) {
		ssd_recover_clean_start(r);
	} else {
		ssd_recover_seg_head(r, SSD_AT_CLOSE, SSD_SEG_CLOSED);
	}
}

/* Newest first, here as elsewhere: what is dead is known to be when it comes. */
static void seg_lines(struct ssd_recover *r)
{
	uint32_t end = min_t(uint32_t, r->line_at + SEG_LINES, r->nr_lines), block, i;
	struct ssd_line *line;

	for (; r->line_at < end; r->line_at++) {
		i = r->nr_lines - 1 - r->line_at;
		block = i / SSD_LINES;
		line = &r->lines[block].line[i % SSD_LINES];
		if (r->why == SSD_RECOVER_READ) {
			ssd_recover_key_line(r, line);
		} else if (line->kind != SSD_REC_VOID && !ssd_recover_key_stays(r, line)) {
			line->kind = SSD_REC_VOID;
			r->is_changed[block] = true;
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
	r->is_again = r->gives_up = r->has_copies = r->is_patched = r->is_value = false;
	r->is_tombs_only = false;
	r->nr_reads = r->nr_closes = 0;
	memset(r->is_changed, 0, r->max_blocks);
	if (why == SSD_RECOVER_FREE || why == SSD_RECOVER_DROP)
		seg_free(r);
	else
		seg_tail(r);
}

int ssd_recover_seg_step(struct ssd_recover *r)
{
	static void (*const run[])(struct ssd_recover * r) = {
		[SSD_AT_TAIL] = seg_tail_came,
		[SSD_AT_BLOCKS] = seg_blocks_came,
		[SSD_AT_CHECK] = seg_check,
		[SSD_AT_LINES] = seg_lines,
		[SSD_AT_WINDOW] = ssd_recover_scan_came,
		[SSD_AT_SPLIT] = ssd_recover_scan_split_came,
		[SSD_AT_RECORDS] = ssd_recover_scan_run,
		[SSD_AT_FOOT] = seg_foot_written,
		[SSD_AT_CLOSE] = seg_closed,
		[SSD_AT_FREE] = seg_freed,
		[SSD_AT_WALK] = seg_walk,
		[SSD_AT_COPY] = ssd_recover_clean_copied,
		[SSD_AT_PLACE] = ssd_recover_clean_placed,
		[SSD_AT_COPIES] = ssd_recover_clean_came,
	};

	if (r->is_busy || r->at == SSD_AT_OVER)
		return 0;
	run[r->at](r);
	return 1;
}
