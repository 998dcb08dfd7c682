/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The turn, the run loop with its idle protocol, messages between reactors, rounds. See reactor.h;
 * reactor_int.h has the struct. Apart from reactor_kick(), reactor_stop() and reactor_stats(),
 * everything runs on the reactor's own thread.
 *
 * Why no wake-up is lost: a sender pushes, then loads `sleeping`; the reactor stores `sleeping`,
 * then loads the mailbox's head. All four are sequentially consistent, so at least one side sees
 * the other. A kick that comes before env->wait() is remembered by the env. Peers that are no
 * reactors (a doorbell page) do the same through arm().
 */
#include "core/reactor_int.h"

#include <errno.h>
#include <stdlib.h>

#include "base/container.h"
#include "base/must.h"
#include "core/probe.h"
#include "core/thread.h"

#define REACTOR_MAILS_MAX 64
/* Few: what the first of them answers goes out, by the pollers, before the next are looked at. */
#define REACTOR_IOS_MAX 8
#define REACTOR_TIMEOUTS_MAX 64

struct reactor *reactor_create(const struct reactor_opts *o)
{
	struct reactor *r = aligned_alloc(alignof(struct reactor), sizeof(*r));

	must(o->id < REACTORS_MAX && o->nr_peers <= REACTORS_MAX && o->env);
	if (!r)
		return NULL;
	*r = (struct reactor){
		.env = o->env,
		.id = o->id,
		.nr_peers = o->nr_peers,
		.spin_ns = o->spin_ns,
		.cpu = o->cpu,
		.max_sleep_ns = UINT64_MAX,
	};
	list_init(&r->pollers);
	mbox_init(&r->mbox);
	r->turn_ns = r->env->ops->now_ns(r->env);
	r->busy_ns = r->turn_ns;
	timeout_wheel_init(&r->wheel, r->turn_ns);
	reactor_clock_stale(r);
	return r;
}

void reactor_destroy(struct reactor *r)
{
	must(!r->has_thread && !r->is_current && list_is_empty(&r->pollers));
	timeout_wheel_fini(&r->wheel);
	r->env->ops->destroy(r->env);
	free(r);
}

unsigned reactor_id(const struct reactor *r)
{
	return r->id;
}

struct env *reactor_env(struct reactor *r)
{
	return r->env;
}

const struct reactor_stats *reactor_stats(const struct reactor *r)
{
	return &r->stats;
}

uint64_t reactor_now_ns(struct reactor *r)
{
	r->turn_ns = r->env->ops->now_ns(r->env);
	return r->turn_ns;
}

uint64_t reactor_turn_ns(const struct reactor *r)
{
	return r->turn_ns;
}

bool reactor_is_current(const struct reactor *r)
{
	return r->is_current;
}

void reactor_expect(struct reactor *r, uint64_t within_ns)
{
	r->awake_ns = max_t(uint64_t, r->awake_ns, r->turn_ns + within_ns);
}

uint32_t *reactor_waited_reads(struct reactor *r)
{
	return &r->nr_waited_reads;
}

uint32_t *reactor_unwaited_reads(struct reactor *r)
{
	return &r->nr_unwaited_reads;
}

void reactor_io(struct reactor *r, struct io_req *io)
{
	r->has_io = true;
	r->env->ops->io_submit(r->env, io);
}

int reactor_io_memory(struct reactor *r, void *base, uint64_t bytes)
{
	return r->env->ops->io_memory ? r->env->ops->io_memory(r->env, base, bytes) : -ENOSYS;
}

void reactor_io_memory_gone(struct reactor *r, void *base)
{
	if (r->env->ops->io_memory_gone)
		r->env->ops->io_memory_gone(r->env, base);
}

static void reactor_least_sleep(struct reactor *r)
{
	struct poller *p;

	r->max_sleep_ns = UINT64_MAX;
	list_for_each_entry(p, &r->pollers, node)
		r->max_sleep_ns = min_t(uint64_t, r->max_sleep_ns, p->max_sleep_ns);
}

void reactor_poller_add(struct reactor *r, struct poller *p)
{
	must(p->poll);
	list_add_tail(&r->pollers, &p->node);
	reactor_least_sleep(r);
	if (r->is_armed && p->arm)
		p->arm(p);
	r->is_poked = true;
}

void reactor_poller_del(struct reactor *r, struct poller *p)
{
	must(!list_is_empty(&r->pollers));
	if (r->cursor == &p->node)
		r->cursor = p->node.next;
	list_del(&p->node);
	reactor_least_sleep(r);
	if (r->is_armed && p->disarm)
		p->disarm(p);
}

void reactor_poller_sleep(struct reactor *r, struct poller *p, uint64_t max_sleep_ns)
{
	p->max_sleep_ns = max_sleep_ns;
	reactor_least_sleep(r);
	r->is_poked = true;
}

void reactor_send(struct reactor *from, struct reactor *to, struct mbox_msg *m)
{
	struct reactor_outbox *out = &from->out[to->id];

	m->next = NULL;
	if (from->out_dirty & 1ull << to->id) {
		must(out->to == to);
		out->last->next = m;
	} else {
		out->to = to;
		out->first = m;
		from->out_dirty |= 1ull << to->id;
	}
	out->last = m;
}

uint64_t reactor_nr_flushes(const struct reactor *from)
{
	return from->nr_flushes;
}

static void reactor_flush(struct reactor *r)
{
	r->nr_flushes++;
	while (r->out_dirty) {
		struct reactor_outbox *out = &r->out[__builtin_ctzll(r->out_dirty)];

		r->out_dirty &= r->out_dirty - 1;
		mbox_push(&out->to->mbox, out->first, out->last);
		if (out->to != r)
			reactor_kick(out->to);
	}
}

static int reactor_turn_mails(struct reactor *r)
{
	struct mbox_msg *m;
	int nr = 0;

	while (nr < REACTOR_MAILS_MAX && (m = mbox_take(&r->mbox)) != NULL) {
		m->fn(m);
		nr++;
	}
	if (nr == 0)
		return 0;
	counter_add(&r->stats.mails, (unsigned)nr);
	if (nr == REACTOR_MAILS_MAX)
		counter_add(&r->stats.mbox_full, 1);
	return nr;
}

static int reactor_turn_pollers(struct reactor *r)
{
	struct list *node = r->pollers.next;
	int nr = 0;

	for (; node != &r->pollers; node = r->cursor) {
		struct poller *p = list_entry(node, struct poller, node);

		r->cursor = node->next;
		nr += p->poll(p) > 0;
	}
	r->cursor = NULL;
	return nr;
}

static int reactor_turn_timeouts(struct reactor *r)
{
	uint32_t turns = r->env->clock_turns ? r->env->clock_turns : 1;
	int nr;

	counter_add(&r->stats.turns, turns);
	r->clock_left = turns;
	nr = timeout_wheel_run(&r->wheel, reactor_now_ns(r), REACTOR_TIMEOUTS_MAX);
	if (nr == REACTOR_TIMEOUTS_MAX)
		reactor_clock_stale(r);
	return nr;
}

void reactor_io_push(struct reactor *r)
{
	if (!r->has_io)
		return;
	r->has_io = false;
	if (r->env->ops->io_push)
		r->env->ops->io_push(r->env);
}

int reactor_step(struct reactor *r)
{
	int nr;

	must(!r->is_current);
	r->is_current = true;
	nr = reactor_turn_mails(r);
	nr += r->env->ops->io_reap(r->env, REACTOR_IOS_MAX);
	/* Answers, and what a device is asked for, don't wait for what the pollers do. */
	if (r->out_dirty)
		reactor_flush(r);
	reactor_io_push(r);
	nr += reactor_turn_pollers(r);
	reactor_io_push(r);
	if (--r->clock_left == 0)
		nr += reactor_turn_timeouts(r);
	if (r->out_dirty)
		reactor_flush(r);
	r->is_current = false;
	return nr;
}

void reactor_kick(struct reactor *r)
{
	/* One of many senders takes the flag and pays for the system call. */
	if (atomic_load(&r->sleeping) && atomic_exchange(&r->sleeping, 0)) {
		PEAL_PROBE(reactor_kick, r->id);
		r->env->ops->wake(r->env);
	}
}

static void reactor_arm(struct reactor *r)
{
	struct poller *p;

	r->is_armed = true;
	r->is_poked = false;
	atomic_store(&r->sleeping, 1);
	list_for_each_entry(p, &r->pollers, node) {
		if (p->arm)
			p->arm(p);
	}
}

static void reactor_disarm(struct reactor *r)
{
	struct poller *p;

	r->is_armed = false;
	atomic_store(&r->sleeping, 0);
	list_for_each_entry(p, &r->pollers, node) {
		if (p->disarm)
			p->disarm(p);
	}
}

/* The last look, after everybody who could leave something has been told that we sleep. */
static bool reactor_may_sleep(struct reactor *r)
{
	return !r->is_poked && r->max_sleep_ns > 0 && !r->mbox.local &&
	       !atomic_load(&r->mbox.head) && !atomic_load(&r->stop);
}

void reactor_sleep(struct reactor *r)
{
	uint64_t until_ns;

	if (r->max_sleep_ns == 0)
		return;
	reactor_arm(r);
	if (reactor_step(r) > 0) {
		r->busy_ns = r->turn_ns;
	} else if (reactor_may_sleep(r)) {
		until_ns = reactor_now_ns(r);
		until_ns += min_t(uint64_t, r->max_sleep_ns, UINT64_MAX - until_ns);
		until_ns = min_t(uint64_t, until_ns, timeout_wheel_next_ns(&r->wheel));
		counter_add(&r->stats.sleeps, 1);
		PEAL_PROBE(reactor_sleep, r->id, until_ns);
		r->env->ops->wait(r->env, until_ns);
		PEAL_PROBE(reactor_awake, r->id);
		/* What the next turn begins counts its time from now on. */
		reactor_now_ns(r);
		reactor_clock_stale(r);
	}
	reactor_disarm(r);
}

void reactor_run(struct reactor *r)
{
	while (!atomic_load_explicit(&r->stop, memory_order_acquire)) {
		if (reactor_step(r) > 0)
			r->busy_ns = r->turn_ns;
		else if (r->turn_ns - r->busy_ns >= r->spin_ns && r->turn_ns >= r->awake_ns)
			reactor_sleep(r);
	}
}

void reactor_stop(struct reactor *r)
{
	atomic_store(&r->stop, 1);
	reactor_kick(r);
}

static void *reactor_main(void *arg)
{
	reactor_run(arg);
	return NULL;
}

int reactor_start(struct reactor *r, const char *name)
{
	int err;

	must(!r->has_thread);
	err = thread_start(&r->thread, name, r->cpu, reactor_main, r);
	if (err)
		return err;
	r->has_thread = true;
	return 0;
}

void reactor_join(struct reactor *r)
{
	must(r->has_thread);
	must(pthread_join(r->thread, NULL) == 0);
	r->has_thread = false;
}

static void reactor_round_back(struct mbox_msg *m)
{
	struct reactor_round *rd = container_of(m, struct reactor_hop, msg)->rd;

	must(rd->nr_left > 0);
	if (--rd->nr_left == 0)
		rd->done(rd);
}

static void reactor_round_visit(struct mbox_msg *m)
{
	struct reactor_hop *hop = container_of(m, struct reactor_hop, msg);
	struct reactor_round *rd = hop->rd;

	if (rd->fn)
		rd->fn(rd, hop->at);
	m->fn = reactor_round_back;
	reactor_send(hop->at, rd->home, m);
}

void reactor_round_start(struct reactor_round *rd, struct reactor *home, struct reactor *const *all,
			 unsigned nr)
{
	must(nr > 0 && nr <= REACTORS_MAX);
	rd->home = home;
	rd->nr_left = nr;
	for (unsigned i = 0; i < nr; i++) {
		rd->hop[i] = (struct reactor_hop){
			.msg.fn = reactor_round_visit,
			.rd = rd,
			.at = all[i],
		};
		reactor_send(home, all[i], &rd->hop[i].msg);
	}
}
