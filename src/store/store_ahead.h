/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Neighbours: which values lie behind a given one on its device, written by the same group
 * (conversation, document). A tier in memory asks the tiers below when somebody reads such a value,
 * and may bring them up before they are asked for. A guess: nothing is promised about them but that
 * they were there.
 *
 * Runs on the shard's owner.
 */
#ifndef STORE_STORE_AHEAD_H
#define STORE_STORE_AHEAD_H

#include "base/list.h"
#include "store/store.h"

#define STORE_AHEAD_MAX 32u

struct store_ahead {
	/* The asker's, constant until end(). */
	struct store_key key; /* behind this one */
	uint8_t group[16];
	uint8_t group_len;
	uint64_t bytes; /* once the values named are as many together, that is enough; > 0 */
	/* Once, inside the call or in a later turn. */
	void (*end)(struct store_ahead *a);
	/* Out: in the order in which they were written. */
	uint32_t nr;
	struct store_key keys[STORE_AHEAD_MAX];
	/* The tier's. */
	struct list node;
};

/* Asks the tiers below s. The struct lives until end(), which comes before the set is destroyed. */
void store_ahead_below(struct store *s, struct store_ahead *a);

#endif
