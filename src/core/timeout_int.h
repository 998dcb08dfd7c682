/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside core/ only: the wheel behind timeout.h, without a reactor, so that the test can drive it.
 * Levels of 64 slots; a timeout lies on the level of the highest 6-bit group in which its tick
 * differs from the wheel's, so each one is moved at most once per level. One bit per slot finds the
 * next one without a walk; a bit may be stale (a cancel doesn't know the wheel) and is then cleared
 * when it is looked at.
 */
#ifndef CORE_TIMEOUT_INT_H
#define CORE_TIMEOUT_INT_H

#include "core/timeout.h"

#define TIMEOUT_TICK_SHIFT 20
#define TIMEOUT_SLOT_BITS 6
#define TIMEOUT_SLOTS (1u << TIMEOUT_SLOT_BITS)
#define TIMEOUT_LEVELS 8 /* 48 bits of ticks; 64 bits of ns have 44 */

struct timeout_wheel {
	uint64_t tick; /* every timeout up to this tick is due or has fired */
	uint64_t occupied[TIMEOUT_LEVELS];
	struct list due;
	struct list slot[TIMEOUT_LEVELS][TIMEOUT_SLOTS];
};

void timeout_wheel_init(struct timeout_wheel *w, uint64_t now_ns);
void timeout_wheel_fini(struct timeout_wheel *w); /* what is still set becomes unset */
/* True when it is due already. */
bool timeout_wheel_set(struct timeout_wheel *w, struct timeout *t, uint64_t at_ns);
/* Fires at most `max`; returns how many. */
int timeout_wheel_run(struct timeout_wheel *w, uint64_t now_ns, int max);
/* No timeout fires before this time; 0 when one is due, UINT64_MAX when none is set. */
uint64_t timeout_wheel_next_ns(struct timeout_wheel *w);

#endif
