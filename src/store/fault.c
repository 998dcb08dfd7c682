/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store that misbehaves on demand, between two others: what a bad disk, a slow cluster and bad
 * luck do to the tier above, reproducible from a seed. Each verb that passes may
 *
 *  - fail with -EIO, before the store below has seen it, or after it has done it (then nobody
 *    knows);
 *  - be held, before or after, for some turns, so that verbs overtake each other;
 *  - (GET) come back with one bit wrong, the seals being right;
 *  - (GET) come back late: its answer waits until a mutation of the key has passed, or some turns
 *    have.
 *
 * Whatever it does each verb ends once, and a value that it gives back unharmed is the one from
 * below. Runs on the shard's owner; held ones go on in step().
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "base/rng.h"
#include "store/heap_int.h"
#include "store/store_int.h"
#include "store/store_make.h"

#define FAULT_TURNS_MAX 8
#define FAULT_STALE_TURNS 48
#define FAULT_STEP_MAX 64

enum fault_hold {
	FAULT_BEFORE, /* goes down next */
	FAULT_AFTER,  /* goes up next */
	FAULT_STALE,  /* goes up when a mutation of the key has passed */
};

struct fault_frame {
	struct list node;
	struct store_io *io;
	int res;
	uint16_t turns; /* still to wait */
	uint8_t hold;	/* enum fault_hold */
	bool will_fail; /* once the store below has done it */
};
static_assert(sizeof(struct fault_frame) <= STORE_FRAME_WORDS * sizeof(uint64_t), "frame");

struct fault {
	struct store st;
	struct store_fault_opts opts;
	struct rng rng;
	struct list held;
	unsigned nr_held;
	struct counter failed, bad_seals;
};

static bool fault_roll(struct fault *f, uint32_t chance_1024)
{
	return chance_1024 && rng_chance(&f->rng, chance_1024, 1024);
}

static void fault_hold_io(struct fault *f, struct store_io *io, enum fault_hold hold, int res)
{
	struct fault_frame *fr = store_scratch(io);

	fr->io = io;
	fr->hold = (uint8_t)hold;
	fr->res = res;
	fr->turns = (uint16_t)rng_below(&f->rng, FAULT_TURNS_MAX);
	if (hold == FAULT_STALE)
		fr->turns = FAULT_STALE_TURNS;
	list_add_tail(&f->held, &fr->node);
	f->nr_held++;
}

/* A mutation of key has passed: the answers that waited for it are stale enough. */
static void fault_passed(struct fault *f, const struct store_key *key)
{
	struct fault_frame *fr;

	list_for_each_entry(fr, &f->held, node)
		if (fr->hold == FAULT_STALE && store_key_equal(&fr->io->key, key))
			fr->turns = 0;
}

static void fault_copy_out(const struct store_view *v, struct heap_value *to)
{
	uint64_t nr_seals = div_round_up(v->len, MEM_CHUNK_BYTES);
	struct mem_run run;

	for (uint64_t off = 0; off < v->len; off += run.len) {
		must(store_runs(v, v->off + off, &run, 1) == 1);
		run.len = min_t(uint64_t, run.len, v->len - off);
		memcpy(to->reg.base + off, mem_own_ptr(&run), run.len);
	}
	memcpy(to->seals, store_seals(v), nr_seals * sizeof(uint64_t));
	to->meta = *store_meta(v);
	to->ver = v->ver;
}

/* The view of the io becomes one of a copy, with one bit wrong. */
static void fault_flip(struct fault *f, struct store_io *io)
{
	struct store_view *v = &io->view, bad = *v;
	struct heap_value *copy;

	if (v->len == 0 || !(copy = heap_value_create(v->len)))
		return;
	fault_copy_out(v, copy);
	copy->key = io->key;
	copy->reg.base[rng_below(&f->rng, v->len)] ^= (uint8_t)(1u << rng_below(&f->rng, 8));
	v->st->ops->release(v->st, v);
	*v = bad;
	v->st = &f->st;
	v->pin = copy;
}

static void fault_up(struct store_io *io, int res)
{
	struct fault *f = container_of(io->at, struct fault, st);
	struct fault_frame *fr = store_scratch(io);

	if (STORE_MUTATIONS >> io->op & 1)
		fault_passed(f, &io->key);
	if (fr->will_fail) {
		counter_add(&f->failed, 1);
		store_done(io, -EIO);
		return;
	}
	if (io->op == STORE_GET && res == 0) {
		if (fault_roll(f, f->opts.flip_1024))
			fault_flip(f, io);
		if (fault_roll(f, f->opts.stale_1024)) {
			fault_hold_io(f, io, FAULT_STALE, res);
			return;
		}
	}
	if (fault_roll(f, f->opts.delay_1024)) {
		fault_hold_io(f, io, FAULT_AFTER, res);
		return;
	}
	store_done(io, res);
}

static void fault_verb(struct store *s, struct store_io *io)
{
	struct fault *f = container_of(s, struct fault, st);
	struct fault_frame *fr = store_scratch(io);

	fr->will_fail = false;
	if (fault_roll(f, f->opts.fail_1024)) {
		fr->will_fail = STORE_MUTATIONS >> io->op & 1 && rng_chance(&f->rng, 1, 2);
		if (!fr->will_fail) {
			counter_add(&f->failed, 1);
			store_done(io, -EIO);
			return;
		}
	}
	if (fault_roll(f, f->opts.delay_1024)) {
		fault_hold_io(f, io, FAULT_BEFORE, 0);
		return;
	}
	store_down(io, fault_up);
}

static void fault_resume(struct fault *f, struct fault_frame *fr)
{
	struct store_io *io = fr->io;

	list_del(&fr->node);
	f->nr_held--;
	switch ((enum fault_hold)fr->hold) {
	case FAULT_BEFORE:
		store_down(io, fault_up);
		return;
	case FAULT_AFTER:
	case FAULT_STALE:
		store_done(io, fr->res);
		return;
	}
	must_not_reach();
}

static int fault_step(struct store *s)
{
	struct fault *f = container_of(s, struct fault, st);
	unsigned nr = min_t(unsigned, f->nr_held, FAULT_STEP_MAX);
	struct fault_frame *fr;

	for (unsigned i = 0; i < nr && !list_is_empty(&f->held); i++) {
		fr = list_first_entry(&f->held, struct fault_frame, node);
		if (fr->turns == 0 && rng_chance(&f->rng, 1, 2)) {
			fault_resume(f, fr);
			continue;
		}
		if (fr->turns)
			fr->turns--;
		list_del(&fr->node);
		list_add_tail(&f->held, &fr->node);
	}
	return nr > 0;
}

static unsigned fault_runs(const struct store_view *v, uint64_t off, struct mem_run *runs,
			   unsigned nr)
{
	return heap_runs(v, off - v->off, runs, nr);
}

static void fault_release(struct store *s, struct store_view *v)
{
	struct fault *f = container_of(s, struct fault, st);
	struct heap_value *copy = v->pin;

	if (v->is_bad) {
		counter_add(&f->bad_seals, 1);
		store_alert(s, &copy->key, "a bit was flipped on purpose, and seen");
	}
	heap_value_put(copy);
}

static void fault_stats(const struct store *s, struct store_stats *st)
{
	const struct fault *f = container_of(s, struct fault, st);

	st->full = counter_get(&f->failed);
	st->bad_seals = counter_get(&f->bad_seals);
}

static void fault_destroy(struct store *s)
{
	struct fault *f = container_of(s, struct fault, st);

	must(list_is_empty(&f->held));
	free(f);
}

static const struct store_ops fault_ops = {
	.name = "fault",
	.verb =
		{
			[STORE_BUF] = fault_verb,
			[STORE_PUT] = fault_verb,
			[STORE_GET] = fault_verb,
			[STORE_FILL] = fault_verb,
			[STORE_INVAL] = fault_verb,
			[STORE_DEL] = fault_verb,
			[STORE_EXIST] = fault_verb,
			[STORE_MATCH] = fault_verb,
			[STORE_LIST] = fault_verb,
			[STORE_FLUSH] = fault_verb,
		},
	.runs = fault_runs,
	.seals = heap_seals,
	.meta = heap_meta,
	.release = fault_release,
	.stats = fault_stats,
	.step = fault_step,
	.destroy = fault_destroy,
};

/* tidy: named by store.h, where every maker of a store is */
struct store *store_fault_create(const struct store_fault_opts *o)
{
	struct fault *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->st.ops = &fault_ops;
	f->opts = *o;
	rng_init(&f->rng, o->seed);
	list_init(&f->held);
	return &f->st;
}
