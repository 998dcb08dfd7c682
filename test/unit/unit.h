/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every unit test includes first: cmocka and the headers that it wants before itself. Tests
 * never sleep and never assert on time; a test that draws random numbers takes its seed from
 * unit_seed() and prints it, so that a failure can be run again with PEAL_SEED=<n>.
 */
#pragma once

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/*
 * First in a thread that a test starts. A fault there would come to cmocka's handler, which doesn't
 * know the thread and ends the program with status 255, without a word. Blocked, the kernel ends it
 * by the signal's name.
 */
static inline void unit_thread_begin(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	sigaddset(&set, SIGBUS);
	sigaddset(&set, SIGILL);
	sigaddset(&set, SIGFPE);
	sigaddset(&set, SIGSYS);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* The seed of this run: $PEAL_SEED when set, else the test's own default. */
static inline uint64_t unit_seed(uint64_t dflt)
{
	const char *s = getenv("PEAL_SEED");
	uint64_t seed = s ? strtoull(s, NULL, 0) : dflt;

	printf("seed %llu\n", (unsigned long long)seed);
	return seed;
}
