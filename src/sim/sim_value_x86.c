/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of values on x86-64: AVX2, which is three times as fast, where the processor and its
 * kernel have it, else the baseline. Asked at each call: an ifunc would be resolved before
 * ThreadSanitizer is up.
 * Pure functions, any thread.
 */
/* tidy: no-test: t_sim_value.c tests whichever of the twins is built */
#include "sim/sim_value_int.h"

__attribute__((target("avx2"))) static void fill_avx2(struct value_gen g, uint64_t i, uint8_t *p,
						      size_t nr)
{
	value_fill_loop(g, i, p, nr);
}

__attribute__((target("avx2"))) static size_t check_avx2(struct value_gen g, uint64_t i,
							 const uint8_t *p, size_t nr)
{
	return value_check_loop(g, i, p, nr);
}

/* tidy: the twin in sim_value_any.c has the same names */
void sim_value_fill_words(struct value_gen g, uint64_t i, uint8_t *p, size_t nr)
{
	if (__builtin_cpu_supports("avx2"))
		fill_avx2(g, i, p, nr);
	else
		value_fill_loop(g, i, p, nr);
}

/* tidy: the twin in sim_value_any.c has the same names */
size_t sim_value_check_words(struct value_gen g, uint64_t i, const uint8_t *p, size_t nr)
{
	if (__builtin_cpu_supports("avx2"))
		return check_avx2(g, i, p, nr);
	return value_check_loop(g, i, p, nr);
}
