/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waves: the requests of peal_run() that a queue doesn't copy by itself - values with tags or
 * metadata, large ones - many under way in one ring instead of one after the other.
 *
 *	get, large   RETRIEVE_EX of the block alone, if a tag or metadata are asked for, and LEASE,
 *	             both at once; when both are answered, one copy out of the arena; RELEASE
 *	get, small   RETRIEVE_EX of block and value
 *	put          STORE_EX, or STORE without metadata
 *
 * A batch costs a doorbell for what is sent together and a few for its releases - they go with what
 * is sent, or when they have become many or old - where each value had one for each of its commands
 * and a wait for each but the release.
 *
 * What holds, whatever the daemon does:
 *
 *  1. The caller's memory is never named to the daemon. It is read before a put is sent, and
 *     written by our own copy only.
 *  2. Before a get's first byte is copied, its block was answered, its tag is the one that was
 *     wanted, and the lease is of the version that the block was of. Another tag is -ENOENT and
 *     counts in bad_tags. Each chunk of a lease is checked against its seal by the copy itself.
 *  3. A wave decides only what is plain: done, a miss, another tag, too small a buffer, no answer
 *     in time, no daemon; of a put whatever the daemon has answered. All else - a lease that can't
 *     be had, another version, a bad seal, an answer that makes no sense, no room for a command -
 *     leaves the request as it was, for the calls for one value (BATCH_ALONE).
 *  4. No command is waited for beyond the wave's deadline. Buffers of those that weren't answered
 *     stay in quarantine with their CIDs (batch_int.h).
 *  5. Each lease that was answered ends: by a RELEASE behind its copy, also where there is no copy.
 *     One whose answer didn't come in time ends by its own time, as a single get's does; so does
 *     one that finds every CID taken by commands that timed out.
 *  6. When batch_wave_run() returns, no command of the wave is under way but RELEASEs, which nobody
 *     waits for and which name no memory. Each request has its result or is BATCH_ALONE.
 *  7. Bounds: WAVE_MAX requests and WAVE_BYTES of values under way (one value more than that goes
 *     alone), so that batches of several threads don't refuse each other leases and buffers.
 *
 * In the queue's thread.
 */
#pragma once

#include "client/batch_int.h"

#define WAVE_MAX 32u
#define WAVE_BYTES (16u << 20)

/* How a request of peal_run() goes; in its priv[1]. */
enum batch_way {
	BATCH_QUEUE, /* by peal_submit() */
	BATCH_WAVE,
	BATCH_ALONE, /* by the call for one value */
};

struct wave_one {
	struct peal_req *req; /* NULL: free */
	unsigned nr_left;     /* of its commands */
	bool is_half;	      /* sent in part: only waited for (3) */
	size_t bytes;
	uint64_t asked_ns;
	struct batch_cmd block; /* RETRIEVE_EX, STORE, STORE_EX; data_bytes 0: none */
	struct batch_cmd lease; /* the same */
};

struct wave {
	struct peal_queue *q;
	struct conn *conn; /* counted: buffers go back to it, also when the queue has left it */
	uint64_t deadline_ns;
	uint64_t last_ns; /* when the last value was there, for the rate of the next */
	unsigned nr_used;
	unsigned nr_pushed; /* not rung yet; RELEASEs, which nobody waits for, apart */
	unsigned nr_released;
	size_t bytes;
	size_t pushed_bytes;
	unsigned nr_ok; /* requests of the wave that are done */
	/* requests of the queue's own that came back meanwhile, and of them those that are done */
	unsigned nr_back, nr_back_ok;
	struct wave_one one[WAVE_MAX];
};

/* Whether a wave can carry it; what is wrong with it is told by the call for one value. */
bool batch_wave_takes(const struct peal_queue *q, const struct peal_req *req);
/*
 * Those of reqs that are BATCH_WAVE, each looked at again: the daemon may be another one by now.
 * The queue is attached; w is the caller's, not initialized.
 */
void batch_wave_run(struct wave *w, struct peal_queue *q, struct peal_req *reqs, unsigned nr,
		    uint64_t deadline_ns);
