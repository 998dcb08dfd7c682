/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way out of one connection. PDUs lie in send buffers; tx is the list of their stretches in
 * the order of the stream, and what is READY at its head is given to the socket in one sendmsg().
 *
 *   small PDUs and C2HData share the buffer that is open (txb) one after the other; a stretch
 *   behind one that is still OPEN waits, which is as long as a transfer takes from one chunk to
 *   the next
 *
 * Answers and R2Ts that find no room wait in `done` and `asks` until some has gone. On the
 * connection's worker.
 */
/* tidy: no-test: test/peer/tcp.py */
#include "transport/tcp/tcp_int.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "base/container.h"
#include "base/hash.h"

/* Each connection that there may be has some of its own. */
bool tcp_send_may_seg(const struct tcp_conn *c)
{
	return c->nr_segs < TCP_OWN_SEGS || c->w->segs.nr_free > TCP_OWN_SEGS * c->tcp->max_conns;
}

struct tcp_seg *tcp_send_seg(struct tcp_conn *c, struct tcp_buf *b, uint32_t off, uint32_t len)
{
	struct tcp_seg *s = tcp_send_may_seg(c) ? pool_get(&c->w->segs) : NULL;

	if (!s)
		return NULL;
	c->nr_segs++;
	*s = (struct tcp_seg){.buf = b, .off = off, .len = len, .state = TCP_SEG_READY};
	b->refs++;
	list_add_tail(&c->tx, &s->node);
	return s;
}

static void send_free(struct tcp_conn *c, struct tcp_seg *s)
{
	must(s->state != TCP_SEG_OPEN);
	if (s->owner && s->owner->seg == s)
		s->owner->seg = NULL;
	list_del(&s->node);
	c->nr_segs--;
	tcp_buf_unref_tx(c, s->buf);
	pool_put(&c->w->segs, s);
}

static void send_digest(uint8_t *p, uint32_t len)
{
	uint32_t crc = hash_crc32c(p, len, 0);

	memcpy(p + len, &crc, sizeof(crc));
}

static uint32_t send_hdr_digest(const struct tcp_conn *c)
{
	return c->digests & NVME_TCP_HDGST ? NVME_TCP_DIGEST_BYTES : 0;
}

/*
 * Header and data of a C2HData PDU lie there; so is told what is known now. LAST may be said later,
 * as long as it isn't sent.
 */
void tcp_send_ready(struct tcp_conn *c, struct tcp_seg *s, bool is_last)
{
	uint8_t *p = s->buf->p + s->off; /* at any address: bytes of the stream */
	uint32_t hdr = sizeof(struct nvme_tcp_data);

	if (is_last && c->tx_sent && list_first_entry(&c->tx, struct tcp_seg, node) == s)
		return; /* its header has gone; hosts go by the offsets */
	if (is_last)
		p[offsetof(struct nvme_tcp_hdr, flags)] |= NVME_TCP_LAST;
	if (c->digests & NVME_TCP_HDGST)
		send_digest(p, hdr);
	hdr += send_hdr_digest(c);
	if (s->nr_digest && s->state == TCP_SEG_OPEN)
		send_digest(p + hdr, s->len - hdr - NVME_TCP_DIGEST_BYTES);
	s->state = TCP_SEG_READY;
}

void tcp_send_held(struct tcp_conn *c, struct tcp_req *tr)
{
	struct tcp_seg *s;

	list_for_each_entry(s, &c->tx, node)
		if (s->owner == tr)
			tcp_send_ready(c, s, s == tr->seg);
}

void tcp_send_disown(struct tcp_conn *c, struct tcp_req *tr)
{
	struct tcp_seg *s;

	if (!tr->seg && !tr->open)
		return;
	list_for_each_entry(s, &c->tx, node) {
		if (s->owner != tr)
			continue;
		s->owner = NULL;
		if (s->state == TCP_SEG_OPEN)
			s->state = TCP_SEG_VOID;
	}
	tr->seg = tr->open = tr->head = NULL;
}

void tcp_send_drop(struct tcp_conn *c)
{
	struct tcp_seg *s, *tmp;

	list_for_each_entry_safe(s, tmp, &c->tx, node)
		send_free(c, s);
	if (c->txb)
		tcp_buf_unref_tx(c, c->txb);
	c->txb = NULL;
}

/* Room of `len` bytes in the open buffer; the stretch before it grows if it may. */
static bool send_room(struct tcp_conn *c, uint32_t len)
{
	if (c->txb && c->txb->bytes - c->txb_at >= len)
		return true;
	if (c->txb)
		tcp_buf_unref_tx(c, c->txb);
	c->txb = tcp_buf_get_tx(c, true, len);
	c->txb_at = 0;
	return c->txb != NULL;
}

bool tcp_send_pdu(struct tcp_conn *c, uint32_t len, uint8_t **p)
{
	struct tcp_seg *s = list_is_empty(&c->tx) ? NULL
						  : list_last_entry(&c->tx, struct tcp_seg, node);

	if (!send_room(c, len))
		return false;
	if (s && s->state == TCP_SEG_READY && !s->owner && s->buf == c->txb &&
	    s->off + s->len == c->txb_at)
		s->len += len;
	else if (!tcp_send_seg(c, c->txb, c->txb_at, len))
		return false;
	*p = c->txb->p + c->txb_at;
	c->txb_at += len;
	return true;
}

bool tcp_send_raw(struct tcp_conn *c, const void *pdu, uint32_t len)
{
	uint8_t *p;

	if (!tcp_send_pdu(c, len, &p)) {
		tcp_conn_close(c, "no buffer to answer it");
		return false;
	}
	memcpy(p, pdu, len);
	tcp_conn_kick(c);
	return true;
}

static struct nvme_tcp_hdr send_hdr(const struct tcp_conn *c, uint8_t type, uint8_t hlen)
{
	return (struct nvme_tcp_hdr){
		.type = type,
		.flags = c->digests & NVME_TCP_HDGST,
		.hlen = hlen,
		.plen = hlen + send_hdr_digest(c),
	};
}

/* A PDU that is a header alone, with its digest. */
static bool send_header(struct tcp_conn *c, const void *pdu)
{
	const struct nvme_tcp_hdr *h = pdu;
	uint8_t *p;

	if (!tcp_send_pdu(c, h->plen, &p))
		return false;
	memcpy(p, pdu, h->hlen);
	if (h->flags & NVME_TCP_HDGST)
		send_digest(p, h->hlen);
	return true;
}

static bool send_cqe(struct tcp_conn *c, const struct nvme_cqe *cqe)
{
	struct nvme_tcp_resp r = {.hdr = send_hdr(c, NVME_TCP_RESP, sizeof(r)), .cqe = *cqe};

	return send_header(c, &r);
}

bool tcp_send_resp(struct tcp_conn *c, const struct nvme_cqe *cqe)
{
	if (!send_cqe(c, cqe)) {
		tcp_conn_close(c, "no buffer to answer it");
		return false;
	}
	tcp_conn_kick(c);
	return true;
}

bool tcp_send_data(struct tcp_conn *c, uint16_t cid, const void *data, uint32_t len)
{
	struct nvme_tcp_data h = {.hdr = send_hdr(c, NVME_TCP_C2H_DATA, sizeof(h)), .cid = cid};
	uint8_t *p;

	h.hdr.flags = c->digests | NVME_TCP_LAST;
	h.hdr.pdo = (uint8_t)h.hdr.plen;
	h.hdr.plen = tcp_data_overhead(c) + len;
	h.len = len;
	if (!tcp_send_pdu(c, h.hdr.plen, &p)) {
		tcp_conn_close(c, "no buffer to answer it");
		return false;
	}
	memcpy(p, &h, sizeof(h));
	if (c->digests & NVME_TCP_HDGST)
		send_digest(p, sizeof(h));
	memcpy(p + h.hdr.pdo, data, len);
	if (c->digests & NVME_TCP_DDGST)
		send_digest(p + h.hdr.pdo, len);
	tcp_conn_kick(c);
	return true;
}

static bool send_answer(struct tcp_conn *c, struct tcp_req *tr)
{
	const struct tgt_req *req = tr->req;
	struct nvme_cqe cqe = {
		.dw0 = req->dw0,
		.dw1 = req->dw1,
		.sq_head = c->has_flow ? (uint16_t)c->sqhd : 0xffff,
		.cid = req->sqe.cid,
		.status = nvme_status_wire(req->status, 0),
	};

	return send_cqe(c, &cqe);
}

static bool send_r2t(struct tcp_conn *c, struct tcp_req *tr)
{
	struct nvme_tcp_data r = {
		.hdr = send_hdr(c, NVME_TCP_R2T, sizeof(r)),
		.cid = tr->req->sqe.cid,
		.ttag = tr->index,
		.off = tr->r2t_at,
		.len = tr->r2t_len,
	};

	return send_header(c, &r);
}

static int send_fill(struct tcp_conn *c)
{
	struct tcp_req *tr;
	int nr = 0;

	while (!list_is_empty(&c->asks)) {
		tr = list_first_entry(&c->asks, struct tcp_req, node);
		if (!send_r2t(c, tr))
			return nr;
		list_del(&tr->node);
		nr++;
	}
	while (!list_is_empty(&c->done)) {
		tr = list_first_entry(&c->done, struct tcp_req, node);
		if (!send_answer(c, tr))
			return nr;
		list_del(&tr->node);
		tcp_req_free(tr);
		nr++;
	}
	return nr;
}

/* ---- the socket ---- */

static unsigned send_iov(struct tcp_conn *c, struct iovec iov[TCP_IOV])
{
	struct tcp_seg *s, *tmp;
	uint32_t sent = c->tx_sent;
	unsigned nr = 0;

	list_for_each_entry_safe(s, tmp, &c->tx, node) {
		if (s->state == TCP_SEG_VOID && sent == 0) {
			send_free(c, s);
			continue;
		}
		if (s->state == TCP_SEG_OPEN || nr == TCP_IOV)
			break;
		iov[nr++] = (struct iovec){s->buf->p + s->off + sent, s->len - sent};
		sent = 0;
	}
	return nr;
}

static void send_went(struct tcp_conn *c, size_t n)
{
	n += c->tx_sent;
	while (n) {
		struct tcp_seg *s = list_first_entry(&c->tx, struct tcp_seg, node);

		if (s->len > n)
			break;
		n -= s->len;
		send_free(c, s);
	}
	c->tx_sent = (uint32_t)n;
	/* Nothing is left in the open buffer: others may want it. */
	if (c->txb && c->txb->refs == 1) {
		tcp_buf_unref_tx(c, c->txb);
		c->txb = NULL;
	}
}

static void send_writable(struct io_req *io, int res)
{
	struct tcp_conn *c = container_of(io, struct tcp_conn, out);

	c->is_polling_out = false;
	tcp_conn_kick(c);
}

static void send_wait(struct tcp_conn *c)
{
	c->out = (struct io_req){
		.op = IO_POLL, .fd = c->fd, .poll_mask = POLLOUT, .end = send_writable};
	c->is_polling_out = true;
	reactor_io(c->w->tw->reactor, &c->out);
	tcp_conn_late(c);
}

static int send_socket(struct tcp_conn *c)
{
	struct iovec iov[TCP_IOV];
	unsigned nr;
	ssize_t n;

	nr = send_iov(c, iov);
	if (!nr || c->is_polling_out)
		return 0;
	n = sendmsg(c->fd, &(struct msghdr){.msg_iov = iov, .msg_iovlen = nr},
		    MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		send_wait(c);
		return 0;
	}
	if (n < 0) {
		tcp_conn_close(c, errno == EPIPE || errno == ECONNRESET ? NULL
									: strerrorname_np(errno));
		return 0;
	}
	send_went(c, (size_t)n);
	c->out_ns = reactor_now_ns(c->w->tw->reactor);
	return 1;
}

/* There is more that could go at once, or that waits for a buffer that others have. */
static bool send_goes_on(const struct tcp_conn *c)
{
	if (c->is_polling_out)
		return false;
	if (!list_is_empty(&c->tx))
		return list_first_entry(&c->tx, struct tcp_seg, node)->state != TCP_SEG_OPEN;
	return !list_is_empty(&c->done) || !list_is_empty(&c->asks);
}

int tcp_send_turn(struct tcp_conn *c)
{
	int nr = c->is_last_word ? 0 : send_fill(c);

	nr += send_socket(c);
	if (c->state == TCP_CONN_CLOSING)
		return nr;
	if (c->is_last_word && list_is_empty(&c->tx))
		tcp_conn_close(c, NULL);
	else if (send_goes_on(c))
		tcp_conn_kick(c);
	return nr;
}
