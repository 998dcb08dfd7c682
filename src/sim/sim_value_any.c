/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of values for machines about which nothing is known but the compiler's target.
 * Pure functions, any thread.
 */
/* tidy: no-test: t_sim_value.c tests whichever of the twins is built */
#include "sim/sim_value_int.h"

/* tidy: the twin in sim_value_x86.c has the same names */
void sim_value_fill_words(struct value_gen g, uint64_t i, uint8_t *p, size_t nr)
{
	value_fill_loop(g, i, p, nr);
}

/* tidy: the twin in sim_value_x86.c has the same names */
size_t sim_value_check_words(struct value_gen g, uint64_t i, const uint8_t *p, size_t nr)
{
	return value_check_loop(g, i, p, nr);
}
