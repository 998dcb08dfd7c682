/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The published figures of the conversation trace of Mooncake (FAST'25), 12,031 requests, to which
 * the generator is fitted, and helpers that print what was measured beside them.
 */
#pragma once

#include <math.h>
#include <stdio.h>

#include "sim/sim_lru.h"
#include "sim/sim_stat.h"

#define FIG_REFS 288500.0
#define FIG_UNIQUES 182790.0
#define FIG_CAPACITIES 7 /* the last is unbounded */

static const uint64_t fig_capacity[FIG_CAPACITIES] = {
	1000, 3000, 10000, 30000, 50000, 100000, SIM_LRU_UNBOUNDED};

/* Prefix hit rate of leaf-first LRU, percent. */
static const double fig_lru[FIG_CAPACITIES] = {4.45, 6.53, 21.16, 32.57, 35.46, 36.37, 36.64};

/* P(continued | turn 0 .. 5, 6 and more). */
static const double fig_followed[SIM_STAT_TURNS] = {.27, .41, .56, .62, .68, .73, .85};

/* Time between turns, seconds: P10, P50, P90. */
static const double fig_gap_s[3] = {42, 126, 480};

/*
 * Continuations per 1000 s of waiting, by age (sim_stat_age_s) and turn class; 0 = not published.
 */
static const double fig_hazard[SIM_STAT_AGES][SIM_STAT_CLASSES] = {
	{.22, .33, .19, .62}, {.45, .94, .74, 4.0}, {.84, 1.5, 2.7, 4.2}, {1.6, 1.7, 4.3, 5.4},
	{1.6, 2.6, 3.9, 3.2}, {1.0, 1.8, 2.8, 5.3}, {.68, 1.5, 2.4, 3.2}, {.42, .87, 1.2, 1.3},
	{0, 0, 0, 0},	      {.28, .48, .71, .94}, {.15, .23, .26, .41}, {.02, .02, .02, .02},
};

static inline void fig_print_head(void)
{
	printf("%-12s", "capacity");
	for (int c = 0; c < FIG_CAPACITIES - 1; c++)
		printf("%8llu", (unsigned long long)fig_capacity[c]);
	printf("%8s\n", "inf");
}

static inline void fig_print_row(const char *name, const double *v, int nr)
{
	printf("%-12s", name);
	for (int c = 0; c < nr; c++)
		printf("%8.2f", v[c]);
	printf("\n");
}

/* The hit rate at every capacity. 0 or -ENOMEM. */
static inline int fig_curve(const struct sim_trace *t, double out[FIG_CAPACITIES])
{
	for (int c = 0; c < FIG_CAPACITIES; c++) {
		struct sim_lru_stats s;
		int err = sim_lru_run(t, fig_capacity[c], &s);

		if (err)
			return err;
		out[c] = sim_lru_percent(&s);
	}
	return 0;
}
