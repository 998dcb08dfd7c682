/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way in of one connection: bytes -> PDUs -> commands and their data.
 *
 *   rx holds headers and what capsules carry; data that an R2T asked for goes from the socket
 *   straight into the command's buffer. While such data is on its way only as much is read into rx
 *   as the next header has, so that hardly any of it is copied twice.
 *
 * Commands are taken until there are no more of them or TCP_TURN_CMDS, then executed together. On
 * the connection's worker.
 */
/* tidy: no-test: test/peer/tcp.py */
#include "transport/tcp/tcp_int.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/log.h"

#define RECV_CALLS 4u /* in one turn */

enum recv_res {
	RECV_MORE,  /* something was done: go on */
	RECV_NEED,  /* rx_need bytes are wanted in rx */
	RECV_EMPTY, /* the socket has nothing now */
	RECV_STOP,  /* not in this turn, or never again */
};

/* ---- commands ---- */

static bool recv_is_data_first(const struct tcp_req *tr)
{
	return tr->dir == TCP_FROM_HOST && !tr->is_capsule && tr->total > 0;
}

static void recv_queue(struct tcp_conn *c, struct tcp_req *tr)
{
	struct tcp_worker *w = c->w;

	tr->is_executed = true;
	if (w->nr_burst == TGT_BURST)
		tcp_recv_burst(c);
	w->burst[w->nr_burst++] = tr->req;
}

void tcp_recv_burst(struct tcp_conn *c)
{
	struct tcp_worker *w = c->w;
	uint32_t nr = w->nr_burst;

	w->nr_burst = 0;
	if (nr)
		tgt_req_burst(w->burst, nr, NULL, NULL);
}

/* That aren't answered in full. */
static uint32_t recv_nr_r2ts(const struct tcp_req *tr)
{
	return (tr->asked + TCP_BUF_BYTES - 1) / TCP_BUF_BYTES - tr->came / TCP_BUF_BYTES;
}

void tcp_recv_ask(struct tcp_req *tr)
{
	struct tcp_conn *c = tr->conn;
	uint32_t limit = tr->is_executed ? tr->want : min_t(uint32_t, tr->total, TCP_BUF_BYTES);
	uint32_t slot = tr->asked / TCP_BUF_BYTES % TCP_REQ_BUFS;

	if (tr->dir != TCP_FROM_HOST || tr->is_capsule || tr->is_over || tr->asked >= limit ||
	    c->state == TCP_CONN_CLOSING)
		return;
	if (list_is_linked(&tr->node) || list_is_linked(&tr->wait) || tr->is_in_use[slot] ||
	    recv_nr_r2ts(tr) >= c->nr_r2t_max)
		return;
	if (!tr->in[0] && !tcp_buf_get_rx(c, tr->in, tr->total > TCP_BUF_BYTES ? 2 : 1)) {
		tcp_buf_wait_rx(tr);
		return;
	}
	tr->is_in_use[slot] = true;
	tr->r2t_at = tr->asked;
	tr->r2t_len = min_t(uint32_t, limit - tr->asked, TCP_BUF_BYTES);
	tr->asked += tr->r2t_len;
	if (c->nr_asked++ == 0)
		c->asked_ns = reactor_now_ns(c->w->tw->reactor);
	list_add_tail(&c->asks, &tr->node);
	tcp_conn_late(c);
	tcp_conn_kick(c);
}

/* The way of the data. */
static uint8_t recv_way(const struct nvme_sqe *sqe)
{
	return sqe->opc == NVMF_OPC ? nvmf_type(sqe) & 3 : sqe->opc & 3;
}

/* ... and where the SGL says that it lies. */
static uint16_t recv_sgl(struct tcp_req *tr, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	uint8_t way = recv_way(sqe);

	tr->dir = way;
	if (way == TCP_NO_DATA || way == TCP_BOTH)
		return data_bytes ? NVME_ST_INVALID_FIELD : NVME_ST_OK;
	/* Fabrics commands have no transfer but in these two ways, others neither (3.4.2). */
	if (sqe->sgl.id == NVMF_SGL_IN_CAPSULE) {
		if (way != TCP_FROM_HOST)
			return NVME_ST_SGL_TYPE;
		if (sqe->sgl.addr)
			return NVME_ST_SGL_OFFSET;
		if (sqe->sgl.len != data_bytes)
			return NVME_ST_SGL_LEN;
		tr->is_capsule = true;
	} else if (sqe->sgl.id != NVMF_SGL_TRANSPORT) {
		return NVME_ST_SGL_TYPE;
	} else if (data_bytes) {
		return NVME_ST_SGL_LEN;
	}
	tr->total = sqe->sgl.len;
	return NVME_ST_OK;
}

/*
 * Out of rx at once: a transfer may hold on to where it lies, and rx is for what comes next. It is
 * small.
 */
static void recv_capsule(struct tcp_req *tr, const uint8_t *data)
{
	struct tcp_worker *w = tr->conn->w;

	memcpy(w->caps + (size_t)tr->index * TCP_CAPSULE_MAX, data, tr->total);
	tr->came = tr->total;
}

/* A command that none was made of. */
bool tcp_recv_answer(struct tcp_conn *c, uint16_t cid, uint16_t st)
{
	struct nvme_cqe cqe = {.cid = cid, .status = nvme_status_wire(st, 0)};

	c->sqhd = (c->sqhd + 1) % c->size;
	cqe.sq_head = c->has_flow ? (uint16_t)c->sqhd : 0xffff;
	return tcp_send_resp(c, &cqe);
}

static enum recv_res recv_answer(struct tcp_conn *c, const struct nvme_sqe *sqe, uint16_t st)
{
	return tcp_recv_answer(c, sqe->cid, st) ? RECV_MORE : RECV_STOP;
}

/*
 * There is no request for it now. It may wait, and all behind it in the stream; unless that may be
 * data that was asked for, whose commands have the requests: then the host has to try again.
 */
static enum recv_res recv_full(struct tcp_conn *c, const struct nvme_sqe *sqe)
{
	if (!c->nr_asked) {
		c->is_rx_full = true;
		return RECV_STOP;
	}
	return recv_answer(c, sqe, NVME_ST_INTERRUPTED);
}

/*
 * Data that an admin command gives has to have room when it is there: while others keep all that is
 * shared, one of them is taken at a time, and the next when the host has read its answer.
 */
static bool recv_has_room(struct tcp_conn *c, const struct nvme_sqe *sqe)
{
	uint32_t len = min_t(uint32_t, sqe->sgl.len, MEM_CHUNK_BYTES);

	tcp_recv_burst(c); /* those before it have theirs */
	return tcp_buf_has_room(c, tcp_data_overhead(c) + len);
}

static bool recv_is_log(const struct tcp_conn *c, const struct nvme_sqe *sqe)
{
	return c->sq.qid == 0 && recv_way(sqe) == TCP_TO_HOST;
}

static enum recv_res recv_command(struct tcp_conn *c, const struct nvme_sqe *sqe,
				  const uint8_t *data, uint32_t data_bytes)
{
	struct tcp_req *tr;

	if (c->nr_reqs >= c->size) {
		/* It counted wrong, or never minded. */
		tcp_conn_fatal(c, (struct tcp_pdu_fault){NVME_TCP_FES_SEQUENCE, 0}, sqe,
			       sizeof(*sqe));
		return RECV_STOP;
	}
	if (recv_is_log(c, sqe) && !recv_has_room(c, sqe))
		return recv_full(c, sqe);
	tr = tcp_req_get(c, sqe);
	if (!tr)
		return tcp_req_is_event(c, sqe)
			       ? recv_answer(c, sqe, NVME_ST_AER_LIMIT | NVME_ST_DNR)
			       : recv_full(c, sqe);
	c->sqhd = (c->sqhd + 1) % c->size;
	c->sq.nr_cmds++;
	tr->bad = recv_sgl(tr, sqe, data_bytes);
	tr->req->tr = tr;
	tr->is_log = recv_is_log(c, sqe);
	c->nr_logs += tr->is_log;
	tgt_req_init(tr->req, &c->sq, sqe);
	if (tr->bad) {
		tgt_req_fail(tr->req, tr->bad);
	} else if (recv_is_data_first(tr)) {
		tcp_recv_ask(tr);
	} else {
		if (tr->is_capsule)
			recv_capsule(tr, data);
		recv_queue(c, tr);
	}
	return RECV_MORE;
}

static bool recv_is_whole(const uint8_t *data, uint32_t len, const uint8_t *digest)
{
	uint32_t want;

	memcpy(&want, digest, sizeof(want));
	return hash_crc32c(data, len, 0) == want;
}

/* The whole PDU lies at p; cmd is its header. */
static enum recv_res recv_cmd_pdu(struct tcp_conn *c, const struct nvme_tcp_cmd *cmd,
				  const uint8_t *p)
{
	const struct nvme_sqe *sqe = &cmd->sqe;
	uint32_t len = tcp_pdu_data_bytes(&cmd->hdr);
	const uint8_t *data = p + cmd->hdr.pdo;
	struct nvmf_connect connect;

	if (len && cmd->hdr.flags & NVME_TCP_DDGST && !recv_is_whole(data, len, data + len)) {
		log_some_warn("tcp: %s: a capsule's data didn't fit its digest", c->host);
		return recv_answer(c, sqe, NVME_ST_TRANSIENT_TRANSPORT);
	}
	if (c->state == TCP_CONN_LIVE)
		return recv_command(c, sqe, data, len);
	if (c->state == TCP_CONN_AUTH)
		return tcp_login_command(c, sqe, data, len) ? RECV_MORE : RECV_STOP;
	if (sqe->opc != NVMF_OPC || nvmf_type(sqe) != NVMF_CONNECT || len != sizeof(connect)) {
		tcp_conn_fatal(c, (struct tcp_pdu_fault){NVME_TCP_FES_SEQUENCE, 0}, cmd,
			       sizeof(*cmd));
		return RECV_STOP;
	}
	memcpy(&connect, data, sizeof(connect));
	tcp_connect(c, sqe, &connect);
	return c->state == TCP_CONN_MOVING ? RECV_STOP : RECV_MORE;
}

/* ---- data that was asked for ---- */

static struct tcp_req *recv_find(struct tcp_conn *c, const struct nvme_tcp_data *h)
{
	struct tcp_req *tr;

	if (h->ttag >= c->w->nr_reqs)
		return NULL;
	tr = &c->w->reqs[h->ttag];
	return tr->conn == c && tr->req->sqe.cid == h->cid && tr->dir == TCP_FROM_HOST &&
			       !tr->is_capsule
		       ? tr
		       : NULL;
}

/* Up to where the host has been asked. */
static uint32_t recv_asked(const struct tcp_req *tr)
{
	return list_is_linked(&tr->node) && !tr->is_over ? tr->r2t_at : tr->asked;
}

static enum recv_res recv_data_pdu(struct tcp_conn *c, const struct nvme_tcp_data *h)
{
	struct tcp_req *tr = recv_find(c, h);
	uint32_t len = tcp_pdu_data_bytes(&h->hdr);
	struct tcp_pdu_fault f = {0};

	if (!tr)
		f = (struct tcp_pdu_fault){NVME_TCP_FES_HDR, offsetof(struct nvme_tcp_data, ttag)};
	else if (h->len != len)
		f = (struct tcp_pdu_fault){NVME_TCP_FES_HDR, offsetof(struct nvme_tcp_data, len)};
	else if (h->off != tr->came || tr->came >= recv_asked(tr) ||
		 len > recv_asked(tr) - tr->came || len > TCP_BUF_BYTES - tr->came % TCP_BUF_BYTES)
		f = (struct tcp_pdu_fault){NVME_TCP_FES_RANGE, 0};
	if (f.fes) {
		tcp_conn_fatal(c, f, h, sizeof(*h));
		return RECV_STOP;
	}
	c->rx_req = tr;
	c->rx_left = c->rx_len = len;
	c->rx_crc = 0;
	c->has_rx = true;
	c->rx_flags = h->hdr.flags;
	return RECV_MORE;
}

static uint8_t *recv_dest(const struct tcp_conn *c)
{
	struct tcp_req *tr = c->rx_req;
	uint32_t at = tr->came + c->rx_len - c->rx_left;

	return tr->in[at / TCP_BUF_BYTES % TCP_REQ_BUFS]->p + at % TCP_BUF_BYTES;
}

static void recv_took(struct tcp_conn *c, const uint8_t *p, uint32_t n)
{
	if (c->rx_flags & NVME_TCP_DDGST)
		c->rx_crc = hash_crc32c(p, n, c->rx_crc);
	c->rx_left -= n;
}

/* All that one R2T asked for has come. */
static void recv_r2t_over(struct tcp_conn *c, struct tcp_req *tr)
{
	if (tr->is_over) {
		if (tr->came == tr->asked)
			list_add_tail(&c->done, &tr->node);
	} else if (tr->is_executed) {
		mem_iter_more(c->w->tw->engine, &tr->it);
	} else if (tr->is_broken) {
		tgt_req_complete(tr->req, NVME_ST_TRANSIENT_TRANSPORT);
	} else {
		recv_queue(c, tr);
	}
}

static void recv_data_over(struct tcp_conn *c)
{
	struct tcp_req *tr = c->rx_req;

	c->has_rx = false;
	c->rx_req = NULL;
	tr->came += c->rx_len;
	if (tr->came % TCP_BUF_BYTES == 0 || tr->came == tr->asked) {
		must(c->nr_asked > 0);
		c->nr_asked--;
		c->asked_ns = reactor_now_ns(c->w->tw->reactor);
		recv_r2t_over(c, tr);
	} else if (tr->is_executed && !tr->is_over) {
		mem_iter_more(c->w->tw->engine, &tr->it);
	}
}

static enum recv_res recv_data_digest(struct tcp_conn *c)
{
	uint32_t want;

	if (c->rx_flags & NVME_TCP_DDGST) {
		if (c->rx_end - c->rx_at < NVME_TCP_DIGEST_BYTES) {
			c->rx_need = NVME_TCP_DIGEST_BYTES;
			return RECV_NEED;
		}
		memcpy(&want, c->rx + c->rx_at, sizeof(want));
		c->rx_at += NVME_TCP_DIGEST_BYTES;
		if (want != c->rx_crc) {
			log_some_warn("tcp: %s: data didn't fit its digest", c->host);
			c->rx_req->is_broken = true;
		}
	}
	recv_data_over(c);
	return RECV_MORE;
}

static ssize_t recv_bytes(struct tcp_conn *c, void *to, size_t n)
{
	ssize_t res;

	do {
		res = recv(c->fd, to, n, MSG_DONTWAIT);
	} while (res < 0 && errno == EINTR);
	if (res > 0)
		return res;
	if (res < 0 && errno == EAGAIN)
		return 0;
	tcp_conn_close(c, res == 0 || errno == ECONNRESET ? NULL : strerrorname_np(errno));
	return -1;
}

static enum recv_res recv_data(struct tcp_conn *c)
{
	uint32_t have = min_t(uint32_t, c->rx_end - c->rx_at, c->rx_left);
	ssize_t n;

	if (!c->rx_left)
		return recv_data_digest(c);
	if (have) {
		memcpy(recv_dest(c), c->rx + c->rx_at, have);
		recv_took(c, c->rx + c->rx_at, have);
		c->rx_at += have;
		return RECV_MORE;
	}
	if (c->nr_calls++ >= RECV_CALLS)
		return RECV_STOP;
	n = recv_bytes(c, recv_dest(c), c->rx_left);
	if (n <= 0)
		return n ? RECV_STOP : RECV_EMPTY;
	recv_took(c, recv_dest(c), (uint32_t)n);
	return RECV_MORE;
}

/* ---- PDUs ---- */

static enum recv_res recv_hello(struct tcp_conn *c, const struct nvme_tcp_icreq *ic)
{
	struct nvme_tcp_icresp resp = {
		.hdr = {.type = NVME_TCP_ICRESP, .hlen = sizeof(resp), .plen = sizeof(resp)},
		.digest = ic->digest,
		.max_h2c_bytes = TCP_BUF_BYTES,
	};
	struct tcp_pdu_fault f = tcp_pdu_check_icreq(ic);

	if (f.fes) {
		tcp_conn_fatal(c, f, ic, sizeof(*ic));
		return RECV_STOP;
	}
	c->digests = ic->digest;
	c->nr_r2t_max = ic->max_r2t == UINT32_MAX ? UINT32_MAX : ic->max_r2t + 1;
	c->state = TCP_CONN_CONNECT;
	return tcp_send_raw(c, &resp, sizeof(resp)) ? RECV_MORE : RECV_STOP;
}

/* A header, where it may be looked at: in the stream it lies at any address. */
union recv_hdr {
	struct nvme_tcp_hdr hdr;
	struct nvme_tcp_icreq ic;
	struct nvme_tcp_cmd cmd;
	struct nvme_tcp_data data;
	uint8_t b[NVME_TCP_HDR_MAX];
};

/* What has to be there before the PDU can be looked at: all of it, but data that was asked for. */
static uint32_t recv_need(const struct nvme_tcp_hdr *h)
{
	return h->type == NVME_TCP_H2C_DATA ? h->pdo : h->plen;
}

static enum recv_res recv_known_pdu(struct tcp_conn *c, const union recv_hdr *u, const uint8_t *p)
{
	switch (u->hdr.type) {
	case NVME_TCP_ICREQ:
		return recv_hello(c, &u->ic);
	case NVME_TCP_CMD:
		return recv_cmd_pdu(c, &u->cmd, p);
	case NVME_TCP_H2C_DATA:
		return recv_data_pdu(c, &u->data);
	default: /* H2CTermReq: the host is through with us */
		tcp_conn_close(c, "the host ended it (H2CTermReq)");
		return RECV_STOP;
	}
}

static enum recv_res recv_pdu(struct tcp_conn *c)
{
	uint32_t have = c->rx_end - c->rx_at, need = sizeof(struct nvme_tcp_hdr);
	const uint8_t *p = c->rx + c->rx_at;
	struct tcp_pdu_fault f = {0};
	union recv_hdr u;

	memcpy(u.b, p, min_t(uint32_t, have, sizeof(u)));
	if (have >= need) {
		f = tcp_pdu_check(&u.hdr, c->digests, c->state == TCP_CONN_NEW);
		if (!f.fes)
			need = recv_need(&u.hdr);
	}
	if (!f.fes && have < need) {
		c->rx_need = need;
		return RECV_NEED;
	}
	if (!f.fes && u.hdr.flags & NVME_TCP_HDGST && !recv_is_whole(p, u.hdr.hlen, p + u.hdr.hlen))
		f = (struct tcp_pdu_fault){NVME_TCP_FES_DIGEST, 0};
	if (f.fes) {
		tcp_conn_fatal(c, f, u.b, min_t(uint32_t, have, sizeof(u)));
		return RECV_STOP;
	}
	c->rx_at += need;
	return recv_known_pdu(c, &u, p);
}

/* ---- a turn ---- */

/* Room for what is needed, and for as much as there may be. */
static void recv_compact(struct tcp_conn *c)
{
	uint32_t have = c->rx_end - c->rx_at;

	if (have && TCP_RX_BYTES - c->rx_at >= max_t(uint32_t, c->rx_need, TCP_RX_BYTES / 4))
		return;
	memmove(c->rx, c->rx + c->rx_at, have);
	c->rx_at = 0;
	c->rx_end = have;
}

static enum recv_res recv_more(struct tcp_conn *c)
{
	uint32_t room;
	ssize_t n;

	if (c->nr_calls++ >= RECV_CALLS)
		return RECV_STOP;
	recv_compact(c);
	room = TCP_RX_BYTES - c->rx_end;
	if (c->nr_asked)
		room = c->rx_need - (c->rx_end - c->rx_at);
	n = recv_bytes(c, c->rx + c->rx_end, room);
	if (n <= 0)
		return n ? RECV_STOP : RECV_EMPTY;
	c->rx_end += (uint32_t)n;
	return RECV_MORE;
}

static void recv_readable(struct io_req *io, int res)
{
	struct tcp_conn *c = container_of(io, struct tcp_conn, in);

	c->is_polling_in = false;
	tcp_conn_kick(c);
}

/* After some turns in vain it is the kernel that tells. */
static void recv_idle(struct tcp_conn *c)
{
	if (c->nr_turns_idle++ < TCP_HOT_TURNS) {
		tcp_conn_kick(c);
		return;
	}
	if (c->is_polling_in)
		return;
	c->in = (struct io_req){
		.op = IO_POLL, .fd = c->fd, .poll_mask = POLLIN, .end = recv_readable};
	c->is_polling_in = true;
	reactor_io(c->w->tw->reactor, &c->in);
}

int tcp_recv_turn(struct tcp_conn *c)
{
	enum recv_res res = RECV_MORE;
	int nr = 0;

	/*
	 * The kernel tells when there is something, and it is looked at then: what is taken before
	 * it has the poll, it never tells, and a connection that moves waits for its poll's end.
	 */
	if (c->is_polling_in)
		return 0;
	c->nr_calls = 0;
	c->is_rx_full = false;
	for (; res == RECV_MORE && nr < (int)TCP_TURN_CMDS; nr++) {
		uint32_t at = c->rx_at;

		res = c->has_rx ? recv_data(c) : recv_pdu(c);
		if (res == RECV_NEED)
			res = recv_more(c);
		if (c->is_rx_full)
			c->rx_at = at; /* the same PDU again */
	}
	if (c->state == TCP_CONN_MOVING)
		return nr;
	tcp_recv_burst(c);
	if (c->state == TCP_CONN_CLOSING || c->is_last_word)
		return nr;
	if (res == RECV_EMPTY) {
		recv_idle(c);
		return nr - 1;
	}
	c->nr_turns_idle = 0;
	tcp_conn_kick(c);
	return nr;
}
