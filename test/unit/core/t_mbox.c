/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mbox.c: order per sender, chains, a message that is posted again from inside its own fn, and many
 * threads posting to one reactor that sleeps whenever it can. The threads end when every message
 * has run: one that is lost makes the test hang.
 */
#include "unit.h"

#include <string.h>

#include "base/container.h"
#include "core/env_sim.h"
#include "core/reactor.h"
#include "core/thread.h"

static void t_order(void **state)
{
	struct mbox_msg m[6] = {0};
	struct mbox mb;

	mbox_init(&mb);
	assert_null(mbox_take(&mb));
	for (int i = 1; i < 3; i++)
		m[i].next = &m[i + 1];
	assert_true(mbox_push(&mb, &m[0], &m[0]));
	assert_false(mbox_push(&mb, &m[1], &m[3]));
	assert_ptr_equal(mbox_take(&mb), &m[0]);
	/* What comes now is behind what was taken. */
	assert_true(mbox_push(&mb, &m[4], &m[4]));
	for (int i = 1; i < 5; i++)
		assert_ptr_equal(mbox_take(&mb), &m[i]);
	assert_null(mbox_take(&mb));
}

struct again {
	struct mbox_msg msg;
	struct reactor *r;
	int nr_left;
};

static void again_fn(struct mbox_msg *m)
{
	struct again *a = container_of(m, struct again, msg);

	if (--a->nr_left > 0)
		mbox_post(a->r, m);
}

static void t_again(void **state)
{
	struct reactor_opts o = {.nr_peers = 1, .cpu = -1};
	struct again a = {.msg.fn = again_fn, .nr_left = 200};

	o.env = env_sim_create(&(struct env_sim_opts){.seed = 1});
	a.r = reactor_create(&o);
	mbox_post(a.r, &a.msg);
	/* The budget holds for it, too. */
	assert_int_equal(reactor_step(a.r), 64);
	while (reactor_step(a.r) > 0)
		;
	assert_int_equal(a.nr_left, 0);
	reactor_destroy(a.r);
}

#define NR_SENDERS 4
#define NR_EACH 5000

struct letter {
	struct mbox_msg msg;
	unsigned from, no;
};

static struct {
	struct reactor *r;
	struct letter letters[NR_SENDERS][NR_EACH];
	unsigned nr_seen[NR_SENDERS];
	unsigned nr_all;
} post;

static void letter_fn(struct mbox_msg *m)
{
	struct letter *l = container_of(m, struct letter, msg);

	assert_int_equal(l->no, post.nr_seen[l->from]++);
	if (++post.nr_all == NR_SENDERS * NR_EACH)
		reactor_stop(post.r);
}

static void *sender(void *arg)
{
	struct letter *letters = arg;

	for (unsigned i = 0; i < NR_EACH; i++)
		mbox_post(post.r, &letters[i].msg);
	return NULL;
}

static void t_senders(void **state)
{
	struct reactor_opts o = {.nr_peers = 1, .cpu = -1};
	pthread_t threads[NR_SENDERS];

	if (env_linux_create(8, &o.env)) {
		print_message("no io_uring here\n");
		skip();
	}
	post.r = reactor_create(&o);
	for (unsigned s = 0; s < NR_SENDERS; s++) {
		for (unsigned i = 0; i < NR_EACH; i++)
			post.letters[s][i] = (struct letter){{.fn = letter_fn}, s, i};
		assert_int_equal(thread_start(&threads[s], "sender", -1, sender, post.letters[s]),
				 0);
	}
	reactor_run(post.r);
	for (unsigned s = 0; s < NR_SENDERS; s++) {
		pthread_join(threads[s], NULL);
		assert_int_equal(post.nr_seen[s], NR_EACH);
	}
	reactor_destroy(post.r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_order),
		cmocka_unit_test(t_again),
		cmocka_unit_test(t_senders),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
