/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A world with one shard of ssd over a fake disk: begun, ended and begun again.
 */
#pragma once

#include "fake_disk.h"
#include "world.h"

#include "store/ssd/ssd_int.h"
#include "store/store_make.h"

struct ssd_world {
	struct world w;
	struct fake_disks disks;
	struct store_ssd_opts o;
	struct ssd *s;
	uint64_t delay_max_ns; /* of the disk; 0: 20 us */
	uint64_t dram_bytes;   /* > 0: a dram tier above */
	struct store *top;
	bool has_below; /* a tier that keeps all, below it */
	bool is_early;	/* a new life is used while it recovers */
	bool is_immutable;
};

/* Until all that was there is known. */
static inline void ssd_world_recover(struct ssd_world *sw)
{
	for (uint64_t n = 0; ssd_recover_is_reading(sw->s); n++) {
		must(n < 10000000);
		world_step(&sw->w);
	}
}

static inline struct fake_disk *ssd_world_disk(struct ssd_world *sw)
{
	return &sw->disks.disk[0];
}

/* What store_ssd_create() says; 0: it is in a world. */
static inline int ssd_world_begin(struct ssd_world *sw)
{
	struct env_sim_opts sim = {
		.delay_max_ns = sw->delay_max_ns ? sw->delay_max_ns : 20000,
		.io = fake_disk_io,
		.submitted = fake_disk_submitted,
		.arg = &sw->disks,
	};
	struct store *s;
	int err;

	sw->o.dev = &ssd_world_disk(sw)->dev;
	err = store_ssd_create(&sw->o, &s);
	if (err)
		return err;
	world_init_sim(&sw->w, 1, 1, &sim);
	sw->w.is_immutable = sw->is_immutable;
	world_set(&sw->w, 1, sw->o.value_max);
	if (sw->dram_bytes) {
		assert_int_equal(store_dram_create(
					 &(struct store_dram_opts){
						 .bytes = sw->dram_bytes,
						 .policy = "lru",
					 },
					 &sw->top),
				 0);
		store_set_push(sw->w.set, 0, sw->top);
	}
	store_set_push(sw->w.set, 0, s);
	if (sw->has_below)
		store_set_push(sw->w.set, 0, store_mem_create());
	sw->s = ssd_of(s);
	sw->s->straight = SSD_STRAIGHT_ALWAYS; /* whatever pages this machine has */
	if (!sw->s->recover)
		return 0;
	store_set_open(sw->w.set);
	if (!sw->is_early)
		ssd_world_recover(sw);
	return 0;
}

static inline void ssd_world_end(struct ssd_world *sw)
{
	world_fini(&sw->w);
}

static inline void ssd_world_again(struct ssd_world *sw)
{
	ssd_world_end(sw);
	assert_int_equal(ssd_world_begin(sw), 0);
}

static inline struct ssd_world *ssd_world_create(uint64_t bytes, uint64_t seg_bytes)
{
	struct ssd_world *sw = calloc(1, sizeof(*sw));

	must(sw);
	fake_disk_init(&sw->disks, 0, bytes, 1);
	sw->o = (struct store_ssd_opts){
		.name = "test",
		.segment_bytes = seg_bytes,
		.max_keys = 16384,
		.value_max = 4 << 20,
		.nr_shards = 1,
		.seed = 1,
	};
	assert_int_equal(ssd_world_begin(sw), 0);
	return sw;
}

static inline void ssd_world_destroy(struct ssd_world *sw)
{
	ssd_world_end(sw);
	fake_disk_fini(ssd_world_disk(sw));
	free(sw);
}

static inline struct store_stats ssd_world_stats(struct ssd_world *sw)
{
	struct store_stats st = {0};

	assert_int_equal(store_set_stats(sw->w.set, sw->s->st.tier, &st), 0);
	return st;
}

/* A crash of the machine, and a new life. */
static inline void ssd_world_crash(struct ssd_world *sw, enum fake_crash how)
{
	fake_disk_crash(ssd_world_disk(sw), how);
	ssd_world_end(sw);
	fake_disk_revive(ssd_world_disk(sw));
	assert_int_equal(ssd_world_begin(sw), 0);
}

/* A put, in two steps: a buffer with the value in it; then it is under way. */
static inline void ssd_world_buf(struct ssd_world *sw, struct world_io *wi, uint32_t no,
				 uint64_t gen, uint64_t len)
{
	*wi = (struct world_io){.io = {.op = STORE_BUF, .key = world_key(no), .len = len}};
	assert_int_equal(world_run(&sw->w, 0, wi), 0);
	world_fill(&wi->io.view, &wi->io.key, gen);
	wi->io.op = STORE_PUT;
}

static inline void ssd_world_put(struct ssd_world *sw, struct world_io *wi, uint32_t no,
				 uint64_t gen, uint64_t len)
{
	ssd_world_buf(sw, wi, no, gen, len);
	world_start(&sw->w, 0, wi);
}
