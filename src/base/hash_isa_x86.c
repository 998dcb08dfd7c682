/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instruction sets of XXH3 on x86-64, best first, each with the question whether this processor
 * and its kernel have it. hash_isa.c is the twin for other architectures; meson picks one. Constant
 * data.
 */
#include "base/container.h"
#include "base/hash_int.h"

/* tidy: no-test: t_hash.c goes through this list */
static bool hash_always(void)
{
	return true;
}

static bool hash_has_avx2(void)
{
	return __builtin_cpu_supports("avx2");
}

static bool hash_has_avx512(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static const struct hash_isa hash_avx512 = {"avx512", hash_has_avx512, hash_avx512_xxh3,
					    hash_avx512_copy_xxh3, hash_avx512_add};
static const struct hash_isa hash_avx2 = {"avx2", hash_has_avx2, hash_avx2_xxh3,
					  hash_avx2_copy_xxh3, hash_avx2_add};
static const struct hash_isa hash_base = {"base", hash_always, hash_base_xxh3, hash_base_copy_xxh3,
					  hash_base_add};

const struct hash_isa *const hash_isa_list[] = {&hash_avx512, &hash_avx2, &hash_base};
const unsigned hash_isa_nr = ARRAY_SIZE(hash_isa_list);
