/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A generator of multi-turn conversation traces, fitted to published figures of a real one (the
 * conversation trace of Mooncake, FAST'25: 12,031 requests in 3,537 s, 288,500 references to
 * 182,790 blocks).
 *
 * It is a model, not a recording: people start conversations at random moments with a prompt of
 * random length behind a system prompt that all share; after each answer a person either goes away
 * or thinks for a while and sends a further turn (the whole history plus a message), sends the
 * same again, or sends a prompt that keeps only the head of the last one (an edit, or a retrieved
 * context that changed). What the model reproduces, and test/sim/ proves: the hit rate of LRU at
 * every cache size, how likely a turn is to be followed by another, how long that takes, and that
 * partial tail blocks are all but never used again.
 *
 * Same options, same trace. Between C libraries whose exp() and log() differ in the last bit, a
 * prompt may now and then be a token longer; no figure depends on it. Runs on the caller's thread;
 * keeps nothing.
 */
#ifndef SIM_GEN_H
#define SIM_GEN_H

#include <stdint.h>

#include "sim/sim_trace.h"

/* Size and arrival rate of the trace that the model was fitted to. */
#define SIM_GEN_REQS 12031u
#define SIM_GEN_DURATION_NS 3537000000000ull

/* Zero in any field but seed means the default. */
struct sim_gen_opt {
	uint64_t seed;
	uint32_t
		nr_reqs; /* default: SIM_GEN_REQS * scale, so that a trace is always 3,537 s long */
	/*
	 * How many people there are, against the original; 0.001 to 100, default 1. Conversations
	 * start at this rate but each is as before, so the hit rate of a cache of C blocks at
	 * scale 1 is found at C * scale blocks.
	 */
	double scale;
	uint32_t max_input_tokens; /* longest prompt: the model's context; default 126,000 */
};

/* Fill an empty trace. Ids count from 0 in order of first use. -EINVAL, -ENOMEM, -E2BIG. */
int sim_gen(struct sim_trace *trace, const struct sim_gen_opt *opt);

#endif
