/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command's data as a mem_iter: what the command set sees of this transport.
 *
 *   from the host  next() hands out what has come: of the capsule, then of the buffers that R2Ts
 *                  fill; nothing there is -EAGAIN, and the next R2T is on its way
 *   to the host    next() makes a C2HData PDU in a send buffer and hands out its data; filled()
 *                  says that so much of it is there and right, and a full PDU may go. No buffer
 *                  is -EAGAIN: a host that doesn't read stops its own transfers
 *
 * All on the worker.
 */
/* tidy: no-test: test/peer/tcp.py */
#include "transport/tcp/tcp_int.h"

#include <errno.h>
#include <string.h>

#include "base/container.h"

#define IN_BEHIND_MAX 20480u /* the seals of the largest value, and some */

/* ---- from the host ---- */

static uint32_t in_slot(uint32_t at)
{
	return at / TCP_BUF_BYTES % TCP_REQ_BUFS;
}

/* The buffer that `at` lies in is taken to its end: it may be filled again. */
static void in_taken(struct tcp_req *tr)
{
	uint32_t slot = in_slot(tr->taken - 1);

	if (tr->is_capsule || (tr->taken % TCP_BUF_BYTES && tr->taken < tr->total))
		return;
	tr->is_in_use[slot] = false;
	tcp_recv_ask(tr);
}

/*
 * A chunk is handed out when all of it has come, and the last of them when what follows the value
 * has (STORE_EX's seals), which is fetched at once.
 */
static bool in_is_short(const struct tcp_req *tr, uint64_t max)
{
	return tr->came < min_t(uint64_t, tr->want, tr->taken + max + IN_BEHIND_MAX);
}

/*
 * What was handed out last has been used when the next is asked for, so a buffer is given back
 * one call behind.
 */
static int in_next(struct mem_iter *it, uint64_t max, struct mem_run *run)
{
	struct tcp_req *tr = container_of(it, struct tcp_req, it);
	struct tcp_conn *c = tr->conn;
	uint32_t n;

	if (tr->gave) {
		tr->taken += tr->gave;
		tr->gave = 0;
		in_taken(tr);
	}
	if (c->state == TCP_CONN_CLOSING)
		return -ECANCELED;
	if (tr->is_broken)
		return -EFAULT;
	if (tr->taken >= tr->want)
		return -ENODATA;
	tcp_recv_ask(tr);
	if (in_is_short(tr, max))
		return -EAGAIN;
	n = (uint32_t)min_t(uint64_t, max, tr->want - tr->taken);
	if (tr->is_capsule) {
		*run = (struct mem_run){c->w->caps_reg,
					(uint64_t)tr->index * TCP_CAPSULE_MAX + tr->taken, n};
	} else {
		struct tcp_buf *b = tr->in[in_slot(tr->taken)];

		n = min_t(uint32_t, n, TCP_BUF_BYTES - tr->taken % TCP_BUF_BYTES);
		*run = (struct mem_run){b->reg, b->off + tr->taken % TCP_BUF_BYTES, n};
	}
	tr->gave = n;
	return 0;
}

/* ---- to the host ---- */

/* List, logs, what lies in front of a value: put at once, they can't wait for room. */
static bool out_is_soft(const struct tcp_req *tr)
{
	uint8_t opc = tr->req->sqe.opc;

	return tr->req->sq->qid == 0 || (opc != NVME_KV_RETRIEVE && opc != 0x82);
}

uint32_t tcp_data_overhead(const struct tcp_conn *c)
{
	return (uint32_t)sizeof(struct nvme_tcp_data) +
	       (c->digests & NVME_TCP_HDGST ? NVME_TCP_DIGEST_BYTES : 0) +
	       (c->digests & NVME_TCP_DDGST ? NVME_TCP_DIGEST_BYTES : 0);
}

/*
 * Room for that much data, a chunk at most, and its header, in the open buffer or a new one: how
 * much, 0 = none.
 */
static uint32_t out_room(struct tcp_conn *c, uint64_t max, bool is_soft)
{
	uint32_t over = tcp_data_overhead(c);
	uint32_t want = (uint32_t)min_t(uint64_t, max, MEM_CHUNK_BYTES);

	if (!c->txb || c->txb->bytes - c->txb_at < over + want) {
		struct tcp_buf *b = tcp_buf_get_tx(c, is_soft, over + want);

		if (!b)
			return 0;
		if (c->txb)
			tcp_buf_unref_tx(c, c->txb);
		c->txb = b;
		c->txb_at = 0;
	}
	return want;
}

static void out_header(struct tcp_req *tr, uint32_t off, uint32_t len)
{
	struct tcp_conn *c = tr->conn;
	uint8_t pdo = (uint8_t)(sizeof(struct nvme_tcp_data) +
				(c->digests & NVME_TCP_HDGST ? NVME_TCP_DIGEST_BYTES : 0));
	struct nvme_tcp_data h = {
		.hdr = {.type = NVME_TCP_C2H_DATA,
			.flags = c->digests,
			.hlen = sizeof(h),
			.pdo = pdo,
			.plen = tcp_data_overhead(c) + len},
		.cid = tr->req->sqe.cid,
		.off = tr->came,
		.len = len,
	};

	memcpy(c->txb->p + off, &h, sizeof(h));
}

static int out_next(struct mem_iter *it, uint64_t max, struct mem_run *run)
{
	struct tcp_req *tr = container_of(it, struct tcp_req, it);
	struct tcp_conn *c = tr->conn;
	bool is_soft = out_is_soft(tr);
	struct tcp_seg *s;
	uint32_t n;

	if (c->state == TCP_CONN_CLOSING || c->is_last_word)
		return -ECANCELED; /* nothing may follow that */
	if (tr->came >= tr->want)
		return -ENODATA;
	n = is_soft || !tcp_buf_is_full(c)
		    ? out_room(c, min_t(uint64_t, max, tr->want - tr->came), is_soft)
		    : 0;
	s = n ? tcp_send_seg(c, c->txb, c->txb_at, tcp_data_overhead(c) + n) : NULL;
	if (!s) {
		if (!is_soft)
			tcp_buf_wait_tx(tr);
		return -EAGAIN;
	}
	tr->seg = s;
	if (!tr->open)
		tr->open = s;
	s->owner = tr;
	s->state = TCP_SEG_OPEN;
	s->nr_digest = c->digests & NVME_TCP_DDGST ? NVME_TCP_DIGEST_BYTES : 0;
	out_header(tr, c->txb_at, n);
	*run = (struct mem_run){c->txb->reg,
				c->txb->off + c->txb_at + tcp_data_overhead(c) - s->nr_digest, n};
	c->txb_at += s->len;
	tr->came += n;
	tr->has_sent = true;
	return 0;
}

/* The PDU behind s that is to be filled next. */
static struct tcp_seg *out_open(struct tcp_req *tr, struct tcp_seg *s)
{
	if (s == tr->seg)
		return NULL;
	do {
		s = list_first_entry(&s->node, struct tcp_seg, node);
	} while (s->owner != tr);
	return s;
}

static void out_filled(struct mem_iter *it, uint64_t bytes)
{
	struct tcp_req *tr = container_of(it, struct tcp_req, it);
	struct tcp_conn *c = tr->conn;
	struct tcp_seg *s;
	uint64_t n;

	for (; bytes; bytes -= n) {
		s = tr->open;
		must(s);
		n = min_t(uint64_t, bytes, s->len - tcp_data_overhead(c) - s->filled);
		s->filled += (uint32_t)n;
		if (s->filled < s->len - tcp_data_overhead(c))
			return;
		tr->open = out_open(tr, s);
		tcp_send_ready(c, s, false);
		tcp_conn_kick(c);
	}
}

/* ---- to the host, held back ---- */

/* List says how many keys there are when it has them all, in front of them. */
static bool out_is_held(const struct tgt_req *req)
{
	return req->sqe.opc == NVME_KV_LIST && req->sq->qid;
}

static void out_kept(struct mem_iter *it, uint64_t bytes)
{
	struct tcp_req *tr = container_of(it, struct tcp_req, it);

	if (!tr->head)
		tr->head = tr->open;
	tr->open = NULL; /* a PDU is put in one piece */
}

/* Its beginning once more: what the first PDU has, and no more. */
static int out_again(struct mem_iter *it, uint64_t max, struct mem_run *run)
{
	struct tcp_req *tr = container_of(it, struct tcp_req, it);
	struct tcp_conn *c = tr->conn;
	uint32_t hdr = tcp_data_overhead(c) -
		       (c->digests & NVME_TCP_DDGST ? NVME_TCP_DIGEST_BYTES : 0);
	struct tcp_seg *s = tr->head;

	if (!s || max > s->len - tcp_data_overhead(c))
		return -ENODATA;
	*run = (struct mem_run){s->buf->reg, s->buf->off + s->off + hdr, max};
	return 0;
}

/* ---- what target/ sees ---- */

/*
 * A transfer that is begun anew (its value was replaced while it was read) can't take back what is
 * sent: the host is told to ask again.
 */
static uint16_t data_init(struct tgt_req *req, uint64_t len, enum mem_xfer_dir dir)
{
	struct tcp_req *tr = req->tr;
	enum tcp_dir want = dir == MEM_FROM_PEER ? TCP_FROM_HOST : TCP_TO_HOST;

	if (tr->dir != want)
		return NVME_ST_INVALID_FIELD;
	if (len > tr->total)
		return NVME_ST_SGL_LEN;
	req->iter = &tr->it;
	if (tr->head) {
		tr->it = (struct mem_iter){.next = out_again};
		return NVME_ST_OK;
	}
	if (tr->has_sent || tr->taken || tr->gave)
		return NVME_ST_TRANSIENT_TRANSPORT;
	tr->want = (uint32_t)len;
	tr->it = (struct mem_iter){.next = dir == MEM_FROM_PEER ? in_next : out_next,
				   .is_by_chunk = true};
	if (dir == MEM_TO_PEER)
		tr->it.filled = out_is_held(req) ? out_kept : out_filled;
	return NVME_ST_OK;
}

/* R2T that wasn't sent yet is taken back; what was sent has to come before the host may go on. */
static bool respond_waits(struct tcp_req *tr)
{
	if (tr->asked > tr->came && list_is_linked(&tr->node)) {
		list_del(&tr->node);
		tr->asked = tr->r2t_at;
		tr->conn->nr_asked--;
	}
	return tr->dir == TCP_FROM_HOST && tr->asked > tr->came;
}

static void data_respond(struct tgt_req *req)
{
	struct tcp_req *tr = req->tr;
	struct tcp_conn *c = tr->conn;

	if (list_is_linked(&tr->wait))
		list_del(&tr->wait);
	if (tr->head && req->status == NVME_ST_OK)
		tcp_send_held(c, tr);
	else if (tr->seg && !tr->open && req->status == NVME_ST_OK)
		tcp_send_ready(c, tr->seg, true);
	tcp_send_disown(c, tr);
	if (c->state == TCP_CONN_CLOSING || req->watch & TGT_WATCH_SILENT) {
		tcp_req_free(tr);
		tcp_conn_kick(c);
		return;
	}
	tr->is_over = true;
	if (respond_waits(tr))
		return;
	list_add_tail(&c->done, &tr->node);
	tcp_conn_kick(c);
}

const struct tgt_sq_ops tcp_sq_ops = {
	.respond = data_respond,
	.data = data_init,
};
