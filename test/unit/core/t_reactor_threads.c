/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several reactors on their own threads, each asleep whenever it has nothing to do, so that every
 * message is a chance to lose a wake-up: messages that run round them, foreign threads that post, a
 * peer that rings a doorbell page with a `sleeping` word, rounds, timeouts. Whatever is lost makes
 * the test hang; nothing depends on how long anything takes.
 */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/container.h"
#include "base/must.h"
#include "core/reactor.h"
#include "core/thread.h"

#define NR_REACTORS 3
#define NR_TOKENS 5
#define NR_HOPS 1500
#define NR_ROUNDS 200
#define NR_RINGS 1500
#define NR_TICKS 5

static struct reactor *all[NR_REACTORS];
static _Atomic unsigned nr_left; /* parts of the test that are not over */

static struct mbox_msg last_msg; /* to all[1], when all parts are over */

static void part_over(void)
{
	if (atomic_fetch_sub(&nr_left, 1) == 1)
		mbox_post(all[1], &last_msg);
}

struct token {
	struct mbox_msg msg;
	unsigned at, nr_left, step;
};

static void token_fn(struct mbox_msg *m)
{
	struct token *t = container_of(m, struct token, msg);
	struct reactor *here = all[t->at];

	must(reactor_is_current(here));
	if (--t->nr_left == 0) {
		part_over();
		return;
	}
	t->at = (t->at + t->step) % NR_REACTORS;
	/* Both doors in turn. */
	if (t->nr_left % 2)
		reactor_send(here, all[t->at], m);
	else
		mbox_post(all[t->at], m);
}

struct rounds {
	struct reactor_round rd;
	struct mbox_msg msg;
	_Atomic unsigned nr_visits;
	unsigned nr_done;
};

static void rounds_visit(struct reactor_round *rd, struct reactor *r)
{
	must(reactor_is_current(r));
	atomic_fetch_add(&container_of(rd, struct rounds, rd)->nr_visits, 1);
}

static void rounds_done(struct reactor_round *rd)
{
	struct rounds *rs = container_of(rd, struct rounds, rd);

	must(reactor_is_current(all[0]));
	must(atomic_load(&rs->nr_visits) == ++rs->nr_done * NR_REACTORS);
	if (rs->nr_done == NR_ROUNDS)
		part_over();
	else
		reactor_round_start(rd, all[0], all, NR_REACTORS);
}

static void rounds_fn(struct mbox_msg *m)
{
	reactor_round_start(&container_of(m, struct rounds, msg)->rd, all[0], all, NR_REACTORS);
}

/*
 * A doorbell page as transports have it: the peer stores the bell, fences, and writes the eventfd
 * when it sees `sleeping`; the reactor's poller sets that in arm(). The peer waits for its answer.
 */
struct page {
	struct poller p;
	struct io_req io, cancel;
	unsigned nr_ends; /* of the two, at the end */
	int fd;
	_Atomic uint32_t bell, answer, sleeping;
};

static int page_poll(struct poller *p)
{
	struct page *pg = container_of(p, struct page, p);
	uint32_t bell = atomic_load(&pg->bell);

	if (bell == atomic_load_explicit(&pg->answer, memory_order_relaxed))
		return 0;
	atomic_store(&pg->answer, bell);
	return 1;
}

static void page_arm(struct poller *p)
{
	atomic_store(&container_of(p, struct page, p)->sleeping, 1);
}

static void page_disarm(struct poller *p)
{
	atomic_store(&container_of(p, struct page, p)->sleeping, 0);
}

static struct page page;

static void page_io_over(void)
{
	if (++page.nr_ends < 2)
		return;
	for (unsigned i = 0; i < NR_REACTORS; i++)
		reactor_stop(all[i]);
}

static void page_kicked(struct io_req *io, int res)
{
	uint64_t v;

	if (res == -ECANCELED) {
		page_io_over();
		return;
	}
	must(read(page.fd, &v, sizeof(v)) == sizeof(v));
	reactor_io(all[1], io);
}

static void page_cancelled(struct io_req *io, int res)
{
	/* The poll has just ended by itself, and is under way again: once more. */
	if (res != 0)
		reactor_io(all[1], io);
	else
		page_io_over();
}

static void page_stop(struct mbox_msg *m)
{
	page.cancel = (struct io_req){
		.op = IO_CANCEL,
		.target = &page.io,
		.end = page_cancelled,
	};
	reactor_poller_del(all[1], &page.p);
	reactor_io(all[1], &page.cancel);
}

static void *ringer(void *arg)
{
	struct page *pg = arg;
	uint64_t one = 1;

	for (uint32_t i = 1; i <= NR_RINGS; i++) {
		atomic_store(&pg->bell, i);
		if (atomic_load(&pg->sleeping))
			must(write(pg->fd, &one, sizeof(one)) == sizeof(one));
		while (atomic_load(&pg->answer) != i)
			sched_yield();
	}
	part_over();
	return NULL;
}

struct ticker {
	struct timeout t;
	unsigned nr_left;
};

static void tick_fn(struct timeout *t)
{
	struct ticker *tk = container_of(t, struct ticker, t);

	if (--tk->nr_left == 0)
		part_over();
	else
		timeout_set(all[2], t, reactor_now_ns(all[2]) + 2000000);
}

static struct reactor *make(unsigned id)
{
	struct reactor_opts o = {.id = id, .nr_peers = NR_REACTORS, .cpu = -1};
	struct reactor *r;

	if (env_linux_create(8, &o.env))
		return NULL;
	r = reactor_create(&o);
	assert_non_null(r);
	return r;
}

static void page_start(struct page *pg)
{
	pg->p = (struct poller){
		.poll = page_poll,
		.arm = page_arm,
		.disarm = page_disarm,
		.max_sleep_ns = UINT64_MAX,
	};
	pg->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pg->io = (struct io_req){
		.op = IO_POLL,
		.fd = pg->fd,
		.poll_mask = POLLIN,
		.end = page_kicked,
	};
	reactor_poller_add(all[1], &pg->p);
	reactor_io(all[1], &pg->io);
}

static void t_all(void **state)
{
	static struct token tokens[NR_TOKENS];
	static struct rounds rs = {
		.rd = {.fn = rounds_visit, .done = rounds_done},
		.msg.fn = rounds_fn,
	};
	static struct ticker tk = {.nr_left = NR_TICKS};
	pthread_t thread;

	for (unsigned i = 0; i < NR_REACTORS; i++) {
		all[i] = make(i);
		if (!all[i]) {
			print_message("no io_uring here\n");
			skip();
		}
	}
	atomic_store(&nr_left, NR_TOKENS + 3);
	last_msg.fn = page_stop;
	page_start(&page);
	timeout_init(&tk.t, tick_fn);
	timeout_set(all[2], &tk.t, reactor_now_ns(all[2]) + 1000000);
	for (unsigned i = 0; i < NR_REACTORS; i++)
		assert_int_equal(reactor_start(all[i], "t_reactor"), 0);
	for (unsigned i = 0; i < NR_TOKENS; i++) {
		tokens[i] = (struct token){{.fn = token_fn}, i % 3, NR_HOPS, 1 + i % 2};
		mbox_post(all[i % 3], &tokens[i].msg);
	}
	mbox_post(all[0], &rs.msg);
	assert_int_equal(thread_start(&thread, "ringer", -1, ringer, &page), 0);
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < NR_REACTORS; i++)
		reactor_join(all[i]);
	assert_int_equal(rs.nr_done, NR_ROUNDS);
	assert_int_equal(atomic_load(&page.answer), NR_RINGS);
	for (unsigned i = 0; i < NR_REACTORS; i++) {
		print_message("reactor %u slept %llu times\n", i,
			      (unsigned long long)counter_get(&reactor_stats(all[i])->sleeps));
		reactor_destroy(all[i]);
	}
	close(page.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
