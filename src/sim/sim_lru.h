/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an exact LRU cache of whole blocks would have done with a trace: the yardstick beside which
 * a real cache's hit rate is read.
 *
 * A request hits its longest run of leading blocks that are resident; a block behind the first
 * miss is no hit, because an engine can't use it. Then all its blocks become resident, touched
 * leaf first: the root is the most recent, so a parent outlives its children. Hit rate = hits /
 * all blocks referenced. This is the metric of the published curves.
 *
 * O(1) a block. One thread per struct sim_lru; runs on the caller's.
 */
#ifndef SIM_LRU_H
#define SIM_LRU_H

#include <stdint.h>

#include "sim/sim_trace.h"

struct sim_lru;

struct sim_lru_stats {
	uint64_t refs;	    /* blocks referenced */
	uint64_t hits;	    /* of them, in a resident prefix */
	uint64_t evictions; /* blocks dropped to make room */
	uint64_t residents; /* blocks now in the cache; with no bound: unique blocks so far */
};

#define SIM_LRU_UNBOUNDED 0u

/* A cache of capacity blocks, at most 2^31; SIM_LRU_UNBOUNDED never evicts. NULL: no memory. */
struct sim_lru *sim_lru_create(uint64_t capacity);
void sim_lru_destroy(struct sim_lru *lru);

/*
 * One request, root first. Returns how many leading blocks hit, or -ENOMEM (the cache is as before
 * but for some of this request's blocks; only an unbounded cache, or one that isn't full, grows).
 */
int64_t sim_lru_access(struct sim_lru *lru, const uint64_t *ids, uint32_t nr_ids);

struct sim_lru_stats sim_lru_stats(const struct sim_lru *lru);

/* A whole trace through a fresh cache. 0 or -ENOMEM. */
int sim_lru_run(const struct sim_trace *trace, uint64_t capacity, struct sim_lru_stats *stats);

/* Hit rate in percent; 0 when there was no reference. */
static inline double sim_lru_percent(const struct sim_lru_stats *stats)
{
	return stats->refs ? 100.0 * (double)stats->hits / (double)stats->refs : 0.0;
}

#endif
