/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels behind peal/gpu.h, CUDA and HIP. Each is one block, a group of lanes over one queue
 * pair, but for gpu_fetch, which is as many as the link needs. A wave that was late stays in the
 * queue's state; the next kernel reaps it before it begins.
 */
#if defined(__HIP__)
#include <hip/hip_runtime.h>
#endif
#include "gpu/gpu_job.h"

#if !defined(GPU_KERNEL) /* a test's, which runs them on a CPU */
#define GPU_KERNEL extern "C" __global__ __launch_bounds__(1024)
#endif

#define TEAM 32u /* threads that copy one value together; any number would do */
#define PIECE (256u << 10)

/* n bytes by `nr` threads, this one being number `id` of them. */
static __device__ void copy(void *to, const void *from, uint64_t n, uint32_t id, uint32_t nr)
{
	uint64_t at = 0;

	if ((((uintptr_t)to | (uintptr_t)from) & 15) == 0) {
		uint64_t nr_words = n / 16, i = id;
		ulonglong2 *t = (ulonglong2 *)to;
		const ulonglong2 *f = (const ulonglong2 *)from;

		/* Four loads under way for each thread: the link is long. */
		for (; i + 3ull * nr < nr_words; i += 4ull * nr) {
			ulonglong2 a = f[i], b = f[i + nr], c = f[i + 2ull * nr],
				   d = f[i + 3ull * nr];

			t[i] = a;
			t[i + nr] = b;
			t[i + 2ull * nr] = c;
			t[i + 3ull * nr] = d;
		}
		for (; i < nr_words; i += nr)
			t[i] = f[i];
		at = nr_words * 16;
	}
	for (uint64_t i = at + id; i < n; i += nr)
		((uint8_t *)to)[i] = ((const uint8_t *)from)[i];
}

static __device__ struct peal_lane lane_of_block(void)
{
	struct peal_lane l = {(uint32_t)threadIdx.x, (uint32_t)blockDim.x, NULL, NULL};

	return l;
}

/* Which of nr things this lane's team takes first, and how many teams there are. */
struct team {
	uint32_t first, nr, id, width;
};

static __device__ struct team team_of(const struct peal_lane *l, uint32_t nr)
{
	uint32_t teams = l->nr / TEAM < 1 ? 1 : l->nr / TEAM;
	struct team t;

	teams = nr < teams ? (nr < 1 ? 1 : nr) : teams;
	t.width = l->nr / teams;
	t.nr = teams;
	t.first = l->id / t.width;
	t.id = l->id % t.width;
	if (t.first >= teams) /* more lanes than teams of equal width: these rest */
		t.first = 0xffffffffu - teams;
	return t;
}

static __device__ int is_wanted(const struct gpu_job *j, const struct peal_gpu_req *r)
{
	return j->only == PEAL_ST_PENDING || r->status == j->only;
}

/* This lane sees none that is wanted. */
static __device__ int has_none(const struct gpu_job *j, const struct peal_lane *l)
{
	for (uint32_t i = l->id; i < j->nr; i += l->nr)
		if (is_wanted(j, &j->reqs[i]))
			return 0;
	return 1;
}

static __device__ void build(const struct peal_gpu_side *s, const struct gpu_job *j, uint32_t i,
			     const struct peal_gpu_req *r, struct peal_sqe *sqe)
{
	uint64_t at = s->land_iova + (uint64_t)i * j->stride;

	if (!is_wanted(j, r) || j->op == GPU_JOB_EXIST) {
		peal_sqe_exist(sqe, s->nsid, &r->key); /* of those that are not, nothing is taken */
		return;
	}
	if (j->op == GPU_JOB_STORE)
		peal_sqe_store(sqe, s->nsid, &r->key, j->opts);
	else if (j->op == GPU_JOB_LEASE)
		peal_sqe_lease(sqe, s->nsid, &r->key, 0);
	else
		peal_sqe_retrieve(sqe, s->nsid, &r->key, 0);
	peal_sqe_sgl(sqe, at, j->op == GPU_JOB_LEASE ? j->stride : r->bytes);
}

static __device__ void build_release(const struct peal_gpu_side *s, const struct gpu_job *j,
				     uint32_t i, const struct peal_gpu_req *r, struct peal_sqe *sqe)
{
	const struct peal_wire_lease *l =
		(const struct peal_wire_lease *)(s->land + (uint64_t)i * j->stride);

	if (r->status == PEAL_ST_OK)
		peal_sqe_release(sqe, s->nsid, l->id);
	else
		peal_sqe_exist(sqe, s->nsid, &r->key);
}

static __device__ void copy_in(const struct peal_gpu_side *s, const struct gpu_job *j,
			       const struct peal_gpu_req *reqs, uint32_t nr)
{
	struct peal_lane l = lane_of_block();
	struct team t = team_of(&l, nr);

	for (uint32_t i = t.first; i < nr; i += t.nr)
		copy(s->land + (uint64_t)i * j->stride, reqs[i].buf, reqs[i].bytes, t.id, t.width);
}

static __device__ void copy_out(const struct peal_gpu_side *s, const struct gpu_job *j,
				const struct peal_gpu_req *reqs, uint32_t nr)
{
	struct peal_lane l = lane_of_block();
	struct team t = team_of(&l, nr);

	for (uint32_t i = t.first; i < nr; i += t.nr) {
		const struct peal_result *res = &s->res[i];
		uint32_t n = res->dw0 < reqs[i].bytes ? res->dw0 : reqs[i].bytes;

		if (res->status == PEAL_ST_OK && is_wanted(j, &reqs[i]))
			copy(reqs[i].buf, s->land + (uint64_t)i * j->stride, n, t.id, t.width);
	}
}

/* Of a segment that is none of ours the lease ends by itself. */
static __device__ int is_mapped(const struct peal_gpu_side *s, const struct peal_wire_lease *l)
{
	const struct peal_wire_extent *x = (const struct peal_wire_extent *)(l + 1);

	for (uint32_t e = 0; e < l->nr_ext; e++)
		if (x[e].segment >= s->nr_segments || !s->segments[x[e].segment])
			return 0;
	return 1;
}

/* What the wave said, into the requests; a reply that found no room has leased nothing. */
static __device__ void note(const struct peal_gpu_side *s, const struct gpu_job *j,
			    struct peal_gpu_req *reqs, uint32_t i)
{
	const struct peal_result *res = &s->res[i];
	const struct peal_wire_lease *l =
		(const struct peal_wire_lease *)(s->land + (uint64_t)i * j->stride);

	/* A lease that had run out before it was let go: what was copied may be anything. */
	if (j->op == GPU_JOB_RELEASE && reqs[i].status == PEAL_ST_OK && res->status != PEAL_ST_OK)
		reqs[i].status = PEAL_ST_INTERRUPTED;
	if (j->op == GPU_JOB_RELEASE || !is_wanted(j, &reqs[i]))
		return;
	reqs[i].value_bytes = res->dw0;
	reqs[i].status = res->status;
	if (j->op != GPU_JOB_LEASE || res->status != PEAL_ST_OK)
		return;
	if (res->dw0 > j->stride || !is_mapped(s, l))
		reqs[i].status = PEAL_ST_INTERRUPTED;
	else
		reqs[i].value_bytes = l->value_bytes;
}

GPU_KERNEL void gpu_run(struct peal_gpu_side *s, struct gpu_job j)
{
	struct peal_device_queue q = s->q;
	struct peal_lane l = lane_of_block();
	uint64_t until = peal_port_ns() + j.wait_ns;
	uint32_t nr_all = j.nr;
	struct peal_sqe sqe;

	if (q.nr_busy && peal_wave_reap(&q, &l, s->res, until) != PEAL_WAVE_OVER)
		return; /* as before: the requests stay PENDING */
	if (j.only != PEAL_ST_PENDING && peal_port_meet(&l, has_none(&j, &l)))
		nr_all = 0; /* there is nothing left to do */
	for (uint32_t from = 0; from < nr_all; from += j.per_wave) {
		uint32_t nr = nr_all - from < j.per_wave ? nr_all - from : j.per_wave;
		struct peal_gpu_req *reqs = j.reqs + from;

		if (j.op == GPU_JOB_STORE)
			copy_in(s, &j, reqs, nr);
		peal_wave_begin(&q, nr);
		for (uint32_t i = l.id; i < nr; i += l.nr) {
			if (j.op == GPU_JOB_RELEASE)
				build_release(s, &j, i, &reqs[i], &sqe);
			else
				build(s, &j, i, &reqs[i], &sqe);
			peal_wave_put(&q, i, &sqe, s->res);
		}
		peal_wave_ring(&q, &l);
		if (peal_wave_reap(&q, &l, s->res, peal_port_ns() + j.wait_ns) != PEAL_WAVE_OVER)
			break;
		if (j.op == GPU_JOB_RETRIEVE)
			copy_out(s, &j, reqs, nr);
		peal_port_meet(&l, 1);
		for (uint32_t i = l.id; i < nr; i += l.nr)
			note(s, &j, reqs, i);
		peal_port_meet(&l, 1);
	}
	if (l.id == 0)
		s->q = q;
}

/* Leased values, in place, into their buffers; replies lie where gpu_run has asked for them. */
GPU_KERNEL void gpu_fetch(struct peal_gpu_side *s, struct gpu_job j)
{
	for (uint32_t i = 0; i < j.nr; i++) {
		const struct peal_gpu_req *r = &j.reqs[i];
		const uint8_t *reply = s->land + (uint64_t)i * j.stride;
		const struct peal_wire_lease *l = (const struct peal_wire_lease *)reply;
		const struct peal_wire_extent *x = (const struct peal_wire_extent *)(l + 1);
		uint64_t at = 0, room = r->bytes;

		if (r->status != PEAL_ST_OK)
			continue;
		for (uint32_t e = 0; e < l->nr_ext && at < room; at += x[e++].len) {
			const uint8_t *from = s->segments[x[e].segment] + x[e].offset;
			uint64_t n = x[e].len < room - at ? x[e].len : room - at;

			for (uint64_t p = (uint64_t)blockIdx.x * PIECE; p < n;
			     p += (uint64_t)gridDim.x * PIECE)
				copy((uint8_t *)r->buf + at + p, from + p,
				     n - p < PIECE ? n - p : PIECE, (uint32_t)threadIdx.x,
				     (uint32_t)blockDim.x);
		}
	}
}

GPU_KERNEL void gpu_match(struct peal_gpu_side *s, struct gpu_job j)
{
	struct peal_device_queue q = s->q;
	struct peal_lane l = lane_of_block();
	struct peal_wire_key *keys = (struct peal_wire_key *)s->land;
	uint64_t until = peal_port_ns() + j.wait_ns;
	struct peal_sqe sqe;

	if (q.nr_busy && peal_wave_reap(&q, &l, s->res, until) != PEAL_WAVE_OVER)
		return;
	for (uint32_t i = l.id; i < j.nr; i += l.nr) {
		for (uint32_t b = 0; b < 16; b++)
			keys[i].b[b] = j.reqs[i].key.b[b];
		keys[i].len = j.reqs[i].key.len;
	}
	peal_wave_begin(&q, 1);
	if (l.id == 0) {
		peal_sqe_match(&sqe, s->nsid, 0, 0, 0);
		peal_sqe_sgl(&sqe, s->land_iova, j.nr * (uint32_t)sizeof(*keys));
		peal_wave_put(&q, 0, &sqe, s->res);
	}
	peal_wave_ring(&q, &l);
	if (peal_wave_reap(&q, &l, s->res, peal_port_ns() + j.wait_ns) == PEAL_WAVE_OVER &&
	    l.id == 0) {
		j.reqs->value_bytes = s->res[0].dw0 & 0xffffu;
		j.reqs->status = s->res[0].status;
	}
	if (l.id == 0)
		s->q = q;
}
