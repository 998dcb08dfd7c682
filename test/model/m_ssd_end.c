/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a life ends on purpose: while it does one of the things that a crash must not catch half
 * done. One such step is drawn for some lives; when the tier is there, the life may end.
 */
#include "m_ssd_int.h"

static bool is_recovering(const struct ssd *s, enum ssd_recover_at at)
{
	const struct ssd_recover *r = s->recover;

	return r && r->is_busy && r->at == at;
}

static bool is_evicting(const struct ssd *s, enum ssd_evict_state state, bool is_second)
{
	return s->evict.state == state && s->evict.is_second == is_second;
}

static bool is_logging(const struct ssd *s, enum ssd_stream_state state)
{
	for (unsigned i = 0; i < SSD_STREAMS; i++)
		if (s->stream[i].state == state)
			return true;
	return false;
}

static bool at_foot(const struct ssd *s)
{
	return is_recovering(s, SSD_AT_FOOT);
}

static bool at_close(const struct ssd *s)
{
	return is_recovering(s, SSD_AT_CLOSE);
}

static bool at_free(const struct ssd *s)
{
	return is_recovering(s, SSD_AT_FREE);
}

static bool at_copy(const struct ssd *s)
{
	return is_recovering(s, SSD_AT_COPY);
}

static bool at_place(const struct ssd *s)
{
	return is_recovering(s, SSD_AT_PLACE);
}

static bool at_evict(const struct ssd *s)
{
	return is_evicting(s, SSD_EVICT_LINES, false) || is_evicting(s, SSD_EVICT_READ, false);
}

static bool at_save(const struct ssd *s)
{
	return s->evict.val != NULL;
}

static bool at_retire(const struct ssd *s)
{
	return is_evicting(s, SSD_EVICT_RETIRE, false);
}

static bool at_retired(const struct ssd *s)
{
	return is_evicting(s, SSD_EVICT_READ, true) || is_evicting(s, SSD_EVICT_LINES, true) ||
	       is_evicting(s, SSD_EVICT_WALK, true);
}

/* And some time after: what the index has forgotten is on no medium either. */
static bool at_evicted(const struct ssd *s)
{
	return is_evicting(s, SSD_EVICT_IDLE, true);
}

static bool at_opening(const struct ssd *s)
{
	return is_logging(s, SSD_STREAM_OPENING);
}

static bool at_sealing(const struct ssd *s)
{
	return is_logging(s, SSD_STREAM_SEALING);
}

static bool at_footer(const struct ssd *s)
{
	return is_logging(s, SSD_STREAM_FOOTER);
}

static const struct {
	const char *name;
	bool (*is_here)(const struct ssd *s);
} ends[] = {
	{"foot", at_foot},	 {"close", at_close},	  {"free", at_free},
	{"copy", at_copy},	 {"place", at_place},	  {"evict", at_evict},
	{"save", at_save},	 {"retire", at_retire},	  {"retired", at_retired},
	{"opening", at_opening}, {"sealing", at_sealing}, {"footer", at_footer},
	{"evicted", at_evicted}, {"forgotten", NULL},
};
_Static_assert(ARRAY_SIZE(ends) <= M_ENDS, "counted");

/*
 * A key that was put while eviction was saving it, in a segment that goes before that of the copy.
 * From then on it is left alone. When the index has forgotten it the copy must be nowhere.
 */
static bool is_forgotten(struct m_ssd *ms, unsigned disk)
{
	const struct ssd *s = ms->tier[disk];
	const struct ssd_read *r = &s->evict.read;
	const struct ssd_entry *e = s->evict.val ? ssd_index_find(&s->ix, &r->key) : NULL;

	if (!ms->m.spared && e && (e->seg != r->seg || e->off != r->off) &&
	    s->segs[e->seg].epoch < s->evict.val->app.epoch) {
		ms->m.spared = m_history_of(&ms->m, &r->key);
		ms->watched = disk;
	}
	return ms->m.spared && ms->watched == disk && !ssd_index_find(&s->ix, &ms->m.spared->key);
}

void m_ssd_end_draw(struct m_ssd *ms)
{
	struct rng *r = &ms->m.rng;

	ms->is_ended = false;
	ms->end_at = rng_chance(r, 1, 2) ? (int)rng_below(r, ARRAY_SIZE(ends)) : -1;
	if (ms->m.st->is_aimed && rng_chance(r, 1, 2))
		ms->end_at = (int)ARRAY_SIZE(ends) - 1 - (int)rng_below(r, 2);
	ms->m.spared = NULL;
}

bool m_ssd_end_is_here(struct m_ssd *ms)
{
	bool (*is_at)(const struct ssd *s) = ms->end_at < 0 ? NULL : ends[ms->end_at].is_here;
	bool is_here = false;

	for (unsigned i = 0; i < ms->nr_disks && ms->end_at >= 0; i++)
		is_here |= ms->tier[i] && (is_at ? is_at(ms->tier[i]) : is_forgotten(ms, i));
	/* What is true for long is true at many a place. */
	if (!is_here || !rng_chance(&ms->m.rng, 1, is_at == at_evicted ? 800 : 12))
		return false;
	ms->nr_ends[ms->end_at]++;
	ms->is_ended = true;
	return true;
}

void m_ssd_end_report(const struct m_ssd *ms)
{
	for (unsigned i = 0; i < ARRAY_SIZE(ends); i++)
		if (ms->nr_ends[i])
			printf(", %llu at %s", (unsigned long long)ms->nr_ends[i], ends[i].name);
}
