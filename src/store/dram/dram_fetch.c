/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetching: values that are likely to be asked for come up from below before they are. Wishes (a
 * hint, the rest of a chain that a MATCH asked about) wait in a heap, the most urgent first; a
 * fetch asks for one part of STORE_PART_BYTES at a time and leaves it to dram_promote.c to keep it.
 *
 *     dram_fetch_wish -> heap -> part -> part -> ... -> in the index, marked as fetched
 *                                                         used, or evicted: policy/prefetch judges
 *
 * Nobody waits for a fetch, so everybody goes before it: a part begins only while no device read
 * that somebody waits for is under way on this reactor, whichever namespace's; while there are
 * such, at most one part a FETCH_PACE_NS, so that a busy reactor's wishes aren't all too late. A
 * device doesn't take back what it has begun, so between the reads of somebody who asks for one
 * after the other, FETCH_QUIET_NS from the last of them on, one part at a time is under way, of
 * all namespaces: that is what the next one may find before it. Else at most DRAM_FETCHES of them.
 * Room is made as for any promotion, within the share that policy/prefetch grants. Runs on the
 * shard's owner.
 * tidy: no-test: t_ssd_hint.c has it over a disk
 */
#include "store/dram/dram_fetch_int.h"

#include <errno.h>

#include "base/container.h"
#include "base/must.h"

#define FETCH_PACE_NS 4000000ull
#define FETCH_QUIET_NS 10000000ull

/* ---- the heap -------------------------------------------------------------------------------- */

static void wish_swap(struct dram_wish *a, struct dram_wish *b)
{
	struct dram_wish t = *a;

	*a = *b;
	*b = t;
}

/* Earlier deadline first, then the greater weight. */
static bool wish_before(const struct dram_wish *a, const struct dram_wish *b)
{
	if (a->until_ns != b->until_ns)
		return a->until_ns < b->until_ns;
	return a->weight > b->weight;
}

static void heap_up(struct dram *d, uint32_t i)
{
	struct dram_wish *w = d->fetch->wish;

	for (; i && wish_before(&w[i], &w[(i - 1) / 2]); i = (i - 1) / 2)
		wish_swap(&w[i], &w[(i - 1) / 2]);
}

static void heap_down(struct dram *d, uint32_t i)
{
	struct dram_wish *w = d->fetch->wish;
	uint32_t nr = d->fetch->nr_wishes, best;

	for (;; i = best) {
		best = i;
		for (uint32_t k = 2 * i + 1; k <= 2 * i + 2 && k < nr; k++)
			if (wish_before(&w[k], &w[best]))
				best = k;
		if (best == i)
			return;
		wish_swap(&w[i], &w[best]);
	}
}

static void heap_remove(struct dram *d, uint32_t i)
{
	struct dram_fetch_set *f = d->fetch;

	f->wish[i] = f->wish[--f->nr_wishes];
	if (i < f->nr_wishes) {
		heap_up(d, i);
		heap_down(d, i);
	}
}

static int wish_find(const struct dram *d, const struct store_key *key)
{
	for (uint32_t i = 0; i < d->fetch->nr_wishes; i++)
		if (store_key_equal(&d->fetch->wish[i].key, key))
			return (int)i;
	return -1;
}

static struct dram_fetch *fetch_find(struct dram *d, const struct store_key *key)
{
	for (uint32_t i = 0; i < DRAM_FETCHES; i++)
		if (d->fetch->fetch[i].state != DRAM_FETCH_FREE &&
		    store_key_equal(&d->fetch->fetch[i].wish.key, key))
			return &d->fetch->fetch[i];
	return NULL;
}

/* ---- what becomes of it ---------------------------------------------------------------------- */

static void fetch_mark(struct dram *d, struct dram_entry *e, enum prefetch_source source)
{
	e->is_fetched = true;
	d->notes[dram_index_no(&d->ix, e)].source = (uint8_t)source;
}

static enum prefetch_source fetch_unmark(struct dram *d, struct dram_entry *e)
{
	e->is_fetched = false;
	return d->notes[dram_index_no(&d->ix, e)].source;
}

void dram_fetch_used(struct dram *d, struct dram_entry *e)
{
	enum prefetch_source source = fetch_unmark(d, e);

	prefetch_used(&d->prefetch, source, e->len);
	counter_add(&d->count.fetched_used, e->len);
	if (source != PREFETCH_AHEAD)
		return;
	counter_add(&d->count.ahead_used, e->len);
	dram_ahead_used(d, e);
}

void dram_fetch_wasted(struct dram *d, struct dram_entry *e)
{
	enum prefetch_source source = fetch_unmark(d, e);

	prefetch_wasted(&d->prefetch, source, e->len);
	counter_add(&d->count.fetched_wasted, e->len);
	if (source == PREFETCH_AHEAD)
		counter_add(&d->count.ahead_wasted, e->len);
}

/* ---- one ------------------------------------------------------------------------------------- */

static void fetch_over(struct dram_fetch *f)
{
	struct dram *d = f->d;
	struct dram_entry *e = dram_index_find(&d->ix, &f->wish.key);

	f->state = DRAM_FETCH_FREE;
	d->fetch->nr_busy--;
	if (!e || e->is_fetched || !f->granted) {
		prefetch_undone(&d->prefetch, f->granted);
		counter_add(&d->count.fetches_dropped, 1);
		return;
	}
	/* Longer or shorter than it was: judged as what it is. */
	prefetch_undone(&d->prefetch, f->granted);
	if (!prefetch_wants(&d->prefetch, PREFETCH_HINT, e->len))
		return;
	fetch_mark(d, e, f->wish.source);
	counter_add(&d->count.fetches, 1);
	counter_add(&d->count.fetched_bytes, e->len);
	if (f->wish.source == PREFETCH_AHEAD)
		counter_add(&d->count.ahead_bytes, e->len);
}

static bool fetch_goes_on(const struct dram_fetch *f)
{
	return !f->is_cancelled && !store_set_is_closing(&f->d->st) &&
	       reactor_now_ns(f->d->st.owner) <= f->wish.until_ns;
}

static void fetch_came(struct store_io *io, int res)
{
	struct dram_fetch *f = container_of(io, struct dram_fetch, io);
	struct dram *d = f->d;
	bool is_over = true;

	d->fetch->nr_reading--;
	if (!res) {
		f->pos = io->view.off + io->view.len;
		is_over = !io->view.len || f->pos >= io->view.value_len;
		store_release(&io->view, d->st.owner, NULL);
	}
	/* If promotion gave up the rest would go nowhere. */
	if (is_over || !fetch_goes_on(f) || !dram_promote_is_rising(d, &f->wish.key))
		fetch_over(f);
	else
		f->state = DRAM_FETCH_READY;
}

static void fetch_io(struct dram_fetch *f, enum store_op op, store_end_fn *end)
{
	f->io.op = (uint8_t)op;
	f->io.flags = STORE_BACKGROUND;
	f->io.key = f->wish.key;
	f->io.off = f->pos;
	f->io.len = STORE_PART_BYTES;
	f->io.ver = 0;
	f->io.meta = NULL;
	f->io.end = end;
}

static void fetch_part(struct dram_fetch *f)
{
	struct dram *d = f->d;

	f->state = DRAM_FETCH_READING;
	d->fetch->nr_reading++;
	d->fetch->last_ns = reactor_turn_ns(d->st.owner);
	fetch_io(f, STORE_GET, fetch_came);
	store_submit_at(&d->st, &f->io);
}

static void fetch_sized(struct store_io *io, int res)
{
	struct dram_fetch *f = container_of(io, struct dram_fetch, io);

	if (res || !fetch_goes_on(f) || dram_index_find(&f->d->ix, &f->wish.key) ||
	    !prefetch_wants(&f->d->prefetch, f->wish.source, io->view.value_len)) {
		fetch_over(f);
		return;
	}
	f->granted = io->view.value_len;
	f->state = DRAM_FETCH_READY;
}

/* The most urgent wish that isn't too late takes a free slot. */
static bool fetch_begin(struct dram *d)
{
	struct dram_fetch_set *fs = d->fetch;
	struct dram_fetch *f = fs->fetch;

	if (!fs->nr_wishes || fs->nr_busy == DRAM_FETCHES)
		return false;
	while (f->state != DRAM_FETCH_FREE)
		f++;
	f->d = d;
	f->wish = fs->wish[0];
	f->pos = 0;
	f->granted = 0;
	f->is_cancelled = false;
	f->state = DRAM_FETCH_SIZING;
	fs->nr_busy++;
	heap_remove(d, 0);
	if (!fetch_goes_on(f) || dram_index_find(&d->ix, &f->wish.key)) {
		fetch_over(f);
		return true;
	}
	fetch_io(f, STORE_EXIST, fetch_sized);
	store_submit_below(&d->st, &f->io);
	return true;
}

/* Whoever waits goes first. */
static bool fetch_may_read(struct dram *d)
{
	uint64_t now_ns = reactor_turn_ns(d->st.owner);

	if (*reactor_waited_reads(d->st.owner))
		return !*reactor_unwaited_reads(d->st.owner) &&
		       now_ns - d->fetch->last_ns >= FETCH_PACE_NS;
	if (d->fetch->waited_ns && now_ns - d->fetch->waited_ns < FETCH_QUIET_NS)
		return !*reactor_unwaited_reads(d->st.owner);
	return true;
}

int dram_fetch_step(struct dram *d)
{
	struct dram_fetch_set *fs = d->fetch;
	int n = 0;

	if (!fs->nr_wishes && !fs->nr_busy)
		return 0;
	if (*reactor_waited_reads(d->st.owner))
		fs->waited_ns = reactor_turn_ns(d->st.owner);
	n += fetch_begin(d);
	for (uint32_t i = 0; i < DRAM_FETCHES; i++) {
		if (fs->fetch[i].state != DRAM_FETCH_READY || !fetch_may_read(d))
			continue;
		if (fetch_goes_on(&fs->fetch[i]))
			fetch_part(&fs->fetch[i]);
		else
			fetch_over(&fs->fetch[i]);
		n++;
	}
	return n;
}

/* ---- wishes ---------------------------------------------------------------------------------- */

int dram_fetch_wish(struct dram *d, const struct dram_wish *w)
{
	struct dram_fetch_set *fs = d->fetch;
	int i;

	if (!d->st.below)
		return -ENOENT;
	if (dram_index_find(&d->ix, &w->key) || fetch_find(d, &w->key))
		return 0;
	i = wish_find(d, &w->key);
	if (i >= 0 && !wish_before(w, &fs->wish[i]))
		return 0;
	if (i >= 0)
		heap_remove(d, (uint32_t)i);
	if (fs->nr_wishes == DRAM_WISHES) {
		counter_add(&d->count.fetches_dropped, 1);
		return -EBUSY;
	}
	fs->wish[fs->nr_wishes] = *w;
	heap_up(d, fs->nr_wishes++);
	return 0;
}

int dram_fetch_cancel(struct dram *d, const struct store_key *key)
{
	struct dram_fetch *f = fetch_find(d, key);
	int i = wish_find(d, key);

	if (f)
		f->is_cancelled = true;
	if (i >= 0) {
		heap_remove(d, (uint32_t)i);
		counter_add(&d->count.fetches_dropped, 1);
	}
	return f || i >= 0 ? 0 : -ENOENT;
}

bool dram_fetch_is_wished(struct dram *d, const struct store_key *key)
{
	return fetch_find(d, key) || wish_find(d, key) >= 0;
}

bool dram_fetch_is_busy(const struct dram *d)
{
	return d->fetch->nr_busy;
}
