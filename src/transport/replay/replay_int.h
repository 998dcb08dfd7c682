/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside transport/replay: the host that owns queues, and a queue. A queue belongs to its worker;
 * the host to the home.
 */
#ifndef TRANSPORT_REPLAY_REPLAY_INT_H
#define TRANSPORT_REPLAY_REPLAY_INT_H

#include "transport/replay/replay.h"
#include "transport/replay/replay_record.h"

struct replay_slot {
	uint64_t prp1; /* of its buffer */
	uint64_t list; /* room for its PRP list */
};

struct replay_queue {
	struct tgt_sq sq;
	struct replay_host *host;
	struct replay_load *load;
	struct replay_record *rec; /* may be NULL */
	struct poller poller;
	uint32_t size; /* of both rings: depth + 1, so a CQE always finds a slot */
	uint32_t sq_head, sq_tail;
	uint32_t cq_head, cq_tail;
	uint8_t dev_phase, host_phase;
	bool is_stopping;
	uint32_t nr_free;
	uint16_t *free; /* stack of slots */
	struct replay_slot *slots;
	uint32_t slot_bytes;
	struct nvme_sqe *sqes;
	struct nvme_cqe *cqes;
	uint8_t *mem; /* rings, lists, data */
	size_t map_bytes;
	struct mem_region *region;
	struct list node;	     /* host->queues */
	struct mbox_msg start, stop; /* to the worker */
	struct mbox_msg stopped;     /* and from there */
};

struct replay_host {
	struct tgt_subsys *ss;
	struct tgt_ctrl *ctrl;
	struct replay_record *rec;
	struct list queues;
	uint16_t nr_queues;
	unsigned nr_running; /* not yet stopped */
	bool is_disabling;
	void (*done)(void *arg);
	void *arg;
};

int replay_queue_init(struct replay_queue *q, const struct replay_queue_opts *o);
void replay_queue_fini(struct replay_queue *q);
void replay_queue_start(struct replay_queue *q); /* from the home or before the reactors run */
void replay_queue_stop(struct replay_queue *q);	 /* replay_host_stopped() comes, on the home */
void replay_host_stopped(struct replay_host *h);

#endif
