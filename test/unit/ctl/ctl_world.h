/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control plane over a daemon of one thread: kv_host's reactors are stepped in turn with the
 * control thread's loop, and a client on the real socket asks. Nothing waits for time.
 */
#pragma once

#include "unit.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/must.h"
#include "ctl/ctl_int.h"
#include "kv_host.h"

struct ctl_world {
	struct kv_host h;
	struct conf *conf;
	struct ctl *c;
	char folder[64];
	int fd;
	char in[1 << 20];
	size_t nr_in;
};

static inline void ctl_world_turn(struct ctl_world *w)
{
	kv_host_turn(&w->h);
	ctl_step(w->c, 0);
}

static inline int ctl_world_connect(struct ctl_world *w)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", w->conf->rpc_socket);
	must(fd >= 0 && connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0);
	ctl_world_turn(w);
	return fd;
}

/* http_port 0: no HTTP. NULL: the port was taken. */
static inline struct ctl_world *ctl_world_create_at(const struct kv_host_opts *o,
						    unsigned http_port)
{
	struct ctl_world *w = calloc(1, sizeof(*w));
	struct ctl_opts co = {0};
	char what[CTL_WHAT_BYTES];

	must(w);
	strcpy(w->folder, "/tmp/peal-ctl-XXXXXX");
	must(mkdtemp(w->folder));
	kv_host_init(&w->h, o);
	w->conf = conf_create();
	must(w->conf);
	snprintf(w->conf->rpc_socket, sizeof(w->conf->rpc_socket), "%s/rpc", w->folder);
	co.conf = w->conf;
	co.subsys = w->h.ss;
	if (http_port) {
		strcpy(w->conf->http_host, "127.0.0.1");
		w->conf->http_port = (uint16_t)http_port;
	}
	if (ctl_create(&co, &w->c, what)) {
		must(http_port);
		kv_host_fini(&w->h);
		conf_destroy(w->conf);
		rmdir(w->folder);
		free(w);
		return NULL;
	}
	w->fd = ctl_world_connect(w);
	return w;
}

static inline struct ctl_world *ctl_world_create(const struct kv_host_opts *o)
{
	return ctl_world_create_at(o, 0);
}

static inline void ctl_world_destroy(struct ctl_world *w)
{
	atomic_store(&w->c->is_stopping, true);
	while (ctl_step(w->c, 0))
		kv_host_turn(&w->h);
	ctl_destroy(w->c);
	if (w->fd >= 0)
		close(w->fd);
	kv_host_fini(&w->h);
	conf_destroy(w->conf);
	rmdir(w->folder);
	free(w);
}

static inline void ctl_world_send(struct ctl_world *w, int fd, const char *text, size_t n)
{
	while (n) {
		ssize_t len = send(fd, text, n, MSG_NOSIGNAL);

		must(len > 0 || errno == EAGAIN);
		if (len > 0) {
			text += len;
			n -= (size_t)len;
		}
		ctl_world_turn(w);
	}
}

/* The next line; NULL: the connection was closed. */
static inline json_t *ctl_world_reply(struct ctl_world *w, int fd)
{
	for (unsigned i = 0; i < 1000000; i++) {
		char *end = memchr(w->in, '\n', w->nr_in);
		ssize_t n;

		if (end) {
			size_t len = (size_t)(end - w->in);
			json_t *reply = json_loadb(w->in, len, 0, NULL);

			must(reply);
			w->nr_in -= len + 1;
			memmove(w->in, end + 1, w->nr_in);
			return reply;
		}
		n = recv(fd, w->in + w->nr_in, sizeof(w->in) - w->nr_in, 0);
		if (n == 0 || (n < 0 && errno == ECONNRESET))
			return NULL;
		w->nr_in += n > 0 ? (size_t)n : 0;
		ctl_world_turn(w);
	}
	must_not_reach();
}

static inline json_t *ctl_world_raw(struct ctl_world *w, const char *text)
{
	ctl_world_send(w, w->fd, text, strlen(text));
	return ctl_world_reply(w, w->fd);
}

/* params: JSON text. The whole reply. */
static inline json_t *ctl_world_ask(struct ctl_world *w, const char *method, const char *params)
{
	char text[4096];

	snprintf(text, sizeof(text),
		 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":%s}", method, params);
	return ctl_world_raw(w, text);
}

/* The result, which has to be one; the caller's. */
static inline json_t *ctl_world_result(struct ctl_world *w, const char *method, const char *params)
{
	json_t *reply = ctl_world_ask(w, method, params),
	       *result = json_object_get(reply, "result");

	if (!result)
		fail_msg("%s(%s): %s", method, params, json_dumps(reply, 0));
	json_incref(result);
	json_decref(reply);
	return result;
}

static inline int ctl_world_code(json_t *reply)
{
	int code =
		(int)json_integer_value(json_object_get(json_object_get(reply, "error"), "code"));

	json_decref(reply);
	return code;
}

static inline int ctl_world_error(struct ctl_world *w, const char *method, const char *params)
{
	return ctl_world_code(ctl_world_ask(w, method, params));
}

static inline int64_t ctl_world_int(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	assert_true(json_is_integer(v));
	return json_integer_value(v);
}
