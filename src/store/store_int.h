/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside store/ only: what a set and its shards are made of. Everything in a shard belongs to its
 * owner, except the counters, which any thread may read, and what is constant after
 * store_set_push().
 */
#ifndef STORE_STORE_INT_H
#define STORE_STORE_INT_H

#include <stdalign.h>
#include "base/list.h"
#include "store/store.h"
#include "store/store_gate_int.h"

/* Verbs that take their key for themselves, and those that end with their view consumed. */
#define STORE_MUTATIONS (1u << STORE_PUT | 1u << STORE_FILL | 1u << STORE_INVAL | 1u << STORE_DEL)
#define STORE_TAKES_VIEW (1u << STORE_PUT | 1u << STORE_FILL)
#define STORE_VISITS_SHARDS (1u << STORE_MATCH | 1u << STORE_LIST | 1u << STORE_FLUSH)

enum store_shard_state {
	STORE_SHARD_NEW, /* nothing has come yet: the owner has no poller of it */
	STORE_SHARD_OPEN,
	STORE_SHARD_CLOSING,
};

/* What every reactor reads on its way to the owner comes first, what the owner writes behind it. */
struct store_shard {
	alignas(64) struct store *top;
	struct reactor *owner;
	uint8_t state;
	bool has_poller;
	uint8_t nr_tiers;
	struct store_set *set;
	struct store_gate gate;
	struct counter unexpected;
	alignas(64) struct counter busy;
	struct counter ops[STORE_NR_OPS];
	struct store *tier[STORE_DEPTH_MAX];
	struct poller poller;
};
/* The way to a shard, taken a few times by each look-up, is a shift. */
_Static_assert(sizeof(struct store_shard) == 256, "a power of two");

struct store_set {
	unsigned nr_shards;
	bool is_immutable;
	_Atomic bool is_ending;
	uint32_t value_max;
	char *name;
	void (*alert)(void *arg, const struct store_key *key, const char *what);
	void *alert_arg;
	/* store_far.c: of each reactor that submits, by its id; it alone touches it */
	struct store_far_pool *far[REACTORS_MAX];
	uint64_t owned[REACTORS_MAX]; /* likewise: its shards, a bit each */
	/* store_set_open(): from owner to owner */
	struct mbox_msg open;
	unsigned open_shard;
	struct store_tour *end; /* made with the set: its end needs no memory */
	struct store_shard shard[];
};

/* store_far.c: batches of one reactor. NULL = no memory. */
struct store_far_pool *store_far_create(struct reactor *home);
void store_far_destroy(struct store_far_pool *p);	/* not busy; NULL is fine */
bool store_far_is_busy(const struct store_far_pool *p); /* home: some aren't back */
struct reactor *store_far_home(const struct store_far_pool *p);

/* Sums of figures; health: one shard more, or one device more. */
void store_set_stats_add(struct store_stats *sum, const struct store_stats *st);
void store_health_add(struct store_health *sum, const struct store_health *h);

/* store.c: first use of a shard on its owner. */
void store_shard_open(struct store_shard *sh);

#endif
