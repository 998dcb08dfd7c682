/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every unit test includes first: cmocka and the headers that it wants before itself. Tests
 * never sleep and never assert on time; a test that draws random numbers takes its seed from
 * unit_seed() and prints it, so that a failure can be run again with PEAL_SEED=<n>.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* The seed of this run: $PEAL_SEED when set, else the test's own default. */
static inline uint64_t unit_seed(uint64_t dflt)
{
	const char *s = getenv("PEAL_SEED");
	uint64_t seed = s ? strtoull(s, NULL, 0) : dflt;

	printf("seed %llu\n", (unsigned long long)seed);
	return seed;
}
