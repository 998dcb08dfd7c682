/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching a GPU: a queue pair of libpeal's (peal/pair.h), all of whose memory is registered with
 * the CUDA driver, and the kernels. Everything is made before any kernel runs, since registering
 * and allocating wait for those that do. What is made is undone in the reverse order.
 */
#include "peal/gpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu_errmsg.h"
#include "gpu/gpu_image.h"
#include "gpu/gpu_int.h"
#include "peal/peal.h"

#define LEASE_BYTES (256ull << 10)
#define TIMEOUT_MS 2000u
#define DEPTH_MIN 63u

/* ---- memory ---- */

static struct gpu_reg *reg_new(struct peal_gpu *g)
{
	struct gpu_reg *r = calloc(1, sizeof(*r));

	if (!r) {
		gpu_errmsg_set(-ENOMEM, "no memory to register memory");
		return NULL;
	}
	r->next = g->regs;
	return r;
}

/* Host memory of somebody's making: where the GPU sees it. */
static int map_host(struct peal_gpu *g, const void *ptr, size_t bytes, unsigned flags,
		    uint64_t *dev)
{
	struct gpu_reg *r = reg_new(g);
	void *p = (void *)(uintptr_t)ptr;
	int err;

	if (!r)
		return -ENOMEM;
	flags |= GPU_CUDA_REG_PORTABLE | GPU_CUDA_REG_DEVICEMAP;
	err = gpu_cuda_check(&g->cu, g->cu.host_register(p, bytes, flags), "registering memory");
	if (err) {
		free(r);
		return err;
	}
	r->p = p;
	g->regs = r;
	return gpu_cuda_check(&g->cu, g->cu.host_pointer(dev, p, 0), "mapping memory");
}

static void unmap_all(struct peal_gpu *g)
{
	while (g->regs) {
		struct gpu_reg *r = g->regs;

		g->regs = r->next;
		if (r->is_ours)
			g->cu.host_free(r->p);
		else
			g->cu.host_unregister(r->p);
		free(r);
	}
}

/* Segments have numbers of the whole daemon; those of ours are found by asking. */
static int map_segments(struct peal_gpu *g, uint64_t *table, uint32_t *nr)
{
	const void *p;
	size_t bytes;
	int err = 0;

	for (*nr = 0; *nr < GPU_SEGMENTS_MAX; (*nr)++) {
		err = peal_pair_segment(g->pair, *nr, &p, &bytes);
		if (err)
			return err == -ENOENT ? 0 : gpu_errmsg_set(err, "%s", peal_errmsg());
		err = map_host(g, p, bytes, GPU_CUDA_REG_READ_ONLY, &table[*nr]);
		if (err)
			return err;
	}
	return 0;
}

/* ---- what kernels get ---- */

/* One piece of the GPU's memory: the struct, results, the table of segments. */
static int make_side(struct peal_gpu *g, const struct peal_gpu_side *side, const uint64_t *table)
{
	size_t res_bytes = side->q.size * sizeof(struct peal_result);
	size_t table_bytes = side->nr_segments * sizeof(uint64_t);
	struct peal_gpu_side s = *side;
	uint64_t at;
	int err = gpu_cuda_check(&g->cu,
				 g->cu.mem_alloc(&g->side, 512 + res_bytes + table_bytes + 8),
				 "allocating GPU memory");

	if (err)
		return err;
	_Static_assert(sizeof(s) <= 512, "it has its place");
	at = g->side + 512;
	s.res = (struct peal_result *)(uintptr_t)at;
	s.segments = (const uint8_t *const *)(uintptr_t)(at + res_bytes);
	err = g->cu.mem_to_device(g->side, &s, sizeof(s));
	if (!err && table_bytes)
		err = g->cu.mem_to_device(at + res_bytes, table, table_bytes);
	/* A copy comes back before it has arrived, and other streams don't wait for it. */
	if (!err)
		err = g->cu.stream_wait(NULL);
	return gpu_cuda_check(&g->cu, err, "writing GPU memory");
}

/* Where the GPU sees what the host sees at p. */
static void *moved(const volatile void *p, const void *from, uint64_t to)
{
	return (void *)(uintptr_t)(to + (uint64_t)((const volatile char *)p - (const char *)from));
}

static int map_queue(struct peal_gpu *g, struct peal_gpu_side *s)
{
	const struct peal_pair_info *info = &g->info;
	uint64_t rings = 0, bells = 0, land = 0;
	int err = map_host(g, info->rings, info->rings_bytes, 0, &rings);

	if (!err)
		err = map_host(g, info->bells, info->bells_bytes, 0, &bells);
	if (!err)
		err = map_host(g, info->data, info->data_bytes, 0, &land);
	if (err)
		return err;
	*s = (struct peal_gpu_side){.q = info->q, .nsid = info->nsid};
	s->q.sq = moved(info->q.sq, info->rings, rings);
	s->q.cq = moved(info->q.cq, info->rings, rings);
	s->q.sq_bell = moved(info->q.sq_bell, info->bells, bells);
	s->q.cq_bell = moved(info->q.cq_bell, info->bells, bells);
	s->land = (uint8_t *)(uintptr_t)land;
	s->land_iova = info->data_iova;
	s->land_bytes = info->data_bytes;
	return 0;
}

static int make_memory(struct peal_gpu *g)
{
	uint64_t *table = calloc(GPU_SEGMENTS_MAX, sizeof(*table));
	struct peal_gpu_side s;
	int err;

	if (!table)
		return gpu_errmsg_set(-ENOMEM, "no memory for a table of segments");
	err = map_queue(g, &s);
	if (!err && g->info.has_lease && g->lease_bytes != UINT64_MAX)
		err = map_segments(g, table, &s.nr_segments);
	if (!err && !s.nr_segments)
		g->lease_bytes = UINT64_MAX;
	if (!err)
		err = make_side(g, &s, table);
	free(table);
	return err;
}

static int load_kernels(struct peal_gpu *g)
{
	int res;

	if (!gpu_image_bytes)
		return 0;
	res = g->cu.module_load(&g->module, gpu_image);
	if (!res)
		res = g->cu.module_function(&g->run, g->module, "gpu_run");
	if (!res)
		res = g->cu.module_function(&g->fetch, g->module, "gpu_fetch");
	if (!res)
		res = g->cu.module_function(&g->match, g->module, "gpu_match");
	return gpu_cuda_check(&g->cu, res, "loading kernels");
}

/* ---- life ---- */

static int check_opts(const struct peal_gpu_opts *o)
{
	if (o->mode)
		return gpu_errmsg_set(-EOPNOTSUPP,
				      "memory mode %u: only 0 is to be had, queues, doorbells and "
				      "data in host memory",
				      o->mode);
	if (o->depth && (o->depth < DEPTH_MIN || o->depth >= PEAL_RING_MAX))
		return gpu_errmsg_set(-EINVAL, "a queue of %u, expected %u to %u", o->depth,
				      DEPTH_MIN, PEAL_RING_MAX - 1);
	return 0;
}

static int open_pair(struct peal_gpu *g, const char *uri, const struct peal_gpu_opts *o)
{
	struct peal_pair_opts po = {
		.nsid = o->nsid,
		.depth = o->depth,
		.data_bytes = o->land_bytes,
		.timeout_ms = o->timeout_ms,
	};
	int err = peal_pair_open(uri, &po, &g->pair);

	if (err)
		return gpu_errmsg_set(err, "%s", peal_errmsg());
	peal_pair_info(g->pair, &g->info);
	g->per_wave = g->info.q.size - 1;
	g->land_bytes = g->info.data_bytes;
	return 0;
}

int peal_gpu_attach(const char *uri, const struct peal_gpu_opts *opts, struct peal_gpu **out)
{
	struct peal_gpu_opts o = opts ? *opts : (struct peal_gpu_opts){0};
	struct peal_gpu *g;
	int err = check_opts(&o);

	if (err)
		return err;
	g = calloc(1, sizeof(*g));
	if (!g)
		return gpu_errmsg_set(-ENOMEM, "no memory for a GPU's queue pair");
	g->lease_bytes = o.lease_bytes ? o.lease_bytes : LEASE_BYTES;
	g->wait_ns = (o.timeout_ms ? o.timeout_ms : TIMEOUT_MS) * 1000000ull;
	err = gpu_cuda_open(&g->cu);
	if (!err)
		err = open_pair(g, uri, &o);
	if (!err)
		err = make_memory(g);
	if (!err)
		err = load_kernels(g);
	if (err) {
		peal_gpu_detach(g);
		return err;
	}
	*out = g;
	return 0;
}

void peal_gpu_detach(struct peal_gpu *g)
{
	if (!g)
		return;
	if (g->module)
		g->cu.module_unload(g->module);
	if (g->side)
		g->cu.mem_free(g->side);
	unmap_all(g);
	peal_pair_close(g->pair);
	gpu_cuda_close(&g->cu);
	free(g);
}

struct peal_gpu_side *peal_gpu_side(struct peal_gpu *g)
{
	return (struct peal_gpu_side *)(uintptr_t)g->side;
}

struct peal_gpu_req *peal_gpu_reqs(struct peal_gpu *g, uint32_t nr)
{
	size_t bytes = nr * sizeof(struct peal_gpu_req);
	struct gpu_reg *r = reg_new(g);
	void *p = NULL;

	if (!r)
		return NULL;
	if (gpu_cuda_check(&g->cu, g->cu.host_alloc(&p, bytes, GPU_CUDA_ALLOC_MAPPED),
			   "allocating requests")) {
		free(r);
		return NULL;
	}
	memset(p, 0, bytes);
	r->p = p;
	r->is_ours = true;
	g->regs = r;
	return p;
}
