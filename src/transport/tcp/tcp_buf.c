/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The buffers of a worker, which its connections share: those of the way in are a command's, put
 * aside before the host is asked for data; those of the way out hold PDUs until the socket has
 * taken them. A connection has TCP_CONN_BUFS of the way out at most, so one that isn't read can't
 * keep the others from answering, and all of a host's together have the part that tcp_party.c says.
 * Beside them each has a small one of its own, for the handshake, answers, Identify and logs: who
 * reads its answers gets them whatever others keep.
 * Who finds none waits in line; hosts have lines of their own, which take turns.
 */
/* tidy: no-test: test/peer/tcp.py */
#include "transport/tcp/tcp_int.h"

bool tcp_buf_get_rx(struct tcp_conn *c, struct tcp_buf **bufs, unsigned nr)
{
	if (c->nr_in + nr > TCP_CONN_IN || !tcp_share_may_in(c->w, c->share, nr))
		return false;
	c->nr_in += nr;
	tcp_share_count(c->share, (struct tcp_part){.nr_in = nr});
	while (nr--)
		bufs[nr] = c->w->free_rx[--c->w->nr_rx];
	return true;
}

/* Of those that wait: because their connection has its share, or because there was none left. */
static struct tcp_req *buf_first(struct list *waiting)
{
	struct tcp_req *tr;

	if (list_is_empty(waiting))
		return NULL;
	tr = list_first_entry(waiting, struct tcp_req, wait);
	list_del(&tr->wait);
	return tr;
}

/*
 * The first in line; if it can't have what it needs it is in line again, and so is everybody behind
 * it: who needs two doesn't wait for ever while others take one.
 */
static void wake_rx_line(struct list *waiting)
{
	struct tcp_req *tr;

	while ((tr = buf_first(waiting))) {
		tcp_recv_ask(tr);
		if (!list_is_linked(&tr->wait))
			continue;
		if (waiting->prev == &tr->wait) {
			list_del(&tr->wait);
			list_add_head(waiting, &tr->wait);
			return;
		}
	}
}

/*
 * The hosts in turn. One that has its part, or whose address has it, is passed by; one that needs
 * what there isn't holds up the others, as above.
 */
static void wake_rx_shares(struct tcp_worker *w)
{
	for (unsigned n = w->nr_shares; n && !list_is_empty(&w->rx_wait); n--) {
		struct tcp_share *s = list_first_entry(&w->rx_wait, struct tcp_share, rx_turn);

		wake_rx_line(&s->rx_wait);
		if (!list_is_empty(&s->rx_wait) && s->has.nr_in == 0 &&
		    (w->nr_addrs == 1 || s->addr->nr_in == 0))
			return;
		list_del(&s->rx_turn);
		if (!list_is_empty(&s->rx_wait))
			list_add_tail(&w->rx_wait, &s->rx_turn);
	}
}

static void wake_rx(struct tcp_conn *c)
{
	wake_rx_line(&c->rx_wait);
	wake_rx_shares(c->w);
}

void tcp_buf_wait_rx(struct tcp_req *tr)
{
	struct tcp_conn *c = tr->conn;

	if (list_is_linked(&tr->wait))
		return;
	if (c->nr_in + TCP_REQ_BUFS > TCP_CONN_IN) {
		list_add_tail(&c->rx_wait, &tr->wait);
		return;
	}
	list_add_tail(&c->share->rx_wait, &tr->wait);
	if (!list_is_linked(&c->share->rx_turn))
		list_add_tail(&c->w->rx_wait, &c->share->rx_turn);
}

void tcp_buf_put_rx(struct tcp_conn *c, struct tcp_buf *b)
{
	must(c->nr_in > 0);
	c->nr_in--;
	tcp_share_count(c->share, (struct tcp_part){.nr_in = -1u});
	c->w->free_rx[c->w->nr_rx++] = b;
	wake_rx(c);
}

static bool buf_may_tx(const struct tcp_conn *c, bool is_soft)
{
	return c->nr_bufs < (is_soft ? 2 : 1) * TCP_CONN_BUFS &&
	       tcp_share_may_out(c->w, c->share, is_soft);
}

static bool buf_is_own_free(const struct tcp_conn *c, uint32_t len)
{
	return c->own.refs == 0 && len <= c->own.bytes;
}

struct tcp_buf *tcp_buf_get_tx(struct tcp_conn *c, bool is_soft, uint32_t len)
{
	struct tcp_worker *w = c->w;
	struct tcp_buf *b;

	if (is_soft && buf_is_own_free(c, len)) {
		c->own.refs = 1;
		return &c->own;
	}
	if (!buf_may_tx(c, is_soft))
		return NULL;
	b = w->free_tx[--w->nr_tx];
	b->refs = 1;
	c->nr_bufs++;
	tcp_share_count(c->share, (struct tcp_part){.nr_out = 1});
	return b;
}

/* One answer is sure of the connection's own room, which nobody else takes: the first. */
bool tcp_buf_has_room(const struct tcp_conn *c, uint32_t len)
{
	if (!tcp_send_may_seg(c))
		return false;
	if (c->nr_logs == 0 &&
	    (buf_is_own_free(c, len) || (c->txb && c->txb->bytes - c->txb_at >= len)))
		return true;
	return buf_may_tx(c, true);
}

static void buf_more(struct tcp_worker *w, struct list *waiting)
{
	struct tcp_req *tr = buf_first(waiting);

	if (tr)
		mem_iter_more(w->tw->engine, &tr->it);
}

/* One for which there is a buffer, of the host whose turn it is. */
static void wake_tx_shares(struct tcp_worker *w)
{
	for (unsigned n = w->nr_shares; n && !list_is_empty(&w->tx_wait); n--) {
		struct tcp_share *s = list_first_entry(&w->tx_wait, struct tcp_share, tx_turn);

		list_del(&s->tx_turn);
		if (list_is_empty(&s->tx_wait))
			continue;
		list_add_tail(&w->tx_wait, &s->tx_turn);
		if (tcp_share_may_out(w, s, false)) {
			buf_more(w, &s->tx_wait);
			return;
		}
	}
}

void tcp_buf_wait_tx(struct tcp_req *tr)
{
	struct tcp_conn *c = tr->conn;

	if (list_is_linked(&tr->wait))
		return;
	if (!tcp_buf_is_full(c)) {
		list_add_tail(&c->share->tx_wait, &tr->wait);
		if (!list_is_linked(&c->share->tx_turn))
			list_add_tail(&c->w->tx_wait, &c->share->tx_turn);
		return;
	}
	/* It was woken for a buffer that it may not have: the next one. */
	list_add_tail(&c->tx_wait, &tr->wait);
	wake_tx_shares(c->w);
}

bool tcp_buf_is_full(const struct tcp_conn *c)
{
	return c->nr_bufs >= TCP_CONN_BUFS || c->nr_segs >= TCP_CONN_SEGS;
}

void tcp_buf_unref_tx(struct tcp_conn *c, struct tcp_buf *b)
{
	must(b->refs > 0);
	if (--b->refs || b == &c->own)
		return;
	must(c->nr_bufs > 0);
	c->nr_bufs--;
	tcp_share_count(c->share, (struct tcp_part){.nr_out = -1u});
	c->w->free_tx[c->w->nr_tx++] = b;
	buf_more(c->w, &c->tx_wait);
	wake_tx_shares(c->w);
}
