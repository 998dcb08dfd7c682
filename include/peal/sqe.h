/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands as the wire has them: an SQE for each command of the KV command set and of Peal's own
 * (vendor.h, doc/vendor-commands.md), its data by PRP or SGL, and what a CQE says. Pure functions
 * over a struct of the caller's; no queue, no memory that anybody shares. C11, C++17, CUDA and HIP
 * clean. Fields are little-endian, so is the machine.
 *
 *	peal_sqe_retrieve(&s, nsid, &key, 0);
 *	peal_sqe_sgl(&s, iova, bytes);
 *
 * A builder sets all of the SQE but the data pointer, CDW10 where that is a length, and the CID.
 */
#ifndef PEAL_SQE_H
#define PEAL_SQE_H

#include <stdint.h>
#include "ring.h"
#include "types.h"
#include "vendor.h"

enum {
	PEAL_KV_FLUSH = 0x00,
	PEAL_KV_STORE = 0x01,
	PEAL_KV_RETRIEVE = 0x02,
	PEAL_KV_LIST = 0x06,
	PEAL_KV_DELETE = 0x10,
	PEAL_KV_EXIST = 0x14,
};

/* Options of Store and STORE_EX; of Retrieve. Those of RETRIEVE_EX are in vendor.h. */
#define PEAL_STORE_IF_EXISTS 1u
#define PEAL_STORE_IF_ABSENT 2u
#define PEAL_STORE_NO_COMPRESS 4u
#define PEAL_RETRIEVE_RAW 1u

/* Statuses that a reader tells apart: SCT << 8 | SC. */
#define PEAL_ST_OK 0x000u
#define PEAL_ST_DATA_TRANSFER 0x004u
#define PEAL_ST_INTERRUPTED 0x021u /* a bound was hit: again, or another way */
#define PEAL_ST_VALUE_SIZE 0x085u
#define PEAL_ST_KEY_SIZE 0x086u
#define PEAL_ST_NOT_FOUND 0x087u /* a miss: recompute */
#define PEAL_ST_EXISTS 0x089u
#define PEAL_ST_PENDING 0xffffffffu /* never on the wire: no CQE has said anything */

/* NVMe Base 2.0, figures 87 and 90. */
struct peal_sqe {
	uint8_t opc;
	uint8_t flags; /* 7:6 PSDT */
	uint16_t cid;
	uint32_t nsid;
	uint8_t key_lo[8]; /* CDW2, CDW3 */
	uint64_t mptr;
	uint64_t dptr[2]; /* PRP1 and PRP2, or one SGL descriptor */
	uint32_t cdw10;
	uint32_t cdw11; /* 7:0 key length, 15:8 options */
	uint32_t cdw12;
	uint32_t cdw13;
	uint8_t key_hi[8]; /* CDW14, CDW15 */
};

struct peal_cqe {
	uint32_t dw0;
	uint32_t dw1;
	uint16_t sq_head;
	uint16_t sq_id;
	uint16_t cid;
	uint16_t status; /* phase in bit 0 */
};

/* 0 good; else SCT << 8 | SC. */
PEAL_FN uint32_t peal_cqe_status(const struct peal_cqe *c)
{
	return c->status >> 1 & 0x7ffu;
}

/* ---- commands ---- */

PEAL_FN void peal_sqe_bare(struct peal_sqe *s, uint8_t opc, uint32_t nsid)
{
	for (int i = 0; i < 8; i++)
		s->key_lo[i] = s->key_hi[i] = 0;
	s->opc = opc;
	s->flags = 0;
	s->cid = 0;
	s->nsid = nsid;
	s->mptr = s->dptr[0] = s->dptr[1] = 0;
	s->cdw10 = s->cdw11 = s->cdw12 = s->cdw13 = 0;
}

PEAL_FN void peal_sqe_keyed(struct peal_sqe *s, uint8_t opc, uint32_t nsid,
			    const struct peal_key *key, uint32_t opts)
{
	peal_sqe_bare(s, opc, nsid);
	for (int i = 0; i < 8; i++) {
		s->key_lo[i] = key->b[i];
		s->key_hi[i] = key->b[8 + i];
	}
	s->cdw11 = key->len | opts << 8;
}

/* Answered when all that was acknowledged before is durable in the lowest persistent tier. */
PEAL_FN void peal_sqe_flush(struct peal_sqe *s, uint32_t nsid)
{
	peal_sqe_bare(s, PEAL_KV_FLUSH, nsid);
}

/* Data: the value. opts: PEAL_STORE_*. */
PEAL_FN void peal_sqe_store(struct peal_sqe *s, uint32_t nsid, const struct peal_key *key,
			    uint32_t opts)
{
	peal_sqe_keyed(s, PEAL_KV_STORE, nsid, key, opts);
}

/* Data: room for the value; none: just its size. DW0 = the value's size, also when it is larger. */
PEAL_FN void peal_sqe_retrieve(struct peal_sqe *s, uint32_t nsid, const struct peal_key *key,
			       uint32_t opts)
{
	peal_sqe_keyed(s, PEAL_KV_RETRIEVE, nsid, key, opts);
}

PEAL_FN void peal_sqe_exist(struct peal_sqe *s, uint32_t nsid, const struct peal_key *key)
{
	peal_sqe_keyed(s, PEAL_KV_EXIST, nsid, key, 0);
}

PEAL_FN void peal_sqe_delete(struct peal_sqe *s, uint32_t nsid, const struct peal_key *key)
{
	peal_sqe_keyed(s, PEAL_KV_DELETE, nsid, key, 0);
}

/* Keys behind `after`, whose len 0 means from the start. Data: u32 count, then the keys. */
PEAL_FN void peal_sqe_list(struct peal_sqe *s, uint32_t nsid, const struct peal_key *after)
{
	peal_sqe_keyed(s, PEAL_KV_LIST, nsid, after, 0);
}

/* Data: struct peal_store_ex, the value, seals if it says so. */
PEAL_FN void peal_sqe_store_ex(struct peal_sqe *s, uint32_t nsid, const struct peal_key *key,
			       uint32_t opts)
{
	peal_sqe_keyed(s, PEAL_OPC_STORE_EX, nsid, key, opts);
}

struct peal_sqe_range {
	uint32_t offset_4k; /* first byte, in units of 4 KiB */
	uint32_t version;   /* wanted; low 32 bits, 0 = any */
	uint32_t opts;	    /* PEAL_RETRIEVE_RAW, PEAL_RETRIEVE_EX_* */
};
/* Data: room for what is asked, the block and the seals included. */
PEAL_FN void peal_sqe_retrieve_ex(struct peal_sqe *s, uint32_t nsid, const struct peal_key *key,
				  const struct peal_sqe_range *r)
{
	peal_sqe_keyed(s, PEAL_OPC_RETRIEVE_EX, nsid, key, r->opts);
	s->cdw12 = r->offset_4k;
	s->cdw13 = r->version;
}

/*
 * Reserved: daemons without it answer Invalid Opcode. Data, both ways: u16 key length, the key, the
 * function's input; its output, at most out_bytes, comes in its place.
 */
PEAL_FN void peal_sqe_exec(struct peal_sqe *s, uint32_t nsid, uint32_t function, uint32_t out_bytes)
{
	peal_sqe_bare(s, PEAL_OPC_EXEC, nsid);
	s->cdw12 = out_bytes;
	s->cdw13 = function;
}

/* Data: struct peal_wire_key for each key. tiers 0 = any; pin_ms 0 = don't. */
PEAL_FN void peal_sqe_match(struct peal_sqe *s, uint32_t nsid, uint16_t flags, uint16_t tiers,
			    uint32_t pin_ms)
{
	peal_sqe_bare(s, PEAL_OPC_MATCH, nsid);
	s->cdw12 = flags | (uint32_t)tiers << 16;
	s->cdw13 = pin_ms;
}

/* Data: struct peal_wire_hint for each. DW0 = how many were taken. */
PEAL_FN void peal_sqe_hint(struct peal_sqe *s, uint32_t nsid)
{
	peal_sqe_bare(s, PEAL_OPC_HINT, nsid);
}

/* Data: room for struct peal_wire_lease, its extents and seals. DW0 = what that takes. */
PEAL_FN void peal_sqe_lease(struct peal_sqe *s, uint32_t nsid, const struct peal_key *key,
			    uint32_t ms)
{
	peal_sqe_keyed(s, PEAL_OPC_LEASE, nsid, key, 0);
	s->cdw12 = ms;
}

PEAL_FN void peal_sqe_release(struct peal_sqe *s, uint32_t nsid, uint64_t lease)
{
	peal_sqe_bare(s, PEAL_OPC_RELEASE, nsid);
	s->cdw10 = (uint32_t)lease;
	s->cdw11 = (uint32_t)(lease >> 32);
}

/* ---- their data ---- */

/* `bytes` contiguous ones at a bus address. */
PEAL_FN void peal_sqe_sgl(struct peal_sqe *s, uint64_t addr, uint32_t bytes)
{
	s->flags = (uint8_t)((s->flags & 0x3f) | 1u << 6); /* PSDT: SGL */
	s->dptr[0] = addr;
	s->dptr[1] = bytes; /* type and sub type 0: data block, address */
	s->cdw10 = bytes;
}

/*
 * An entry of a list of several pieces: 31:0 bytes, 63:60 what it is, 0 = data. A hole drops what
 * would go there. MORE and LAST, the last entry of a list, name the next one.
 */
struct peal_sgl {
	uint64_t addr;
	uint64_t len_type;
};
#define PEAL_SGL_HOLE (1ull << 60)
#define PEAL_SGL_MORE (2ull << 60) /* it ends in a MORE or LAST itself */
#define PEAL_SGL_LAST (3ull << 60)

/* nr pieces, `bytes` of data together, described by a list at bus address `list`. */
PEAL_FN void peal_sqe_sgl_list(struct peal_sqe *s, uint64_t list, uint32_t nr, uint32_t bytes)
{
	s->flags = (uint8_t)((s->flags & 0x3f) | 1u << 6);
	s->dptr[0] = list;
	s->dptr[1] = PEAL_SGL_LAST | nr * (uint32_t)sizeof(struct peal_sgl);
	s->cdw10 = bytes;
}

/* By PRPs, for controllers without SGLs: at most what the first two pages hold. */
PEAL_FN void peal_sqe_prp(struct peal_sqe *s, uint64_t addr, uint32_t bytes)
{
	s->dptr[0] = addr;
	s->dptr[1] = (addr & 4095u) + bytes > 4096u ? (addr | 4095u) + 1 : 0;
	s->cdw10 = bytes;
}

/* Pages of PRP list that `bytes` at addr take; 0: two PRPs are enough. */
PEAL_FN uint32_t peal_prp_pages(uint64_t addr, uint64_t bytes)
{
	uint64_t nr = ((addr & 4095u) + bytes + 4095) / 4096 - 1; /* pages behind the first */

	/* The last entry of a page that isn't the last one names the next. */
	return nr <= 1 ? 0 : (uint32_t)((nr - 1 + 510) / 511);
}

/*
 * By PRPs of any number. list: peal_prp_pages() pages that the caller has at bus address list_addr,
 * both page-aligned; its until the CQE.
 */
PEAL_FN void peal_sqe_prp_list(struct peal_sqe *s, uint64_t addr, uint32_t bytes, uint64_t *list,
			       uint64_t list_addr)
{
	uint64_t page = (addr | 4095u) + 1, left = ((addr & 4095u) + bytes + 4095) / 4096 - 1;
	uint32_t at = 0;

	peal_sqe_prp(s, addr, bytes);
	if (!bytes || left <= 1)
		return;
	s->dptr[1] = list_addr;
	for (; left; left--, page += 4096) {
		if (at % 512 == 511 && left > 1) {
			list[at] = list_addr + (at + 1) * 8ull;
			at++;
		}
		list[at++] = page;
	}
}

#if defined(__cplusplus)
static_assert(sizeof(struct peal_sqe) == 64 && sizeof(struct peal_cqe) == 16, "as on the wire");
static_assert(sizeof(struct peal_sgl) == 16, "an SGL descriptor");
#else
_Static_assert(sizeof(struct peal_sqe) == 64 && sizeof(struct peal_cqe) == 16, "as on the wire");
_Static_assert(sizeof(struct peal_sgl) == 16, "an SGL descriptor");
#endif

#endif
