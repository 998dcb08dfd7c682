/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slot of a time: its power of two and the five bits behind the leading one; times below 64 have
 * a slot of their own each, so the smallest times are exact. One thread.
 */
#include "cli/replay_hist.h"

#define HIST_SHIFT 5

static unsigned hist_slot(uint64_t ns)
{
	unsigned shift;

	if (ns < 2 * REPLAY_HIST_STEPS)
		return (unsigned)ns;
	shift = 63u - (unsigned)__builtin_clzll(ns) - HIST_SHIFT;
	return (shift + 1) * REPLAY_HIST_STEPS + (unsigned)(ns >> shift) - REPLAY_HIST_STEPS;
}

/* The largest time of a slot. */
static uint64_t hist_top(unsigned slot)
{
	unsigned shift;

	if (slot < 2 * REPLAY_HIST_STEPS)
		return slot;
	shift = slot / REPLAY_HIST_STEPS - 1;
	return (((uint64_t)(slot % REPLAY_HIST_STEPS) + REPLAY_HIST_STEPS + 1) << shift) - 1;
}

void replay_hist_add(struct replay_hist *h, uint64_t ns)
{
	h->slot[hist_slot(ns)]++;
	h->nr++;
	if (ns > h->max_ns)
		h->max_ns = ns;
}

uint64_t replay_hist_ns(const struct replay_hist *h, unsigned permille)
{
	uint64_t want = (h->nr * permille + 999) / 1000;
	uint64_t seen = 0;

	for (unsigned i = 0; i < REPLAY_HIST_SLOTS; i++) {
		seen += h->slot[i];
		if (seen && seen >= want)
			return hist_top(i) < h->max_ns ? hist_top(i) : h->max_ns;
	}
	return h->max_ns;
}
