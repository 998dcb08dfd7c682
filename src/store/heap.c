/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values on the C heap, for the stores that tests are made of; see heap_int.h.
 */
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "store/heap_int.h"

static void heap_region_gone(struct mem_region *reg)
{
	must_not_reach(); /* our reference is never given back */
}

struct heap_value *heap_value_create(uint64_t len)
{
	uint64_t nr_seals = div_round_up(len, MEM_CHUNK_BYTES);
	struct heap_value *v = calloc(1, sizeof(*v) + nr_seals * sizeof(uint64_t) + len);

	if (!v)
		return NULL;
	v->len = (uint32_t)len;
	v->refs = 1;
	v->seals = (uint64_t *)(v + 1);
	v->reg.domain = MEM_HOST;
	v->reg.flags = MEM_READABLE | MEM_WRITABLE;
	v->reg.base = (uint8_t *)(v->seals + nr_seals);
	v->reg.len = len;
	v->reg.fd = -1;
	v->reg.destroy = heap_region_gone;
	atomic_init(&v->reg.refs, 1);
	return v;
}

void heap_value_get(struct heap_value *v)
{
	v->refs++;
}

void heap_value_put(struct heap_value *v)
{
	must(v->refs > 0);
	if (--v->refs)
		return;
	must(atomic_load(&v->reg.refs) == 1);
	/* A view that is used after its release must not look right by luck. */
	memset(v->reg.base, 0xdb, v->len);
	free(v);
}

void heap_view(struct store *s, struct heap_value *v, struct store_view *view)
{
	view->st = s;
	view->pin = v;
	view->off = 0;
	view->len = v->len;
	view->ver = v->ver;
	view->value_len = v->len;
	view->tier = s->tier;
	view->is_bad = false;
}

unsigned heap_runs(const struct store_view *view, uint64_t off, struct mem_run *runs, unsigned nr)
{
	struct heap_value *v = view->pin;

	if (off >= v->len || nr == 0)
		return 0;
	runs[0] = (struct mem_run){&v->reg, off, v->len - off};
	return 1;
}

uint64_t *heap_seals(const struct store_view *view)
{
	struct heap_value *v = view->pin;

	return v->seals;
}

const struct store_meta *heap_meta(const struct store_view *view)
{
	struct heap_value *v = view->pin;

	return &v->meta;
}
