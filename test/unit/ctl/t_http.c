/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop around libmicrohttpd: while a question isn't answered and the daemon has all that it
 * waits for, the loop may not sleep; and with nothing to do it has to.
 */
#include "ctl_world.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>

static const struct kv_host_opts mem = {.stack = "mem"};

struct web {
	struct ctl_world *w;
	int fd;
	unsigned port;
	char in[1 << 20];
	size_t nr_in;
};

static int web_socket(unsigned port, bool is_client)
{
	struct sockaddr_in sa = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				 .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(fd >= 0);
	if (is_client)
		must(connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0);
	else
		must(bind(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0);
	return fd;
}

static unsigned web_free_port(void)
{
	int fd = web_socket(0, false);
	struct sockaddr_in sa;
	socklen_t len = sizeof(sa);

	must(getsockname(fd, (struct sockaddr *)&sa, &len) == 0);
	close(fd);
	return ntohs(sa.sin_port);
}

static struct web *web_create(void)
{
	struct web *web = calloc(1, sizeof(*web));

	must(web);
	while (!web->w) {
		web->port = web_free_port();
		web->w = ctl_world_create_at(&mem, web->port);
	}
	web->fd = web_socket(web->port, true);
	return web;
}

static void web_destroy(struct web *web)
{
	close(web->fd);
	ctl_world_destroy(web->w);
	free(web);
}

static bool is_ready(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

/* Would the control thread's loop sleep now, with nothing on its way to it? */
static bool web_would_sleep(const struct web *web)
{
	struct ctl *c = web->w->c;

	return !c->nr_calls && !is_ready(c->epoll_fd) && http_timeout(c->http) != 0;
}

/* Sends, and takes turns until the answer's head is here. */
static const char *web_ask(struct web *web, const char *text, size_t n)
{
	web->nr_in = 0;
	while (n || !memmem(web->in, web->nr_in, "\r\n\r\n", 4)) {
		ssize_t len = n ? send(web->fd, text, n, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;

		text += len > 0 ? len : 0;
		n -= len > 0 ? (size_t)len : 0;
		if (!n && !is_ready(web->fd))
			assert_false(web_would_sleep(web));
		ctl_world_turn(web->w);
		len = recv(web->fd, web->in + web->nr_in, sizeof(web->in) - web->nr_in - 1,
			   MSG_DONTWAIT);
		must(len != 0);
		web->nr_in += len > 0 ? (size_t)len : 0;
		web->in[web->nr_in] = 0;
	}
	return web->in;
}

static const char *web_get(struct web *web, size_t header_bytes)
{
	static char text[65536];
	int n = snprintf(text, sizeof(text), "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ");

	memset(text + n, 'a', header_bytes);
	n += (int)header_bytes;
	strcpy(text + n, "\r\n\r\n");
	return web_ask(web, text, (size_t)n + 4);
}

static void test_no_sleep(void **state)
{
	struct web *web = web_create();

	/* One connection, kept: each answer comes without a tick. */
	for (size_t n = 0; n <= 12000; n += 1500)
		assert_memory_equal(web_get(web, n), "HTTP/1.1 200", 12);
	assert_memory_equal(web_get(web, 20000), "HTTP/1.1 431", 12);
	web_destroy(web);
}

static void test_sleep(void **state)
{
	struct web *web = web_create();
	int crowd[60];
	unsigned nr = 0;

	assert_memory_equal(web_get(web, 0), "HTTP/1.1 200", 12);
	for (unsigned i = 0; i < 60; i++) {
		crowd[i] = web_socket(web->port, true);
		ctl_world_turn(web->w); /* or the backlog is full */
	}
	/* After the turns that the new ones take. */
	while (!web_would_sleep(web)) {
		assert_true(nr++ < 10000);
		ctl_world_turn(web->w);
	}
	/* And asked again beside them. */
	close(web->fd);
	web->fd = web_socket(web->port, true);
	assert_memory_equal(web_get(web, 0), "HTTP/1.1 200", 12);
	for (unsigned i = 0; i < 60; i++)
		close(crowd[i]);
	web_destroy(web);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_sleep),
		cmocka_unit_test(test_sleep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
