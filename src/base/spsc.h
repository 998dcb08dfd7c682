/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded ring of pointers between exactly one producing and one consuming thread, without locks
 * and without system calls. Each side's index lives on its own cache line beside a private copy of
 * the other side's index, so in the steady state a push or pop touches one shared line only when
 * its copy has run out. Full is not an error here: spsc_push() says false and the caller keeps the
 * pointer. NULL can't be pushed, since it is what an empty ring pops.
 */
#pragma once

#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/container.h"
#include "base/must.h"

#define SPSC_LINE_BYTES 64

struct spsc {
	void **slots;
	uint32_t mask;

	alignas(SPSC_LINE_BYTES) _Atomic uint32_t tail; /* written by the producer */
	uint32_t head_seen;				/* producer's copy of head */

	alignas(SPSC_LINE_BYTES) _Atomic uint32_t head; /* written by the consumer */
	uint32_t tail_seen;				/* consumer's copy of tail */
};

/* `nr` slots, a power of two; 0 or -ENOMEM. */
static inline int spsc_init(struct spsc *r, uint32_t nr)
{
	must(is_pow2(nr));
	r->slots = calloc(nr, sizeof(*r->slots));
	if (!r->slots)
		return -ENOMEM;
	r->mask = nr - 1;
	r->head_seen = 0;
	r->tail_seen = 0;
	atomic_init(&r->tail, 0);
	atomic_init(&r->head, 0);
	return 0;
}

static inline void spsc_fini(struct spsc *r)
{
	free(r->slots);
	r->slots = NULL;
}

/* Producer only. False: full, and nothing has happened. */
static inline bool spsc_push(struct spsc *r, void *p)
{
	uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);

	must(p);
	if (tail - r->head_seen > r->mask) {
		/* Acquire: the consumer has read the slot before it is written again. */
		r->head_seen = atomic_load_explicit(&r->head, memory_order_acquire);
		if (tail - r->head_seen > r->mask)
			return false;
	}
	r->slots[tail & r->mask] = p;
	/* Release: the slot, and what it points at, are visible before the index is. */
	atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
	return true;
}

/* Consumer only. NULL: empty. */
static inline void *spsc_pop(struct spsc *r)
{
	uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
	void *p;

	if (head == r->tail_seen) {
		r->tail_seen = atomic_load_explicit(&r->tail, memory_order_acquire);
		if (head == r->tail_seen)
			return NULL;
	}
	p = r->slots[head & r->mask];
	atomic_store_explicit(&r->head, head + 1, memory_order_release);
	return p;
}

/*
 * How many are inside; exact for either side when the other one is still, else a moment's
 * estimate.
 */
static inline uint32_t spsc_count(struct spsc *r)
{
	uint32_t head = atomic_load_explicit(&r->head, memory_order_acquire);
	uint32_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);

	return tail - head;
}
