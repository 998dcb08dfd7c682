/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When all is read it is known what lives, and not before: of a dead key a value may have come
 * before its tombstone, which lay in another stream's segment. So all that is found is taken in
 * while there is room, and if more lives than the index may hold (it is smaller than it was) values
 * go here, as by eviction: those of the oldest segments, and of the one that is the last to lose
 * some any of them.
 *
 * Nothing has changed on the medium then, and any key may still have a record that the index
 * doesn't know: who changes it leaves a tombstone, or puts the same bytes. It is for what follows
 * (SSD_RECOVER_CLEAN) to see to it that of such a key no line stays, older ones included, before
 * recovery is over. A crash until then leaves some of them, and tombstones of older ones always:
 * what a next life finds is the value that went, or nothing.
 *
 *     which segments, one a turn, oldest first -> a walk through the index
 *
 * Keys that are changed meanwhile only make less that has to go. Runs on the shard's owner.
 */
#include "base/container.h"
#include "store/ssd/ssd_recover_int.h"

#define TRIM_WALK 1024u /* entries looked at in a turn */

/* How many of earlier lives there are too many. Those of this one were let in by what is free. */
static uint64_t trim_excess(const struct ssd *s)
{
	uint64_t nr = 0;

	for (uint32_t i = 0; i < s->nr_segs; i++)
		if (!ssd_seg_is_new(s, i))
			nr += s->segs[i].nr_live;
	return nr > s->ix.nr_max ? nr - s->ix.nr_max : 0;
}

static int trim_oldest(const struct ssd_recover *r)
{
	const struct ssd *s = r->s;
	int oldest = -1;

	for (uint32_t i = 0; i < s->nr_segs; i++) {
		const struct ssd_seg *g = &s->segs[i];

		if (g->nr_live && !ssd_seg_is_new(s, i) && g->epoch > r->trim_epoch &&
		    (oldest < 0 || g->epoch < s->segs[oldest].epoch))
			oldest = (int)i;
	}
	return oldest;
}

/* One more segment loses values, all of them if that isn't too many. */
static void trim_choose(struct ssd_recover *r, uint64_t nr_excess)
{
	int seg = trim_oldest(r);
	uint64_t nr = seg < 0 ? 0 : r->s->segs[seg].nr_live;

	r->trim_epoch = seg < 0 ? r->trim_epoch : r->s->segs[seg].epoch;
	r->is_trimming = seg < 0 || r->nr_trim + nr >= nr_excess;
	if (!r->is_trimming)
		r->nr_trim += nr;
	else
		r->nr_trim_last = nr_excess > r->nr_trim ? nr_excess - r->nr_trim : 0;
}

static bool trim_takes(struct ssd_recover *r, const struct ssd_entry *e)
{
	uint64_t epoch = r->s->segs[e->seg].epoch;

	if (e->is_ghost || ssd_seg_is_new(r->s, e->seg) || epoch > r->trim_epoch)
		return false;
	if (epoch < r->trim_epoch)
		return true;
	if (!r->nr_trim_last)
		return false;
	r->nr_trim_last--;
	return true;
}

static void trim_walk(struct ssd_recover *r, uint64_t nr_excess)
{
	struct ssd *s = r->s;
	struct ssd_entry *e;

	for (uint32_t n = 0; n < TRIM_WALK && nr_excess; n++) {
		e = ssd_index_walk(&s->ix, &r->walk);
		if (!e) {
			/* Some that were counted died meanwhile: counted again. */
			r->trim_epoch = r->nr_trim = r->walk = 0;
			r->is_trimming = false;
			return;
		}
		r->walk++;
		if (!trim_takes(r, e))
			continue;
		ssd_seg_forget(s, e, ssd_seg_new_twin(s, e->seg));
		r->has_refused = true;
		nr_excess--;
	}
}

bool ssd_recover_trim(struct ssd_recover *r)
{
	uint64_t nr_excess = trim_excess(r->s);

	if (!nr_excess)
		return true;
	if (r->is_trimming)
		trim_walk(r, nr_excess);
	else
		trim_choose(r, nr_excess);
	return false;
}
