/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RPC socket: who may connect, and one message at a time from each.
 *
 * The file has mode 0600; besides, the kernel has to say that the peer is root or the daemon's own
 * user. Nothing is read from a connection while its message is under way or its reply isn't out, so
 * a peer that doesn't read its answers only stops itself. Bounds: SOCK_CONNS_MAX connections,
 * RPC_MESSAGE_BYTES a message, SOCK_PEER_NS for the rest of a message or for taking a reply,
 * SOCK_IDLE_NS without anything. Control thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/container.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mono.h"
#include "base/must.h"
#include "base/usock.h"
#include "ctl/ctl_int.h"

#define SOCK_CONNS_MAX 64
#define SOCK_BACKLOG 64
#define SOCK_READ_BYTES 65536u
#define SOCK_PEER_NS (30 * MONO_NS_PER_S)
#define SOCK_IDLE_NS (600 * MONO_NS_PER_S)
#define SOCK_BUDGET 16 /* messages of one connection per turn */

struct rpc_sock {
	struct ctl *c;
	struct ctl_fd listen;
	char path[CONF_SOCKET_BYTES];
	struct list conns;
	struct list dead; /* freed when the turn is over */
	unsigned nr_conns;
	bool is_stopped;
	uint64_t deaf_until_ns; /* accept() has failed: not before then again */
};

struct conn {
	struct list node;
	struct rpc_sock *s;
	struct ctl_fd f;
	struct rpc_msg *msg; /* under way; NULL while it is inside rpc_msg_start() */
	struct rpc_frame frame;
	char *in;
	size_t nr_in, in_max;
	char *out;
	size_t nr_out, out_at;
	uint64_t since_ns; /* when it began to wait for what it waits for */
	bool is_busy;	   /* a message is under way */
	bool is_inside;	   /* conn_run() is on the stack */
	bool is_eof;	   /* the peer sends no more */
	bool is_last;	   /* close when the reply is out */
	bool has_more;	   /* stopped by its budget */
	bool is_closed;
};

static void conn_free(struct conn *n)
{
	list_del(&n->node);
	free(n->in);
	free(n->out);
	free(n);
}

static void conn_close(struct conn *n)
{
	if (n->is_closed)
		return;
	n->is_closed = true;
	ctl_fd_del(n->s->c, &n->f);
	close(n->f.fd);
	n->s->nr_conns--;
	list_del(&n->node);
	list_add_tail(&n->s->dead, &n->node);
	if (n->msg)
		rpc_msg_forget(n->msg);
}

/* What it waits for now: the rest of a message, room for its reply, or the next message. */
static void conn_rest(struct conn *n)
{
	uint32_t events = 0;

	if (n->out)
		events = EPOLLOUT;
	else if (!n->is_busy && !n->has_more && !n->is_eof)
		events = EPOLLIN;
	ctl_fd_set(n->s->c, &n->f, events);
}

/* Sends what it can. False: not all of it, or the peer is gone. */
static bool conn_flush(struct conn *n)
{
	while (n->out_at < n->nr_out) {
		ssize_t len = send(n->f.fd, n->out + n->out_at, n->nr_out - n->out_at,
				   MSG_NOSIGNAL | MSG_DONTWAIT);

		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0) {
			if (errno != EAGAIN)
				conn_close(n);
			return false;
		}
		n->out_at += (size_t)len;
	}
	free(n->out);
	n->out = NULL;
	if (n->is_last)
		conn_close(n);
	return !n->is_last;
}

static void conn_say(struct conn *n, char *text)
{
	n->out_at = 0;
	n->nr_out = strlen(text);
	text[n->nr_out++] = '\n'; /* in the place of its NUL */
	n->out = text;
	n->since_ns = mono_ns();
}

static void conn_run(struct conn *n);

static void conn_done(void *arg, char *reply, bool is_lost)
{
	struct conn *n = arg;

	n->is_busy = false;
	n->msg = NULL;
	n->is_last |= is_lost;
	if (n->is_closed) {
		free(reply);
		return; /* the turn's end frees it */
	}
	if (reply)
		conn_say(n, reply);
	else if (n->is_last)
		conn_close(n);
	if (!n->is_inside && !n->is_closed)
		conn_run(n);
}

static void conn_start(struct conn *n, size_t len)
{
	struct rpc_msg *msg;

	n->is_busy = true;
	msg = rpc_msg_start(&n->s->c->rpc, n->in, len, conn_done, n);
	if (!msg) {
		n->is_busy = false;
		conn_close(n);
		return;
	}
	if (n->is_busy)
		n->msg = msg;
	n->nr_in -= len;
	memmove(n->in, n->in + len, n->nr_in);
	n->since_ns = mono_ns();
}

static void conn_too_long(struct conn *n)
{
	char *text = rpc_msg_error(RPC_INVALID_REQUEST,
				   "the message is too long or nested too deep, expected at most "
				   "1 MiB and 64 levels");

	n->is_last = true;
	if (text)
		conn_say(n, text);
	else
		conn_close(n);
}

/* The next message begins; white space in front of it is none of it. False: it isn't all there. */
static bool conn_next(struct conn *n)
{
	long len = rpc_frame_next(&n->frame, n->in, n->nr_in);

	if (len < 0) {
		conn_too_long(n);
		return true;
	}
	if (len > 0) {
		conn_start(n, (size_t)len);
		return true;
	}
	if (!n->frame.is_begun) {
		n->frame.at = 0;
		n->nr_in = 0;
	}
	if (n->is_eof)
		conn_close(n);
	return false;
}

/* Message after message, as long as each is answered and taken at once. */
static void conn_run(struct conn *n)
{
	n->is_inside = true;
	n->has_more = false;
	for (unsigned i = 0; !n->is_closed && !n->is_busy; i++) {
		if (n->out && !conn_flush(n))
			break;
		n->has_more = i == SOCK_BUDGET;
		if (n->has_more || !conn_next(n))
			break;
	}
	n->is_inside = false;
	if (!n->is_closed)
		conn_rest(n);
}

static bool conn_grow(struct conn *n)
{
	size_t want = n->in_max ? n->in_max * 2 : 4096;
	char *p;

	if (n->nr_in < n->in_max)
		return true;
	/* rpc_frame_next() has refused what is longer. */
	must(n->in_max <= RPC_MESSAGE_BYTES);
	p = realloc(n->in, want);
	if (!p)
		return false;
	n->in = p;
	n->in_max = want;
	return true;
}

static void conn_read(struct conn *n)
{
	size_t room;
	ssize_t len;

	if (!conn_grow(n)) {
		conn_close(n);
		return;
	}
	room = min_t(size_t, n->in_max - n->nr_in, SOCK_READ_BYTES);
	len = recv(n->f.fd, n->in + n->nr_in, room, MSG_DONTWAIT);
	if (len < 0) {
		if (errno != EAGAIN && errno != EINTR)
			conn_close(n);
		return;
	}
	if (n->nr_in == 0)
		n->since_ns = mono_ns();
	n->nr_in += (size_t)len;
	n->is_eof = len == 0;
	conn_run(n);
}

static void conn_ready(struct ctl_fd *f, uint32_t events)
{
	struct conn *n = container_of(f, struct conn, f);

	if (n->is_closed)
		return;
	if (events & EPOLLIN && f->events & EPOLLIN)
		conn_read(n);
	else if (events & EPOLLOUT && f->events & EPOLLOUT)
		conn_run(n);
	else if (events & (EPOLLHUP | EPOLLERR))
		conn_close(n);
}

/* ---- accepting ---- */

/* Tells why and closes: short enough to fit the socket's buffer at once, or it isn't told. */
static void sock_refuse(int fd, int code, const char *why)
{
	char *text = rpc_msg_error(code, why);
	ssize_t n = 0;

	if (text)
		n = send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)n;
	free(text);
	close(fd);
}

static bool sock_check_peer(struct rpc_sock *s, int fd)
{
	uid_t uid;
	pid_t pid;
	int err = usock_peer(fd, &uid, &pid);

	if (!err && (uid == 0 || uid == geteuid()))
		return true;
	log_once_warn("rpc: %s: pid %d of uid %u is neither root nor this daemon's user, refused",
		      s->path, err ? 0 : (int)pid, err ? 0 : (unsigned)uid);
	sock_refuse(fd, RPC_NOT_PERMITTED, "only root and the daemon's own user are served");
	return false;
}

static void sock_accepted(struct rpc_sock *s, int fd)
{
	struct conn *n;

	if (!sock_check_peer(s, fd))
		return;
	if (s->nr_conns == SOCK_CONNS_MAX) {
		log_once_warn("rpc: %s: more than %d connections, refused", s->path,
			      SOCK_CONNS_MAX);
		sock_refuse(fd, RPC_BUSY, "too many connections, expected at most 64");
		return;
	}
	n = calloc(1, sizeof(*n));
	if (!n) {
		close(fd);
		return;
	}
	n->s = s;
	n->f = (struct ctl_fd){.fd = fd, .events = EPOLLIN, .ready = conn_ready};
	n->since_ns = mono_ns();
	if (ctl_fd_add(s->c, &n->f)) {
		close(fd);
		free(n);
		return;
	}
	list_add_tail(&s->conns, &n->node);
	s->nr_conns++;
}

/* Without descriptors or memory the listener would be ready for ever. */
static void sock_deafen(struct rpc_sock *s)
{
	s->deaf_until_ns = mono_ns() + CTL_TICK_MS * MONO_NS_PER_MS;
	ctl_fd_set(s->c, &s->listen, 0);
}

static void sock_ready(struct ctl_fd *f, uint32_t events)
{
	struct rpc_sock *s = container_of(f, struct rpc_sock, listen);

	for (unsigned i = 0; i < SOCK_BUDGET; i++) {
		int fd = accept4(f->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			sock_accepted(s, fd);
		} else if (errno != ECONNABORTED && errno != EINTR) {
			if (errno != EAGAIN)
				sock_deafen(s);
			break;
		}
	}
}

/* ---- the rest ---- */

int rpc_sock_timeout(const struct rpc_sock *s)
{
	struct conn *n;

	if (s->listen.events == 0 && !s->is_stopped)
		return CTL_TICK_MS;
	list_for_each_entry(n, &s->conns, node)
		if (n->has_more)
			return 0;
	return list_is_empty(&s->conns) ? -1 : CTL_TICK_MS;
}

void rpc_sock_tick(struct rpc_sock *s, uint64_t now_ns)
{
	struct conn *n, *tmp;
	uint64_t limit;

	list_for_each_entry_safe(n, tmp, &s->conns, node) {
		limit = n->out || n->nr_in ? SOCK_PEER_NS : SOCK_IDLE_NS;
		if (n->has_more)
			conn_run(n);
		else if (!n->is_busy && now_ns - n->since_ns > limit)
			conn_close(n);
	}
	list_for_each_entry_safe(n, tmp, &s->dead, node)
		if (!n->is_busy)
			conn_free(n);
	if (!s->is_stopped && now_ns >= s->deaf_until_ns)
		ctl_fd_set(s->c, &s->listen, EPOLLIN);
}

void rpc_sock_stop(struct rpc_sock *s)
{
	struct conn *n, *tmp;

	s->is_stopped = true;
	ctl_fd_del(s->c, &s->listen);
	list_for_each_entry_safe(n, tmp, &s->conns, node)
		conn_close(n);
}

void rpc_sock_destroy(struct rpc_sock *s)
{
	struct conn *n, *tmp;

	list_for_each_entry_safe(n, tmp, &s->dead, node)
		conn_free(n);
	unlink(s->path);
	close(s->listen.fd);
	free(s);
}

int rpc_sock_create(struct ctl *c, const char *path, struct rpc_sock **out)
{
	struct rpc_sock *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->c = c;
	list_init(&s->conns);
	list_init(&s->dead);
	snprintf(s->path, sizeof(s->path), "%s", path);
	s->listen = (struct ctl_fd){.events = EPOLLIN, .ready = sock_ready};
	err = s->listen.fd = usock_listen(path, SOCK_BACKLOG);
	if (err < 0)
		goto free_sock;
	err = ctl_fd_add(c, &s->listen);
	if (err)
		goto close_fd;
	*out = s;
	return 0;
close_fd:
	unlink(path);
	close(s->listen.fd);
free_sock:
	free(s);
	return err;
}
