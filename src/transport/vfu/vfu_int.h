/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the vfio-user server share.
 *
 *   vfu ---- vfu_worker[w]: one per reactor: a poller, the queues it serves, this turn's burst
 *    |
 *    +------ vfu_dev: one client = one tgt_ctrl
 *              sock, config space, BAR0, DMA map: the home reactor's (tgt.h)
 *              view[w]: what worker w sees of it: a DMA snapshot, the interrupts. Worker w's,
 *                       changed by a round only
 *              sq[], cq[]: the tables are the home's, a queue belongs to the worker that serves it
 *
 * Everything that a client asks for on its socket is done one after the other: while one message
 * waits (for a round, a reset, I/O on a region that goes away) the next one isn't read.
 */
#ifndef TRANSPORT_VFU_INT_H
#define TRANSPORT_VFU_INT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <linux/vfio.h>
#include "base/list.h"
#include "base/must.h"
#include "core/counter.h"
#include "core/reactor.h"
#include "mem/mem.h"
#include "nvme/nvme_kv.h"
#include "nvme/vfio_user.h"
#include "target/tgt.h"
#include "transport/replay/replay_record.h"
#include "transport/tr.h"

#define VFU_QUEUES (TGT_QUEUES_MAX + 1) /* with the admin queue */
#define VFU_VECTORS VFU_QUEUES
#define VFU_MSG_FDS 16u	      /* QEMU takes no larger figure for a sound one */
#define VFU_XFER_BYTES 65536u /* max_data_xfer_size: no region that is read or written is larger */
#define VFU_MSG_BYTES (VFU_XFER_BYTES + 64u)
#define VFU_REPLY_FDS (1u + VFU_WAKE_WORKERS_MAX)
#define VFU_MAPS_MAX 4096u
#define VFU_MAPS_SURE_ALL 16384u       /* of all clients, each its share, whatever others have */
#define VFU_MAP_BYTES_ALL (1ull << 46) /* likewise, and no more: half of the addresses there are */
#define VFU_MSIX_BYTES 0x2000u	       /* BAR4: the table, then from 0x1000 the pending bits */
#define VFU_PBA_OFFSET 0x1000u
#define VFU_PCI_BYTES 4096u

struct vfu;
struct vfu_dev;
struct vfu_sq;
struct vfu_worker;

/* ---- DMA map (vfu_dma.c) ---- */

/* One mapping. The home's; lives until no snapshot has it. */
struct vfu_map {
	uint64_t addr;
	uint64_t len;
	uint32_t flags; /* MEM_READABLE | MEM_WRITABLE */
	uint32_t nr_snaps;
	struct mem_region *reg; /* NULL: came without a descriptor, can't be reached */
};

/* A worker's uses of a snapshot: requests in flight that have looked something up. */
struct vfu_pin {
	uint32_t nr;
	bool is_old; /* replaced: the last one out tells home */
	struct vfu_snap *snap;
	struct mbox_msg msg;
} __attribute__((aligned(64)));

struct vfu_ent {
	uint64_t addr;
	uint64_t len;
	struct mem_region *reg;
	uint32_t flags;
	struct vfu_map *map;
};

/* Immutable; sorted by address. */
struct vfu_snap {
	struct vfu_dev *dev;
	struct vfu_pin *pin; /* one per worker */
	unsigned nr_gone;    /* workers that have let go; the home's */
	uint32_t nr;
	struct vfu_ent e[];
};

/*
 * In: run->off = bus address, run->len = bytes wanted. Out: the run, maybe shorter. 0 or -EFAULT.
 */
int vfu_dma_run(struct vfu_snap *s, uint32_t *hit, uint32_t flags, struct mem_run *run);
void vfu_dma_unpin(struct vfu_worker *w, struct vfu_snap *s);
bool vfu_dma_covers(struct vfu_dev *d, uint64_t addr, uint64_t len, uint32_t flags);
/* Both change the home's list and make the snapshot that the next round publishes. 0 or -errno. */
int vfu_dma_map(struct vfu_dev *d, const struct vfio_user_dma_map *m, int fd);
int vfu_dma_unmap(struct vfu_dev *d, const struct vfio_user_dma_unmap *m);
void vfu_dma_unmap_all(struct vfu_dev *d); /* publishes nothing at all: the client is gone */
void vfu_dma_view(struct vfu_dev *d, struct vfu_worker *w); /* on w: the round */

/* ---- interrupts (vfu_irq.c) ---- */

/* A worker's uses of a table: writes under way by it. */
struct vfu_irq_use {
	struct list vecs;
	bool is_old; /* replaced: the last one out tells home */
	struct vfu_irqs *table;
	struct mbox_msg msg;
} __attribute__((aligned(64)));

/* Immutable once published. */
struct vfu_irqs {
	struct vfu_dev *dev;
	struct vfu_irq_use *use; /* one per worker */
	int fd[VFU_VECTORS];	 /* -1 = none */
	bool is_masked[VFU_VECTORS];
};

/* A source of interrupts: a CQ, or the home for a vector. Its worker's. */
struct vfu_vec {
	struct vfu_dev *dev;
	struct vfu_worker *w;
	struct list node;	/* while a write is under way: */
	struct vfu_irqs *table; /* by this table */
	struct io_req io, cancel;
	void (*stopped)(struct vfu_vec *v);
	uint16_t vector;
	bool is_busy, is_again, is_cancelling;
};

void vfu_irq_init(struct vfu_dev *d);
void vfu_irq_fire(struct vfu_vec *v);
void vfu_irq_stop(struct vfu_vec *v, void (*stopped)(struct vfu_vec *v));
void vfu_irq_quiet(struct vfu_dev *d); /* the home's: no more */
void vfu_irq_view(struct vfu_dev *d, struct vfu_worker *w);
/* 1: a round publishes it, vfu_irq_settled() is due after; 0: done; -errno. */
int vfu_irq_set(struct vfu_dev *d, const struct vfio_irq_set *set, uint32_t len);
void vfu_irq_none(struct vfu_dev *d); /* the next round takes all away */
void vfu_irq_settled(struct vfu_dev *d);

/* ---- one client's share of one worker (vfu_share.c) ---- */

/* Clients take turns, not queues: who opens 64 has no more than who opens one. The worker's. */
struct vfu_share {
	struct list node;     /* w->shares, while it has queues there */
	struct list turn;     /* likewise: w->idle or w->busy */
	struct list sqs;      /* served, in turn */
	struct list later;    /* requests that go on when it has its turn */
	struct mem_flow flow; /* of its transfers */
	struct vfu_dev *dev;
	uint64_t seen_ns; /* it last had commands */
	uint64_t paid_ns; /* its debt is as of then, and of that turn */
	uint64_t paid_turn;
	uint32_t debt;	    /* bytes' worth, beyond its part */
	uint32_t nr_queues; /* served, held and dying */
	uint32_t nr_live;   /* served and held; none: its transfers are stopped */
	uint32_t nr_ready;  /* queues that had something last turn */
	bool is_active;	    /* counted in dev->nr_active */
	bool has_more;	    /* it was given less than it asked for */
	bool is_cut;	    /* likewise, of the queue that was looked at last */
	bool is_step_next;  /* of `later`, not its commands */
};

#define VFU_TURN_COST 32768u   /* of several clients together: 2 us of copying */
#define VFU_SMALL_COST 8192u   /* while one of them has only a command now and then */
#define VFU_COMMAND_COST 4096u /* of one command, besides what it copies */
#define VFU_STEP_COST 65536u   /* of 64 keys of a List or MATCH */
#define VFU_NS_COST 16u	       /* of a nanosecond: what is copied in it */
#define VFU_LOOKS_MAX 8u       /* queues of a client that are looked at in one turn, then */
#define VFU_LOOKS_TURN 64u     /* and of all clients together that had nothing for long */
#define VFU_SMALL_PIECES 32u   /* then, too: 1 us of scattered buffers */
#define VFU_INLINE_LEAST 8192u /* copied at once, however many clients there are */
#define VFU_DEBT_MAX (64 * VFU_TURN_COST) /* 128 us: more is the scheduler's doing */
#define VFU_ACTIVE_NS 1000000u		  /* a client counts so long after its last command */

void vfu_share_init(struct vfu_share *s, struct vfu_dev *d);
void vfu_share_add(struct vfu_worker *w, struct vfu_share *s); /* a queue more */
void vfu_share_dying(struct vfu_share *s);		       /* a queue of it is served no more */
void vfu_share_del(struct vfu_worker *w, struct vfu_share *s); /* a queue less */
void vfu_share_rest(struct vfu_worker *w);		       /* it is about to sleep */
/* One turn of all clients. > 0: there was work, or somebody waits for its next part. */
int vfu_share_serve(struct vfu_worker *w);
void vfu_share_queues(struct vfu_dev *d, int more); /* home: I/O queues of a client's */
/* Requests that may be taken for this queue. */
uint32_t vfu_share_reqs(const struct vfu_sq *sq);
/* The next step of its oldest request that waits for one: how many were done. */
uint32_t vfu_share_step(struct vfu_share *s);

/* ---- queues (vfu_qp.c, vfu_queue.c) ---- */

struct vfu_note {
	struct mbox_msg msg;
	struct vfu_dev *dev;
};

enum vfu_after {
	VFU_AFTER_IRQ = 1,
	VFU_AFTER_TRACE = 2, /* CQEs may have a record that waits for them */
};

/*
 * A completion queue; its worker's, but for the fields that say so. A CQE is staged in the slot
 * that it will have in the client's ring: stage[tail..staged) are complete and not yet posted.
 */
struct vfu_cq {
	struct vfu_dev *dev;
	struct vfu_worker *w;
	_Atomic uint32_t *bell; /* CQ head, the client's */
	struct nvme_cqe *stage; /* size entries */
	uint64_t addr;
	uint32_t size;
	uint32_t head;	  /* last valid value of the doorbell */
	uint32_t tail;	  /* next slot to post */
	uint32_t staged;  /* next slot to stage */
	uint32_t phase;	  /* of `staged` */
	uint32_t nr_busy; /* slots promised: SQEs fetched whose CQE is not posted */
	uint32_t hit;
	uint32_t nr_sqs; /* the home's */
	struct vfu_vec vec;
	uint16_t qid;
	uint8_t after;	   /* enum vfu_after: what follows a posting */
	bool is_broken;	   /* its memory is gone: what is staged is dropped */
	bool is_bell_bad;  /* the client was told once */
	struct list dirty; /* w->dirty while something is staged; view.stuck: and can't be posted */
	bool is_dying;	   /* the home's */
	struct mbox_msg del;		       /* there and back */
	struct vfu_note note_bell, note_fatal; /* to the home, once each */
	struct tgt_req *req;		       /* the Delete command that waits */
};

struct vfu_sq {
	struct tgt_sq sq;
	struct vfu_dev *dev;
	struct vfu_worker *w;
	struct vfu_share *share;
	struct vfu_cq *cq;
	struct replay_record *rec; /* the client's, for an I/O queue that is recorded */
	bool is_traced;
	uint64_t bell_ns, fetch_ns; /* of a watched queue: the last of each */
	_Atomic uint32_t *bell;	    /* SQ tail, the client's */
	uint64_t addr;
	uint32_t size;
	uint32_t head;	   /* next slot to fetch */
	uint32_t tail;	   /* last valid value of the doorbell */
	uint32_t tail_end; /* tails below are taken as they are: size, or 0 when watched */
	uint32_t hit;	   /* last entry of the DMA snapshot: ring */
	uint32_t data_hit; /* the same, data */
	bool is_broken;
	bool is_bell_bad;
	bool is_dying;	  /* the home's: a delete is under way */
	struct list node; /* share->sqs, w->held or w->dying */
	struct mbox_msg add, del;
	struct vfu_note note_bell, note_fatal;
	struct tgt_req *req; /* the Delete command that waits */
};

int vfu_qp_poll(struct vfu_worker *w);
/* One client's part of a turn, its answers included: how many commands. */
/* Up to max commands of at most `looks` of its queues; the next ones are looked at next time. */
uint32_t vfu_qp_serve(struct vfu_worker *w, struct vfu_share *s, uint32_t max, uint32_t looks);
bool vfu_qp_has_more(const struct vfu_share *s); /* it may have rung for more than was taken */
int vfu_qp_flush_all(struct vfu_worker *w);	 /* CQs that had something posted */
uint16_t vfu_qp_data(struct tgt_req *req, uint64_t len, enum mem_xfer_dir dir);
int vfu_qp_resolve(struct tgt_req *req, uint64_t addr, uint64_t len, enum mem_xfer_dir dir,
		   struct mem_run *run);
void vfu_qp_respond(struct tgt_req *req);
void vfu_qp_later(struct tgt_req *req);
void vfu_qp_flush(struct vfu_cq *cq);

extern const struct tgt_sq_ops vfu_qp_ops;

/* ---- watched queues: recordings, traces, samples (vfu_watch.c); on their worker ---- */

/* A new queue, or another question who is watched: whether it is, and how, from now on. */
void vfu_watch_mark(struct vfu_sq *sq);
/* The same for all of a worker, and which of them are served at all. */
void vfu_watch_changed(struct tgt_watcher *wt);
void vfu_watch_sqe(struct vfu_sq *sq, struct tgt_req *req); /* after tgt_req_init() */
void vfu_watch_cqe(struct vfu_sq *sq, struct tgt_req *req);
/* One of the last nr SQEs taken is timed from start_ns; those in `over` are answered already. */
void vfu_watch_time(struct vfu_sq *sq, uint32_t nr, uint64_t over, uint64_t start_ns);

extern const struct tgt_sq_ops vfu_watch_ops; /* of queues that are recorded */

extern const struct tgt_ctrl_ops vfu_queue_ops;
int vfu_queue_drained(struct vfu_worker *w);
/* From a worker: once per queue each. */
void vfu_queue_bad_bell(struct vfu_worker *w, struct vfu_dev *d, struct vfu_note *n);
void vfu_queue_fatal(struct vfu_worker *w, struct vfu_dev *d, struct vfu_note *n);

/* ---- one reactor's share ---- */

struct vfu_worker {
	struct vfu *vfu;
	struct tgt_worker *tw;
	unsigned id;
	struct poller poller;
	struct list shares; /* clients with queues here */
	struct list idle;   /* of them: had nothing when they were last looked at, but lately */
	struct list quiet;  /* of them: nor lately */
	struct list busy;   /* of them: have more, in turn */
	uint32_t nr_shares;
	uint32_t nr_active; /* of them, that had commands lately, and messages */
	uint32_t nr_small;  /* of them, in `idle` */
	uint64_t turn;
	uint64_t nr_looks;	    /* at doorbells */
	uint64_t nr_mails, mail_ns; /* of the reactor, and when there was one more */
	struct list held;	    /* not served while the operator holds the worker */
	struct list dying;	    /* no longer fetched from, waiting for nr_inflight 0 */
	struct list dirty;	    /* CQs with staged entries */
	uint32_t nr_kept;	    /* requests that one client leaves to the others */
	uint32_t nr_stock;	    /* queues of clients that can't ring the bell */
	bool is_busy;		    /* never sleeps */
	bool is_armed;		    /* clients were told that it sleeps: this is the last look */
	bool is_blocked;	    /* something waits for a doorbell that no bell announces */
	uint64_t sleep_ns;	    /* what the reactor was told */
	uint64_t poll_ns;	    /* longest sleep beside a client that can't ring */
	struct mbox_msg start;
	struct mbox_msg kick; /* from the home, not again before it has arrived */
	_Atomic bool is_kicked;
	struct tgt_watcher watcher;
	int32_t until_timed; /* commands to the next that is timed */
	uint32_t nr_burst;
	struct tgt_req *burst[TGT_BURST];
	struct nvme_sqe sqes[TGT_BURST];
};

/* ---- the socket (vfu_sock.c) ---- */

struct vfu_sock {
	int fd;
	struct io_req io; /* the poll under way */
	bool is_polling;
	bool is_shut;	 /* no more reading or writing */
	bool is_closing; /* after the reply is out */
	bool is_running; /* inside its loop */
	/* the client's time is over: to say VERSION, for the rest of a message, to read a reply */
	struct timeout late;
	uint32_t rx_len; /* bytes of this message so far */
	uint32_t tx_len, tx_at;
	uint32_t nr_fds, nr_tx_fds;
	int fds[VFU_MSG_FDS];
	int tx_fds[VFU_REPLY_FDS]; /* borrowed */
	struct mem_region *tx_reg; /* whose descriptor it is */
	union {
		uint64_t align_rx;
		struct vfio_user_hdr hdr;
		uint8_t rx[VFU_MSG_BYTES];
	};
	union {
		uint64_t align_tx;
		struct vfio_user_hdr tx_hdr;
		uint8_t tx[VFU_MSG_BYTES];
	};
};

void vfu_sock_init(struct vfu_dev *d);
void vfu_sock_start(struct vfu_dev *d);
void vfu_sock_shut(struct vfu_dev *d);
void vfu_sock_close(int fd); /* with what lies in it unread */
int vfu_sock_take_fd(struct vfu_dev *d, unsigned i);
void vfu_sock_no_tx_fds(struct vfu_dev *d);
void vfu_sock_reply(struct vfu_dev *d, uint32_t len);
void vfu_sock_fail(struct vfu_dev *d, int err);

/* ---- one client (vfu_dev.c) ---- */

struct vfu_view {
	struct vfu_snap *snap; /* NULL: nothing is mapped */
	struct vfu_irqs *irqs; /* NULL: none */
	struct list stuck;     /* CQs with staged entries whose ring isn't mapped in `snap` */
	struct vfu_share share;
} __attribute__((aligned(64)));

/* A client's bell at one worker: an eventfd that the client writes, watched by the worker's env. */
struct vfu_bell {
	struct vfu_dev *dev;
	struct vfu_worker *w;
	int fd;
	bool is_stopping; /* w's, and all below */
	bool is_busy, is_cancelling;
	uint64_t nr;
	struct iovec iov;
	struct io_req io, cancel;
	struct mbox_msg msg;
};

enum vfu_wait {
	VFU_WAIT_NONE,
	VFU_WAIT_ROUND, /* map */
	VFU_WAIT_IRQS,	/* the round and the last write by the old table */
	VFU_WAIT_UNMAP, /* the round and the last user of the region */
	VFU_WAIT_RESET,
	VFU_WAIT_CLOSE,
};

struct vfu_dev {
	struct list node;
	struct vfu *vfu;
	struct tgt_ctrl *ctrl; /* NULL before VERSION */
	/* NULL: not recorded. The home sets it, once; workers look when a queue is marked. */
	struct replay_record *_Atomic rec;
	struct replay_record *old_rec; /* stopped, and some worker may not know it yet */
	char host[64];
	int pid;
	uint32_t uid;
	uint64_t since_ns;
	unsigned list_at; /* in the list under way, vfu_list.c; the home writes, workers read */
	uint64_t nr_cmds, read_bytes, write_bytes;	   /* of queues that are gone */
	bool may_operate;				   /* credentials */
	bool has_stride, has_arena, has_wake, is_operator; /* granted */
	bool is_quiet;					   /* closing: the controller is down */
	enum vfu_wait wait;
	struct vfu_sock sock;
	uint8_t cfg[VFU_PCI_BYTES];
	uint8_t msix[VFU_MSIX_BYTES];

	int bar0_fd;
	uint8_t *bar0; /* VFU_BAR0_BYTES, shared with the client */

	/* DMA: sorted by address, and the snapshot that the round under way publishes */
	struct vfu_map **maps;
	uint32_t nr_maps;
	uint32_t nr_dying;  /* unmapped, still in a snapshot that someone holds */
	uint32_t nr_mapped; /* of both, those with a mapping of ours, and their bytes */
	uint64_t mapped_bytes;
	uint32_t nr_snaps;
	struct vfu_snap *snap; /* what the workers have, or get by the round under way */
	struct vfu_irqs *irqs, *old_irqs;
	unsigned nr_old_irqs; /* workers that still use old_irqs */
	_Atomic uint8_t irq_pending[VFU_VECTORS];
	struct vfu_vec vec[VFU_VECTORS]; /* the home's own */
	unsigned nr_vecs;		 /* closing: not yet stopped */
	struct reactor_round round;
	bool is_round;
	void (*round_done)(struct vfu_dev *d);

	struct vfu_bell *bells; /* one per worker, with has_wake */
	unsigned nr_bells;	/* watched */
	struct vfu_view *view;	/* one per worker */

	struct vfu_sq *sq[VFU_QUEUES];
	struct vfu_cq *cq[VFU_QUEUES];
	unsigned nr_queues; /* of both kinds, until they are freed */
	bool is_disabling;
	unsigned nr_io_sqs;
	_Atomic uint32_t nr_active; /* workers where it had commands lately; they write it */
};

int vfu_dev_create(struct vfu *v, int fd);
int vfu_dev_record(struct vfu_dev *d);	    /* from now on: 0 or -errno, with a log line */
int vfu_dev_record_stop(struct vfu_dev *d); /* 0, -ENOENT, -EALREADY: it isn't over yet */
void vfu_dev_record_end(struct vfu_dev *d); /* every worker knows it */
int vfu_dev_negotiate(struct vfu_dev *d);   /* after VERSION: makes the controller */
void vfu_dev_round(struct vfu_dev *d, void (*done)(struct vfu_dev *d));
void vfu_dev_reset(struct vfu_dev *d);
void vfu_dev_close(struct vfu_dev *d);
void vfu_dev_kick(struct vfu_dev *d, unsigned qid);
void vfu_dev_resume(struct vfu_dev *d); /* the message that waited is answered: read the next */
void vfu_dev_settle(struct vfu_dev *d); /* something that a wait was for has ended */
/* vfu_bell.c: the client's eventfds. create: 0 or -errno, nothing left behind. */
int vfu_bell_create(struct vfu_dev *d);
void vfu_bell_stop(struct vfu_dev *d); /* vfu_dev_settle() for each that has ended */
void vfu_bell_destroy(struct vfu_dev *d);
void vfu_bell_arm(struct poller *p);
void vfu_bell_disarm(struct poller *p);
static inline _Atomic uint32_t *vfu_dev_bell(struct vfu_dev *d, uint16_t qid, bool is_cq)
{
	uint32_t stride = d->has_stride ? 64 : 4;

	return (_Atomic uint32_t *)(d->bar0 + VFU_DOORBELL_OFFSET + (2u * qid + is_cq) * stride);
}
static inline struct vfu_wake_page *vfu_dev_wake(struct vfu_dev *d)
{
	return (struct vfu_wake_page *)(d->bar0 + VFU_WAKE_OFFSET);
}

/* vfu_proto.c */
void vfu_proto_message(struct vfu_dev *d);

/* vfu_region.c */
void vfu_region_info(struct vfu_dev *d);
void vfu_region_read(struct vfu_dev *d);
void vfu_region_write(struct vfu_dev *d);
void vfu_region_write_multi(struct vfu_dev *d);

/* vfu_pci.c */
void vfu_pci_init(struct vfu_dev *d);
void vfu_pci_read(struct vfu_dev *d, uint32_t off, void *buf, uint32_t len);
void vfu_pci_write(struct vfu_dev *d, uint32_t off, const void *buf, uint32_t len);

/* ---- connections that can't be served (vfu_refuse.c) ---- */

#define VFU_REFUSALS 16u

struct vfu_refusal {
	struct vfu *vfu;
	int fd; /* -1: free */
	uint32_t err;
	struct io_req io;
	struct timeout late;
};

void vfu_refuse_init(struct vfu *v);
void vfu_refuse(struct vfu *v, int fd, int err); /* takes fd over; err > 0, an errno */
void vfu_refuse_stop(struct vfu *v);		 /* vfu_dev_gone() for each that has ended */

/* ---- the whole (vfu.c) ---- */

struct vfu {
	struct tr tr;
	struct tgt_subsys *ss;
	const struct tgt_node *node;

	char *path;
	char *record_dir;
	bool is_record_asked;
	bool is_record_values;
	unsigned max_clients;
	uint64_t poll_ns;
	bool is_busy;
	int listen_fd;
	struct io_req io;
	bool is_polling;
	bool is_stopping;
	struct timeout again; /* out of descriptors: accept later */
	unsigned nr_devs;
	struct vfu_refusal refusal[VFU_REFUSALS];
	unsigned nr_refusals; /* not free */
	struct tr_refused refused;
	uint64_t alone_since_ns;	 /* valid while nr_devs is 0 */
	_Atomic uint32_t nr_busy_devs;	 /* with I/O queues; the home writes, workers read */
	_Atomic uint32_t nr_active_devs; /* that had commands lately, anywhere; workers write */
	uint32_t nr_mapped, mapped_max;	 /* of all clients: vm.max_map_count is the process's */
	struct list devs;
	struct vfu_worker *workers; /* node->nr */
	void (*stopped)(void *arg);
	void *stopped_arg;
	struct reactor_round round; /* pollers off */
	unsigned next_worker;	    /* round robin */
	unsigned nr_recorded;	    /* recordings so far, */
	uint64_t recorded_bytes;    /* and what those that have ended hold */
	unsigned nr_recording;	    /* have not ended */
};

static inline struct vfu_worker *vfu_home(struct vfu *v)
{
	return &v->workers[tgt_node_home(v->node)->id];
}
static inline struct reactor *vfu_home_reactor(struct vfu *v)
{
	return tgt_node_home(v->node)->reactor;
}
/*
 * Whatever may take long because a client wants it to: descriptors of its that come, go or are
 * asked what they are, its mappings, its memory's end.
 */
static inline void vfu_must_home(struct vfu *v)
{
	must(reactor_is_current(vfu_home_reactor(v)));
}
void vfu_dev_gone(struct vfu *v);			/* vfu.c: a client has been freed */
void vfu_list_hosts(struct tr *tr, struct tr_hosts *h); /* vfu_list.c */
void vfu_list_sq_gone(struct vfu_sq *sq);		/* home: its books go to its client's */

#endif
