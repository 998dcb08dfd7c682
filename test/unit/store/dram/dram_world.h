/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world of test/unit/store/world.h with a dram tier on top: alone, or over mem (with fault
 * between them when asked). After every step the bounds that must always hold are looked at.
 */
#pragma once

#include "world.h"

#include "store/dram/dram_int.h"
#include "store/store_make.h"

struct dworld {
	struct world w;
	struct store *st;
	struct dram *d;
};

static inline void dworld_init_opts(struct dworld *dw, const struct store_dram_opts *o,
				    uint64_t seed)
{
	world_init(&dw->w, 1, seed);
	world_set(&dw->w, 1, 128u << 20);
	assert_int_equal(store_dram_create(o, &dw->st), 0);
	dw->d = (struct dram *)dw->st;
	store_set_push(dw->w.set, 0, dw->st);
}

/* A bottom tier of `bytes`. */
static inline void dworld_init(struct dworld *dw, uint64_t bytes)
{
	dworld_init_opts(dw, &(struct store_dram_opts){.bytes = bytes}, 1);
}

/* Over mem. */
static inline void dworld_init_two(struct dworld *dw, uint64_t bytes,
				   const struct store_fault_opts *fault)
{
	dworld_init(dw, bytes);
	if (fault)
		store_set_push(dw->w.set, 0, store_fault_create(fault));
	store_set_push(dw->w.set, 0, store_mem_create());
}

static inline struct store_stats dworld_stats(const struct dworld *dw)
{
	struct store_stats st;

	assert_int_equal(store_set_stats(dw->w.set, 0, &st), 0);
	return st;
}

static inline void dworld_check(const struct dworld *dw)
{
	struct store_stats st = dworld_stats(dw);

	assert_true(st.used_bytes <= st.capacity_bytes);
	assert_true(st.capacity_bytes == dw->d->bytes);
	assert_true(dw->d->fixed_bytes + dw->d->arena.cost_bytes <= dw->d->bytes);
	assert_true(st.value_bytes <= st.used_bytes);
	assert_true(dw->d->arena.used_bytes + dw->d->arena.free_bytes == dw->d->arena.bytes);
}

/* A pinned view of key `no`; the caller releases it. */
static inline int dworld_pin(struct dworld *dw, uint32_t no, struct store_view *v)
{
	struct world_io wi = {.io = {.op = STORE_GET, .key = world_key(no), .len = UINT32_MAX}};
	int res = world_run(&dw->w, 0, &wi);

	if (!res)
		*v = wi.io.view;
	return res;
}

static inline void dworld_unpin(struct dworld *dw, struct store_view *v)
{
	store_release(v, dw->w.r[0], NULL);
}

/* An unpublished buffer of key `no`, filled. */
static inline int dworld_buf(struct dworld *dw, struct world_io *wi, uint32_t no, uint64_t gen,
			     uint64_t len)
{
	int res;

	*wi = (struct world_io){.io = {.op = STORE_BUF, .key = world_key(no), .len = len}};
	res = world_run(&dw->w, 0, wi);
	if (!res)
		world_fill(&wi->io.view, &wi->io.key, gen);
	return res;
}

/* One bit of the value at byte `off`, where it lies. */
static inline void dworld_flip(const struct store_view *v, uint64_t off)
{
	struct mem_run run;

	assert_int_equal(store_runs(v, off, &run, 1), 1);
	*(uint8_t *)world_run_ptr(&run) ^= 4;
}
