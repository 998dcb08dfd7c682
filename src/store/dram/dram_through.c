/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing through. Two levels of it:
 *
 *  - a put that is acknowledged below: it holds its key, takes the place of a write-back, and is
 *    published here only when the tier below has taken it for good:
 *
 *        INVAL below -> BUF below -> copy, chunk by chunk, checked -> FILL below -> publish, clean
 *
 *    until then reads see what was there before. What fails is told, and is seen nowhere. A value
 *    that is below and finds no place here (its bucket is full) is acknowledged all the same.
 *
 *  - a put that is acknowledged here, in a set that writes through: dirty entries are written below
 *    as soon as a place is free, not when their memory is needed. One that fails stays dirty, as
 *    if nobody had tried, until it is a victim or is flushed.
 *
 * Runs on the shard's owner.
 */
#include "store/dram/dram_back_int.h"

#include <errno.h>

#include "base/container.h"
#include "base/must.h"

/* ---- acknowledged below ---------------------------------------------------------------------- */

static void through_fail(struct dram *d, struct store_io *io, int res)
{
	dram_value_view(d, dram_frame(io)->e, &io->view); /* the door lets it go */
	store_done(io, res);
}

/* Far away it may have been written all the same, or what we have of the key isn't there. */
static void through_doubt(struct dram *d, const struct store_key *key, int res)
{
	struct dram_entry *old = dram_index_find(&d->ix, key);

	if (dram_is_far(d) && res != -EEXIST && old && !old->is_dirty)
		dram_value_drop(d, old);
}

static void through_filled(struct store_io *io, int res)
{
	struct dram *d = dram_of(io->at);
	struct dram_entry *e = dram_frame(io)->e, *old;

	/* The buffer below, if that was refused, or had nothing to do. */
	if (io->view.st)
		io->view.st->ops->release(io->view.st, &io->view);
	++*dram_fence(d, &io->key);
	if (res == -EBADMSG) {
		dram_value_drop_bad(d, e);
		res = -ENOSPC;
	}
	if (res) {
		through_doubt(d, &io->key, res);
		through_fail(d, io, res);
		return;
	}
	counter_add(&d->count.puts, 1);
	d->ver = max_t(uint64_t, d->ver, io->ver);
	io->view = (struct store_view){.ver = io->ver, .value_len = (uint32_t)e->len};
	if (dram_put_publish(d, e, &io->key, io->ver)) {
		old = dram_index_find(&d->ix, &io->key);
		must(!old);
		dram_value_destroy(d, e);
	} else {
		dram_fresh_seen(d, e, dram_frame(io)->at_ns);
	}
	store_done(io, 0);
}

/* The copy is whole: the put itself, which holds the key, takes it down. */
void dram_through_fill(struct dram_back *b)
{
	struct dram *d = b->d;
	struct store_io *io = b->put;

	io->view = b->io.view;
	io->ver = dram_frame(io)->ver;
	b->put = NULL;
	dram_back_free(b);
	d->nr_throughs--;
	dram_frame(io)->at_ns = d->fresh_ns ? reactor_now_ns(d->st.owner) : 0;
	store_down_as(io, STORE_FILL, through_filled);
}

void dram_through_end(struct dram_back *b, int res)
{
	struct dram *d = b->d;
	struct store_io *io = b->put;

	b->put = NULL;
	dram_back_free(b);
	d->nr_throughs--;
	through_fail(d, io, res == -EILSEQ ? -ENOSPC : res);
}

static void through_start(struct dram *d, struct store_io *io)
{
	dram_back_put(d, dram_frame(io)->e, io);
}

/* The io's view is a buffer of ours, its meta set. */
void dram_through_put(struct dram *d, struct store_io *io, uint64_t ver)
{
	struct dram_frame *f = dram_frame(io);

	f->e = io->view.pin;
	f->ver = ver;
	f->next = NULL;
	io->view.st = NULL;
	d->nr_throughs++;
	if (d->nr_backs < DRAM_BACKS && !d->through_head) {
		through_start(d, io);
		return;
	}
	if (d->through_tail)
		dram_frame(d->through_tail)->next = io;
	else
		d->through_head = io;
	d->through_tail = io;
}

static int through_wake(struct dram *d)
{
	struct store_io *io;
	int n = 0;

	for (; (io = d->through_head) && d->nr_backs < DRAM_BACKS; n++) {
		d->through_head = dram_frame(io)->next;
		if (!d->through_head)
			d->through_tail = NULL;
		through_start(d, io);
	}
	return n;
}

/* ---- acknowledged here ----------------------------------------------------------------------- */

/* Once round all that is dirty; again when something new has come. */
static int through_sweep(struct dram *d)
{
	struct dram_entry *e;
	uint64_t no;

	if (d->through_at == 0) {
		if (!d->has_new)
			return 0;
		d->has_new = false;
	}
	for (uint32_t i = 0; i < DRAM_EVICT_TURN; i++) {
		no = dram_bits_next(&d->dirty, d->through_at);
		if (no == DRAM_BITS_END) {
			d->through_at = 0;
			return d->has_new;
		}
		e = &d->ix.slab[no];
		if (!e->is_back && e->pins < DRAM_PINS_MAX && dram_back_start(d, e, false))
			return 0; /* all places are taken: their end wakes us */
		d->through_at = no + 1;
	}
	return 1;
}

int dram_through_step(struct dram *d)
{
	int n = d->through_head ? through_wake(d) : 0;

	if (d->is_through && d->st.below && !d->flush_head)
		n += through_sweep(d);
	return n;
}
