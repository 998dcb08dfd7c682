/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See ssd_span.h. Several devices opened as one tier, and its figures: what each says, summed, so
 * that to the stack it is one tier with one denominator; parts say what lies where.
 *
 * Opening: all files are looked at first, so that the roster decides before anything is written
 * (ssd_roster.h); then each is opened as a log of its own. Blocking, on the thread that builds the
 * store; the rest on the shard's owner, figures on any thread.
 */
#include "store/ssd/ssd_span.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/container.h"
#include "base/must.h"
#include "store/ssd/ssd_ahead.h"
#include "store/ssd/ssd_cap.h"
#include "store/store_ahead.h"
#include "store/store_int.h"

#define WEIGHT_UNIT (1u << 20)

/* ---- figures --------------------------------------------------------------------------------- */

static const struct ssd_span *span_const(const struct store *st)
{
	return (const struct ssd_span *)st;
}

/* What it counted stays counted when it is out; what it holds doesn't. */
static void span_dev_stats(const struct ssd_span_dev *d, struct store_stats *st)
{
	*st = (struct store_stats){0};
	if (!d->s)
		return;
	d->s->st.ops->stats(&d->s->st, st);
	if (!ssd_span_is_in(d))
		st->capacity_bytes = st->used_bytes = st->value_bytes = st->nr_keys =
			st->index_bytes = 0;
}

static void span_stats(const struct store *st, struct store_stats *out)
{
	const struct ssd_span *sp = span_const(st);
	struct store_stats one;

	for (unsigned i = 0; i < sp->nr; i++) {
		span_dev_stats(&sp->dev[i], &one);
		store_set_stats_add(out, &one);
	}
	out->misses += counter_get(&sp->misses);
}

static void span_dev_health(const struct ssd_span_dev *d, struct store_health *h)
{
	*h = (struct store_health){0};
	if (d->s)
		d->s->st.ops->health(&d->s->st, h);
	if (!ssd_span_is_in(d))
		h->nr_recovering = 0;
}

/* The tier is as good as the best of its devices. */
static void span_health(const struct store *st, struct store_health *out)
{
	const struct ssd_span *sp = span_const(st);
	enum trip_state best = TRIP_OFF;
	struct store_health one;

	for (unsigned i = 0; i < sp->nr; i++) {
		span_dev_health(&sp->dev[i], &one);
		store_health_add(out, &one);
		if (ssd_span_is_in(&sp->dev[i]))
			best = min_t(enum trip_state, best, one.state);
	}
	out->state = best;
}

static int span_part(const struct store *st, unsigned i, struct store_part *p)
{
	const struct ssd_span *sp = span_const(st);
	const struct ssd_span_dev *d = &sp->dev[i];

	if (i >= sp->nr)
		return -ENOENT;
	*p = (struct store_part){
		.state = ssd_span_state(d),
		.moved = counter_get(&d->moved),
		.moved_bytes = counter_get(&d->moved_bytes),
	};
	snprintf(p->folder, sizeof(p->folder), "%s", d->folder);
	span_dev_stats(d, &p->st);
	span_dev_health(d, &p->health);
	return 0;
}

/* What it can't know before the stack is built: the tier's place in it. */
static void span_bind(struct ssd_span *sp)
{
	char text[700];

	sp->is_bound = true;
	for (unsigned i = 0; i < sp->nr; i++) {
		struct ssd_span_dev *d = &sp->dev[i];
		const char *what = NULL;

		if (d->s) {
			d->s->st.below = NULL;
			d->s->st.set = sp->st.set;
			d->s->st.owner = sp->st.owner;
			d->s->st.shard = sp->st.shard;
			d->s->st.tier = sp->st.tier;
		}
		if (!d->s)
			what = "it is missing: what it held is a miss, nothing is made in its "
			       "place, the other devices go on";
		else if (d->is_fresh)
			what = "values may have changed without it: it begins empty";
		if (!what || d->is_told)
			continue;
		d->is_told = true;
		snprintf(text, sizeof(text), "SSD under %s: %s", d->folder, what);
		store_alert(&sp->st, NULL, text);
	}
}

/* ---- an operator's word ---------------------------------------------------------------------- */

static bool span_is_meant(const struct ssd_span_dev *d, const struct store_control *c)
{
	return !c->folder || strcmp(c->folder, d->folder) == 0;
}

static int span_tell(struct ssd_span *sp, struct ssd_span_dev *d, struct store_control *c)
{
	if (c->verb == STORE_CONTROL_DRAIN)
		return ssd_span_out_drain(sp, d, c);
	if (!ssd_span_is_in(d))
		return c->folder ? -ENODEV : 0;
	if (c->verb == STORE_CONTROL_STATE)
		d->is_said = c->arg == TRIP_OFF;
	d->s->st.ops->control(&d->s->st, c);
	return 0;
}

static void span_control(struct store *st, struct store_control *c)
{
	struct ssd_span *sp = ssd_span_of(st);
	uint64_t arg = c->arg;
	bool is_found = false;
	unsigned nr = 0;
	int err;

	if (!sp->is_bound)
		span_bind(sp);
	for (unsigned i = 0; i < sp->nr; i++)
		nr += ssd_span_is_in(&sp->dev[i]);
	/* A budget is the whole tier's: each device has its part. */
	if (c->verb == STORE_CONTROL_BUDGET && nr)
		c->arg = div_round_up(arg, nr);
	for (unsigned i = 0; i < sp->nr; i++) {
		if (!span_is_meant(&sp->dev[i], c))
			continue;
		is_found = true;
		err = span_tell(sp, &sp->dev[i], c);
		c->err = c->err ? c->err : err;
	}
	c->arg = arg;
	if (!is_found)
		c->err = -ENOENT;
}

/* ---- the rest of the ops --------------------------------------------------------------------- */

static int span_step(struct store *st)
{
	struct ssd_span *sp = ssd_span_of(st);
	int n = 0;

	if (!sp->is_bound)
		span_bind(sp);
	for (unsigned i = 0; i < sp->nr; i++)
		if (sp->dev[i].s)
			n += sp->dev[i].s->st.ops->step(&sp->dev[i].s->st);
	return n + ssd_span_out_step(sp);
}

static bool span_is_busy(const struct store *st)
{
	const struct ssd_span *sp = span_const(st);

	for (unsigned i = 0; i < sp->nr; i++)
		if (sp->dev[i].s && sp->dev[i].s->st.ops->is_busy(&sp->dev[i].s->st))
			return true;
	return sp->nr_moves || sp->nr_syncs;
}

static void span_prefetch(struct store *st, const struct store_key *key, int stage)
{
	const struct ssd_span *sp = ssd_span_of(st);

	for (unsigned i = 0; i < sp->nr; i++)
		if (ssd_span_is_in(&sp->dev[i]))
			ssd_index_prefetch(&sp->dev[i].s->ix, key, stage);
}

static int span_hint(struct store *st, const struct store_hint *h)
{
	struct ssd_span_dev *d = ssd_span_verb_find(ssd_span_of(st), &h->key, 0);

	if (h->verb != STORE_HINT_SCORE)
		return -EOPNOTSUPP;
	return d ? ssd_read_hint(&d->s->st, h) : -ENOENT;
}

/* Neighbours are on the same device. */
static void span_ahead(struct store *st, struct store_ahead *a)
{
	struct ssd_span_dev *d = ssd_span_verb_find(ssd_span_of(st), &a->key, 0);

	if (d)
		d->s->st.ops->ahead(&d->s->st, a);
	else
		a->end(a);
}

static void span_free(struct ssd_span *sp)
{
	for (unsigned i = 0; i < sp->nr; i++)
		free(sp->dev[i].folder);
	free(sp);
}

static void span_wake(struct timeout *t)
{
}

static void span_destroy(struct store *st)
{
	struct ssd_span *sp = ssd_span_of(st);

	timeout_cancel(&sp->wake);
	for (unsigned i = 0; i < sp->nr; i++)
		if (sp->dev[i].s)
			sp->dev[i].s->st.ops->destroy(&sp->dev[i].s->st);
	span_free(sp);
}

/* A verb may be the first thing that comes. */
#define SPAN_VERB(name) \
	static void span_##name(struct store *st, struct store_io *io) \
	{ \
		if (unlikely(!ssd_span_of(st)->is_bound)) \
			span_bind(ssd_span_of(st)); \
		ssd_span_verb_##name(st, io); \
	}
SPAN_VERB(buf)
SPAN_VERB(put)
SPAN_VERB(get)
SPAN_VERB(fill)
SPAN_VERB(inval)
SPAN_VERB(del)
SPAN_VERB(exist)
SPAN_VERB(all)

static const struct store_ops span_ops = {
	.name = "ssd",
	.has_index = true,
	.verb =
		{
			[STORE_BUF] = span_buf,
			[STORE_PUT] = span_put,
			[STORE_GET] = span_get,
			[STORE_FILL] = span_fill,
			[STORE_INVAL] = span_inval,
			[STORE_DEL] = span_del,
			[STORE_EXIST] = span_exist,
			[STORE_MATCH] = span_all,
			[STORE_LIST] = span_all,
			[STORE_FLUSH] = span_all,
		},
	.prefetch = span_prefetch,
	.hint = span_hint,
	.ahead = span_ahead,
	.stats = span_stats,
	.health = span_health,
	.part = span_part,
	.control = span_control,
	.step = span_step,
	.is_busy = span_is_busy,
	.destroy = span_destroy,
};

/* ---- opening --------------------------------------------------------------------------------- */

/* What one of them is to be opened with. */
struct span_file {
	struct store_ssd_opts o;
	struct ssd_birth birth;
	struct ssd_dev *dev; /* open, and not yet a store's */
};

static void file_look(struct span_file *f, struct ssd_roster_dev *r)
{
	struct ssd_super_info si;

	r->folder = ssd_roster_folder(f->o.folder ? f->o.folder : "");
	f->dev = f->o.dev;
	if (!f->dev && access(f->o.path, F_OK))
		r->err = -errno;
	if (!f->dev && !r->err)
		r->err = ssd_dev_open(f->o.path, f->o.bytes, &f->dev);
	if (!r->err)
		r->err = ssd_super_peek(&f->o, f->dev, &si);
	r->is_blank = r->err == -ENOENT && f->dev;
	if (r->is_blank)
		r->err = 0;
	if (r->err || r->is_blank)
		return;
	r->id = ssd_roster_id(si.uuid);
	r->was = si.roster;
	f->birth.generation = si.generation;
}

static int file_make(struct span_file *f)
{
	int err;

	if (f->dev)
		return 0;
	err = ssd_health_room(&f->o);
	if (!err)
		err = ssd_cap_check(&f->o);
	return err ? err : ssd_dev_open(f->o.path, f->o.bytes, &f->dev);
}

/* All of them are there before one is written to. */
static int files_make(struct span_file *f, const struct ssd_roster_dev *r, unsigned nr)
{
	int err = 0;

	for (unsigned i = 0; i < nr && !err; i++)
		if (r[i].fate == SSD_ROSTER_MAKE)
			err = file_make(&f[i]);
	return err;
}

static void files_close(struct span_file *f, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		if (f[i].dev && f[i].dev != f[i].o.dev)
			f[i].dev->ops->close(f[i].dev);
}

static int file_open(struct span_file *f, const struct ssd_roster_dev *r, bool is_part,
		     struct store **s)
{
	struct ssd_dev *given = f->o.dev;
	int err;

	f->birth.is_dropped = r->fate == SSD_ROSTER_DROP;
	f->o.birth = &f->birth;
	f->o.is_part = is_part;
	f->o.dev = f->dev;
	err = store_ssd_create(&f->o, s);
	f->o.dev = given;
	if (!err)
		f->dev = NULL; /* the store's */
	return err;
}

static int span_dev_open(struct ssd_span *sp, struct span_file *f, const struct ssd_roster_dev *r)
{
	struct ssd_span_dev *d = &sp->dev[sp->nr++];
	struct store *s = NULL;
	int err;

	*d = (struct ssd_span_dev){
		.sp = sp,
		.folder = strdup(f->o.folder ? f->o.folder : ""),
		.folder_id = r->folder,
		.file_id = r->fate == SSD_ROSTER_KEEP ? r->id : r->new_id,
		.is_fresh = r->fate == SSD_ROSTER_DROP,
	};
	if (!d->folder)
		return -ENOMEM;
	if (r->fate == SSD_ROSTER_MISSING) {
		counter_set(&d->state, STORE_PART_MISSING);
		return 0;
	}
	err = file_open(f, r, true, &s);
	if (err)
		return err;
	d->s = ssd_of(s);
	d->nr_values = d->s->nr_free_values;
	d->weight = (uint32_t)min_t(uint64_t, d->s->dev->bytes / WEIGHT_UNIT + 1, UINT32_MAX);
	return 0;
}

/* Their stores have no place in a stack yet, and nothing is under way. */
static void span_abandon(struct ssd_span *sp)
{
	for (unsigned i = 0; i < sp->nr; i++)
		if (sp->dev[i].s)
			sp->dev[i].s->st.ops->destroy(&sp->dev[i].s->st);
	span_free(sp);
}

static int span_create(struct span_file *f, const struct ssd_roster_dev *r, unsigned nr,
		       struct store **out)
{
	struct ssd_span *sp = calloc(1, sizeof(*sp));
	int err = 0;

	if (!sp)
		return -ENOMEM;
	sp->st.ops = &span_ops;
	sp->roster = f->birth.roster;
	timeout_init(&sp->wake, span_wake);
	for (unsigned i = 0; i < nr && !err; i++)
		err = span_dev_open(sp, &f[i], &r[i]);
	if (err)
		span_abandon(sp);
	else
		*out = &sp->st;
	return err;
}

static int files_ids(struct span_file *f, struct ssd_roster_dev *r, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		if (getrandom(f[i].birth.uuid, sizeof(f[i].birth.uuid), 0) !=
		    sizeof(f[i].birth.uuid))
			return -errno;
		r[i].new_id = ssd_roster_id(f[i].birth.uuid);
	}
	return 0;
}

/* The roster says what becomes of each; then they are opened, one alone as what it is. */
static int files_decide(struct span_file *f, unsigned nr, bool is_immutable, struct store **out)
{
	struct ssd_roster_dev r[SSD_ROSTER_MAX] = {0};
	struct ssd_roster now;
	uint64_t generation = 0;
	int err = files_ids(f, r, nr);

	if (err)
		return err;
	for (unsigned i = 0; i < nr; i++)
		file_look(&f[i], &r[i]);
	err = ssd_roster_decide(r, nr, is_immutable, &now);
	if (!err)
		err = files_make(f, r, nr);
	if (err)
		return err;
	for (unsigned i = 0; i < nr; i++)
		generation = max_t(uint64_t, generation, f[i].birth.generation);
	for (unsigned i = 0; i < nr; i++) {
		f[i].birth.roster = now;
		f[i].birth.generation = generation;
	}
	return nr > 1 ? span_create(f, r, nr, out) : file_open(f, r, false, out);
}

/* tidy: name: of store_make.h */
int store_ssd_open(const struct store_ssd_opts *o, unsigned nr, bool is_immutable,
		   struct store **out)
{
	struct span_file *f = calloc(nr, sizeof(*f));
	int err;

	must(nr >= 1 && nr <= SSD_ROSTER_MAX);
	if (!f)
		return -ENOMEM;
	for (unsigned i = 0; i < nr; i++)
		f[i].o = o[i];
	err = files_decide(f, nr, is_immutable, out);
	files_close(f, nr);
	free(f);
	return err;
}
