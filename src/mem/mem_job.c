/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chunk that isn't contiguous on both sides, or not wanted whole, or goes to a domain whose
 * copies finish later: walked piece by piece under one guard, its hash in a mem_job that is kept
 * over turns when the pieces are too many for one. Runs on the engine's reactor.
 *
 * To the peer, runs[] are the chunk's own bytes, in case the blame must be found. From the peer,
 * they are what has come (or is under way) and is not in the hash yet.
 */
/* tidy: no-test: t_mem_engine.c goes through all of it */
#include "mem/mem_engine_int.h"

#include <string.h>

#include "mem/mem_guard.h"

/* From a peer: hash when this much has come, while it is in the first levels of cache. */
#define MEM_HASH_BYTES 16384u

struct mem_job *mem_job_get(struct mem_engine *e, struct mem_xfer *x, uint32_t len)
{
	struct mem_job *job = pool_get(&e->jobs);

	if (!job)
		return NULL;
	job->x = x;
	job->e = e;
	job->at = x->pos;
	job->len = len;
	job->pos = 0;
	job->nr_out = 0;
	job->nr_runs = 0;
	job->runs_bytes = 0;
	job->is_lost = false;
	job->is_walked = false;
	list_init(&job->node);
	if (mem_is_sealed(x))
		hash_stream_init(&job->hash, mem_seed(x, x->pos));
	return job;
}

/* Remembers a piece of our own bytes; false when there is no room. */
static bool mem_job_note(struct mem_job *job, uint8_t *p, uint32_t len)
{
	struct mem_job_run *last = job->nr_runs ? &job->runs[job->nr_runs - 1] : NULL;

	if (last && last->p + last->len == p) {
		last->len += len;
	} else {
		if (job->nr_runs == MEM_JOB_RUNS)
			return false;
		job->runs[job->nr_runs++] = (struct mem_job_run){p, len};
	}
	job->runs_bytes += len;
	return true;
}

/* From the peer: what has come goes into the hash. */
static void mem_job_hash(struct mem_job *job)
{
	for (uint32_t i = 0; i < job->nr_runs; i++)
		hash_stream_add(&job->hash, job->runs[i].p, job->runs[i].len);
	job->nr_runs = 0;
	job->runs_bytes = 0;
}

static bool mem_job_is_own_right(const struct mem_job *job, uint64_t seal)
{
	struct hash_stream own;

	if (job->is_lost)
		return false;
	hash_stream_init(&own, mem_seed(job->x, job->at));
	for (uint32_t i = 0; i < job->nr_runs; i++)
		hash_stream_add(&own, job->runs[i].p, job->runs[i].len);
	return hash_stream_digest(&own) == seal;
}

void mem_job_finish(struct mem_job *job)
{
	struct mem_xfer *x = job->x;
	uint64_t *seal;

	if (!x->err && mem_is_sealed(x)) {
		seal = mem_seal(x, job->at);
		if (x->dir == MEM_FROM_PEER) {
			mem_job_hash(job);
			*seal = hash_stream_digest(&job->hash);
		} else if (hash_stream_digest(&job->hash) != *seal) {
			mem_bad_seal(x, job->at, !mem_job_is_own_right(job, *seal));
		}
	}
	if (!x->err)
		mem_filled(x, job->at, job->len);
	pool_put(&job->e->jobs, job);
}

static void mem_job_copy_end(struct mem_copy *c, int res)
{
	struct mem_job *job = c->job;
	struct mem_engine *e = job->e;

	/* Whatever the domain calls it: their memory failed. */
	if (res < 0)
		mem_fail(job->x, -EFAULT);
	pool_put(&e->copies, c);
	e->nr_copies--;
	must(job->nr_out > 0);
	if (--job->nr_out == 0 && job->is_walked)
		list_add_tail(&e->ripe, &job->node);
}

/* False: no room for one more, wait for some to finish. */
static bool mem_job_copy(struct mem_job *job, const struct mem_domain_ops *ops, uint32_t len)
{
	struct mem_engine *e = job->e;
	struct mem_xfer *x = job->x;
	struct mem_copy *c;

	if (!ops || !ops->copy) {
		mem_fail(x, -EFAULT);
		return true;
	}
	c = pool_get(&e->copies);
	if (!c)
		return false;
	*c = (struct mem_copy){
		.peer = {x->prun.reg, x->prun.off, len},
		.value = {x->vrun.reg, x->vrun.off, len},
		.dir = x->dir,
		.end = mem_job_copy_end,
		.job = job,
	};
	job->nr_out++;
	e->nr_copies++;
	ops->copy(e->state[x->prun.reg->domain], c);
	return true;
}

/* A piece that both sides have contiguous, to the peer. False: blocked. */
static bool mem_job_to(struct mem_guard *g, struct mem_job *job, uint32_t len)
{
	struct mem_xfer *x = job->x;
	uint8_t *own = mem_run_ptr(&x->vrun), *theirs = mem_run_ptr(&x->prun);

	if (x->prun.reg->domain != MEM_HOST) {
		if (!mem_job_copy(job, mem_domain_ops(x->prun.reg->domain), len))
			return false;
		if (x->check)
			hash_stream_add(&job->hash, own, len);
	} else {
		if (x->prun.reg->flags & MEM_PEER)
			mem_guard_range(g, theirs, len);
		if (x->check)
			hash_stream_copy(&job->hash, theirs, own, len);
		else
			memcpy(theirs, own, len);
		mem_guard_no_range(g);
	}
	if (x->check && !mem_job_note(job, own, len))
		job->is_lost = true;
	return true;
}

/* The same from the peer. */
static bool mem_job_from(struct mem_guard *g, struct mem_job *job, uint32_t len)
{
	struct mem_xfer *x = job->x;
	uint8_t *own = mem_run_ptr(&x->vrun), *theirs = mem_run_ptr(&x->prun);
	bool is_full = job->nr_runs == MEM_JOB_RUNS || job->runs_bytes >= MEM_HASH_BYTES;

	if (is_full && job->nr_out == 0)
		mem_job_hash(job);
	else if (job->nr_runs == MEM_JOB_RUNS)
		return false; /* what is under way must come before it can be hashed */
	if (x->prun.reg->domain != MEM_HOST) {
		if (!mem_job_copy(job, mem_domain_ops(x->prun.reg->domain), len))
			return false;
	} else {
		if (x->prun.reg->flags & MEM_PEER)
			mem_guard_range(g, theirs, len);
		memcpy(own, theirs, len);
		mem_guard_no_range(g);
	}
	must(mem_job_note(job, own, len));
	return true;
}

/* Bytes of a chunk that nobody asked for: into the hash, from where they lie. */
static void mem_job_rest(struct mem_job *job, uint32_t len)
{
	struct mem_xfer *x = job->x;
	uint8_t *own = mem_run_ptr(&x->vrun);

	if (!x->check)
		return;
	hash_stream_add(&job->hash, own, len);
	if (!mem_job_note(job, own, len))
		job->is_lost = true;
}

struct mem_walk {
	struct mem_job *job;
	struct mem_budget *budget;
	bool is_blocked;
};

/* The next piece; 0, or the errno that ends the transfer. */
static int mem_job_piece(struct mem_guard *g, struct mem_walk *w)
{
	struct mem_job *job = w->job;
	struct mem_xfer *x = job->x;
	uint64_t left = job->len - job->pos, end = x->off + x->len;
	bool is_wanted = x->pos >= x->off && x->pos < end;
	int err = is_wanted ? mem_load_both(x) : mem_load_value(x);

	if (err)
		return err;
	left = min_t(uint64_t, left, x->vrun.len);
	left = min_t(uint64_t, left, max_t(uint32_t, w->budget->bytes, MEM_PIECE_BYTES));
	if (is_wanted) {
		left = min_t(uint64_t, min_t(uint64_t, left, x->prun.len), end - x->pos);
		w->is_blocked = x->dir == MEM_TO_PEER ? !mem_job_to(g, job, (uint32_t)left)
						      : !mem_job_from(g, job, (uint32_t)left);
		if (w->is_blocked)
			return 0;
		mem_run_skip(&x->prun, left);
	} else {
		if (x->pos < x->off)
			left = min_t(uint64_t, left, x->off - x->pos);
		mem_job_rest(job, (uint32_t)left);
	}
	mem_run_skip(&x->vrun, left);
	x->pos += left;
	job->pos += (uint32_t)left;
	w->budget->bytes -= min_t(uint32_t, w->budget->bytes, (uint32_t)left);
	w->budget->pieces--;
	job->e->work += left + MEM_WORK_PIECE;
	return x->err;
}

static int mem_job_walk(struct mem_guard *g, void *arg)
{
	struct mem_walk *w = arg;
	int err = 0;

	while (!err && w->job->pos < w->job->len && w->budget->bytes && w->budget->pieces) {
		err = mem_job_piece(g, w);
		if (w->is_blocked)
			break;
	}
	return err;
}

enum mem_step_res mem_job_step(struct mem_xfer *x, struct mem_budget *budget)
{
	struct mem_job *job = x->job;
	struct mem_walk w = {.job = job, .budget = budget};
	uint32_t was = job->pos;

	/* A copy of an earlier piece may have failed meanwhile. */
	if (!x->err)
		mem_fail(x, mem_guard_call(mem_job_walk, &w));
	if (!x->err && job->pos < job->len)
		return w.is_blocked && job->pos == was ? MEM_STEP_BLOCKED : MEM_STEP_MORE;
	x->job = NULL;
	job->is_walked = true;
	if (job->nr_out > 0)
		x->nr_jobs++;
	else
		mem_job_finish(job);
	return MEM_STEP_MORE;
}
