/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small world for tests of stores: one to four reactors under a simulated clock, stepped by one
 * thread in an order that a seed decides, a set over them, verbs that wait for their end, and
 * values whose every byte and length follow from (key, generation), so that a stale, foreign or
 * torn value can't pass for the right one.
 */
#pragma once

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/must.h"
#include "base/rng.h"
#include "core/env_sim.h"
#include "core/reactor.h"
#include "peal/seal.h"
#include "store/store.h"

#define WORLD_REACTORS_MAX 4
#define WORLD_STEPS_MAX 1000000

struct world {
	uint64_t clock_ns;
	struct reactor *r[WORLD_REACTORS_MAX];
	unsigned nr_reactors;
	struct store_set *set;
	struct rng rng;
	bool is_immutable; /* what world_set() makes */
	unsigned nr_alerts;
};

static inline void world_alert(void *arg, const struct store_key *key, const char *what)
{
	struct world *w = arg;

	w->nr_alerts++;
}

/* sim: what the envs are to do with disk requests. */
static inline void world_init_sim(struct world *w, unsigned nr_reactors, uint64_t seed,
				  const struct env_sim_opts *sim)
{
	struct env_sim_opts eo = *sim;

	memset(w, 0, sizeof(*w));
	eo.seed = seed;
	eo.clock_ns = &w->clock_ns;
	rng_init(&w->rng, seed);
	w->nr_reactors = nr_reactors;
	for (unsigned i = 0; i < nr_reactors; i++) {
		struct env *env = env_sim_create(&eo);

		must(env);
		w->r[i] = reactor_create(&(struct reactor_opts){.id = i,
								.nr_peers = nr_reactors,
								.env = env,
								.spin_ns = UINT64_MAX,
								.cpu = -1});
		must(w->r[i]);
	}
}

static inline void world_init(struct world *w, unsigned nr_reactors, uint64_t seed)
{
	world_init_sim(w, nr_reactors, seed, &(struct env_sim_opts){0});
}

/* Shards go round the reactors. */
static inline void world_set(struct world *w, unsigned nr_shards, uint32_t value_max)
{
	struct reactor *owner[REACTORS_MAX];
	struct store_set_opts o = {
		.name = "test",
		.reactors = owner,
		.nr_shards = nr_shards,
		.peers = w->r,
		.nr_peers = w->nr_reactors,
		.value_max = value_max,
		.is_immutable = w->is_immutable,
		.alert = world_alert,
		.alert_arg = w,
	};

	for (unsigned i = 0; i < nr_shards; i++)
		owner[i] = w->r[i % w->nr_reactors];
	must(store_set_create(&o, &w->set) == 0);
}

static inline void world_step(struct world *w)
{
	w->clock_ns += rng_below(&w->rng, 2000);
	reactor_step(w->r[w->nr_reactors == 1 ? 0 : rng_below(&w->rng, w->nr_reactors)]);
}

static inline void world_until(struct world *w, const bool *is_over)
{
	for (unsigned i = 0; !*is_over; i++) {
		must(i < WORLD_STEPS_MAX); /* else something never ends */
		world_step(w);
	}
}

static inline void world_settle(struct world *w)
{
	for (unsigned i = 0; i < 64 * w->nr_reactors; i++)
		world_step(w);
}

struct world_wait {
	bool is_over;
	int res;
};

static inline void world_done(void *arg, int res)
{
	struct world_wait *wait = arg;

	must(!wait->is_over);
	wait->is_over = true;
	wait->res = res;
}

static inline void world_unset(struct world *w)
{
	struct world_wait wait = {0};

	if (!w->set)
		return;
	store_set_destroy(w->set, w->r[0], world_done, &wait);
	world_until(w, &wait.is_over);
	must(wait.res == 0);
	w->set = NULL;
}

static inline void world_fini(struct world *w)
{
	world_unset(w);
	for (unsigned i = 0; i < w->nr_reactors; i++)
		reactor_destroy(w->r[i]);
}

/* ---- verbs that wait ------------------------------------------------------------------------- */

struct world_io {
	struct store_io io;
	bool is_over;
	int res;
};

static inline void world_io_end(struct store_io *io, int res)
{
	struct world_io *wi = container_of(io, struct world_io, io);

	must(!wi->is_over);
	wi->is_over = true;
	wi->res = res;
}

static inline void world_start(struct world *w, unsigned home, struct world_io *wi)
{
	wi->io.end = world_io_end;
	wi->is_over = false;
	store_submit(w->set, w->r[home], &wi->io);
}

static inline int world_run(struct world *w, unsigned home, struct world_io *wi)
{
	world_start(w, home, wi);
	world_until(w, &wi->is_over);
	return wi->res;
}

static inline struct store_key world_key_bytes(const void *b, uint8_t len)
{
	struct store_key k = {.len = len};

	memcpy(k.b, b, len);
	k.hash = hash_key(k.b, len);
	return k;
}

static inline struct store_key world_key(uint32_t no)
{
	uint8_t b[16] = {0};
	uint8_t len = (uint8_t)(4 + no % 13);

	memcpy(b, &no, 4);
	return world_key_bytes(b, len);
}

/* ---- values ---------------------------------------------------------------------------------- */

static inline uint64_t world_word(const struct store_key *k, uint64_t gen, uint64_t i)
{
	uint64_t x = (k->hash ^ gen * 0x9E3779B97F4A7C15ull) + i * 0xD1342543DE82EF95ull;

	return x ^ x >> 29;
}

static inline void world_bytes(const struct store_key *k, uint64_t gen, uint64_t off, void *buf,
			       uint64_t len)
{
	uint64_t i = off / 8, skip = off % 8, n, word;
	uint8_t *p = buf;

	for (; len; i++, skip = 0, p += n, len -= n) {
		word = world_word(k, gen, i);
		if (skip == 0 && len >= 8) {
			n = 8;
			memcpy(p, &word, 8);
			continue;
		}
		n = min_t(uint64_t, 8 - skip, len);
		memcpy(p, (uint8_t *)&word + skip, n);
	}
}

static inline void *world_run_ptr(const struct mem_run *run)
{
	return run->reg->base + run->off;
}

/* Runs of at least one byte that cover [off, off + len) of a view. */
static inline uint8_t *world_view_copy(const struct store_view *v, uint64_t off, uint64_t len)
{
	uint8_t *buf = malloc(len + 1);
	struct mem_run run;
	uint64_t n;

	must(buf);
	for (uint64_t pos = 0; pos < len; pos += n) {
		must(store_runs(v, off + pos, &run, 1) == 1 && run.len);
		n = min_t(uint64_t, run.len, len - pos);
		memcpy(buf + pos, world_run_ptr(&run), n);
	}
	return buf;
}

static inline void world_fill(const struct store_view *v, const struct store_key *k, uint64_t gen)
{
	uint64_t *seals = store_seals(v), pos = 0;
	struct mem_run run;
	uint8_t *all;

	while (pos < v->len && store_runs(v, pos, &run, 1)) {
		run.len = min_t(uint64_t, run.len, v->len - pos);
		world_bytes(k, gen, pos, world_run_ptr(&run), run.len);
		pos += run.len;
	}
	must(pos == v->len);
	all = world_view_copy(v, 0, v->len);
	for (uint64_t c = 0; c < peal_seal_count(v->len); c++)
		seals[c] = hash_xxh3(all + c * PEAL_CHUNK_BYTES, peal_seal_chunk_len(v->len, c),
				     peal_seal_seed_at(k->hash, c));
	free(all);
}

/* Do the seals of all whole chunks of the view fit? */
static inline bool world_seals_fit(const struct store_view *v, const struct store_key *k)
{
	uint8_t *all = world_view_copy(v, v->off, v->len);
	uint64_t first = v->off / PEAL_CHUNK_BYTES, *seals = store_seals(v);
	bool is_good = true;
	uint64_t n;

	for (uint64_t pos = 0; pos < v->len; pos += n) {
		uint64_t c = first + pos / PEAL_CHUNK_BYTES;

		n = peal_seal_chunk_len(v->value_len, c);
		must(n && pos + n <= v->len);
		is_good &= seals[c - first] ==
			   hash_xxh3(all + pos, n, peal_seal_seed_at(k->hash, c));
	}
	free(all);
	return is_good;
}

static inline bool world_is_gen(const struct store_view *v, const struct store_key *k, uint64_t gen)
{
	uint8_t *is = world_view_copy(v, v->off, v->len), *should = malloc(v->len + 1);
	bool is_same;

	must(should);
	world_bytes(k, gen, v->off, should, v->len);
	is_same = memcmp(is, should, v->len) == 0;
	free(is);
	free(should);
	return is_same;
}

/* ---- whole verbs ----------------------------------------------------------------------------- */

static inline int world_put_from(struct world *w, unsigned home, const struct store_key *k,
				 uint64_t gen, uint64_t len)
{
	struct world_io wi = {.io = {.op = STORE_BUF, .key = *k, .len = len}};
	int res = world_run(w, home, &wi);

	if (res < 0)
		return res;
	world_fill(&wi.io.view, k, gen);
	wi.io.op = STORE_PUT;
	return world_run(w, home, &wi);
}

static inline int world_put(struct world *w, uint32_t no, uint64_t gen, uint64_t len)
{
	struct store_key k = world_key(no);

	return world_put_from(w, 0, &k, gen, len);
}

/* A hit must be whole, sealed and of generation gen. */
static inline int world_get(struct world *w, uint32_t no, uint64_t gen, uint64_t len)
{
	struct world_io wi = {.io = {.op = STORE_GET, .key = world_key(no), .len = UINT32_MAX}};
	int res = world_run(w, 0, &wi);

	if (res < 0)
		return res;
	assert_int_equal(wi.io.view.value_len, len);
	assert_true(world_seals_fit(&wi.io.view, &wi.io.key));
	assert_true(world_is_gen(&wi.io.view, &wi.io.key, gen));
	wi.is_over = false;
	store_release(&wi.io.view, wi.io.view.st->owner, NULL);
	return 0;
}

static inline int world_op(struct world *w, enum store_op op, uint32_t no)
{
	struct world_io wi = {.io = {.op = (uint8_t)op, .key = world_key(no)}};

	return world_run(w, 0, &wi);
}
