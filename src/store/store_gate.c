/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate of a shard: of the mutations of one key (PUT, DEL, FILL, INVAL, a tier's own write-back
 * among them) one is under way at a time and the others wait in the order in which they came. Reads
 * don't pass here. Different keys never wait for each other.
 *
 *     bucket[hash] -> A1 -> B1 -> A2 -> A3 -> B2      A1 and B1 hold keys A and B; A2, A3, B2 wait
 *
 * A bucket is one list of everybody, in order of arrival: the first of a key holds it. So nothing
 * is allocated, the number of waiters is bounded by the number of ios, and the usual case (an empty
 * bucket, a mutation that completes at once) is one cache line and two list operations. The
 * owner's, like all of a shard.
 */
#include <errno.h>
#include <stdlib.h>

#include "store/store_gate_int.h"

int store_gate_init(struct store_gate *g)
{
	counter_set(&g->waits, 0);
	g->bucket = malloc(STORE_GATE_BUCKETS * sizeof(*g->bucket));
	if (!g->bucket)
		return -ENOMEM;
	for (unsigned i = 0; i < STORE_GATE_BUCKETS; i++)
		list_init(&g->bucket[i]);
	return 0;
}

void store_gate_fini(struct store_gate *g)
{
	for (unsigned i = 0; i < STORE_GATE_BUCKETS; i++)
		must(list_is_empty(&g->bucket[i]));
	free(g->bucket);
	g->bucket = NULL;
}

bool store_gate_is_held(const struct list *bucket, const struct store_io *io)
{
	const struct store_io *w;

	list_for_each_entry(w, bucket, gate)
		if (store_key_equal(&w->key, &io->key))
			return true;
	return false;
}

struct store_io *store_gate_next(const struct list *bucket, const struct store_io *io)
{
	const struct list *l;
	struct store_io *w;

	for (l = io->gate.next; l != bucket; l = l->next) {
		w = container_of(l, struct store_io, gate);
		if (store_key_equal(&w->key, &io->key))
			return w;
	}
	return NULL;
}
