/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target: controllers, queues, admin, Identify - everything of NVMe that is neither a transport
 * nor a command set. The spine of every command:
 *
 *   transport poll --> tgt_req_init --> tgt_req_prefetch --> tgt_req_execute
 *        ^             copies the SQE,   second look at       ns->ops->execute | admin
 *        |             picks ns, hashes  the index                 |
 *        |                                                         v
 *   sq->ops->respond  <------------------------------------  tgt_req_complete
 *
 * A transport fetches up to TGT_BURST SQEs, runs init over all of them, then prefetch, then
 * execute, and posts CQEs together. It takes an SQE only when a request is free and a slot of the
 * completion queue is reserved for it.
 *
 * Who runs it: an I/O queue and its requests belong to one worker (one per reactor); a controller's
 * registers, admin queue, features and AERs belong to its home worker. A worker's structs are
 * touched by its own reactor only.
 *
 * target/ names neither a store nor a transport: command sets come as tgt_ns_ops and tgt_csi_ops
 * (kv/, blk/), transports as tgt_ctrl_ops and tgt_sq_ops.
 */
#ifndef TARGET_TGT_H
#define TARGET_TGT_H

#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "core/counter.h"
#include "core/pool.h"
#include "core/reactor.h"
#include "mem/mem.h"
#include "nvme/nvme_kv.h"

#define TGT_BURST 64
#define TGT_NS_MAX 1024	   /* namespaces of a subsystem; NSID 1..1024 */
#define TGT_QUEUES_MAX 128 /* I/O queue pairs of a controller */
#define TGT_CTRLS_MAX 256  /* controllers of a subsystem */
#define TGT_MQES 4095	   /* CAP.MQES, 0's based */
#define TGT_SEGMENTS_MAX 4096
#define TGT_AERS_MAX 8
#define TGT_SCRATCH_BYTES 4608
#define TGT_SINK_BYTES 65536
#define TGT_PCI_VID 0x5045 /* ours, and in the PCI header of memory transports */

struct tgt_ctrl;
struct tgt_ns;
struct tgt_req;
struct tgt_sq;
struct tgt_time;
struct tgt_subsys;

/* How a command ended, for those who count. */
enum tgt_outcome {
	TGT_DONE,
	TGT_MISSED, /* Key Does Not Exist */
	TGT_FAILED,
	TGT_NR_OUTCOMES,
};
/* Kinds of commands that are counted apart: of command sets 0 and 1, and these. */
#define TGT_KIND_NONE 2 /* I/O without a namespace */
#define TGT_KIND_ADMIN 3
#define TGT_NR_KINDS 4

/* Commands that are over. Each counter is one worker's; anybody reads. */
struct tgt_counts {
	struct counter cmds[TGT_NR_KINDS][256][TGT_NR_OUTCOMES]; /* by opcode */
	struct counter bad[8][256]; /* those that didn't end well: by status code type and code */
};

/* One per reactor: what the queues there share. */
struct tgt_worker {
	struct reactor *reactor;
	struct mem_engine *engine;
	struct pool reqs;	 /* of struct tgt_req */
	struct mem_region *sink; /* bit buckets of SGLs end here: TGT_SINK_BYTES of ours */
	void *sink_base;
	size_t sink_map_bytes;
	uint64_t busy_since_ns;
	uint32_t nr_busy;	/* I/O commands under way */
	struct counter busy_ns; /* time with any of them: log 02h */
	unsigned id;		/* index in tgt_node.workers */
	/* Several clients wait for it: what takes long is cut finer. The transport says so. */
	bool is_shared;
	/* An operator holds it: transports take no I/O commands from their queues. The worker's. */
	bool is_held;
	struct tgt_counts counts;
	struct tgt_trace *trace;
	struct list watchers; /* of struct tgt_watcher */
};

/*
 * A transport's ear on a worker: changed() runs there when an operator holds the worker or lets it
 * go, and when other queues are to be watched. So nobody asks on the way of a command.
 */
struct tgt_watcher {
	struct list node;
	void (*changed)(struct tgt_watcher *wt);
};
/* All on the worker. */
void tgt_worker_watch(struct tgt_worker *w, struct tgt_watcher *wt);
void tgt_worker_unwatch(struct tgt_watcher *wt);
void tgt_worker_changed(struct tgt_worker *w);

/*
 * The workers of this process. Made by peald, constant afterwards.
 *
 *	0 .. tgt_node_nr_io() - 1	I/O queues, a shard of each namespace
 *	tgt_node_home()			sockets, admin queues, registers, the table of namespaces,
 *					what an operator asks: all that is not I/O
 *
 * With is_home_apart the home is the last of them and does nothing else, so no system call of a
 * client's making (a map, an unmap, the close of a descriptor) is between two I/O commands. Without
 * it, in tests and where there is one thread anyway, it is worker 0. Rounds go over all nr.
 */
struct tgt_node {
	struct tgt_worker *workers[REACTORS_MAX];
	struct reactor *reactors[REACTORS_MAX]; /* the same, for rounds and store sets */
	unsigned nr;
	bool is_home_apart;
};
static inline unsigned tgt_node_nr_io(const struct tgt_node *n)
{
	return n->nr - n->is_home_apart;
}
static inline struct tgt_worker *tgt_node_home(const struct tgt_node *n)
{
	return n->workers[n->is_home_apart ? n->nr - 1 : 0];
}
/* "peal-3", "peal-home": its thread's name, and what an operator is told. */
#define TGT_WORKER_NAME_BYTES 16
void tgt_node_name(const struct tgt_node *n, unsigned id, char name[TGT_WORKER_NAME_BYTES]);
int tgt_worker_create(struct reactor *r, unsigned id, uint32_t nr_reqs, struct tgt_worker **w);
void tgt_worker_destroy(struct tgt_worker *w);

/* ---- requests ---- */

struct tgt_sq_ops {
	/*
	 * The command is over: req->status, dw0, dw1 are set. Takes the request back. On the
	 * queue's worker.
	 */
	void (*respond)(struct tgt_req *req);
	/*
	 * The data of the command: sets req->iter to a stream of `len` bytes (dir as seen by the
	 * host: MEM_FROM_PEER = host to controller). May be called again to start over. NVME_ST_OK
	 * or why not. Memory transports use tgt_dptr_init() with their resolve().
	 */
	uint16_t (*data)(struct tgt_req *req, uint64_t len, enum mem_xfer_dir dir);
	/*
	 * May be NULL. The request has done what one turn has room for: tgt_req_again(), once, when
	 * its client's turn comes. Without it that is the worker's next turn.
	 */
	void (*later)(struct tgt_req *req);
	/* One contiguous piece of host memory at a bus address: at most `len` bytes, what a
	 * single mapping covers. 0 or -EFAULT. NULL on transports without memory. */
	int (*resolve)(struct tgt_req *req, uint64_t addr, uint64_t len, enum mem_xfer_dir dir,
		       struct mem_run *run);
};

enum tgt_sq_mark {
	/* the initiator checks in its own memory: skip our check before the CQE */
	TGT_SQ_INITIATOR_SEALS = 1,
	/* some requests are watched (tgt_req.watch): all take the way with a request */
	TGT_SQ_WATCHED = 2,
	TGT_SQ_ADMIN = 4, /* qid 0 */
	/* it is being deleted: what was given up ends as Command Aborted due to SQ Deletion */
	TGT_SQ_DELETED = 8,
};

/* A submission queue with its way back, embedded in the transport's own. Admin: qid 0. */
struct tgt_sq {
	const struct tgt_sq_ops *ops;
	struct tgt_ctrl *ctrl;
	struct tgt_worker *worker;
	uint16_t qid;
	uint8_t marks;	       /* enum tgt_sq_mark; 0 as a rule, so that one look says that */
	struct mem_flow *flow; /* of its client's transfers: the worker's own, or the transport's */
	/*
	 * Most data to the host that a command may go back to (data() again, List's count): a
	 * stream holds it back until the end. 0: any.
	 */
	uint32_t back_max;
	/* requests between init and respond; the transport's drain waits for 0 */
	uint32_t nr_inflight;
	struct list reqs; /* those requests, oldest first (Abort, drain) */
	/* What it has done, for an operator: the transport counts commands, command sets bytes. */
	uint64_t nr_cmds, read_bytes, write_bytes;
};
void tgt_sq_init(struct tgt_sq *sq, const struct tgt_sq_ops *ops, struct tgt_ctrl *c,
		 struct tgt_worker *w, uint16_t qid);
/* For the abort op, on sq's worker: marks the command. False when it isn't there (any more). */
bool tgt_sq_abort(struct tgt_sq *sq, uint16_t cid);
/* When the queue's deletion begins, on its worker: marks it and every command. */
void tgt_sq_deleted(struct tgt_sq *sq);

/*
 * PRP and SGL, walked with fixed state; a list is read TGT_DPTR_CACHE entries at a time when the
 * walk gets there.
 */
#define TGT_DPTR_CACHE 16
struct tgt_dptr {
	struct mem_iter it;
	struct tgt_req *req;
	enum mem_xfer_dir dir;
	uint8_t kind;		 /* tgt_dptr.c */
	bool is_sink;		 /* this stretch is a bit bucket */
	uint16_t status;	 /* the NVMe status behind a next() that failed */
	uint64_t left;		 /* bytes of data still to hand out */
	uint64_t given;		 /* bytes handed out */
	uint64_t addr, addr_len; /* current contiguous stretch in bus addresses */
	uint64_t list;		 /* address of the next list entry to read */
	uint64_t list_left;	 /* bytes of the current list segment not yet read */
	uint32_t nr_segments;	 /* SGL segments followed, bounded */
	uint64_t nr_descs;	 /* SGL descriptors read, bounded by what they give */
	uint16_t cache_at, cache_nr;
	uint64_t cache[TGT_DPTR_CACHE * 2]; /* PRP entries, or SGL descriptors of 16 bytes */
};
/*
 * Checks the SQE's DPTR for `len` bytes (PSDT, PRP offsets, SGL types and lengths). Sets
 * req->iter.
 */
uint16_t tgt_dptr_init(struct tgt_req *req, uint64_t len, enum mem_xfer_dir dir);

/*
 * Commands that need no request, because the command set only looks something up in this reactor's
 * memory (KV: Exist): of nr SQEs of one I/O queue, at most TGT_BURST, those that can be answered at
 * once, together, so that their cache misses overlap. Bit i of the answer: sqes[i] is over, with
 * status[i] and nothing in DW0 and DW1. The others go the usual way: tgt_req_init().
 */
uint64_t tgt_req_look(struct tgt_sq *sq, const struct nvme_sqe *sqes, unsigned nr,
		      uint16_t *status);

/* For who answers without a request: n commands of this outcome. */
static inline void tgt_count(struct tgt_worker *w, unsigned kind, uint8_t opc, enum tgt_outcome how,
			     unsigned n)
{
	counter_add(&w->counts.cmds[kind][opc][how], n);
}

/* Base 2.0, figure 87: FUSE and PSDT 11b are what this controller doesn't know. */
static inline bool tgt_check_flags(const struct nvme_sqe *sqe)
{
	return !(sqe->flags & 3) && NVME_PSDT(sqe->flags) != 3;
}

/* Why a request's end isn't like others'. */
enum tgt_watch {
	TGT_WATCH_TRACE = 1,
	TGT_WATCH_RECORD = 2, /* transport/replay */
	TGT_WATCH_TIME = 4,   /* tgt_time.h */
	/* Disable or reset took it back: respond() gives it back as ever, but posts no CQE. */
	TGT_WATCH_SILENT = 8,
};

/* Hops of a traced request that are over before its end; see peal/vendor.h. */
enum tgt_stamp {
	TGT_STAMP_BELL,
	TGT_STAMP_FETCH,
	TGT_STAMP_STORE,
	TGT_STAMP_COPY,
	TGT_NR_STAMPS,
};

struct tgt_req {
	struct nvme_sqe sqe; /* our copy: checked once, used only from here */
	struct tgt_sq *sq;
	struct tgt_ns *ns; /* NULL for admin and bad NSIDs */
	void (*execute)(struct tgt_req *req);
	uint32_t dw0;
	uint32_t dw1;
	uint16_t status; /* enum nvme_st; wire form without phase is status << 1 */
	bool is_aborted; /* by Abort, or the queue goes: give up at the next convenient point */
	bool is_prepared;
	uint8_t watch;	       /* enum tgt_watch: since before it was executed; 0 as a rule */
	struct list node;      /* sq->reqs */
	void *tr;	       /* the transport's, from before init to respond */
	struct mem_iter *iter; /* after ops->data() */
	struct tgt_dptr dptr;
	uint64_t stamp_ns[TGT_NR_STAMPS]; /* of a traced request; FETCH: of a timed one */
	/* of a traced request's namespace, which may be gone at the end */
	uint8_t trace_csi, trace_lba_shift;
	/* transport/replay's, only while a recording runs */
	uint32_t record_seq;
	bool record_has_data;
	void (*again)(struct tgt_req *req); /* its next step, between later and again: */
	union {
		struct list later; /* the transport's */
		struct mbox_msg turn;
	};
	/* the command set's; not zeroed */
	uint64_t scratch[TGT_SCRATCH_BYTES / 8] __attribute__((aligned(64)));
};

/* Copies the SQE, links the request, picks ns and execute, calls ns->ops->prepare. Never fails:
 * a bad command gets an execute that completes with the right status. */
void tgt_req_init(struct tgt_req *req, struct tgt_sq *sq, const struct nvme_sqe *sqe);
void tgt_req_prefetch(struct tgt_req *req);
/*
 * The rest of a burst, after init of all: prefetch of all, then each is executed while the next
 * one's value is on its way into the cache. flush(arg) (may be NULL) runs after every
 * TGT_FLUSH_EVERY of them, so that the host goes on with the first answers while the last are made.
 */
#define TGT_FLUSH_EVERY 8
void tgt_req_burst(struct tgt_req *const *reqs, unsigned nr, void (*flush)(void *arg), void *arg);
void tgt_req_execute(struct tgt_req *req);
/*
 * For a command that has had enough of this turn, with nothing under way and nothing held: step()
 * runs in a later one, unless it is aborted by then. again() is what the transport calls.
 */
void tgt_req_later(struct tgt_req *req, void (*step)(struct tgt_req *req));
void tgt_req_again(struct tgt_req *req);
void tgt_req_complete(struct tgt_req *req, uint16_t status);
/* The host's mistake: completes with DNR set, so that it isn't tried again. */
void tgt_req_fail(struct tgt_req *req, uint16_t status);
/*
 * Small data (Identify, logs, lists): moves up to `len` bytes of buf, guarded, then completes
 * with `status` on success.
 */
void tgt_req_send(struct tgt_req *req, const void *buf, uint32_t len, uint16_t status);
/* Synchronous small fetch of host data. NVME_ST_OK or why not. */
#define TGT_FETCH_MAX 16384u
uint16_t tgt_req_fetch(struct tgt_req *req, void *buf, uint32_t len);
/*
 * The next `len` bytes of req->iter, from where it stands: a block in front of a value, a list in
 * pieces. NVME_ST_OK or why not.
 */
uint16_t tgt_req_iter_get(struct tgt_req *req, void *buf, uint32_t len);
uint16_t tgt_req_iter_put(struct tgt_req *req, const void *buf, uint32_t len);
/* The status behind a transfer over req->iter that ended with -EFAULT or the like. */
uint16_t tgt_req_iter_status(const struct tgt_req *req);

/* ---- tracing (tgt_trace.c) ---- */

/*
 * An operator's controller switches it on and off for one controller or all (PEAL_OPC_ADMIN_TRACE);
 * records of finished commands go into a ring per worker, from which that controller reads. Off, it
 * costs a transport nothing.
 *
 *   a watcher's changed(): tgt_trace_wants() of each queue's controller, mark it (TGT_SQ_WATCHED)
 *   fetching, behind tgt_req_init(): tgt_trace_begin() marks it
 *   respond(): tgt_trace_end(), `cq` being anything that names the completion queue
 *   when CQEs of that queue were written: tgt_trace_posted()
 *
 * All on the worker.
 */
bool tgt_trace_wants(const struct tgt_worker *w, const struct tgt_ctrl *c);
/* Over one's queues are marked anew: what still waits for its CQE is told without it. */
void tgt_trace_flush(struct tgt_worker *w);
void tgt_trace_begin(struct tgt_req *req, uint64_t bell_ns, uint64_t fetch_ns);
void tgt_trace_end(struct tgt_req *req, const void *cq);
void tgt_trace_posted(struct tgt_worker *w, const void *cq);
/* A hop of a traced request; the first time counts. */
void tgt_trace_stamp(struct tgt_req *req, enum tgt_stamp hop);

/* ---- namespaces and subsystem ---- */

struct tgt_ns_ops {
	uint8_t csi;			       /* 0 NVM, 1 KV */
	void (*prepare)(struct tgt_req *req);  /* may be NULL: key check, hash, first prefetch */
	void (*prefetch)(struct tgt_req *req); /* may be NULL: second prefetch */
	/* any opcode: unknown ones end with Invalid Opcode */
	void (*execute)(struct tgt_req *req);
	/*
	 * Fills the 4096 zeroed bytes of Identify CNS 00h/05h/06h/08h as this command set has
	 * them.
	 */
	uint16_t (*identify)(struct tgt_ns *ns, uint8_t cns, void *buf);
	/*
	 * Bytes: capacity and used, for Identify Controller, logs and CNS 00h. What lies outside
	 * of the node's capacity (a file's blocks) says 0.
	 */
	void (*sizes)(struct tgt_ns *ns, uint64_t *capacity, uint64_t *used);
	/* New capacity; done(arg, NVMe status) on `home`. NULL: can't. */
	void (*resize)(struct tgt_ns *ns, struct reactor *home, uint64_t bytes,
		       void (*done)(void *arg, uint16_t st), void *arg);
	/*
	 * May be NULL: the controller was disabled or is going away, its commands are over, and
	 * something is held for it (tgt_subsys_leased()): drop what is (leases). On each I/O
	 * worker; the controller isn't down before that.
	 */
	void (*ctrl_gone)(struct tgt_ns *ns, struct tgt_worker *w, uint16_t ctrl);
	/* No command is in it any more, nobody can find it: free it. done on `home`. */
	void (*destroy)(struct tgt_ns *ns, struct reactor *home,
			void (*done)(void *arg, uint16_t st), void *arg);
	/* May be NULL: third prefetch, while the command before it is executed. */
	void (*warm)(struct tgt_req *req);
	/* May be NULL: tgt_req_look(), for a burst in which at least the first SQE names ns. */
	uint64_t (*look)(struct tgt_ns *ns, struct tgt_worker *w, const struct nvme_sqe *sqes,
			 unsigned nr, uint16_t *status);
};

/*
 * One line per worker, written by that worker alone. inflight is the spine's, the rest the
 * set's.
 */
struct tgt_ns_stat {
	struct counter inflight;
	struct counter reads, writes; /* commands */
	struct counter read_bytes, write_bytes;
} __attribute__((aligned(64)));

/*
 * Head of a command set's own struct, which is therefore 64-aligned and zeroed when made. Constant
 * while it can be found.
 */
struct tgt_ns {
	const struct tgt_ns_ops *ops;
	struct tgt_subsys *subsys;
	uint32_t nsid;
	uint8_t nguid[16];
	uint8_t uuid[16];
	char name[64];
	uint8_t lba_shift; /* of CSI 0 */
	/* feature 20h: bit 0 EDNEK, Delete of an absent key fails; set by tgt_feature.c */
	_Atomic uint32_t kv_config;
	struct tgt_time *time; /* one per worker, while it can be found; NULL: no memory */
	struct tgt_ns_stat stat[REACTORS_MAX];
	struct ns_job *job; /* the subsystem's; of its delete, which needs no memory */
};

/* A command set as a whole: log 05h and the making of namespaces. Registered by peald. */
struct tgt_csi_ops {
	uint8_t csi;
	void (*effects)(uint32_t iocs[256]); /* log 05h, I/O commands */
	/* Identify Controller for this command set, CNS 06h: 4096 zeroed bytes. */
	uint16_t (*identify_ctrl)(void *buf);
	/*
	 * Namespace Management create: bytes of capacity. done(arg, st, ns) on home with an ns
	 * not yet added. NULL: can't.
	 */
	void (*create)(void *arg, struct reactor *home, uint64_t bytes,
		       void (*done)(void *arg, uint16_t st, struct tgt_ns *ns), void *done_arg);
	void *arg;
	uint16_t oncs; /* bits of Identify Controller's ONCS that the set brings */
};

struct tgt_subsys_opts {
	const char *nqn;    /* <= 223 bytes */
	const char *serial; /* <= 20 */
	const char *model;  /* <= 40 */
	/* of the node: namespaces together never exceed it; 0 = no limit */
	uint64_t capacity_bytes;
};
int tgt_subsys_create(const struct tgt_node *node, const struct tgt_subsys_opts *o,
		      struct tgt_subsys **ss);
void tgt_subsys_destroy(struct tgt_subsys *ss); /* no controllers, no namespaces left */
const struct tgt_node *tgt_subsys_node(const struct tgt_subsys *ss);
const char *tgt_subsys_nqn(const struct tgt_subsys *ss);
/*
 * NGUID and UUID of a namespace, from the subsystem's NQN and a text that is the namespace's own
 * within it: the same to a host after a restart, and another in every subsystem.
 */
void tgt_subsys_ns_ids(const struct tgt_subsys *ss, struct tgt_ns *ns, const char *text);
void tgt_subsys_csi_add(struct tgt_subsys *ss, const struct tgt_csi_ops *ops);
/* nsid 0 = lowest free. 0, -EEXIST, -ENOSPC (too many, or over the node's capacity). Control
 * plane: the home's reactor, or before the reactors run. Hosts that asked for it get an AEN and
 * find it in log 04h. */
int tgt_subsys_ns_add(struct tgt_subsys *ss, struct tgt_ns *ns, uint32_t nsid);
/*
 * Hides it, waits until no command is in it, destroys it, tells the hosts. From the home's
 * reactor.
 */
void tgt_subsys_ns_del(struct tgt_subsys *ss, uint32_t nsid, void (*done)(void *arg, uint16_t st),
		       void *arg);
void tgt_subsys_ns_resize(struct tgt_subsys *ss, uint32_t nsid, uint64_t bytes,
			  void (*done)(void *arg, uint16_t st), void *arg);
/* NULL; any worker, within one turn */
struct tgt_ns *tgt_subsys_ns(struct tgt_subsys *ss, uint32_t nsid);
/* Arena segments that LEASE names: index or -ENOSPC; the region's id is set. Any worker reads. */
int tgt_subsys_segment_add(struct tgt_subsys *ss, struct mem_region *reg);
void tgt_subsys_segment_del(struct tgt_subsys *ss, uint32_t segment);
/* Counted: mem_region_put() it. NULL when there is none. */
struct mem_region *tgt_subsys_segment_get(struct tgt_subsys *ss, uint32_t segment);

/* ---- controllers ---- */

struct tgt_queue_params {
	uint16_t qid;
	uint16_t cqid;	 /* SQ only */
	uint32_t size;	 /* slots, 2..4096 */
	uint64_t addr;	 /* bus address of the contiguous ring */
	uint16_t vector; /* CQ only */
	bool has_irq;
};

/* The transport's side of a controller. Async ones finish with the function named. */
struct tgt_ctrl_ops {
	/*
	 * CC.EN 0 -> 1, registers checked: make the admin queue (sq/cq qid 0 from asq, acq),
	 * then tgt_ctrl_enabled().
	 */
	void (*enable)(struct tgt_ctrl *c, const struct tgt_queue_params *asq,
		       const struct tgt_queue_params *acq);
	/* CC.EN 1 -> 0, reset or shutdown: stop every queue, drain, drop them, then
	 * tgt_ctrl_disabled(). Target has completed its AERs (without CQE) before. */
	void (*disable)(struct tgt_ctrl *c);
	/*
	 * Create and Delete I/O CQ/SQ: parameters are checked, the target keeps book of which
	 * queues exist or are on their way; complete `req` on the home worker when done, with
	 * NVME_ST_OK or why not. NULL on fabrics: Invalid Opcode.
	 */
	void (*cq_create)(struct tgt_ctrl *c, const struct tgt_queue_params *p,
			  struct tgt_req *req);
	void (*sq_create)(struct tgt_ctrl *c, const struct tgt_queue_params *p,
			  struct tgt_req *req);
	void (*sq_delete)(struct tgt_ctrl *c, uint16_t qid, struct tgt_req *req);
	void (*cq_delete)(struct tgt_ctrl *c, uint16_t qid, struct tgt_req *req);
	/*
	 * Abort: on the queue's worker tgt_sq_abort(), then, back home, complete `req` with
	 * NVME_ST_OK in any case: its dw0 says already "not aborted at once". An unknown sqid
	 * can't come.
	 */
	void (*abort)(struct tgt_ctrl *c, uint16_t sqid, uint16_t cid, struct tgt_req *req);
	/*
	 * May be NULL. An operator wants its I/O commands recorded from now on, to a file of the
	 * transport's choice, or no more. 0, -EALREADY, -ENOENT (there is no folder for it, or it
	 * isn't recorded), or why not. What it changes is for the watchers, which are told on all
	 * workers; then record_end() may close what nobody uses any more.
	 */
	int (*record)(struct tgt_ctrl *c, bool is_on);
	void (*record_end)(struct tgt_ctrl *c);
	/* Keep Alive ran out. */
	void (*fatal)(struct tgt_ctrl *c, const char *why);
	/*
	 * Of a Discovery controller: up to `len` bytes of log 70h from `off` on, zeroes behind its
	 * end.
	 */
	void (*discovery)(struct tgt_ctrl *c, uint64_t off, uint32_t len, void *buf);
};

struct tgt_ctrl_opts {
	const struct tgt_ctrl_ops *ops;
	struct tgt_worker *home;
	uint32_t max_queues; /* I/O queue pairs */
	uint16_t mqes;	     /* CAP.MQES, 0's based; 0 = TGT_MQES */
	uint8_t dstrd;	     /* CAP.DSTRD */
	uint8_t mdts;	     /* in 4 KiB << mdts, 0 = no limit */
	bool is_operator;    /* may use Namespace Management and the vendor admin commands */
	bool is_fabrics;
	bool is_discovery; /* a Discovery controller: no namespaces, no I/O queues, log 70h */
	const char *host;  /* for the log: who is it */
};
int tgt_ctrl_create(struct tgt_subsys *ss, const struct tgt_ctrl_opts *o, struct tgt_ctrl **c);
void tgt_ctrl_destroy(struct tgt_ctrl *c); /* disabled */
uint16_t tgt_ctrl_id(const struct tgt_ctrl *c);
struct tgt_worker *tgt_ctrl_home(const struct tgt_ctrl *c);
struct tgt_subsys *tgt_ctrl_subsys(struct tgt_ctrl *c);
void *tgt_ctrl_priv(struct tgt_ctrl *c); /* the transport's */
void tgt_ctrl_set_priv(struct tgt_ctrl *c, void *priv);

/* Registers, BAR0 0x00 to 0xfff (NVMe Base 2.0, 3.1.3; Fabrics property get and set). len 4 or
 * 8, aligned; -EINVAL otherwise. Unknown registers read as 0 and ignore writes. */
int tgt_ctrl_reg_read(struct tgt_ctrl *c, uint32_t off, uint32_t len, uint64_t *val);
int tgt_ctrl_reg_write(struct tgt_ctrl *c, uint32_t off, uint32_t len, uint64_t val);
/* while disabled */
void tgt_ctrl_set_dstrd(struct tgt_ctrl *c, uint8_t dstrd, uint32_t max_queues);
/*
 * Fabrics (tgt_fabrics.c), on the home worker. Properties are the registers; they are also asked
 * for while the controller is disabled, so its admin queue lives as long as its connection does.
 */
/* Once, when its admin queue connects: what Connect said. kato_ms 0: no Keep Alive. */
void tgt_fabrics_admin(struct tgt_ctrl *c, const uint8_t hostid[16], uint32_t kato_ms);
/* An I/O queue of `size` slots connects: NVME_ST_OK, and it is in the book, or why not. */
uint16_t tgt_fabrics_queue_add(struct tgt_ctrl *c, uint16_t qid, uint32_t size);
void tgt_fabrics_queue_del(struct tgt_ctrl *c, uint16_t qid);
bool tgt_fabrics_is_host(const struct tgt_ctrl *c, const uint8_t hostid[16]);
void tgt_ctrl_enabled(struct tgt_ctrl *c, bool ok); /* RDY, or CFS */
void tgt_ctrl_disabled(struct tgt_ctrl *c);	    /* RDY 0 */
/* It can't go on (a ring's memory is gone): CFS, its queues go, until the host resets it. */
void tgt_ctrl_fatal(struct tgt_ctrl *c);
/* The peer went away or wants a reset: as CC.EN = 0; done() when disabled. At once when it was. */
void tgt_ctrl_reset(struct tgt_ctrl *c, void (*done)(void *arg), void *arg);
/* Something went wrong that a host should hear of (log 01h, log 02h critical warning bits, AEN). */
void tgt_ctrl_aen(struct tgt_ctrl *c, uint8_t type, uint8_t info, uint8_t log);
/* Bytes that command sets hold for a controller, on all workers together. Any worker. */
_Atomic uint64_t *tgt_subsys_leased(struct tgt_subsys *ss, uint16_t ctrl);
/*
 * A corrupt value was caught somewhere: counts as media error in log 02h of every controller.
 * Any worker.
 */
void tgt_subsys_media_error(struct tgt_subsys *ss);

/* For an operator. Any thread. */
struct tgt_subsys_info {
	uint64_t media_errors;
	unsigned nr_ctrls;
	unsigned nr_queues; /* I/O submission queues of all of them */
};
void tgt_subsys_info(struct tgt_subsys *ss, struct tgt_subsys_info *info);

#endif
