/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of the RPC socket: pieces, several messages at once, half a close, too much, too
 * many, and peers that take too long or leave.
 */
#include "ctl_world.h"

#include <poll.h>
#include <sys/resource.h>

#include "base/mono.h"

#define PING "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"daemon.info\"}"

static const struct kv_host_opts mem = {.stack = "mem"};

static void good(json_t *reply)
{
	assert_int_equal(ctl_world_int(reply, "id"), 7);
	assert_non_null(json_object_get(reply, "result"));
	json_decref(reply);
}

static void test_pieces(void **state)
{
	struct ctl_world *w = ctl_world_create(&mem);

	for (size_t i = 0; i < sizeof(PING) - 1; i++)
		ctl_world_send(w, w->fd, &PING[i], 1);
	good(ctl_world_reply(w, w->fd));
	for (unsigned nr = 1; nr < 200; nr *= 7) {
		for (unsigned i = 0; i < nr; i++)
			ctl_world_send(w, w->fd, PING " \n", sizeof(PING) + 1);
		for (unsigned i = 0; i < nr; i++)
			good(ctl_world_reply(w, w->fd));
	}
	/* No more will come, but what came is answered. */
	ctl_world_send(w, w->fd, PING PING, 2 * (sizeof(PING) - 1));
	shutdown(w->fd, SHUT_WR);
	good(ctl_world_reply(w, w->fd));
	good(ctl_world_reply(w, w->fd));
	assert_null(ctl_world_reply(w, w->fd));
	ctl_world_destroy(w);
}

static void test_wrong(void **state)
{
	struct ctl_world *w = ctl_world_create(&mem);
	char *huge = malloc(RPC_MESSAGE_BYTES + 1);

	assert_int_equal(ctl_world_code(ctl_world_raw(w, "what\n")), RPC_PARSE_ERROR);
	assert_null(ctl_world_reply(w, w->fd)); /* where the next one begins would be a guess */
	close(w->fd);
	w->fd = ctl_world_connect(w);
	memset(huge, '[', 100);
	ctl_world_send(w, w->fd, huge, 100);
	assert_int_equal(ctl_world_code(ctl_world_reply(w, w->fd)), RPC_INVALID_REQUEST);
	assert_null(ctl_world_reply(w, w->fd));
	close(w->fd);
	w->fd = ctl_world_connect(w);
	memset(huge, ' ', RPC_MESSAGE_BYTES);
	huge[0] = '{';
	ctl_world_send(w, w->fd, huge, RPC_MESSAGE_BYTES);
	assert_int_equal(ctl_world_code(ctl_world_reply(w, w->fd)), RPC_INVALID_REQUEST);
	assert_null(ctl_world_reply(w, w->fd));
	close(w->fd);
	w->fd = ctl_world_connect(w);
	/* White space is no message, however much of it comes. */
	huge[0] = ' ';
	ctl_world_send(w, w->fd, huge, RPC_MESSAGE_BYTES);
	good(ctl_world_raw(w, PING));
	free(huge);
	ctl_world_destroy(w);
}

static void test_many(void **state)
{
	struct ctl_world *w = ctl_world_create(&mem);
	int fds[80], nr_refused = 0;

	for (int i = 0; i < 80; i++)
		fds[i] = ctl_world_connect(w);
	for (int i = 0; i < 80; i++) {
		char buf[256] = "";

		if (recv(fds[i], buf, sizeof(buf) - 1, 0) > 0) {
			assert_non_null(strstr(buf, "too many connections"));
			nr_refused++;
		}
	}
	assert_int_equal(nr_refused, 80 - 63); /* w->fd is the 64th */
	good(ctl_world_raw(w, PING));
	for (int i = 0; i < 80; i++)
		close(fds[i]);
	for (int i = 0; i < 80; i++)
		ctl_world_turn(w);
	fds[0] = ctl_world_connect(w);
	ctl_world_send(w, fds[0], PING, sizeof(PING) - 1);
	good(ctl_world_reply(w, fds[0]));
	close(fds[0]);
	ctl_world_destroy(w);
}

static void test_slow(void **state)
{
	struct ctl_world *w = ctl_world_create(&mem);
	uint64_t now = mono_ns();
	int fd = ctl_world_connect(w);

	/* Half a message, and nothing more. The other one, which is idle, may stay. */
	ctl_world_send(w, fd, "{\"jsonrpc\"", 10);
	rpc_sock_tick(w->c->sock, now + 20 * MONO_NS_PER_S);
	assert_int_equal(recv(fd, w->in, 1, 0), -1);
	rpc_sock_tick(w->c->sock, now + 40 * MONO_NS_PER_S);
	assert_null(ctl_world_reply(w, fd));
	close(fd);
	good(ctl_world_raw(w, PING));
	/* One that doesn't read its answers: what it sends piles up with it, not here. */
	fd = ctl_world_connect(w);
	for (unsigned i = 0; i < 100000; i++) {
		if (send(fd, PING, sizeof(PING) - 1, MSG_NOSIGNAL) != sizeof(PING) - 1)
			break;
		ctl_world_turn(w);
	}
	assert_int_equal(errno, EAGAIN);
	good(ctl_world_raw(w, PING));
	rpc_sock_tick(w->c->sock, mono_ns() + 40 * MONO_NS_PER_S);
	/* An idle one goes much later. */
	rpc_sock_tick(w->c->sock, mono_ns() + 700 * MONO_NS_PER_S);
	assert_null(ctl_world_reply(w, w->fd));
	close(fd);
	ctl_world_destroy(w);
}

/* Nobody can be accepted: the loop sleeps until the tick, and then goes on. */
static void test_no_descriptors(void **state)
{
	struct ctl_world *w = ctl_world_create(&mem);
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct pollfd p = {.fd = w->c->epoll_fd, .events = POLLIN};
	struct rlimit old, none = {0};
	bool is_deaf = false;

	strcpy(sa.sun_path, w->conf->rpc_socket);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none.rlim_max = old.rlim_max;
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	/* More than once, since the tick may be due already; poll() wants a limit, too. */
	for (unsigned i = 0; i < 100 && !is_deaf; i++) {
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
		ctl_step(w->c, 0);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
		is_deaf = poll(&p, 1, 0) == 0;
	}
	assert_true(is_deaf);
	rpc_sock_tick(w->c->sock, mono_ns() + MONO_NS_PER_S);
	assert_int_equal(poll(&p, 1, 0), 1);
	ctl_world_send(w, fd, PING, sizeof(PING) - 1);
	good(ctl_world_reply(w, fd));
	close(fd);
	ctl_world_destroy(w);
}

/* Leaves while its question is under way. */
static void test_gone(void **state)
{
	static const char ask[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"stats\"}";
	struct ctl_world *w = ctl_world_create(&mem);

	for (unsigned turns = 0; turns < 20; turns++) {
		int fd = ctl_world_connect(w);

		ctl_world_send(w, fd, ask, sizeof(ask) - 1);
		for (unsigned i = 0; i < turns; i++)
			ctl_step(w->c, 0);
		close(fd);
		for (unsigned i = 0; i < 50; i++)
			ctl_world_turn(w);
		assert_int_equal(w->c->nr_calls, 0);
	}
	good(ctl_world_raw(w, PING));
	ctl_world_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces), cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_many),   cmocka_unit_test(test_slow),
		cmocka_unit_test(test_gone),   cmocka_unit_test(test_no_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
