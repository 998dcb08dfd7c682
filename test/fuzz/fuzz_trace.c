/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces from bytes: the importer takes anything without harm, refuses with a reason and leaves
 * nothing, and what it accepts is consistent, was text, and survives being written and read again.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/must.h"
#include "sim/sim_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int trace_read(struct sim_trace *t, const void *text, size_t size)
{
	struct sim_trace_err err = {""};
	FILE *in = fmemopen((void *)(uintptr_t)text, size, "r");
	int rc;

	must(in);
	rc = sim_trace_read(t, in, "x", &err);
	fclose(in);
	must(rc <= 0);
	must((rc < 0) == (strncmp(err.text, "x:", 2) == 0));
	must(rc == 0 || (t->nr_reqs == 0 && !t->reqs && !t->ids && t->nr_refs == 0));
	return rc;
}

static void trace_check(const struct sim_trace *t)
{
	uint64_t last_ns = 0;
	size_t refs = 0;

	for (size_t i = 0; i < t->nr_reqs; i++) {
		const struct sim_req *req = &t->reqs[i];

		must(req->time_ns >= last_ns && req->time_ns / 1000000 <= SIM_TRACE_TIME_MS_MAX);
		must(req->input_tokens >= 1 && req->input_tokens <= SIM_TRACE_TOKENS_MAX);
		must(req->output_tokens <= SIM_TRACE_TOKENS_MAX);
		must(req->nr_blocks == sim_trace_blocks(req->input_tokens));
		must(req->ids == t->ids + refs);
		last_ns = req->time_ns;
		refs += req->nr_blocks;
	}
	must(refs == t->nr_refs && refs <= t->cap_refs && t->nr_reqs <= t->cap_reqs);
}

static void trace_round_trip(const struct sim_trace *t)
{
	struct sim_trace back = {0};
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	must(out);
	must(sim_trace_write(t, out) == 0);
	fclose(out);
	must(trace_read(&back, text, bytes) == 0);
	must(back.nr_reqs == t->nr_reqs && back.nr_refs == t->nr_refs);
	must(memcmp(back.ids, t->ids, t->nr_refs * sizeof(*t->ids)) == 0);
	for (size_t i = 0; i < t->nr_reqs; i++)
		must(back.reqs[i].time_ns == t->reqs[i].time_ns &&
		     back.reqs[i].input_tokens == t->reqs[i].input_tokens &&
		     back.reqs[i].output_tokens == t->reqs[i].output_tokens);
	sim_trace_fini(&back);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sim_trace t = {0};

	if (size == 0 || trace_read(&t, data, size))
		return 0;
	must(!memchr(data, 0, size));
	trace_check(&t);
	if (t.nr_reqs)
		trace_round_trip(&t);
	sim_trace_fini(&t);
	return 0;
}
