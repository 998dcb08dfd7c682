/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A value on the C heap: one allocation with its seals and its bytes behind it, counted. What mem,
 * null and fault give views of; dram has its arenas instead. Counts belong to the shard's owner;
 * bytes, seals and meta of a published value don't change and may be read by any reactor that holds
 * a view.
 */
#ifndef STORE_HEAP_INT_H
#define STORE_HEAP_INT_H

#include "store/store.h"

struct heap_value {
	struct store_key key;
	struct store_meta meta;
	uint64_t ver;
	uint32_t len;
	uint32_t refs;
	uint64_t *seals;
	struct mem_region reg; /* ours as long as we live */
};

struct heap_value *heap_value_create(uint64_t len); /* one reference; NULL = no memory */
void heap_value_get(struct heap_value *v);
void heap_value_put(struct heap_value *v);

/* The whole value as a view of `s`, which takes over one reference. */
void heap_view(struct store *s, struct heap_value *v, struct store_view *view);
unsigned heap_runs(const struct store_view *view, uint64_t off, struct mem_run *runs, unsigned nr);
uint64_t *heap_seals(const struct store_view *view);
const struct store_meta *heap_meta(const struct store_view *view);

#endif
