/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs of several devices: which of them is asked, and in what order. See ssd_span.h.
 *
 * The order of devices is that of the configuration, and says nothing but who is asked first. Runs
 * on the shard's owner.
 * tidy: no-test: t_ssd_span.c has the verbs, m_ssd all orders and faults
 */
#include <errno.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/must.h"
#include "policy/place.h"
#include "store/ssd/ssd_span.h"

/* Across what the devices do with an io. */
struct span_frame {
	uint64_t ver;
	uint32_t at; /* the device that is being asked */
	int res;
	bool was_here;
};
_Static_assert(sizeof(struct span_frame) <= STORE_FRAME_WORDS * sizeof(uint64_t), "frame fits");

static struct span_frame *span_frame(struct store_io *io)
{
	return store_scratch(io);
}

struct ssd_span_dev *ssd_span_verb_find(struct ssd_span *sp, const struct store_key *key,
					uint64_t ver)
{
	struct ssd_span_dev *first = NULL;

	for (unsigned i = 0; i < sp->nr; i++) {
		struct ssd_span_dev *d = &sp->dev[i];
		const struct ssd_entry *e = ssd_span_is_in(d) ? ssd_seg_live(d->s, key) : NULL;

		if (!e)
			continue;
		if (!ver || e->ver == ver)
			return d;
		first = first ? first : d;
	}
	return first;
}

static uint64_t span_what(const struct store_io *io)
{
	const struct store_meta *m = io->meta;

	return m && m->group_len ? hash_xxh3(m->group, m->group_len, 0) : io->key.hash;
}

/* ---- one of them ----------------------------------------------------------------------------- */

/* May something new lie there, in the end? Not where it would have to be moved away again. */
static bool span_stays(const struct ssd_span *sp, const struct ssd_span_dev *d)
{
	return d->s && d != sp->leaver && ssd_span_state(d) == STORE_PART_IN;
}

/* Of all that take it; NULL: none does. */
static struct ssd_span_dev *span_place(struct ssd_span *sp, const struct store_io *io)
{
	struct place_dev place[SSD_ROSTER_MAX];
	struct ssd_span_dev *d;
	int i;

	for (unsigned k = 0; k < sp->nr; k++) {
		d = &sp->dev[k];
		place[k] = (struct place_dev){.id = d->folder_id};
		if (span_stays(sp, d) && ssd_health_may_save(d->s) && !ssd_bad_has(d->s, &io->key))
			place[k].weight = d->weight;
	}
	i = place_pick(span_what(io), place, sp->nr);
	return i < 0 ? NULL : &sp->dev[i];
}

static struct ssd_span_dev *span_keeper(struct ssd_span *sp, const struct store_key *key)
{
	for (unsigned i = 0; i < sp->nr; i++)
		if (span_stays(sp, &sp->dev[i]) && ssd_seg_live(sp->dev[i].s, key))
			return &sp->dev[i];
	return NULL;
}

/* Where it is and never changes nothing has to be written. */
void ssd_span_verb_buf(struct store *st, struct store_io *io)
{
	struct ssd_span *sp = ssd_span_of(st);
	struct ssd_span_dev *d = NULL;

	if (store_set_is_immutable(st->set))
		d = span_keeper(sp, &io->key);
	if (!d)
		d = span_place(sp, io);
	/* One that takes nothing says why not, and counts it. */
	for (unsigned i = 0; i < sp->nr && !d; i++)
		if (span_stays(sp, &sp->dev[i]))
			d = &sp->dev[i];
	if (d)
		store_hand(io, &d->s->st, NULL);
	else
		store_done(io, -ENOSPC);
}

/* tidy: name: the verb, which ends above */
void ssd_span_verb_put(struct store *st, struct store_io *io)
{
	must(!"memory is above");
}

/* Whose buffer it is took the place; it may have gone out since. */
void ssd_span_verb_fill(struct store *st, struct store_io *io)
{
	struct ssd_span *sp = ssd_span_of(st);

	if (ssd_span_move_is(sp, io)) {
		ssd_span_move_fill(sp, io);
		return;
	}
	for (unsigned i = 0; i < sp->nr; i++) {
		struct ssd_span_dev *d = &sp->dev[i];

		if (d->s && io->view.st == &d->s->st && ssd_span_is_in(d)) {
			store_hand(io, &d->s->st, NULL);
			return;
		}
	}
	store_done(io, -ENOSPC);
}

static void span_came(struct store_io *io, int res)
{
	store_done(io, res == -ESTALE ? -ENOENT : res);
}

/* What it knows of and can't give, the tier below may have: this very version. */
static void span_got(struct store_io *io, int res)
{
	if (res != -ENOENT) {
		store_done(io, res);
		return;
	}
	io->ver = span_frame(io)->ver;
	store_down(io, span_came);
}

static uint64_t span_ghost_ver(const struct ssd_span *sp, const struct store_key *key)
{
	uint64_t ver = 0;

	for (unsigned i = 0; i < sp->nr; i++) {
		const struct ssd_span_dev *d = &sp->dev[i];
		const struct ssd_entry *e = ssd_span_is_in(d) ? ssd_index_find(&d->s->ix, key)
							      : NULL;

		ver = e ? max_t(uint64_t, ver, e->ver) : ver;
	}
	return ver;
}

void ssd_span_verb_get(struct store *st, struct store_io *io)
{
	struct ssd_span *sp = ssd_span_of(st);
	struct ssd_span_dev *d = ssd_span_verb_find(sp, &io->key, io->ver);
	uint64_t ver;

	if (d && !st->below) {
		store_hand(io, &d->s->st, NULL);
		return;
	}
	if (d) {
		span_frame(io)->ver = ssd_index_find(&d->s->ix, &io->key)->ver;
		store_hand(io, &d->s->st, span_got);
		return;
	}
	if (!(io->flags & STORE_UNCOUNTED))
		counter_add(&sp->misses, 1);
	ver = span_ghost_ver(sp, &io->key);
	if (ver)
		io->ver = ver;
	store_down(io, ver ? span_came : NULL);
}

void ssd_span_verb_exist(struct store *st, struct store_io *io)
{
	struct ssd_span_dev *d = ssd_span_verb_find(ssd_span_of(st), &io->key, 0);

	if (d)
		store_hand(io, &d->s->st, NULL);
	else
		store_down(io, NULL);
}

/* ---- all of them, one after the other -------------------------------------------------------- */

/* The next one from `at` on; NULL: that was all. */
static struct ssd_span_dev *span_next(struct ssd_span *sp, struct store_io *io)
{
	struct span_frame *f = span_frame(io);

	while (f->at < sp->nr && !ssd_span_is_in(&sp->dev[f->at]))
		f->at++;
	return f->at < sp->nr ? &sp->dev[f->at++] : NULL;
}

static void span_first(struct store_io *io)
{
	*span_frame(io) = (struct span_frame){.ver = io->ver};
}

static void span_invaled(struct store_io *io, int res);

static void span_inval_next(struct store_io *io)
{
	struct ssd_span_dev *d = span_next(ssd_span_of(io->at), io);

	if (d)
		store_hand(io, &d->s->st, span_invaled);
	else
		store_down(io, NULL);
}

/* One that refuses ends it: whoever asks comes again, above the version that is in io->ver then. */
static void span_invaled(struct store_io *io, int res)
{
	if (res < 0)
		store_done(io, res);
	else
		span_inval_next(io);
}

void ssd_span_verb_inval(struct store *st, struct store_io *io)
{
	span_first(io);
	span_inval_next(io);
}

static void span_deleted(struct store_io *io, int res);

static void span_del_below(struct store_io *io, int res)
{
	store_done(io, res == -ENOENT && span_frame(io)->was_here ? 0 : res);
}

static void span_del_next(struct store_io *io)
{
	struct ssd_span_dev *d = span_next(ssd_span_of(io->at), io);

	if (d)
		store_hand(io, &d->s->st, span_deleted);
	else
		store_down(io, span_del_below);
}

static void span_deleted(struct store_io *io, int res)
{
	if (res && res != -ENOENT) {
		store_done(io, res);
		return;
	}
	span_frame(io)->was_here |= !res;
	span_del_next(io);
}

/* The highest that any device knows. */
static uint64_t span_ver(const struct ssd_span *sp)
{
	uint64_t ver = 0;

	for (unsigned i = 0; i < sp->nr; i++)
		if (sp->dev[i].s)
			ver = max_t(uint64_t, ver, sp->dev[i].s->ver);
	return ver;
}

/*
 * Its version is one for all, and given now: while one device writes its tombstone others are told
 * of later puts, and what came before those would look too old.
 */
void ssd_span_verb_del(struct store *st, struct store_io *io)
{
	struct ssd_span *sp = ssd_span_of(st);
	uint64_t ver = span_ver(sp);
	bool is_raised = io->ver <= ver;

	if (is_raised)
		io->ver = ver + 1;
	for (unsigned i = 0; i < sp->nr; i++)
		if (ssd_span_is_in(&sp->dev[i]))
			ssd_put_dying(sp->dev[i].s, io, is_raised);
	span_first(io);
	span_del_next(io);
}

static void span_asked(struct store_io *io, int res);

static void span_all_next(struct store_io *io)
{
	struct ssd_span_dev *d = span_next(ssd_span_of(io->at), io);

	if (d)
		store_hand(io, &d->s->st, span_asked);
	else if (span_frame(io)->res)
		store_done(io, span_frame(io)->res);
	else
		store_down(io, NULL);
}

/* A flush that fails on one is still one of all others. */
static void span_asked(struct store_io *io, int res)
{
	if (!span_frame(io)->res)
		span_frame(io)->res = res;
	span_all_next(io);
}

void ssd_span_verb_all(struct store *st, struct store_io *io)
{
	span_first(io);
	span_all_next(io);
}
