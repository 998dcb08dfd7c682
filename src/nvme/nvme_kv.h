/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVMe Key-Value command set on the wire (KV Command Set 1.0c to 1.3, CSI 01h), as far as
 * libnvme's <nvme/types.h> does not have it: opcodes, option bits, statuses, the key inside an SQE,
 * Identify and List data. Pure: no state, no thread. Used by kv/, target/, client/ and the tests.
 *
 *   SQE byte  0 opc  1 flags  2 CID  4 NSID  8 key[0..7]  16 MPTR  24 DPTR  40 CDW10 = value or
 *   buffer bytes
 *            44 KL   45 options   48 CDW12  52 CDW13   56 key[8..15]
 */
#ifndef PEAL_NVME_KV_H
#define PEAL_NVME_KV_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Generic submission queue entry, little-endian fields (NVMe Base 2.0, figure 87). The host here
 * is little-endian; base/le.h converts where code must also run elsewhere. */
struct nvme_sqe {
	uint8_t opc;
	uint8_t flags; /* 1:0 FUSE, 7:6 PSDT */
	uint16_t cid;
	uint32_t nsid;
	union {
		struct {
			uint32_t cdw2;
			uint32_t cdw3;
		};
		uint8_t key_lo[8];
	};
	uint64_t mptr;
	union {
		struct {
			uint64_t prp1;
			uint64_t prp2;
		};
		struct nvme_sgl {
			uint64_t addr;
			uint32_t len;
			uint8_t rsvd[3];
			uint8_t id; /* 7:4 type, 3:0 sub type */
		} sgl;
	};
	uint32_t cdw10;
	uint32_t cdw11;
	uint32_t cdw12;
	uint32_t cdw13;
	union {
		struct {
			uint32_t cdw14;
			uint32_t cdw15;
		};
		uint8_t key_hi[8];
	};
};
static_assert(sizeof(struct nvme_sqe) == 64, "an SQE has 64 bytes");
static_assert(offsetof(struct nvme_sqe, prp1) == 24, "DPTR");
static_assert(offsetof(struct nvme_sqe, key_hi) == 56, "key bytes 8..15");

/* Completion queue entry. `status` carries the phase in bit 0. */
struct nvme_cqe {
	uint32_t dw0;
	uint32_t dw1;
	uint16_t sq_head;
	uint16_t sq_id;
	uint16_t cid;
	uint16_t status;
};
static_assert(sizeof(struct nvme_cqe) == 16, "a CQE has 16 bytes");

#define NVME_PSDT(flags) ((flags) >> 6) /* 0 PRP, 1 SGL (MPTR contiguous), 2 SGL (MPTR is an SGL) */
#define NVME_SGL_TYPE(id) ((id) >> 4)
enum {
	NVME_SGL_DATA_BLOCK = 0,
	NVME_SGL_BIT_BUCKET = 1,
	NVME_SGL_SEGMENT = 2,
	NVME_SGL_LAST_SEGMENT = 3,
	NVME_SGL_KEYED = 4,
	NVME_SGL_TRANSPORT = 5,
};

enum nvme_kv_opc {
	NVME_KV_FLUSH = 0x00,
	NVME_KV_STORE = 0x01,
	NVME_KV_RETRIEVE = 0x02,
	NVME_KV_LIST = 0x06,
	NVME_KV_DELETE = 0x10,
	NVME_KV_EXIST = 0x14,
};

/* Option byte, CDW11 15:8 (KV 1.3, figures 21 and 25). */
enum {
	NVME_KV_STORE_IF_EXISTS = 1u << 0, /* else 87h */
	NVME_KV_STORE_IF_ABSENT = 1u << 1, /* else 89h */
	NVME_KV_STORE_NO_COMPRESS = 1u << 2,
	NVME_KV_RETRIEVE_RAW = 1u << 0,
};

/*
 * A status as the code passes it: SCT in 10:8, SC in 7:0, DNR in bit 14. nvme_status_wire() adds
 * the phase.
 */
enum nvme_st {
	NVME_ST_OK = 0x000,
	NVME_ST_INVALID_OPCODE = 0x001,
	NVME_ST_INVALID_FIELD = 0x002,
	NVME_ST_CID_CONFLICT = 0x003,
	NVME_ST_DATA_TRANSFER = 0x004,
	NVME_ST_INTERNAL = 0x006,
	NVME_ST_ABORTED = 0x007,
	NVME_ST_ABORTED_SQ_DELETED = 0x008,
	NVME_ST_OP_DENIED = 0x15,
	NVME_ST_INVALID_NS = 0x00b,
	NVME_ST_SEQUENCE = 0x00c,
	NVME_ST_SGL_SEGMENT = 0x00d,
	NVME_ST_SGL_COUNT = 0x00e,
	NVME_ST_SGL_LEN = 0x00f,
	NVME_ST_SGL_TYPE = 0x011,
	NVME_ST_PRP_OFFSET = 0x013,
	NVME_ST_SGL_OFFSET = 0x016,
	NVME_ST_KEEP_ALIVE_TIMEOUT = 0x01a,
	NVME_ST_NS_WRITE_PROTECTED = 0x020,
	NVME_ST_INTERRUPTED = 0x021, /* a bound was hit: the host may try again */
	NVME_ST_TRANSIENT_TRANSPORT = 0x022,
	NVME_ST_LBA_RANGE = 0x080,
	NVME_ST_CAPACITY_EXCEEDED = 0x081,
	NVME_ST_NS_NOT_READY = 0x082,
	NVME_ST_INVALID_VALUE_SIZE = 0x085,
	NVME_ST_INVALID_KEY_SIZE = 0x086,
	NVME_ST_KEY_NOT_FOUND = 0x087,
	NVME_ST_UNRECOVERED = 0x088,
	NVME_ST_KEY_EXISTS = 0x089,
	/* SCT 1: command specific */
	NVME_ST_CQ_INVALID = 0x100,
	NVME_ST_QID_INVALID = 0x101,
	NVME_ST_QSIZE_INVALID = 0x102,
	NVME_ST_ABORT_LIMIT = 0x103,
	NVME_ST_AER_LIMIT = 0x105,
	NVME_ST_INVALID_VECTOR = 0x108,
	NVME_ST_INVALID_LOG = 0x109,
	NVME_ST_INVALID_QUEUE_DELETION = 0x10c,
	NVME_ST_FEAT_NOT_SAVEABLE = 0x10d,
	NVME_ST_FEAT_NOT_CHANGEABLE = 0x10e,
	NVME_ST_FEAT_NOT_NS = 0x10f,
	NVME_ST_NS_INSUFFICIENT_CAPACITY = 0x115,
	NVME_ST_NS_ID_UNAVAILABLE = 0x116,
	NVME_ST_NS_ALREADY_ATTACHED = 0x118,
	NVME_ST_CTRL_LIST_INVALID = 0x11c,
	NVME_ST_IOCS_NOT_SUPPORTED = 0x129,
	NVME_ST_IOCS_COMBINATION = 0x12b,
	/* SCT 2: media */
	NVME_ST_WRITE_FAULT = 0x280,
	NVME_ST_READ_ERROR = 0x281,
	NVME_ST_COMPARE_FAILURE = 0x285,
	NVME_ST_DNR = 0x4000,
};

static inline uint16_t nvme_status_wire(uint16_t st, unsigned phase)
{
	return (uint16_t)(st << 1 | (phase & 1));
}

#define NVME_KV_KEY_MAX 16u
#define NVME_KV_VALUE_MAX (128u << 20)
#define NVME_KV_EFFECT_READ 0x1u  /* CSUPP: a plain user with rights on /dev/ngXnY may issue it */
#define NVME_KV_EFFECT_WRITE 0x3u /* CSUPP | LBCC */

static inline uint8_t nvme_kv_key_len(const struct nvme_sqe *sqe)
{
	return (uint8_t)sqe->cdw11;
}

static inline uint8_t nvme_kv_options(const struct nvme_sqe *sqe)
{
	return (uint8_t)(sqe->cdw11 >> 8);
}

/*
 * The 16 key bytes, as the SQE has them: bytes behind the key length are the host's, not zeroed
 * here.
 */
static inline void nvme_kv_key_get(const struct nvme_sqe *sqe, uint8_t key[16])
{
	memcpy(key, sqe->key_lo, 8);
	memcpy(key + 8, sqe->key_hi, 8);
}

/*
 * Sets the key, its length and the option byte; the rest of CDW11 is zeroed. len is 0 (List from
 * the start) to 16.
 */
static inline void nvme_kv_key_set(struct nvme_sqe *sqe, const void *key, uint8_t len, uint8_t opts)
{
	uint8_t k[16] = {0};

	memcpy(k, key, len);
	memcpy(sqe->key_lo, k, 8);
	memcpy(sqe->key_hi, k + 8, 8);
	sqe->cdw11 = (uint32_t)len | (uint32_t)opts << 8;
}

/* Identify Namespace, CNS 05h CSI 01h (facts: SPDK nvme_spec.h, xNVMe libxnvme_spec.h). */
struct nvme_kv_format {
	uint16_t kml; /* longest key, bytes, <= 16 */
	uint8_t rsvd2;
	uint8_t afo;
	uint32_t vml;  /* longest value, bytes */
	uint32_t mnks; /* most keys, 0 = not stated */
	uint8_t rsvd12[4];
};
static_assert(sizeof(struct nvme_kv_format) == 16, "KV format");

struct nvme_kv_id_ns {
	uint64_t nsze; /* bytes */
	uint64_t rsvd8;
	uint64_t nuse; /* bytes */
	uint8_t nsfeat;
	uint8_t nkvf; /* 0's based */
	uint8_t nmic;
	uint8_t rescap;
	uint8_t fpi;
	uint8_t kvfc;
	uint8_t rsvd30[2];
	uint32_t novg;
	uint32_t anagrpid;
	uint8_t rsvd40[3];
	uint8_t nsattr;
	uint16_t nvmsetid;
	uint16_t endgid;
	uint8_t nguid[16];
	uint8_t eui64[8];
	struct nvme_kv_format kvf[16];
	uint8_t rsvd328[3512];
	uint8_t vs[256];
};
static_assert(sizeof(struct nvme_kv_id_ns) == 4096, "Identify is 4096 bytes");
static_assert(offsetof(struct nvme_kv_id_ns, kvf) == 72, "KV formats");
static_assert(offsetof(struct nvme_kv_id_ns, vs) == 3840, "vendor area");

/* List: u32 count, then {u16 len, key bytes, zero pad to 4} (KV Command Set, figures 15 and 16). */
static inline uint32_t nvme_kv_list_entry_bytes(uint8_t key_len)
{
	return (2u + key_len + 3u) & ~3u;
}

#endif
