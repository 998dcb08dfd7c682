/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which write of a stream begins next, and when. With a rate (policy/pace.h) those of values wait
 * for their time, of all streams together: what eviction keeps shares it with what comes.
 *
 * Who needs a tombstone waits for none of that: a write that holds one begins at once, and where
 * one finds no place before others have been written (no buffer is left, the segment is full)
 * these begin, too. All of it is taken out of the bucket, heads and footers as well, so that values
 * pay for it later. Nor does anything wait once the set is about to end.
 *
 * Nobody polls: a timeout wakes the shard when the next write may begin. Runs on the shard's owner.
 */
#include "store/ssd/ssd_pace.h"

#include <errno.h>

#include "base/container.h"

/* The next turn goes on: ssd_log_step(). */
static void pace_woken(struct timeout *t)
{
}

void ssd_pace_init(struct ssd *s)
{
	pace_init(&s->pace, s->health.care.rate_bytes, 0);
	timeout_init(&s->pace_wake, pace_woken);
}

void ssd_pace_fini(struct ssd *s)
{
	timeout_cancel(&s->pace_wake);
}

/* Does somebody wait for a place who may not wait? Those are first. */
static bool pace_is_urgent(const struct ssd_stream *st)
{
	return store_set_is_ending(&st->s->st) ||
	       (!list_is_empty(&st->waiting) &&
		list_first_entry(&st->waiting, struct ssd_append, node)->wants_proof);
}

static struct ssd_unit *pace_next(struct ssd_stream *st)
{
	struct ssd *s = st->s;
	uint64_t now = reactor_turn_ns(s->st.owner), wait;
	struct ssd_unit *u;

	if (list_is_empty(&st->queue))
		return NULL;
	if (pace_is_urgent(st) || pace_may(&s->pace, now, &wait))
		return list_first_entry(&st->queue, struct ssd_unit, node);
	list_for_each_entry(u, &st->queue, node)
		if (u->wants_verify)
			return u;
	if (!timeout_is_set(&s->pace_wake))
		timeout_set(s->st.owner, &s->pace_wake, now + wait);
	return NULL;
}

/*
 * Memory above is not ours, and what has changed in it would look like a fault of the device when
 * it is read: so it is looked at once more. It goes out all the same, for others count on the place
 * that it has, and fails: -EBADMSG, which nothing else gives.
 */
static void pace_check(struct ssd_unit *u)
{
	struct ssd_piece *p = container_of(u, struct ssd_piece, unit);

	if (!u->nr_iov || u->is_checked)
		return;
	u->is_checked = true;
	if (!ssd_value_is_good(p->app->val, p->no))
		p->app->res = -EBADMSG;
}

/*
 * The one that is next is looked at while the device writes those before it, which takes the
 * device longer: it has the next one the moment that it is done with one.
 */
static void pace_check_next(struct ssd_stream *st)
{
	struct ssd_unit *u = list_first_entry(&st->queue, struct ssd_unit, node);

	if (list_is_empty(&st->queue) || ssd_stream_writing(st) < SSD_DEPTH || !u->nr_iov ||
	    u->is_checked)
		return;
	reactor_io_push(st->s->st.owner); /* those before it */
	pace_check(u);
}

void ssd_pace_pump(struct ssd_stream *st)
{
	struct ssd_unit *u;

	while (ssd_stream_writing(st) < SSD_DEPTH && (u = pace_next(st))) {
		list_del(&u->node);
		st->nr_writing++;
		st->s->nr_moves++;
		pace_check(u);
		ssd_unit_submit(st->s, u);
	}
	pace_check_next(st);
}
