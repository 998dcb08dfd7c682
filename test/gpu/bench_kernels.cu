/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that measure, as users would write them over peal/device.h: the GPU asks, waits, takes the
 * value into its memory and looks at every word, on its own clock. One block each.
 */
#if defined(__HIP__)
#include <hip/hip_runtime.h>
#endif
#include "bench_job.h"

#if !defined(GPU_KERNEL)
#define GPU_KERNEL extern "C" __global__ __launch_bounds__(1024)
#endif

#define BENCH_WAIT_NS 2000000000ull
#define BENCH_WAVE 1023u
#define BENCH_ABSENT 0x40000000u /* numbers that nobody stores */

/* Nothing, for so long. */
GPU_KERNEL void bench_wait(uint64_t ns)
{
	uint64_t end = peal_port_ns() + ns;

	while (peal_port_ns() < end)
		peal_port_pause();
}

/* Retrieve of one value at a time, by way of the landing area into dst; each word is checked. */
GPU_KERNEL void bench_pull(struct peal_gpu_side *s, struct bench_job j)
{
	struct peal_lane l = {(uint32_t)threadIdx.x, (uint32_t)blockDim.x, NULL, NULL};
	struct peal_device_queue q = s->q;
	struct peal_gpu_side side = *s;
	uint32_t nr_words = j.bytes / 8, wrong = 0;
	struct peal_sqe sqe;
	struct peal_key key;

	for (uint32_t i = 0; i < j.count; i++) {
		uint32_t nr = (uint32_t)(bench_mix(j.seed + i) % j.nr_keys);
		uint64_t begin = peal_port_ns();
		const uint64_t *from = (const uint64_t *)side.land;

		peal_wave_begin(&q, 1);
		if (l.id == 0) {
			bench_key(&key, nr);
			peal_sqe_retrieve(&sqe, side.nsid, &key, 0);
			peal_sqe_sgl(&sqe, side.land_iova, j.bytes);
			peal_wave_put(&q, 0, &sqe, side.res);
		}
		peal_wave_ring(&q, &l);
		if (peal_wave_reap(&q, &l, side.res, begin + BENCH_WAIT_NS) != PEAL_WAVE_OVER) {
			wrong = 1;
			break;
		}
		wrong |= side.res[0].status != PEAL_ST_OK || side.res[0].dw0 != j.bytes;
		for (uint32_t w = l.id; w < nr_words; w += l.nr) {
			uint64_t v = peal_port_load((const volatile peal_port_u64 *)&from[w]);

			((uint64_t *)j.dst)[w] = v;
			wrong |= v != bench_word(nr, w);
		}
		/* All are done with it before the next one lands there. */
		peal_port_meet(&l, 1);
		if (l.id == 0)
			j.took_ns[i] = (uint32_t)(peal_port_ns() - begin);
	}
	if (wrong)
		*j.bad = 1;
	if (l.id == 0)
		s->q = q;
}

/* Waves of 1023 Exists with one doorbell each, every second key absent. */
GPU_KERNEL void bench_exist(struct peal_gpu_side *s, struct bench_job j)
{
	struct peal_lane l = {(uint32_t)threadIdx.x, (uint32_t)blockDim.x, NULL, NULL};
	struct peal_device_queue q = s->q;
	struct peal_gpu_side side = *s;
	uint32_t wrong = 0;
	struct peal_sqe sqe;
	struct peal_key key;

	for (uint32_t i = 0; i < j.count; i++) {
		uint64_t begin = peal_port_ns();

		peal_wave_begin(&q, BENCH_WAVE);
		for (uint32_t c = l.id; c < BENCH_WAVE; c += l.nr) {
			uint32_t nr = (uint32_t)(bench_mix(j.seed + (uint64_t)i * 1024 + c) %
						 j.nr_keys);

			bench_key(&key, c & 1 ? nr + BENCH_ABSENT : nr);
			peal_sqe_exist(&sqe, side.nsid, &key);
			peal_wave_put(&q, c, &sqe, side.res);
		}
		peal_wave_ring(&q, &l);
		if (peal_wave_reap(&q, &l, side.res, begin + BENCH_WAIT_NS) != PEAL_WAVE_OVER) {
			wrong = 1;
			break;
		}
		for (uint32_t c = l.id; c < BENCH_WAVE; c += l.nr)
			wrong |= side.res[c].status != (c & 1 ? PEAL_ST_NOT_FOUND : PEAL_ST_OK);
		peal_port_meet(&l, 1);
		if (l.id == 0)
			j.took_ns[i] = (uint32_t)(peal_port_ns() - begin);
	}
	if (wrong)
		*j.bad = 1;
	if (l.id == 0)
		s->q = q;
}
