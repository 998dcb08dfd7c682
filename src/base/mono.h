/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The monotonic clock in nanoseconds. Code below transport/ doesn't call this: its reactor hands it
 * the time, so that a simulated clock can stand in. This is what the real clock behind that vtable
 * calls, and what programs and benchmarks use. Any thread.
 */
#pragma once

#include <stdint.h>
#include <time.h>

#define MONO_NS_PER_US 1000ull
#define MONO_NS_PER_MS 1000000ull
#define MONO_NS_PER_S 1000000000ull

static inline uint64_t mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * MONO_NS_PER_S + (uint64_t)ts.tv_nsec;
}
