/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels: deadlines while the daemon is stopped, quarantine and its end, no late byte in the
 * caller's memory, many threads on one channel.
 */
#include "t_client.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

static int setup(void **state)
{
	return client_setup(state, NULL);
}

static int setup_two_queues(void **state)
{
	return client_setup(state, &(struct fake_opts){.nr_queues = 2});
}

static int setup_one_queue(void **state)
{
	return client_setup(state, &(struct fake_opts){.nr_queues = 1});
}

static void test_stopped(void **state)
{
	struct client *c = *state;
	struct peal_key k = peal_key_text("k");
	struct peal_call soon = {.timeout_ms = 5};
	uint8_t v[10000], got[10000];
	struct peal_stats st;

	client_fill(v, sizeof(v), 1);
	assert_int_equal(peal_put(c->p, &k, v, sizeof(v), NULL), 0);
	fake_pause(c->f, true);
	memset(got, 0xaa, sizeof(got));
	assert_int_equal(peal_get(c->p, &k, got, sizeof(got), &soon), -ETIMEDOUT);
	assert_non_null(strstr(peal_errmsg(), "'k'"));
	assert_int_equal(peal_put(c->p, &k, got, sizeof(got), &soon), -ETIMEDOUT);
	peal_stats(c->p, &st);
	assert_int_equal(st.timeouts, 2);
	assert_true(st.quarantined_bytes >= 2 * sizeof(v));

	/* It goes on: the late get must not reach our memory. The put was done, late, and put what
	 * we gave it then. */
	memset(got, 0xbb, sizeof(got));
	fake_pause(c->f, false);
	assert_int_equal(peal_exist(c->p, &k, NULL), 0);
	for (size_t i = 0; i < sizeof(got); i++)
		assert_int_equal(got[i], 0xbb);
	assert_int_equal(peal_get(c->p, &k, got, sizeof(got), NULL), sizeof(got));
	for (size_t i = 0; i < sizeof(got); i++)
		assert_int_equal(got[i], 0xaa);
	peal_stats(c->p, &st);
	assert_int_equal(st.quarantined_bytes, 0);
}

/*
 * Queues that are asked for while the daemon stops are made when it goes on, with nobody to use
 * them: their numbers aren't asked for again, and when none is left the connection is made anew.
 */
static void stop_at(struct client *c, uint8_t opc)
{
	struct peal_key k = peal_key_text("k");
	struct peal_call soon = {.timeout_ms = 50};

	fake_disconnect(c->f);
	while (peal_exist(c->p, &k, &soon) != -ENOENT)
		; /* it hasn't seen that yet */
	fake_disconnect(c->f);
	fake_pause_at(c->f, opc);
	while (peal_exist(c->p, &k, &soon) != -ETIMEDOUT)
		;
	fake_pause(c->f, false);
}

static void test_stopped_at(void **state)
{
	struct client *c = *state;
	struct peal_key k = peal_key_text("k");

	for (unsigned i = 0; i < 4; i++) {
		int err;

		stop_at(c, i % 2 ? 0x01 : 0x05);
		while ((err = peal_put(c->p, &k, "x", 1, NULL)) == -ENOTCONN)
			;
		assert_int_equal(err, 0);
		assert_int_equal(peal_del(c->p, &k, NULL), 0);
	}
}

/* Queues that there are go on, and nobody else's call is the worse for the one that was lost. */
static void test_lost_one(void **state)
{
	struct client *c = *state;
	struct peal_key k = peal_key_text("k");
	struct peal_queue *q;
	unsigned nr;

	assert_int_equal(peal_exist(c->p, &k, NULL), -ENOENT);
	nr = fake_nr_connects(c->f);
	fake_pause_at(c->f, 0x05);
	assert_int_equal(peal_queue_open(c->p, 8, &q), -ETIMEDOUT);
	fake_pause(c->f, false);
	assert_int_equal(peal_queue_open(c->p, 8, &q), -EAGAIN);
	assert_int_equal(peal_exist(c->p, &k, NULL), -ENOENT);
	assert_int_equal(fake_nr_connects(c->f), nr);
}

/* Every CID of the channel in quarantine: -EAGAIN, at once, and then all comes back. */
static void test_exhausted(void **state)
{
	struct client *c = *state;
	struct peal_key k = peal_key_text("k");
	struct peal_call soon = {.timeout_ms = 1}, later = {.timeout_ms = 3600 * 1000};
	int err = -ETIMEDOUT;
	unsigned n = 0;

	fake_pause(c->f, true);
	/* The first call also wants the queue made, which needs the daemon. */
	fake_pause(c->f, false);
	assert_int_equal(peal_del(c->p, &k, NULL), -ENOENT);
	fake_pause(c->f, true);
	while (err == -ETIMEDOUT && n++ < 1000)
		err = peal_del(c->p, &k, n > 64 ? &later : &soon);
	assert_int_equal(err, -EAGAIN);
	assert_int_equal(n, 65);
	fake_pause(c->f, false);
	while ((err = peal_put(c->p, &k, "x", 1, NULL)) == -EAGAIN)
		; /* it hasn't answered the first yet */
	assert_int_equal(err, 0);
	assert_int_equal(peal_del(c->p, &k, NULL), 0);
}

struct worker {
	struct client *c;
	unsigned id;
	pthread_t thread;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	uint8_t v[5000], got[5000];

	unit_thread_begin();
	for (unsigned i = 0; i < 200; i++) {
		uint32_t id[2] = {w->id, i % 7};
		struct peal_key k = peal_key_bytes(id, sizeof(id));
		size_t bytes = 1 + (i * 977 + w->id) % sizeof(v);

		client_fill(v, bytes, w->id * 1000 + i);
		assert_int_equal(peal_put(w->c->p, &k, v, bytes, NULL), 0);
		assert_int_equal(peal_get(w->c->p, &k, got, sizeof(got), NULL), bytes);
		assert_memory_equal(got, v, bytes);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct worker w[8];

	for (unsigned i = 0; i < 8; i++) {
		w[i].c = *state;
		w[i].id = i;
		assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
	}
	for (unsigned i = 0; i < 8; i++)
		pthread_join(w[i].thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_stopped, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_stopped_at, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_stopped_at, setup_one_queue, client_teardown),
		cmocka_unit_test_setup_teardown(test_lost_one, setup_two_queues, client_teardown),
		cmocka_unit_test_setup_teardown(test_exhausted, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_threads, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_threads, setup_two_queues, client_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
