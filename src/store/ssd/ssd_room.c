/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See ssd_room.h. What is given back is never more than leaves SSD_SEGS_MIN segments, without which
 * there is no log; when that isn't enough, values are refused. Runs on the shard's owner.
 */
#include "store/ssd/ssd_room.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/must.h"
#include "store/ssd/ssd_int.h"
#include "store/ssd/ssd_watch.h"

#define ROOM_PACE_NS (3ull * 1000000000)   /* the watch looks every two seconds */
#define ROOM_RETRY_NS (60ull * 1000000000) /* after an attempt to get room that failed */
#define ROOM_ZEROS (1u << 20)
#define ROOM_SPARE 2u /* segments for each shard that are free before one is taken again */

static bool room_is_tight(const struct ssd *s)
{
	const struct ssd_watch_dev *w = s->health.care.watch;

	return w && atomic_load_explicit(&w->is_tight, memory_order_relaxed);
}

/* Segments that take room in the file system, as far as that is known. */
static uint32_t room_nr(const struct ssd *s)
{
	return s->nr_segs - s->room.nr_hollow;
}

/* Of those, how many can be given. */
static uint32_t room_spare(const struct ssd *s)
{
	uint32_t live = room_nr(s) - min_t(uint32_t, room_nr(s), s->super.nr_dead);

	return live > SSD_SEGS_MIN ? live - SSD_SEGS_MIN : 0;
}

bool ssd_room_is_out(const struct ssd *s)
{
	return room_is_tight(s) && (s->room.is_unable || !room_spare(s));
}

static void room_over(struct ssd *s, enum ssd_seg_state state, uint64_t wait_ns)
{
	struct ssd_room *r = &s->room;

	must(r->is_busy);
	r->is_busy = false;
	s->nr_busy--;
	r->nr_hollow -= state == SSD_FREE;
	r->next_ns = reactor_turn_ns(s->st.owner) + wait_ns;
	ssd_seg_set(s, r->seg, state);
	counter_set(&s->health.given_back, r->nr_hollow * s->super.seg_bytes);
}

static void room_fallocate(struct ssd *s, int mode, void (*end)(struct io_req *req, int res))
{
	struct ssd_room *r = &s->room;

	/* The head stays: it says durably that nothing in the segment counts. */
	r->req = (struct io_req){.op = IO_FALLOCATE,
				 .fd = s->dev->fd,
				 .mode = mode,
				 .off = ssd_seg_addr(s, r->seg) + SSD_BLOCK,
				 .len = s->super.seg_bytes - SSD_BLOCK,
				 .end = end};
	reactor_io(s->st.owner, &r->req);
}

static void room_begin(struct ssd *s, uint32_t seg)
{
	s->room.is_busy = true;
	s->room.seg = seg;
	s->nr_busy++;
}

/* ---- giving ---------------------------------------------------------------------------------- */

static void room_punched(struct io_req *req, int res)
{
	struct ssd *s = container_of(req, struct ssd, room.req);

	if (res < 0)
		s->room.is_unable = true;
	room_over(s, res < 0 ? SSD_FREE : SSD_HOLLOW, ROOM_PACE_NS);
}

/* One that is free beyond what the log wants; else eviction makes one. */
static int room_give(struct ssd *s)
{
	int seg;

	if (s->nr_free <= SSD_FREE_WANTED) {
		ssd_evict_force(s);
		return 0;
	}
	seg = ssd_seg_take(s, SSD_FREE_WANTED);
	if (seg < 0)
		return 0;
	room_begin(s, (uint32_t)seg);
	s->room.nr_hollow++;
	ssd_seg_set(s, (uint32_t)seg, SSD_HOLLOW);
	room_fallocate(s, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, room_punched);
	return 1;
}

/* ---- taking ---------------------------------------------------------------------------------- */

static void room_zero(struct ssd *s);

static void room_zeroed(struct ssd_unit *u, int res)
{
	struct ssd *s = u->s;

	s->room.pos += u->len;
	if (res < 0)
		room_over(s, SSD_HOLLOW, ROOM_RETRY_NS);
	else if (s->room.pos < s->super.seg_bytes)
		room_zero(s);
	else
		room_over(s, SSD_FREE, ROOM_PACE_NS);
}

static void room_zero(struct ssd *s)
{
	struct ssd_room *r = &s->room;

	r->unit.buf = r->zeros;
	r->unit.len = (uint32_t)min_t(uint64_t, ROOM_ZEROS, s->super.seg_bytes - r->pos);
	r->unit.off = ssd_seg_addr(s, r->seg) + r->pos;
	r->unit.why = STORE_WROTE_FIRST;
	r->unit.wants_sync = r->unit.wants_verify = false;
	r->unit.end = room_zeroed;
	ssd_unit_submit(s, &r->unit);
}

static void room_allocated(struct io_req *req, int res)
{
	struct ssd *s = container_of(req, struct ssd, room.req);

	if (res < 0) {
		room_over(s, SSD_HOLLOW, ROOM_RETRY_NS);
		return;
	}
	s->room.pos = SSD_BLOCK;
	room_zero(s);
}

static int room_take(struct ssd *s)
{
	uint32_t seg = 0;

	while (s->segs[seg].state != SSD_HOLLOW)
		must(++seg < s->nr_segs);
	room_begin(s, seg);
	room_fallocate(s, FALLOC_FL_KEEP_SIZE, room_allocated);
	return 1;
}

/* Is there so much that all shards may take one? Without a watch only the limit counts. */
static bool room_is_plenty(const struct ssd *s)
{
	const struct ssd_watch_dev *w = s->health.care.watch;
	uint64_t want = ROOM_SPARE * s->super.seg_bytes * store_set_nr_shards(s->st.set);

	return !w || atomic_load_explicit(&w->spare_bytes, memory_order_relaxed) > want;
}

static void room_wake(struct timeout *t)
{
	struct ssd *s = container_of(t, struct ssd, room.wake);

	timeout_set(s->st.owner, t, reactor_turn_ns(s->st.owner) + ROOM_PACE_NS);
}

int ssd_room_step(struct ssd *s)
{
	struct ssd_room *r = &s->room;
	bool gives = room_is_tight(s) || room_nr(s) > r->limit;

	if (s->health.care.watch && !timeout_is_set(&r->wake))
		room_wake(&r->wake);
	if (r->is_busy || (!gives && !r->nr_hollow))
		return 0;
	if (reactor_turn_ns(s->st.owner) < r->next_ns)
		return 0;
	if (gives)
		return r->is_unable || !room_spare(s) ? 0 : room_give(s);
	return room_nr(s) < r->limit && room_is_plenty(s) ? room_take(s) : 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

int ssd_room_init(struct ssd *s)
{
	uint64_t bytes = s->opts.bytes, nr = s->nr_segs;

	/* What was made larger once, and is to be smaller now. */
	if (bytes && bytes < s->dev->bytes)
		nr = bytes > SSD_HEAD_BYTES + SSD_BLOCK
			     ? (bytes - SSD_HEAD_BYTES - SSD_BLOCK) / s->super.seg_bytes
			     : 0;
	s->room.limit = (uint32_t)max_t(uint64_t, min_t(uint64_t, nr, s->nr_segs), SSD_SEGS_MIN);
	timeout_init(&s->room.wake, room_wake);
	s->room.zeros = aligned_alloc(SSD_BLOCK, ROOM_ZEROS);
	if (!s->room.zeros)
		return -ENOMEM;
	memset(s->room.zeros, 0, ROOM_ZEROS);
	return 0;
}

void ssd_room_fini(struct ssd *s)
{
	must(!s->room.is_busy);
	timeout_cancel(&s->room.wake);
	free(s->room.zeros);
}
