/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types that Peal's public headers share. C11, C++17, CUDA and HIP clean; includes nothing of
 * Peal's.
 */
#ifndef PEAL_TYPES_H
#define PEAL_TYPES_H

#include <stdint.h>

#define PEAL_KEY_MAX 16u	    /* bytes; a key has 1 to 16 */
#define PEAL_VALUE_MAX (128u << 20) /* bytes; a value has 1 to 128 Mi */
#define PEAL_CHUNK_BYTES 65536u	    /* one seal per chunk, see seal.h */
#define PEAL_TAG_BYTES 32u

/*
 * A key: `len` bytes of `b` count, the rest is zero. Two keys are equal when length and bytes
 * are.
 */
struct peal_key {
	uint8_t b[PEAL_KEY_MAX];
	uint8_t len;
};

#endif
