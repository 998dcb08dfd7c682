/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device side: a queue pair in memory that the daemon sees, driven by whoever builds commands -
 * a GPU's thread or block, a thread of a CPU, a guest's program. Rings and reaps; sqe.h builds the
 * commands. It knows nothing of how the queue was made (Create I/O CQ and SQ are the owner's),
 * allocates nothing, waits for nothing without an end, and never traps. C11, C++17, CUDA and HIP:
 * what touches memory that the other side touches too goes through port.h.
 *
 * A queue pair is private to its group, so there are no atomics. Two ways to drive it:
 *
 * One by one, by one lane:
 *
 *   peal_sqe_...() --> peal_device_put() ... --> peal_device_ring(), once
 *   peal_device_reap() until all are there, results by CID --> peal_device_reaped(), once
 *
 * A wave, by all lanes of a group, each with a copy of the struct of its own, which stays equal in
 * all of them (one of them is kept for the next time):
 *
 *   peal_wave_begin(q, nr)                 0: a wave that was late is to be reaped first
 *   for (i = lane.id; i < nr; i += lane.nr)
 *       peal_sqe_...(&s, ...); peal_wave_put(q, i, &s, res);
 *   peal_wave_ring(q, &lane)               one doorbell for all of them
 *   peal_wave_reap(q, &lane, res, until)   each lane polls the slots of its own; res[i] is there
 *
 * Buffers that a command names are the controller's until its CQE. So a wave that is late is not
 * over: reap it again before anything else.
 */
#ifndef PEAL_DEVICE_H
#define PEAL_DEVICE_H

#include <stdint.h>
#include <string.h>
#include "port.h"
#include "ring.h"
#include "sqe.h"
#include "types.h"

struct peal_device_queue {
	struct peal_sqe *sq; /* `size` slots each, 16-byte aligned, zeroed */
	volatile struct peal_cqe *cq;
	volatile uint32_t *sq_bell; /* doorbells: peal_doorbell_offset() in BAR0 */
	volatile uint32_t *cq_bell;
	const volatile uint32_t *stop; /* not 0: a wait ends as if it were late; may be NULL */
	uint32_t size;		       /* 2 to PEAL_RING_MAX; 64 and more to be of use */
	uint32_t sq_tail;
	uint32_t sq_head; /* as the last CQE told */
	uint32_t cq_head;
	uint32_t phase;
	uint32_t nr_busy; /* put, and not yet reaped */
	uint32_t cid;	  /* of the wave's first command */
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
	q->nr_busy = 0;
	q->cid = 0;
}

/* ---- memory that is shared ---- */

PEAL_FN void peal_device_write(struct peal_sqe *slot, const struct peal_sqe *s)
{
	uint64_t from[8];

	memcpy(from, s, sizeof(from));
	for (int i = 0; i < 8; i += 2)
		peal_port_store((char *)slot + i * 8, from[i], from[i + 1]);
}

/*
 * Slot `at`, if it has been written since the phase was the other one. Both halves are read anew
 * behind an acquire of the one with the phase: read any earlier, the low one may be an older
 * entry's (the torn-read rule).
 */
PEAL_FN int peal_device_read(const struct peal_device_queue *q, uint32_t at, uint32_t phase,
			     struct peal_cqe *c)
{
	const volatile peal_port_u64 *slot = (const volatile peal_port_u64 *)&q->cq[at];
	uint64_t lo, hi;

	if ((peal_port_poll(slot + 1) >> 48 & 1) != phase)
		return 0;
	lo = peal_port_load(slot);
	hi = peal_port_load(slot + 1);
	c->dw0 = (uint32_t)lo;
	c->dw1 = (uint32_t)(lo >> 32);
	c->sq_head = (uint16_t)hi;
	c->sq_id = (uint16_t)(hi >> 16);
	c->cid = (uint16_t)(hi >> 32);
	c->status = (uint16_t)(hi >> 48);
	return 1;
}

/* ---- one by one ---- */

/* Into the next slot; nobody sees it before peal_device_ring(). 0: the queue is full. */
PEAL_FN int peal_device_put(struct peal_device_queue *q, const struct peal_sqe *s)
{
	/* No more than the completion queue has room for. */
	if (peal_ring_free(q->sq_head, q->sq_tail, q->size) == 0 || q->nr_busy == q->size - 1)
		return 0;
	peal_device_write(&q->sq[q->sq_tail], s);
	q->sq_tail = peal_ring_next(q->sq_tail, q->size);
	q->nr_busy++;
	return 1;
}

PEAL_FN void peal_device_ring(struct peal_device_queue *q)
{
	peal_port_bell(q->sq_bell, q->sq_tail);
}

/* The next completion, if there is one. Whose it is says its CID. */
PEAL_FN int peal_device_reap(struct peal_device_queue *q, struct peal_cqe *c)
{
	if (!peal_device_read(q, q->cq_head, q->phase, c))
		return 0;
	q->phase = peal_ring_phase(q->cq_head, q->size, q->phase);
	q->cq_head = peal_ring_next(q->cq_head, q->size);
	q->sq_head = c->sq_head;
	q->nr_busy--;
	return 1;
}

/* Gives the reaped slots back to the controller. */
PEAL_FN void peal_device_reaped(struct peal_device_queue *q)
{
	peal_port_bell(q->cq_bell, q->cq_head);
}

/* ---- waves ---- */

/* Of one command; in memory that all lanes of the group see behind their barrier. */
struct peal_result {
	uint32_t status; /* PEAL_ST_*, SCT << 8 | SC */
	uint32_t dw0;
	uint32_t dw1;
	uint32_t slot; /* of the completion queue; peal_wave_reap()'s */
};

enum {
	PEAL_WAVE_OVER = 0, /* every command has its status; PEAL_ST_PENDING: it was never named */
	PEAL_WAVE_LATE = 1, /* the time is over, or *stop said so: reap again */
	PEAL_WAVE_BAD = 2,  /* a CQE names no command of ours: this queue is of no use any more */
};

/* 0: nr is none or more than the queue can hold, or something is under way. */
PEAL_FN int peal_wave_begin(struct peal_device_queue *q, uint32_t nr)
{
	if (!nr || nr >= q->size || q->nr_busy)
		return 0;
	/* Not the last wave's, so that what is late and not ours is seen. FFFFh is nobody's. */
	q->cid = q->cid + PEAL_RING_MAX + nr > 0xffffu ? 0 : q->cid + PEAL_RING_MAX;
	q->nr_busy = nr;
	return 1;
}

/* Command i of the wave, by whichever lane; its CID is set here. */
PEAL_FN void peal_wave_put(const struct peal_device_queue *q, uint32_t i, struct peal_sqe *s,
			   struct peal_result *res)
{
	s->cid = (uint16_t)(q->cid + i);
	res[i].status = PEAL_ST_PENDING;
	res[i].dw0 = 0;
	res[i].dw1 = 0;
	res[i].slot = q->size;
	peal_device_write(&q->sq[peal_ring_add(q->sq_tail, i, q->size)], s);
}

/* All lanes, when each has put its commands. */
PEAL_FN void peal_wave_ring(struct peal_device_queue *q, const struct peal_lane *lane)
{
	q->sq_tail = peal_ring_add(q->sq_tail, q->nr_busy, q->size);
	peal_port_meet(lane, 1);
	if (lane->id == 0)
		peal_port_bell(q->sq_bell, q->sq_tail);
}

/* A completion goes to the command that it names. 0: there is none, or it has another's. */
PEAL_FN int peal_wave_take(const struct peal_device_queue *q, const struct peal_cqe *c,
			   uint32_t slot, struct peal_result *res)
{
	uint32_t i = (uint32_t)c->cid - q->cid;

	if (i >= q->nr_busy || (res[i].status != PEAL_ST_PENDING && res[i].slot != slot))
		return 0;
	res[i].slot = slot;
	res[i].dw0 = c->dw0;
	res[i].dw1 = c->dw1;
	res[i].status = peal_cqe_status(c);
	return 1;
}

/* Waits for slot `at`: PEAL_WAVE_*. */
PEAL_FN int peal_wave_slot(const struct peal_device_queue *q, uint32_t at, uint64_t until_ns,
			   struct peal_result *res)
{
	uint32_t phase = at < q->cq_head ? q->phase ^ 1 : q->phase; /* behind the wrap */
	struct peal_cqe c;

	while (!peal_device_read(q, at, phase, &c)) {
		if (peal_port_ns() >= until_ns || (q->stop && peal_port_word(q->stop)))
			return PEAL_WAVE_LATE;
		peal_port_pause();
	}
	return peal_wave_take(q, &c, at, res) ? PEAL_WAVE_OVER : PEAL_WAVE_BAD;
}

/*
 * All lanes: waits until every completion is there, at most until peal_port_ns() is until_ns. The
 * answer is the same in all of them. Over: the queue is as before the wave, the results are to be
 * read. Late: of those that aren't PENDING the results are good, and lanes that have read them meet
 * before they reap again, which finds the others too.
 */
PEAL_FN int peal_wave_reap(struct peal_device_queue *q, const struct peal_lane *lane,
			   struct peal_result *res, uint64_t until_ns)
{
	int how = PEAL_WAVE_OVER;

	/* Slots fill in order, so a lane's next is not there before its last. */
	for (uint32_t i = lane->id; i < q->nr_busy && how == PEAL_WAVE_OVER; i += lane->nr)
		how = peal_wave_slot(q, peal_ring_add(q->cq_head, i, q->size), until_ns, res);
	if (!peal_port_meet(lane, how == PEAL_WAVE_OVER))
		return peal_port_meet(lane, how != PEAL_WAVE_BAD) ? PEAL_WAVE_LATE : PEAL_WAVE_BAD;
	if (q->cq_head + q->nr_busy >= q->size)
		q->phase ^= 1;
	q->cq_head = peal_ring_add(q->cq_head, q->nr_busy, q->size);
	q->sq_head = q->sq_tail;
	q->nr_busy = 0;
	if (lane->id == 0)
		peal_port_bell(q->cq_bell, q->cq_head);
	return PEAL_WAVE_OVER;
}

#endif
