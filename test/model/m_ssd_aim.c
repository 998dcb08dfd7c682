/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verbs meet eviction: keys of the segment that goes next, or is just going, are picked more often
 * than others, and one that is being saved most of all.
 */
#include "m_ssd_int.h"

static struct history *aim_at(struct model *m, const struct ssd *s)
{
	int seg = s->evict.state == SSD_EVICT_IDLE ? ssd_seg_oldest(s) : (int)s->evict.seg;
	const struct ssd_entry *e;
	struct history *h;

	if (s->evict.val && rng_chance(&m->rng, 1, 2))
		return m_history_of(m, &s->evict.read.key);
	for (unsigned n = 0; n < 16; n++) {
		h = &m->h[rng_below(&m->rng, m->st->nr_keys)];
		e = ssd_index_find(&s->ix, &h->key);
		if (e && (int)e->seg == seg)
			return h;
	}
	return NULL;
}

struct history *m_ssd_aim(struct model *m)
{
	struct m_ssd *ms = container_of(m, struct m_ssd, m);
	const struct ssd *s;

	if (!m->st->is_aimed || !rng_chance(&m->rng, 1, 3))
		return NULL;
	s = ms->tier[rng_below(&m->rng, ms->nr_disks)];
	return s ? aim_at(m, s) : NULL;
}
