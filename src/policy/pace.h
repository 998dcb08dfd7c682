/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A token bucket: so many bytes a second, in bursts of a tenth of that. Who begins something asks
 * first; what something came to is taken out afterwards, also by who didn't have to ask, so that
 * the bucket may be in debt, by one request of each. Pure: the caller has the clock. One thread.
 */
#ifndef POLICY_PACE_H
#define POLICY_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct pace {
	uint64_t rate; /* bytes a second; 0: no limit */
	int64_t left;  /* bytes; below 0: a debt */
	uint64_t at_ns;
};

void pace_init(struct pace *p, uint64_t rate, uint64_t now_ns);
/* May something begin? Else in how many ns one may ask again, in *wait_ns. */
bool pace_may(struct pace *p, uint64_t now_ns, uint64_t *wait_ns);
void pace_spend(struct pace *p, uint64_t bytes);

#endif
