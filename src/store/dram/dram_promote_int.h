/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One copy upwards under way: an unpublished value that fills as its pieces pass. Belongs to the
 * shard's owner. Its own header because dram.c makes the array of them and only dram_promote.c
 * looks inside.
 */
#ifndef STORE_DRAM_PROMOTE_INT_H
#define STORE_DRAM_PROMOTE_INT_H

#include "store/dram/dram_int.h"

#define DRAM_PROMOTE_CHUNKS 2048u /* of the largest value, 128 MiB */

struct dram_promote {
	struct store_key key;
	struct dram_entry *e; /* NULL: free */
	uint64_t ver;
	uint64_t used_at; /* on d->promote_clock */
	uint32_t fence;
	uint32_t nr_left; /* chunks */
	uint64_t have[DRAM_PROMOTE_CHUNKS / 64];
};

#endif
