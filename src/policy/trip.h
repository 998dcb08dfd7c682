/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When is a device to be left alone? Its errors fill a bucket that leaks: a few over a long time
 * are nothing, many in a short one trip it, first to reading only, and when reads go on failing, to
 * nothing at all. A trip is for good: whoever has looked at the device resets it. Pure, no clock
 * of its own. One thread.
 */
#ifndef POLICY_TRIP_H
#define POLICY_TRIP_H

#include <stdint.h>

enum trip_state {
	TRIP_RW,
	TRIP_READ_ONLY,
	TRIP_OFF,
};

struct trip {
	uint32_t errors_max; /* in the bucket, that trip it; four times as many: off. 0: never */
	uint64_t leak_ns;    /* time in which one error is forgiven */
	uint64_t nr;
	uint64_t at_ns;
	enum trip_state state;
};

void trip_init(struct trip *t, uint32_t errors_max, uint64_t leak_ns, uint64_t now_ns);
/* One more error. The state that follows. */
enum trip_state trip_error(struct trip *t, uint64_t now_ns);
/* An operator's: the bucket is empty again. */
void trip_set(struct trip *t, enum trip_state state);
const char *trip_name(enum trip_state state);

#endif
