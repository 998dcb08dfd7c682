/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device goes out of a tier of several: it has failed, or nothing lies on it any more that
 * doesn't lie elsewhere. First the superblocks of the others say that it takes no part, durably on
 * one of them at least; only then a key that it holds may change without a tombstone there. Until
 * then it is asked as ever, and a change that it would have to know of fails.
 *
 * One at a time; steps on the shard's owner.
 * tidy: no-test: t_ssd_span.c has it
 */
#include <errno.h>
#include <stdio.h>

#include "base/container.h"
#include "base/must.h"
#include "store/ssd/ssd_span.h"

/* Does it go on taking part, and can it be written? */
static bool out_stays(const struct ssd_span *sp, const struct ssd_span_dev *d)
{
	return ssd_span_is_in(d) && d != sp->leaver && d->s->health.trip.state != TRIP_OFF;
}

static bool out_has_other(const struct ssd_span *sp, const struct ssd_span_dev *but)
{
	for (unsigned i = 0; i < sp->nr; i++)
		if (&sp->dev[i] != but && out_stays(sp, &sp->dev[i]))
			return true;
	return false;
}

static void out_write(struct ssd_span *sp)
{
	sp->is_writing = true;
	for (unsigned i = 0; i < sp->nr; i++) {
		struct ssd_span_dev *d = &sp->dev[i];

		if (!out_stays(sp, d))
			continue;
		d->s->super.roster = sp->roster;
		ssd_health_super(d->s);
	}
}

static void out_begin(struct ssd_span *sp, struct ssd_span_dev *d, enum store_part_state as)
{
	sp->leaver = d;
	sp->leaves_as = as;
	ssd_roster_leave(&sp->roster, d->file_id);
	out_write(sp);
}

static void out_tell(struct ssd_span *sp, const struct ssd_span_dev *d)
{
	char text[700];

	if (sp->leaves_as == STORE_PART_LOST)
		snprintf(text, sizeof(text),
			 "SSD under %s: it has failed and is out; what it held is a miss, the "
			 "other devices go on",
			 d->folder);
	else
		snprintf(text, sizeof(text),
			 "SSD under %s: drained, nothing is asked of it any more: it may be taken "
			 "out of the configuration",
			 d->folder);
	store_alert(&sp->st, NULL, text);
}

static void out_wait(struct ssd_span *sp)
{
	uint64_t now = reactor_turn_ns(sp->st.owner);

	sp->wait_until_ns = now + SSD_SPAN_PAUSE_NS;
	timeout_set(sp->st.owner, &sp->wake, sp->wait_until_ns);
}

static bool out_waits(const struct ssd_span *sp)
{
	return reactor_turn_ns(sp->st.owner) < sp->wait_until_ns;
}

/* Are the others' superblocks written? */
static int out_go_on(struct ssd_span *sp)
{
	bool is_good = false;
	int res;

	if (!sp->is_writing) {
		if (!out_waits(sp))
			out_write(sp);
		return 0;
	}
	for (unsigned i = 0; i < sp->nr; i++) {
		if (!out_stays(sp, &sp->dev[i]))
			continue;
		res = ssd_health_super_is(sp->dev[i].s);
		if (res == -EAGAIN)
			return 0;
		is_good |= !res;
	}
	sp->is_writing = false;
	if (!is_good) {
		out_wait(sp);
		return 0;
	}
	counter_set(&sp->leaver->state, sp->leaves_as);
	if (sp->leaves_as == STORE_PART_DRAINED) {
		/* Its own word, too: should it come back, nothing that was deleted since does. */
		sp->leaver->s->super.roster = sp->roster;
		ssd_health_super(sp->leaver->s);
	}
	out_tell(sp, sp->leaver);
	sp->leaver = NULL;
	return 1;
}

/* One that is off because of its errors, not because somebody has said so. */
static struct ssd_span_dev *out_failed(struct ssd_span *sp)
{
	for (unsigned i = 0; i < sp->nr; i++) {
		struct ssd_span_dev *d = &sp->dev[i];

		if (ssd_span_is_in(d) && d->s->health.trip.state == TRIP_OFF && !d->is_said &&
		    out_has_other(sp, d))
			return d;
	}
	return NULL;
}

/* ---- draining -------------------------------------------------------------------------------- */

static void out_synced(struct ssd_sync_wait *w, int res)
{
	struct ssd_span_dev *d = container_of(w, struct ssd_span_dev, sync);

	d->sp->is_synced &= !res;
	d->sp->nr_syncs--;
}

/* What was moved is durable before its old place is given up. */
static void out_sync(struct ssd_span *sp)
{
	sp->is_synced = true;
	for (unsigned i = 0; i < sp->nr; i++) {
		struct ssd_span_dev *d = &sp->dev[i];

		if (!ssd_span_is_in(d) || ssd_span_state(d) != STORE_PART_IN)
			continue;
		d->sync.fn = out_synced;
		sp->nr_syncs++;
		ssd_unit_sync(d->s, &d->sync);
	}
}

static struct ssd_span_dev *out_draining(struct ssd_span *sp)
{
	for (unsigned i = 0; i < sp->nr; i++)
		if (sp->dev[i].s && ssd_span_state(&sp->dev[i]) == STORE_PART_DRAINING)
			return &sp->dev[i];
	return NULL;
}

static bool out_is_reading(const struct ssd_span *sp)
{
	for (unsigned i = 0; i < sp->nr; i++)
		if (ssd_span_is_in(&sp->dev[i]) && ssd_recover_is_reading(sp->dev[i].s))
			return true;
	return false;
}

static int out_drain(struct ssd_span *sp, struct ssd_span_dev *d)
{
	int n = 0;

	if (sp->nr_syncs || out_waits(sp) || out_is_reading(sp))
		return 0;
	if (!out_has_other(sp, d) || d->s->health.trip.state == TRIP_OFF) {
		out_wait(sp);
		return 0;
	}
	if (sp->is_synced) {
		sp->is_synced = false;
		out_begin(sp, d, STORE_PART_DRAINED);
		return 1;
	}
	if (ssd_span_move_step(sp, d, &n))
		out_sync(sp);
	else if (!n && !sp->nr_moves && !out_waits(sp))
		out_wait(sp);
	return n;
}

/* From now on; nobody waits for what the rate before had left to wait for. */
static void out_pace(struct ssd_span *sp, uint64_t rate)
{
	pace_init(&sp->pace, rate, reactor_turn_ns(sp->st.owner));
	sp->wait_until_ns = 0;
}

int ssd_span_out_drain(struct ssd_span *sp, struct ssd_span_dev *d, const struct store_control *c)
{
	enum store_part_state state = ssd_span_state(d);
	uint64_t rate = div_round_up(c->rate_bytes, store_set_nr_shards(sp->st.set));
	bool is_on = c->arg;

	if (state == STORE_PART_LOST || state == STORE_PART_MISSING)
		return -ENODEV;
	if (!is_on)
		switch (state) {
		case STORE_PART_DRAINING:
			if (sp->leaver == d)
				return -EBUSY;
			counter_set(&d->state, STORE_PART_IN);
			return 0;
		case STORE_PART_DRAINED:
			return -EBUSY;
		case STORE_PART_IN:
		case STORE_PART_LOST:
		case STORE_PART_MISSING:
			return 0;
		}
	if (state == STORE_PART_DRAINING)
		out_pace(sp, rate);
	if (state != STORE_PART_IN)
		return 0;
	if (!out_has_other(sp, d) || out_draining(sp))
		return out_draining(sp) ? -EBUSY : -EINVAL;
	counter_set(&d->moved, 0);
	counter_set(&d->moved_bytes, 0);
	counter_set(&d->state, STORE_PART_DRAINING);
	out_pace(sp, rate);
	sp->walk = 0;
	sp->nr_moved = 0;
	sp->is_synced = false;
	return 0;
}

int ssd_span_out_step(struct ssd_span *sp)
{
	struct ssd_span_dev *d;

	if (store_set_is_closing(&sp->st))
		return 0;
	if (sp->leaver)
		return out_go_on(sp);
	d = out_failed(sp);
	if (d) {
		out_begin(sp, d, STORE_PART_LOST);
		return 1;
	}
	d = out_draining(sp);
	return d ? out_drain(sp, d) : 0;
}
