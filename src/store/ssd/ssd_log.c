/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: each stream appends to one open segment at a time; while one is sealed, another stream
 * takes what comes (ssd_stream.c).
 *
 *     waiting -> placed: in the pack (short ones, tombstones) or as pieces -> queue -> SSD_DEPTH
 *                        writes under way -> done
 * Which of the writes that are queued begins next, and when, is ssd_pace.c's.
 *
 * A pack goes out when it is full, when something long comes, or when nothing of the stream is
 * being written, so that what comes meanwhile shares the next one, and nothing has come for some
 * turns: what is written back comes one a turn. Writes end in any order; a write that fails leaves
 * a hole, and those whose records were in it are told. When the next record doesn't fit, the
 * segment is sealed: its writes end and are synced, then its footer is written and synced. Runs on
 * the shard's owner.
 * tidy: no-test: t_ssd.c and t_ssd_recover.c go through it, test/model/m_ssd fails it
 */
#include <errno.h>
#include <string.h>

#include "base/container.h"
#include "base/must.h"
#include "store/ssd/ssd_int.h"
#include "store/ssd/ssd_pace.h"

#define LOG_TURN 64u  /* appends placed at a time */
#define LOG_TRIES 3u  /* segments that may fail to open before those that wait are told */
#define LOG_FAULTS 2u /* of a segment, after which it isn't opened again */
#define LOG_IDLE 16u  /* turns that a pack waits for more when nobody waits for a sync of it */
#define FOOT_BLOCKS (SSD_PACK_BYTES / SSD_BLOCK) /* written at a time */

static void log_run(struct ssd_stream *st);

/* ---- ends ------------------------------------------------------------------------------------ */

static void append_end(struct ssd *s, struct ssd_append *a, int res)
{
	struct ssd_stream *st = &s->stream[a->stream];
	struct ssd_line *line;

	if (res < 0 && !a->res)
		a->res = res;
	if (--a->nr_left)
		return;
	/* The segment may have been lost while it was written. */
	if (st->is_lost && a->epoch == s->segs[st->seg].epoch && !a->res)
		a->res = -EIO;
	if (a->res) {
		line = &st->lines[a->line / SSD_LINES].line[a->line % SSD_LINES];
		line->kind = SSD_REC_VOID;
	}
	a->done(a, a->res);
}

/* After its appends were told: a unit of the segment is over. */
static void log_unit_over(struct ssd_stream *st)
{
	must(st->nr_units > 0);
	st->nr_units--;
	log_run(st);
}

static void log_writing_over(struct ssd_stream *st)
{
	must(st->nr_writing > 0);
	st->nr_writing--;
}

static void piece_end(struct ssd_unit *u, int res)
{
	struct ssd_piece *p = container_of(u, struct ssd_piece, unit);
	struct ssd_append *a = p->app;
	struct ssd_stream *st = &u->s->stream[a->stream];

	if (res < 0)
		ssd_health_fault(u->s, st->seg);
	log_writing_over(st);
	append_end(u->s, a, res);
	log_unit_over(st);
}

static void pack_end(struct ssd_unit *u, int res)
{
	struct ssd_pack *p = container_of(u, struct ssd_pack, unit);
	struct ssd_append *a;
	struct list done;

	if (res < 0)
		ssd_health_fault(u->s, p->st->seg);
	log_writing_over(p->st);
	list_init(&done);
	list_splice_tail(&done, &p->appends);
	p->is_used = false;
	while (!list_is_empty(&done)) {
		a = list_first_entry(&done, struct ssd_append, node);
		list_del(&a->node);
		append_end(u->s, a, res);
	}
	log_unit_over(p->st);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void log_queue(struct ssd_stream *st, struct ssd_unit *u, uint64_t at)
{
	u->off = ssd_seg_addr(st->s, st->seg) + at;
	u->wants_sync |= st->s->opts.is_durable;
	list_add_tail(&st->queue, &u->node);
	st->nr_units++;
}

static void pack_close(struct ssd_stream *st)
{
	struct ssd_pack *p = st->pack;
	uint32_t len;

	if (!p)
		return;
	len = (uint32_t)align_up(p->fill, SSD_BLOCK);
	memset(p->mem + p->fill, 0, len - p->fill);
	p->unit.buf = p->mem;
	p->unit.len = len;
	p->unit.end = pack_end;
	st->pack = NULL;
	st->pos = p->start + len;
	log_queue(st, &p->unit, p->start);
}

/* The last that is free is for those that need proof: they don't wait for what is paced. */
static struct ssd_pack *pack_open(struct ssd_stream *st, bool wants_proof)
{
	uint32_t nr_free = 0;

	for (uint32_t i = 0; i < SSD_PACKS; i++)
		nr_free += !st->packs[i].is_used;
	if (nr_free < (wants_proof ? 1 : 2))
		return NULL;
	for (uint32_t i = 0; i < SSD_PACKS; i++) {
		struct ssd_pack *p = &st->packs[i];

		if (p->is_used)
			continue;
		p->is_used = true;
		p->fill = 0;
		p->start = st->pos;
		p->unit.wants_sync = p->unit.wants_verify = false;
		p->unit.why = STORE_WROTE_TABLES; /* until a value is in it */
		st->pack = p;
		return p;
	}
	return NULL;
}

/* ---- placing --------------------------------------------------------------------------------- */

static enum store_wrote append_why(const struct ssd *s, const struct ssd_append *a)
{
	if (a->is_saved)
		return STORE_WROTE_AGAIN;
	return s->health.care.is_through ? STORE_WROTE_THROUGH : STORE_WROTE_BACK;
}

static uint64_t append_bytes(const struct ssd_append *a)
{
	return a->val ? ssd_format_value_bytes(a->ri.value_len, a->ri.meta != NULL)
		      : align_up(sizeof(struct ssd_rec), SSD_GRANULE);
}

static bool log_fits(const struct ssd_stream *st, const struct ssd_append *a)
{
	uint64_t foot = (st->nr_lines / SSD_LINES + 1) * (uint64_t)SSD_BLOCK;
	uint64_t pos = st->pack ? st->pack->start + st->pack->fill : st->pos;

	/* A block for the end of the pack and one for the beginning of a large value. */
	return st->nr_lines < st->max_lines &&
	       pos + append_bytes(a) + 2 * SSD_BLOCK + foot <= st->s->super.seg_bytes;
}

static void place_line(struct ssd_stream *st, struct ssd_append *a, uint64_t at)
{
	a->seg = st->seg;
	a->off = (uint32_t)(at / SSD_GRANULE);
	a->epoch = st->s->segs[st->seg].epoch;
	a->line = st->nr_lines++;
	a->res = 0;
	ssd_format_line(&a->ri, a->off, &st->lines[a->line / SSD_LINES].line[a->line % SSD_LINES]);
}

/* False: there is no pack. */
static bool place_packed(struct ssd_stream *st, struct ssd_append *a)
{
	struct ssd_pack *p = st->pack;
	uint64_t bytes = append_bytes(a), at;
	struct ssd_bind b;

	if (p && p->fill + bytes > SSD_PACK_BYTES) {
		pack_close(st);
		p = NULL;
	}
	if (!p)
		p = pack_open(st, a->wants_proof);
	if (!p)
		return false;
	at = p->start + p->fill;
	b = ssd_seg_bind(st->s, st->seg, at);
	a->ri.payload_len = a->val ? a->ri.value_len : 0;
	a->ri.nr_seals = ssd_format_seals(a->ri.payload_len);
	a->ri.payload_off = ssd_format_rec_bytes(a->ri.meta != NULL, a->ri.nr_seals);
	memset(p->mem + p->fill, 0, bytes);
	ssd_format_rec(&a->ri, a->val ? a->val->seals : NULL, &b, p->mem + p->fill);
	if (a->val)
		memcpy(p->mem + p->fill + a->ri.payload_off, ssd_value_at(a->val, 0),
		       a->ri.value_len);
	p->fill += (uint32_t)bytes;
	p->nr_idle = 0;
	p->unit.wants_sync |= a->wants_proof;
	p->unit.wants_verify |= a->wants_proof;
	if (a->val)
		p->unit.why = append_why(st->s, a);
	place_line(st, a, at);
	a->nr_left = 1;
	list_add_tail(&p->appends, &a->node);
	return true;
}

/* The payload as it lies in memory above, between the head and the end that needs padding. */
static void piece_above(struct ssd_piece *p, const struct store_into *from, uint64_t off,
			uint32_t len)
{
	uint8_t *at = ssd_value_above(p->app->val->s, from, off, len);
	uint32_t body = (uint32_t)align_down(len, SSD_BLOCK);
	struct ssd_unit *u = &p->unit;

	must(at);
	u->iov[0] = (struct iovec){p->mem, SSD_BLOCK};
	u->iov[1] = (struct iovec){at, body};
	u->nr_iov = 2;
	if (body == len)
		return;
	memset(p->mem + SSD_BLOCK, 0, SSD_BLOCK);
	memcpy(p->mem + SSD_BLOCK, at + body, len - body);
	u->iov[body ? u->nr_iov++ : 1] = (struct iovec){p->mem + SSD_BLOCK, SSD_BLOCK};
}

static void place_piece(struct ssd_stream *st, struct ssd_append *a, uint32_t piece)
{
	struct ssd_value *v = a->val;
	struct ssd_piece *p = &st->s->pieces[v->piece[piece]];
	struct ssd_bind b = ssd_seg_bind(st->s, st->seg, st->pos);
	uint32_t len = ssd_format_piece_len(v->len, piece), padded;

	a->ri.piece = piece;
	a->ri.payload_len = len;
	a->ri.nr_seals = ssd_format_seals(len);
	a->ri.payload_off = SSD_BLOCK;
	memset(p->mem, 0, SSD_BLOCK);
	ssd_format_rec(&a->ri, v->seals + piece * SSD_PIECE_SEALS, &b, p->mem);
	padded = (uint32_t)align_up(len, SSD_BLOCK);
	p->app = a;
	p->no = piece;
	p->unit.nr_iov = 0;
	if (v->from.st) {
		piece_above(p, &v->from, (uint64_t)piece * STORE_PIECE_BYTES, len);
		st->s->straight_written += len;
	} else {
		memset(p->mem + SSD_BLOCK + len, 0, padded - len);
	}
	p->unit.buf = p->mem;
	p->unit.len = SSD_BLOCK + padded;
	p->unit.end = piece_end;
	p->unit.why = append_why(st->s, a);
	p->unit.wants_sync = p->unit.wants_verify = false;
	log_queue(st, &p->unit, st->pos);
	st->pos += p->unit.len;
}

static void place_large(struct ssd_stream *st, struct ssd_append *a)
{
	pack_close(st);
	place_line(st, a, st->pos);
	a->nr_left = a->val->nr_pieces;
	for (uint32_t i = 0; i < a->val->nr_pieces; i++)
		place_piece(st, a, i);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void head_write(struct ssd_stream *st, enum ssd_seg_kind kind)
{
	struct ssd *s = st->s;
	struct ssd_bind b = ssd_seg_bind(s, st->seg, 0);
	struct ssd_unit *u = &st->block;

	ssd_format_seg(s->super.uuid, st->seg, kind, &b, st->block_mem);
	u->buf = st->block_mem;
	u->len = SSD_BLOCK;
	u->off = b.addr;
	u->why = STORE_WROTE_TABLES;
	u->wants_sync = false;
	u->wants_verify = true;
	ssd_unit_submit(s, u);
}

static void open_end(struct ssd_unit *u, int res)
{
	struct ssd_stream *st = container_of(u, struct ssd_stream, block);
	struct ssd *s = st->s;
	struct ssd_seg *g = &s->segs[st->seg];

	s->nr_busy--;
	if (res < 0 || st->is_lost) {
		/* No space is no fault of this segment. */
		g->nr_faults += res < 0 && res != -ENOSPC;
		if (g->nr_faults < LOG_FAULTS)
			ssd_seg_set(s, st->seg, SSD_FREE);
		else
			ssd_seg_lose(s, st->seg,
				     "a segment of the SSD tier can't be opened: not used again "
				     "before a restart");
		st->state = SSD_STREAM_CLOSED;
		if (++st->nr_tries >= LOG_TRIES) {
			st->nr_tries = 0;
			ssd_stream_fail(s, st->no, -EIO);
		}
		log_run(st);
		return;
	}
	ssd_seg_set(s, st->seg, SSD_OPEN);
	st->nr_tries = 0;
	st->state = SSD_STREAM_OPEN;
	st->pos = SSD_BLOCK;
	st->nr_lines = 0;
	st->is_lost = false;
	log_run(st);
}

/*
 * Free segments that aren't for whoever is first. Tombstones that eviction saves must find a place,
 * or nothing would ever become free again: the last one is for these alone. One is enough, for all
 * of a segment's are first copies or all second ones, and go to one stream.
 */
static uint32_t log_keep(const struct ssd_stream *st)
{
	const struct ssd_append *a = list_first_entry(&st->waiting, struct ssd_append, node);

	if (a->is_saved && a->wants_proof)
		return 0;
	return st->no == SSD_COLD ? 1 : 2;
}

bool ssd_log_is_stuck(const struct ssd *s, unsigned stream)
{
	const struct ssd_stream *st = &s->stream[stream];

	return st->state == SSD_STREAM_CLOSED && !list_is_empty(&st->waiting) &&
	       s->nr_free <= log_keep(st);
}

static void log_open(struct ssd_stream *st)
{
	struct ssd *s = st->s;
	int seg = ssd_seg_take(s, log_keep(st));

	if (seg < 0)
		return;
	s->nr_moves++;
	st->state = SSD_STREAM_OPENING;
	st->is_lost = false;
	st->seg = (uint32_t)seg;
	s->segs[seg].epoch = ++s->epoch;
	s->segs[seg].low = ssd_stream_low(s, st->seg);
	s->segs[seg].salt = rng_u64(&s->rng);
	ssd_seg_set(s, st->seg, SSD_OPENING);
	s->nr_busy++;
	st->block.end = open_end;
	head_write(st, SSD_SEG_OPEN);
}

/* ---- sealing --------------------------------------------------------------------------------- */

uint32_t ssd_log_footer(struct ssd_stream *st, uint64_t *off)
{
	struct ssd *s = st->s;
	uint32_t nr = st->nr_lines ? (st->nr_lines - 1) / SSD_LINES + 1 : 1, lines;

	*off = s->super.seg_bytes - (uint64_t)nr * SSD_BLOCK;
	for (uint32_t i = 0; i < nr; i++) {
		struct ssd_bind b = ssd_seg_bind(s, st->seg, *off + (uint64_t)i * SSD_BLOCK);

		lines = min_t(uint32_t, st->nr_lines - i * SSD_LINES, SSD_LINES);
		ssd_format_footer(&st->lines[i], i, nr, lines, &b);
	}
	*off += ssd_seg_addr(s, st->seg);
	return nr;
}

/* What a failed sync has taken is told already. */
static void seal_over(struct ssd_stream *st, bool is_whole)
{
	if (is_whole)
		ssd_seg_set(st->s, st->seg, SSD_SEALED);
	else
		ssd_seg_lose(st->s, st->seg,
			     st->is_lost ? NULL
					 : "a segment of the SSD tier can't be sealed: not used "
					   "again before a restart");
	st->state = SSD_STREAM_CLOSED;
	st->is_lost = false;
	log_run(st);
}

static void seal_write(struct ssd_stream *st);

static void seal_end(struct ssd_unit *u, int res)
{
	struct ssd_stream *st = container_of(u, struct ssd_stream, block);

	st->s->nr_busy--;
	/* Without a footer its records are read as before, and a recovery goes through them. */
	if (res < 0 || st->is_lost)
		seal_over(st, false);
	else if (st->foot_at < st->s->segs[st->seg].nr_blocks)
		seal_write(st);
	else
		seal_over(st, true);
}

static void seal_write(struct ssd_stream *st)
{
	struct ssd *s = st->s;
	uint32_t nr_all = s->segs[st->seg].nr_blocks;
	uint32_t nr = min_t(uint32_t, nr_all - st->foot_at, FOOT_BLOCKS);
	struct ssd_unit *u = &st->block;

	u->buf = (uint8_t *)&st->lines[st->foot_at];
	u->len = nr * SSD_BLOCK;
	u->off = ssd_seg_addr(s, st->seg) + s->super.seg_bytes -
		 (uint64_t)(nr_all - st->foot_at) * SSD_BLOCK;
	st->foot_at += nr;
	u->wants_sync = st->foot_at == nr_all;
	u->wants_verify = false;
	u->end = seal_end;
	s->nr_busy++;
	ssd_unit_submit(s, u);
}

/*
 * A footer that is whole says that its records are. So they are durable before it is written: a
 * power cut may keep any of what wasn't synced, the footer and none of what it names.
 */
static void seal_synced(struct ssd_sync_wait *w, int res)
{
	struct ssd_stream *st = container_of(w, struct ssd_stream, sync);
	uint64_t off;

	st->s->nr_busy--;
	if (res < 0 || st->is_lost) {
		seal_over(st, false);
		return;
	}
	st->s->segs[st->seg].nr_blocks = ssd_log_footer(st, &off);
	st->foot_at = 0;
	seal_write(st);
}

static void log_seal(struct ssd_stream *st)
{
	pack_close(st);
	ssd_stream_turn(st);
	st->s->nr_moves += st->state != SSD_STREAM_SEALING;
	st->state = SSD_STREAM_SEALING;
	ssd_seg_set(st->s, st->seg, SSD_SEALING);
	ssd_pace_pump(st);
	if (st->nr_units)
		return;
	if (st->is_lost) {
		seal_over(st, false);
		return;
	}
	st->state = SSD_STREAM_FOOTER;
	st->sync.fn = seal_synced;
	st->s->nr_busy++;
	ssd_unit_sync(st->s, &st->sync);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* False: it has to wait. */
static bool log_place(struct ssd_stream *st, struct ssd_append *a)
{
	if (!log_fits(st, a)) {
		log_seal(st);
		return false;
	}
	list_del(&a->node);
	st->s->nr_moves++;
	if (a->val && a->val->nr_pieces) {
		place_large(st, a);
	} else if (!place_packed(st, a)) {
		list_add_head(&st->waiting, &a->node);
		st->s->nr_moves--;
		return false;
	}
	st->s->evict.nr_vain *= a->is_saved;
	return true;
}

/* The last one that was free, once taken, is for what eviction saves, too. */
static bool log_is_held(struct ssd *s, const struct ssd_append *a)
{
	if (a->is_saved || s->nr_free)
		return false;
	ssd_evict_kick(s);
	return s->evict.state != SSD_EVICT_IDLE;
}

static void log_run(struct ssd_stream *st)
{
	struct ssd_append *a;

	if (st->state == SSD_STREAM_SEALING || (st->state == SSD_STREAM_OPEN && st->is_lost)) {
		log_seal(st);
		return;
	}
	if (st->state == SSD_STREAM_CLOSED && !list_is_empty(&st->waiting))
		log_open(st);
	for (uint32_t i = 0; i < LOG_TURN; i++) {
		if (st->state != SSD_STREAM_OPEN || list_is_empty(&st->waiting))
			break;
		a = list_first_entry(&st->waiting, struct ssd_append, node);
		if (log_is_held(st->s, a) || !log_place(st, a))
			break;
	}
	ssd_pace_pump(st);
}

/* What eviction needs goes first, then what others need to go on, then what has to be kept. */
static struct list *log_behind(struct ssd_stream *st, const struct ssd_append *a)
{
	struct ssd_append *b;

	list_for_each_entry(b, &st->waiting, node) {
		if (!a->wants_proof)
			break;
		if (!b->is_saved && !b->wants_proof)
			return &b->node;
	}
	return &st->waiting;
}

void ssd_log_append(struct ssd *s, struct ssd_append *a)
{
	a->epoch = 0;
	a->res = 0;
	if (a->stream == SSD_DATA)
		a->stream = s->data;
	if (a->is_saved)
		list_add_head(&s->stream[a->stream].waiting, &a->node);
	else
		list_add_tail(log_behind(&s->stream[a->stream], a), &a->node);
}

static bool pack_is_due(struct ssd_stream *st)
{
	struct ssd_pack *p = st->pack;

	if (st->state != SSD_STREAM_OPEN || !p || st->nr_writing)
		return false;
	/* One with tombstones doesn't wait for those that wait for their time. */
	if (p->unit.wants_verify)
		return true;
	if (!list_is_empty(&st->queue))
		return false;
	st->s->nr_moves++;
	return p->unit.wants_sync || st->s->opts.is_durable || ++p->nr_idle >= LOG_IDLE;
}

int ssd_log_step(struct ssd *s)
{
	uint64_t was = s->nr_moves;

	for (uint32_t i = 0; i < SSD_STREAMS; i++) {
		struct ssd_stream *st = &s->stream[i];

		if (!list_is_empty(&st->waiting) || st->pack ||
		    (st->is_lost && st->state == SSD_STREAM_OPEN))
			log_run(st);
		else if (list_is_empty(&st->queue))
			continue;
		ssd_pace_pump(st);
		if (pack_is_due(st)) {
			pack_close(st);
			ssd_pace_pump(st);
		}
	}
	/* Whoever waits, for a write or for its time, is woken. */
	return s->nr_moves != was;
}
