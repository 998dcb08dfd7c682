/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace against a daemon, request by request, as an engine would use it:
 *
 *	keys of all prefix blocks -> one MATCH -> the leading hits are read, every byte compared
 *	                                       -> what is behind them is made and put
 *
 * Reads and writes are direct, in one queue, `depth` of them under way; times are from the
 * submission of a request to its reaping, so they hold the wait behind those under way. A read
 * that turns out a miss (evicted since the MATCH) ends the prefix there.
 *
 * Values come from sim_value: nothing but the key says what is right. A buffer is spoiled in every
 * 4 KiB before it is read into, so bytes that were never delivered can't pass for right ones.
 *
 * One thread. Messages are in peal_errmsg().
 */
#pragma once

#include <stdint.h>

#include "cli/replay_hist.h"
#include "peal/peal.h"
#include "sim/sim_trace.h"

struct replay_opts {
	uint64_t seed; /* of the keys */
	uint32_t value_bytes;
	uint32_t depth; /* reads or writes under way */
};

struct replay_op {
	uint64_t nr;
	uint64_t bytes;
	uint64_t ns;	  /* with at least one under way, the client's own work included */
	uint64_t work_ns; /* of them, the client making or comparing values */
	struct replay_hist lat;
};

struct replay_stats {
	uint64_t requests;
	uint64_t blocks;
	uint64_t hits;		/* blocks in served prefixes */
	uint64_t hit_tokens;	/* prompt tokens in them */
	uint64_t late_misses;	/* matched, but a miss when read */
	uint64_t already_there; /* puts of blocks that were resident behind the first miss */
	uint64_t refused;	/* puts for which there was no room */
	uint64_t bytes_checked;
	uint64_t wrong_bytes;
	struct replay_op match;
	struct replay_op get;
	struct replay_op put;
};

struct replay_run;

/* Queue and buffers. -errno. */
int replay_run_create(struct peal *p, const struct replay_opts *o, struct replay_run **run);
/* Gives queue and buffers back, unless the daemon still owes answers: then they stay. */
void replay_run_destroy(struct replay_run *run);

/* Goes on counting where another run has ended. */
void replay_run_resume(struct replay_run *run, const struct replay_stats *st);

/* One request; 0, or -errno when the daemon failed in a way that is no miss. */
int replay_run_request(struct replay_run *run, const struct sim_req *req);

const struct replay_stats *replay_run_stats(const struct replay_run *run);

/* The key of a block of the trace under these options. */
struct peal_key replay_run_key(const struct replay_opts *o, uint64_t id);

/* One direct read, every byte compared: 0, -ENOENT a miss, -EILSEQ wrong bytes, or -errno. */
int replay_run_get(struct replay_run *run, uint64_t id);
/* One direct write. 0 or -errno. */
int replay_run_put(struct replay_run *run, uint64_t id);
