/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One reactor: one thread, one env (clock and io_uring), one mailbox, its timeouts and its pollers.
 *
 *   reactor_step():  mailbox (<= 64)  ->  finished I/O (<= 8)  ->  flush of what reactor_send()
 *                    collected (answers)  ->  push of what reactor_io() collected
 *                    ->  pollers, each one bounded turn  ->  push  ->  timeouts  ->  flush
 *
 * So what a device has brought is answered by the pollers of the same turn, and what they fetch is
 * asked of the device in that turn, too.
 *
 * A step never blocks and everything in it has a budget. The daemon's thread runs reactor_run();
 * tests and the simulator call reactor_step() themselves, for any number of reactors in one thread,
 * in an order that a seed decides. Nothing here is thread-local.
 *
 * Idle: when no poller found work for `spin_ns`, reactor_run() calls every poller's arm() (which
 * publishes "I sleep" to its peers and fences), takes one more turn, and only when that found
 * nothing sleeps in env->wait() until the next timeout, a wake-up, or the shortest max_sleep_ns of
 * its pollers; then disarm(). A poller with max_sleep_ns 0 keeps the reactor awake.
 */
#ifndef CORE_REACTOR_H
#define CORE_REACTOR_H

#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "core/counter.h"
#include "core/env.h"
#include "core/mbox.h"
#include "core/timeout.h"

#define REACTORS_MAX 64

struct poller {
	struct list node;
	const char *name;
	int (*poll)(struct poller *p);	  /* one bounded turn; > 0 when there was work */
	void (*arm)(struct poller *p);	  /* may be NULL: about to sleep */
	void (*disarm)(struct poller *p); /* may be NULL: awake again */
	uint64_t max_sleep_ns;		  /* longest sleep it bears; 0 none, UINT64_MAX any */
};

struct reactor_opts {
	unsigned id;	   /* index, < REACTORS_MAX, unique among those that send to each other */
	unsigned nr_peers; /* how many reactors there are, this one included */
	struct env *env;   /* taken over: destroyed with the reactor */
	uint64_t spin_ns;  /* idle time before sleep; UINT64_MAX = busy polling for ever */
	int cpu;	   /* reactor_start() pins to it; -1 = don't */
};

struct reactor;

struct reactor *reactor_create(const struct reactor_opts *o); /* NULL = no memory */
void reactor_destroy(struct reactor *r);		      /* stopped, no pollers left */
unsigned reactor_id(const struct reactor *r);
struct env *reactor_env(struct reactor *r);
uint64_t reactor_now_ns(struct reactor *r); /* the clock, now */
/* The clock as of some recent turn: free, up to 64 turns old. */
uint64_t reactor_turn_ns(const struct reactor *r);

struct reactor_stats {
	struct counter turns; /* to the nearest 64 */
	struct counter mails; /* messages run */
	struct counter sleeps;
	struct counter mbox_full; /* turns that left messages for the next one */
};
const struct reactor_stats *reactor_stats(const struct reactor *r); /* any thread */

int reactor_step(struct reactor *r);  /* > 0 when there was work */
void reactor_run(struct reactor *r);  /* until reactor_stop(); on the calling thread */
void reactor_stop(struct reactor *r); /* any thread */
/* Its own thread, running reactor_run(); 0 or -errno. */
int reactor_start(struct reactor *r, const char *name);
void reactor_join(struct reactor *r);
bool reactor_is_current(const struct reactor *r); /* for must(): is the caller inside r's turn? */

void reactor_poller_add(struct reactor *r, struct poller *p);
void reactor_poller_del(struct reactor *r, struct poller *p); /* safe from inside any poll() */
void reactor_poller_sleep(struct reactor *r, struct poller *p, uint64_t max_sleep_ns);

/*
 * From reactor `from`'s own turn: m->fn runs in `to`'s turn; flushed behind this turn's mailbox
 * and at its end. to == from is fine.
 */
void reactor_send(struct reactor *from, struct reactor *to, struct mbox_msg *m);
/*
 * Moves when what was collected has gone: until then the sender may still write to what a message
 * is about.
 */
uint64_t reactor_nr_flushes(const struct reactor *from);

/* From r's own turn: work is expected within that time, so it doesn't sleep before. */
void reactor_expect(struct reactor *r, uint64_t within_ns);

/*
 * Reads of devices under way on this reactor that somebody waits for, counted by whoever starts
 * them: what nobody waits for begins when there are none. The reactor's own.
 */
uint32_t *reactor_waited_reads(struct reactor *r);
/* The same of those that nobody waits for. */
uint32_t *reactor_unwaited_reads(struct reactor *r);

void reactor_io(struct reactor *r, struct io_req *io); /* env->io_submit */
void reactor_io_push(struct reactor *r); /* env->io_push: now, not behind the pollers */
/* env->io_memory: 0, or -errno (-ENOSYS: this env knows no such thing) */
int reactor_io_memory(struct reactor *r, void *base, uint64_t bytes);
void reactor_io_memory_gone(struct reactor *r, void *base);

/*
 * A round: fn(round, reactor) runs once on each of the `nr` reactors, then done(round) on `home`.
 * What was started on a reactor before the round reached it, and is finished within a turn, is over
 * when done() runs: unmap, reset and queue deletion wait for one. The caller sets fn and done,
 * starts it on home, and keeps the struct until done().
 */
struct reactor_round {
	struct reactor_hop {
		struct mbox_msg msg; /* there and back */
		struct reactor_round *rd;
		struct reactor *at;
	} hop[REACTORS_MAX];
	struct reactor *home;
	unsigned nr_left;					 /* home's */
	void (*fn)(struct reactor_round *rd, struct reactor *r); /* may be NULL */
	void (*done)(struct reactor_round *rd);
};
void reactor_round_start(struct reactor_round *rd, struct reactor *home, struct reactor *const *all,
			 unsigned nr);

#endif
