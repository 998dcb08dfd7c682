/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See trip.h: a leaky bucket of errors, and what it says when it is full. One thread.
 */
#include "policy/trip.h"

#include "base/container.h"

#define OFF 4u /* times the errors of a trip */

void trip_init(struct trip *t, uint32_t errors_max, uint64_t leak_ns, uint64_t now_ns)
{
	*t = (struct trip){.errors_max = errors_max, .leak_ns = leak_ns, .at_ns = now_ns};
}

static void trip_leak(struct trip *t, uint64_t now_ns)
{
	uint64_t nr;

	if (now_ns <= t->at_ns)
		return;
	nr = (now_ns - t->at_ns) / t->leak_ns;
	t->nr -= min_t(uint64_t, nr, t->nr);
	t->at_ns = t->nr ? t->at_ns + nr * t->leak_ns : now_ns;
}

enum trip_state trip_error(struct trip *t, uint64_t now_ns)
{
	trip_leak(t, now_ns);
	t->nr++;
	if (!t->errors_max)
		return t->state;
	if (t->nr >= (uint64_t)t->errors_max * OFF)
		t->state = TRIP_OFF;
	else if (t->nr >= t->errors_max)
		t->state = max_t(enum trip_state, t->state, TRIP_READ_ONLY);
	return t->state;
}

void trip_set(struct trip *t, enum trip_state state)
{
	t->state = state;
	t->nr = 0;
}

const char *trip_name(enum trip_state state)
{
	static const char *const names[] = {"rw", "read_only", "off"};

	return names[state];
}
