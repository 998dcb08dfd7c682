/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device side: a queue pair in memory that the daemon sees, driven by whoever builds commands -
 * a thread, a guest's program, later a GPU kernel. Builds SQEs, rings, reaps; knows nothing of how
 * the queue was made (Create I/O CQ and SQ are the owner's) and allocates nothing.
 *
 *   peal_device_kv(), peal_device_sgl() --> peal_device_put() ... --> peal_device_ring(), once
 *   peal_device_reap() until all are there, results by CID --> peal_device_reaped(), once
 *
 * One owner drives a queue; others may build SQEs beside each other and hand them over. C11 and
 * C++17; what touches memory that the other side touches too goes through the port layer below,
 * which a later CUDA or HIP build brings itself (PEAL_PORT).
 */
#ifndef PEAL_DEVICE_H
#define PEAL_DEVICE_H

#include <stdint.h>
#include <string.h>
#include "ring.h"
#include "types.h"

#ifndef PEAL_PORT
#define PEAL_PORT
/* All writes so far are seen before this one: SQEs before their doorbell. */
PEAL_FN void peal_port_bell(volatile uint32_t *bell, uint32_t v)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(bell, v, __ATOMIC_RELAXED);
}

PEAL_FN uint64_t peal_port_load(const volatile uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

PEAL_FN void peal_port_acquire(void)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
}
#endif

/* As the wire has them (NVMe Base 2.0, figures 87 and 90); little-endian. */
struct peal_sqe {
	uint8_t opc;
	uint8_t flags;
	uint16_t cid;
	uint32_t nsid;
	uint8_t key_lo[8]; /* CDW2, CDW3 */
	uint64_t mptr;
	uint64_t dptr[2]; /* PRP1 and PRP2, or one SGL descriptor */
	uint32_t cdw10;
	uint32_t cdw11;
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

PEAL_FN uint32_t peal_device_status(const struct peal_cqe *c)
{
	return c->status >> 1 & 0x7ffu; /* 0 good; else SCT << 8 | SC */
}

/* A KV command without data: CDW10 and the options are the caller's to add. */
PEAL_FN void peal_device_kv(struct peal_sqe *s, uint8_t opc, uint32_t nsid,
			    const struct peal_key *key)
{
	memset(s, 0, sizeof(*s));
	s->opc = opc;
	s->nsid = nsid;
	memcpy(s->key_lo, key->b, 8);
	memcpy(s->key_hi, key->b + 8, 8);
	s->cdw11 = key->len;
}

/* Its data: `bytes` contiguous ones at a bus address. */
PEAL_FN void peal_device_sgl(struct peal_sqe *s, uint64_t addr, uint32_t bytes)
{
	s->flags = (uint8_t)((s->flags & 0x3f) | 1u << 6); /* PSDT: SGL */
	s->dptr[0] = addr;
	s->dptr[1] = bytes; /* type and sub type 0: data block, address */
	s->cdw10 = bytes;
}

/* The same by PRPs, for controllers without SGLs: at most what the first two pages hold. */
PEAL_FN void peal_device_prp(struct peal_sqe *s, uint64_t addr, uint32_t bytes)
{
	s->dptr[0] = addr;
	s->dptr[1] = (addr & 4095u) + bytes > 4096u ? (addr | 4095u) + 1 : 0;
	s->cdw10 = bytes;
}

struct peal_device_queue {
	struct peal_sqe *sq; /* `size` slots each, zeroed */
	volatile struct peal_cqe *cq;
	volatile uint32_t *sq_bell; /* doorbells: peal_doorbell_offset() in BAR0 */
	volatile uint32_t *cq_bell;
	uint32_t size;
	uint32_t sq_tail;
	uint32_t sq_head; /* as the last CQE told */
	uint32_t cq_head;
	uint32_t phase;
};

/* bar0: the mapping whose byte 0 is BAR0's, or would be; stride = 4 << CAP.DSTRD. */
PEAL_FN void peal_device_bells(struct peal_device_queue *q, void *bar0, uint32_t qid,
			       uint32_t stride)
{
	q->sq_bell = (volatile uint32_t *)((char *)bar0 + peal_doorbell_offset(qid, 0, stride));
	q->cq_bell = (volatile uint32_t *)((char *)bar0 + peal_doorbell_offset(qid, 1, stride));
}

/* After the caller has set the rest of *q; both rings empty. */
PEAL_FN void peal_device_start(struct peal_device_queue *q)
{
	q->sq_tail = 0;
	q->sq_head = 0;
	q->cq_head = 0;
	q->phase = 1;
}

/* Into the next slot; nobody sees it before peal_device_ring(). 0: the queue is full. */
PEAL_FN int peal_device_put(struct peal_device_queue *q, const struct peal_sqe *s)
{
	if (peal_ring_free(q->sq_head, q->sq_tail, q->size) == 0)
		return 0;
	q->sq[q->sq_tail] = *s;
	q->sq_tail = peal_ring_next(q->sq_tail, q->size);
	return 1;
}

PEAL_FN void peal_device_ring(struct peal_device_queue *q)
{
	peal_port_bell(q->sq_bell, q->sq_tail);
}

/*
 * The next completion, if there is one. When the half with the phase is seen, the whole entry is
 * read again behind a fence: what was read before may be half an older one (the torn-read rule).
 * Whose it is says its CID.
 */
PEAL_FN int peal_device_reap(struct peal_device_queue *q, struct peal_cqe *c)
{
	const volatile uint64_t *at = (const volatile uint64_t *)&q->cq[q->cq_head];
	uint64_t half[2];

	if ((peal_port_load(at + 1) >> 48 & 1) != q->phase)
		return 0;
	peal_port_acquire();
	half[0] = peal_port_load(at);
	half[1] = peal_port_load(at + 1);
	memcpy(c, half, sizeof(*c));
	q->phase = peal_ring_phase(q->cq_head, q->size, q->phase);
	q->cq_head = peal_ring_next(q->cq_head, q->size);
	q->sq_head = c->sq_head;
	return 1;
}

/* Gives the reaped slots back to the controller. */
PEAL_FN void peal_device_reaped(struct peal_device_queue *q)
{
	peal_port_bell(q->cq_bell, q->cq_head);
}

#if defined(__cplusplus)
static_assert(sizeof(struct peal_sqe) == 64 && sizeof(struct peal_cqe) == 16, "as on the wire");
#else
_Static_assert(sizeof(struct peal_sqe) == 64 && sizeof(struct peal_cqe) == 16, "as on the wire");
#endif

#endif
