/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See pace.h. Time is taken in steps of a byte's worth at least, so that none of it is lost to
 * rounding however often one asks.
 */
#include "policy/pace.h"

#include "base/container.h"

#define PACE_BURSTS 10u		 /* of a second */
#define PACE_BURST_MIN (1 << 20) /* a write's length, as a rule */
#define PACE_SECOND 1000000000ull

static int64_t pace_burst(const struct pace *p)
{
	return (int64_t)max_t(uint64_t, p->rate / PACE_BURSTS, PACE_BURST_MIN);
}

void pace_init(struct pace *p, uint64_t rate, uint64_t now_ns)
{
	*p = (struct pace){.rate = min_t(uint64_t, rate, INT64_MAX), .at_ns = now_ns};
	p->left = pace_burst(p);
}

static void pace_fill(struct pace *p, uint64_t now_ns)
{
	uint64_t ns = now_ns > p->at_ns ? now_ns - p->at_ns : 0;
	__uint128_t bytes = (__uint128_t)ns * p->rate / PACE_SECOND;

	if (!bytes)
		return;
	if (bytes > INT64_MAX / 2 || p->left + (int64_t)bytes >= pace_burst(p)) {
		p->left = pace_burst(p);
		p->at_ns = now_ns;
		return;
	}
	p->left += (int64_t)bytes;
	p->at_ns += (uint64_t)(bytes * PACE_SECOND / p->rate);
}

bool pace_may(struct pace *p, uint64_t now_ns, uint64_t *wait_ns)
{
	if (!p->rate)
		return true;
	pace_fill(p, now_ns);
	if (p->left > 0)
		return true;
	*wait_ns = (uint64_t)((__uint128_t)(1 - p->left) * PACE_SECOND / p->rate) + 1;
	return false;
}

void pace_spend(struct pace *p, uint64_t bytes)
{
	if (p->rate)
		p->left -= (int64_t)min_t(uint64_t, bytes, INT64_MAX / 4);
}
