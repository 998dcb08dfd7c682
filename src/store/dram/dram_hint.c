/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hints that reach memory: what is to come up (dram_fetch.c), what is to go down, and how much
 * attention a value got. Runs on the shard's owner.
 * tidy: no-test: t_ssd_hint.c gives them
 */
#include <errno.h>

#include "base/container.h"
#include "store/dram/dram_int.h"

/*
 * A clean value is below already and goes at once; a dirty one is written first, and goes when it
 * is. One that somebody holds stays.
 */
static int hint_demote(struct dram *d, struct dram_entry *e)
{
	if (!e)
		return -ENOENT;
	if (!d->st.below)
		return -EOPNOTSUPP;
	if (e->pins)
		return -EBUSY;
	if (e->is_dirty)
		return dram_back_demote(d, e);
	counter_add(&d->count.evictions, 1);
	counter_add(&d->count.evicted_bytes, e->len);
	dram_value_drop(d, e);
	return 0;
}

static int hint_score(struct dram *d, const struct store_hint *h, struct dram_entry *e)
{
	int res = -ENOENT;

	if (d->st.below && d->st.below->ops->hint)
		res = d->st.below->ops->hint(d->st.below, h);
	if (!e)
		return res;
	d->has_scores = true;
	d->notes[dram_index_no(&d->ix, e)].score = (uint8_t)min_t(uint16_t, h->weight, 255);
	return 0;
}

int dram_hint(struct store *s, const struct store_hint *h)
{
	struct dram *d = dram_enter(s);
	struct dram_entry *e = dram_index_find(&d->ix, &h->key);

	switch ((enum store_hint_verb)h->verb) {
	case STORE_HINT_PREFETCH:
		return dram_fetch_wish(d, &(struct dram_wish){
						  .key = h->key,
						  .until_ns = h->until_ns,
						  .weight = h->weight,
						  .source = PREFETCH_HINT,
					  });
	case STORE_HINT_CANCEL:
		return dram_fetch_cancel(d, &h->key);
	case STORE_HINT_DEMOTE:
		return hint_demote(d, e);
	case STORE_HINT_SCORE:
		return hint_score(d, h, e);
	}
	return -EOPNOTSUPP;
}

uint8_t dram_hint_score(const struct dram *d, const struct dram_entry *e)
{
	return d->notes[dram_index_no(&d->ix, e)].score;
}
