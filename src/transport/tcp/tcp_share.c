/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host's share of one worker, by the rule of tcp_party.c: what its connections here have of
 * requests and of buffers, and whether they may have more. Connections that haven't said whose they
 * are share one, on the home, as if they were of one more address. On the worker.
 */
/* tidy: no-test: test/peer/tcp_bound.py */
#include "transport/tcp/tcp_int.h"

void tcp_share_init(struct tcp_share *s, struct tcp_part *addr)
{
	s->addr = addr;
	list_init(&s->rx_wait);
	list_init(&s->tx_wait);
	list_init(&s->rx_turn);
	list_init(&s->tx_turn);
}

static void share_leave(struct tcp_conn *c)
{
	struct tcp_share *s = c->share;

	must(c->nr_in == 0 && c->nr_reqs == 0 && s->has.nr_conns > 0);
	tcp_share_count(s, (struct tcp_part){.nr_conns = -1u, .nr_out = -c->nr_bufs});
	c->w->nr_addrs -= s->addr->nr_conns == 0;
	if (s->has.nr_conns)
		return;
	must(s->has.nr_out == 0 && s->has.nr_in == 0 && s->has.nr_reqs == 0);
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
	c->w->nr_addrs += s->addr->nr_conns == 0;
	c->w->nr_shares += s->has.nr_conns == 0;
	tcp_share_count(s, (struct tcp_part){.nr_conns = 1, .nr_out = c->nr_bufs});
}

/* With who else is there. */
static bool share_may(const struct tcp_worker *w, struct tcp_quota q)
{
	q.is_alone = w->nr_shares == 1;
	q.is_addr_alone = w->nr_addrs == 1;
	return tcp_party_may(q);
}

bool tcp_share_may_req(const struct tcp_conn *c)
{
	const struct pool *reqs = &c->w->tw->reqs;
	uint32_t others = reqs->nr / 4; /* for what isn't NVMe/TCP */
	struct tcp_quota q = {.has = c->share->has.nr_reqs,
			      .addr_has = c->share->addr->nr_reqs,
			      .more = 1,
			      .keep = TCP_PARTY_KEPT(reqs->nr)};

	q.left = reqs->nr_free > others ? reqs->nr_free - others : 0;
	return share_may(c->w, q);
}

bool tcp_share_may_in(const struct tcp_worker *w, const struct tcp_share *s, uint32_t nr)
{
	return share_may(w, (struct tcp_quota){.has = s->has.nr_in,
					       .addr_has = s->addr->nr_in,
					       .more = nr,
					       .left = w->nr_rx,
					       .keep = TCP_PARTY_KEPT(w->nr_bufs)});
}

bool tcp_share_may_out(const struct tcp_worker *w, const struct tcp_share *s, bool is_soft)
{
	uint32_t kept = is_soft ? 0 : TCP_BUFS_KEPT;
	struct tcp_quota q = {.has = s->has.nr_out, .addr_has = s->addr->nr_out, .more = 1};

	q.left = w->nr_tx > kept ? w->nr_tx - kept : 0;
	q.keep = is_soft ? 0 : TCP_PARTY_KEPT(w->nr_bufs - kept);
	return share_may(w, q);
}
