/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a trace looks like to one who sees block ids only: the figures that the generator is fitted
 * to, measured in the same way on a generated and on a recorded trace.
 *
 * A request *continues* an earlier one if it starts with all full blocks of the last request that
 * used their common prefix, and these are two or more (one would be just the shared system prompt).
 * Its turn is then that one's + 1, otherwise 0. "Followed" counts only requests with at least
 * SIM_STAT_HORIZON_NS of trace behind them, so that the end of the trace doesn't read as people
 * leaving. By this rule the recorded trace gives the published figures within 0.016.
 */
#ifndef SIM_STAT_H
#define SIM_STAT_H

#include <stdint.h>

#include "sim/sim_trace.h"

#define SIM_STAT_TURNS 7   /* turn 0 .. 5, then "6 and more" */
#define SIM_STAT_CLASSES 4 /* of the hazard: turn 0 .. 2, then "3 and more" */
#define SIM_STAT_AGES 12   /* of the hazard: see sim_stat_age_s */
#define SIM_STAT_HORIZON_NS 900000000000ull

/* Lower ends of the ages, in seconds; the last one has no upper end. */
extern const uint32_t sim_stat_age_s[SIM_STAT_AGES];

struct sim_stat {
	uint64_t duration_ns;
	uint64_t refs;
	uint64_t uniques;
	uint64_t used_once;		   /* of the unique blocks */
	uint64_t partial_tails;		   /* unique partial tail blocks ... */
	uint64_t partial_reused;	   /* ... of them, used by more than one request */
	uint64_t with_first_block;	   /* requests that start with the trace's first block */
	uint64_t turns[SIM_STAT_TURNS];	   /* requests by turn, those within the horizon */
	uint64_t followed[SIM_STAT_TURNS]; /* of them, continued */
	double gap_s[3];		   /* P10, P50, P90 of the time to the continuation */
	uint64_t events[SIM_STAT_CLASSES][SIM_STAT_AGES];  /* continuations by turn class and age */
	double exposed_s[SIM_STAT_CLASSES][SIM_STAT_AGES]; /* time that requests spent there */
};

/* Measure a trace. O(references). 0 or -ENOMEM. */
int sim_stat_measure(const struct sim_trace *trace, struct sim_stat *stat);

/* P(continued | turn class), 0 if there was none. */
static inline double sim_stat_p_followed(const struct sim_stat *s, uint32_t turn)
{
	return s->turns[turn] ? (double)s->followed[turn] / (double)s->turns[turn] : 0.0;
}

#endif
