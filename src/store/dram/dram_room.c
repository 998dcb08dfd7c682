/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room for new values. A BUF evicts clean entries in the policy's order until its value fits; a
 * dirty victim is first written below, a pinned one is set aside until it is let go. What can't be
 * served in one turn, or has to wait for write-backs or pins, waits in a bounded queue, first come,
 * first served.
 *
 * Nobody waits for ever and nobody waits by the clock: write-backs end by themselves, and when none
 * is under way the queue fails with -ENOSPC after DRAM_WAIT_TURNS turns that served nobody. With
 * nothing to wait for, and when the queue is full, -ENOSPC is told at once. Runs on the shard's
 * owner.
 */
#include "store/dram/dram_int.h"

#include <errno.h>

#include "base/must.h"

int dram_room_evict_value(struct dram *d)
{
	struct dram_entry *e;
	uint32_t no;
	int err;

	while ((no = evict_victim(&d->evict))) {
		e = &d->ix.slab[no];
		if (e->pins) {
			evict_remove(&d->evict, no);
			e->is_parked = true;
			continue;
		}
		if (e->is_dirty) {
			err = dram_back_start(d, e, true);
			if (err)
				return err;
			/* Refused at once, it is gone. */
			if (!e->is_back)
				return 0;
			continue;
		}
		counter_add(&d->count.evictions, 1);
		counter_add(&d->count.evicted_bytes, e->len);
		dram_value_drop(d, e);
		return 0;
	}
	return -ENOENT;
}

int dram_room_evict(struct dram *d)
{
	int err = dram_room_evict_value(d);

	return err == -ENOENT && dram_promote_cancel_one(d) ? 0 : err;
}

/*
 * The bounded part of a turn. NULL: *err is -EAGAIN (go on next turn), or what dram_room_evict()
 * said last.
 */
static struct dram_entry *room_make(struct dram *d, struct store_io *io, int *err)
{
	struct dram_entry *e;

	*err = 0;
	for (uint32_t i = 0; i < DRAM_EVICT_TURN; i++) {
		e = dram_value_create(d, &io->key, io->len, io->meta != NULL);
		if (e)
			return e;
		*err = dram_room_evict(d);
		if (*err)
			return NULL;
	}
	*err = -EAGAIN;
	return NULL;
}

static void room_answer(struct dram *d, struct store_io *io, struct dram_entry *e)
{
	if (!e) {
		counter_add(&d->count.full, 1);
		store_done(io, -ENOSPC);
		return;
	}
	dram_value_view(d, e, &io->view);
	store_done(io, 0);
}

/* Will memory come back by itself? */
static bool room_has_hope(const struct dram *d)
{
	return d->nr_backs || d->nr_pinned || d->nr_bufs;
}

static void wait_push(struct dram *d, struct store_io *io)
{
	dram_frame(io)->next = NULL;
	if (d->wait_tail)
		dram_frame(d->wait_tail)->next = io;
	else
		d->wait_head = io;
	d->wait_tail = io;
	d->nr_waits++;
}

static struct store_io *wait_pop(struct dram *d)
{
	struct store_io *io = d->wait_head;

	d->wait_head = dram_frame(io)->next;
	if (!d->wait_head)
		d->wait_tail = NULL;
	d->nr_waits--;
	return io;
}

void dram_room_buf(struct dram *d, struct store_io *io)
{
	struct dram_entry *e = NULL;
	int err = -EAGAIN;

	if (!d->nr_waits)
		e = room_make(d, io, &err);
	if (e || d->nr_waits == DRAM_WAITS_MAX || (err != -EAGAIN && !room_has_hope(d))) {
		room_answer(d, io, e);
		return;
	}
	if (!d->nr_waits)
		d->wait_turns = 0;
	wait_push(d, io);
}

static void room_fail_all(struct dram *d)
{
	/* Only those that wait now: an answer may bring the next BUF. */
	for (uint32_t nr = d->nr_waits; nr; nr--)
		room_answer(d, wait_pop(d), NULL);
}

int dram_room_step(struct dram *d)
{
	struct dram_entry *e;
	int err;

	if (!d->nr_waits)
		return 0;
	e = room_make(d, d->wait_head, &err);
	if (e) {
		d->wait_turns = 0;
		room_answer(d, wait_pop(d), e);
		return 1;
	}
	if (err == -EAGAIN)
		return 1;
	if (d->nr_backs)
		return 0; /* their end wakes us */
	if (!room_has_hope(d) || ++d->wait_turns == DRAM_WAIT_TURNS)
		room_fail_all(d);
	return 1;
}
