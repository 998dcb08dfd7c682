/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two functions of peal/seal.h that aren't inline, for programs that seal or check values
 * themselves. Pure, any thread.
 */
#include "peal/seal.h"

#include "base/hash.h"

uint64_t peal_key_hash(const uint8_t key[16], uint8_t key_len)
{
	return hash_key(key, key_len);
}

uint64_t peal_seal(const void *chunk, size_t n, uint64_t seed)
{
	return hash_xxh3(chunk, n, seed);
}
