/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVMe/TCP target as a transport: one listener, a poller and a share of buffers per worker.
 *
 * The home reactor accepts, shakes hands, has all admin queues and the controllers; I/O queues go
 * round the workers. Without a file of secrets whoever can reach the port may attach: so it is
 * loopback's, unless the configuration says otherwise.
 */
/* tidy: no-test: test/peer/tcp.py */
#include "transport/tcp/tcp_int.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/container.h"
#include "base/log.h"
#include "base/mono.h"

#define TCP_BACKLOG 128
#define TCP_ACCEPT_BUDGET 16
#define TCP_AGAIN_NS (100 * MONO_NS_PER_MS)

/* ---- workers ---- */

static int worker_poll(struct poller *p)
{
	struct tcp_worker *w = container_of(p, struct tcp_worker, poller);

	/* One that is looked at again in the next turn has asked nobody to wake us. */
	return tcp_conn_turn(w) > 0 || w->nr_hot > 0;
}

static void tcp_listen(struct tcp_tr *t);

static void worker_start_at(struct mbox_msg *m)
{
	struct tcp_worker *w = container_of(m, struct tcp_worker, start);

	reactor_poller_add(w->tw->reactor, &w->poller);
	if (w != tcp_home(w->tcp))
		return;
	w->tcp->alone_since_ns = reactor_now_ns(w->tw->reactor);
	tcp_listen(w->tcp);
}

static void worker_fini(struct tcp_worker *w)
{
	if (w->reg)
		mem_region_put(w->reg);
	if (w->map)
		pool_unmap(w->map, w->map_bytes);
	if (w->caps_reg)
		mem_region_put(w->caps_reg);
	if (w->caps)
		pool_unmap(w->caps, w->caps_map_bytes);
	if (w->segs.base)
		pool_fini(&w->segs);
	if (w->events.base)
		pool_fini(&w->events);
	free(w->reqs);
	free(w->free_reqs);
	free(w->bufs);
	free(w->free_rx);
	free(w->free_tx);
}

static void worker_bufs(struct tcp_worker *w)
{
	const uint64_t bytes = TCP_BUF_ROOM + TCP_BUF_BYTES;

	for (uint32_t i = 0; i < 2 * w->nr_bufs; i++) {
		w->bufs[i] = (struct tcp_buf){.p = (uint8_t *)w->map + i * bytes,
					      .reg = w->reg,
					      .off = i * bytes,
					      .bytes = (uint32_t)bytes};
		if (i < w->nr_bufs)
			w->free_rx[w->nr_rx++] = &w->bufs[i];
		else
			w->free_tx[w->nr_tx++] = &w->bufs[i];
	}
	for (uint32_t i = 0; i < w->nr_reqs; i++) {
		w->reqs[i].index = (uint16_t)i;
		w->free_reqs[w->nr_free_reqs++] = (uint16_t)(w->nr_reqs - 1 - i);
	}
}

static int worker_pools(struct tcp_worker *w)
{
	int err = pool_init(&w->segs, sizeof(struct tcp_seg),
			    TCP_SEGS + TCP_OWN_SEGS * w->tcp->max_conns, alignof(struct tcp_seg));

	if (!err && w == tcp_home(w->tcp))
		err = pool_init(&w->events, sizeof(struct tcp_event), TCP_CTRLS * TGT_AERS_MAX,
				alignof(struct tcp_event));
	return err;
}

static int worker_init(struct tcp_tr *t, unsigned id)
{
	struct tcp_worker *w = &t->workers[id];
	bool is_home = t->node->is_home_apart && id == t->node->nr - 1;

	w->tcp = t;
	w->tw = t->node->workers[id];
	w->id = id;
	list_init(&w->conns);
	list_init(&w->hot);
	list_init(&w->rx_wait);
	list_init(&w->tx_wait);
	tcp_share_init(&w->strangers, &w->strangers_part);
	w->poller = (struct poller){.name = "tcp", .poll = worker_poll, .max_sleep_ns = UINT64_MAX};
	w->nr_bufs = is_home ? TCP_BUFS_HOME : TCP_BUFS_IO;
	w->nr_reqs = min_t(uint32_t, w->tw->reqs.nr, UINT16_MAX);
	w->bufs = calloc(2 * w->nr_bufs, sizeof(*w->bufs));
	w->free_rx = calloc(w->nr_bufs, sizeof(struct tcp_buf *));
	w->free_tx = calloc(w->nr_bufs, sizeof(struct tcp_buf *));
	w->reqs = calloc(w->nr_reqs, sizeof(*w->reqs));
	w->free_reqs = calloc(w->nr_reqs, sizeof(*w->free_reqs));
	w->map = pool_map(2ull * w->nr_bufs * (TCP_BUF_ROOM + TCP_BUF_BYTES), &w->map_bytes);
	if (w->map)
		w->reg = mem_host_wrap(w->map, w->map_bytes, MEM_READABLE | MEM_WRITABLE);
	w->caps = pool_map((size_t)w->nr_reqs * TCP_CAPSULE_MAX, &w->caps_map_bytes);
	if (w->caps)
		w->caps_reg = mem_host_wrap(w->caps, w->caps_map_bytes,
					    MEM_READABLE | MEM_WRITABLE);
	w->conn_reqs = max_t(uint32_t, TCP_CONN_REQS_MIN, w->nr_reqs / 8);
	if (!w->caps_reg || !w->bufs || !w->free_rx || !w->free_tx || !w->reqs || !w->free_reqs ||
	    !w->reg || worker_pools(w))
		return -ENOMEM;
	worker_bufs(w);
	return 0;
}

/* ---- accepting ---- */

static void tcp_accepted(struct tcp_tr *t, int fd)
{
	int err = -EUSERS;

	if (t->nr_conns < t->max_conns)
		err = tcp_conn_create(t, fd);
	if (!err)
		return;
	log_some_warn("tcp: %s:%u: connection refused: %s", t->host, t->port,
		      err == -EUSERS ? "there are too many" : strerrorname_np(-err));
	t->refused.nr_silent++;
	close(fd);
}

static void tcp_ready(struct io_req *io, int res)
{
	struct tcp_tr *t = container_of(io, struct tcp_tr, io);

	t->is_polling = false;
	for (int i = 0; i < TCP_ACCEPT_BUDGET && !t->is_stopping; i++) {
		int fd = accept4(t->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			tcp_accepted(t, fd);
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
			   errno == ENOBUFS) {
			log_some_warn("tcp: %s:%u: accept: %s", t->host, t->port,
				      strerrorname_np(errno));
			timeout_set(tcp_home_reactor(t), &t->again,
				    reactor_now_ns(tcp_home_reactor(t)) + TCP_AGAIN_NS);
			return;
		} else if (errno == EAGAIN || errno == EINVAL) {
			break;
		}
	}
	tcp_listen(t);
}

static void tcp_again(struct timeout *tm)
{
	tcp_listen(container_of(tm, struct tcp_tr, again));
}

/* Goes on listening, or, when it is stopping, looks whether that was the last thing. */
static void tcp_listen(struct tcp_tr *t)
{
	if (t->is_stopping) {
		tcp_gone(t);
		return;
	}
	t->io = (struct io_req){
		.op = IO_POLL, .fd = t->listen_fd, .poll_mask = POLLIN, .end = tcp_ready};
	t->is_polling = true;
	reactor_io(tcp_home_reactor(t), &t->io);
}

static int tcp_bind(const struct tcp_tr *t)
{
	const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
				       .ai_socktype = SOCK_STREAM};
	struct addrinfo *ai;
	char port[8];
	int fd, one = 1, err;

	snprintf(port, sizeof(port), "%u", t->port);
	if (getaddrinfo(t->host, port, &hints, &ai))
		return -EINVAL;
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	err = fd < 0 ? -errno : 0;
	if (!err)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (!err && (bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, TCP_BACKLOG)))
		err = -errno;
	freeaddrinfo(ai);
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}

/* Port 0: which it became. */
static void tcp_bound(struct tcp_tr *t)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	char host[64], port[16];

	if (getsockname(t->listen_fd, (void *)&sa, &len) == 0 &&
	    getnameinfo((void *)&sa, len, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		t->port = (uint16_t)atoi(port);
}

static bool tcp_is_loopback(const struct tcp_tr *t)
{
	return strncmp(t->host, "127.", 4) == 0 || strcmp(t->host, "::1") == 0;
}

static int tcp_start(struct tr *tr)
{
	struct tcp_tr *t = container_of(tr, struct tcp_tr, tr);
	int fd = tcp_bind(t);

	int err = fd < 0 ? fd : tcp_login_start(t);

	if (err) {
		if (fd >= 0)
			close(fd);
		return err;
	}
	t->listen_fd = fd;
	tcp_bound(t);
	if (!tcp_is_loopback(t))
		log_warn("tcp: %s:%u: %s", t->host, t->port,
			 t->secrets ? "what hosts read and write can be read on its way: there is "
				      "no TLS"
				    : "whoever reaches this port may attach: there is neither "
				      "authentication nor TLS");
	log_info("tcp: %s:%u serves %s", t->host, t->port, tgt_subsys_nqn(t->ss));
	for (unsigned i = 0; i < t->node->nr; i++) {
		t->workers[i].start.fn = worker_start_at;
		mbox_post(t->node->reactors[i], &t->workers[i].start);
	}
	return 0;
}

/* ---- stopping ---- */

static void pollers_off(struct reactor_round *rd, struct reactor *r)
{
	struct tcp_tr *t = container_of(rd, struct tcp_tr, round);
	struct tcp_worker *w = &t->workers[reactor_id(r)];

	must(list_is_empty(&w->conns) && w->nr_hot == 0);
	reactor_poller_del(r, &w->poller);
}

static void tcp_stopped(struct reactor_round *rd)
{
	struct tcp_tr *t = container_of(rd, struct tcp_tr, round);

	close(t->listen_fd);
	t->listen_fd = -1;
	t->stopped(t->stopped_arg);
}

void tcp_gone(struct tcp_tr *t)
{
	if (!t->nr_conns && !t->nr_ctrls)
		t->alone_since_ns = reactor_now_ns(tcp_home_reactor(t));
	if (!t->is_stopping || t->nr_conns || t->nr_ctrls || t->is_polling || t->round.done)
		return;
	t->round.fn = pollers_off;
	t->round.done = tcp_stopped;
	reactor_round_start(&t->round, tcp_home_reactor(t), t->node->reactors, t->node->nr);
}

static void tcp_stop(struct tr *tr, void (*done)(void *arg), void *arg)
{
	struct tcp_tr *t = container_of(tr, struct tcp_tr, tr);
	struct tcp_ctrl *tc, *tmp;
	struct tcp_conn *c;

	must(!t->is_stopping);
	t->is_stopping = true;
	t->stopped = done;
	t->stopped_arg = arg;
	shutdown(t->listen_fd, SHUT_RDWR); /* ends the poll */
	timeout_cancel(&t->again);
	list_for_each_entry(c, &t->conns, node)
		if (!c->ctrl)
			tcp_conn_tell_close(c);
	list_for_each_entry_safe(tc, tmp, &t->ctrls, node)
		tcp_ctrl_drop(tc);
	tcp_gone(t);
}

static void tcp_destroy(struct tr *tr)
{
	struct tcp_tr *t = container_of(tr, struct tcp_tr, tr);

	must(t->nr_conns == 0 && t->listen_fd < 0);
	tcp_login_stop(t);
	for (unsigned i = 0; i < t->node->nr; i++)
		worker_fini(&t->workers[i]);
	free(t->workers);
	free(t->hosts);
	tcp_secrets_destroy(t->secrets);
	free(t);
}

static unsigned tcp_nr_hosts(struct tr *tr)
{
	return container_of(tr, struct tcp_tr, tr)->nr_ctrls;
}

static void tcp_refused(struct tr *tr, struct tr_refused *r)
{
	*r = container_of(tr, struct tcp_tr, tr)->refused;
}

static uint64_t tcp_alone_since_ns(struct tr *tr)
{
	const struct tcp_tr *t = container_of(tr, struct tcp_tr, tr);

	return t->nr_ctrls ? 0 : t->alone_since_ns;
}

static const struct tr_ops tcp_ops = {
	.name = "tcp",
	.start = tcp_start,
	.stop = tcp_stop,
	.destroy = tcp_destroy,
	.nr_hosts = tcp_nr_hosts,
	.refused = tcp_refused,
	.alone_since_ns = tcp_alone_since_ns,
};

uint16_t tcp_port(const struct tr *tr)
{
	return container_of(tr, const struct tcp_tr, tr)->port;
}

int tcp_create(struct tgt_subsys *ss, const struct tcp_opts *o, struct tr **tr)
{
	struct tcp_tr *t = calloc(1, sizeof(*t));
	int err = 0;

	if (!t)
		return -ENOMEM;
	t->tr.ops = &tcp_ops;
	t->ss = ss;
	t->node = tgt_subsys_node(ss);
	t->max_conns = o->max_conns ? o->max_conns : TCP_CONNS_DEFAULT;
	t->port = o->port;
	snprintf(t->host, sizeof(t->host), "%s", o->host);
	t->listen_fd = -1;
	list_init(&t->conns);
	list_init(&t->ctrls);
	list_init(&t->parties);
	list_init(&t->addrs);
	timeout_init(&t->again, tcp_again);
	t->workers = calloc(t->node->nr, sizeof(*t->workers));
	t->hosts = strdup(o->hosts ? o->hosts : "");
	if (!t->workers || !t->hosts) {
		free(t->workers);
		free(t->hosts);
		free(t);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < t->node->nr && !err; i++)
		err = worker_init(t, i);
	if (err) {
		tcp_destroy(&t->tr);
		return err;
	}
	t->secrets = o->secrets;
	*tr = &t->tr;
	return 0;
}
