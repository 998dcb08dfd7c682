/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory over several devices, begun, ended, crashed and begun again, with an oracle: of each key
 * which generations may still be read. What was put over, deleted or passed by may not.
 */
#pragma once

#include "fake_disk.h"
#include "world.h"

#include "store/ssd/ssd_span.h"
#include "store/store_make.h"

#define DISKS 3u
#define DISK_BYTES (48ull << 20)
#define NR 400u
#define DRAM_BYTES (1ull << 20)
#define GENS 96u

static const char *const folders[DISKS] = {"/a", "/b", "/c"};

struct rig {
	struct world w;
	struct fake_disks disks;
	unsigned nr; /* devices of the configuration */
	bool is_immutable, is_durable;
	uint32_t errors_max;
	uint64_t lives;
	struct store *tier;
	/*
	 * Generations grow. Of each key those that were put and may be there: nothing below the
	 * last one that was acknowledged or seen, or that was there when it was deleted.
	 */
	uint32_t gens[NR][GENS];
	unsigned nr_gens[NR];
	uint32_t least[NR];
	uint32_t next_gen;
};

static inline uint64_t len_of(uint32_t no, uint32_t gen)
{
	return no % 11 == 0 ? (70u << 10) + no * 1000 + gen % 7 : 500 + no % 97 * 400 + gen % 7;
}

static inline struct ssd_span *span(struct rig *g)
{
	assert_true(g->nr > 1);
	return ssd_span_of(g->tier);
}

static inline int begin(struct rig *g)
{
	struct env_sim_opts sim = {.delay_max_ns = 20000,
				   .io = fake_disk_io,
				   .submitted = fake_disk_submitted,
				   .arg = &g->disks};
	struct store_ssd_care care = {.errors_max = g->errors_max ? g->errors_max : UINT32_MAX};
	struct store_ssd_opts o[DISKS];
	struct store *top;
	int err;

	for (unsigned i = 0; i < g->nr; i++)
		o[i] = (struct store_ssd_opts){
			.dev = &g->disks.disk[i].dev,
			.folder = folders[i],
			.name = "test",
			.segment_bytes = 2 << 20,
			.max_keys = 4096,
			.value_max = 1 << 20,
			.nr_shards = 1,
			.is_durable = g->is_durable,
			.care = &care,
			.seed = ++g->lives * 16 + i,
		};
	err = store_ssd_open(o, g->nr, g->is_immutable, &g->tier);
	if (err)
		return err;
	world_init_sim(&g->w, 1, g->lives, &sim);
	g->w.is_immutable = g->is_immutable;
	world_set(&g->w, 1, 1 << 20);
	assert_int_equal(
		store_dram_create(&(struct store_dram_opts){.bytes = DRAM_BYTES, .policy = "lru"},
				  &top),
		0);
	store_set_push(g->w.set, 0, top);
	store_set_push(g->w.set, 0, g->tier);
	store_set_open(g->w.set);
	return 0;
}

static inline bool is_recovering(struct rig *g)
{
	struct store_health h;

	assert_int_equal(store_health_get(g->w.set, 1, &h), 0);
	return h.nr_recovering;
}

static inline void begin_well(struct rig *g)
{
	assert_int_equal(begin(g), 0);
	world_settle(&g->w);
	for (uint64_t n = 0; is_recovering(g); n++) {
		must(n < 10000000);
		world_step(&g->w);
	}
}

static inline struct rig *rig_new(unsigned nr, bool is_immutable)
{
	struct rig *g = calloc(1, sizeof(*g));

	must(g);
	g->nr = nr;
	g->is_immutable = is_immutable;
	for (unsigned i = 0; i < DISKS; i++)
		fake_disk_init(&g->disks, i, DISK_BYTES, 1 + i);
	begin_well(g);
	return g;
}

static inline void end(struct rig *g)
{
	assert_int_equal(world_op(&g->w, STORE_FLUSH, 0), 0);
	world_fini(&g->w);
}

static inline void rig_old(struct rig *g)
{
	world_fini(&g->w);
	for (unsigned i = 0; i < DISKS; i++)
		fake_disk_fini(&g->disks.disk[i]);
	free(g);
}

/* Of one that never changes there is one generation. */
static inline int put(struct rig *g, uint32_t no)
{
	uint32_t gen = g->is_immutable ? 1 : ++g->next_gen;
	int res = world_put(&g->w, no, gen, len_of(no, gen));

	must(g->nr_gens[no] < GENS);
	if (!g->is_immutable || !g->nr_gens[no])
		g->gens[no][g->nr_gens[no]++] = gen;
	if (!res)
		g->least[no] = gen;
	return res;
}

static inline int del(struct rig *g, uint32_t no)
{
	int res = world_op(&g->w, STORE_DEL, no);

	if (!res || res == -ENOENT)
		g->least[no] = ++g->next_gen;
	return res;
}

static inline void put_all(struct rig *g)
{
	for (uint32_t i = 0; i < NR; i++)
		assert_int_equal(put(g, i), 0);
}

static inline uint32_t gen_of(struct rig *g, uint32_t no, const struct store_view *v)
{
	struct store_key k = world_key(no);

	for (unsigned i = g->nr_gens[no]; i > 0; i--)
		if (v->value_len == len_of(no, g->gens[no][i - 1]) &&
		    world_is_gen(v, &k, g->gens[no][i - 1]))
			return g->gens[no][i - 1];
	fail_msg("a value that nobody has put");
	return 0;
}

/* Is it there? Then it is nothing that has been put over, deleted, or passed by. */
static inline bool has(struct rig *g, uint32_t no)
{
	struct world_io wi = {.io = {.op = STORE_GET, .key = world_key(no), .len = UINT32_MAX}};
	int res = world_run(&g->w, 0, &wi);
	uint32_t gen;

	if (res) {
		assert_int_equal(res, -ENOENT);
		return false;
	}
	assert_true(world_seals_fit(&wi.io.view, &wi.io.key));
	gen = gen_of(g, no, &wi.io.view);
	assert_true(gen >= g->least[no]);
	g->least[no] = gen;
	store_release(&wi.io.view, wi.io.view.st->owner, NULL);
	return true;
}

static inline unsigned nr_there(struct rig *g)
{
	unsigned nr = 0;

	for (uint32_t i = 0; i < NR; i++)
		nr += has(g, i);
	return nr;
}

static inline struct store_part part(struct rig *g, unsigned i)
{
	struct store_part p;

	assert_int_equal(store_health_part(g->w.set, 1, i, &p), 0);
	assert_string_equal(p.folder, folders[i]);
	return p;
}

struct word {
	struct store_control c;
	bool is_over;
};

static inline void word_done(struct store_control *c)
{
	container_of(c, struct word, c)->is_over = true;
}

static inline int say_all(struct rig *g, const struct store_control *c)
{
	struct word w = {.c = *c};

	w.c.set = g->w.set;
	w.c.home = g->w.r[0];
	w.c.done = word_done;
	store_health_control(&w.c);
	world_until(&g->w, &w.is_over);
	assert_int_equal(w.c.res, 0);
	return w.c.err;
}

static inline int say(struct rig *g, enum store_control_verb verb, const char *folder, uint64_t arg)
{
	return say_all(g, &(struct store_control){.verb = verb, .folder = folder, .arg = arg});
}

static inline void until(struct rig *g, unsigned i, enum store_part_state state)
{
	for (uint64_t n = 0; part(g, i).state != state; n++) {
		must(n < 3000000);
		world_step(&g->w);
		g->w.clock_ns += 10000;
	}
}

/* All that is below memory lies on these devices. */
static inline void below(struct rig *g)
{
	assert_int_equal(world_op(&g->w, STORE_FLUSH, 0), 0);
}

static inline void again(struct rig *g)
{
	end(g);
	begin_well(g);
}

static inline void crash(struct rig *g, enum fake_crash how)
{
	for (unsigned i = 0; i < DISKS; i++)
		fake_disk_crash(&g->disks.disk[i], how);
	world_fini(&g->w);
	for (unsigned i = 0; i < DISKS; i++)
		fake_disk_revive(&g->disks.disk[i]);
	begin_well(g);
}
