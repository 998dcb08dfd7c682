/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See place.h. With u drawn evenly from (0, 1] and w the weight, the highest w / -log2(u) wins;
 * then each wins as often as its weight says: the logarithm turns draws into exponential times, of
 * which the first one counts. In integers, so that every machine picks the same.
 */
#include "policy/place.h"

#include <stdbool.h>

#define LOG_BITS 24u /* behind the point */

/* The last step of splitmix64: every bit of x reaches every bit. */
static uint64_t place_mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* log2(x), x > 0: the place of its highest bit, then a bit for each squaring. */
static uint64_t place_log2(uint64_t x)
{
	unsigned top = 63u - (unsigned)__builtin_clzll(x);
	uint64_t m = x << (63u - top), log = top;

	for (unsigned i = 0; i < LOG_BITS; i++) {
		bool is_two;

		m = (uint64_t)((__uint128_t)m * m >> 64);
		is_two = m >> 63;
		log = log << 1 | is_two;
		m <<= !is_two;
	}
	return log;
}

/* -log2(u), u = (draw + 1) / 2^64; never 0. */
static uint64_t place_wait(uint64_t what, uint64_t id)
{
	uint64_t draw = place_mix(place_mix(what + 0x9e3779b97f4a7c15u) ^ id * 0xd6e8feb86659fd93u);
	uint64_t log = place_log2(draw == UINT64_MAX ? draw : draw + 1);

	return (64ull << LOG_BITS) - log;
}

int place_pick(uint64_t what, const struct place_dev *devs, unsigned nr)
{
	uint64_t wait, best_wait = 0;
	int best = -1;

	for (unsigned i = 0; i < nr; i++) {
		if (!devs[i].weight)
			continue;
		wait = place_wait(what, devs[i].id);
		/* weight / wait: both below 2^32 */
		if (best >= 0 && devs[i].weight * best_wait <= devs[best].weight * wait)
			continue;
		best = (int)i;
		best_wait = wait;
	}
	return best;
}
