/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the vfio-user tests stand on: a server with its reactors, stepped in one thread, a namespace
 * whose completions the test can hold back, and a client made of raw messages and rings.
 *
 * rig_step() gives each reactor one turn; everything that waits does so by stepping, at most
 * RIG_TURNS times, so that a hang fails.
 */
#pragma once

#include "unit.h"

#include <linux/vfio.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/container.h"
#include "base/must.h"
#include "core/reactor.h"
#include "mem/mem.h"
#include "nvme/vfio_user.h"
#include "peal/ring.h"
#include "peal/vendor.h"
#include "target/tgt.h"
#include "transport/tr.h"

#define RIG_TURNS 20000
#define RIG_MEM_BYTES (8u << 20)
#define RIG_IOVA 0x100000000ull
#define RIG_DATA 0x400000u /* in the client's memory: data; below it rings */
#define RIG_HELD_MAX 4096
#define RIG_COPY_MAX (1u << 20)

struct rig {
	unsigned nr;
	uint32_t nr_reqs;   /* set before rig_init(), 0 = 512 */
	uint64_t spin_ns;   /* likewise, 0 = for ever */
	bool is_home_apart; /* likewise: the last of the reactors is the home alone */
	uint64_t clock_ns;  /* likewise, 0 = the real one: it stands still unless a test moves it */
	bool is_threaded;   /* likewise: reactors get threads, nobody steps them */
	struct reactor *reactors[4];
	struct tgt_node node;
	struct tgt_subsys *ss;
	struct tgt_ns *ns;
	struct tr *tr;
	char dir[64];
	bool is_held; /* Retrieve waits in `held`, after it has looked its data up */
	unsigned nr_held;
	unsigned nr_steps; /* of RIG_STEPS */
	struct tgt_req *held[RIG_HELD_MAX];
	struct mem_region *own; /* what RIG_COPY copies */
	uint8_t *own_base;
	int nr_fds; /* before anything was opened */
	bool is_stopped;
};

/* The namespace's commands. */
enum {
	RIG_READ = 0x02, /* CDW10 bytes of rig_byte(CDW12, i) to the host */
	RIG_WRITE =
		0x01, /* CDW10 bytes, checked against rig_byte(CDW12, i); DW0 = bytes that differ */
	RIG_NOP = 0x14,	  /* DW0 = CDW12 */
	RIG_STEPS = 0x85, /* goes on CDW12 times, in turns to come */
	RIG_COPY = 0x82, /* CDW10 bytes to the host, by the worker's copy engine; <= RIG_COPY_MAX */
};

static inline uint8_t rig_byte(uint32_t seed, uint32_t i)
{
	return (uint8_t)((seed * 2654435761u + i * 40503u) >> 7);
}

void rig_init(struct rig *r, unsigned nr, const struct vfu_opts *o);
void rig_fini(struct rig *r); /* stops, and checks that nothing is left */
void rig_stop(struct rig *r);
/* Has begun; *is_stopped comes later. */
void rig_stop_begin(struct rig *r, struct tr *tr, bool *is_stopped);
void rig_done(void *arg); /* sets the bool */
void rig_step(struct rig *r);
void rig_steps(struct rig *r, unsigned nr);
void rig_let_go(struct rig *r, uint16_t status); /* completes what is held */
unsigned rig_nr_free(struct rig *r);		 /* requests of all workers */
int rig_count_fds(void);

#define rig_until(r, cond) \
	do { \
		int turns_ = RIG_TURNS; \
		while (!(cond)) { \
			if (!turns_-- && !(r)->is_threaded) \
				fail_msg("%s never came true", #cond); \
			rig_step(r); \
		} \
	} while (0)

struct peer_queue {
	uint16_t qid;
	uint32_t size;
	uint32_t sq_tail, cq_head, phase;
	uint32_t sq_at, cq_at; /* in the client's memory */
};

struct peer {
	struct rig *rig;
	int fd;
	uint16_t msg_id;
	uint32_t stride;
	int mem_fd;
	uint8_t *mem;
	int bar0_fd;
	uint8_t *bar0;
	bool is_shared; /* mem and bar0 are the server's own mappings */
	int bell[32];
	unsigned nr_bells, nr_woken;
	struct peer_queue q[TGT_QUEUES_MAX + 1];
	/* the last reply */
	struct vfio_user_hdr hdr;
	uint8_t rx[70000] __attribute__((aligned(8)));
	uint32_t rx_len;
	int fds[40];
	unsigned nr_fds;
};

#define PEER_STOCK NULL
#define PEER_PEAL \
	"{\"capabilities\":{\"max_msg_fds\":33,\"peal\":{\"doorbell_stride\":64,\"arena\":true," \
	"\"wakeup\":32,\"operator\":true}}}"

struct peer_msg {
	uint16_t cmd;
	uint32_t flags;
	const void *data;
	uint32_t len;
	const int *fds;
	unsigned nr_fds;
};

void peer_connect(struct rig *r, struct peer *p);		 /* no VERSION yet */
void peer_open(struct rig *r, struct peer *p, const char *json); /* VERSION, memory, BAR0 */
void peer_share(struct peer *p); /* from here through the server's mappings */
void peer_close(struct peer *p);
void peer_send(struct peer *p, const struct peer_msg *m);
bool peer_try_recv(struct peer *p); /* a whole reply; false: nothing there; closed: rx_len = ~0 */
int peer_recv(struct peer *p);	    /* steps until the reply is there; its errno, -1 = closed */
int peer_call(struct peer *p, uint16_t cmd, const void *data, uint32_t len);
int peer_ask(struct peer *p, const struct peer_msg *m); /* send and receive */
void peer_drop_fds(struct peer *p);
bool peer_is_closed(struct peer *p); /* steps a while */

int peer_map(struct peer *p, int fd, uint64_t off, uint64_t iova, uint64_t size);
int peer_unmap(struct peer *p, uint64_t iova, uint64_t size);
uint64_t peer_reg(struct peer *p, uint32_t off, uint32_t len);
void peer_reg_set(struct peer *p, uint32_t off, uint32_t len, uint64_t val);
void peer_enable(struct peer *p); /* admin queues of 32, until RDY */
void peer_disable(struct peer *p);
_Atomic uint32_t *peer_bell(struct peer *p, uint16_t qid, bool is_cq);

void peer_submit(struct peer *p, uint16_t qid,
		 const struct nvme_sqe *sqe); /* without the doorbell */
void peer_ring(struct peer *p, uint16_t qid);
bool peer_reap(struct peer *p, uint16_t qid, struct nvme_cqe *cqe);
struct nvme_cqe peer_wait(struct peer *p, uint16_t qid);
uint16_t peer_admin(struct peer *p, struct nvme_sqe *sqe, uint32_t *dw0); /* status without DNR */
uint16_t peer_queue(struct peer *p, uint16_t qid, uint32_t size);
uint16_t peer_queue_del(struct peer *p, uint16_t qid);
struct nvme_sqe peer_read_sqe(uint16_t cid, uint32_t at, uint32_t len, uint32_t seed);
void peer_check_data(struct peer *p, uint32_t at, uint32_t len, uint32_t seed);
