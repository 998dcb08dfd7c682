/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seeded random numbers: xoshiro256** (Blackman and Vigna, 2018; public domain), its state filled
 * from the seed by splitmix64. The same seed gives the same numbers on every machine, which is what
 * tests and the simulator stand on. Not for secrets. One `struct rng` belongs to one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/must.h"

struct rng {
	uint64_t s[4];
};

/* One step of splitmix64; also a good mixer of a counter by itself. */
static inline uint64_t rng_splitmix(uint64_t *x)
{
	uint64_t z = (*x += 0x9E3779B97F4A7C15ull);

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
	return z ^ (z >> 31);
}

static inline void rng_init(struct rng *r, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		r->s[i] = rng_splitmix(&seed);
}

static inline uint64_t rng_rotl(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

static inline uint64_t rng_u64(struct rng *r)
{
	uint64_t *s = r->s;
	uint64_t out = rng_rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rng_rotl(s[3], 45);
	return out;
}

/* Uniform in [0, n), without the bias of a modulo: Lemire's multiply-and-reject (2019). n > 0. */
static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
	unsigned __int128 m;
	uint64_t reject;

	must(n > 0);
	m = (unsigned __int128)rng_u64(r) * n;
	if ((uint64_t)m < n) {
		reject = -n % n;
		while ((uint64_t)m < reject)
			m = (unsigned __int128)rng_u64(r) * n;
	}
	return (uint64_t)(m >> 64);
}

/* Uniform in [0, 1) with 53 bits. */
static inline double rng_f64(struct rng *r)
{
	return (double)(rng_u64(r) >> 11) * 0x1.0p-53;
}

/* True `num` times in `den`. */
static inline bool rng_chance(struct rng *r, uint64_t num, uint64_t den)
{
	return rng_below(r, den) < num;
}

static inline void rng_fill(struct rng *r, void *buf, size_t len)
{
	uint8_t *p = buf;
	uint64_t x;

	for (; len >= 8; p += 8, len -= 8) {
		x = rng_u64(r);
		memcpy(p, &x, 8);
	}
	if (len) {
		x = rng_u64(r);
		memcpy(p, &x, len);
	}
}
