/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two passes over a trace: one gives dense numbers to its blocks and finds who continues whom; one
 * counts. Runs on the caller's thread.
 */
#include "sim/sim_stat.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define NONE UINT32_MAX

const uint32_t sim_stat_age_s[SIM_STAT_AGES] = {0,   15,  30,  45,  60,	 90,
						120, 180, 240, 360, 480, 720};

/* A block's dense number is its rank among the distinct ids. */
struct stat_block {
	uint32_t last_req; /* that used it; NONE before the first */
	uint32_t nr_uses;
	bool is_partial_tail;
};

struct stat_req {
	uint32_t turn;
	uint32_t child; /* first request that continues this one, or NONE */
};

struct stat_state {
	const struct sim_trace *trace;
	uint64_t *distinct; /* sorted */
	size_t nr_distinct;
	struct stat_block *blocks;
	struct stat_req *reqs;
	uint64_t *gaps_ns;
	size_t nr_gaps;
};

static int cmp_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int stat_sort_ids(struct stat_state *s)
{
	const struct sim_trace *t = s->trace;

	s->distinct = malloc((t->nr_refs + 1) * sizeof(*s->distinct));
	if (!s->distinct)
		return -ENOMEM;
	for (size_t i = 0; i < t->nr_refs; i++)
		s->distinct[i] = t->ids[i];
	qsort(s->distinct, t->nr_refs, sizeof(*s->distinct), cmp_u64);
	for (size_t i = 0; i < t->nr_refs; i++)
		if (i == 0 || s->distinct[i] != s->distinct[i - 1])
			s->distinct[s->nr_distinct++] = s->distinct[i];
	return 0;
}

static struct stat_block *stat_block(const struct stat_state *s, uint64_t id)
{
	size_t lo = 0;
	size_t hi = s->nr_distinct;

	/* Dense ids, the usual case, are their own rank. */
	if (id < hi && s->distinct[id] == id)
		return &s->blocks[id];
	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->distinct[mid] <= id)
			lo = mid;
		else
			hi = mid;
	}
	return &s->blocks[lo];
}

/* The request that number i continues, or NONE. */
static uint32_t stat_parent(const struct stat_state *s, size_t i)
{
	const struct sim_req *req = &s->trace->reqs[i];
	uint32_t nr_shared = 0;
	uint32_t last = NONE;

	while (nr_shared < req->nr_blocks) {
		uint32_t user = stat_block(s, req->ids[nr_shared])->last_req;

		if (user == NONE)
			break;
		last = user;
		nr_shared++;
	}
	if (nr_shared < 2 || nr_shared < s->trace->reqs[last].nr_blocks - 1)
		return NONE;
	return last;
}

static void stat_link(struct stat_state *s)
{
	for (size_t i = 0; i < s->trace->nr_reqs; i++) {
		const struct sim_req *req = &s->trace->reqs[i];
		uint32_t parent = stat_parent(s, i);

		s->reqs[i] = (struct stat_req){.turn = 0, .child = NONE};
		if (parent != NONE) {
			s->reqs[i].turn = s->reqs[parent].turn + 1;
			s->gaps_ns[s->nr_gaps++] = req->time_ns - s->trace->reqs[parent].time_ns;
			if (s->reqs[parent].child == NONE)
				s->reqs[parent].child = (uint32_t)i;
		}
		for (uint32_t b = 0; b < req->nr_blocks; b++) {
			struct stat_block *block = stat_block(s, req->ids[b]);

			block->last_req = (uint32_t)i;
			block->nr_uses++;
		}
		if (sim_trace_tail_is_partial(req))
			stat_block(s, req->ids[req->nr_blocks - 1])->is_partial_tail = true;
	}
}

static void stat_count_blocks(const struct stat_state *s, struct sim_stat *out)
{
	for (size_t i = 0; i < s->nr_distinct; i++) {
		out->used_once += s->blocks[i].nr_uses == 1;
		if (s->blocks[i].is_partial_tail) {
			out->partial_tails++;
			out->partial_reused += s->blocks[i].nr_uses > 1;
		}
	}
}

static void stat_count_hazard(struct sim_stat *out, uint32_t turn, double waited_s,
			      bool is_followed)
{
	uint32_t class = turn < SIM_STAT_CLASSES ? turn : SIM_STAT_CLASSES - 1;

	for (uint32_t a = 0; a < SIM_STAT_AGES && waited_s >= sim_stat_age_s[a]; a++) {
		bool is_last = a + 1 == SIM_STAT_AGES || waited_s < sim_stat_age_s[a + 1];

		out->exposed_s[class][a] += (is_last ? waited_s : sim_stat_age_s[a + 1]) -
					    sim_stat_age_s[a];
		if (is_last && is_followed)
			out->events[class][a]++;
	}
}

static void stat_count_reqs(const struct stat_state *s, struct sim_stat *out)
{
	const struct sim_trace *t = s->trace;
	uint64_t end_ns = t->reqs[t->nr_reqs - 1].time_ns;

	for (size_t i = 0; i < t->nr_reqs; i++) {
		const struct stat_req *r = &s->reqs[i];
		bool is_followed = r->child != NONE;
		uint64_t until_ns = is_followed ? t->reqs[r->child].time_ns : end_ns;
		uint32_t turn = r->turn < SIM_STAT_TURNS ? r->turn : SIM_STAT_TURNS - 1;

		if (t->reqs[i].nr_blocks > 0)
			out->with_first_block += t->reqs[i].ids[0] == t->ids[0];
		stat_count_hazard(out, r->turn, (double)(until_ns - t->reqs[i].time_ns) / 1e9,
				  is_followed);
		if (end_ns - t->reqs[i].time_ns >= SIM_STAT_HORIZON_NS) {
			out->turns[turn]++;
			out->followed[turn] += is_followed;
		}
	}
	out->duration_ns = end_ns - t->reqs[0].time_ns;
}

static void stat_count_gaps(struct stat_state *s, struct sim_stat *out)
{
	static const uint32_t percentile[3] = {10, 50, 90};

	qsort(s->gaps_ns, s->nr_gaps, sizeof(*s->gaps_ns), cmp_u64);
	for (int i = 0; i < 3 && s->nr_gaps > 0; i++)
		out->gap_s[i] = (double)s->gaps_ns[s->nr_gaps * percentile[i] / 100] / 1e9;
}

static int stat_run(struct stat_state *s, struct sim_stat *out)
{
	const struct sim_trace *t = s->trace;
	int err = stat_sort_ids(s);

	if (err)
		return err;
	s->blocks = calloc(s->nr_distinct + 1, sizeof(*s->blocks));
	s->reqs = calloc(t->nr_reqs + 1, sizeof(*s->reqs));
	s->gaps_ns = calloc(t->nr_reqs + 1, sizeof(*s->gaps_ns));
	if (!s->blocks || !s->reqs || !s->gaps_ns)
		return -ENOMEM;
	for (size_t i = 0; i < s->nr_distinct; i++)
		s->blocks[i].last_req = NONE;
	*out = (struct sim_stat){.refs = t->nr_refs, .uniques = s->nr_distinct};
	if (t->nr_reqs == 0)
		return 0;
	stat_link(s);
	stat_count_blocks(s, out);
	stat_count_reqs(s, out);
	stat_count_gaps(s, out);
	return 0;
}

int sim_stat_measure(const struct sim_trace *trace, struct sim_stat *stat)
{
	struct stat_state s = {.trace = trace};
	int err = stat_run(&s, stat);

	free(s.distinct);
	free(s.blocks);
	free(s.reqs);
	free(s.gaps_ns);
	return err;
}
