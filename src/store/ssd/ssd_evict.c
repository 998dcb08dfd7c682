/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reclaiming: the oldest sealed segment becomes free, one at a time, when few are left.
 *
 *     read the footer -> save tombstones that are still needed, and values that the policy wants
 *     -> write the head "free", synced and read back -> drop its entries from the index -> free
 *
 * Until the head is proven the entries stay and are served, so that a record which a recovery
 * might find is always known to the index; after that nothing in the segment counts. If the head
 * can't be written, or a needed tombstone can't be saved, the segment stays as it is.
 *
 * A value is saved without holding its key: whoever wants to kill it waits (ssd_kill.c), one that
 * is being killed isn't saved, and nothing else can make its record wrong. Runs on the shard's
 * owner.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/le.h"
#include "base/must.h"
#include "store/ssd/ssd_int.h"

#define EVICT_TURN 512u	 /* lines looked at in a turn */
#define EVICT_WALK 4096u /* index entries likewise */
#define EVICT_FAILS 3u	 /* in a row, after which a segment is left alone */

static void evict_load(struct ssd *s);
static void evict_run(struct ssd *s);

static void evict_over(struct ssd *s, enum ssd_seg_state state)
{
	s->evict.state = SSD_EVICT_IDLE;
	s->nr_busy--;
	ssd_seg_set(s, s->evict.seg, state);
}

static void evict_lose(struct ssd *s)
{
	s->evict.nr_failed = 0;
	evict_over(s, SSD_SEALED);
	ssd_seg_lose(s, s->evict.seg,
		     "a segment of the SSD tier can't be emptied: not used again before a restart");
}

static void evict_abort(struct ssd *s)
{
	if (++s->evict.nr_failed < EVICT_FAILS) {
		evict_over(s, SSD_SEALED);
		return;
	}
	evict_lose(s);
}

/* ---- saving a value -------------------------------------------------------------------------- */

static void save_over(struct ssd *s)
{
	struct ssd_value *v = s->evict.val;

	s->evict.val = NULL;
	ssd_value_destroy(v);
	ssd_kill_waiting(s);
	evict_run(s);
}

static void save_written(struct ssd_append *a, int res)
{
	struct ssd *s = a->val->s;
	const struct ssd_read *r = &s->evict.read;
	struct ssd_entry *e = ssd_index_find(&s->ix, &r->key);
	struct ssd_place p = {
		.seg = a->seg,
		.off = a->off,
		.ver = a->ri.ver,
		.len = a->ri.value_len,
	};

	/* Even a copy that failed may be there: from now on it is what the index has to know of. */
	if (a->epoch && e && e->seg == r->seg && e->off == r->off) {
		p.is_ghost = res < 0 || e->is_ghost;
		ssd_seg_enter(s, &r->key, &p);
	} else if (a->epoch && e) {
		ssd_seg_twin(s, e->seg, a->epoch); /* was put over meanwhile */
	}
	save_over(s);
}

static void save_write(struct ssd *s)
{
	struct ssd_value *v = s->evict.val;
	const struct ssd_read *r = &s->evict.read;

	v->app.ri = (struct ssd_rec_info){
		.kind = SSD_REC_VALUE,
		.key = r->key,
		.ver = r->ver,
		.value_len = v->len,
		.meta = r->ri.has_meta ? &v->meta : NULL,
	};
	v->app.done = save_written;
	v->app.stream = SSD_COLD;
	v->app.is_saved = true;
	ssd_log_append(s, &v->app);
}

static void save_read(struct ssd *s);

static void save_came(struct io_req *req, int res)
{
	struct ssd_read *r = container_of(req, struct ssd_read, req);
	struct ssd *s = r->s;
	struct ssd_value *v = s->evict.val;

	res = ssd_check_whole(r, res);
	if (res < 0) {
		ssd_health_read_failed(s, r, res);
		ssd_read_distrust(r, res, "can't be read to be kept");
		save_over(s);
		return;
	}
	memcpy(v->seals + (size_t)r->piece * SSD_PIECE_SEALS, r->seals,
	       r->ri.nr_seals * sizeof(uint64_t));
	v->meta = r->meta;
	if (r->is_small)
		memcpy(ssd_value_at(v, 0), r->payload, v->len);
	if (++r->piece < ssd_format_pieces(v->len))
		save_read(s);
	else
		save_write(s);
}

/* A large piece comes in the form in which it goes out again. */
static void save_read(struct ssd *s)
{
	struct ssd_read *r = &s->evict.read;
	struct ssd_value *v = s->evict.val;
	uint64_t at = ssd_seg_addr(s, r->seg) + (uint64_t)r->off * SSD_GRANULE +
		      (uint64_t)r->piece * SSD_PIECE_STRIDE;

	r->skip = (uint32_t)(at % SSD_BLOCK);
	r->want = ssd_format_piece_len(v->len, r->piece);
	r->mem = r->is_small ? s->evict.small : s->pieces[v->piece[r->piece]].mem;
	r->iov = (struct iovec){
		r->mem, align_up(r->skip + r->want + (r->is_small ? SSD_REC_HEAD_MAX : SSD_BLOCK),
				 SSD_BLOCK)};
	r->req = (struct io_req){.op = IO_READ,
				 .fd = s->dev->fd,
				 .iov = &r->iov,
				 .nr_iov = 1,
				 .off = at - r->skip,
				 .end = save_came};
	reactor_io(s->st.owner, &r->req);
}

/* False: there is no room for it on its way. */
static bool save_start(struct ssd *s, const struct store_key *key, const struct ssd_entry *e)
{
	struct ssd_read *r = &s->evict.read;

	s->evict.val = ssd_value_create(s, key, (uint32_t)e->len, true);
	if (!s->evict.val)
		return false;
	*r = (struct ssd_read){
		.s = s,
		.key = *key,
		.ver = e->ver,
		.seg = e->seg,
		.off = e->off,
		.value_len = e->len,
		.is_small = e->len <= SSD_PACKED_MAX,
	};
	save_read(s);
	return true;
}

/* ---- saving a tombstone ---------------------------------------------------------------------- */

static void tomb_written(struct ssd_append *a, int res)
{
	struct ssd *s = container_of(a - a->slot, struct ssd, evict.tombs[0]);

	s->evict.is_tomb[a->slot] = false;
	s->evict.nr_out--;
	if (res < 0)
		s->evict.err = res;
	evict_run(s);
}

/*
 * Each copy goes on in the stream that it has come by, so that no segment ever holds both. One that
 * doesn't say which it is (an older daemon's) is a second one from now on.
 */
static bool tomb_start(struct ssd *s, const struct ssd_rec_info *ri)
{
	uint8_t i = 0;

	while (i < SSD_TOMBS && s->evict.is_tomb[i])
		i++;
	if (i == SSD_TOMBS)
		return false;
	s->evict.is_tomb[i] = true;
	s->evict.nr_out++;
	s->evict.tombs[i] = (struct ssd_append){
		.done = tomb_written,
		.ri = *ri,
		.stream = ri->copy == 1 ? SSD_DATA : SSD_COLD,
		.wants_proof = true,
		.is_saved = true,
		.slot = i,
	};
	s->evict.tombs[i].ri.copy = ri->copy == 1 ? 1 : 2;
	ssd_log_append(s, &s->evict.tombs[i]);
	return true;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* What can't stay where it is goes elsewhere while there is room, what was used goes on. */
static bool evict_wants(struct ssd *s, const struct ssd_entry *e)
{
	if (!ssd_health_may_save(s))
		return false;
	if (s->segs[e->seg].is_condemned)
		return s->nr_free > SSD_FREE_WANTED / 2;
	return reinsert_wants(&s->reinsert, (uint32_t)e->hits, e->len);
}

/* False: later. */
static bool evict_save(struct ssd *s, const struct ssd_rec_info *ri, uint32_t off, uint16_t cls)
{
	struct ssd_evict *ev = &s->evict;
	struct ssd_entry *e;

	if (ri->kind == SSD_REC_TOMB)
		return (s->has_clean_past && !ssd_seg_is_new(s, ev->seg)) ||
		       !ssd_seg_has_older(s, ev->seg, ri->barrier) || tomb_start(s, ri);
	e = ssd_seg_live(s, &ri->key);
	if (!e || e->seg != ev->seg || e->off != off)
		return true;
	ssd_health_gone(s, cls, e->hits > 0);
	if (!ssd_kill_is_on(s, &ri->key) && evict_wants(s, e))
		save_start(s, &ri->key, e);
	return true;
}

/* Its record is gone; another may lie in a segment that goes later, or should have gone before. */
/* One line: false when it has to wait. */
static bool evict_line(struct ssd *s, const struct ssd_line *line)
{
	struct ssd_rec_info ri;
	struct ssd_entry *e;
	uint32_t off;

	if (!ssd_format_line_get(line, &ri, &off))
		return true;
	if (!s->evict.is_second)
		return evict_save(s, &ri, off, le16_get(line->cls));
	e = ri.kind == SSD_REC_VALUE ? ssd_index_find(&s->ix, &ri.key) : NULL;
	if (e && e->seg == s->evict.seg)
		ssd_seg_forget(s, e, s->evict.older);
	return true;
}

/* One that can't be trusted is passed over: entries are found by a walk, tombstones are not. */
static bool evict_block_is_good(struct ssd *s, uint32_t i)
{
	struct ssd_evict *ev = &s->evict;
	uint32_t nr_all = s->segs[ev->seg].nr_blocks, index, nr;
	struct ssd_bind b = ssd_seg_bind(
		s, ev->seg, s->super.seg_bytes - (uint64_t)(nr_all - ev->block - i) * SSD_BLOCK);

	return ssd_format_footer_check(&ev->buf[i], &b, &index, &nr) >= 0 &&
	       index == ev->block + i && nr == nr_all;
}

/* A tombstone that is named there may be the only copy: the segment stays. Counted once. */
static void evict_distrust(struct ssd *s, enum store_error what)
{
	if (!s->evict.err)
		ssd_health_error(s, what);
	s->evict.err = -EIO;
}

/* True: all loaded lines are done. */
static bool evict_lines(struct ssd *s)
{
	struct ssd_evict *ev = &s->evict;

	for (uint32_t n = 0; n < EVICT_TURN; n++) {
		uint32_t i = ev->line / SSD_LINES, k = ev->line % SSD_LINES;

		if (i >= ev->nr_loaded)
			return true;
		if (k == 0 && !evict_block_is_good(s, i)) {
			evict_distrust(s, STORE_ERROR_WRONG);
			ev->line = (i + 1) * SSD_LINES;
			continue;
		}
		if (k >= le32_get(ev->buf[i].nr_lines)) {
			ev->line = (i + 1) * SSD_LINES;
			continue;
		}
		if (ev->val || !evict_line(s, &ev->buf[i].line[k]))
			return false;
		ev->line++;
	}
	return false;
}

/* ---- the head -------------------------------------------------------------------------------- */

static void evict_retired(struct ssd_unit *u, int res)
{
	struct ssd *s = u->s;

	s->nr_busy--;
	if (res < 0) {
		evict_lose(s);
		return;
	}
	s->evict.is_second = true;
	s->evict.older = ssd_seg_last_twin(s, s->evict.seg);
	s->evict.block = 0;
	evict_load(s);
}

static void evict_retire(struct ssd *s)
{
	struct ssd_evict *ev = &s->evict;
	struct ssd_bind b = ssd_seg_bind(s, ev->seg, 0);

	ev->state = SSD_EVICT_RETIRE;
	ssd_format_seg(s->super.uuid, ev->seg, SSD_SEG_FREE, &b, ev->head_mem);
	ev->head.buf = ev->head_mem;
	ev->head.len = SSD_BLOCK;
	ev->head.off = b.addr;
	ev->head.why = STORE_WROTE_TABLES;
	ev->head.wants_sync = ev->head.wants_verify = true;
	ev->head.end = evict_retired;
	s->nr_busy++;
	ssd_unit_submit(s, &ev->head);
}

/* ---- the passes ------------------------------------------------------------------------------ */

static void evict_loaded(struct io_req *req, int res)
{
	struct ssd *s = container_of(req, struct ssd, evict.req);

	/* What didn't come is zeros, which no block is. */
	if (res < 0 || (size_t)res != s->evict.iov.iov_len) {
		memset(s->evict.buf, 0, s->evict.iov.iov_len);
		evict_distrust(s, STORE_ERROR_READ);
	}
	s->evict.state = SSD_EVICT_LINES;
	evict_run(s);
}

static void evict_load(struct ssd *s)
{
	struct ssd_evict *ev = &s->evict;
	uint32_t left = s->segs[ev->seg].nr_blocks - ev->block;

	ev->state = SSD_EVICT_READ;
	ev->line = 0;
	ev->nr_loaded = min_t(uint32_t, left, SSD_EVICT_BLOCKS);
	ev->iov = (struct iovec){ev->buf, ev->nr_loaded * SSD_BLOCK};
	ev->req = (struct io_req){.op = IO_READ,
				  .fd = s->dev->fd,
				  .iov = &ev->iov,
				  .nr_iov = 1,
				  .off = ssd_seg_addr(s, ev->seg) + s->super.seg_bytes -
					 (uint64_t)left * SSD_BLOCK,
				  .end = evict_loaded};
	reactor_io(s->st.owner, &ev->req);
}

/*
 * One has become free. What it had to keep may have cost as much as it gave, and where that goes on
 * for a whole round all that is there is needed: there is no room for what waits, and won't be.
 */
static void evict_vain(struct ssd *s)
{
	bool is_waited_for = false;

	for (uint32_t i = 0; i < SSD_STREAMS; i++)
		is_waited_for |= !list_is_empty(&s->stream[i].waiting);
	s->evict.nr_vain = is_waited_for ? s->evict.nr_vain + 1 : 0;
	if (s->evict.nr_vain <= s->nr_segs)
		return;
	for (uint32_t i = 0; i < SSD_STREAMS; i++) {
		if (!ssd_log_is_stuck(s, i))
			continue;
		s->evict.nr_vain = 0;
		ssd_stream_fail(s, i, -ENOSPC);
	}
}

static void evict_walk(struct ssd *s)
{
	struct ssd_evict *ev = &s->evict;
	struct ssd_entry *e;

	for (uint32_t n = 0; n < EVICT_WALK && s->segs[ev->seg].nr_entries; n++) {
		e = ssd_index_walk(&s->ix, &ev->walk);
		must(e); /* else nr_entries was wrong */
		ev->walk++;
		if (e->seg == ev->seg)
			ssd_seg_forget(s, e, s->evict.older);
	}
	if (s->segs[ev->seg].nr_entries)
		return;
	ev->nr_failed = 0;
	ev->is_wanted = false;
	evict_over(s, ssd_health_bury(s, ev->seg) ? SSD_DEAD : SSD_FREE);
	evict_vain(s);
}

static void evict_run(struct ssd *s)
{
	struct ssd_evict *ev = &s->evict;

	if (ev->state == SSD_EVICT_WALK)
		evict_walk(s);
	if (ev->state != SSD_EVICT_LINES || !evict_lines(s))
		return;
	ev->block += ev->nr_loaded;
	if (ev->block < s->segs[ev->seg].nr_blocks) {
		evict_load(s);
	} else if (ev->is_second) {
		ev->walk = 0;
		ev->state = SSD_EVICT_WALK;
	} else if (ev->val || ev->nr_out) {
		ev->block -= ev->nr_loaded; /* its end comes here again */
	} else if (ev->err) {
		evict_abort(s);
	} else {
		evict_retire(s);
	}
}

void ssd_evict_kick(struct ssd *s)
{
	struct ssd_evict *ev = &s->evict;
	int seg = ssd_health_condemned(s);

	if (ev->state != SSD_EVICT_IDLE || ssd_recover_is_reading(s) ||
	    (s->nr_free >= SSD_FREE_WANTED && !ev->is_wanted && seg < 0))
		return;
	if (seg < 0)
		seg = ssd_seg_oldest(s);
	if (seg < 0)
		return;
	s->nr_busy++;
	ev->seg = (uint32_t)seg;
	ev->is_second = false;
	ev->block = 0;
	ev->err = 0;
	ssd_seg_set(s, ev->seg, SSD_EVICTING);
	reinsert_begin(&s->reinsert, s->super.seg_bytes);
	evict_load(s);
}

void ssd_evict_force(struct ssd *s)
{
	s->evict.is_wanted = true;
	ssd_evict_kick(s);
}

static bool evict_is_coming(const struct ssd *s)
{
	if (s->evict.state != SSD_EVICT_IDLE || ssd_seg_oldest(s) >= 0 || ssd_recover_is_reading(s))
		return true;
	for (uint32_t i = 0; i < SSD_STREAMS; i++)
		if (s->stream[i].state == SSD_STREAM_SEALING ||
		    s->stream[i].state == SSD_STREAM_FOOTER)
			return true;
	return false;
}

/* What it saves has filled all that was kept for it: nothing becomes free before it is over. */
static void evict_unstick(struct ssd *s, uint32_t stream)
{
	struct ssd_append *a = list_first_entry(&s->stream[stream].waiting, struct ssd_append,
						node);

	if (!a->is_saved)
		return;
	list_del(&a->node);
	a->done(a, -ENOSPC);
}

int ssd_evict_step(struct ssd *s)
{
	struct ssd_evict *ev = &s->evict;

	for (uint32_t i = 0; i < SSD_STREAMS; i++)
		if (ssd_log_is_stuck(s, i) && !evict_is_coming(s))
			ssd_stream_fail(s, i, -ENOSPC);
	for (uint32_t i = 0; i < SSD_STREAMS; i++)
		if (ev->state == SSD_EVICT_LINES && !ev->is_second && ssd_log_is_stuck(s, i))
			evict_unstick(s, i);
	if (ev->state != SSD_EVICT_LINES && ev->state != SSD_EVICT_WALK)
		return 0;
	if (ev->val || (ev->nr_out && ev->line / SSD_LINES >= ev->nr_loaded))
		return 0; /* their end goes on */
	evict_run(s);
	return 1;
}

bool ssd_evict_is_saving(const struct ssd *s, const struct store_key *key)
{
	return s->evict.val && store_key_equal(&s->evict.read.key, key);
}

int ssd_evict_init(struct ssd *s)
{
	struct ssd_evict *ev = &s->evict;

	ev->buf = aligned_alloc(SSD_BLOCK, (size_t)SSD_EVICT_BLOCKS * SSD_BLOCK);
	ev->small = aligned_alloc(SSD_BLOCK, SSD_SMALL_READ);
	ev->head_mem = aligned_alloc(SSD_BLOCK, SSD_BLOCK);
	return ev->buf && ev->small && ev->head_mem ? 0 : -ENOMEM;
}

void ssd_evict_fini(struct ssd *s)
{
	must(s->evict.state == SSD_EVICT_IDLE);
	free(s->evict.head_mem);
	free(s->evict.small);
	free(s->evict.buf);
}
