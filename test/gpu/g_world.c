/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's side of the world, and what both sides share. Whoever calls g_world_turn() is the
 * daemon; making and unmaking is done while nobody else runs.
 */
#include "g_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/container.h"
#include "base/must.h"
#include "fake_dev.h"
#include "kv/kv.h"
#include "store/store_make.h"

#define VALUES_BYTES (1u << 20) /* what all keys have together, about */
#define ROOM_MAX (20u << 10)

void g_wrong(const struct g_group *g, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "WRONG: seed %llu, queue %u (%u slots, %u lanes): ",
		(unsigned long long)g->w->o.seed, g->qid, g->q.size, g->nr_lanes);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	_exit(G_WRONG);
}

/* ---- the daemon ---- */

static int mem_build(void *arg, struct store_set *set, unsigned shard)
{
	struct store *s = store_mem_create();

	must(s);
	store_set_push(set, shard, s);
	return 0;
}

static void ns_create(struct g_world *w)
{
	struct kv_ns_opts o = {.name = "g", .value_max = 1 << 20};
	uint64_t shard = 4 << 20;
	struct tgt_ns *ns;

	/* Nothing is ever evicted: any shard takes all keys, twice, for what is being replaced. */
	for (unsigned i = 0; i < w->nr_groups; i++)
		shard += 2ull * w->group[i].nr_keys * w->group[i].area_bytes;
	o.dram_bytes = w->n->node.nr * shard;
	o.max_keys = 16384 * w->n->node.nr;
	o.segment_bytes = 1 << 20;
	w->has_arena = rng_chance(&w->rng, 1, 2);
	if (!w->has_arena)
		o.build = mem_build;
	must(!kv_ns_create(w->n->ss, &o, &ns));
	must(!tgt_subsys_ns_add(w->n->ss, ns, 1));
}

static void note(void *arg, uint16_t st)
{
	*(uint16_t *)arg = st;
}

static bool is_noted(void *arg)
{
	return *(uint16_t *)arg != 0xffff;
}

static void ns_destroy(struct g_world *w)
{
	uint16_t st = 0xffff;

	tgt_subsys_ns_del(w->n->ss, 1, note, &st);
	must(fake_node_run(w->n, is_noted, &st, 1000000) && st == NVME_ST_OK);
}

void g_world_turn(struct g_world *w)
{
	for (unsigned i = 0; i < w->nr_groups; i++) {
		struct g_group *g = &w->group[i];
		uint32_t sq = __atomic_load_n(&w->bells[2 * g->qid], __ATOMIC_ACQUIRE);
		uint32_t cq = __atomic_load_n(&w->bells[2 * g->qid + 1], __ATOMIC_ACQUIRE);

		g_check(g, sq < g->q.size && cq < g->q.size, "doorbells %u, %u", sq, cq);
		fake_dev_ring(w->t->dev, g->qid, sq);
		fake_dev_cq_head(w->t->dev, g->qid, cq);
	}
	fake_node_step(w->n);
}

/* ---- groups ---- */

static uint32_t any_size(struct g_world *w)
{
	if (w->o.is_small)
		return 2 + (uint32_t)rng_below(&w->rng, 63);
	switch (rng_below(&w->rng, 24)) {
	case 0:
		return 1024;
	case 1:
		return 4096;
	case 2:
	case 3:
		return 65 + (uint32_t)rng_below(&w->rng, 300);
	default:
		return 64 + (uint32_t)rng_below(&w->rng, 2) * 32;
	}
}

static void group_size(struct g_world *w, struct g_group *g)
{
	uint32_t bytes;

	g->w = w;
	g->qid = (uint16_t)(1 + (g - w->group));
	rng_init(&g->rng, rng_u64(&w->rng));
	g->q.size = any_size(w);
	g->nr_lanes = 1;
	if (rng_chance(&w->rng, 3, 4))
		g->nr_lanes += (uint32_t)rng_below(&w->rng, w->o.lanes_max);
	g->nr_waves = g->q.size > 512 ? 2 : 2 + (uint32_t)rng_below(&w->rng, w->o.waves_max);
	g->nr_keys = g->q.size + 8;
	bytes = min_t(uint32_t, ROOM_MAX, VALUES_BYTES / G_GROUPS_MAX / g->nr_keys);
	g->area_bytes = (bytes / FAKE_PAGE + 2 + G_LIST_PAGES) * FAKE_PAGE;
}

static void group_keys(struct g_group *g)
{
	g->res = calloc(g->q.size, sizeof(*g->res));
	g->cmd = calloc(g->q.size, sizeof(*g->cmd));
	g->keys = calloc(g->nr_keys, sizeof(*g->keys));
	g->order = calloc(g->nr_keys, sizeof(*g->order));
	must(g->res && g->cmd && g->keys && g->order);
	for (uint32_t i = 0; i < g->nr_keys; i++) {
		struct peal_key *k = &g->keys[i].k;

		g->order[i] = i;
		k->len = (uint8_t)(4 + rng_below(&g->rng, 13));
		k->b[0] = (uint8_t)g->qid;
		k->b[1] = (uint8_t)i;
		k->b[2] = (uint8_t)(i >> 8);
		for (unsigned j = 3; j < k->len; j++)
			k->b[j] = (uint8_t)rng_below(&g->rng, 256);
	}
}

static void group_queue(struct g_group *g)
{
	struct fake_tr *t = g->w->t;

	g->area = fake_tr_alloc(t, (uint64_t)g->area_bytes * (g->q.size - 1));
	must(fake_tr_queue_create(t, g->qid, g->q.size));
	g->q.sq = (struct peal_sqe *)fake_tr_ptr(t, t->q[g->qid].sq);
	g->q.cq = (volatile struct peal_cqe *)fake_tr_ptr(t, t->q[g->qid].cq);
	g->q.sq_bell = &g->w->bells[2 * g->qid];
	g->q.cq_bell = &g->w->bells[2 * g->qid + 1];
	peal_device_start(&g->q);
}

void g_world_init(struct g_world *w, const struct g_opts *o)
{
	uint64_t pages = 256;

	memset(w, 0, sizeof(*w));
	w->o = *o;
	rng_init(&w->rng, o->seed);
	w->n = fake_node_create(&(struct fake_node_opts){
		.seed = rng_u64(&w->rng),
		.nr = 1 + (unsigned)rng_below(&w->rng, 2),
		.nr_reqs = 4 + (uint32_t)rng_below(&w->rng, 60),
	});
	w->csi = kv_csi_create(w->n->ss, &(struct kv_ns_opts){0});
	must(w->csi);
	tgt_subsys_csi_add(w->n->ss, w->csi);
	w->nr_groups = 1 + (unsigned)rng_below(&w->rng, 3);
	for (unsigned i = 0; i < w->nr_groups; i++) {
		group_size(w, &w->group[i]);
		pages += (w->group[i].q.size * (w->group[i].area_bytes + 80ull)) / FAKE_PAGE + 4;
	}
	ns_create(w);
	w->t = fake_tr_create(w->n, &(struct fake_tr_opts){.mem_pages = (uint32_t)pages});
	must(fake_tr_enable(w->t));
	for (unsigned i = 0; i < w->nr_groups; i++) {
		group_keys(&w->group[i]);
		group_queue(&w->group[i]);
	}
}

/* What every request, buffer and pin came back to is asked by those who destroy the parts. */
void g_world_fini(struct g_world *w)
{
	fake_tr_destroy(w->t);
	ns_destroy(w);
	for (unsigned i = 0; i < w->nr_groups; i++) {
		struct g_group *g = &w->group[i];

		free(g->res);
		free(g->cmd);
		free(g->keys);
		free(g->order);
	}
	fake_node_destroy(w->n);
	kv_csi_destroy(w->csi);
}
