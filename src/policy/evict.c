/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See evict.h. A policy is an evict_ops and a line in the table at the end. Pure over the caller's
 * memory; one thread.
 */
#include "policy/evict.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/container.h"
#include "base/must.h"

static struct evict_link *evict_link_at(const struct evict *e, uint32_t i)
{
	return (struct evict_link *)(e->base + (uint64_t)i * e->stride + e->off);
}

static void lru_insert(struct evict *e, uint32_t i)
{
	struct evict_link *l = evict_link_at(e, i);

	l->newer = 0;
	l->older = e->newest;
	if (e->newest)
		evict_link_at(e, e->newest)->newer = i;
	else
		e->oldest = i;
	e->newest = i;
	e->nr++;
}

static void lru_insert_cold(struct evict *e, uint32_t i)
{
	struct evict_link *l = evict_link_at(e, i);

	l->older = 0;
	l->newer = e->oldest;
	if (e->oldest)
		evict_link_at(e, e->oldest)->older = i;
	else
		e->newest = i;
	e->oldest = i;
	e->nr++;
}

static void lru_remove(struct evict *e, uint32_t i)
{
	struct evict_link *l = evict_link_at(e, i);

	must(e->nr > 0);
	if (l->newer)
		evict_link_at(e, l->newer)->older = l->older;
	else
		e->newest = l->older;
	if (l->older)
		evict_link_at(e, l->older)->newer = l->newer;
	else
		e->oldest = l->newer;
	e->nr--;
}

static void lru_touch(struct evict *e, uint32_t i)
{
	if (e->newest == i)
		return;
	lru_remove(e, i);
	lru_insert(e, i);
}

static void lru_prefetch(const struct evict *e, uint32_t i)
{
	const struct evict_link *l = evict_link_at(e, i);

	__builtin_prefetch(evict_link_at(e, l->newer), 1);
	__builtin_prefetch(evict_link_at(e, l->older), 1);
}

static uint32_t lru_victim(struct evict *e)
{
	return e->oldest;
}

static const struct evict_ops evict_table[] = {
	{
		.name = "lru",
		.insert = lru_insert,
		.insert_cold = lru_insert_cold,
		.touch = lru_touch,
		.remove = lru_remove,
		.victim = lru_victim,
		.prefetch = lru_prefetch,
	},
};

int evict_init(struct evict *e, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(evict_table); i++) {
		if (name && strcmp(name, evict_table[i].name) != 0)
			continue;
		*e = (struct evict){.ops = &evict_table[i]};
		return 0;
	}
	return -EINVAL;
}

void evict_set_base(struct evict *e, void *base, uint32_t stride, uint32_t off)
{
	must(e->nr == 0);
	e->base = base;
	e->stride = stride;
	e->off = off;
}
