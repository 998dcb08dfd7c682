/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small arithmetic and the two macros that C lacks. All of it is pure. The alignments must be
 * powers of two; min_t and max_t evaluate each argument once and convert both to the type that is
 * named.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define container_of(ptr, type, member) \
	({ \
		const __typeof__(((type *)0)->member) *container_ptr_ = (ptr); \
		(type *)((char *)(uintptr_t)container_ptr_ - offsetof(type, member)); \
	})

/* The second term refuses a pointer at compile time. */
#define ARRAY_SIZE(a) \
	(sizeof(a) / sizeof((a)[0]) + \
	 0 * sizeof(char[1 - \
			 2 * __builtin_types_compatible_p(__typeof__(a), __typeof__(&(a)[0]))]))

#define min_t(type, a, b) \
	({ \
		type min_a_ = (a), min_b_ = (b); \
		min_a_ < min_b_ ? min_a_ : min_b_; \
	})

#define max_t(type, a, b) \
	({ \
		type max_a_ = (a), max_b_ = (b); \
		max_a_ > max_b_ ? max_a_ : max_b_; \
	})

static inline bool is_pow2(uint64_t x)
{
	return x && !(x & (x - 1));
}

static inline uint64_t align_down(uint64_t x, uint64_t a)
{
	return x & ~(a - 1);
}

static inline uint64_t align_up(uint64_t x, uint64_t a)
{
	return align_down(x + a - 1, a);
}

/* Rounded up without the overflow of (x + d - 1) / d. */
static inline uint64_t div_round_up(uint64_t x, uint64_t d)
{
	return x / d + (x % d != 0);
}

/* Position of the highest set bit; x must not be 0. */
static inline unsigned ilog2_u64(uint64_t x)
{
	return 63u - (unsigned)__builtin_clzll(x);
}
