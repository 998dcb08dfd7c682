/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Neighbours of a value in the log. What memory lets go of is written in the order in which it was
 * used, so behind a value of a conversation lie mostly those that were read after it. They are
 * found by going through the segment from the end of that value on, from head to head:
 *
 *     | value of A | A | A | B | B | A ...      asked about the first: the next two, and the last
 *
 * One walk at a time, by windows: of AHEAD_WINDOW where records are packed, of one block where a
 * value is larger than that. Values of others are stepped over; after AHEAD_WINDOWS it is over, and
 * at the segment's end. A record counts if the index has its key just there.
 *
 * Nobody waits for it: a window is read only while no read is under way that somebody waits for, or
 * once in AHEAD_PACE_NS. What can't be read ends the walk and is no fault: whoever reads the values
 * finds out. Runs on the shard's owner.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/must.h"
#include "store/ssd/ssd_ahead.h"

#define AHEAD_WINDOW (64u << 10)
#define AHEAD_WINDOWS 24u
#define AHEAD_PACE_NS 4000000ull

enum ahead_state {
	AHEAD_IDLE,
	AHEAD_WANTS, /* a window */
	AHEAD_READS,
};

struct ssd_ahead {
	struct ssd *s;
	struct list waiting;	/* struct store_ahead */
	struct store_ahead *at; /* whose walk it is */
	uint64_t pos;		/* in the segment: where the next record may begin */
	uint64_t start;		/* of the window */
	uint64_t named;		/* bytes of values */
	uint64_t last_ns;	/* when a window was read */
	uint32_t seg;
	uint32_t len; /* of the window */
	uint32_t nr_windows;
	uint32_t grain; /* bytes of the next window */
	uint8_t state;
	uint8_t *mem;
	struct io_req req;
	struct iovec iov;
};

int ssd_ahead_init(struct ssd *s)
{
	struct ssd_ahead *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	s->ahead = w;
	w->s = s;
	list_init(&w->waiting);
	w->mem = aligned_alloc(SSD_BLOCK, AHEAD_WINDOW);
	return w->mem ? 0 : -ENOMEM;
}

void ssd_ahead_fini(struct ssd *s)
{
	if (!s->ahead)
		return;
	must(s->ahead->state == AHEAD_IDLE && list_is_empty(&s->ahead->waiting));
	free(s->ahead->mem);
	free(s->ahead);
}

bool ssd_ahead_is_busy(const struct ssd *s)
{
	return s->ahead->state != AHEAD_IDLE || !list_is_empty(&s->ahead->waiting);
}

static void ahead_over(struct ssd_ahead *w)
{
	struct store_ahead *a = w->at;

	w->state = AHEAD_IDLE;
	w->at = NULL;
	a->end(a);
}

/* How far records may lie in the segment; 0: nobody knows. */
static uint64_t ahead_limit(const struct ssd_ahead *w)
{
	const struct ssd *s = w->s;
	const struct ssd_seg *g = &s->segs[w->seg];

	if (g->state == SSD_SEALED)
		return s->super.seg_bytes - (uint64_t)g->nr_blocks * SSD_BLOCK;
	for (uint32_t i = 0; i < SSD_STREAMS; i++)
		if (s->stream[i].seg == w->seg && s->stream[i].state == SSD_STREAM_OPEN)
			return s->stream[i].pos;
	return 0;
}

/* ---- what a window shows --------------------------------------------------------------------- */

static bool ahead_is_ours(const struct ssd_ahead *w, const struct ssd_rec_info *ri,
			  const uint8_t *rec)
{
	const struct store_ahead *a = w->at;
	struct store_meta meta;

	if (ri->kind != SSD_REC_VALUE || ri->piece || !ri->has_meta)
		return false;
	ssd_format_rec_meta(rec, ri, &meta);
	return meta.group_len == a->group_len && !memcmp(meta.group, a->group, a->group_len);
}

static void ahead_name(struct ssd_ahead *w, struct ssd_rec_info *ri)
{
	struct store_ahead *a = w->at;
	struct ssd_entry *e;

	ri->key.hash = hash_key(ri->key.b, ri->key.len);
	e = ssd_seg_live(w->s, &ri->key);
	if (!e || e->seg != w->seg || e->off != w->pos / SSD_GRANULE || e->ver != ri->ver)
		return;
	a->keys[a->nr++] = ri->key;
	w->named += ri->value_len;
}

/* Where the next record may begin. */
static uint64_t ahead_record(struct ssd_ahead *w)
{
	uint64_t in = w->pos - w->start;
	const uint8_t *rec = w->mem + in;
	struct ssd_bind b = ssd_seg_bind(w->s, w->seg, w->pos);
	struct ssd_rec_info ri;

	/* Behind a pack's last record there is nothing up to the next block. */
	if (ssd_format_rec_check(rec, w->len - (uint32_t)in, &b, &ri))
		return align_down(w->pos, SSD_BLOCK) + SSD_BLOCK;
	if (ri.kind == SSD_REC_TOMB)
		return w->pos + align_up(sizeof(struct ssd_rec), SSD_GRANULE);
	if (ahead_is_ours(w, &ri, rec))
		ahead_name(w, &ri);
	w->grain = ri.value_len > SSD_PACKED_MAX ? SSD_BLOCK : AHEAD_WINDOW;
	return w->pos + ssd_format_value_bytes(ri.value_len, ri.has_meta);
}

static bool ahead_has_enough(const struct ssd_ahead *w)
{
	return w->at->nr == STORE_AHEAD_MAX || w->named >= w->at->bytes;
}

static void ahead_window(struct ssd_ahead *w)
{
	uint64_t has = w->start + w->len, limit = ahead_limit(w);

	while (!ahead_has_enough(w) && w->pos < limit) {
		if (w->pos + SSD_REC_HEAD_MAX > has && has < limit) {
			if (w->nr_windows == AHEAD_WINDOWS)
				break;
			w->state = AHEAD_WANTS;
			return;
		}
		if (w->pos + sizeof(struct ssd_rec) > has)
			break;
		w->pos = ahead_record(w);
	}
	ahead_over(w);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void ahead_came(struct io_req *req, int res)
{
	struct ssd_ahead *w = container_of(req, struct ssd_ahead, req);

	w->s->segs[w->seg].nr_reads--;
	w->s->nr_background--;
	if (res != (int)w->len || store_set_is_closing(&w->s->st))
		ahead_over(w);
	else
		ahead_window(w);
}

static void ahead_read(struct ssd_ahead *w)
{
	struct ssd *s = w->s;
	uint64_t limit = ahead_limit(w);

	if (w->pos >= limit) {
		ahead_over(w);
		return;
	}
	w->start = align_down(w->pos, SSD_BLOCK);
	w->len = (uint32_t)min_t(uint64_t, w->grain, align_up(limit, SSD_BLOCK) - w->start);
	w->nr_windows++;
	w->state = AHEAD_READS;
	w->last_ns = reactor_turn_ns(s->st.owner);
	s->segs[w->seg].nr_reads++;
	s->nr_background++;
	w->iov = (struct iovec){w->mem, w->len};
	w->req = (struct io_req){.op = IO_READ,
				 .fd = s->dev->fd,
				 .iov = &w->iov,
				 .nr_iov = 1,
				 .off = ssd_seg_addr(s, w->seg) + w->start,
				 .end = ahead_came};
	counter_add(&s->count.read_bytes, w->len);
	reactor_io(s->st.owner, &w->req);
}

/* ---- whose walk ------------------------------------------------------------------------------ */

static void ahead_begin(struct ssd_ahead *w)
{
	struct ssd *s = w->s;
	struct ssd_entry *e;

	w->at = list_first_entry(&w->waiting, struct store_ahead, node);
	list_del(&w->at->node);
	e = ssd_seg_live(s, &w->at->key);
	if (!e || store_set_is_closing(&s->st)) {
		ahead_over(w);
		return;
	}
	w->seg = e->seg;
	w->pos = (uint64_t)e->off * SSD_GRANULE + ssd_format_value_bytes(e->len, true);
	w->named = w->nr_windows = 0;
	w->grain = e->len > SSD_PACKED_MAX ? SSD_BLOCK : AHEAD_WINDOW;
	w->state = AHEAD_WANTS;
}

int ssd_ahead_step(struct ssd *s)
{
	struct ssd_ahead *w = s->ahead;
	bool may_read = !*reactor_waited_reads(s->st.owner) ||
			reactor_turn_ns(s->st.owner) - w->last_ns >= AHEAD_PACE_NS;

	if (w->state == AHEAD_IDLE && !list_is_empty(&w->waiting))
		ahead_begin(w);
	if (w->state != AHEAD_WANTS)
		return 0;
	if (store_set_is_closing(&s->st))
		ahead_over(w);
	else if (may_read)
		ahead_read(w);
	else
		return 0; /* the end of what is waited for brings the next turn */
	return 1;
}

void ssd_ahead(struct store *st, struct store_ahead *a)
{
	struct ssd *s = ssd_of(st);

	if (ssd_seg_live(s, &a->key) || !st->below)
		list_add_tail(&s->ahead->waiting, &a->node);
	else
		store_ahead_below(st, a);
}
