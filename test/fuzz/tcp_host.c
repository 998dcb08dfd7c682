/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts of NVMe/TCP for fuzz_tcp.c: see tcp_host.h. What they say goes through host_out, what they
 * hear through host_in, so that either may stand still; all of it in the thread of the target.
 */
#include "tcp_host.h"

#include <sys/socket.h>
#include <unistd.h>
#include "base/hash.h"
#include "base/must.h"

#define HOST_OUT_BYTES (2u << 20)
#define HOST_PIECES 256u

static uint8_t host_in[TCP_HOSTS][TCP_HOST_IN_BYTES], host_out[TCP_HOSTS][HOST_OUT_BYTES];
static uint8_t host_buf[TCP_HOST_IN_BYTES];

const uint32_t tcp_host_lens[32] = {1,	    3,	    100,    1024,   4095,   4096,   4097,
				    8191,   8192,   8193,   16384,  65535,  65536,  65537,
				    100000, 131071, 131072, 131073, 200001, 262144, 300000};

/* ---- values: what has this key and fill is these bytes, from another place on ---- */

#define VALUE_MAX 300000u
#define VALUE_BYTES (VALUE_MAX + 64u * 61u)

const uint8_t *tcp_host_value(unsigned key, unsigned fill)
{
	static uint8_t bytes[VALUE_BYTES];

	for (uint32_t i = 0; !bytes[1] && i < VALUE_BYTES; i++)
		bytes[VALUE_BYTES - 1 - i] = (uint8_t)((i + 1) * 2654435761u >> 24);
	return bytes + (key * 8 + fill) * 61;
}

/* Some value of this key has these bytes here, and it has those that came before. */
static void value_check(struct tcp_host *h, struct tcp_host_cmd *cmd, const uint8_t *p,
			uint32_t len)
{
	uint32_t at = cmd->at + cmd->got;

	if (!cmd->is_value || h->of->is_wild || !len)
		return;
	must(at + len <= VALUE_MAX);
	for (unsigned fill = 0; fill < 8; fill++)
		if (!h->of->put[cmd->key][fill] ||
		    memcmp(tcp_host_value(cmd->key, fill) + at, p, len) != 0)
			cmd->others |= (uint8_t)(1u << fill);
	must(cmd->others != 0xff);
}

/* DW0 of a Retrieve that went well is the length of a value that was put. */
static void value_check_end(struct tcp_host *h, const struct tcp_host_cmd *cmd, uint32_t dw0)
{
	uint32_t classes = 0;

	if (!cmd->is_value || h->of->is_wild || cmd->opc != NVME_KV_RETRIEVE || !dw0)
		return;
	must(cmd->got == min_t(uint32_t, cmd->room, dw0));
	for (unsigned fill = 0; fill < 8; fill++)
		if (!(cmd->others >> fill & 1))
			classes |= h->of->put[cmd->key][fill];
	for (unsigned i = 0; i < 32; i++)
		if (classes >> i & 1 && tcp_host_lens[i] == dw0)
			return;
	must_not_reach();
}

/* ---- bytes ---- */

void tcp_host_end(struct tcp_host *h)
{
	if (h->fd >= 0)
		close(h->fd);
	*h = (struct tcp_host){.of = h->of, .fd = -1};
}

void tcp_host_flush(struct tcp_host *h)
{
	uint8_t *out = host_out[h - h->of->host];
	ssize_t n;

	if (h->fd < 0 || !h->out_len)
		return;
	n = send(h->fd, out, h->out_len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n <= 0)
		return;
	h->out_len -= (uint32_t)n;
	memmove(out, out + n, h->out_len);
}

void tcp_host_put(struct tcp_host *h, const void *p, size_t len)
{
	uint32_t piece = h->of->piece ? max_t(uint32_t, h->of->piece, (uint32_t)len / HOST_PIECES)
				      : (uint32_t)len;
	const uint8_t *b = p;

	for (size_t n; len; b += n, len -= n) {
		n = min_t(size_t, len, piece);
		if (h->fd < 0 || h->out_len + n > HOST_OUT_BYTES) {
			h->is_wild = true; /* half of it is there */
			return;
		}
		memcpy(host_out[h - h->of->host] + h->out_len, b, n);
		h->out_len += (uint32_t)n;
		tcp_host_flush(h);
		if (h->of->piece)
			fake_node_steps(h->of->n, 2);
	}
}

/* A PDU that is framed right; hdr: hlen bytes, of which the first 8 are filled in here. */
void tcp_host_pdu(struct tcp_host *h, void *hdr, uint32_t hlen, const void *data, uint32_t len)
{
	struct nvme_tcp_hdr *c = hdr;
	bool has_digest = h->is_welcome && c->type != NVME_TCP_ICREQ;
	uint32_t hd = has_digest && h->digests & NVME_TCP_HDGST ? 4 : 0;
	uint32_t dd = has_digest && h->digests & NVME_TCP_DDGST && len ? 4 : 0, crc;

	c->flags |= (hd ? NVME_TCP_HDGST : 0) | (dd ? NVME_TCP_DDGST : 0);
	c->hlen = (uint8_t)hlen;
	c->pdo = len ? (uint8_t)(hlen + hd) : 0;
	c->plen = hlen + hd + len + dd;
	memcpy(host_buf, hdr, hlen);
	crc = hash_crc32c(hdr, hlen, 0);
	memcpy(host_buf + hlen, &crc, hd);
	if (len)
		memcpy(host_buf + hlen + hd, data, len);
	crc = hash_crc32c(data, len, 0);
	memcpy(host_buf + hlen + hd + len, &crc, dd);
	tcp_host_put(h, host_buf, c->plen);
}

/* ---- what the target says ---- */

static struct tcp_host_cmd *host_cmd(struct tcp_host *h, uint16_t cid)
{
	if (h->is_wild)
		return NULL;
	must(cid < TCP_HOST_CMDS && h->cmd[cid].is_out);
	return &h->cmd[cid];
}

static void host_got_r2t(struct tcp_host *h, const struct nvme_tcp_data *d)
{
	struct tcp_host_cmd *cmd = host_cmd(h, d->cid);
	unsigned nr = 0;

	if (cmd) {
		must(!cmd->is_to_host && d->off == cmd->got && d->len);
		must(d->len <= cmd->room - cmd->got);
		cmd->got += d->len;
	}
	for (unsigned i = 0; i < h->nr_r2ts; i++)
		nr += h->r2t[i].cid == d->cid;
	must(!cmd || nr < h->nr_r2t_max);
	if (h->nr_r2ts < TCP_HOST_R2TS)
		h->r2t[h->nr_r2ts++] = *d;
	else
		h->is_wild = true; /* it will stay without an answer */
}

static void host_got_data(struct tcp_host *h, const struct nvme_tcp_data *d, const uint8_t *p)
{
	uint32_t dd = h->digests & NVME_TCP_DDGST ? 4 : 0, crc = hash_crc32c(p, d->len, 0);
	struct tcp_host_cmd *cmd = host_cmd(h, d->cid);

	must(d->len && d->hdr.plen == d->hdr.pdo + d->len + dd);
	must(!dd || memcmp(p + d->len, &crc, 4) == 0);
	if (!cmd)
		return;
	must(cmd->is_to_host && d->off == cmd->got && d->len <= cmd->room - cmd->got);
	value_check(h, cmd, p, d->len);
	cmd->got += d->len;
}

static void host_got_resp(struct tcp_host *h, const struct nvme_tcp_resp *r)
{
	struct tcp_host_cmd *cmd = host_cmd(h, r->cqe.cid);

	if (!cmd)
		return;
	for (unsigned i = 0; i < h->nr_r2ts; i++)
		must(h->r2t[i].cid != r->cqe.cid);
	if (r->cqe.status >> 1 == 0)
		value_check_end(h, cmd, r->cqe.dw0);
	if (cmd->opc == NVMF_OPC && cmd->key == NVMF_CONNECT) {
		h->is_wild |= r->cqe.status >> 1 != 0;
		h->of->cntlid = (uint16_t)r->cqe.dw0;
	}
	cmd->is_out = false;
	h->nr_out--;
}

static void host_got(struct tcp_host *h, const uint8_t *p, const struct nvme_tcp_hdr *hdr)
{
	uint32_t hd = hdr->type != NVME_TCP_ICRESP && hdr->type != NVME_TCP_C2H_TERM &&
				      h->digests & NVME_TCP_HDGST
			      ? 4
			      : 0;
	uint32_t crc = hash_crc32c(p, hdr->hlen, 0);
	union {
		struct nvme_tcp_icresp ic;
		struct nvme_tcp_resp resp;
		struct nvme_tcp_data data;
	} u;

	must(hdr->hlen == (hdr->type == NVME_TCP_ICRESP ? 128 : 24));
	must(!hd == !(hdr->flags & NVME_TCP_HDGST) && (!hd || !memcmp(p + hdr->hlen, &crc, 4)));
	memcpy(&u, p, hdr->hlen);
	if (hdr->type != NVME_TCP_C2H_TERM && hdr->type != NVME_TCP_C2H_DATA)
		must(hdr->plen == hdr->hlen + hd && !hdr->pdo);
	switch (hdr->type) {
	case NVME_TCP_ICRESP:
		must(!h->is_welcome && u.ic.max_h2c_bytes == TCP_BUF_BYTES && !u.ic.cpda);
		h->is_welcome = true;
		h->digests = u.ic.digest;
		return;
	case NVME_TCP_RESP:
		host_got_resp(h, &u.resp);
		return;
	case NVME_TCP_R2T:
		host_got_r2t(h, &u.data);
		return;
	case NVME_TCP_C2H_DATA:
		must(hdr->pdo == hdr->hlen + hd);
		host_got_data(h, &u.data, p + hdr->pdo);
		return;
	default:
		must(hdr->type == NVME_TCP_C2H_TERM && h->is_wild);
		must(hdr->plen <= hdr->hlen + NVME_TCP_TERM_DATA_MAX);
		h->is_ending = true;
	}
}

bool tcp_host_read(struct tcp_host *h)
{
	uint8_t *in = host_in[h - h->of->host];
	struct nvme_tcp_hdr hdr;
	uint32_t at = 0;
	ssize_t n;

	if (h->fd < 0)
		return false;
	n = recv(h->fd, in + h->in_len, TCP_HOST_IN_BYTES - h->in_len, MSG_DONTWAIT);
	if (n == 0)
		tcp_host_end(h);
	if (n <= 0)
		return false;
	h->in_len += (uint32_t)n;
	while (h->in_len - at >= sizeof(hdr)) {
		memcpy(&hdr, in + at, sizeof(hdr));
		must(hdr.hlen >= sizeof(hdr) && hdr.plen >= hdr.hlen);
		must(hdr.plen <= TCP_HOST_IN_BYTES);
		must(!h->is_ending);
		if (h->in_len - at < hdr.plen)
			break;
		host_got(h, in + at, &hdr);
		at += hdr.plen;
	}
	h->in_len -= at;
	memmove(in, in + at, h->in_len);
	return true;
}

/* ---- what a host says ---- */

void tcp_host_sgl(struct nvme_sqe *sqe, bool is_capsule, uint32_t len)
{
	sqe->flags = 0x40;
	sqe->sgl = (struct nvme_sgl){.len = len,
				     .id = is_capsule ? NVMF_SGL_IN_CAPSULE : NVMF_SGL_TRANSPORT};
}

/* NULL: as many as it may have are under way. */
struct tcp_host_cmd *tcp_host_submit(struct tcp_host *h, struct nvme_sqe *sqe, const void *data,
				     uint32_t len)
{
	struct nvme_tcp_cmd pdu = {.hdr.type = NVME_TCP_CMD};
	uint8_t way = sqe->opc == NVMF_OPC ? nvmf_type(sqe) & 3 : sqe->opc & 3;
	struct tcp_host_cmd *cmd;
	unsigned cid = h->last;

	if (h->nr_out == TCP_HOST_CMDS)
		return NULL;
	do {
		cid = (cid + 1) % TCP_HOST_CMDS;
	} while (h->cmd[cid].is_out);
	h->last = cid;
	cmd = &h->cmd[cid];
	*cmd = (struct tcp_host_cmd){.is_out = true, .opc = sqe->opc, .is_to_host = way == 2};
	cmd->key = sqe->opc == NVMF_OPC ? nvmf_type(sqe) : 0;
	cmd->room = sqe->sgl.len;
	h->nr_out++;
	sqe->cid = (uint16_t)cid;
	pdu.sqe = *sqe;
	h->has_connect |= sqe->opc == NVMF_OPC && nvmf_type(sqe) == NVMF_CONNECT;
	h->is_wild |= !h->is_welcome || !h->has_connect;
	tcp_host_pdu(h, &pdu, sizeof(pdu), data, len);
	return cmd;
}

void tcp_host_answer(struct tcp_host *h, uint8_t how)
{
	struct nvme_tcp_data d = {.hdr.type = NVME_TCP_H2C_DATA}, *r = &h->r2t[0];
	const struct tcp_host_cmd *cmd;
	const uint8_t *value;
	uint32_t len, piece;

	if (!h->nr_r2ts)
		return;
	cmd = &h->cmd[r->cid % TCP_HOST_CMDS];
	value = tcp_host_value(cmd->key & 7, cmd->fill);
	len = how == 1 ? r->len / 2 + 1 : how == 2 ? 1 : r->len;
	for (; len && h->fd >= 0; len -= piece) {
		piece = min_t(uint32_t, len, how == 3 ? 30000 : TCP_BUF_BYTES);
		d = (struct nvme_tcp_data){.hdr.type = NVME_TCP_H2C_DATA,
					   .hdr.flags = piece == r->len ? NVME_TCP_LAST : 0,
					   .cid = r->cid,
					   .ttag = r->ttag + (how == 5),
					   .off = r->off + (how == 6 ? 4 : 0),
					   .len = piece - (how == 7)};
		h->is_wild |= how >= 5;
		tcp_host_pdu(h, &d, sizeof(d), value + (r->off + piece <= VALUE_MAX ? r->off : 0),
			     piece);
		r->off += piece;
		r->len -= piece;
	}
	if (!r->len)
		memmove(r, r + 1, --h->nr_r2ts * sizeof(*r));
}

/* Reads and answers; false: there was nothing. */
bool tcp_host_on(struct tcp_host *h)
{
	bool has = tcp_host_read(h);

	tcp_host_flush(h);
	while (h->nr_r2ts && h->fd >= 0 && !h->out_len) {
		tcp_host_answer(h, 0);
		has = true;
	}
	return has || h->out_len;
}
