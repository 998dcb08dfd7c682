/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a PDU of a host's may look like (NVMe/TCP 1.0c, 3.6): lengths, flags, offsets, before
 * anything of it is believed. Pure; any thread.
 */
#include "transport/tcp/tcp_int.h"

#include <stddef.h>
#include <string.h>

#define HDR_AT(field) (uint32_t) offsetof(struct nvme_tcp_hdr, field)
#define PDO_MAX 128u /* the host has no reason to go further: CPDA is 0 */

static struct tcp_pdu_fault fault(uint16_t fes, uint32_t info)
{
	return (struct tcp_pdu_fault){.fes = fes, .info = info};
}

static uint32_t hdr_bytes(uint8_t type)
{
	switch (type) {
	case NVME_TCP_ICREQ:
		return sizeof(struct nvme_tcp_icreq);
	case NVME_TCP_CMD:
		return sizeof(struct nvme_tcp_cmd);
	case NVME_TCP_H2C_DATA:
		return sizeof(struct nvme_tcp_data);
	case NVME_TCP_H2C_TERM:
		return sizeof(struct nvme_tcp_term);
	default:
		return 0;
	}
}

static bool has_digests(uint8_t type)
{
	return type == NVME_TCP_CMD || type == NVME_TCP_H2C_DATA;
}

uint32_t tcp_pdu_hdr_bytes(uint8_t type, uint8_t digests)
{
	uint32_t n = hdr_bytes(type);

	return n && has_digests(type) && digests & NVME_TCP_HDGST ? n + NVME_TCP_DIGEST_BYTES : n;
}

uint32_t tcp_pdu_data_bytes(const struct nvme_tcp_hdr *h)
{
	uint32_t digest = h->flags & NVME_TCP_DDGST ? NVME_TCP_DIGEST_BYTES : 0;

	return h->pdo ? h->plen - h->pdo - digest : 0;
}

static struct tcp_pdu_fault check_flags(const struct nvme_tcp_hdr *h, uint8_t digests)
{
	uint8_t want = has_digests(h->type) ? digests & NVME_TCP_HDGST : 0;
	uint8_t known = NVME_TCP_HDGST | NVME_TCP_DDGST;

	if (h->type == NVME_TCP_H2C_DATA)
		known |= NVME_TCP_LAST;
	if (h->flags & ~known || (h->flags & NVME_TCP_HDGST) != want)
		return fault(NVME_TCP_FES_HDR, HDR_AT(flags));
	/* Data has a digest if that was agreed, and what has no data has none. */
	want = has_digests(h->type) && h->pdo ? digests & NVME_TCP_DDGST : 0;
	if ((h->flags & NVME_TCP_DDGST) != want)
		return fault(NVME_TCP_FES_HDR, HDR_AT(flags));
	return fault(0, 0);
}

/* PDO and PLEN of those that may carry data. */
static struct tcp_pdu_fault check_data(const struct nvme_tcp_hdr *h, uint8_t digests)
{
	uint32_t hdr = tcp_pdu_hdr_bytes(h->type, digests);
	uint32_t digest = h->flags & NVME_TCP_DDGST ? NVME_TCP_DIGEST_BYTES : 0;
	uint32_t max = h->type == NVME_TCP_CMD ? TCP_CAPSULE_MAX : TCP_BUF_BYTES;

	if (!h->pdo) {
		if (h->plen != hdr)
			return fault(NVME_TCP_FES_HDR, HDR_AT(plen));
		return h->type == NVME_TCP_CMD ? fault(0, 0) : fault(NVME_TCP_FES_HDR, HDR_AT(pdo));
	}
	if (h->pdo < hdr || h->pdo > PDO_MAX || h->pdo % 4)
		return fault(NVME_TCP_FES_HDR, HDR_AT(pdo));
	if (h->plen < h->pdo + digest + 1 || h->plen > h->pdo + digest + max)
		return fault(NVME_TCP_FES_HDR, HDR_AT(plen));
	return fault(0, 0);
}

struct tcp_pdu_fault tcp_pdu_check(const struct nvme_tcp_hdr *h, uint8_t digests, bool is_new)
{
	struct tcp_pdu_fault f;

	if (!hdr_bytes(h->type))
		return fault(NVME_TCP_FES_HDR, HDR_AT(type));
	if (h->type != NVME_TCP_H2C_TERM && is_new != (h->type == NVME_TCP_ICREQ))
		return fault(NVME_TCP_FES_SEQUENCE, 0);
	if (h->hlen != hdr_bytes(h->type))
		return fault(NVME_TCP_FES_HDR, HDR_AT(hlen));
	f = check_flags(h, digests);
	if (f.fes)
		return f;
	if (has_digests(h->type))
		return check_data(h, digests);
	if (h->type == NVME_TCP_ICREQ && h->plen != h->hlen)
		return fault(NVME_TCP_FES_HDR, HDR_AT(plen));
	/* What follows a H2CTermReq is of no interest any more. */
	if (h->plen < h->hlen || h->plen > h->hlen + NVME_TCP_TERM_DATA_MAX)
		return fault(NVME_TCP_FES_HDR, HDR_AT(plen));
	return fault(0, 0);
}

struct tcp_pdu_fault tcp_pdu_check_icreq(const struct nvme_tcp_icreq *ic)
{
	if (ic->pfv)
		return fault(NVME_TCP_FES_PARAM, offsetof(struct nvme_tcp_icreq, pfv));
	/* Our data follows its header at once; whoever wants more of a gap is not known of. */
	if (ic->hpda)
		return fault(NVME_TCP_FES_PARAM, offsetof(struct nvme_tcp_icreq, hpda));
	if (ic->digest & ~3u)
		return fault(NVME_TCP_FES_PARAM, offsetof(struct nvme_tcp_icreq, digest));
	return fault(0, 0);
}

static bool is_nqn(const char *s)
{
	size_t n = strnlen(s, NVMF_NQN_BYTES);

	return n > 0 && n <= NVMF_NQN_MAX;
}

uint32_t tcp_pdu_check_connect(const struct nvmf_connect *c)
{
	if (!is_nqn(c->subnqn))
		return offsetof(struct nvmf_connect, subnqn);
	if (!is_nqn(c->hostnqn))
		return offsetof(struct nvmf_connect, hostnqn);
	return 0;
}
