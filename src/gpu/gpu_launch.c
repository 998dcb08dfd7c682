/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launchers of peal/gpu.h: what is asked becomes one kernel or a few, in the order of a stream.
 * Small values go by way of the landing area. Large ones are leased, a batch at a time, copied out
 * of the arena by as many blocks as fill the link, and released; what no lease was to be had for
 * goes by the landing area, too. One thread at a time for each struct peal_gpu.
 */
/* tidy: no-test: t_gpu.c, and test/gpu/run against a real daemon */
#include <errno.h>

#include "gpu/gpu_errmsg.h"
#include "gpu/gpu_int.h"
#include "peal/vendor.h"

#define LEASED_MAX (192ull << 20) /* bytes of a batch: below what a daemon grants one client */
#define EXTENTS 64u		  /* of a lease, that its reply has room for */
#define FETCH_BLOCKS 16u
#define THREADS_MIN 64u
#define THREADS_MAX 1024u

static uint32_t round_up(uint64_t n, uint32_t to)
{
	return (uint32_t)((n + to - 1) / to * to);
}

static int launch(struct peal_gpu *g, void *fn, struct gpu_cuda_dim dim, struct gpu_job *job,
		  void *stream)
{
	uint64_t side = g->side;
	void *args[] = {&side, job};

	return gpu_cuda_check(&g->cu,
			      g->cu.launch(fn, dim.blocks, 1, 1, dim.threads, 1, 1, 0, stream, args,
					   NULL),
			      "launching a kernel");
}

/* As many threads as there are commands, or words to copy. */
static struct gpu_cuda_dim one_block(uint32_t nr, uint64_t bytes)
{
	uint64_t n = bytes / 64 > nr ? bytes / 64 : nr;

	n = n < THREADS_MIN ? THREADS_MIN : n > THREADS_MAX ? THREADS_MAX : n;
	return (struct gpu_cuda_dim){1, round_up(n, 32)};
}

struct sum {
	uint64_t bytes; /* of all */
	uint32_t max;	/* of one */
};

static struct sum sum_of(const struct peal_gpu_req *reqs, uint32_t nr)
{
	struct sum s = {0, 0};

	for (uint32_t i = 0; i < nr; i++) {
		s.bytes += reqs[i].bytes;
		s.max = reqs[i].bytes > s.max ? reqs[i].bytes : s.max;
	}
	return s;
}

/* Marks them all as not yet answered. */
static int begin(struct peal_gpu *g, struct peal_gpu_req *reqs, uint32_t nr)
{
	if (!g->module)
		return gpu_errmsg_set(-EOPNOTSUPP, "this library was built without nvcc");
	for (uint32_t i = 0; i < nr; i++) {
		reqs[i].status = PEAL_ST_PENDING;
		reqs[i].value_bytes = 0;
	}
	return 0;
}

/* Values by way of the landing area: as many in a wave as have room there. */
static int by_landing(struct peal_gpu *g, struct gpu_job *j, struct sum s, void *stream)
{
	j->stride = round_up(s.max ? s.max : 1, 256);
	if (s.max > g->land_bytes || j->stride > g->land_bytes)
		return gpu_errmsg_set(-EFBIG, "a value of %u bytes, the landing area has %llu",
				      s.max, (unsigned long long)g->land_bytes);
	j->per_wave = g->per_wave;
	if (g->land_bytes / j->stride < j->per_wave)
		j->per_wave = (uint32_t)(g->land_bytes / j->stride);
	return launch(g, g->run, one_block(j->nr, s.bytes), j, stream);
}

static int by_lease(struct peal_gpu *g, struct gpu_job *j, uint32_t max, void *stream)
{
	int err;

	j->op = GPU_JOB_LEASE;
	j->stride = round_up(sizeof(struct peal_wire_lease) +
				     EXTENTS * sizeof(struct peal_wire_extent) +
				     8ull * (max / PEAL_CHUNK_BYTES + 1),
			     256);
	j->per_wave = j->nr;
	err = launch(g, g->run, one_block(j->nr, 0), j, stream);
	if (!err)
		err = launch(g, g->fetch, (struct gpu_cuda_dim){FETCH_BLOCKS, THREADS_MAX}, j,
			     stream);
	j->op = GPU_JOB_RELEASE;
	if (!err)
		err = launch(g, g->run, one_block(j->nr, 0), j, stream);
	return err;
}

/* How many of them are leased together. */
static uint32_t batch_of(const struct peal_gpu *g, const struct peal_gpu_req *reqs, uint32_t nr)
{
	uint64_t bytes = 0;
	uint32_t n = 0;

	while (n < nr && n < g->per_wave && (!n || bytes + reqs[n].bytes <= LEASED_MAX))
		bytes += reqs[n++].bytes;
	return n;
}

int peal_gpu_retrieve_async(struct peal_gpu *g, struct peal_gpu_req *reqs, uint32_t nr,
			    void *stream)
{
	struct gpu_job j = {.only = PEAL_ST_PENDING, .wait_ns = g->wait_ns};
	struct sum s = sum_of(reqs, nr);
	int err = begin(g, reqs, nr);

	if (!err && s.max > g->lease_bytes) {
		for (uint32_t at = 0; at < nr && !err; at += j.nr) {
			j.reqs = reqs + at;
			j.nr = batch_of(g, j.reqs, nr - at);
			err = by_lease(g, &j, s.max, stream);
		}
		j.only = PEAL_ST_INTERRUPTED;
		if (s.max > g->land_bytes) /* they stay what they are */
			return err;
	}
	j.op = GPU_JOB_RETRIEVE;
	j.reqs = reqs;
	j.nr = nr;
	return err || !nr ? err : by_landing(g, &j, s, stream);
}

int peal_gpu_store_async(struct peal_gpu *g, struct peal_gpu_req *reqs, uint32_t nr, uint32_t opts,
			 void *stream)
{
	struct gpu_job j = {
		.op = GPU_JOB_STORE,
		.nr = nr,
		.opts = opts,
		.only = PEAL_ST_PENDING,
		.wait_ns = g->wait_ns,
		.reqs = reqs,
	};
	int err = begin(g, reqs, nr);

	return err || !nr ? err : by_landing(g, &j, sum_of(reqs, nr), stream);
}

int peal_gpu_exist_async(struct peal_gpu *g, struct peal_gpu_req *reqs, uint32_t nr, void *stream)
{
	struct gpu_job j = {
		.op = GPU_JOB_EXIST,
		.nr = nr,
		.only = PEAL_ST_PENDING,
		.wait_ns = g->wait_ns,
		.reqs = reqs,
		.per_wave = g->per_wave,
		.stride = 256,
	};
	int err = begin(g, reqs, nr);

	return err || !nr ? err : launch(g, g->run, one_block(nr, 0), &j, stream);
}

int peal_gpu_match_async(struct peal_gpu *g, struct peal_gpu_req *reqs, uint32_t nr, void *stream)
{
	struct gpu_job j = {.nr = nr, .wait_ns = g->wait_ns, .reqs = reqs};
	int err = begin(g, reqs, nr);

	if (err)
		return err;
	if (!nr || nr > g->info.match_max || nr * sizeof(struct peal_wire_key) > g->land_bytes)
		return gpu_errmsg_set(-EINVAL, "a MATCH of %u keys, expected 1 to %u", nr,
				      g->info.match_max);
	return launch(g, g->match, one_block(nr, 0), &j, stream);
}
