/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a file to an index, while the tier serves:
 *
 *     HEADS   of all segments are read: which are free, how old the others are
 *     WRITE, SYNC, PROVE, REST    those that say "free", or nothing, say so durably: from now on
 *             there is room for what is put
 *     SEGS    the others, from the newest to the oldest: footers, and records where there is none
 *     TRIM    if there are more values than a smaller index may hold
 *     CLEAN, FORGET    then, and when there is nothing left to begin with
 *     SUPER, WALK
 *
 * What is asked for meanwhile and isn't known yet is a miss at once, and nothing waits for it:
 * whoever asked whether it is there has been told that it isn't. A record that was found is served
 * when no tombstone of its key can be among what hasn't been read. A tombstone lies in a segment
 * that was open when it was written, and a record that it kills was there already: so in one that
 * was opened later than the record's, in that one itself, or in the other stream's of that time,
 * which the head names (`low`, ssd_log.c).
 *
 * Until all is known any key may have a record that isn't: who changes it leaves a tombstone first,
 * as for one that is there, unless same key is same bytes. Nothing is evicted. A crash on the way
 * loses nothing: what was read stays as it was, or is what it was closed with.
 *
 * Steps of bounded work on the shard's owner; begun on the thread that builds the store, and the
 * clean end blocks.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/container.h"
#include "base/must.h"
#include "store/ssd/ssd_recover_int.h"

#define FREE_AT_START 2u /* segments, that eviction needs to begin with */
#define HEAD_TRIES 6u
#define HEADS_TURN 4096u /* segments passed over in a turn */

/* ---- all segments, some at a time ------------------------------------------------------------ */

static void slot_over(struct ssd_recover_slot *sl)
{
	sl->is_busy = false;
	sl->r->nr_slots--;
	sl->r->s->nr_busy--;
}

static void slot_begin(struct ssd_recover_slot *sl)
{
	sl->is_busy = true;
	sl->r->nr_slots++;
	sl->r->s->nr_busy++;
}

static void slot_read(struct ssd_recover_slot *sl, void (*end)(struct io_req *req, int res))
{
	struct ssd *s = sl->r->s;

	slot_begin(sl);
	sl->iov = (struct iovec){sl->mem, SSD_BLOCK};
	sl->req = (struct io_req){.op = IO_READ,
				  .fd = s->dev->fd,
				  .iov = &sl->iov,
				  .nr_iov = 1,
				  .off = ssd_seg_addr(s, sl->seg),
				  .end = end};
	counter_add(&s->count.recover_bytes, SSD_BLOCK);
	reactor_io(s->st.owner, &sl->req);
}

static void head_make(const struct ssd *s, uint32_t seg, uint8_t *block)
{
	struct ssd_bind b = ssd_seg_bind(s, seg, 0);

	ssd_format_seg(s->super.uuid, seg, SSD_SEG_FREE, &b, block);
}

/*
 * Twice the same: all that the segment holds hangs on it, whether it comes or whether it goes. What
 * couldn't be read says nothing, as often as it is tried, and takes nothing from what was read.
 */
static bool head_is_sure(struct ssd_recover_slot *sl, int res)
{
	struct ssd *s = sl->r->s;
	struct ssd_bind b = {.addr = ssd_seg_addr(s, sl->seg)}, was = sl->bind;
	uint8_t kind_was = sl->kind;
	enum ssd_seg_kind kind;

	sl->nr_tries++;
	if (res != (int)SSD_BLOCK)
		return false;
	sl->kind = 0;
	if (!ssd_format_seg_check(sl->mem, s->super.uuid, &kind, &b))
		sl->kind = (uint8_t)kind;
	sl->bind = b;
	return sl->nr_read++ && sl->kind == kind_was &&
	       (!sl->kind || (b.epoch == was.epoch && b.salt == was.salt));
}

/*
 * One that is damaged is free: its footer can't be trusted without it. So is one without any: it
 * was never used.
 */
static void head_came(struct io_req *req, int res)
{
	struct ssd_recover_slot *sl = container_of(req, struct ssd_recover_slot, req);
	struct ssd *s = sl->r->s;
	struct ssd_seg *g = &s->segs[sl->seg];
	bool is_used;

	slot_over(sl);
	if (!head_is_sure(sl, res) && sl->nr_tries < HEAD_TRIES) {
		slot_read(sl, head_came);
		return;
	}
	is_used = sl->kind == SSD_SEG_OPEN || sl->kind == SSD_SEG_CLOSED;
	if (sl->kind) {
		g->epoch = sl->bind.epoch;
		g->salt = sl->bind.salt;
		g->low = sl->bind.low;
		s->epoch = max_t(uint64_t, s->epoch, g->epoch);
	}
	g->is_closed = sl->kind == SSD_SEG_CLOSED;
	ssd_seg_set(s, sl->seg, is_used ? SSD_FOUND : SSD_UNPROVEN);
	if (is_used)
		counter_add(&s->count.recover_all, 1);
}

static bool head_start(struct ssd_recover_slot *sl)
{
	if (sl->r->s->segs[sl->seg].state == SSD_DEAD)
		return false;
	sl->nr_tries = sl->nr_read = sl->kind = 0;
	slot_read(sl, head_came);
	return true;
}

static void free_written(struct ssd_unit *u, int res)
{
	struct ssd_recover_slot *sl = container_of(u, struct ssd_recover_slot, unit);

	slot_over(sl);
	sl->r->s->segs[sl->seg].is_doomed = res < 0;
}

/*
 * Heads that say "free" are written again: what was read may be what a failed sync left in a cache,
 * and below it lie the head and the records of a life that is over. One sync for all.
 */
static bool free_start(struct ssd_recover_slot *sl)
{
	struct ssd *s = sl->r->s;
	struct ssd_unit *u = &sl->unit;

	if (s->segs[sl->seg].state != SSD_UNPROVEN)
		return false;
	slot_begin(sl);
	head_make(s, sl->seg, sl->mem);
	u->buf = sl->mem;
	u->len = SSD_BLOCK;
	u->off = ssd_seg_addr(s, sl->seg);
	u->why = STORE_WROTE_TABLES;
	u->wants_sync = u->wants_verify = false;
	u->end = free_written;
	ssd_unit_submit(s, u);
	return true;
}

static void free_proven(struct io_req *req, int res)
{
	struct ssd_recover_slot *sl = container_of(req, struct ssd_recover_slot, req);
	struct ssd_recover *r = sl->r;

	slot_over(sl);
	head_make(r->s, sl->seg, r->block);
	if (res == (int)SSD_BLOCK && memcmp(sl->mem, r->block, SSD_BLOCK) == 0)
		ssd_seg_set(r->s, sl->seg, SSD_FREE);
}

static bool prove_start(struct ssd_recover_slot *sl)
{
	struct ssd_seg *g = &sl->r->s->segs[sl->seg];

	if (g->state != SSD_UNPROVEN || g->is_doomed)
		return false;
	slot_read(sl, free_proven);
	return true;
}

/* True: all are over. */
static bool slots_run(struct ssd_recover *r, bool (*start)(struct ssd_recover_slot *sl))
{
	uint32_t nr = r->s->nr_segs, left = HEADS_TURN;

	for (uint32_t i = 0; i < SSD_RECOVER_SLOTS && r->next < nr && left; i++) {
		struct ssd_recover_slot *sl = &r->slot[i];

		for (; !sl->is_busy && r->next < nr && left; left--) {
			sl->seg = r->next++;
			start(sl);
		}
	}
	return r->next == nr && !r->nr_slots;
}

/* ---- one after the other --------------------------------------------------------------------- */

static void recover_go(struct ssd_recover *r, enum ssd_recover_state state)
{
	r->state = (uint8_t)state;
	r->next = 0;
	r->walk = 0;
}

static void heads_over(struct ssd_recover *r)
{
	struct ssd *s = r->s;

	s->epoch_begin = s->epoch;
	recover_go(r, SSD_RECOVER_WRITE);
	ssd_kill_waiting(s); /* barriers are known */
}

static void recover_synced(struct ssd_sync_wait *w, int res)
{
	struct ssd_recover *r = container_of(w, struct ssd_recover, sync);

	r->s->nr_busy--;
	r->is_busy = false;
	recover_go(r, res < 0 ? SSD_RECOVER_REST : SSD_RECOVER_PROVE);
}

static void recover_sync(struct ssd_recover *r)
{
	recover_go(r, SSD_RECOVER_SYNC);
	r->is_busy = true;
	r->s->nr_busy++;
	r->sync.fn = recover_synced;
	ssd_unit_sync(r->s, &r->sync);
}

/* Each by itself, synced and read back; one that fails is dead. */
static void rest_next(struct ssd_recover *r)
{
	struct ssd *s = r->s;

	for (; r->next < s->nr_segs; r->next++) {
		s->segs[r->next].is_doomed = false;
		if (s->segs[r->next].state != SSD_UNPROVEN)
			continue;
		ssd_recover_seg_start(r, r->next++, SSD_RECOVER_FREE);
		return;
	}
	recover_go(r, SSD_RECOVER_SEGS);
}

/* Nothing is free, and eviction must save tombstones somewhere. */
static bool recover_has_no_room(const struct ssd *s)
{
	return !s->nr_free;
}

static void trim_next(struct ssd_recover *r)
{
	struct ssd *s = r->s;

	if (!ssd_recover_trim(r))
		return;
	ssd_kill_waiting(s); /* there may be room in the index now */
	/* Where something may come back no tombstone goes. */
	r->is_short = recover_has_no_room(s);
	if (!r->is_stuck && (r->has_refused || r->is_short))
		recover_go(r, SSD_RECOVER_CLEAN);
	else
		recover_go(r, SSD_RECOVER_SUPER);
}

static void segs_next(struct ssd_recover *r)
{
	struct ssd *s = r->s;
	int seg = -1;

	if (s->unread_epoch != UINT64_MAX)
		counter_add(&s->count.recover_done, 1);
	for (uint32_t i = 0; i < s->nr_segs; i++)
		if (s->segs[i].state == SSD_FOUND &&
		    (seg < 0 || s->segs[i].epoch > s->segs[seg].epoch))
			seg = (int)i;
	if (seg >= 0) {
		s->unread_epoch = s->segs[seg].epoch;
		ssd_recover_seg_start(r, (uint32_t)seg, SSD_RECOVER_READ);
		return;
	}
	s->unread_epoch = 0;
	recover_go(r, SSD_RECOVER_TRIM);
	trim_next(r);
}

/* ---- room to begin with ---------------------------------------------------------------------- */

/*
 * A crash in the middle of an eviction may leave nothing free, and eviction needs something; and a
 * smaller index than before can't know all that is there. So lines of dead values go; what can't be
 * cleaned is forgotten when all others are clean. What killed them has nothing to kill then: it
 * isn't saved any more by who evicts, which is all that has to be done about it. Then the oldest
 * segments go, until there is room, where there was none: their values are evicted, and whatever
 * their tombstones have killed is gone already. One segment that is free is room enough: eviction
 * takes no more than that before it gives one back (ssd_log.c), and picks what to keep.
 *
 * What is on the list of the dead comes back as long as that isn't durable, and then with what
 * tombstones have killed there. So nothing goes before it is.
 */
static bool clean_is_old(const struct ssd *s, uint32_t seg)
{
	return s->segs[seg].state == SSD_SEALED && !ssd_seg_is_new(s, seg);
}

static void clean_next(struct ssd_recover *r)
{
	struct ssd *s = r->s;

	for (; r->next < s->nr_segs; r->next++) {
		if (!clean_is_old(s, r->next))
			continue;
		ssd_recover_seg_start(r, r->next++, SSD_RECOVER_TIDY);
		return;
	}
	recover_go(r, SSD_RECOVER_FORGET);
}

static int forget_oldest(const struct ssd *s)
{
	int oldest = -1;

	for (uint32_t i = 0; i < s->nr_segs; i++)
		if (clean_is_old(s, i) && (oldest < 0 || s->segs[i].epoch < s->segs[oldest].epoch))
			oldest = (int)i;
	return oldest;
}

/* Oldest first: until an older one is gone, what kills its records has to stay. */
static int forget_doomed(const struct ssd *s)
{
	int oldest = -1;

	for (uint32_t i = 0; i < s->nr_segs; i++)
		if (s->segs[i].is_doomed &&
		    (oldest < 0 || s->segs[i].epoch < s->segs[oldest].epoch))
			oldest = (int)i;
	return oldest;
}

/* The list of the dead: false: it is being written. */
static bool recover_dead_is(struct ssd_recover *r)
{
	int res = r->has_dead ? ssd_health_super_is(r->s) : 0;

	r->is_stuck |= res < 0 && res != -EAGAIN;
	return res != -EAGAIN;
}

static void forget_next(struct ssd_recover *r)
{
	struct ssd *s = r->s;
	int seg = -1;

	if (!recover_dead_is(r))
		return;
	seg = r->is_stuck ? -1 : forget_doomed(s);
	if (seg >= 0) {
		s->segs[seg].is_doomed = false;
		ssd_recover_seg_start(r, (uint32_t)seg, SSD_RECOVER_DROP);
		return;
	}
	s->has_clean_past = !r->is_stuck;
	r->is_short |= recover_has_no_room(s);
	if (r->is_short && s->nr_free < FREE_AT_START && !r->is_stuck)
		seg = forget_oldest(s);
	if (seg >= 0)
		ssd_recover_seg_start(r, (uint32_t)seg, SSD_RECOVER_DROP);
	else
		recover_go(r, SSD_RECOVER_SUPER);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* In a life that is stuck all is known, too, as far as it ever will be. */
static void recover_tell(struct ssd_recover *r)
{
	struct ssd *s = r->s;
	uint64_t ns = reactor_now_ns(s->st.owner) - r->begin_ns;

	counter_set(&s->count.recover_ms, div_round_up(ns, 1000000));
	counter_set(&s->count.recovering, 0);
	if (r->is_stuck)
		store_alert(&s->st, NULL,
			    "a segment of the SSD tier could neither be closed nor freed: until "
			    "the next start each change of a key costs a tombstone");
	if (s->opts.recovered)
		s->opts.recovered(s->opts.arg);
}

static void recover_super(struct ssd_recover *r)
{
	if (!recover_dead_is(r))
		return;
	recover_go(r, r->is_stuck ? SSD_RECOVER_STUCK : SSD_RECOVER_WALK);
	ssd_kill_waiting(r->s); /* who found no room in the index */
	recover_tell(r);
}

static void recover_free(struct ssd *s)
{
	struct ssd_recover *r = s->recover;

	s->recover = NULL;
	if (r->lines)
		munmap(r->lines, r->lines_bytes);
	free(r->stuffed);
	free(r->is_changed);
	free(r->scan);
	free(r->slot_mem);
	free(r);
}

static int recover_segs(struct ssd_recover *r, void (*next)(struct ssd_recover *r))
{
	if (r->at != SSD_AT_OVER)
		return ssd_recover_seg_step(r);
	next(r);
	return 1;
}

/* 0: a request is waited for. */
static int recover_run(struct ssd_recover *r)
{
	uint32_t at = r->next;

	switch ((enum ssd_recover_state)r->state) {
	case SSD_RECOVER_HEADS:
		if (slots_run(r, head_start))
			heads_over(r);
		break;
	case SSD_RECOVER_WRITE:
		if (slots_run(r, free_start))
			recover_sync(r);
		break;
	case SSD_RECOVER_SYNC:
		return 0;
	case SSD_RECOVER_PROVE:
		if (slots_run(r, prove_start))
			recover_go(r, SSD_RECOVER_REST);
		break;
	case SSD_RECOVER_REST:
		return recover_segs(r, rest_next);
	case SSD_RECOVER_SEGS:
		return recover_segs(r, segs_next);
	case SSD_RECOVER_TRIM:
		trim_next(r);
		return 1;
	case SSD_RECOVER_CLEAN:
		return recover_segs(r, clean_next);
	case SSD_RECOVER_FORGET:
		if (r->at == SSD_AT_OVER && !recover_dead_is(r))
			return 0;
		return recover_segs(r, forget_next);
	case SSD_RECOVER_SUPER:
		recover_super(r);
		return r->state != SSD_RECOVER_SUPER;
	case SSD_RECOVER_WALK:
		if (ssd_recover_key_end(r))
			recover_free(r->s);
		return 1;
	case SSD_RECOVER_STUCK:
		return 0;
	}
	return r->next != at;
}

/* Does somebody wait for room, which comes with what is found? */
static bool recover_is_waited_for(const struct ssd *s)
{
	bool is = s->kill_head != NULL;

	for (uint32_t i = 0; i < SSD_STREAMS; i++)
		is |= !list_is_empty(&s->stream[i].waiting);
	return is;
}

int ssd_recover_step(struct ssd *s)
{
	if (!s->recover || (store_set_is_closing(&s->st) && !recover_is_waited_for(s)))
		return 0;
	if (!s->recover->begin_ns)
		s->recover->begin_ns = reactor_now_ns(s->st.owner);
	return recover_run(s->recover);
}

bool ssd_recover_is_blind(const struct ssd *s)
{
	return s->recover && s->recover->state != SSD_RECOVER_WALK;
}

bool ssd_recover_is_reading(const struct ssd *s)
{
	return s->recover && s->recover->state < SSD_RECOVER_WALK;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int recover_create(struct ssd *s)
{
	struct ssd_recover *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	s->recover = r;
	counter_set(&s->count.recovering, 1);
	r->s = s;
	r->max_blocks = s->stream[SSD_DATA].max_lines / SSD_LINES;
	r->lines_bytes = (size_t)max_t(uint32_t, r->max_blocks, SSD_RECOVER_TAIL) * SSD_BLOCK;
	r->lines = mmap(NULL, r->lines_bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	r->lines = r->lines == MAP_FAILED ? NULL : r->lines;
	r->scan = aligned_alloc(SSD_BLOCK, SSD_RECOVER_MEM);
	r->is_changed = calloc(r->max_blocks + 1ull, sizeof(*r->is_changed));
	r->stuffed = calloc(s->ix.nr_buckets / 64 + 1ull, sizeof(*r->stuffed));
	r->slot_mem = aligned_alloc(SSD_BLOCK, (SSD_RECOVER_SLOTS + 1) * SSD_BLOCK);
	if (!r->lines || !r->scan || !r->slot_mem || !r->is_changed || !r->stuffed)
		return -ENOMEM;
	r->block = r->slot_mem + SSD_RECOVER_SLOTS * SSD_BLOCK;
	for (uint32_t i = 0; i < SSD_RECOVER_SLOTS; i++) {
		r->slot[i].r = r;
		r->slot[i].mem = r->slot_mem + i * SSD_BLOCK;
	}
	return 0;
}

/*
 * Versions that an earlier life gave and did not write must not be given again: each life has 2^40
 * of its own, and begins anywhere in the low 32 bits, which are all that some clients remember.
 */
static void recover_versions(struct ssd *s)
{
	s->ver = s->floor = s->super.generation << 40 | (rng_u64(&s->rng) & UINT32_MAX);
}

/*
 * Nothing is written to a segment before it is used: whatever lies there, zeros or what the medium
 * held before, has no head of this file's id, and nothing that a salt of this file's covers.
 */
int ssd_recover_begin(struct ssd *s, bool is_new)
{
	int err = is_new ? 0 : recover_create(s);

	if (err)
		return err;
	s->unread_epoch = s->epoch_begin = is_new ? 0 : UINT64_MAX;
	/* Not yet free, whatever they are. */
	for (uint32_t i = 0; i < s->nr_segs; i++)
		s->segs[i].state = SSD_LOST;
	for (uint32_t i = 0; i < s->nr_segs && is_new; i++)
		ssd_seg_set(s, i, SSD_FREE);
	for (uint32_t i = 0; i < s->super.nr_dead; i++)
		if (s->super.dead[i] < s->nr_segs)
			ssd_seg_set(s, s->super.dead[i], SSD_DEAD);
	err = ssd_super_write(s);
	recover_versions(s);
	return err;
}

void ssd_recover_fini(struct ssd *s)
{
	if (s->recover)
		recover_free(s);
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
