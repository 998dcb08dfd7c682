/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside mem/ only: what mem_engine.c (transfers, turns) and mem_job.c (chunks in pieces) share.
 * All of it belongs to the engine's reactor.
 */
#ifndef MEM_MEM_ENGINE_INT_H
#define MEM_MEM_ENGINE_INT_H

#include <errno.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/must.h"
#include "core/pool.h"
#include "mem/mem_domain.h"
#include "mem/mem_int.h"
#include "peal/seal.h"

/* Pieces of the value in one chunk that a job remembers; the buddy allocator makes at most 17. */
#define MEM_JOB_RUNS 32

struct mem_job_run {
	uint8_t *p;
	uint32_t len;
};

struct mem_job {
	struct hash_stream hash;
	struct mem_xfer *x;
	struct mem_engine *e;
	struct list node; /* in ripe */
	uint64_t at;	  /* of the value: where the chunk begins */
	uint32_t len;	  /* of the chunk */
	uint32_t pos;	  /* walked */
	uint32_t nr_out;  /* copies under way */
	uint32_t nr_runs;
	uint32_t runs_bytes;
	bool is_lost;	/* runs[] was too short for all pieces */
	bool is_walked; /* only copies are missing */
	/*
	 * To the peer: the chunk's own bytes. From the peer: what has come and is not in the hash
	 * yet.
	 */
	struct mem_job_run runs[MEM_JOB_RUNS];
};

struct mem_engine {
	struct poller poller;
	struct reactor *r;
	struct list ready; /* of struct mem_flow, those with something to walk */
	struct list ripe;
	uint32_t nr_active;  /* transfers between submit and end(), those inside submit apart */
	uint32_t nr_starved; /* of those that are active: they rest */
	uint32_t nr_copies;  /* under way */
	uint32_t depth;
	uint32_t turn;
	uint32_t inline_max;  /* of a flow in one turn */
	uint32_t turn_pieces; /* of all */
	uint64_t work;
	struct mem_flow flow;
	uint32_t nr_cut_turns; /* small transfers came lately: so many turns more are cut finer */
	struct pool jobs;
	struct pool copies;
	void *state[MEM_NR_DOMAINS];
	bool has_async;
	struct mem_engine_stats stats;
};

struct mem_budget {
	uint32_t bytes;
	uint32_t pieces;
	bool is_cut; /* not even a whole chunk at once */
};

#define MEM_PIECE_BYTES 4096u /* a chunk is never cut finer for the budget's sake */

/* What one step did. */
enum mem_step_res {
	MEM_STEP_OVER,	  /* walked to the end, or failed */
	MEM_STEP_MORE,	  /* did what the budget allows */
	MEM_STEP_BLOCKED, /* did nothing: no job, or it waits for copies */
	MEM_STEP_STARVED, /* the peer's iterator has nothing now */
};

static inline uint64_t mem_seed(const struct mem_xfer *x, uint64_t at)
{
	return peal_seal_seed_at(x->key_hash, at / MEM_CHUNK_BYTES);
}

static inline uint64_t *mem_seal(const struct mem_xfer *x, uint64_t at)
{
	return &x->seals[at / MEM_CHUNK_BYTES - x->off / MEM_CHUNK_BYTES];
}

static inline bool mem_is_sealed(const struct mem_xfer *x)
{
	return x->dir == MEM_FROM_PEER || x->check;
}

static inline void mem_fail(struct mem_xfer *x, int err)
{
	if (!x->err)
		x->err = err;
}

static inline uint8_t *mem_run_ptr(const struct mem_run *run)
{
	return run->reg->base + run->off;
}

static inline void mem_run_skip(struct mem_run *run, uint64_t n)
{
	run->off += n;
	run->len -= n;
}

/* Makes vrun non-empty. The runs are ours: readable, host, never a peer's. */
static inline int mem_load_value(struct mem_xfer *x)
{
	int err;

	if (x->vrun.len > 0)
		return 0;
	err = x->value->next(x->value, x->end_pos - x->pos, &x->vrun);
	if (err) {
		x->vrun.len = 0;
		return err;
	}
	mem_run_must(&x->vrun);
	must(x->vrun.len > 0 && x->vrun.len <= x->end_pos - x->pos);
	must(x->vrun.reg->domain == MEM_HOST && !(x->vrun.reg->flags & MEM_PEER));
	return 0;
}

static inline int mem_load_peer(struct mem_xfer *x)
{
	uint32_t want = x->dir == MEM_TO_PEER ? MEM_WRITABLE : MEM_READABLE;
	uint64_t left = x->off + x->len - max_t(uint64_t, x->pos, x->off);
	int err;

	if (x->prun.len > 0)
		return 0;
	if (x->peer->is_by_chunk)
		left = min_t(uint64_t, left,
			     MEM_CHUNK_BYTES - max_t(uint64_t, x->pos, x->off) % MEM_CHUNK_BYTES);
	err = x->peer->next(x->peer, left, &x->prun);
	if (err) {
		x->prun.len = 0;
		return err;
	}
	mem_run_must(&x->prun);
	must(x->prun.len > 0 && x->prun.len <= left);
	return x->prun.reg->flags & want ? 0 : -EFAULT;
}

/* Of the bytes [at, at + len) of the value those that the peer wanted. */
static inline void mem_filled(const struct mem_xfer *x, uint64_t at, uint64_t len)
{
	uint64_t from = max_t(uint64_t, at, x->off);
	uint64_t to = min_t(uint64_t, at + len, x->off + x->len);

	if (x->peer->filled && x->dir == MEM_TO_PEER && to > from)
		x->peer->filled(x->peer, to - from);
}

static inline int mem_load_both(struct mem_xfer *x)
{
	int err = mem_load_value(x);

	return err ? err : mem_load_peer(x);
}

static inline void mem_bad_seal(struct mem_xfer *x, uint64_t at, bool is_own)
{
	x->bad_chunk = (uint32_t)(at / MEM_CHUNK_BYTES);
	mem_fail(x, is_own ? -EILSEQ : -EREMOTEIO);
}

/* NULL: too many are half walked, try in a later turn. */
struct mem_job *mem_job_get(struct mem_engine *e, struct mem_xfer *x, uint32_t len);
/* Walks x->job on; when its chunk is walked it is finished, or left behind until its copies are. */
enum mem_step_res mem_job_step(struct mem_xfer *x, struct mem_budget *budget);
/* All of the chunk is walked and nothing of it is under way: seals or checks it. */
void mem_job_finish(struct mem_job *job);

#endif
