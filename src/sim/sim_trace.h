/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace of LLM requests, as a prefix cache sees them: when each came, how long it was and which
 * prefix blocks it is made of.
 *
 * A block is SIM_BLOCK_TOKENS tokens of prompt. Its id stands for the block *and everything before
 * it*: the same id means the same prefix so far, so the leading ids that two requests have in
 * common are the blocks that the second could load instead of recompute. The last block of a
 * request is usually partial; it has an id too, of its own.
 *
 * On disk a trace is JSON lines in the form of the Mooncake traces (kvcache-ai/Mooncake,
 * FAST25-release/traces), one request a line in order of time:
 *
 *	{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, ...]}
 *
 * with the timestamp in ms and ceil(input_length / 512) ids.
 *
 * A trace belongs to one thread while it is built and may be read by any number afterwards.
 */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SIM_BLOCK_TOKENS 512u

/* What an importer accepts. A file is a stranger's: beyond this it is refused, not truncated. */
#define SIM_TRACE_LINE_MAX (4u << 20)	   /* bytes a line */
#define SIM_TRACE_REQS_MAX (4u << 20)	   /* requests a trace */
#define SIM_TRACE_REFS_MAX (64u << 20)	   /* block references a trace: 512 MiB of ids */
#define SIM_TRACE_TOKENS_MAX (32u << 20)   /* tokens a request, in and out alike */
#define SIM_TRACE_TIME_MS_MAX (1ull << 40) /* 35 years */

struct sim_req {
	uint64_t time_ns; /* since the start of the trace; never decreases */
	uint32_t input_tokens;
	uint32_t output_tokens;
	uint32_t nr_blocks;  /* ceil(input_tokens / SIM_BLOCK_TOKENS) */
	const uint64_t *ids; /* nr_blocks ids, root first; they live in the trace */
};

/* Zero is an empty trace. */
struct sim_trace {
	struct sim_req *reqs;
	size_t nr_reqs;
	size_t cap_reqs;
	uint64_t *ids; /* all requests' ids, back to back */
	size_t nr_refs;
	size_t cap_refs;
};

/* Why a load failed, for a human: "FILE:LINE: FIELD: expected WHAT, got WHAT". */
struct sim_trace_err {
	char text[256];
};

/* How many blocks a prompt of that many tokens has, the partial tail included. */
static inline uint32_t sim_trace_blocks(uint32_t input_tokens)
{
	return input_tokens / SIM_BLOCK_TOKENS + (input_tokens % SIM_BLOCK_TOKENS != 0);
}

/* True when the last block of req is not full. Such a block is hardly ever used again. */
static inline int sim_trace_tail_is_partial(const struct sim_req *req)
{
	return req->input_tokens % SIM_BLOCK_TOKENS != 0;
}

/*
 * Append a copy of req and of its ids (which must not point into this trace's own pool). Pointers
 * that were taken from trace before are dead afterwards. -ENOMEM; -E2BIG over the limits above.
 */
int sim_trace_append(struct sim_trace *trace, const struct sim_req *req);

/* Give the memory back; the trace is empty then. */
void sim_trace_fini(struct sim_trace *trace);

/*
 * Read a trace. Both append to an empty *trace and leave it empty on failure. err is filled on
 * failure and may be NULL; name is what err calls the stream.
 *
 * -EINVAL malformed; -E2BIG over a limit; -ENOMEM; errno of open or read.
 */
int sim_trace_load(struct sim_trace *trace, const char *path, struct sim_trace_err *err);
int sim_trace_read(struct sim_trace *trace, FILE *in, const char *name, struct sim_trace_err *err);

/* Write the same form; times are cut to ms. 0 or the errno of the write. */
int sim_trace_save(const struct sim_trace *trace, const char *path);
int sim_trace_write(const struct sim_trace *trace, FILE *out);

#endif
