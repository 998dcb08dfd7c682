/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A histogram of times with bounded error: 32 steps per power of two, so a percentile is at most
 * 3.2 % above the true one and never below it. Fixed size, recording never fails. One thread.
 */
#pragma once

#include <stdint.h>

#define REPLAY_HIST_STEPS 32u
#define REPLAY_HIST_SLOTS (60u * REPLAY_HIST_STEPS)

/* All zero is an empty one. */
struct replay_hist {
	uint64_t nr;
	uint64_t max_ns;
	uint64_t slot[REPLAY_HIST_SLOTS];
};

void replay_hist_add(struct replay_hist *h, uint64_t ns);

/*
 * The smallest time that `permille` of a thousand don't exceed, rounded up to its step and never
 * above the largest that was added; 0 when there is none. 500 is the median.
 */
uint64_t replay_hist_ns(const struct replay_hist *h, unsigned permille);
