/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instruction sets of XXH3 where there is no choice: the architecture's baseline.
 * hash_isa_x86.c is the twin for x86-64; meson picks one. Constant data.
 */
#include "base/container.h"
#include "base/hash_int.h"

/* tidy: no-test: t_hash.c goes through this list */
static bool hash_always(void)
{
	return true;
}

static const struct hash_isa hash_base = {"base", hash_always, hash_base_xxh3, hash_base_copy_xxh3,
					  hash_base_add};

const struct hash_isa *const hash_isa_list[] = {&hash_base};
const unsigned hash_isa_nr = ARRAY_SIZE(hash_isa_list);
