/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reactor.c stepped by hand under a virtual clock: the parts of a turn and their budgets, pollers
 * that come and go inside poll(), messages and rounds among several reactors, timeouts, and the
 * idle protocol in every interleaving of one sender with the reactor's way to sleep. One thread.
 */
#include "unit.h"

#include "base/container.h"
#include "base/rng.h"
#include "core/env_sim.h"
#include "core/reactor_int.h"

#define NR_REACTORS 4

static uint64_t clock_ns;

static struct reactor *make(unsigned id, const struct env_sim_opts *o)
{
	struct env_sim_opts dflt = {.seed = id, .clock_ns = &clock_ns};
	struct reactor_opts ro = {.id = id, .nr_peers = NR_REACTORS, .cpu = -1};
	struct reactor *r;

	ro.env = env_sim_create(o ? o : &dflt);
	assert_non_null(ro.env);
	r = reactor_create(&ro);
	assert_non_null(r);
	assert_int_equal(reactor_id(r), id);
	assert_ptr_equal(reactor_env(r), ro.env);
	return r;
}

struct mail {
	struct mbox_msg msg;
	struct reactor *at;
	unsigned *nr;
	unsigned no;
};

static void mail_fn(struct mbox_msg *m)
{
	struct mail *ml = container_of(m, struct mail, msg);

	assert_true(reactor_is_current(ml->at));
	assert_int_equal((*ml->nr)++, ml->no);
}

static void t_mail_budget(void **state)
{
	struct reactor *r = make(0, NULL);
	struct mail mails[150];
	unsigned nr = 0;

	for (unsigned i = 0; i < 150; i++) {
		mails[i] = (struct mail){.msg.fn = mail_fn, .at = r, .nr = &nr, .no = i};
		mbox_post(r, &mails[i].msg);
	}
	assert_false(reactor_is_current(r));
	assert_int_equal(reactor_step(r), 64);
	assert_int_equal(reactor_step(r), 64);
	assert_int_equal(reactor_step(r), 22);
	assert_int_equal(reactor_step(r), 0);
	assert_int_equal(nr, 150);
	assert_int_equal(counter_get(&reactor_stats(r)->mails), 150);
	assert_false(reactor_is_current(r));
	reactor_destroy(r);
}

struct churn {
	struct poller p;
	struct reactor *r;
	struct churn *victim, *add;
	unsigned nr_polls;
};

static int churn_poll(struct poller *p)
{
	struct churn *c = container_of(p, struct churn, p);

	c->nr_polls++;
	if (c->victim)
		reactor_poller_del(c->r, &c->victim->p);
	if (c->add)
		reactor_poller_add(c->r, &c->add->p);
	c->victim = NULL;
	c->add = NULL;
	return 0;
}

static void t_pollers(void **state)
{
	struct reactor *r = make(0, NULL);
	struct churn c[4];

	for (int i = 0; i < 4; i++)
		c[i] = (struct churn){.p.poll = churn_poll, .r = r};
	for (int i = 0; i < 3; i++)
		reactor_poller_add(r, &c[i].p);
	c[0].victim = &c[1]; /* the next one */
	c[2].victim = &c[2]; /* itself */
	c[2].add = &c[3];
	assert_int_equal(reactor_step(r), 0);
	assert_int_equal(c[0].nr_polls, 1);
	assert_int_equal(c[1].nr_polls, 0);
	assert_int_equal(c[2].nr_polls, 1);
	c[3].victim = &c[0]; /* the one before */
	assert_int_equal(reactor_step(r), 0);
	assert_int_equal(c[0].nr_polls, 2);
	assert_int_equal(c[2].nr_polls, 1);
	assert_true(c[3].nr_polls >= 1);
	reactor_poller_del(r, &c[3].p);
	reactor_destroy(r);
}

static void fire_fn(struct timeout *t)
{
	t->at_ns = 0;
}

static void t_timeouts(void **state)
{
	struct reactor *r = make(0, NULL);
	struct timeout t;

	timeout_init(&t, fire_fn);
	timeout_set(r, &t, reactor_now_ns(r) + 3000000);
	assert_int_equal(reactor_step(r), 0);
	clock_ns += 2999999;
	assert_int_equal(reactor_step(r), 0);
	clock_ns += (1u << 20) + 1;
	assert_int_equal(reactor_step(r), 1);
	assert_false(timeout_is_set(&t));
	timeout_set(r, &t, 1); /* the past: in the next turn */
	assert_true(timeout_is_set(&t));
	assert_int_equal(reactor_step(r), 1);
	assert_int_equal(reactor_turn_ns(r), clock_ns);
	reactor_destroy(r);
}

struct hop {
	struct mbox_msg msg;
	struct reactor **all;
	unsigned at, nr_left;
};

static void hop_fn(struct mbox_msg *m)
{
	struct hop *h = container_of(m, struct hop, msg);
	struct reactor *from = h->all[h->at];

	assert_true(reactor_is_current(from));
	if (h->nr_left == 0)
		return;
	h->nr_left--;
	h->at = (h->at * 7 + h->nr_left) % NR_REACTORS; /* itself included */
	reactor_send(from, h->all[h->at], &h->msg);
}

static void make_all(struct reactor **all)
{
	for (unsigned i = 0; i < NR_REACTORS; i++)
		all[i] = make(i, NULL);
}

static void destroy_all(struct reactor **all)
{
	for (unsigned i = 0; i < NR_REACTORS; i++) {
		while (reactor_step(all[i]) > 0)
			;
		reactor_destroy(all[i]);
	}
}

static void t_send(void **state)
{
	struct reactor *all[NR_REACTORS];
	struct hop hops[50];
	unsigned nr_left = 1;
	struct rng rng;

	rng_init(&rng, unit_seed(2));
	make_all(all);
	for (unsigned i = 0; i < 50; i++) {
		hops[i] = (struct hop){.msg.fn = hop_fn, .all = all, .at = i % 4, .nr_left = i};
		reactor_send(all[0], all[i % 4], &hops[i].msg);
	}
	for (int turn = 0; turn < 100000 && nr_left > 0; turn++) {
		reactor_step(all[rng_below(&rng, NR_REACTORS)]);
		nr_left = 0;
		for (unsigned i = 0; i < 50; i++)
			nr_left += hops[i].nr_left;
	}
	assert_int_equal(nr_left, 0);
	destroy_all(all);
}

struct trip {
	struct reactor_round rd;
	unsigned nr_visits[NR_REACTORS];
	unsigned nr_done;
	bool again;
	struct reactor **all;
};

static void trip_fn(struct reactor_round *rd, struct reactor *r)
{
	struct trip *t = container_of(rd, struct trip, rd);

	assert_true(reactor_is_current(r));
	assert_int_equal(t->nr_done, 0);
	t->nr_visits[reactor_id(r)]++;
}

static void trip_done(struct reactor_round *rd)
{
	struct trip *t = container_of(rd, struct trip, rd);

	assert_true(reactor_is_current(rd->home));
	for (unsigned i = 0; i < NR_REACTORS; i++)
		assert_int_equal(t->nr_visits[i], t->again ? 1 : 2);
	t->nr_done++;
	if (!t->again)
		return;
	/* The struct is ours again. */
	t->again = false;
	t->nr_done = 0;
	reactor_round_start(&t->rd, rd->home, t->all, NR_REACTORS);
}

static void t_round(void **state)
{
	struct reactor *all[NR_REACTORS];
	struct trip t = {.rd = {.fn = trip_fn, .done = trip_done}, .again = true, .all = all};
	struct rng rng;

	rng_init(&rng, unit_seed(3));
	make_all(all);
	reactor_round_start(&t.rd, all[2], all, NR_REACTORS);
	for (int i = 0; i < 1000; i++)
		reactor_step(all[rng_below(&rng, NR_REACTORS)]);
	assert_int_equal(t.nr_done, 1);
	destroy_all(all);
}

/*
 * The idle protocol, exhaustively: the sender's two steps (push; look at `sleeping` and kick) are
 * put at every pair of places on the reactor's way to sleep and behind it. Whatever the pair, the
 * message runs and nobody is left asleep.
 */
enum place { AT_ARM, AT_POLL, AT_CLOCK, AT_REAP, AT_WAIT, NR_PLACES };

static struct {
	struct reactor *r;
	struct mail mail;
	unsigned nr_run;
	int push_at, kick_at; /* before the n-th event of the run */
	int nr_events;
	bool is_reached[NR_PLACES]; /* a step of the sender fell here, in some run */
	bool is_slept;
	const struct env_ops *ops;
} idle;

static void idle_event(enum place at)
{
	int no = idle.nr_events++;

	if (no == idle.push_at)
		mbox_push(&idle.r->mbox, &idle.mail.msg, &idle.mail.msg);
	if (no == idle.kick_at)
		reactor_kick(idle.r);
	if (no == idle.push_at || no == idle.kick_at)
		idle.is_reached[at] = true;
}

static void idle_arm(struct poller *p)
{
	idle_event(AT_ARM);
}

static int idle_poll(struct poller *p)
{
	idle_event(AT_POLL);
	return 0;
}

static uint64_t idle_now_ns(struct env *env)
{
	idle_event(AT_CLOCK);
	return idle.ops->now_ns(env);
}

static int idle_reap(struct env *env, int max)
{
	idle_event(AT_REAP);
	return idle.ops->io_reap(env, max);
}

/* The sender goes on until it is through; if nobody has woken us by then, nobody ever will. */
static void idle_wait(void *arg, struct env *env, uint64_t until_ns)
{
	while (idle.nr_events <= idle.kick_at)
		idle_event(AT_WAIT);
	assert_true(env_sim_is_woken(env) || idle.nr_run > 0);
	idle.is_slept = true;
}

static void idle_run(int push_at, int kick_at)
{
	struct env_sim_opts o = {.seed = 1, .clock_ns = &clock_ns, .wait = idle_wait};
	struct poller p = {.poll = idle_poll, .arm = idle_arm, .max_sleep_ns = UINT64_MAX};
	struct env_ops spied;

	idle.r = make(0, &o);
	idle.ops = reactor_env(idle.r)->ops;
	spied = *idle.ops;
	spied.now_ns = idle_now_ns;
	spied.io_reap = idle_reap;
	reactor_env(idle.r)->ops = &spied;
	idle.nr_events = 0;
	idle.nr_run = 0;
	idle.push_at = push_at;
	idle.kick_at = kick_at;
	idle.mail = (struct mail){.msg.fn = mail_fn, .at = idle.r, .nr = &idle.nr_run};
	reactor_poller_add(idle.r, &p);
	/* reactor_run() with spin_ns 0. */
	while (idle.nr_run == 0 || idle.nr_events <= kick_at) {
		assert_true(idle.nr_events < 100);
		if (reactor_step(idle.r) == 0)
			reactor_sleep(idle.r);
	}
	assert_int_equal(idle.nr_run, 1);
	reactor_poller_del(idle.r, &p);
	reactor_destroy(idle.r);
}

static void t_idle(void **state)
{
	for (int push_at = 0; push_at < 20; push_at++) {
		for (int kick_at = push_at; kick_at < 24; kick_at++)
			idle_run(push_at, kick_at);
	}
	for (int at = 0; at < NR_PLACES; at++)
		assert_true(idle.is_reached[at]);
	assert_true(idle.is_slept);
}

/* How long it sleeps: to the next timeout, or the most that its pollers bear. */
static uint64_t slept_until_ns;

static void until_wait(void *arg, struct env *env, uint64_t until_ns)
{
	slept_until_ns = until_ns;
}

static void t_sleep_until(void **state)
{
	struct env_sim_opts o = {.seed = 1, .clock_ns = &clock_ns, .wait = until_wait};
	struct reactor *r = make(0, &o);
	struct churn c = {.p = {.poll = churn_poll, .max_sleep_ns = UINT64_MAX}, .r = r};
	struct timeout t;

	reactor_poller_add(r, &c.p);
	reactor_sleep(r);
	assert_int_equal(slept_until_ns, UINT64_MAX);
	reactor_poller_sleep(r, &c.p, 5000000);
	reactor_sleep(r);
	assert_int_equal(slept_until_ns, clock_ns + 5000000);
	timeout_init(&t, fire_fn);
	timeout_set(r, &t, clock_ns + 2000000);
	reactor_sleep(r);
	assert_in_range(slept_until_ns, clock_ns + 1, clock_ns + 2000000 + (1u << 20));
	slept_until_ns = 0;
	reactor_poller_sleep(r, &c.p, 0);
	reactor_sleep(r);
	assert_int_equal(slept_until_ns, 0);
	reactor_poller_del(r, &c.p);
	reactor_stop(r);
	reactor_sleep(r);
	assert_int_equal(slept_until_ns, 0);
	reactor_destroy(r);
	assert_false(timeout_is_set(&t));
}

/* Who expects work doesn't sleep for it, and sleeps when it hasn't come. */
struct expect {
	struct poller p;
	struct reactor *r;
	uint64_t until_ns;
	bool has_slept;
};

static int expect_poll(struct poller *p)
{
	clock_ns += 100;
	return 0;
}

static void expect_wait(void *arg, struct env *env, uint64_t until_ns)
{
	struct expect *x = arg;

	assert_in_range(clock_ns, x->until_ns, x->until_ns + 100000);
	x->has_slept = true;
	reactor_stop(x->r);
}

static void t_expect(void **state)
{
	struct expect x = {.p = {.poll = expect_poll, .max_sleep_ns = UINT64_MAX}};
	struct env_sim_opts o = {.seed = 1, .clock_ns = &clock_ns, .wait = expect_wait, .arg = &x};

	x.r = make(0, &o);
	reactor_poller_add(x.r, &x.p);
	x.until_ns = reactor_now_ns(x.r) + 1000000;
	reactor_expect(x.r, 1000000);
	reactor_expect(x.r, 10); /* what was expected before still is */
	reactor_run(x.r);
	assert_true(x.has_slept);
	reactor_poller_del(x.r, &x.p);
	reactor_destroy(x.r);
}

/* What a message's function sends is on its way before the pollers run, the rest when they have. */
struct answer {
	struct poller p;
	struct mbox_msg ask, answer, late;
	struct reactor *from, *to;
	unsigned nr;
};

static void answer_ran(struct mbox_msg *m)
{
}

static void answer_ask(struct mbox_msg *m)
{
	struct answer *a = container_of(m, struct answer, ask);

	reactor_send(a->from, a->to, &a->answer);
}

static int answer_poll(struct poller *p)
{
	struct answer *a = container_of(p, struct answer, p);

	assert_ptr_equal(atomic_load(&a->to->mbox.head), &a->answer);
	assert_int_equal(reactor_nr_flushes(a->from), 1);
	reactor_send(a->from, a->to, &a->late);
	assert_ptr_equal(atomic_load(&a->to->mbox.head), &a->answer);
	a->nr++;
	return 1;
}

static void t_answers_first(void **state)
{
	struct answer a = {.p.poll = answer_poll,
			   .ask.fn = answer_ask,
			   .answer.fn = answer_ran,
			   .late.fn = answer_ran,
			   .from = make(0, NULL),
			   .to = make(1, NULL)};

	reactor_poller_add(a.from, &a.p);
	mbox_post(a.from, &a.ask);
	assert_int_equal(reactor_nr_flushes(a.from), 0);
	reactor_step(a.from);
	assert_int_equal(a.nr, 1);
	assert_int_equal(reactor_nr_flushes(a.from), 2);
	assert_ptr_equal(atomic_load(&a.to->mbox.head), &a.late);
	assert_int_equal(reactor_step(a.to), 2);
	reactor_poller_del(a.from, &a.p);
	reactor_destroy(a.from);
	reactor_destroy(a.to);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_mail_budget),   cmocka_unit_test(t_pollers),
		cmocka_unit_test(t_timeouts),	   cmocka_unit_test(t_send),
		cmocka_unit_test(t_round),	   cmocka_unit_test(t_idle),
		cmocka_unit_test(t_sleep_until),   cmocka_unit_test(t_expect),
		cmocka_unit_test(t_answers_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
