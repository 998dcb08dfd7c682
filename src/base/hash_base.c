/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XXH3 for the least processor of this architecture: SSE2 on x86-64, NEON on aarch64. The code is
 * in hash_body_int.h; the flags are in meson.build; hash.c chooses. Nothing else may be in this
 * file, since all of it is compiled for that processor. Pure functions, any thread.
 */
/* tidy: no-test: t_hash.c compares all instruction sets */
#define HASH_FN hash_base_
#include "base/hash_body_int.h"

void hash_base_init(struct hash_stream *st, uint64_t seed)
{
	XXH3_state_t *x = (XXH3_state_t *)st;

	XXH3_INITSTATE(x);
	XXH3_64bits_reset_withSeed(x, seed);
}

uint64_t hash_base_digest(const struct hash_stream *st)
{
	return XXH3_64bits_digest((const XXH3_state_t *)st);
}
