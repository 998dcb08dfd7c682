/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariant of ssd_int.h, looked at from outside. What a recovery serves was known to the life
 * before: its index had an entry of the key, live or a ghost, when it ended, or else a delete would
 * have left nothing that kills the record. That is seen here whether or not anybody deletes it. And
 * where values don't change a put that fails takes nothing that was there.
 */
#include "m_ssd_int.h"

void m_ssd_known_new(struct m_ssd *ms)
{
	memset(ms->known, 0, sizeof(ms->known));
	memset(ms->is_noted, 0, sizeof(ms->is_noted));
}

/* Not before the last moment of a clean end. */
static bool is_drained_into(const struct m_ssd *ms, unsigned disk)
{
	const struct ssd_span *sp = ms->span[disk / ms->nr_devices];

	for (unsigned i = 0; sp && i < sp->nr; i++)
		if (ssd_span_state(&sp->dev[i]) == STORE_PART_DRAINING)
			return !ms->disks.disk[disk].is_dead;
	return false;
}

static bool is_quiet(const struct m_ssd *ms, unsigned disk)
{
	const struct ssd *s = ms->tier[disk];

	return !s || (!is_drained_into(ms, disk) && s->nr_free_values == ms->nr_values[disk] &&
		      !s->evict.val);
}

/* Of what wasn't read in this life whatever was known before may be there. */
void m_ssd_known_note(struct m_ssd *ms)
{
	bool are_quiet = false;

	/* What is written back, kept or moved has no actor. */
	for (unsigned n = 0; n < 20000 && !are_quiet; n++) {
		are_quiet = true;
		for (unsigned i = 0; i < ms->nr_disks; i++)
			are_quiet &= is_quiet(ms, i);
		if (!are_quiet)
			world_step(&ms->m.w);
	}
	for (unsigned i = 0; i < ms->nr_disks; i++) {
		const struct ssd *s = ms->tier[i];

		if (!s)
			continue;
		for (unsigned k = 0; k < M_KEYS; k++)
			ms->known[i][k] = ssd_index_find(&s->ix, &ms->m.h[k].key) ||
					  (ssd_recover_is_blind(s) && ms->known[i][k]);
		/* Memory tries once more to write what it could not, at the very end. */
		ms->is_noted[i] = is_quiet(ms, i) && !ms->is_unflushed &&
				  (!ssd_recover_is_blind(s) || ms->is_noted[i]);
	}
}

static void known_check(struct m_ssd *ms, unsigned disk, unsigned key)
{
	const struct ssd *s = ms->tier[disk];
	const struct ssd_entry *e = ssd_index_find(&s->ix, &ms->m.h[key].key);

	if (!e || e->is_ghost || ssd_seg_is_new(s, e->seg) || ms->known[disk][key])
		return;
	printf("%s: life %llu: disk %u has key %u, version %llu, which the life before didn't know "
	       "of\n",
	       ms->m.st->name, (unsigned long long)ms->nr_lives, disk, key,
	       (unsigned long long)e->ver);
	history_print(&ms->m.h[key], ms->m.now);
	abort();
}

/*
 * Where what is written may silently not be there, neither may a tombstone, or a head that
 * says "free".
 */
void m_ssd_known_check(struct m_ssd *ms)
{
	memset(ms->live, 0, sizeof(ms->live));
	for (unsigned i = 0; i < ms->nr_disks && !ms->m.st->flips; i++)
		for (unsigned k = 0; k < M_KEYS && ms->tier[i] && ms->is_noted[i]; k++)
			known_check(ms, i, k);
}

/* Nothing that may take a key is under way. */
static bool live_is_calm(const struct ssd *s)
{
	for (unsigned i = 0; i < SSD_KILLS; i++)
		if (s->kills[i].io)
			return false;
	return s->evict.state == SSD_EVICT_IDLE && !ssd_recover_is_reading(s);
}

static void live_check(struct m_ssd *ms, unsigned disk)
{
	const struct ssd *s = ms->tier[disk];
	struct m_ssd_live *was = &ms->live[disk],
			  now = {
				  .s = s,
				  .nr = s->ix.nr_used - s->ix.nr_ghosts,
				  .nr_full = counter_get(&s->count.full),
				  .nr_other = counter_get(&s->count.evictions) +
					      counter_get(&s->count.bad_seals) +
					      counter_get(&s->count.torn),
				  .is_calm = live_is_calm(s),
			  };

	for (unsigned i = 0; i < STORE_NR_ERRORS; i++)
		if (i != STORE_ERROR_WRITE)
			now.nr_other += counter_get(&s->health.errors[i]);
	if (was->s == s && was->is_calm && now.is_calm && now.nr_other == was->nr_other &&
	    now.nr_full > was->nr_full) {
		ms->nr_left++;
		if (now.nr < was->nr) {
			printf("%s: life %llu: disk %u: a put that failed took what was there\n",
			       ms->m.st->name, (unsigned long long)ms->nr_lives, disk);
			abort();
		}
	}
	*was = now;
}

void m_ssd_live_check(struct m_ssd *ms)
{
	if (!ms->m.st->is_immutable || ms->m.st->flips)
		return;
	for (unsigned i = 0; i < ms->nr_disks; i++)
		if (ms->tier[i])
			live_check(ms, i);
}
