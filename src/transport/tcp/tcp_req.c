/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command's request: what a connection takes of its worker's for as long as the command isn't
 * answered, and gives back. On the worker.
 */
/* tidy: no-test: test/peer/tcp_bound.py */
#include "transport/tcp/tcp_int.h"

#include <nvme/types.h>

#include "base/container.h"

bool tcp_req_is_event(const struct tcp_conn *c, const struct nvme_sqe *sqe)
{
	return c->sq.qid == 0 && sqe->opc == nvme_admin_async_event;
}

/* There are no more controllers than it has places for. */
static struct tcp_req *req_event(struct tcp_conn *c)
{
	struct tcp_event *e;

	if (c->nr_events == TGT_AERS_MAX)
		return NULL;
	e = pool_get(&c->w->events);
	must(e);
	e->tr = (struct tcp_req){.conn = c, .req = &e->req, .is_event = true};
	c->nr_events++;
	return &e->tr;
}

static struct tcp_req *req_other(struct tcp_conn *c)
{
	struct tcp_worker *w = c->w;
	struct tgt_req *req;
	struct tcp_req *tr;

	if (c->nr_reqs - c->nr_events >= w->conn_reqs || !tcp_share_may_req(c))
		return NULL;
	req = pool_get(&w->tw->reqs);
	if (!req)
		return NULL;
	tr = &w->reqs[w->free_reqs[--w->nr_free_reqs]];
	*tr = (struct tcp_req){.conn = c, .req = req, .index = tr->index};
	tcp_share_count(c->share, (struct tcp_part){.nr_reqs = 1});
	return tr;
}

struct tcp_req *tcp_req_get(struct tcp_conn *c, const struct nvme_sqe *sqe)
{
	struct tcp_req *tr = tcp_req_is_event(c, sqe) ? req_event(c) : req_other(c);

	if (!tr)
		return NULL;
	list_init(&tr->node);
	list_init(&tr->wait);
	list_add_tail(&c->reqs, &tr->all);
	c->nr_reqs++;
	return tr;
}

static void req_put(struct tcp_conn *c, struct tcp_req *tr)
{
	struct tcp_worker *w = c->w;

	if (tr->is_event) {
		c->nr_events--;
		pool_put(&w->events, container_of(tr, struct tcp_event, tr));
		return;
	}
	tcp_share_count(c->share, (struct tcp_part){.nr_reqs = -1u});
	pool_put(&w->tw->reqs, tr->req);
	for (unsigned i = 0; i < TCP_REQ_BUFS; i++)
		if (tr->in[i])
			tcp_buf_put_rx(c, tr->in[i]);
	w->free_reqs[w->nr_free_reqs++] = tr->index;
}

void tcp_req_free(struct tcp_req *tr)
{
	struct tcp_conn *c = tr->conn;

	tcp_send_disown(c, tr);
	list_del(&tr->all);
	if (list_is_linked(&tr->node))
		list_del(&tr->node);
	if (list_is_linked(&tr->wait))
		list_del(&tr->wait);
	must(c->rx_req != tr || c->state == TCP_CONN_CLOSING);
	must(c->nr_reqs > 0);
	c->nr_reqs--;
	c->nr_logs -= tr->is_log;
	tr->conn = NULL;
	req_put(c, tr);
}
