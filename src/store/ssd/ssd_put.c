/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing: buf, put, fill, inval, del. A value is acknowledged once it is written whole (and
 * synced, if the namespace asks for that), and is seen from then on; a tombstone once it is durable
 * and proven. What failed is never seen: the key becomes a ghost, because the medium may hold it.
 *
 * In an immutable set a fill of a key that is there has nothing to do, same key being same bytes.
 * Versions there say nothing but order, so a fill that comes with one that may be below a tombstone
 * of an earlier life is given a higher one.
 *
 * The gate at the door lets one mutation per key in. Runs on the shard's owner.
 * tidy: no-test: t_ssd.c has the verbs, test/model/m_ssd all orders and faults
 */
#include <errno.h>

#include "base/container.h"
#include "base/must.h"
#include "store/ssd/ssd_span.h"

/* ---- buffers --------------------------------------------------------------------------------- */

static void buf_give(struct store_io *io, struct ssd_value *v)
{
	ssd_value_view(v, &io->view);
	ssd_value_take(v, &io->into);
	store_done(io, 0);
}

void ssd_put_waiting(struct ssd *s)
{
	struct ssd_value *v;
	struct store_io *io;

	while ((io = s->buf_head)) {
		v = ssd_value_create(s, &io->key, (uint32_t)io->len, false);
		if (!v)
			return;
		s->buf_head = ssd_frame(io)->next;
		if (!s->buf_head)
			s->buf_tail = NULL;
		s->nr_waits--;
		buf_give(io, v);
	}
}

static void buf_wait(struct ssd *s, struct store_io *io)
{
	if (s->nr_waits == SSD_WAITS_MAX) {
		store_done(io, -EBUSY);
		return;
	}
	s->nr_waits++;
	ssd_frame(io)->next = NULL;
	if (s->buf_tail)
		ssd_frame(s->buf_tail)->next = io;
	else
		s->buf_head = io;
	s->buf_tail = io;
}

static bool buf_is_too_long(const struct ssd *s, uint64_t len)
{
	return len > s->opts.value_max ||
	       ssd_format_value_bytes((uint32_t)len, true) + 4 * SSD_BLOCK > s->super.seg_bytes;
}

void ssd_put_buf(struct store *st, struct store_io *io)
{
	struct ssd *s = ssd_of(st);
	struct ssd_value *v = NULL;
	struct ssd_entry *e = ssd_seg_live(s, &io->key);
	int err;

	if (e && io->flags & STORE_IF_ABSENT) {
		store_done(io, -EEXIST);
		return;
	}
	if (!e && io->flags & STORE_IF_PRESENT && !st->below) {
		store_done(io, -ENOENT);
		return;
	}
	if (buf_is_too_long(s, io->len)) {
		store_done(io, -EFBIG);
		return;
	}
	err = ssd_health_admits(s, io);
	if (err) {
		store_done(io, err);
		return;
	}
	if (!s->buf_head)
		v = ssd_value_create(s, &io->key, (uint32_t)io->len, false);
	if (v)
		buf_give(io, v);
	else
		buf_wait(s, io);
}

/* ---- writing a value ------------------------------------------------------------------------- */

/*
 * A write has failed. Is what the index has of the key the same bytes, and does it stay for now?
 * Then it is as good as it was; what failed, which may be there too, is a twin of it. Not so in a
 * segment whose head says that it is free: its entries are just being dropped.
 */
static bool put_leaves(const struct ssd *s, const struct ssd_entry *e)
{
	bool is_gone = s->segs[e->seg].state == SSD_EVICTING && s->evict.is_second;

	return store_set_is_immutable(s->st.set) && !e->is_tomb && !is_gone;
}

/* It may be there or not: the index has to know of it. */
static void put_failed(struct ssd *s, const struct ssd_append *a, const struct ssd_place *p)
{
	struct ssd_entry *old = ssd_index_find(&s->ix, &a->ri.key);

	if (!old || !put_leaves(s, old))
		ssd_seg_enter(s, &a->ri.key, p);
	else if (old->seg != p->seg)
		ssd_seg_twin(s, old->seg, a->epoch);
}

static void put_written(struct ssd_append *a, int res)
{
	struct ssd_value *v = a->val;
	struct ssd *s = v->s;
	struct store_io *io = v->io;
	struct ssd_place p = {
		.seg = a->seg,
		.off = a->off,
		.ver = a->ri.ver,
		.len = a->ri.value_len,
		.is_ghost = res < 0,
	};

	ssd_index_unreserve(&s->ix);
	if (a->epoch && res < 0)
		put_failed(s, a, &p);
	else if (a->epoch)
		ssd_seg_enter(s, &io->key, &p);
	if (!res)
		counter_add(&s->count.puts, 1);
	else
		counter_add(&s->count.full, 1);
	io->ver = a->ri.ver;
	io->view.ver = a->ri.ver;
	io->view.value_len = a->ri.value_len;
	store_done(io, res);
	ssd_value_destroy(v);
}

/* Entries that puts may take while eviction makes room: some tens of milliseconds of them. */
static uint32_t put_spare(uint32_t nr_max)
{
	return max_t(uint32_t, nr_max / 32, min_t(uint32_t, nr_max / 8, 4096));
}

/* Takes the io's view. */
static void put_write(struct ssd *s, struct store_io *io)
{
	struct ssd_value *v = io->view.pin;
	int err = ssd_index_reserve(&s->ix, &io->key);

	must(io->view.st == &s->st && !ssd_read_is(s, v) && v->len <= s->opts.value_max);
	if (s->ix.nr_used >= s->ix.nr_max - put_spare(s->ix.nr_max))
		ssd_evict_force(s);
	if (err) {
		counter_add(&s->count.full, 1);
		store_done(io, err);
		return;
	}
	if (io->meta)
		v->meta = *io->meta;
	v->io = io;
	v->app.ri = (struct ssd_rec_info){
		.kind = SSD_REC_VALUE,
		.key = io->key,
		.ver = io->ver,
		.value_len = v->len,
		.meta = io->meta ? &v->meta : NULL,
	};
	v->app.done = put_written;
	v->app.stream = SSD_DATA;
	io->view.st = NULL;
	ssd_log_append(s, &v->app);
}

static void put_killed(struct store_io *io, int res)
{
	if (res < 0)
		store_done(io, res);
	else
		put_write(ssd_of(io->at), io);
}

/* Can the record that e tells of still be there when the one that is written now is gone? */
static bool put_may_outlive(const struct ssd *s, const struct ssd_entry *e)
{
	const struct ssd_stream *st = &s->stream[s->data];

	return s->segs[e->seg].state == SSD_LOST ||
	       (st->state != SSD_STREAM_CLOSED && s->segs[e->seg].epoch > s->segs[st->seg].epoch);
}

/*
 * Is a tombstone needed, that what the index has of the key, or what a recovery may yet find, dies?
 * One that this life has left while a recovery reads has seen to all of it.
 */
static bool put_must_kill(const struct ssd *s, const struct ssd_entry *e)
{
	return e ? !e->is_tomb || !ssd_seg_is_new(s, e->seg) : ssd_recover_is_blind(s);
}

/*
 * Whatever is older of the key dies first, unless it is the same bytes. Those may stay: a recovery
 * finds one of them, and the index knows the key until both have gone (ssd_seg_twin()).
 */
static void put_over(struct ssd *s, struct store_io *io)
{
	struct ssd_entry *e = ssd_index_find(&s->ix, &io->key);
	bool is_older = put_must_kill(s, e) && (!e || e->ver < io->ver);
	bool is_outlived = e && put_must_kill(s, e) &&
			   (put_may_outlive(s, e) || ssd_evict_is_saving(s, &io->key));

	if (is_older && !store_set_is_immutable(s->st.set)) {
		ssd_kill(s, io, io->ver, put_killed);
		return;
	}
	if (is_outlived && !is_older) {
		store_done(io, -EIO);
		return;
	}
	put_write(s, io);
}

/* ---- put ------------------------------------------------------------------------------------- */

static void put_inval(struct ssd *s, struct store_io *io);

static void put_invaled(struct store_io *io, int res)
{
	struct ssd *s = ssd_of(io->at);

	if (res == -ESTALE && io->ver > ssd_frame(io)->ver) {
		s->ver = max_t(uint64_t, s->ver, io->ver);
		put_inval(s, io);
	} else if (res) {
		store_done(io, res);
	} else {
		io->ver = ssd_frame(io)->ver;
		put_over(s, io);
	}
}

static void put_inval(struct ssd *s, struct store_io *io)
{
	io->ver = ++s->ver;
	if (!s->st.below || store_set_is_immutable(s->st.set)) {
		put_over(s, io);
		return;
	}
	ssd_frame(io)->ver = io->ver;
	store_down_as(io, STORE_INVAL, put_invaled);
}

static void put_existed(struct store_io *io, int res)
{
	bool is_there = res == 0;

	if (res && res != -ENOENT)
		store_done(io, res);
	else if (is_there && io->flags & STORE_IF_ABSENT)
		store_done(io, -EEXIST);
	else if (!is_there && io->flags & STORE_IF_PRESENT)
		store_done(io, -ENOENT);
	else
		put_inval(ssd_of(io->at), io);
}

/* tidy: name: the verb itself */
void ssd_put(struct store *st, struct store_io *io)
{
	struct ssd *s = ssd_of(st);
	bool is_if = io->flags & (STORE_IF_ABSENT | STORE_IF_PRESENT);

	if (is_if && ssd_seg_live(s, &io->key))
		put_existed(io, 0);
	else if (is_if)
		store_down_as(io, STORE_EXIST, put_existed);
	else
		put_inval(s, io);
}

/*
 * Is the record whole, and as durable as the set's acknowledgements? Of what was found by going
 * through a segment only the heads were looked at, and a crash may have torn the rest; what
 * recovery read may be what a failed sync left in a cache.
 */
static bool put_is_kept(const struct ssd *s, const struct ssd_entry *e)
{
	const struct ssd_seg *seg = &s->segs[e->seg];

	return !seg->is_scanned && (!s->opts.is_durable || seg->epoch > s->epoch_begin);
}

/* ---- fill ------------------------------------------------------------------------------------ */

void ssd_put_fill(struct store *st, struct store_io *io)
{
	struct ssd *s = ssd_of(st);
	struct ssd_entry *e = ssd_index_find(&s->ix, &io->key);
	bool is_live = e && ssd_seg_serves(s, e);

	if (store_set_is_immutable(st->set)) {
		if (is_live && put_is_kept(s, e) &&
		    e->len == ((struct ssd_value *)io->view.pin)->len) {
			e->hits += e->hits < SSD_HITS_MAX;
			store_done(io, 0);
			return;
		}
		if (io->ver <= s->floor || (e && io->ver <= e->ver))
			io->ver = s->floor = ++s->ver;
	} else if (io->ver <= s->floor || (e && (is_live ? e->ver >= io->ver : e->ver > io->ver))) {
		store_done(io, -ESTALE);
		return;
	}
	s->ver = max_t(uint64_t, s->ver, io->ver);
	put_over(s, io);
}

/*
 * From another device of the tier, whose entry of the key is live and can't change meanwhile: so
 * nothing newer was acknowledged, whatever the floor says of other keys. What this one knows of the
 * key is a ghost, or the same value.
 */
void ssd_put_moved(struct ssd *s, struct store_io *io)
{
	s->ver = max_t(uint64_t, s->ver, io->ver);
	put_over(s, io);
}

/* ---- inval, del ------------------------------------------------------------------------------ */

static void inval_killed(struct store_io *io, int res)
{
	if (res < 0)
		store_done(io, res);
	else
		store_down(io, NULL);
}

void ssd_put_inval(struct store *st, struct store_io *io)
{
	struct ssd *s = ssd_of(st);
	struct ssd_entry *e = ssd_index_find(&s->ix, &io->key);

	if (io->ver <= s->floor || (e && e->ver > io->ver)) {
		io->ver = s->ver; /* at once above all that is known here */
		store_done(io, -ESTALE);
		return;
	}
	s->ver = max_t(uint64_t, s->ver, io->ver);
	if (put_must_kill(s, e) && (!e || e->ver < io->ver))
		ssd_kill(s, io, io->ver, inval_killed);
	else
		store_down(io, NULL);
}

static void del_down(struct store_io *io, int res)
{
	store_done(io, res == -ENOENT && ssd_frame(io)->was_here ? 0 : res);
}

static void del_killed(struct store_io *io, int res)
{
	if (res < 0)
		store_done(io, res);
	else
		store_down(io, del_down);
}

void ssd_put_dying(struct ssd *s, const struct store_io *io, bool is_raised)
{
	if (is_raised && put_must_kill(s, ssd_index_find(&s->ix, &io->key)) && s->st.tier)
		s->floor = io->ver;
	s->ver = max_t(uint64_t, s->ver, io->ver);
}

void ssd_put_del(struct store *st, struct store_io *io)
{
	struct ssd *s = ssd_of(st);
	struct ssd_entry *e = ssd_index_find(&s->ix, &io->key);
	bool is_raised = !s->opts.is_part && io->ver <= s->ver;

	ssd_frame(io)->was_here = e && !e->is_ghost;
	/* A version of ours, above all that is known here: whoever is above must go above it. */
	if (is_raised)
		io->ver = s->ver + 1;
	if (!s->opts.is_part)
		ssd_put_dying(s, io, is_raised);
	if (put_must_kill(s, e))
		ssd_kill(s, io, io->ver, del_killed);
	else
		store_down(io, del_down);
}
