/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact LRU: a pool of nodes on one circular list (node 0 is its head), found by an open-addressed
 * table of node numbers with linear probing at a load of at most 1/2. Pool and table double
 * together until the capacity is reached and never after. Deleting shifts the probe run back, so
 * there are no tombstones and a lookup stays short however long the trace is.
 */
#include "sim/sim_lru.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"

#define HEAD 0u
#define NR_NODES_FIRST 1024u
#define NR_NODES_MAX (1u << 31)

struct lru_node {
	uint64_t id;
	uint32_t newer;
	uint32_t older;
};

struct sim_lru {
	struct lru_node
		*nodes;	   /* [0] is the list's head: newest = head.older, oldest = head.newer */
	uint32_t *table;   /* node number, 0 = empty; 2 * nr_nodes entries */
	uint32_t nr_nodes; /* allocated; a power of two */
	uint32_t nr_used;  /* nodes ever used, the head included */
	uint64_t capacity;
	struct sim_lru_stats stats;
};

/* Ids of a trace are small and dense: spread them (the finaliser of MurmurHash3). */
static uint64_t lru_hash(uint64_t id)
{
	id ^= id >> 33;
	id *= 0xff51afd7ed558ccdull;
	id ^= id >> 33;
	id *= 0xc4ceb9fe1a85ec53ull;
	return id ^ (id >> 33);
}

static uint64_t lru_mask(const struct sim_lru *lru)
{
	return 2 * (uint64_t)lru->nr_nodes - 1;
}

/* Slot of id, or the empty slot where it would go. */
static uint64_t lru_slot(const struct sim_lru *lru, uint64_t id)
{
	uint64_t mask = lru_mask(lru);
	uint64_t i = lru_hash(id) & mask;

	while (lru->table[i] && lru->nodes[lru->table[i]].id != id)
		i = (i + 1) & mask;
	return i;
}

static void lru_unlink(struct sim_lru *lru, uint32_t n)
{
	struct lru_node *node = &lru->nodes[n];

	lru->nodes[node->newer].older = node->older;
	lru->nodes[node->older].newer = node->newer;
}

static void lru_link_newest(struct sim_lru *lru, uint32_t n)
{
	uint32_t second = lru->nodes[HEAD].older;

	lru->nodes[n].newer = HEAD;
	lru->nodes[n].older = second;
	lru->nodes[second].newer = n;
	lru->nodes[HEAD].older = n;
}

/* Empty slot i and move back every entry of the run behind it that would no longer be found. */
static void lru_table_delete(struct sim_lru *lru, uint64_t i)
{
	uint64_t mask = lru_mask(lru);

	for (uint64_t j = (i + 1) & mask; lru->table[j]; j = (j + 1) & mask) {
		uint64_t home = lru_hash(lru->nodes[lru->table[j]].id) & mask;

		if (((j - home) & mask) >= ((j - i) & mask)) {
			lru->table[i] = lru->table[j];
			i = j;
		}
	}
	lru->table[i] = 0;
}

static int lru_grow(struct sim_lru *lru, uint32_t nr_nodes)
{
	struct lru_node *nodes = realloc(lru->nodes, (uint64_t)nr_nodes * sizeof(*nodes));
	uint32_t *table;

	if (!nodes)
		return -ENOMEM;
	lru->nodes = nodes;
	table = calloc(2 * (uint64_t)nr_nodes, sizeof(*table));
	if (!table)
		return -ENOMEM;
	free(lru->table);
	lru->table = table;
	lru->nr_nodes = nr_nodes;
	for (uint32_t n = HEAD + 1; n < lru->nr_used; n++)
		lru->table[lru_slot(lru, lru->nodes[n].id)] = n;
	return 0;
}

/* A node for a block that isn't resident: a fresh one, or the oldest block's. 0 = no memory. */
static uint32_t lru_take_node(struct sim_lru *lru)
{
	uint32_t oldest = lru->nodes[HEAD].newer;

	if (lru->capacity && lru->stats.residents == lru->capacity) {
		lru_table_delete(lru, lru_slot(lru, lru->nodes[oldest].id));
		lru_unlink(lru, oldest);
		lru->stats.evictions++;
		lru->stats.residents--;
		return oldest;
	}
	if (lru->nr_used == lru->nr_nodes) {
		if (lru->nr_nodes == NR_NODES_MAX || lru_grow(lru, 2 * lru->nr_nodes))
			return 0;
	}
	return lru->nr_used++;
}

static int lru_touch(struct sim_lru *lru, uint64_t id)
{
	uint32_t n = lru->table[lru_slot(lru, id)];

	if (n) {
		lru_unlink(lru, n);
		lru_link_newest(lru, n);
		return 0;
	}
	n = lru_take_node(lru);
	if (!n)
		return -ENOMEM;
	lru->nodes[n].id = id;
	lru->table[lru_slot(lru, id)] = n;
	lru_link_newest(lru, n);
	lru->stats.residents++;
	return 0;
}

struct sim_lru *sim_lru_create(uint64_t capacity)
{
	struct sim_lru *lru = calloc(1, sizeof(*lru));

	must(capacity < NR_NODES_MAX);
	if (!lru)
		return NULL;
	lru->capacity = capacity;
	lru->nr_used = HEAD + 1;
	if (lru_grow(lru, NR_NODES_FIRST)) {
		sim_lru_destroy(lru);
		return NULL;
	}
	lru->nodes[HEAD] = (struct lru_node){.newer = HEAD, .older = HEAD};
	return lru;
}

void sim_lru_destroy(struct sim_lru *lru)
{
	if (!lru)
		return;
	free(lru->nodes);
	free(lru->table);
	free(lru);
}

int64_t sim_lru_access(struct sim_lru *lru, const uint64_t *ids, uint32_t nr_ids)
{
	uint32_t nr_hits = 0;

	while (nr_hits < nr_ids && lru->table[lru_slot(lru, ids[nr_hits])])
		nr_hits++;
	for (uint32_t i = nr_ids; i-- > 0;)
		if (lru_touch(lru, ids[i]))
			return -ENOMEM;
	lru->stats.refs += nr_ids;
	lru->stats.hits += nr_hits;
	return nr_hits;
}

struct sim_lru_stats sim_lru_stats(const struct sim_lru *lru)
{
	return lru->stats;
}

int sim_lru_run(const struct sim_trace *trace, uint64_t capacity, struct sim_lru_stats *stats)
{
	struct sim_lru *lru = sim_lru_create(capacity);
	int64_t rc = lru ? 0 : -ENOMEM;

	for (size_t i = 0; rc >= 0 && i < trace->nr_reqs; i++)
		rc = sim_lru_access(lru, trace->reqs[i].ids, trace->reqs[i].nr_blocks);
	if (rc >= 0)
		*stats = sim_lru_stats(lru);
	sim_lru_destroy(lru);
	return rc < 0 ? (int)rc : 0;
}
