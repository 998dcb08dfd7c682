/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authentication of NVMe over Fabrics on the wire (NVMe Base 2.0, 8.13; TP 8006): the messages of
 * DH-HMAC-CHAP, which travel as data of Authentication Send and Receive. Pure, no state.
 * Little-endian fields.
 *
 *   host                                   controller
 *     Send     Negotiate      ------->       hashes and groups that it knows
 *     Receive                 <-------       Challenge: one of each, C1, g^x
 *     Send     Reply          ------->       response to C1, [C2], g^y
 *     Receive                 <-------       Success1 [: response to C2]
 *   [ Send     Success2       ------->  ]
 *
 * In place of each there may be Failure1 (the controller's) or Failure2 (the host's).
 */
#ifndef NVME_AUTH_H
#define NVME_AUTH_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define NVMF_AUTH_SECP 0xe9u /* CDW10 31:24; SPSP1 23:16 and SPSP0 15:8 are 1 */
#define NVMF_AUTH_CDW10 (NVMF_AUTH_SECP << 24 | 1u << 16 | 1u << 8)
#define NVMF_CONNECT_ATR (1u << 17) /* in Connect's DW0: authentication is required */
#define NVMF_ST_AUTH_REQUIRED 0x191u

enum nvmf_auth_type {
	NVMF_AUTH_COMMON = 0,
	NVMF_AUTH_DHCHAP = 1,
};

enum nvmf_auth_id {
	NVMF_AUTH_NEGOTIATE = 0x00, /* common */
	NVMF_AUTH_CHALLENGE = 0x01,
	NVMF_AUTH_REPLY = 0x02,
	NVMF_AUTH_SUCCESS1 = 0x03,
	NVMF_AUTH_SUCCESS2 = 0x04,
	NVMF_AUTH_FAILURE2 = 0xf0, /* common */
	NVMF_AUTH_FAILURE1 = 0xf1, /* common */
};

enum nvmf_hash {
	NVMF_HASH_NONE = 0, /* of a secret that is used as it is */
	NVMF_HASH_SHA256 = 1,
	NVMF_HASH_SHA384 = 2,
	NVMF_HASH_SHA512 = 3,
};
#define NVMF_HASH_MAX 64u /* bytes */

enum nvmf_group {
	NVMF_GROUP_NULL = 0,
	NVMF_GROUP_2048 = 1,
	NVMF_GROUP_3072 = 2,
	NVMF_GROUP_4096 = 3,
	NVMF_GROUP_6144 = 4,
	NVMF_GROUP_8192 = 5,
};
#define NVMF_GROUP_MAX 1024u /* bytes */

/* 0: there is none of that number. */
static inline uint32_t nvmf_hash_bytes(uint8_t hash)
{
	return hash >= NVMF_HASH_SHA256 && hash <= NVMF_HASH_SHA512 ? 16u + hash * 16u : 0;
}
/* Of a value of the group; the null group has none. */
static inline uint32_t nvmf_group_bytes(uint8_t group)
{
	static const uint16_t bytes[] = {0, 256, 384, 512, 768, 1024};

	return group <= NVMF_GROUP_8192 ? bytes[group] : 0;
}

/* Failure1, Failure2: rescode is 1, Authentication Failed; this explains it. */
enum nvmf_auth_why {
	NVMF_AUTH_FAILED = 0x01,
	NVMF_AUTH_NO_PROTOCOL = 0x02,
	NVMF_AUTH_CONCAT = 0x03, /* secure channel concatenation */
	NVMF_AUTH_NO_HASH = 0x04,
	NVMF_AUTH_NO_GROUP = 0x05,
	NVMF_AUTH_PAYLOAD = 0x06,
	NVMF_AUTH_MESSAGE = 0x07, /* not that one, now */
};

/* How each begins. */
struct nvmf_auth_hdr {
	uint8_t type, id;
	uint16_t rsvd;
	uint16_t tid; /* the host's number of this transaction */
};
static_assert(sizeof(struct nvmf_auth_hdr) == 6, "messages");

#define NVMF_AUTH_IDS 30u
struct nvmf_auth_protocol {
	uint8_t id; /* 1: DH-HMAC-CHAP */
	uint8_t rsvd;
	uint8_t nr_hashes, nr_groups;
	uint8_t hashes[NVMF_AUTH_IDS], groups[NVMF_AUTH_IDS];
};
static_assert(sizeof(struct nvmf_auth_protocol) == 64, "Negotiate");

struct nvmf_auth_negotiate {
	struct nvmf_auth_hdr hdr;
	uint8_t sc_c; /* 0: no secure channel */
	uint8_t nr_protocols;
	struct nvmf_auth_protocol protocol[];
};
static_assert(sizeof(struct nvmf_auth_negotiate) == 8, "Negotiate");

struct nvmf_auth_challenge {
	struct nvmf_auth_hdr hdr;
	uint8_t hash_bytes, rsvd;
	uint8_t hash, group;
	uint16_t group_bytes;
	uint32_t seq;
	uint8_t c1_dh[]; /* C1, then the DH value */
};
static_assert(sizeof(struct nvmf_auth_challenge) == 16, "Challenge");

struct nvmf_auth_reply {
	struct nvmf_auth_hdr hdr;
	uint8_t hash_bytes, rsvd;
	uint8_t has_c2, rsvd2;
	uint16_t group_bytes;
	uint32_t seq; /* 0: C2 isn't to be answered */
	uint8_t r1_c2_dh[];
};
static_assert(sizeof(struct nvmf_auth_reply) == 16, "Reply");

struct nvmf_auth_success1 {
	struct nvmf_auth_hdr hdr;
	uint8_t hash_bytes, rsvd;
	uint8_t has_response;
	uint8_t rsvd2[7];
	uint8_t r2[];
};
static_assert(sizeof(struct nvmf_auth_success1) == 16, "Success1");

struct nvmf_auth_success2 {
	struct nvmf_auth_hdr hdr;
	uint8_t rsvd[10];
};
static_assert(sizeof(struct nvmf_auth_success2) == 16, "Success2");

struct nvmf_auth_failure {
	struct nvmf_auth_hdr hdr;
	uint8_t reason; /* 1 */
	uint8_t why;	/* enum nvmf_auth_why */
};
static_assert(sizeof(struct nvmf_auth_failure) == 8, "Failure1, Failure2");

#endif
