/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading ahead: somebody reads a value of a group (conversation, document) from below; its
 * neighbours there (store_ahead.h) are wished for, a few at first. When half of them have been
 * used the next ones are, twice as many bytes, as long as it goes on:
 *
 *     read by demand   named, wished for
 *     | a0 |           a1  a2 (a3) a4  a5            a3 is used: what lies behind a5 is next
 *
 * A read by demand of the same group elsewhere begins anew. The last AHEAD_GROUPS groups are known.
 * What comes in vain is judged by policy/prefetch: a source that is wrong too often is asked no
 * more, and never are more bytes out than its share of the tier. Runs on the shard's owner.
 * tidy: no-test: t_ssd_ahead.c has it over a disk
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/must.h"
#include "store/dram/dram_int.h"
#include "store/store_ahead.h"

#define AHEAD_GROUPS 64u
#define AHEAD_ASKS 4u
#define AHEAD_BYTES_MIN (512ull << 10)
#define AHEAD_BYTES_MAX (16ull << 20)
#define AHEAD_TIER 16u	   /* and at most this part of the tier */
#define AHEAD_WEIGHT 1000u /* behind chains, whose keys were named by somebody */

struct ahead_group {
	uint8_t group[16];
	uint8_t group_len; /* 0: free */
	bool has_mark;
	bool is_asked;
	uint64_t bytes; /* of the next question */
	uint64_t used_at;
	struct store_key mark; /* when it is used the question is asked again, */
	struct store_key last; /* from here on */
};

struct ahead_ask {
	struct store_ahead a;
	struct dram *d;
	struct ahead_group *g; /* NULL: nobody's; it has been given to another group otherwise */
	uint64_t used_at;
	bool is_busy;
};

struct dram_ahead_set {
	uint64_t clock;
	uint32_t nr_busy;
	struct ahead_group group[AHEAD_GROUPS];
	struct ahead_ask ask[AHEAD_ASKS];
};

int dram_ahead_init(struct dram *d)
{
	d->ahead = calloc(1, sizeof(*d->ahead));
	return d->ahead ? 0 : -ENOMEM;
}

void dram_ahead_fini(struct dram *d)
{
	must(!d->ahead || !d->ahead->nr_busy);
	free(d->ahead);
}

uint64_t dram_ahead_cost(void)
{
	return sizeof(struct dram_ahead_set);
}

bool dram_ahead_is_busy(const struct dram *d)
{
	return d->ahead->nr_busy;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void ahead_told(struct store_ahead *a)
{
	struct ahead_ask *q = container_of(a, struct ahead_ask, a);
	struct dram *d = q->d;
	struct ahead_group *g = q->g;
	struct dram_wish w = {.until_ns = UINT64_MAX, .source = PREFETCH_AHEAD};

	q->is_busy = false;
	d->ahead->nr_busy--;
	for (uint32_t i = 0; i < a->nr && !store_set_is_closing(&d->st); i++) {
		w.key = a->keys[i];
		w.weight = (uint16_t)(AHEAD_WEIGHT - i);
		if (dram_fetch_wish(d, &w))
			break;
	}
	if (!g)
		return;
	g->is_asked = false;
	g->has_mark = a->nr > 0;
	if (!g->has_mark)
		return;
	g->mark = a->keys[a->nr / 2];
	g->last = a->keys[a->nr - 1];
}

static struct ahead_ask *ahead_free(struct dram *d)
{
	for (struct ahead_ask *q = d->ahead->ask; q < d->ahead->ask + AHEAD_ASKS; q++)
		if (!q->is_busy)
			return q;
	return NULL;
}

/* One that is wrong too often is heard again now and then: what it wishes is refused then. */
static bool ahead_is_heard(struct dram *d)
{
	struct prefetch_stat *st = &d->prefetch.stat[PREFETCH_AHEAD];

	return !prefetch_is_off(&d->prefetch, PREFETCH_AHEAD) ||
	       ++st->nr_refused % PREFETCH_TRY == 0;
}

static void ahead_ask(struct dram *d, struct ahead_group *g, const struct store_key *from)
{
	struct ahead_ask *q = ahead_free(d);

	if (!q || g->is_asked || store_set_is_closing(&d->st) || !ahead_is_heard(d))
		return;
	g->is_asked = true;
	g->has_mark = false;
	q->is_busy = true;
	q->d = d;
	q->g = g;
	q->a.key = *from;
	memcpy(q->a.group, g->group, sizeof(q->a.group));
	q->a.group_len = g->group_len;
	q->a.bytes = min_t(uint64_t, g->bytes, max_t(uint64_t, d->bytes / AHEAD_TIER, 1));
	q->a.end = ahead_told;
	d->ahead->nr_busy++;
	store_ahead_below(&d->st, &q->a);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static struct ahead_group *group_find(struct dram *d, const struct store_meta *m)
{
	struct ahead_group *g = d->ahead->group;

	for (; g < d->ahead->group + AHEAD_GROUPS; g++)
		if (g->group_len == m->group_len && !memcmp(g->group, m->group, m->group_len))
			return g;
	return NULL;
}

/* The one that was read longest ago gives way; a question of its own names for nobody then. */
static struct ahead_group *group_new(struct dram *d, const struct store_meta *m)
{
	struct ahead_group *g = d->ahead->group;

	for (uint32_t i = 1; i < AHEAD_GROUPS && g->group_len; i++)
		if (!d->ahead->group[i].group_len || d->ahead->group[i].used_at < g->used_at)
			g = &d->ahead->group[i];
	for (uint32_t i = 0; i < AHEAD_ASKS; i++)
		if (d->ahead->ask[i].g == g)
			d->ahead->ask[i].g = NULL;
	*g = (struct ahead_group){.group_len = m->group_len};
	memcpy(g->group, m->group, sizeof(g->group));
	return g;
}

void dram_ahead_read(struct dram *d, const struct store_io *io)
{
	const struct store_meta *m;
	struct ahead_group *g;

	if (!io->view.st || !d->st.below)
		return;
	m = store_meta(&io->view);
	if (!m->group_len || m->group_len > sizeof(m->group))
		return;
	g = group_find(d, m);
	if (!g)
		g = group_new(d, m);
	g->used_at = ++d->ahead->clock;
	if (g->has_mark && store_key_equal(&g->mark, &io->key)) {
		g->bytes = min_t(uint64_t, 2 * g->bytes, AHEAD_BYTES_MAX);
		ahead_ask(d, g, &g->last);
		return;
	}
	/* It was named already: the reader is faster than what was wished for. */
	if (dram_fetch_is_wished(d, &io->key))
		return;
	g->bytes = AHEAD_BYTES_MIN;
	ahead_ask(d, g, &io->key);
}

void dram_ahead_used(struct dram *d, const struct dram_entry *e)
{
	struct ahead_group *g = d->ahead->group;

	for (; g < d->ahead->group + AHEAD_GROUPS; g++) {
		if (!g->has_mark || g->mark.w[0] != e->key[0] || g->mark.w[1] != e->key[1] ||
		    g->mark.len != e->key_len)
			continue;
		g->used_at = ++d->ahead->clock;
		g->bytes = min_t(uint64_t, 2 * g->bytes, AHEAD_BYTES_MAX);
		ahead_ask(d, g, &g->last);
		return;
	}
}
