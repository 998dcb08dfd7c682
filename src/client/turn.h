/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock that is waited for until a deadline of CLOCK_MONOTONIC: for those who hold it across a
 * wait for the daemon. (pthread_mutex_clocklock() would do, but ThreadSanitizer doesn't know it,
 * and pthread_mutex_timedlock() has the clock that people set.)
 */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mono.h"

#define TURN_NEVER UINT64_MAX

struct turn {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool is_taken;
};

static inline void turn_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t ca;

	pthread_condattr_init(&ca);
	pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &ca);
	pthread_condattr_destroy(&ca);
}

/* 0 or -ETIMEDOUT. */
static inline int turn_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ns)
{
	struct timespec ts = {
		.tv_sec = (time_t)(deadline_ns / MONO_NS_PER_S),
		.tv_nsec = (long)(deadline_ns % MONO_NS_PER_S),
	};

	if (deadline_ns == TURN_NEVER)
		return -pthread_cond_wait(cond, lock);
	return -pthread_cond_timedwait(cond, lock, &ts);
}

static inline void turn_init(struct turn *t)
{
	pthread_mutex_init(&t->lock, NULL);
	turn_cond_init(&t->cond);
	t->is_taken = false;
}

static inline void turn_fini(struct turn *t)
{
	pthread_cond_destroy(&t->cond);
	pthread_mutex_destroy(&t->lock);
}

/* 0 or -ETIMEDOUT. */
static inline int turn_take(struct turn *t, uint64_t deadline_ns)
{
	int err = 0;

	pthread_mutex_lock(&t->lock);
	while (t->is_taken && !err)
		err = turn_cond_wait(&t->cond, &t->lock, deadline_ns);
	if (!t->is_taken) {
		t->is_taken = true;
		err = 0;
	}
	pthread_mutex_unlock(&t->lock);
	return err;
}

static inline void turn_give(struct turn *t)
{
	pthread_mutex_lock(&t->lock);
	t->is_taken = false;
	pthread_cond_signal(&t->cond);
	pthread_mutex_unlock(&t->lock);
}
