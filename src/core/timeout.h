/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timeouts of one reactor: intrusive, no allocation, O(1) set and cancel (a hierarchical wheel with
 * ticks of 2^20 ns, about 1 ms; a timeout never fires early and at most one tick late plus the
 * length of a turn). fn runs on the reactor; it may set the timeout again. Belongs to the reactor
 * that set it.
 */
#ifndef CORE_TIMEOUT_H
#define CORE_TIMEOUT_H

#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"

struct reactor;

struct timeout {
	struct list node; /* zero or list_init()ed when not set */
	uint64_t at_ns;
	void (*fn)(struct timeout *t);
};

void timeout_init(struct timeout *t, void (*fn)(struct timeout *t));
/* moves it when it was set */
void timeout_set(struct reactor *r, struct timeout *t, uint64_t at_ns);
void timeout_cancel(struct timeout *t); /* nothing when not set */
bool timeout_is_set(const struct timeout *t);

#endif
