/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command's request: what a connection takes of its worker's for as long as the command isn't
 * answered, and gives back. On the worker.
 */
/* tidy: no-test: test/peer/tcp_bound.py */
#include "transport/tcp/tcp_int.h"

struct tcp_req *tcp_req_get(struct tcp_conn *c)
{
	struct tcp_worker *w = c->w;
	struct tgt_req *req;
	struct tcp_req *tr;

	if (c->nr_reqs >= w->conn_reqs || !tcp_share_may_req(c))
		return NULL;
	req = pool_get(&w->tw->reqs);
	if (!req)
		return NULL;
	tr = &w->reqs[w->free_reqs[--w->nr_free_reqs]];
	*tr = (struct tcp_req){.conn = c, .req = req, .index = tr->index};
	list_init(&tr->node);
	list_init(&tr->wait);
	list_add_tail(&c->reqs, &tr->all);
	c->nr_reqs++;
	c->share->nr_reqs++;
	return tr;
}

void tcp_req_free(struct tcp_req *tr)
{
	struct tcp_conn *c = tr->conn;
	struct tcp_worker *w = c->w;

	tcp_send_disown(c, tr);
	list_del(&tr->all);
	if (list_is_linked(&tr->node))
		list_del(&tr->node);
	if (list_is_linked(&tr->wait))
		list_del(&tr->wait);
	must(c->rx_req != tr || c->state == TCP_CONN_CLOSING);
	must(c->nr_reqs > 0);
	c->nr_reqs--;
	c->share->nr_reqs--;
	pool_put(&w->tw->reqs, tr->req);
	tr->conn = NULL;
	for (unsigned i = 0; i < TCP_REQ_BUFS; i++)
		if (tr->in[i])
			tcp_buf_put_rx(c, tr->in[i]);
	w->free_reqs[w->nr_free_reqs++] = tr->index;
}
