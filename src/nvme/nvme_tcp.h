/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVMe over Fabrics and its TCP binding on the wire: PDUs (NVMe/TCP Transport 1.0c, 3.6), Fabrics
 * commands (NVMe Base 2.0, 6: Connect, Property Get and Set) and Connect's data. Pure, no state.
 * Used by transport/tcp, target/ and the tests. Little-endian fields, as in nvme_kv.h.
 *
 *   PDU:  common header 8 | rest of the header (hlen - 8) | [HDGST 4] | pad to PDO | data | [DDGST]
 *
 *   host                         controller
 *     ICReq            ------->
 *                      <-------  ICResp
 *     CapsuleCmd (+ data in it) ->
 *                      <-------  R2T                   more data is wanted
 *     H2CData ...      ------->
 *                      <-------  C2HData ...
 *                      <-------  CapsuleResp
 */
#ifndef NVME_TCP_H
#define NVME_TCP_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include "nvme/nvme_kv.h"

enum nvme_tcp_pdu_type {
	NVME_TCP_ICREQ = 0,
	NVME_TCP_ICRESP = 1,
	NVME_TCP_H2C_TERM = 2,
	NVME_TCP_C2H_TERM = 3,
	NVME_TCP_CMD = 4,
	NVME_TCP_RESP = 5,
	NVME_TCP_H2C_DATA = 6,
	NVME_TCP_C2H_DATA = 7,
	NVME_TCP_R2T = 9,
};

enum {
	NVME_TCP_HDGST = 1u << 0, /* a digest follows the header */
	NVME_TCP_DDGST = 1u << 1, /* ... the data */
	NVME_TCP_LAST = 1u << 2,
	NVME_TCP_SUCCESS = 1u << 3,
};
#define NVME_TCP_DIGEST_BYTES 4u

/* A digest is CRC32C as iSCSI has it, of the header from its first byte, or of the data. */

struct nvme_tcp_hdr {
	uint8_t type;
	uint8_t flags;
	uint8_t hlen;
	uint8_t pdo; /* where data begins, from the PDU's first byte; 0 = there is none */
	uint32_t plen;
};
static_assert(sizeof(struct nvme_tcp_hdr) == 8, "common header");

struct nvme_tcp_icreq {
	struct nvme_tcp_hdr hdr;
	uint16_t pfv;	  /* 0 */
	uint8_t hpda;	  /* data alignment that the host wants, in 4-byte units, 0's based */
	uint8_t digest;	  /* bit 0 header, bit 1 data */
	uint32_t max_r2t; /* outstanding ones of a command, 0's based */
	uint8_t rsvd[112];
};
static_assert(sizeof(struct nvme_tcp_icreq) == 128, "ICReq");

struct nvme_tcp_icresp {
	struct nvme_tcp_hdr hdr;
	uint16_t pfv;
	uint8_t cpda;
	uint8_t digest;
	uint32_t max_h2c_bytes; /* of one H2CData PDU, a multiple of 4, at least 4096 */
	uint8_t rsvd[112];
};
static_assert(sizeof(struct nvme_tcp_icresp) == 128, "ICResp");

/* Why a connection ends: Fatal Error Status. */
enum nvme_tcp_fes {
	NVME_TCP_FES_HDR = 1, /* a field of a header: info is its offset */
	NVME_TCP_FES_SEQUENCE = 2,
	NVME_TCP_FES_DIGEST = 3,
	NVME_TCP_FES_RANGE = 4, /* data beyond what was asked for */
	NVME_TCP_FES_LIMIT = 5, /* more than was granted at a time */
	NVME_TCP_FES_PARAM = 6, /* unsupported parameter: info is its offset */
};
#define NVME_TCP_TERM_DATA_MAX 128u /* of the offending header, that follow */
struct nvme_tcp_term {
	struct nvme_tcp_hdr hdr;
	uint16_t fes;
	uint16_t info_lo, info_hi;
	uint8_t rsvd[10];
};
static_assert(sizeof(struct nvme_tcp_term) == 24, "H2CTermReq, C2HTermReq");

struct nvme_tcp_cmd {
	struct nvme_tcp_hdr hdr;
	struct nvme_sqe sqe;
};
static_assert(sizeof(struct nvme_tcp_cmd) == 72, "CapsuleCmd");

struct nvme_tcp_resp {
	struct nvme_tcp_hdr hdr;
	struct nvme_cqe cqe;
};
static_assert(sizeof(struct nvme_tcp_resp) == 24, "CapsuleResp");

/* H2CData, C2HData (ttag is reserved there) and R2T. */
struct nvme_tcp_data {
	struct nvme_tcp_hdr hdr;
	uint16_t cid;
	uint16_t ttag;
	uint32_t off; /* bytes, of the command's data */
	uint32_t len;
	uint32_t rsvd;
};
static_assert(sizeof(struct nvme_tcp_data) == 24, "data and R2T");

#define NVME_TCP_HDR_MAX 128u /* the longest header: ICReq */

/* ---- Fabrics ---- */

#define NVMF_OPC 0x7fu
/* SQE byte 4; bits 1:0 are the data's direction. */
enum nvmf_type {
	NVMF_PROPERTY_SET = 0x00,
	NVMF_CONNECT = 0x01,
	NVMF_PROPERTY_GET = 0x04,
	NVMF_AUTH_SEND = 0x05,
	NVMF_AUTH_RECEIVE = 0x06,
	NVMF_DISCONNECT = 0x08,
};
static inline uint8_t nvmf_type(const struct nvme_sqe *sqe)
{
	return (uint8_t)sqe->nsid;
}

/* Statuses of Connect: SCT 1. */
enum {
	NVMF_ST_FORMAT = 0x180,
	NVMF_ST_BUSY = 0x181,
	NVMF_ST_PARAM = 0x182, /* DW0: 15:0 offset, bit 16 set: of the data, else of the SQE */
	NVMF_ST_RESTART_DISCOVERY = 0x183,
	NVMF_ST_HOST = 0x184,
	NVMF_ST_QUEUE_TYPE = 0x185,
};
#define NVMF_PARAM_DATA (1u << 16)

/* SGL of data in the capsule: a data block whose address is an offset. */
#define NVMF_SGL_IN_CAPSULE 0x01u
#define NVMF_SGL_TRANSPORT 0x5au

#define NVMF_NQN_BYTES 256u
#define NVMF_NQN_MAX 223u
#define NVMF_CNTLID_DYNAMIC 0xffffu
#define NVMF_DISCOVERY_NQN "nqn.2014-08.org.nvmexpress.discovery"

struct nvmf_connect {
	uint8_t hostid[16];
	uint16_t cntlid;
	uint8_t rsvd[238];
	char subnqn[NVMF_NQN_BYTES];
	char hostnqn[NVMF_NQN_BYTES];
	uint8_t rsvd2[256];
};
static_assert(sizeof(struct nvmf_connect) == 1024, "Connect's data");
static_assert(offsetof(struct nvmf_connect, subnqn) == 256, "Connect's data");

#endif
