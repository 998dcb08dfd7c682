/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading: a hit is answered at once with a pinned view of the whole value; a miss goes below, and
 * what comes up from there is offered to dram_promote.c. Runs on the shard's owner.
 */
#include "store/dram/dram_int.h"

#include <errno.h>

#include "base/must.h"

/*
 * Keys looked up together in a MATCH: their lines are on the way while the first ones are compared.
 */
#define GET_BATCH 16u

static void get_touch(struct dram *d, struct dram_entry *e, uint8_t flags)
{
	if (!(flags & STORE_NO_TOUCH) && !e->is_parked)
		evict_touch(&d->evict, dram_index_no(&d->ix, e));
}

static void get_came(struct store_io *io, int res)
{
	struct dram *d = dram_of(io->at);

	if (!res && !(io->flags & STORE_NO_TOUCH))
		dram_promote_offer(d, io, dram_frame(io)->fence);
	store_done(io, res);
}

static void get_below(struct dram *d, struct store_io *io)
{
	counter_add(&d->count.misses, 1);
	if (!d->st.below) {
		store_done(io, -ENOENT);
		return;
	}
	dram_frame(io)->fence = *dram_fence(d, &io->key);
	store_down(io, get_came);
}

void dram_get(struct store *s, struct store_io *io)
{
	struct dram *d = dram_enter(s);
	struct dram_entry *e = dram_index_find(&d->ix, &io->key);

	if (!e) {
		get_below(d, io);
		return;
	}
	if (io->ver && io->ver != e->ver) {
		store_done(io, -ESTALE);
		return;
	}
	if (e->pins == DRAM_PINS_MAX) {
		store_done(io, -EBUSY);
		return;
	}
	counter_add(&d->count.hits, 1);
	get_touch(d, e, io->flags);
	dram_value_pin(d, e);
	dram_value_view(d, e, &io->view);
	if (io->off >= e->len)
		io->view.len = 0;
	io->ver = e->ver;
	store_done(io, 0);
}

void dram_get_exist(struct store *s, struct store_io *io)
{
	struct dram *d = dram_enter(s);
	struct dram_entry *e = dram_index_find(&d->ix, &io->key);

	if (!e) {
		store_down(io, NULL);
		return;
	}
	/* A look: a touch would cost two more cache misses than the whole answer. */
	io->view.value_len = (uint32_t)e->len;
	io->ver = e->ver;
	store_done(io, 0);
}

int dram_get_now(struct store *s, const struct store_key *key, unsigned flags,
		 struct store_view *view)
{
	struct dram *d = dram_enter(s);
	struct dram_entry *e = dram_index_find(&d->ix, key);

	if (!e) {
		if (s->below)
			return -EAGAIN;
		if (view)
			counter_add(&d->count.misses, 1);
		return -ENOENT;
	}
	if (view) {
		if (e->pins == DRAM_PINS_MAX)
			return -EAGAIN;
		counter_add(&d->count.hits, 1);
		dram_value_pin(d, e);
		dram_value_view(d, e, view);
		/* The order's neighbours come into the cache while the value is copied. */
		if (!(flags & STORE_NO_TOUCH) && !e->is_parked) {
			evict_prefetch(&d->evict, dram_index_no(&d->ix, e));
			view->is_use = true;
		}
	}
	return 0;
}

static void match_batch(struct dram *d, struct store_io *io, uint32_t first, uint32_t nr)
{
	const struct store_key *keys = io->match.keys + first;
	struct dram_entry *e;

	for (int stage = 0; stage < 2; stage++)
		for (uint32_t i = 0; i < nr; i++)
			if (store_match_wants(io, first + i))
				dram_index_prefetch(&d->ix, &keys[i], stage);
	for (uint32_t i = 0; i < nr; i++) {
		if (!store_match_wants(io, first + i))
			continue;
		e = dram_index_find(&d->ix, &keys[i]);
		if (!e)
			continue;
		io->match.found[first + i] = STORE_MEMORY;
		get_touch(d, e, io->flags);
	}
}

void dram_get_match(struct store *s, struct store_io *io)
{
	struct dram *d = dram_enter(s);
	uint32_t nr = io->match.nr;

	for (uint32_t i = 0; i < nr; i += GET_BATCH)
		match_batch(d, io, i, nr - i < GET_BATCH ? nr - i : GET_BATCH);
	store_down(io, NULL);
}

void dram_get_list(struct store *s, struct store_io *io)
{
	struct dram *d = dram_enter(s);
	const struct store_key *key;
	struct dram_cursor c;

	/*
	 * One more than fits, so that `more` is known; the tier below merges its own into the page.
	 */
	dram_index_cursor_init(&c, &d->ix, &io->list);
	for (uint32_t i = 0; i <= io->list.max; i++) {
		key = dram_index_cursor_next(&c);
		if (!key)
			break;
		store_list_add(&io->list, key);
	}
	store_down(io, NULL);
}

void dram_get_prefetch(struct store *s, const struct store_key *key, int stage)
{
	struct dram *d = dram_enter(s);
	struct dram_entry *e;

	if (stage < 2) {
		dram_index_prefetch(&d->ix, key, stage);
		return;
	}
	e = dram_index_find(&d->ix, key);
	if (!e)
		return;
	if (!e->is_parked)
		evict_prefetch(&d->evict, dram_index_no(&d->ix, e));
	dram_value_prefetch(d, e);
}
