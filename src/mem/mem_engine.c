/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine behind mem_xfer. Everything runs on its reactor.
 *
 * 	submit --(within one chunk)--> mem_step --> end()
 * 	   |
 * 	   +--> ready: flows, and in each its transfers with something left to walk: one chunk of a
 * 		flow after one of the next, of one transfer until MEM_FLOW_BYTES of it have gone
 *
 * mem_step() does one chunk: in one go when it is contiguous on both sides (hash_copy_xxh3(), no
 * state), else piece by piece with a mem_job, which holds the hash of the half-walked chunk and is
 * kept over turns when the pieces are too many for one. A job that waits for copies of an
 * asynchronous domain is left behind; when the last copy is done it goes to `ripe` and a later turn
 * hashes and seals it.
 *
 * What a seal is checked over: to the peer, the bytes in the peer's memory after the copy (host
 * domain), or ours before it (domains that we can't read at speed); of a chunk that is only partly
 * wanted, the rest where it lies. From the peer: our own copy, after it is complete.
 */
#include "mem/mem_engine_int.h"

#include <stdlib.h>
#include <string.h>

#include "core/probe.h"
#include "mem/mem_guard.h"

/* A job is held over turns only by what is scattered into crumbs or waits for copies. */
#define MEM_NR_JOBS 64
#define MEM_NR_COPIES 1024
/* end() may submit the next transfer: below this depth it runs inside as well. */
#define MEM_DEPTH_MAX 4

/* ---- one chunk in one go -------------------------------------------------------------------- */

struct mem_move {
	uint8_t *dst;
	const uint8_t *src;
	const uint8_t *peer;
	uint32_t len;
	bool is_hashed;
	bool is_guarded;
	uint64_t seed;
	uint64_t hash;
};

static int mem_move(struct mem_guard *g, void *arg)
{
	struct mem_move *m = arg;

	if (m->is_guarded)
		mem_guard_range(g, m->peer, m->len);
	if (m->is_hashed)
		m->hash = hash_copy_xxh3(m->dst, m->src, m->len, m->seed);
	else
		memcpy(m->dst, m->src, m->len);
	return 0;
}

static bool mem_is_whole(const struct mem_xfer *x, uint32_t len)
{
	return x->pos >= x->off && x->pos + len <= x->off + x->len && x->vrun.len >= len &&
	       x->prun.len >= len && x->prun.reg->domain == MEM_HOST;
}

static void mem_step_whole(struct mem_xfer *x, uint32_t len)
{
	uint8_t *own = mem_run_ptr(&x->vrun), *theirs = mem_run_ptr(&x->prun);
	struct mem_move m = {
		.dst = x->dir == MEM_TO_PEER ? theirs : own,
		.src = x->dir == MEM_TO_PEER ? own : theirs,
		.peer = theirs,
		.len = len,
		.is_hashed = mem_is_sealed(x),
		.is_guarded = x->prun.reg->flags & MEM_PEER,
		.seed = mem_seed(x, x->pos),
	};
	int err = mem_guard_call(mem_move, &m);

	if (err)
		mem_fail(x, err);
	else if (x->dir == MEM_FROM_PEER)
		*mem_seal(x, x->pos) = m.hash;
	else if (x->check && m.hash != *mem_seal(x, x->pos))
		mem_bad_seal(x, x->pos, hash_xxh3(own, len, m.seed) != *mem_seal(x, x->pos));
	if (!x->err)
		mem_filled(x, x->pos, len);
	mem_run_skip(&x->vrun, len);
	mem_run_skip(&x->prun, len);
	x->pos += len;
}

/* ---- flows ---------------------------------------------------------------------------------- */

/* tidy: name: what an engine serves */
void mem_flow_init(struct mem_flow *f)
{
	*f = (struct mem_flow){0};
	list_init(&f->node);
	list_init(&f->ready);
}

/* With this turn's bytes. */
static inline struct mem_flow *mem_flow_of(struct mem_engine *e, const struct mem_xfer *x)
{
	struct mem_flow *f = x->flow ? x->flow : &e->flow;

	if (f->turn != e->turn) {
		f->turn = e->turn;
		f->inline_bytes = e->inline_max;
	}
	return f;
}

/* A chunk that is half walked is finished first, too, so that a flow holds few jobs. */
static void mem_flow_add(struct mem_engine *e, struct mem_xfer *x, bool goes_on)
{
	struct mem_flow *f = mem_flow_of(e, x);

	if (goes_on)
		list_add_head(&f->ready, &x->node);
	else
		list_add_tail(&f->ready, &x->node);
	if (!list_is_linked(&f->node))
		list_add_tail(&e->ready, &f->node);
}

/* Takes x out; its flow goes behind the others. */
static void mem_flow_del(struct mem_engine *e, struct mem_xfer *x)
{
	struct mem_flow *f = mem_flow_of(e, x);

	list_del(&x->node);
	list_del(&f->node);
	if (!list_is_empty(&f->ready))
		list_add_tail(&e->ready, &f->node);
}

/* ---- transfers ------------------------------------------------------------------------------ */

/* The runs that come next. False: there is nothing now. */
static bool mem_load(struct mem_xfer *x)
{
	int err = mem_load_both(x);

	if (err == -EAGAIN)
		return false;
	mem_fail(x, err);
	return true;
}

/* It rests until mem_iter_more(). */
static void mem_starve(struct mem_engine *e, struct mem_xfer *x)
{
	must(!x->peer->starved);
	x->peer->starved = x;
	e->nr_starved++;
}

/* One chunk at most. */
static enum mem_step_res mem_step(struct mem_engine *e, struct mem_xfer *x,
				  struct mem_budget *budget)
{
	uint64_t left = x->end_pos - x->pos;
	uint32_t len = (uint32_t)min_t(uint64_t, left, MEM_CHUNK_BYTES - x->pos % MEM_CHUNK_BYTES);
	enum mem_step_res res = MEM_STEP_MORE;

	if (!x->job && !x->err && unlikely(mem_flow_of(e, x)->is_stopped)) {
		mem_fail(x, -ECANCELED);
		budget->pieces--;
	}
	if (!x->job && !x->err) {
		if (budget->bytes < len && !budget->is_cut)
			return MEM_STEP_BLOCKED;
		/* Before a job is taken: who rests holds none. */
		if ((x->pos >= x->off || x->peer->is_by_chunk) && !mem_load(x))
			return MEM_STEP_STARVED;
		if (!x->err && budget->bytes >= len && mem_is_whole(x, len)) {
			mem_step_whole(x, len);
			e->work += len;
			budget->bytes -= len;
			budget->pieces--;
		} else if (!x->err) {
			x->job = mem_job_get(e, x, len);
			if (!x->job)
				return MEM_STEP_BLOCKED;
		}
	}
	if (x->job)
		res = mem_job_step(x, budget);
	return x->err || x->pos == x->end_pos ? MEM_STEP_OVER : res;
}

/* Over and nothing under way. */
static void mem_xfer_end(struct mem_engine *e, struct mem_xfer *x)
{
	if (!x->err)
		counter_add(&e->stats.bytes, x->len);
	else if (x->err == -EFAULT) {
		counter_add(&e->stats.faults, 1);
		e->work += MEM_WORK_FAULT;
	} else if (x->err == -EILSEQ)
		counter_add(&e->stats.bad_own, 1);
	else if (x->err == -EREMOTEIO)
		counter_add(&e->stats.bad_remote, 1);
	PEAL_PROBE(mem_xfer_end, x, x->err);
	x->end(x, x->err);
}

static uint64_t mem_xfer_end_pos(const struct mem_xfer *x)
{
	uint64_t end = x->off + x->len;

	/* A chunk that is checked is walked to its end. */
	if (x->dir == MEM_TO_PEER && x->check)
		end = min_t(uint64_t, align_up(end, MEM_CHUNK_BYTES), x->value_len);
	return end;
}

static void mem_xfer_must(const struct mem_xfer *x)
{
	must(x->len > 0 && x->off <= x->value_len && x->len <= x->value_len - x->off);
	must(x->value && x->peer && x->end && (x->seals || !mem_is_sealed(x)));
	if (x->dir == MEM_FROM_PEER) {
		must(x->off % MEM_CHUNK_BYTES == 0);
		must((x->off + x->len) % MEM_CHUNK_BYTES == 0 || x->off + x->len == x->value_len);
	}
}

static bool mem_is_inline(struct mem_engine *e, const struct mem_xfer *x)
{
	const struct mem_flow *f = mem_flow_of(e, x);

	return x->end_pos - x->pos <= MEM_CHUNK_BYTES - x->pos % MEM_CHUNK_BYTES &&
	       x->end_pos - x->pos <= f->inline_bytes && e->depth < MEM_DEPTH_MAX;
}

/* From the runs at hand on, which may be empty. */
static void mem_start(struct mem_engine *e, struct mem_xfer *x, struct mem_run vrun,
		      struct mem_run prun)
{
	struct mem_budget budget = {.bytes = MEM_CHUNK_BYTES, .pieces = e->turn_pieces};
	enum mem_step_res res = MEM_STEP_MORE;

	list_init(&x->node);
	x->pos = align_down(x->off, MEM_CHUNK_BYTES);
	x->end_pos = mem_xfer_end_pos(x);
	x->vrun = vrun;
	x->vrun.len = min_t(uint64_t, vrun.len, x->end_pos - x->pos);
	x->prun = prun;
	x->job = NULL;
	x->nr_jobs = 0;
	x->err = 0;
	counter_add(&e->stats.xfers, 1);
	PEAL_PROBE(mem_xfer_submit, x, x->dir, x->len);
	if (mem_is_inline(e, x)) {
		e->nr_cut_turns = MEM_CUT_TURNS;
		mem_flow_of(e, x)->inline_bytes -= (uint32_t)(x->end_pos - x->pos);
		res = mem_step(e, x, &budget);
		if (res == MEM_STEP_OVER && x->nr_jobs == 0) {
			e->depth++;
			mem_xfer_end(e, x);
			e->depth--;
			return;
		}
	}
	e->nr_active++;
	/* What comes in pieces goes on where the last one ended. Over: it only waits for copies. */
	if (res == MEM_STEP_STARVED)
		mem_starve(e, x);
	else if (res != MEM_STEP_OVER)
		mem_flow_add(e, x, x->off % MEM_FLOW_BYTES);
}

/* tidy: name: the engine is what a transfer is submitted to */
void mem_xfer_submit(struct mem_engine *e, struct mem_xfer *x)
{
	mem_xfer_must(x);
	mem_start(e, x, (struct mem_run){0}, (struct mem_run){0});
}

/* All of a value within one chunk, to the peer, out of one run. */
static bool mem_is_short(struct mem_engine *e, const struct mem_xfer *x, const struct mem_run *run)
{
	const struct mem_flow *f = mem_flow_of(e, x);

	return x->dir == MEM_TO_PEER && x->off == 0 && x->len == x->value_len &&
	       x->len <= MEM_CHUNK_BYTES && x->len <= f->inline_bytes && x->len <= run->len &&
	       e->depth < MEM_DEPTH_MAX;
}

/* The whole transfer as one guarded pass. */
static void mem_short(struct mem_engine *e, struct mem_xfer *x, const struct mem_run *run,
		      const struct mem_run *to)
{
	struct mem_move m = {
		.dst = mem_run_ptr(to),
		.src = mem_run_ptr(run),
		.peer = mem_run_ptr(to),
		.len = (uint32_t)x->len,
		.is_hashed = x->check,
		.is_guarded = to->reg->flags & MEM_PEER,
		.seed = peal_seal_seed_at(x->key_hash, 0),
	};

	e->nr_cut_turns = MEM_CUT_TURNS;
	mem_flow_of(e, x)->inline_bytes -= (uint32_t)x->len;
	e->work += x->len;
	counter_add(&e->stats.xfers, 1);
	PEAL_PROBE(mem_xfer_submit, x, x->dir, x->len);
	x->err = mem_guard_call(mem_move, &m);
	if (!x->err && x->check && m.hash != x->seals[0])
		mem_bad_seal(x, 0, hash_xxh3(m.src, m.len, m.seed) != x->seals[0]);
	if (!x->err && x->peer->filled)
		x->peer->filled(x->peer, x->len);
	e->depth++;
	mem_xfer_end(e, x);
	e->depth--;
}

/* tidy: name: the engine is what a transfer is submitted to */
void mem_xfer_submit_run(struct mem_engine *e, struct mem_xfer *x, const struct mem_run *run)
{
	struct mem_run to = {0};

	mem_xfer_must(x);
	must(x->off < MEM_CHUNK_BYTES);
	if (mem_is_short(e, x, run) && x->peer->next(x->peer, x->len, &to))
		to.len = 0; /* it fails again where the transfer looks */
	if (to.len)
		mem_run_must(&to);
	if (to.len == x->len && to.reg->domain == MEM_HOST && to.reg->flags & MEM_WRITABLE)
		mem_short(e, x, run, &to);
	else
		mem_start(e, x, *run, to);
}

/* tidy: name: an iterator's owner calls it */
void mem_iter_more(struct mem_engine *e, struct mem_iter *it)
{
	struct mem_xfer *x = it->starved;

	if (!x)
		return;
	it->starved = NULL;
	e->nr_starved--;
	mem_flow_add(e, x, x->job || x->pos % MEM_FLOW_BYTES);
}

static void mem_xfer_put(struct mem_engine *e, struct mem_xfer *x)
{
	if (x->nr_jobs > 0 || list_is_linked(&x->node) || x->peer->starved == x)
		return;
	e->nr_active--;
	mem_xfer_end(e, x);
}

static int mem_turn_domains(struct mem_engine *e)
{
	int nr = 0;

	for (unsigned d = 0; d < MEM_NR_DOMAINS; d++) {
		if (e->state[d])
			nr += mem_domain_ops(d)->poll(e->state[d]);
	}
	return nr;
}

/* Chunks whose copies have all come. Hashing is what costs: from the peer only. */
static void mem_turn_ripe(struct mem_engine *e, struct mem_budget *budget)
{
	while (!list_is_empty(&e->ripe) && budget->bytes > 0) {
		struct mem_job *job = list_first_entry(&e->ripe, struct mem_job, node);
		struct mem_xfer *x = job->x;

		list_del(&job->node);
		if (x->dir == MEM_FROM_PEER)
			budget->bytes -= min_t(uint32_t, budget->bytes, job->runs_bytes);
		mem_job_finish(job);
		must(x->nr_jobs > 0);
		x->nr_jobs--;
		mem_xfer_put(e, x);
	}
}

static int mem_engine_poll(struct poller *p)
{
	struct mem_engine *e = container_of(p, struct mem_engine, poller);
	struct mem_budget budget = {.bytes = MEM_TURN_BYTES, .pieces = e->turn_pieces};
	uint32_t nr_left = e->nr_active - e->nr_starved;

	e->turn++;
	if (nr_left == 0)
		return 0;
	/* Somebody waits for small values: they come between quarters of chunks then. */
	if (e->nr_cut_turns) {
		e->nr_cut_turns--;
		budget.bytes = MEM_TURN_CUT_BYTES;
		budget.is_cut = true;
	}
	counter_add(&e->stats.turns, 1);
	if (e->nr_copies > 0)
		mem_turn_domains(e);
	mem_turn_ripe(e, &budget);
	/* Each at most once, so that one that is blocked is not asked for ever. */
	for (; nr_left && budget.bytes && budget.pieces && !list_is_empty(&e->ready); nr_left--) {
		struct mem_flow *f = list_first_entry(&e->ready, struct mem_flow, node);
		struct mem_xfer *x = list_first_entry(&f->ready, struct mem_xfer, node);
		enum mem_step_res res = mem_step(e, x, &budget);

		if (res == MEM_STEP_BLOCKED && !budget.is_cut && budget.bytes < MEM_TURN_BYTES &&
		    !x->job)
			break; /* its chunk fits into the next turn: it stays first */
		mem_flow_del(e, x);
		if (res == MEM_STEP_STARVED)
			mem_starve(e, x);
		else if (res == MEM_STEP_OVER)
			mem_xfer_put(e, x);
		else
			mem_flow_add(e, x,
				     res == MEM_STEP_MORE && (x->job || x->pos % MEM_FLOW_BYTES));
	}
	return 1;
}

const struct mem_engine_stats *mem_engine_stats(const struct mem_engine *e)
{
	return &e->stats;
}

uint64_t mem_engine_bytes(const struct mem_engine *e)
{
	return counter_get(&e->stats.bytes);
}

void mem_engine_share(struct mem_engine *e, uint32_t inline_bytes, uint32_t turn_pieces)
{
	e->inline_max = inline_bytes;
	e->turn_pieces = turn_pieces;
}

uint64_t mem_engine_work(const struct mem_engine *e)
{
	return e->work;
}

static void mem_engine_close(struct mem_engine *e)
{
	for (unsigned d = 0; d < MEM_NR_DOMAINS; d++) {
		if (e->state[d])
			mem_domain_ops(d)->close(e->state[d]);
	}
}

static int mem_engine_open(struct mem_engine *e)
{
	int err;

	for (unsigned d = 0; d < MEM_NR_DOMAINS; d++) {
		const struct mem_domain_ops *ops = mem_domain_ops(d);

		if (!ops || !ops->open)
			continue;
		err = ops->open(e->r, &e->state[d]);
		if (err)
			return err;
		e->has_async = true;
	}
	return 0;
}

struct mem_engine *mem_engine_create(struct reactor *r)
{
	struct mem_engine *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->r = r;
	list_init(&e->ready);
	list_init(&e->ripe);
	mem_flow_init(&e->flow);
	e->turn = 1; /* nobody's yet */
	e->inline_max = MEM_INLINE_BYTES;
	e->turn_pieces = MEM_TURN_PIECES;
	if (mem_guard_init() || mem_engine_open(e))
		goto close;
	if (pool_init(&e->jobs, sizeof(struct mem_job), MEM_NR_JOBS, alignof(struct mem_job)))
		goto close;
	if (e->has_async && pool_init(&e->copies, sizeof(struct mem_copy), MEM_NR_COPIES, 64))
		goto fini_jobs;
	e->poller = (struct poller){
		.name = "mem",
		.poll = mem_engine_poll,
		.max_sleep_ns = UINT64_MAX,
	};
	reactor_poller_add(r, &e->poller);
	return e;

fini_jobs:
	pool_fini(&e->jobs);
close:
	mem_engine_close(e);
	free(e);
	return NULL;
}

void mem_engine_destroy(struct mem_engine *e)
{
	must(e->nr_active == 0 && e->nr_copies == 0 && list_is_empty(&e->ready));
	reactor_poller_del(e->r, &e->poller);
	mem_engine_close(e);
	if (e->has_async)
		pool_fini(&e->copies);
	pool_fini(&e->jobs);
	free(e);
}
