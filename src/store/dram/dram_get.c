/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading: a hit is answered at once with a pinned view of the whole value; a miss goes below, and
 * what comes up from there is offered to dram_promote.c. Runs on the shard's owner.
 */
#include "store/dram/dram_int.h"

#include <errno.h>

#include "base/must.h"

#define GET_WARM_BYTES 4096u
#define GET_START_BYTES 512u

/* A look is no hit: it would make the rate of hits that of the operator's questions. */
static void get_touch(struct dram *d, struct dram_entry *e, uint8_t flags)
{
	if (flags & STORE_NO_TOUCH)
		return;
	if (!(flags & STORE_UNCOUNTED))
		counter_add(&d->count.hits, 1);
	if (!e->is_parked)
		evict_touch(&d->evict, dram_index_no(&d->ix, e));
}

static void get_came(struct store_io *io, int res)
{
	struct dram *d = dram_of(io->at);

	if (!(io->flags & STORE_NO_TOUCH))
		dram_promote_after(d, io, res);
	if (!res && !(io->flags & (STORE_NO_TOUCH | STORE_UNCOUNTED)))
		dram_ahead_read(d, io);
	store_done(io, res);
}

/* The length is known, or will not be: now the value. */
static void get_sized(struct store_io *io, int res)
{
	struct dram *d = dram_of(io->at);
	uint64_t ver = io->ver;

	io->ver = dram_frame(io)->ver;
	io->flags = dram_frame(io)->flags;
	if (!res)
		dram_promote_sized(d, io, io->view.value_len, ver);
	store_down(io, get_came);
}

static void get_below(struct dram *d, struct store_io *io)
{
	if (!(io->flags & (STORE_NO_TOUCH | STORE_UNCOUNTED)))
		counter_add(&d->count.misses, 1);
	if (!d->st.below) {
		store_done(io, -ENOENT);
		return;
	}
	dram_frame(io)->fence = *dram_fence(d, &io->key);
	dram_frame(io)->at_ns = d->fresh_ns ? reactor_now_ns(d->st.owner) : 0;
	if (io->flags & STORE_NO_TOUCH || dram_promote_before(d, io)) {
		store_down(io, get_came);
		return;
	}
	dram_frame(io)->ver = io->ver;
	dram_frame(io)->flags = io->flags;
	/* An index on this machine may know it; to ask another one takes as long as the value. */
	if (dram_is_far(d))
		io->flags |= STORE_MEM_ONLY;
	store_down_as(io, STORE_EXIST, get_sized);
}

void dram_get(struct store *s, struct store_io *io)
{
	struct dram *d = dram_enter(s);
	struct dram_entry *e = dram_fresh_find(d, &io->key);

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
	get_touch(d, e, io->flags);
	if (unlikely(e->is_fetched) && !(io->flags & (STORE_NO_TOUCH | STORE_BACKGROUND)))
		dram_fetch_used(d, e);
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
	struct dram_entry *e = dram_fresh_find(d, &io->key);

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
	struct dram_entry *e = dram_fresh_find(d, key);

	if (!e) {
		if (s->below)
			return -EAGAIN;
		counter_add(&d->count.misses, 1);
		return -ENOENT;
	}
	if (e->pins == DRAM_PINS_MAX)
		return -EAGAIN;
	/* A command that came alone was warmed by nobody: the copy is set up meanwhile. */
	dram_value_prefetch(d, e, GET_START_BYTES);
	if (likely(!(flags & STORE_NO_TOUCH))) {
		counter_add(&d->count.hits, 1);
		if (unlikely(e->is_fetched))
			dram_fetch_used(d, e);
	}
	dram_value_pin(d, e);
	dram_value_view(d, e, view);
	/* The order's neighbours come into the cache while the value is copied. */
	if (!(flags & STORE_NO_TOUCH) && !e->is_parked) {
		evict_prefetch(&d->evict, dram_index_no(&d->ix, e));
		view->is_use = true;
	}
	return 0;
}

uint64_t dram_get_look(struct store *s, const struct store_key *const *keys, unsigned nr,
		       uint64_t *ask)
{
	struct dram *d = dram_enter(s);
	uint32_t no[STORE_LOOK_MAX];
	uint64_t here = dram_index_look(&d->ix, keys, nr, no);

	for (unsigned i = 0; unlikely(d->fresh_ns) && i < nr; i++)
		if (here >> i & 1 && dram_fresh_drop(d, &d->ix.slab[no[i]]))
			here &= ~(1ull << i);
	*ask = s->below && nr ? ~here & UINT64_MAX >> (64 - nr) : 0;
	return here;
}

/* Keys from `first` on, as many as are looked up together; how many were passed. */
static uint32_t match_batch(struct dram *d, struct store_io *io, uint32_t first)
{
	const struct store_key *keys[STORE_LOOK_MAX];
	uint32_t at[STORE_LOOK_MAX], no[STORE_LOOK_MAX], n = 0, i = first;

	for (; i < io->match.nr && n < STORE_LOOK_MAX; i++) {
		if (!store_match_wants(io, i))
			continue;
		keys[n] = &io->match.keys[i];
		at[n++] = i;
	}
	if (n)
		dram_index_look(&d->ix, keys, n, no);
	for (uint32_t k = 0; k < n; k++) {
		if (!no[k] || (unlikely(d->fresh_ns) && dram_fresh_drop(d, &d->ix.slab[no[k]])))
			continue;
		io->match.found[at[k]] = STORE_MEMORY;
		get_touch(d, &d->ix.slab[no[k]], io->flags);
	}
	return i;
}

/* Who asks about a chain is about to read it: what lies below comes up, the first ones first. */
static void get_matched(struct store_io *io, int res)
{
	struct dram *d = dram_of(io->at);
	struct dram_wish w = {.until_ns = UINT64_MAX, .source = PREFETCH_CHAIN};

	for (uint32_t i = 0; !res && i < io->match.nr; i++) {
		w.key = io->match.keys[i];
		if (store_shard_of(w.key.hash, io->match.nr_shards) != io->shard)
			continue;
		if (io->match.found[i] == STORE_ABSENT)
			break;
		w.weight = (uint16_t)(UINT16_MAX - min_t(uint32_t, i, UINT16_MAX));
		if (io->match.found[i] == STORE_LOWER && dram_fetch_wish(d, &w))
			break;
	}
	store_done(io, res);
}

void dram_get_match(struct store *s, struct store_io *io)
{
	struct dram *d = dram_enter(s);

	for (uint32_t i = 0; i < io->match.nr;)
		i = match_batch(d, io, i);
	store_down(io, s->below ? get_matched : NULL);
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
	dram_value_prefetch(d, e, GET_WARM_BYTES);
}
