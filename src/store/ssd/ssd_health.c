/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See ssd_health.h. Runs on the shard's owner; init blocks, and the figures may be read by any
 * thread.
 */
#include "store/ssd/ssd_health.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/container.h"
#include "base/must.h"
#include "store/ssd/ssd_int.h"
#include "store/ssd/ssd_watch.h"
#include "store/store_make.h"

#define ERRORS_MAX 16u /* in the bucket of errors, which forgives one in */
#define ERRORS_LEAK_NS (60ull * 1000000000)
#define FAULTS_MAX 2u /* of a segment */

static uint64_t health_now(const struct ssd *s)
{
	return s->st.owner ? reactor_turn_ns(s->st.owner) : 0;
}

static uint32_t health_limit(uint32_t asked, uint32_t dflt)
{
	return asked == UINT32_MAX ? 0 : asked ? asked : dflt;
}

/* ---- what may be done ------------------------------------------------------------------------ */

static uint32_t health_budget(struct ssd *s)
{
	struct ssd_health *h = &s->health;
	uint64_t now = health_now(s);

	if (!h->has_budget)
		wear_budget_init(&h->budget, h->care.day_bytes, now);
	h->has_budget = true;
	return wear_budget_level(&h->budget, now);
}

/* STORE_NR_REFUSED: nothing is against writing values. */
static enum store_refused health_why_not(struct ssd *s)
{
	const struct ssd_watch_dev *w = s->health.care.watch;

	if (s->health.trip.state != TRIP_RW)
		return STORE_REFUSED_STATE;
	if (w && !atomic_load_explicit(&w->may_write, memory_order_relaxed))
		return STORE_REFUSED_WEAR;
	if (ssd_room_is_out(s))
		return STORE_REFUSED_ROOM;
	if (!health_budget(s))
		return STORE_REFUSED_BUDGET;
	return STORE_NR_REFUSED;
}

/* Who is told when his value has arrived is promised more than a cache. */
static bool health_is_worth_it(struct ssd *s, const struct store_io *io)
{
	uint16_t cls = io->meta ? io->meta->cls : 0;

	return s->opts.is_durable || s->health.care.is_through || io->flags & STORE_WANTED ||
	       admit_wants(&s->health.admit, io->key.hash, cls, (uint32_t)io->len,
			   health_budget(s));
}

void ssd_health_gone(struct ssd *s, uint16_t cls, bool was_used)
{
	admit_gone(&s->health.admit, cls, was_used);
}

int ssd_health_admits(struct ssd *s, const struct store_io *io)
{
	const struct ssd_entry *e = ssd_seg_live(s, &io->key);
	enum store_refused why;

	/* It is there already and the same: nothing will be written. */
	if (e && e->len == io->len && store_set_is_immutable(s->st.set))
		return 0;
	why = ssd_bad_has(s, &io->key) ? STORE_REFUSED_BAD : health_why_not(s);
	/* What another device of the tier gives away was worth it before. */
	if (why == STORE_NR_REFUSED && !(io->flags & STORE_BACKGROUND) &&
	    !health_is_worth_it(s, io))
		why = STORE_REFUSED_POLICY;
	if (why == STORE_NR_REFUSED)
		return 0;
	counter_add(&s->health.refused[why], 1);
	return why == STORE_REFUSED_POLICY && s->st.tier ? -EDQUOT : -ENOSPC;
}

bool ssd_health_may_save(struct ssd *s)
{
	return health_why_not(s) == STORE_NR_REFUSED;
}

bool ssd_health_may_read(const struct ssd *s)
{
	return s->health.trip.state != TRIP_OFF;
}

void ssd_health_wrote(struct ssd *s, enum store_wrote why, uint64_t bytes)
{
	struct ssd_health *h = &s->health;

	counter_add(&h->wrote[why], bytes);
	wear_budget_spend(&h->budget, bytes);
	if (why != STORE_WROTE_FIRST)
		pace_spend(&s->pace, bytes);
	if (h->care.watch)
		atomic_fetch_add_explicit(&h->care.watch->written_bytes, bytes,
					  memory_order_relaxed);
}

/* ---- what has failed ------------------------------------------------------------------------- */

static void health_enter(struct ssd *s, enum trip_state was)
{
	static const char *const what[] = {
		[TRIP_RW] = "the SSD tier is read and written again",
		[TRIP_READ_ONLY] = "the SSD tier is read-only from now on: too many errors of its "
				   "device; see ssd.state",
		[TRIP_OFF] = "the SSD tier is off from now on: too many errors of its device, "
			     "memory serves alone; see ssd.state",
	};
	enum trip_state now = s->health.trip.state;

	counter_set(&s->health.state, now);
	if (now != was)
		store_alert(&s->st, NULL, what[now]);
}

void ssd_health_error(struct ssd *s, enum store_error what)
{
	enum trip_state was = s->health.trip.state;

	counter_add(&s->health.errors[what], 1);
	trip_error(&s->health.trip, health_now(s));
	health_enter(s, was);
}

void ssd_health_fault(struct ssd *s, uint32_t seg)
{
	struct ssd_seg *g = &s->segs[seg];
	uint32_t max = health_limit(s->health.care.faults_max, FAULTS_MAX);

	g->nr_faults += g->nr_faults < UINT8_MAX;
	if (!max || g->nr_faults < max || g->is_condemned)
		return;
	g->is_condemned = true;
	s->health.nr_condemned++;
	ssd_evict_kick(s);
}

void ssd_health_read_failed(struct ssd *s, const struct ssd_read *r, int err)
{
	if (ssd_read_is_torn(r, err))
		return;
	ssd_health_error(s, err == -EILSEQ ? STORE_ERROR_WRONG : STORE_ERROR_READ);
	ssd_health_fault(s, r->seg);
	ssd_bad_add(s, &r->key);
}

static void control_state(struct ssd *s, enum trip_state state)
{
	enum trip_state was = s->health.trip.state;

	trip_set(&s->health.trip, state);
	health_enter(s, was);
}

/* ---- segments that are not to be used again -------------------------------------------------- */

int ssd_health_condemned(const struct ssd *s)
{
	if (!s->health.nr_condemned || s->health.trip.state != TRIP_RW)
		return -1;
	for (uint32_t i = 0; i < s->nr_segs; i++)
		if (s->segs[i].is_condemned && s->segs[i].state == SSD_SEALED)
			return (int)i;
	return -1;
}

static void super_write(struct ssd *s);

/* What is on the list stays dead in all lives to come. */
static void super_buried(struct ssd *s)
{
	for (uint32_t i = 0; i < s->super.nr_dead; i++)
		if (s->super.dead[i] < s->nr_segs)
			ssd_seg_set(s, s->super.dead[i], SSD_DEAD);
}

/*
 * One copy after the other, so that one is always whole. What fails is tried with the next change:
 * until then the segment isn't used, and the next life looks at its head, which says that it is
 * free.
 */
static void super_written(struct ssd_unit *u, int res)
{
	struct ssd *s = u->s;
	struct ssd_health *h = &s->health;

	h->is_super_busy = false;
	s->nr_busy--;
	if (res < 0)
		ssd_health_error(s, STORE_ERROR_WRITE);
	else
		h->nr_super_good++;
	if (++h->super_copy < 2 || h->is_super_due)
		super_write(s);
	else if (h->nr_super_good)
		super_buried(s);
}

static void super_write(struct ssd *s)
{
	struct ssd_health *h = &s->health;
	struct ssd_unit *u = &h->super;

	if (h->is_super_busy)
		return;
	if (h->super_copy == 2) {
		h->super_copy = 0;
		h->nr_super_good = 0;
		h->is_super_due = false;
		s->super.generation++;
		ssd_format_super(&s->super, h->super_mem);
	}
	h->is_super_busy = true;
	s->nr_busy++;
	u->buf = h->super_mem;
	u->len = SSD_BLOCK;
	u->off = ssd_super_addr(s, h->super_copy);
	u->wants_sync = true;
	u->wants_verify = true;
	u->why = STORE_WROTE_TABLES;
	u->end = super_written;
	ssd_unit_submit(s, u);
}

bool ssd_health_bury(struct ssd *s, uint32_t seg)
{
	struct ssd_seg *g = &s->segs[seg];
	struct ssd_health *h = &s->health;

	if (!g->is_condemned || s->super.nr_dead == SSD_DEAD_MAX)
		return false;
	must(h->nr_condemned > 0 && !g->nr_entries);
	g->is_condemned = false;
	h->nr_condemned--;
	s->super.dead[s->super.nr_dead++] = seg;
	store_alert(&s->st, NULL, "a segment of the SSD tier has failed twice: not used again");
	if (s->nr_segs - s->super.nr_dead < SSD_SEGS_MIN && h->trip.state == TRIP_RW)
		control_state(s, TRIP_READ_ONLY);
	ssd_health_super(s);
	return true;
}

void ssd_health_super(struct ssd *s)
{
	counter_set(&s->health.nr_dead, s->super.nr_dead);
	s->health.is_super_due = true;
	super_write(s);
}

int ssd_health_super_is(const struct ssd *s)
{
	const struct ssd_health *h = &s->health;

	if (h->is_super_busy || h->is_super_due || h->super_copy < 2)
		return -EAGAIN;
	return h->nr_super_good ? 0 : -EIO;
}

/* ---- an operator's word ---------------------------------------------------------------------- */

void ssd_health_control(struct store *st, struct store_control *c)
{
	struct ssd *s = ssd_of(st);
	uint64_t nr = store_set_nr_shards(st->set);

	switch (c->verb) {
	case STORE_CONTROL_STATE:
		control_state(s, (enum trip_state)c->arg);
		return;
	case STORE_CONTROL_BUDGET:
		s->health.care.day_bytes = div_round_up(c->arg, nr);
		health_budget(s);
		wear_budget_set(&s->health.budget, s->health.care.day_bytes, health_now(s));
		counter_set(&s->health.day_bytes, s->health.care.day_bytes);
		return;
	case STORE_CONTROL_BAD_LIST:
		ssd_bad_list(s, c);
		return;
	case STORE_CONTROL_BAD_CLEAR:
		c->nr += s->health.bad.nr;
		ssd_bad_clear(s);
		return;
	case STORE_CONTROL_DRAIN: /* there is no other */
		c->err = -EINVAL;
		return;
	}
}

/* ---- figures --------------------------------------------------------------------------------- */

void ssd_health_get(const struct store *st, struct store_health *out)
{
	const struct ssd *s = (const struct ssd *)st;
	const struct ssd_health *h = &s->health;

	for (unsigned i = 0; i < STORE_NR_WROTE; i++)
		out->wrote[i] = counter_get(&h->wrote[i]);
	for (unsigned i = 0; i < STORE_NR_REFUSED; i++)
		out->refused[i] = counter_get(&h->refused[i]);
	for (unsigned i = 0; i < STORE_NR_ERRORS; i++)
		out->errors[i] = counter_get(&h->errors[i]);
	out->nr_segments = s->nr_segs;
	out->nr_dead = counter_get(&h->nr_dead);
	out->nr_bad = counter_get(&h->nr_bad);
	out->budget_day_bytes = counter_get(&h->day_bytes);
	out->given_back_bytes = counter_get(&h->given_back);
	out->nr_recovering = counter_get(&s->count.recovering) != 0;
	out->recover_segments = counter_get(&s->count.recover_all);
	out->recovered_segments = counter_get(&s->count.recover_done);
	out->recover_bytes = counter_get(&s->count.recover_bytes);
	out->recover_ms = counter_get(&s->count.recover_ms);
	out->state = (enum trip_state)counter_get(&h->state);
}

/* ---- life ------------------------------------------------------------------------------------ */

int ssd_health_room(const struct store_ssd_opts *o)
{
	auto_free char *folder = NULL;
	struct statvfs v;

	if (!o->care || !o->care->min_free_bytes || access(o->path, F_OK) == 0)
		return 0;
	folder = strdup(o->path);
	if (!folder)
		return -ENOMEM;
	if (statvfs(dirname(folder), &v))
		return -errno;
	return (uint64_t)v.f_bavail * v.f_frsize < o->bytes + o->care->min_free_bytes ? -ENOSPC : 0;
}

int ssd_health_init(struct ssd *s)
{
	struct ssd_health *h = &s->health;

	if (s->opts.care)
		h->care = *s->opts.care;
	s->opts.care = NULL;
	trip_init(&h->trip, health_limit(h->care.errors_max, ERRORS_MAX), ERRORS_LEAK_NS, 0);
	counter_set(&h->day_bytes, h->care.day_bytes);
	h->super_copy = 2;
	h->super_mem = aligned_alloc(SSD_BLOCK, SSD_BLOCK);
	return h->super_mem ? ssd_bad_init(s) : -ENOMEM;
}

void ssd_health_fini(struct ssd *s)
{
	must(!s->health.is_super_busy && !s->health.bad.is_busy);
	ssd_bad_fini(s);
	free(s->health.super_mem);
}
