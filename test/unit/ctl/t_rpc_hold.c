/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quiesce while commands are under way: it waits, and whoever has the last word is obeyed - resume,
 * another quiesce, or the end of its seconds.
 */
#include "ctl_world.h"

#include "base/mono.h"

static const struct kv_host_opts two = {.stack = "mem", .nr_workers = 2};

static void hold_ask(struct ctl_world *w, int fd, const char *params)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"quiesce\",\"params\":%s}", params);
	ctl_world_send(w, fd, text, strlen(text));
}

static bool hold_is(const struct ctl_world *w)
{
	bool is_held = w->h.node.workers[0]->is_held;

	assert_int_equal(w->h.node.workers[1]->is_held, is_held);
	return is_held;
}

/* The first round has reached everybody. */
static void hold_wait(struct ctl_world *w)
{
	while (!w->h.node.workers[0]->is_held || !w->h.node.workers[1]->is_held)
		ctl_world_turn(w);
}

static void hold_turns(struct ctl_world *w, uint64_t ns)
{
	for (uint64_t end = w->h.clock_ns + ns; w->h.clock_ns < end;)
		ctl_world_turn(w);
}

static void test_drained(void **state)
{
	struct ctl_world *w = ctl_world_create(&two);
	json_t *r;

	w->h.node.workers[1]->nr_busy = 1;
	hold_ask(w, w->fd, "{\"seconds\":60,\"wait_ms\":50000}");
	hold_wait(w);
	hold_turns(w, 100 * MONO_NS_PER_MS);
	assert_int_equal(recv(w->fd, w->in, 1, 0), -1);
	w->h.node.workers[1]->nr_busy = 0;
	r = ctl_world_reply(w, w->fd);
	assert_true(json_is_true(json_object_get(json_object_get(r, "result"), "drained")));
	json_decref(r);
	assert_true(hold_is(w));
	json_decref(ctl_world_result(w, "resume", "{}"));
	assert_false(hold_is(w));
	ctl_world_destroy(w);
}

/* "After so long commands are taken again whatever happens." */
static void test_seconds(void **state)
{
	struct ctl_world *w = ctl_world_create(&two);

	w->h.node.workers[0]->nr_busy = 1;
	hold_ask(w, w->fd, "{\"seconds\":1,\"wait_ms\":60000}");
	hold_wait(w);
	assert_int_equal(ctl_world_code(ctl_world_reply(w, w->fd)), RPC_FAILED);
	assert_true(w->h.clock_ns < 3 * MONO_NS_PER_S);
	hold_turns(w, 10 * MONO_NS_PER_MS);
	assert_false(hold_is(w));
	hold_turns(w, 2 * MONO_NS_PER_S);
	assert_false(hold_is(w));
	w->h.node.workers[0]->nr_busy = 0;
	ctl_world_destroy(w);
}

static void test_resume(void **state)
{
	struct ctl_world *w = ctl_world_create(&two);
	int fd = ctl_world_connect(w);

	w->h.node.workers[0]->nr_busy = 1;
	hold_ask(w, fd, "{\"seconds\":60,\"wait_ms\":60000}");
	hold_wait(w);
	json_decref(ctl_world_result(w, "resume", "{}"));
	assert_false(hold_is(w));
	hold_turns(w, 100 * MONO_NS_PER_MS);
	assert_false(hold_is(w));
	assert_int_equal(ctl_world_code(ctl_world_reply(w, fd)), RPC_FAILED);
	w->h.node.workers[0]->nr_busy = 0;
	close(fd);
	ctl_world_destroy(w);
}

/* The second one's time counts, and the first one's wait is over. */
static void test_again(void **state)
{
	struct ctl_world *w = ctl_world_create(&two);
	int fd = ctl_world_connect(w);
	json_t *r;

	w->h.node.workers[0]->nr_busy = 1;
	hold_ask(w, fd, "{\"seconds\":1,\"wait_ms\":60000}");
	hold_wait(w);
	r = ctl_world_result(w, "quiesce", "{\"seconds\":600,\"wait_ms\":1}");
	assert_int_equal(ctl_world_int(r, "inflight"), 1);
	json_decref(r);
	assert_int_equal(ctl_world_code(ctl_world_reply(w, fd)), RPC_FAILED);
	hold_turns(w, 2 * MONO_NS_PER_S);
	assert_true(hold_is(w));
	json_decref(ctl_world_result(w, "resume", "{}"));
	assert_false(hold_is(w));
	w->h.node.workers[0]->nr_busy = 0;
	close(fd);
	ctl_world_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_drained),
		cmocka_unit_test(test_seconds),
		cmocka_unit_test(test_resume),
		cmocka_unit_test(test_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
