/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs of `peal probe`: waves of commands behind one doorbell, and what their CQEs say about
 * the way there and back. See probe.h.
 *
 * A CQE is read as peal/ring.h has it: the half with the phase by acquire, then the whole entry
 * again. It is looked at once more when the wave is over and before the CQ head is given back: a
 * controller may not write a posted entry again, so one that has changed was published in the wrong
 * order. CIDs are never 0, and never repeat within what a queue holds: an answer to CID 0 is the
 * answer to an SQE of zeros, one that the device fetched from where ours isn't.
 */
/* tidy: no-test: test/peer/probe.py runs it against devices with planted faults */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/mono.h"
#include "cli/probe.h"
#include "peal/ring.h"

#define QUEUE_SPINS 64u
#define QUEUE_CID_FIRST 0x5001u
#define QUEUE_NR_CIDS 0x2000u
#define QUEUE_STRIDE 4u

void probe_queue_init(struct probe_queue *q, uint16_t qid, uint32_t size, void *sq, void *cq)
{
	*q = (struct probe_queue){.qid = qid, .size = size, .sq = sq, .cq = cq, .phase = 1};
	memset(sq, 0, size * sizeof(struct nvme_sqe));
	memset(cq, 0, size * sizeof(struct nvme_cqe));
}

uint16_t probe_queue_status(const struct probe_cmd *cmd)
{
	return cmd->cqe.status >> 1 & 0x7ff;
}

static int queue_bell_message(struct probe *p, const struct probe_queue *q, bool is_cq, uint32_t v)
{
	return probe_dev_write(p, (uint32_t)peal_doorbell_offset(q->qid, is_cq, QUEUE_STRIDE), 4,
			       v);
}

static int queue_bell(struct probe *p, const struct probe_queue *q, bool is_cq, uint32_t v)
{
	uint64_t off = peal_doorbell_offset(q->qid, is_cq, QUEUE_STRIDE) - VFU_DOORBELL_OFFSET;

	if (!p->has_bell_map)
		return queue_bell_message(p, q, is_cq, v);
	__atomic_store_n((uint32_t *)(p->bells + off), v, __ATOMIC_SEQ_CST);
	return 0;
}

static void queue_push(struct probe *p, struct probe_queue *q, struct probe_cmd *cmds, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		cmds[i].sqe.cid = p->next_cid++;
		if (p->next_cid == QUEUE_CID_FIRST + QUEUE_NR_CIDS)
			p->next_cid = QUEUE_CID_FIRST;
		cmds[i].is_done = false;
		q->sq[q->tail] = cmds[i].sqe;
		q->tail = peal_ring_next(q->tail, q->size);
	}
}

static uint64_t queue_high(const struct nvme_cqe *cqe)
{
	return __atomic_load_n((const uint64_t *)cqe + 1, __ATOMIC_ACQUIRE);
}

static struct nvme_cqe queue_load(const struct nvme_cqe *cqe)
{
	uint64_t half[2] = {__atomic_load_n((const uint64_t *)cqe, __ATOMIC_RELAXED),
			    __atomic_load_n((const uint64_t *)cqe + 1, __ATOMIC_RELAXED)};
	struct nvme_cqe to;

	memcpy(&to, half, sizeof(to));
	return to;
}

/* Takes CQEs into p->got, from number `have` on, until there are nr; the number there are. */
static unsigned queue_reap(struct probe *p, struct probe_queue *q, unsigned have, unsigned nr)
{
	uint64_t end = probe_deadline(p);

	for (unsigned spins = 0; have < nr; spins++) {
		if ((queue_high(&q->cq[q->cq_head]) >> 48 & 1) == q->phase) {
			p->got[have++] = queue_load(&q->cq[q->cq_head]);
			q->phase = peal_ring_phase(q->cq_head, q->size, q->phase);
			q->cq_head = peal_ring_next(q->cq_head, q->size);
		} else if (spins % QUEUE_SPINS == QUEUE_SPINS - 1) {
			if (mono_ns() >= end)
				break;
			sched_yield();
		}
	}
	return have;
}

/* Rings and waits. When nothing comes: is it the page, or the queue behind it? */
static unsigned queue_ring(struct probe *p, struct probe_queue *q, unsigned nr)
{
	unsigned have = 0;

	if (queue_bell(p, q, false, q->tail))
		return 0;
	have = queue_reap(p, q, 0, nr);
	if (have || !p->has_bell_map || queue_bell_message(p, q, false, q->tail))
		return have;
	have = queue_reap(p, q, 0, nr);
	if (have) {
		probe_bad(p, PROBE_DOORBELLS,
			  "the device doesn't see what is stored in the mapped page (queue %u); "
			  "by message it does",
			  q->qid);
		p->has_bell_map = false;
	}
	return have;
}

static struct probe_cmd *queue_find(struct probe_cmd *cmds, unsigned nr, uint16_t cid)
{
	/* CIDs of a wave follow each other, but for one wrap. */
	unsigned i = (uint16_t)(cid - cmds[0].sqe.cid);

	if (i >= nr)
		i = (uint16_t)(cid + QUEUE_NR_CIDS - cmds[0].sqe.cid);
	return i < nr && cmds[i].sqe.cid == cid ? &cmds[i] : NULL;
}

static void queue_check_head(struct probe *p, struct probe_queue *q, const struct nvme_cqe *cqe)
{
	if (cqe->sq_id != q->qid)
		probe_bad(p, PROBE_CQE, "CID %04xh: SQID is %u, expected %u", cqe->cid, cqe->sq_id,
			  q->qid);
	if (cqe->sq_head < q->size && peal_ring_used(q->sq_head, cqe->sq_head, q->size) <=
					      peal_ring_used(q->sq_head, q->tail, q->size)) {
		q->sq_head = cqe->sq_head;
		return;
	}
	probe_bad(p, PROBE_CQE, "CID %04xh: SQ head is %u, expected one from %u to %u", cqe->cid,
		  cqe->sq_head, q->sq_head, q->tail);
	q->sq_head = q->tail; /* to go on from */
}

/* The whole entry again: it must not have changed since its phase did. What it says now is used. */
static void queue_check_again(struct probe *p, const struct probe_queue *q, uint32_t slot,
			      struct nvme_cqe *cqe)
{
	struct nvme_cqe now = queue_load(&q->cq[slot]);

	if (memcmp(&now, cqe, sizeof(now)) == 0)
		return;
	probe_bad(p, PROBE_CQE,
		  "torn: slot %u of queue %u changed after its phase was there (DW0 %xh, then %xh; "
		  "CID %04xh, then %04xh)",
		  slot, q->qid, cqe->dw0, now.dw0, cqe->cid, now.cid);
	*cqe = now;
}

/* Whose is it, and does it say what was to be said? */
static int queue_match(struct probe *p, struct probe_cmd *cmds, unsigned nr,
		       const struct nvme_cqe *cqe)
{
	struct probe_cmd *cmd = queue_find(cmds, nr, cqe->cid);

	if (!cmd) {
		probe_bad(p, PROBE_SQE,
			  cqe->cid
				  ? "a CQE for CID %04xh, which nobody gave (status %03xh)"
				  : "an SQE of zeros was executed: what the host writes isn't what "
				    "the device reads (CQE: CID %u, status %03xh)",
			  cqe->cid, cqe->status >> 1 & 0x7ff);
		return -EBADMSG;
	}
	if (cmd->is_done) {
		probe_bad(p, PROBE_CQE, "CID %04xh was answered twice", cqe->cid);
		return -EBADMSG;
	}
	cmd->is_done = true;
	cmd->cqe = *cqe;
	if (cmd->has_dw0) {
		p->nr_dw0++;
		if (cqe->dw0 != cmd->want_dw0 && p->nr_dw0_bad++ == 0)
			snprintf(p->dw0_text, sizeof(p->dw0_text),
				 "CID %04xh: DW0 is %u, expected %u", cqe->cid, cqe->dw0,
				 cmd->want_dw0);
	}
	return 0;
}

static int queue_take(struct probe *p, struct probe_queue *q, struct probe_cmd *cmds, unsigned nr)
{
	uint32_t first = q->cq_head;
	unsigned have;
	int err = 0;

	queue_push(p, q, cmds, nr);
	have = queue_ring(p, q, nr);
	for (unsigned i = 0; i < have && !err; i++) {
		uint32_t slot = (first + i) % q->size;

		queue_check_again(p, q, slot, &p->got[i]);
		err = queue_match(p, cmds, nr, &p->got[i]);
		if (!err)
			queue_check_head(p, q, &p->got[i]);
	}
	if (have && queue_bell(p, q, true, q->cq_head) && !err)
		err = -ETIMEDOUT;
	if (!err && have < nr)
		err = -ETIMEDOUT;
	return err;
}

int probe_queue_wave(struct probe *p, enum probe_layer layer, struct probe_cmd *cmds, unsigned nr)
{
	int err = queue_take(p, &p->io, cmds, nr);

	for (unsigned i = 0; i < nr && !err; i++) {
		if (probe_queue_status(&cmds[i]) == cmds[i].want)
			continue;
		probe_bad(p, layer,
			  "CID %04xh was opcode %02xh, namespace %xh: status %03xh, expected %03xh",
			  cmds[i].sqe.cid, cmds[i].sqe.opc, cmds[i].sqe.nsid,
			  probe_queue_status(&cmds[i]), cmds[i].want);
		err = -EBADMSG;
	}
	return err;
}

int probe_queue_exec(struct probe *p, struct probe_queue *q, struct probe_cmd *cmd)
{
	return queue_take(p, q, cmd, 1);
}
