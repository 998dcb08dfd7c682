/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection's life.
 *
 *   home:    accept -> NEW --ICReq--> CONNECT --Connect, admin--> [AUTH ->] LIVE
 *                                        |
 *                                        +--Connect, I/O--> [AUTH ->] MOVING --message-->
 *   its worker: LIVE
 *   its worker, whoever that is: --any reason--> CLOSING --nothing under way--> gone --> freed
 *
 * A closing connection takes nothing more in; its commands are aborted, its transfers stopped, and
 * it goes when the last has been answered to nobody. Only tcp_conn_turn() lets go of a connection
 * (to another reactor, or for good), so that everything called from it may use what it was given.
 */
/* tidy: no-test: test/peer/tcp.py */
#include "transport/tcp/tcp_int.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/container.h"
#include "base/log.h"

#define CONN_TURN 64u /* connections that are looked at in one turn */

void tcp_conn_kick(struct tcp_conn *c)
{
	if (list_is_linked(&c->hot))
		return;
	list_add_tail(&c->w->hot, &c->hot);
	c->w->nr_hot++;
}

static void conn_unkick(struct tcp_conn *c)
{
	if (!list_is_linked(&c->hot))
		return;
	list_del(&c->hot);
	c->w->nr_hot--;
}

/* ---- deadlines ---- */

static bool conn_waits(const struct tcp_conn *c)
{
	return c->is_polling_out || c->nr_asked || c->is_last_word;
}

/* What is waited for, since when: the older of the two. */
static uint64_t conn_since(const struct tcp_conn *c)
{
	if (c->is_polling_out && c->nr_asked)
		return min_t(uint64_t, c->out_ns, c->asked_ns);
	return c->nr_asked ? c->asked_ns : c->out_ns;
}

/* It has one deadline for all of that. */
static bool conn_is_new(const struct tcp_conn *c)
{
	return c->state == TCP_CONN_NEW || c->state == TCP_CONN_CONNECT ||
	       c->state == TCP_CONN_AUTH;
}

static uint64_t conn_patience(const struct tcp_conn *c)
{
	return conn_is_new(c) ? TCP_HELLO_NS : TCP_STUCK_NS;
}

static void conn_late(struct timeout *t)
{
	struct tcp_conn *c = container_of(t, struct tcp_conn, late);
	bool is_new = conn_is_new(c);
	struct reactor *r = c->w->tw->reactor;
	uint64_t until = conn_since(c) + conn_patience(c);

	if (!is_new && !conn_waits(c))
		return;
	if (!is_new && reactor_now_ns(r) < until)
		timeout_set(r, t, until);
	else
		tcp_conn_close(c, is_new	      ? (c->state == TCP_CONN_AUTH
								 ? "it wasn't authenticated in time"
								 : "no Connect in time")
				  : c->is_polling_out ? "it doesn't read"
						      : "data that was asked for doesn't come");
}

void tcp_conn_late(struct tcp_conn *c)
{
	struct reactor *r = c->w->tw->reactor;

	if (timeout_is_set(&c->late))
		return;
	c->out_ns = reactor_now_ns(r);
	timeout_set(r, &c->late, c->out_ns + conn_patience(c));
}

/* ---- closing ---- */

static void conn_abort(struct tcp_conn *c)
{
	struct tcp_req *tr, *tmp;

	list_for_each_entry(tr, &c->reqs, all)
		if (list_is_linked(&tr->wait))
			list_del(&tr->wait);
	list_for_each_entry_safe(tr, tmp, &c->reqs, all) {
		if (tr->is_over)
			tcp_req_free(tr);
		else if (!tr->is_executed)
			tgt_req_complete(tr->req, NVME_ST_ABORTED);
		else
			mem_iter_more(c->w->tw->engine, &tr->it);
	}
}

void tcp_conn_close(struct tcp_conn *c, const char *why)
{
	bool was_live = c->state == TCP_CONN_LIVE, was_auth = c->state == TCP_CONN_AUTH;

	if (c->state == TCP_CONN_CLOSING)
		return;
	if (why)
		log_some_warn("tcp: %s: %s, closed", c->host, why);
	c->state = TCP_CONN_CLOSING;
	shutdown(c->fd, SHUT_RDWR); /* ends the polls that are under way */
	timeout_cancel(&c->late);
	if (was_auth)
		tcp_login_drop(c);
	if (was_live) {
		tgt_sq_deleted(&c->sq);
		c->flow.is_stopped = true;
		conn_abort(c);
	}
	tcp_conn_kick(c);
	if ((was_live || was_auth) && c->sq.qid == 0)
		tcp_ctrl_drop(c->ctrl);
}

void tcp_conn_fatal(struct tcp_conn *c, struct tcp_pdu_fault f, const void *hdr, uint32_t len)
{
	struct {
		struct nvme_tcp_term t;
		uint8_t hdr[NVME_TCP_TERM_DATA_MAX];
	} pdu = {.t = {.hdr = {.type = NVME_TCP_C2H_TERM, .hlen = sizeof(pdu.t)},
		       .fes = f.fes,
		       .info_lo = (uint16_t)f.info,
		       .info_hi = (uint16_t)(f.info >> 16)}};

	if (c->state == TCP_CONN_CLOSING || c->is_last_word)
		return;
	log_some_warn("tcp: %s: malformed PDU (FES %u, field %u), closed", c->host, f.fes, f.info);
	len = min_t(uint32_t, len, sizeof(pdu.hdr));
	memcpy(pdu.hdr, hdr, len);
	pdu.t.hdr.plen = (uint32_t)sizeof(pdu.t) + len;
	if (!tcp_send_raw(c, &pdu, pdu.t.hdr.plen))
		return;
	c->is_last_word = true;
	tcp_conn_late(c);
}

/* ---- at home ---- */

static void conn_free(struct tcp_conn *c)
{
	struct tcp_tr *t = c->tcp;

	if (!c->is_gone || c->nr_mail)
		return;
	list_del(&c->node);
	t->nr_conns--;
	close(c->fd);
	mem_region_put(c->own.reg);
	tcp_login_free(c);
	tcp_party_put(c, c->sq.qid == 0);
	if (c->ctrl)
		tcp_ctrl_gone(c->ctrl, c);
	free(c);
	tcp_gone(t);
}

static void conn_gone_home(struct mbox_msg *m)
{
	struct tcp_conn *c = container_of(m, struct tcp_conn, gone);

	c->is_gone = true;
	conn_free(c);
}

void tcp_conn_mail_back(struct tcp_conn *c)
{
	must(c->nr_mail > 0);
	c->nr_mail--;
	conn_free(c);
}

static void conn_close_back(struct mbox_msg *m)
{
	struct tcp_conn *c = container_of(m, struct tcp_conn, close);

	tcp_conn_mail_back(c);
}

static void conn_close_at(struct mbox_msg *m)
{
	struct tcp_conn *c = container_of(m, struct tcp_conn, close);

	/* Behind `gone` it finds a connection that is over, but not yet free. */
	if (c->state != TCP_CONN_CLOSING)
		tcp_conn_close(c, NULL);
	m->fn = conn_close_back;
	reactor_send(c->w->tw->reactor, tcp_home_reactor(c->tcp), m);
}

void tcp_conn_tell_close(struct tcp_conn *c)
{
	if (c->is_told || c->is_gone)
		return;
	c->is_told = true;
	c->nr_mail++;
	c->close.fn = conn_close_at;
	reactor_send(tcp_home_reactor(c->tcp), c->w->tw->reactor, &c->close);
}

/* ---- the way to its worker ---- */

static void conn_arrived(struct mbox_msg *m)
{
	struct tcp_conn *c = container_of(m, struct tcp_conn, move);
	struct nvme_cqe cqe = {.dw0 = tgt_ctrl_id(c->sq.ctrl),
			       .sq_head = c->has_flow ? (uint16_t)c->sqhd : 0xffff,
			       .cid = c->connect_cid};

	list_add_tail(&c->w->conns, &c->here);
	tcp_share_move(c, &c->party->of[c->w->id]);
	c->state = TCP_CONN_LIVE;
	if (c->is_answered)
		tcp_conn_kick(c);
	else
		tcp_send_resp(c, &cqe);
}

static void conn_leave(struct tcp_conn *c, struct tcp_worker *to)
{
	struct reactor *r = c->w->tw->reactor;

	conn_unkick(c);
	list_del(&c->here);
	timeout_cancel(&c->late);
	must(list_is_empty(&c->tx) && list_is_empty(&c->reqs));
	tcp_send_drop(c);
	tcp_share_move(c, NULL);
	c->w = to;
	c->move.fn = conn_arrived;
	reactor_send(r, to->tw->reactor, &c->move);
}

/*
 * What the home has said to the host so far goes first; a poll that is under way ends by itself.
 * Mail that is on its way to it was sent to where it is now: close, abort.
 */
static bool conn_may_leave(const struct tcp_conn *c)
{
	return list_is_empty(&c->tx) && !c->is_polling_in && !c->is_polling_out && !c->nr_mail;
}

/* ---- turns ---- */

static void conn_over(struct tcp_conn *c)
{
	struct reactor *r = c->w->tw->reactor;

	if (c->nr_reqs || c->is_polling_in || c->is_polling_out)
		return;
	tcp_send_drop(c);
	tcp_share_move(c, NULL);
	conn_unkick(c);
	list_del(&c->here);
	timeout_cancel(&c->late);
	c->gone.fn = conn_gone_home;
	reactor_send(r, tcp_home_reactor(c->tcp), &c->gone);
}

/* Who doesn't take its answers is asked for no more commands. */
static bool conn_takes(const struct tcp_conn *c)
{
	return c->state != TCP_CONN_CLOSING && c->state != TCP_CONN_MOVING && !c->is_last_word &&
	       list_is_empty(&c->done) && !tcp_buf_is_full(c) && !tcp_login_is_busy(c) &&
	       (c->sq.qid || c->own.refs == 0 || tcp_buf_has_room(c, 0));
}

static int conn_turn(struct tcp_conn *c)
{
	bool is_held = c->w->tw->is_held && c->state == TCP_CONN_LIVE && c->sq.qid;
	bool takes = conn_takes(c) && !is_held;
	int nr = 0;

	if (is_held)
		tcp_conn_kick(c);
	if (takes)
		nr += tcp_recv_turn(c);
	if (c->state != TCP_CONN_CLOSING)
		nr += tcp_send_turn(c);
	if (!takes && conn_takes(c))
		tcp_conn_kick(c);
	if (c->state == TCP_CONN_CLOSING)
		conn_over(c);
	else if (c->state == TCP_CONN_MOVING && conn_may_leave(c))
		conn_leave(c, c->to);
	else if (c->state == TCP_CONN_MOVING)
		tcp_conn_kick(c);
	return nr;
}

int tcp_conn_turn(struct tcp_worker *w)
{
	int nr = 0;

	for (uint32_t n = min_t(uint32_t, w->nr_hot, CONN_TURN); n; n--) {
		struct tcp_conn *c = list_first_entry(&w->hot, struct tcp_conn, hot);

		conn_unkick(c);
		nr += conn_turn(c);
	}
	return nr;
}

/* ---- the beginning ---- */

static void conn_socket(int fd)
{
	int one = 1, ms = (int)(TCP_STUCK_NS / 1000000), idle_s = 45, again_s = 10;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	/* A host that is no more there, seen from data that it doesn't acknowledge. */
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
	/* ... and from silence, which is no other than that of a host with nothing to do. */
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &again_s, sizeof(again_s));
}

static void conn_addr(const struct sockaddr_storage *sa, socklen_t len, char addr[64],
		      char port[16])
{
	if (getnameinfo((const void *)sa, len, addr, 64, port, 16,
			NI_NUMERICHOST | NI_NUMERICSERV)) {
		strcpy(addr, "?");
		strcpy(port, "?");
	}
}

void tcp_conn_local(const struct tcp_conn *c, char addr[64])
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	char port[16];

	strcpy(addr, "?");
	if (getsockname(c->fd, (void *)&sa, &len) == 0)
		conn_addr(&sa, len, addr, port);
}

static void conn_peer(struct tcp_conn *c)
{
	struct sockaddr_storage sa = {0};
	socklen_t len = sizeof(sa);
	char addr[64] = "?", port[16] = "?";

	if (getpeername(c->fd, (void *)&sa, &len) == 0)
		conn_addr(&sa, len, addr, port);
	snprintf(c->host, sizeof(c->host), "%.45s:%.15s", addr, port);
	tcp_party_addr(&sa, c->addr);
}

static int conn_room(struct tcp_conn *c)
{
	c->own = (struct tcp_buf){.p = c->room, .bytes = sizeof(c->room)};
	c->own.reg = mem_host_wrap(c->room, sizeof(c->room), MEM_READABLE | MEM_WRITABLE);
	return c->own.reg ? 0 : -ENOMEM;
}

int tcp_conn_create(struct tcp_tr *t, int fd)
{
	struct tcp_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->tcp = t;
	c->w = tcp_home(t);
	c->fd = fd;
	c->size = 1; /* of the queue that it isn't yet */
	conn_peer(c);
	if (!tcp_party_may_knock(t, c->addr)) {
		free(c);
		return -EUSERS;
	}
	if (conn_room(c)) {
		free(c);
		return -ENOMEM;
	}
	list_init(&c->hot);
	list_init(&c->reqs);
	list_init(&c->tx);
	list_init(&c->done);
	list_init(&c->asks);
	list_init(&c->rx_wait);
	list_init(&c->tx_wait);
	mem_flow_init(&c->flow);
	timeout_init(&c->late, conn_late);
	conn_socket(fd);
	list_add_tail(&t->conns, &c->node);
	t->nr_conns++;
	list_add_tail(&c->w->conns, &c->here);
	tcp_share_move(c, &c->w->strangers);
	tcp_conn_late(c);
	tcp_conn_kick(c);
	return 0;
}
