/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside store/ only: the gate of a shard, see store_gate.c.
 */
#ifndef STORE_STORE_GATE_INT_H
#define STORE_STORE_GATE_INT_H

#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "base/must.h"
#include "core/counter.h"
#include "store/store.h"

#define STORE_GATE_BUCKETS 1024u

struct store_gate {
	struct list *bucket;
	struct counter waits;
};

int store_gate_init(struct store_gate *g);  /* 0 or -ENOMEM */
void store_gate_fini(struct store_gate *g); /* nobody holds or waits */

/* The rare halves: somebody else is in the bucket. */
bool store_gate_is_held(const struct list *bucket, const struct store_io *io);
struct store_io *store_gate_next(const struct list *bucket, const struct store_io *io);

static inline struct list *store_gate_bucket(struct store_gate *g, const struct store_io *io)
{
	return &g->bucket[io->key.hash & (STORE_GATE_BUCKETS - 1)];
}

/* True: io holds its key. False: it waits, and will be what store_gate_leave() returns. */
static inline bool store_gate_enter(struct store_gate *g, struct store_io *io)
{
	struct list *b = store_gate_bucket(g, io);
	bool is_held = unlikely(!list_is_empty(b)) && store_gate_is_held(b, io);

	list_add_tail(b, &io->gate);
	if (is_held)
		counter_add(&g->waits, 1);
	return !is_held;
}

/* io, which held its key, is done. Returns who holds it now, for the caller to start, or NULL. */
static inline struct store_io *store_gate_leave(struct store_gate *g, struct store_io *io)
{
	struct list *b = store_gate_bucket(g, io);
	struct store_io *next = NULL;

	if (unlikely(io->gate.next != b))
		next = store_gate_next(b, io);
	list_del(&io->gate);
	return next;
}

#endif
