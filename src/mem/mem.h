/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where bytes live and how they move. A mem_region is one stretch of memory of one domain (host,
 * CUDA, HIP); a mem_run is a piece of a region. Nobody above mem/ turns a run of a peer's memory
 * into a pointer.
 *
 * Two families of functions:
 *  - mem_peek() / mem_poke(): small synchronous guarded copies between our own memory and a region
 *    (an SQE, a PRP page, a CQE). -EFAULT when the peer's memory has gone (a punched or truncated
 *    memfd) or the domain can't do it.
 *  - struct mem_xfer: the asynchronous, checked movement of a value between a store's runs and a
 *    peer's runs, in one pass of copy and seal; one completion. The host domain does small ones at
 *    once and cuts large ones into quanta of one chunk, taken in turn, so that a 4 KiB value never
 *    waits behind 128 MiB.
 *
 * A region is counted: whoever keeps a run across a turn holds a reference (mem_region_get); the
 * mapping is undone with the last. Counts are atomic; regions are shared between reactors.
 */
#ifndef MEM_MEM_H
#define MEM_MEM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/list.h"
#include "core/counter.h"
#include "core/reactor.h"

#define MEM_CHUNK_BYTES 65536u

enum mem_domain {
	MEM_HOST,
	MEM_CUDA,
	MEM_HIP,
	MEM_NR_DOMAINS,
};

enum {
	MEM_PEER = 1u << 0,	/* someone else can change or take it away: guard every access */
	MEM_READABLE = 1u << 1, /* we may read */
	MEM_WRITABLE = 1u << 2, /* we may write */
	MEM_HUGE = 1u << 3,	/* all of it lies in huge pages */
};

struct mem_region {
	enum mem_domain domain;
	uint32_t flags;
	uint8_t *base; /* host: our mapping */
	uint64_t len;
	int fd;	     /* -1 when there is none; owned */
	uint32_t id; /* the registrar's number: of an arena segment, its index in the subsystem */
	_Atomic uint32_t refs;
	void (*destroy)(struct mem_region *reg);
};

struct mem_run {
	struct mem_region *reg;
	uint64_t off;
	uint64_t len;
};

/*
 * Host regions. map: mmap(fd, off, len) MAP_SHARED with prot from flags; off need not be a multiple
 * of the page; fd stays the caller's and may be closed. -errno.
 */
int mem_host_map(int fd, uint64_t off, uint64_t len, uint32_t flags, struct mem_region **reg);
/*
 * A sealed memfd segment (F_SEAL_SHRINK | GROW | FUTURE_WRITE set after we mapped it writable),
 * fd kept for clients.
 */
int mem_host_memfd(const char *name, uint64_t len, struct mem_region **reg);
/* Our own memory, not taken over (tests, replay, staging). */
struct mem_region *mem_host_wrap(void *base, uint64_t len, uint32_t flags);

static inline void mem_region_get(struct mem_region *reg)
{
	atomic_fetch_add_explicit(&reg->refs, 1, memory_order_relaxed);
}
void mem_region_put(struct mem_region *reg);

/*
 * Installs the SIGSEGV and SIGBUS handler behind guarded access; faults elsewhere go to the handler
 * that was there. mem_engine_create() calls it. Call it again when someone has put another handler
 * over ours (cmocka does, before each test and fixture); nothing happens while ours is in place.
 * The guard's state is per thread: the one place below transport/ that is. 0 or -errno.
 */
int mem_guard_init(void);

int mem_peek(const struct mem_run *src, void *dst); /* src->len bytes; 0 or -EFAULT */
int mem_poke(const struct mem_run *dst, const void *src);
/*
 * CQEs, dst->len a multiple of 16, oldest first: of each the low half, then the half with the phase
 * with release. 0 or -EFAULT, also when the peer's memory lies so that it isn't 16-aligned; then
 * some may have been written.
 */
int mem_poke_cqe(const struct mem_run *dst, const void *cqe);
/* For rings: direct, guard-free pointer to memory that is NOT a peer's; must() otherwise. */
void *mem_own_ptr(const struct mem_run *run);

/*
 * A stream of runs: the peer's side of a transfer. next() fills *run with 1 to `max` bytes and
 * moves on; 0, -EFAULT, or another -errno which ends the transfer (-ENODATA: no more). -EAGAIN: not
 * now; the transfer rests until its owner calls mem_iter_more(), which it must, also when nothing
 * will ever come, and then next() says so; only iterators that are by chunk may say it. State is
 * fixed-size and inside the owner; a PRP or SGL list is read page by page as the walk gets there,
 * never expanded. Runs hold no reference: the owner pins the DMA map for the life of the iterator.
 */
struct mem_xfer;
struct mem_iter {
	int (*next)(struct mem_iter *it, uint64_t max, struct mem_run *run);
	/*
	 * May be NULL. Of what next() gave, `bytes` more, in order, have been written to the peer
	 * and checked: a transport that sends them on sends nothing that isn't right. Not called
	 * for what failed.
	 */
	void (*filled)(struct mem_iter *it, uint64_t bytes);
	/*
	 * Runs end with the value's chunks, of which it has all or nothing: a transfer that rests
	 * in the middle of one would keep what the engine has few of.
	 */
	bool is_by_chunk;
	struct mem_xfer *starved; /* the engine's: was told -EAGAIN */
};

enum mem_xfer_dir {
	MEM_TO_PEER,   /* value -> peer; checks seals; over the bytes as they arrived */
	MEM_FROM_PEER, /* peer -> value; writes seals */
};

/*
 * Who the transfers are for, on one engine. Flows take turns, whatever each has waiting: a chunk of
 * this one's, a chunk of the next one's, and the transfers of one take turns among themselves. It
 * outlives its transfers.
 */
struct mem_flow {
	/* the engine's */
	struct list node;  /* while something is in `ready` */
	struct list ready; /* transfers with something left to walk */
	uint32_t turn;	   /* that inline_bytes is of */
	uint32_t inline_bytes;
	/* the owner's: nobody waits for its transfers any more, each ends with -ECANCELED */
	bool is_stopped;
};
void mem_flow_init(struct mem_flow *f);

/*
 * One transfer of value bytes [off, off + len). The value's runs come through `value` (the store's
 * runs never fault: they are ours), seals by pointer: seals[i] belongs to chunk first_chunk + i,
 * first_chunk = off / MEM_CHUNK_BYTES. MEM_TO_PEER with off or off + len inside a chunk: the whole
 * chunk is hashed, the part as it arrived and the rest where it lies; `value` therefore starts at
 * the chunk boundary and covers whole chunks (the last chunk ends with the value); without check it
 * starts there, too, and need not go further than off + len. MEM_FROM_PEER: off is a multiple of
 * the chunk, and off + len a chunk boundary or the end of the value.
 *
 * end(res): 0; -EFAULT the peer's memory failed; -EILSEQ a seal did not fit and the value's own
 * bytes are wrong (bad_chunk set); -EREMOTEIO the arrived bytes are wrong but ours are right (the
 * peer scribbled); or what an iterator said. The value may lie in any pieces, but when it has more
 * than 32 in one chunk and the seal doesn't fit, the blame is ours unseen. Bytes may have been
 * delivered when it fails.
 */
struct mem_xfer {
	enum mem_xfer_dir dir;
	uint8_t key_len;
	bool check; /* MEM_TO_PEER: false on queues with initiator seals, which check themselves */
	uint64_t key_hash; /* seeds the seals: see peal/seal.h */
	uint64_t off;
	uint64_t len;
	uint64_t value_len;
	struct mem_iter *value;
	struct mem_iter *peer;
	uint64_t *seals;
	struct mem_flow *flow; /* NULL: the engine's own */
	uint32_t bad_chunk;
	void (*end)(struct mem_xfer *x, int res);
	/* the engine's */
	struct list node;
	uint64_t pos;		   /* in the value: what has been walked */
	uint64_t end_pos;	   /* where the walk ends */
	struct mem_run vrun, prun; /* what is left of the current runs */
	struct mem_job *job;	   /* the chunk that is half walked */
	uint32_t nr_jobs;	   /* chunks walked whose copies are under way */
	int err;		   /* the first failure; it ends when nothing is under way */
};

/*
 * One per reactor; a poller. Each turn moves at most MEM_TURN_BYTES (3.7 us at 17.5 GB/s) in at
 * most MEM_TURN_PIECES pieces of a scattered buffer, one chunk of a flow after one of the next, so
 * that a command that comes in meanwhile waits for one such turn. Of a flow's own transfers one is
 * walked for MEM_FLOW_BYTES before the next: by turns they would all end at the same time, and what
 * comes then, sixteen answers and sixteen new commands, finds a device that had nothing to do for
 * as long. A transfer within one chunk is
 * done inside mem_xfer_submit(), end() included, until its flow has had MEM_INLINE_BYTES so in this
 * turn; whoever submits must be ready for both.
 */
/*
 * ... and a quarter of that while small transfers come beside large ones, and for some turns after.
 */
#define MEM_TURN_CUT_BYTES (MEM_TURN_BYTES / 4)
#define MEM_CUT_TURNS 256u
#define MEM_TURN_BYTES MEM_CHUNK_BYTES
#define MEM_TURN_PIECES 128u
#define MEM_FLOW_BYTES (16 * MEM_CHUNK_BYTES)
#define MEM_INLINE_BYTES (4 * MEM_CHUNK_BYTES)

struct mem_engine_stats {
	struct counter bytes; /* of values, moved */
	struct counter xfers;
	struct counter turns;
	struct counter faults;	   /* ended with -EFAULT */
	struct counter bad_own;	   /* -EILSEQ */
	struct counter bad_remote; /* -EREMOTEIO */
};

struct mem_engine;
struct mem_engine *mem_engine_create(struct reactor *r); /* NULL = no memory */
void mem_engine_destroy(struct mem_engine *e);		 /* nothing under way */
void mem_xfer_submit(struct mem_engine *e, struct mem_xfer *x);
/*
 * The same with the first run of the value at hand; `value` goes on behind it. A value within one
 * chunk, whole in one run on both sides, then moves in a third of the instructions.
 */
void mem_xfer_submit_run(struct mem_engine *e, struct mem_xfer *x, const struct mem_run *run);
/* next() may have more to say: the transfer that rests for it, if any, goes on in a later turn. */
void mem_iter_more(struct mem_engine *e, struct mem_iter *it);
/* Any thread. */
const struct mem_engine_stats *mem_engine_stats(const struct mem_engine *e);
uint64_t mem_engine_bytes(const struct mem_engine *e);
/*
 * What a flow may have inside submit in a turn, and how many pieces of scattered buffers are copied
 * in one: less than MEM_INLINE_BYTES and MEM_TURN_PIECES while others wait.
 */
void mem_engine_share(struct mem_engine *e, uint32_t inline_bytes, uint32_t turn_pieces);
/*
 * The work it has done so far, in bytes: those moved, and for each piece of a scattered buffer and
 * each fault what could have been moved meanwhile. Grows by what a caller's commands cost.
 */
#define MEM_WORK_PIECE 512u
#define MEM_WORK_FAULT 32768u
uint64_t mem_engine_work(const struct mem_engine *e);

#endif
