/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the program, all started the same way: named, with every signal blocked that is not a
 * fault of the thread itself (signals are the main thread's business), on one processor when asked
 * for.
 */
#ifndef CORE_THREAD_H
#define CORE_THREAD_H

#include <pthread.h>

/* name: cut to 15 characters. cpu: -1 = anywhere. 0 or -errno; *thread is untouched on failure. */
int thread_start(pthread_t *thread, const char *name, int cpu, void *(*fn)(void *arg), void *arg);

#endif
