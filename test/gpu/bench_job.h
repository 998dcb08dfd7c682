/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What gpu_run.c and its kernels (bench_kernels.cu) agree on: keys and bytes that only a number
 * tells, and what is to be measured. C11, CUDA and HIP clean.
 */
#ifndef BENCH_JOB_H
#define BENCH_JOB_H

#include "peal/gpu.h"

struct bench_job {
	uint32_t nr_keys; /* numbers below are there, others not */
	uint32_t count;	  /* samples */
	uint32_t bytes;	  /* of a value */
	uint32_t seed;
	uint8_t *dst; /* in the GPU's memory */
	/* out: of each sample, ns; and what went wrong, if anything did */
	uint32_t *took_ns;
	uint32_t *bad;
};

PEAL_FN uint64_t bench_mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

PEAL_FN void bench_key(struct peal_key *k, uint32_t nr)
{
	uint64_t a = bench_mix(nr + 0x9e3779b97f4a7c15ull), b = bench_mix(~a);

	for (int i = 0; i < 8; i++) {
		k->b[i] = (uint8_t)(a >> 8 * i);
		k->b[8 + i] = (uint8_t)(b >> 8 * i);
	}
	k->len = 16;
}

/* Word w, 8 bytes, of value nr. */
PEAL_FN uint64_t bench_word(uint32_t nr, uint32_t w)
{
	return bench_mix(((uint64_t)nr << 32 | w) + 0x632be59bd9b4e019ull);
}

#endif
