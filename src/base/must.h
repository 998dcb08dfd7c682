/* SPDX-License-Identifier: Apache-2.0 */
/*
 * must(): an assertion that is always on. It states what this code believes, never what a peer, a
 * file or a user might send; those are checked by functions that return errors. A must() that fails
 * prints file, line and expression with one write and aborts. Any thread.
 */
#pragma once

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

__attribute__((cold, noreturn)) static inline void must_fail(const char *file, int line,
							     const char *expr)
{
	fprintf(stderr, "%s:%d: must(%s) failed\n", file, line, expr);
	abort();
}

#define must(cond) \
	do { \
		if (unlikely(!(cond))) \
			must_fail(__FILE__, __LINE__, #cond); \
	} while (0)

/* For the place after a switch that covers its enum. */
#define must_not_reach() must_fail(__FILE__, __LINE__, "not reached")
