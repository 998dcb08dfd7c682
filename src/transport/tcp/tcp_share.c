/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host's share of one worker, by the rule of tcp_party.c: what its connections here have of
 * requests and of buffers, and whether they may have more. Connections that haven't said whose they
 * are share one, on the home. On the worker.
 */
/* tidy: no-test: test/peer/tcp_bound.py */
#include "transport/tcp/tcp_int.h"

void tcp_share_init(struct tcp_share *s)
{
	list_init(&s->rx_wait);
	list_init(&s->tx_wait);
	list_init(&s->rx_turn);
	list_init(&s->tx_turn);
}

static void share_leave(struct tcp_conn *c)
{
	struct tcp_share *s = c->share;

	s->nr_out -= c->nr_bufs;
	must(c->nr_in == 0 && c->nr_reqs == 0 && s->nr_conns > 0);
	if (--s->nr_conns)
		return;
	must(s->nr_out == 0 && s->nr_in == 0 && s->nr_reqs == 0);
	c->w->nr_shares--;
	if (list_is_linked(&s->rx_turn))
		list_del(&s->rx_turn);
	if (list_is_linked(&s->tx_turn))
		list_del(&s->tx_turn);
}

void tcp_share_move(struct tcp_conn *c, struct tcp_share *s)
{
	if (c->share)
		share_leave(c);
	c->share = s;
	if (!s)
		return;
	s->nr_out += c->nr_bufs;
	if (s->nr_conns++ == 0)
		c->w->nr_shares++;
}

bool tcp_share_may_req(const struct tcp_conn *c)
{
	const struct pool *reqs = &c->w->tw->reqs;
	uint32_t others = reqs->nr / 4; /* for what isn't NVMe/TCP */
	struct tcp_quota q = {
		.has = c->share->nr_reqs, .more = 1, .keep = TCP_PARTY_KEPT(reqs->nr)};

	q.left = reqs->nr_free > others ? reqs->nr_free - others : 0;
	return tcp_party_may(c->w->nr_shares == 1, q);
}

bool tcp_share_may_in(const struct tcp_worker *w, const struct tcp_share *s, uint32_t nr)
{
	return tcp_party_may(w->nr_shares == 1,
			     (struct tcp_quota){.has = s->nr_in,
						.more = nr,
						.left = w->nr_rx,
						.keep = TCP_PARTY_KEPT(w->nr_bufs)});
}

bool tcp_share_may_out(const struct tcp_worker *w, const struct tcp_share *s, bool is_soft)
{
	uint32_t kept = is_soft ? 0 : TCP_BUFS_KEPT;
	struct tcp_quota q = {.has = s->nr_out, .more = 1};

	q.left = w->nr_tx > kept ? w->nr_tx - kept : 0;
	q.keep = is_soft ? 0 : TCP_PARTY_KEPT(w->nr_bufs - kept);
	return tcp_party_may(w->nr_shares == 1, q);
}
