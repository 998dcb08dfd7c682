/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands without a socket: a host inside the daemon, with a controller of its own, and I/O
 * queues whose rings, PRP lists and data lie in our own memory, one host half and one device half
 * in one poller of each reactor. For benches (load that no client's core limits), instruction
 * counts, regressions and fuzzing.
 *
 *   load->next() --> SQE ring --> tgt_req_init ... execute --> CQE ring --> load->done()
 *
 * replay_host_create() and replay_queue_create(): before the reactors run, or on the home's
 * reactor. A load's functions run on the queue's worker.
 */
#ifndef TRANSPORT_REPLAY_REPLAY_H
#define TRANSPORT_REPLAY_REPLAY_H

#include "target/tgt.h"
#include "transport/tr.h"

struct replay_host;
struct replay_queue;

struct replay_load {
	/*
	 * The next command: opcode, NSID and the command dwords of *sqe, which is zeroed; CID and
	 * data pointer are set by the queue. Host-to-controller data go to buf (slot_bytes). Bytes
	 * that the data pointer shall name (0 = none), or -EAGAIN: nothing now.
	 */
	int64_t (*next)(struct replay_load *l, uint32_t slot, struct nvme_sqe *sqe, void *buf);
	/* slot and buf are those of next(); free again when this returns. */
	void (*done)(struct replay_load *l, uint32_t slot, const struct nvme_cqe *cqe,
		     const void *buf);
};

struct replay_queue_opts {
	unsigned worker;
	uint32_t depth;	     /* commands under way at most, 1 to 4095 */
	uint32_t slot_bytes; /* data of one command; rounded up to pages; 0 = none */
	struct replay_load *load;
};

int replay_host_create(struct tgt_subsys *ss, struct replay_host **h); /* -errno */
int replay_queue_create(struct replay_host *h, const struct replay_queue_opts *o,
			struct replay_queue **q);
/*
 * No more next(); what is under way ends; then the controller is disabled and done(arg) runs. On
 * the home.
 */
void replay_host_stop(struct replay_host *h, void (*done)(void *arg), void *arg);
void replay_host_destroy(struct replay_host *h); /* stopped */
struct tgt_ctrl *replay_host_ctrl(struct replay_host *h);
/* Queues made from now on record what they do; rec is the caller's, and outlives the host. */
struct replay_record;
void replay_host_record(struct replay_host *h, struct replay_record *rec);

/* ---- playing a recording ---- */

struct replay_play_opts {
	const char *path;
	/*
	 * 1: all queues of the recording are one queue, every command in the recorded order.
	 * More: recorded queue q goes to worker q modulo this, in order there.
	 */
	unsigned nr_workers;
	uint64_t mem_bytes; /* for data, 0 = 256 MiB: fewer commands at once when it isn't enough */
};
struct replay_play_stats {
	uint64_t nr_cmds;
	uint64_t nr_done;
	uint64_t nr_checked;  /* had a recorded completion */
	uint64_t nr_wrong;    /* whose status or DW0 was another one */
	uint32_t first_wrong; /* seq; valid when nr_wrong > 0 */
};
/* -errno; start() plays, nr_hosts() is 1 until everything is over. */
int replay_play_create(struct tgt_subsys *ss, const struct replay_play_opts *o, struct tr **tr);
void replay_play_stats(const struct tr *tr, struct replay_play_stats *st); /* any thread */

#endif
