/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /metrics and /healthz over HTTP, by libmicrohttpd without a thread of its own: its epoll
 * descriptor is one of the control thread's. Answers need the reactors, so a request is suspended
 * until the figures are there; when they aren't within HTTP_ANSWER_NS it is told 503, which is what
 * /healthz is for.
 *
 * Read only, GET and HEAD only. Bounds: HTTP_CONNS connections, HTTP_MEMORY bytes each for
 * everything that a client sends, HTTP_REQUEST_NS from the first byte of a request, or from the
 * connection, to its answer: somebody who sends a byte a second is closed with the others. Anybody
 * on the machine may connect, so beyond HTTP_CONNS_KEEP each new connection ends the one that has
 * been without a request for longest: a crowd that is silent keeps nobody from asking.
 *
 * On the loopback a Host that is a name, localhost apart, is refused: a page in a browser of this
 * machine whose name was made to point here would read what is nobody else's (DNS rebinding).
 * Control thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/container.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mono.h"
#include "ctl/ctl_health.h"
#include "ctl/ctl_int.h"
#include "ctl/metrics.h"

#define HTTP_CONNS 64u
#define HTTP_CONNS_KEEP 48u
#define HTTP_BACKLOG 32
#define HTTP_MEMORY 16384
#define HTTP_IDLE_S 10u
/* At its limit it stops listening, and begins again in a turn after one that freed a connection. */
#define HTTP_SETTLE 3
#define HTTP_REQUEST_NS (10 * MONO_NS_PER_S)
#define HTTP_ANSWER_NS (2 * MONO_NS_PER_S)
#define HTTP_TEXT "text/plain; version=0.0.4; charset=utf-8"

struct http {
	struct ctl *c;
	struct MHD_Daemon *mhd;
	struct ctl_fd fd;  /* libmicrohttpd's epoll */
	struct list conns; /* the oldest first */
	unsigned nr_conns; /* without those that were shut down */
	bool is_loopback;
	struct list reqs;   /* suspended */
	bool is_stopping;   /* nothing is suspended any more */
	unsigned nr_settle; /* turns that libmicrohttpd still wants after one has gone */
};

struct http_conn {
	struct list node;
	struct MHD_Connection *conn;
	struct http_req *req; /* under way; NULL: silent, or not all of its headers are here */
	uint64_t since_ns;
	bool is_shut;
};

struct http_req {
	struct list node;
	struct http *h;
	struct MHD_Connection *conn;
	struct http_conn *of;
	struct ctl_stat_wait wait;
	uint64_t since_ns;
	bool is_health;
	bool is_asked;
	bool is_answered;
	unsigned status;
	char *text;
	size_t bytes;
};

static enum MHD_Result http_say(struct MHD_Connection *conn, unsigned status, char *text,
				size_t bytes)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(bytes, text,
								 MHD_RESPMEM_MUST_COPY);
	enum MHD_Result res;

	if (!r)
		return MHD_NO;
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, HTTP_TEXT);
	MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	res = MHD_queue_response(conn, status, r);
	MHD_destroy_response(r);
	return res;
}

static enum MHD_Result http_say_text(struct MHD_Connection *conn, unsigned status, const char *text)
{
	return http_say(conn, status, (char *)(uintptr_t)text, strlen(text));
}

/* ---- figures ---- */

static void http_answer(struct http_req *q, unsigned status)
{
	q->is_answered = true;
	q->status = status;
	list_del(&q->node);
	MHD_resume_connection(q->conn);
}

static void http_gathered(struct ctl_stat_wait *w, const struct ctl_stat *st)
{
	struct http_req *q = container_of(w, struct http_req, wait);

	if (st && !q->is_health)
		q->text = metrics_text(q->h->c, st, &q->bytes);
	else if (st)
		q->text = ctl_health_text(q->h->c, st, &q->bytes);
	http_answer(q, q->text ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE);
}

static enum MHD_Result http_ask(struct http_req *q)
{
	q->is_asked = true;
	if (q->h->is_stopping) {
		q->status = MHD_HTTP_SERVICE_UNAVAILABLE;
		return http_say_text(q->conn, q->status, "the daemon stops\n");
	}
	q->since_ns = mono_ns();
	q->wait.done = http_gathered;
	list_add_tail(&q->h->reqs, &q->node);
	MHD_suspend_connection(q->conn);
	ctl_stat_get(q->h->c, &q->wait);
	return MHD_YES;
}

/* ---- requests ---- */

static bool http_is(const char *method, const char *what)
{
	return strcmp(method, what) == 0;
}

/* RFC 9112, 3.2: NAME, ADDR or [ADDR6], and perhaps a port. Without one nothing was rebound. */
static bool http_check_host(const struct http *h, struct MHD_Connection *conn)
{
	const char *host = MHD_lookup_connection_value(conn, MHD_HEADER_KIND, "Host"), *end;
	unsigned char addr[16];
	char name[64];
	size_t n;

	if (!h->is_loopback || !host)
		return true;
	if (*host == '[') {
		n = strcspn(++host, "]");
		end = host + n;
		if (!*end++)
			return false;
	} else {
		n = strcspn(host, ":");
		end = host + n;
	}
	if (n >= sizeof(name) || (*end && (*end != ':' || end[1 + strspn(end + 1, "0123456789")])))
		return false;
	memcpy(name, host, n);
	name[n] = 0;
	return strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, addr) == 1 ||
	       inet_pton(AF_INET6, name, addr) == 1;
}

static struct http_req *http_req_create(struct http *h, struct MHD_Connection *conn,
					const char *url)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct http_req *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->h = h;
	q->conn = conn;
	q->of = info ? info->socket_context : NULL;
	if (q->of)
		q->of->req = q;
	q->is_health = strcmp(url, "/healthz") == 0;
	list_init(&q->node);
	list_init(&q->wait.node);
	return q;
}

/* What can be said at once; 0: a question that is answered later. */
static unsigned http_refuse(const struct http *h, struct MHD_Connection *conn, const char *url,
			    const char *method, const char **why)
{
	if (!http_is(method, "GET") && !http_is(method, "HEAD")) {
		*why = "expected GET or HEAD\n";
		return MHD_HTTP_METHOD_NOT_ALLOWED;
	}
	if (!http_check_host(h, conn)) {
		*why = "Host is another machine's name, expected localhost or an address\n";
		return MHD_HTTP_FORBIDDEN;
	}
	if (strcmp(url, "/metrics") != 0 && strcmp(url, "/healthz") != 0) {
		*why = "expected /metrics or /healthz\n";
		return MHD_HTTP_NOT_FOUND;
	}
	return 0;
}

/* First with the headers, then with each piece of a body that nobody wants, then at its end. */
static enum MHD_Result http_request(void *arg, struct MHD_Connection *conn, const char *url,
				    const char *method, const char *version, const char *data,
				    size_t *bytes, void **state)
/* tidy: eight parameters are libmicrohttpd's */
{
	struct http *h = arg;
	struct http_req *q = *state;
	const char *why;
	unsigned status;

	if (!q) {
		status = http_refuse(h, conn, url, method, &why);
		if (status)
			return http_say_text(conn, status, why);
		q = http_req_create(h, conn, url);
		*state = q;
		return q ? MHD_YES : MHD_NO;
	}
	if (*bytes) {
		*bytes = 0;
		return MHD_YES;
	}
	if (!q->is_asked)
		return http_ask(q);
	if (q->text)
		return http_say(conn, q->status, q->text, q->bytes);
	return http_say_text(conn, q->status, "the reactors don't answer\n");
}

static void http_completed(void *arg, struct MHD_Connection *conn, void **state,
			   enum MHD_RequestTerminationCode how)
{
	struct http_req *q = *state;
	struct http *h = arg;

	if (!q)
		return;
	if (q->of) {
		q->of->req = NULL;
		q->of->since_ns = mono_ns(); /* the next request's time */
		list_del(&q->of->node);
		list_add_tail(&h->conns, &q->of->node);
	}
	list_del(&q->node);
	ctl_stat_forget(&q->wait);
	free(q->text);
	free(q);
	*state = NULL;
}

/* ---- connections ---- */

static int http_conn_fd(const struct http_conn *n)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(n->conn, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

/* libmicrohttpd closes it when it sees the end of it. */
static void http_shut(struct http *h, struct http_conn *n)
{
	if (n->is_shut)
		return;
	n->is_shut = true;
	h->nr_conns--;
	shutdown(http_conn_fd(n), SHUT_RDWR);
}

/* Has sent nothing that is waiting to be read: FIONREAD, so that nobody goes who just asked. */
static bool http_conn_is_silent(const struct http_conn *n)
{
	int nr = 0;

	return !n->req && ioctl(http_conn_fd(n), FIONREAD, &nr) == 0 && nr == 0;
}

/* The oldest silent one goes, or the oldest that doesn't take its answer. */
static void http_make_room(struct http *h)
{
	struct http_conn *n, *slow = NULL;

	list_for_each_entry(n, &h->conns, node) {
		if (n->is_shut)
			continue;
		if (http_conn_is_silent(n)) {
			http_shut(h, n);
			return;
		}
		if (!slow && n->req && n->req->is_answered)
			slow = n;
	}
	if (slow)
		http_shut(h, slow);
}

static void http_conn_changed(void *arg, struct MHD_Connection *conn, void **state,
			      enum MHD_ConnectionNotificationCode what)
{
	struct http *h = arg;
	struct http_conn *n = *state;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		n = calloc(1, sizeof(*n));
		*state = n;
		if (!n)
			return; /* the idle time-out is left */
		if (h->nr_conns >= HTTP_CONNS_KEEP)
			http_make_room(h);
		n->conn = conn;
		n->since_ns = mono_ns();
		list_add_tail(&h->conns, &n->node);
		h->nr_conns++;
	} else if (n) {
		list_del(&n->node);
		h->nr_conns -= !n->is_shut;
		free(n);
		h->nr_settle = HTTP_SETTLE;
	}
}

/* ---- the loop ---- */

static void http_ready(struct ctl_fd *f, uint32_t events)
{
	MHD_run(container_of(f, struct http, fd)->mhd);
}

int http_timeout(const struct http *h)
{
	bool is_ticking = !list_is_empty(&h->conns) || !list_is_empty(&h->reqs) || h->nr_settle;
	MHD_UNSIGNED_LONG_LONG ms;

	/* 0 while it has something to do that its descriptor doesn't say: a step of a connection,
	 * or one that was resumed. */
	if (MHD_get_timeout(h->mhd, &ms) == MHD_YES)
		return (int)min_t(unsigned long long, ms, is_ticking ? CTL_TICK_MS : 1000);
	return is_ticking ? CTL_TICK_MS : -1;
}

void http_tick(struct http *h, uint64_t now_ns)
{
	struct http_req *q, *tmp;
	struct http_conn *n;

	list_for_each_entry_safe(q, tmp, &h->reqs, node) {
		if (now_ns - q->since_ns < HTTP_ANSWER_NS)
			continue;
		ctl_stat_forget(&q->wait);
		http_answer(q, MHD_HTTP_SERVICE_UNAVAILABLE);
	}
	list_for_each_entry(n, &h->conns, node)
		if (now_ns - n->since_ns >= HTTP_REQUEST_NS)
			http_shut(h, n);
	MHD_run(h->mhd);
	if (h->nr_settle)
		h->nr_settle--;
}

/* ---- making ---- */

static int http_address(const struct conf *c, struct sockaddr_storage *ss, socklen_t *len)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)ss;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ss;

	memset(ss, 0, sizeof(*ss));
	if (inet_pton(AF_INET, c->http_host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(c->http_port);
		*len = sizeof(*v4);
		return 0;
	}
	if (inet_pton(AF_INET6, c->http_host, &v6->sin6_addr) != 1)
		return -EINVAL;
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(c->http_port);
	*len = sizeof(*v6);
	return 0;
}

static bool http_is_loopback(const struct sockaddr_storage *ss)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)ss;
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)ss;

	if (ss->ss_family == AF_INET)
		return ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/* The descriptor, or -errno. *port: the one that it got. */
static int http_listen(struct http *h, const struct conf *c, unsigned *port)
{
	struct sockaddr_storage ss;
	socklen_t len;
	int fd, one = 1, err = http_address(c, &ss, &len);

	if (err)
		return err;
	h->is_loopback = http_is_loopback(&ss);
	fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, (struct sockaddr *)&ss, len) || listen(fd, HTTP_BACKLOG) ||
	    getsockname(fd, (struct sockaddr *)&ss, &len)) {
		err = -errno;
		close(fd);
		return err;
	}
	*port = ntohs(ss.ss_family == AF_INET ? ((struct sockaddr_in *)&ss)->sin_port
					      : ((struct sockaddr_in6 *)&ss)->sin6_port);
	return fd;
}

/* What clients do wrong is their problem, and no line in the log. */
static void http_log(void *arg, const char *fmt, va_list ap)
{
}

static int http_start(struct http *h, int fd)
{
	const union MHD_DaemonInfo *info;

	h->mhd = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0,
				  NULL, NULL, http_request, h, MHD_OPTION_EXTERNAL_LOGGER, http_log,
				  NULL, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
				  HTTP_CONNS, MHD_OPTION_CONNECTION_TIMEOUT, HTTP_IDLE_S,
				  MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_MEMORY,
				  MHD_OPTION_NOTIFY_CONNECTION, http_conn_changed, h,
				  MHD_OPTION_NOTIFY_COMPLETED, http_completed, h, MHD_OPTION_END);
	if (!h->mhd)
		return -ENOMEM;
	info = MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info)
		return -ENOTSUP;
	h->fd = (struct ctl_fd){.fd = info->epoll_fd, .events = EPOLLIN, .ready = http_ready};
	return ctl_fd_add(h->c, &h->fd);
}

int http_create(struct ctl *c, struct http **out)
{
	struct http *h = calloc(1, sizeof(*h));
	unsigned port = 0;
	int fd, err;

	if (!h)
		return -ENOMEM;
	h->c = c;
	list_init(&h->conns);
	list_init(&h->reqs);
	fd = err = http_listen(h, c->conf, &port);
	if (fd < 0)
		goto free_http;
	err = http_start(h, fd);
	if (err)
		goto stop_mhd;
	log_info("http: /metrics and /healthz on %s port %u", c->conf->http_host, port);
	*out = h;
	return 0;
stop_mhd:
	if (h->mhd)
		MHD_stop_daemon(h->mhd); /* closes the descriptor */
	else
		close(fd);
free_http:
	free(h);
	return err;
}

void http_stop(struct http *h)
{
	struct http_req *q, *tmp;

	/* Nothing may be suspended at the end, nor become so in the run that lets go of it. */
	h->is_stopping = true;
	list_for_each_entry_safe(q, tmp, &h->reqs, node) {
		ctl_stat_forget(&q->wait);
		http_answer(q, MHD_HTTP_SERVICE_UNAVAILABLE);
	}
	MHD_run(h->mhd);
	ctl_fd_del(h->c, &h->fd);
	MHD_stop_daemon(h->mhd);
	h->mhd = NULL;
}

void http_destroy(struct http *h)
{
	if (h->mhd)
		MHD_stop_daemon(h->mhd);
	free(h);
}
