/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fixed pools of one reactor: `nr` objects of `size` bytes in one mapping (huge pages when the
 * machine has some free, transparent ones otherwise), last in, first out so that the warm one is
 * used again. pool_get() returns NULL when the pool is empty and counts it. Objects are zero the
 * first time, afterwards as they were put back.
 */
#ifndef CORE_POOL_H
#define CORE_POOL_H

#include <stddef.h>
#include <stdint.h>
#include "core/counter.h"

struct pool {
	void *base;
	size_t map_bytes;
	uint32_t size;
	uint32_t nr;
	uint32_t nr_free;
	uint32_t nr_low; /* the least that were ever free */
	void **free;	 /* stack */
	struct counter nr_empty;
};

int pool_init(struct pool *p, size_t size, uint32_t nr, size_t align); /* 0 or -ENOMEM */
void pool_fini(struct pool *p); /* every object put back, or must() */

static inline void *pool_get(struct pool *p)
{
	if (p->nr_free == 0) {
		counter_add(&p->nr_empty, 1);
		return NULL;
	}
	if (--p->nr_free < p->nr_low)
		p->nr_low = p->nr_free;
	return p->free[p->nr_free];
}

static inline void pool_put(struct pool *p, void *obj)
{
	p->free[p->nr_free++] = obj;
}

/* Anonymous memory for arenas of any kind: explicit huge pages if enough are free, else
 * MADV_HUGEPAGE. NULL on failure; *map_bytes is what pool_unmap() wants. */
void *pool_map(size_t bytes, size_t *map_bytes);
void pool_unmap(void *base, size_t map_bytes);

#endif
