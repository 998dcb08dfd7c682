/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A counter written by one thread and read by any: a relaxed load and store, no lock prefix. Sums
 * over reactors are made by the reader.
 */
#ifndef CORE_COUNTER_H
#define CORE_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>

struct counter {
	_Atomic uint64_t v;
};

static inline void counter_add(struct counter *c, uint64_t n)
{
	uint64_t v = atomic_load_explicit(&c->v, memory_order_relaxed);

	atomic_store_explicit(&c->v, v + n, memory_order_relaxed);
}

static inline void counter_set(struct counter *c, uint64_t v)
{
	atomic_store_explicit(&c->v, v, memory_order_relaxed);
}

static inline uint64_t counter_get(const struct counter *c)
{
	return atomic_load_explicit(&c->v, memory_order_relaxed);
}

#endif
