/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside core/ only: what a reactor is made of. Everything but `mbox.head`, `sleeping` and `stop`
 * belongs to the thread that runs it; the counters are read by any.
 */
#ifndef CORE_REACTOR_INT_H
#define CORE_REACTOR_INT_H

#include <pthread.h>
#include <stdalign.h>

#include "core/counter.h"
#include "core/reactor.h"
#include "core/timeout_int.h"

/* What reactor_send() has collected for one destination in this turn, oldest first. */
struct reactor_outbox {
	struct reactor *to;
	struct mbox_msg *first;
	struct mbox_msg *last;
};

struct reactor {
	/* The turn's own line. */
	struct env *env;
	struct list pollers;
	struct list *cursor; /* the poller after the one that runs */
	uint64_t turn_ns;
	uint64_t out_dirty; /* bit i: out[i] holds something */
	uint64_t nr_flushes;
	uint32_t clock_left; /* turns until the clock is read again */
	bool is_current;
	bool is_armed; /* between arm() and disarm() */
	bool is_poked; /* something that forbids sleep happened in the last turn before it */
	bool has_io;   /* since the last push */

	uint64_t busy_ns; /* turn_ns of the last turn that found work */
	uint32_t nr_waited_reads;
	uint32_t nr_unwaited_reads;
	uint64_t awake_ns; /* no sleep before: reactor_expect() */
	uint64_t spin_ns;
	uint64_t max_sleep_ns; /* the least of all pollers */
	unsigned id;
	unsigned nr_peers;
	int cpu;
	bool has_thread;
	pthread_t thread;
	struct reactor_stats stats;

	/* Written by others. */
	alignas(64) struct mbox mbox;
	_Atomic uint32_t sleeping;
	_Atomic uint32_t stop;

	alignas(64) struct reactor_outbox out[REACTORS_MAX];
	struct timeout_wheel wheel;
};

/* Any thread, after it has left something that `r` must see: ends r's sleep. */
void reactor_kick(struct reactor *r);

/*
 * What reactor_run() does when it has been idle long enough: tells everybody, looks once more,
 * sleeps if it still may.
 */
void reactor_sleep(struct reactor *r);

/* The next turn reads the clock and looks at the timeouts. */
static inline void reactor_clock_stale(struct reactor *r)
{
	r->clock_left = 1;
}

#endif
