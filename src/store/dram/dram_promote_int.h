/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One value on its way up: unpublished, filled as its pieces come, by copies or straight from
 * below. Belongs to the shard's owner. Its own header because dram.c makes the array of them and
 * only dram_promote.c looks inside.
 */
#ifndef STORE_DRAM_PROMOTE_INT_H
#define STORE_DRAM_PROMOTE_INT_H

#include "store/dram/dram_int.h"

#define DRAM_PROMOTE_CHUNKS 2048u /* of the largest value, 128 MiB */

struct dram_promote {
	struct store_key key;
	struct dram_entry *e; /* NULL: free. Pinned once for us */
	uint64_t ver;
	uint64_t used_at;  /* on d->promote_clock */
	uint64_t begin_ns; /* when its first get went down, where that matters (dram_fresh.c) */
	uint32_t fence;
	uint32_t nr_left; /* chunks */
	uint64_t have[DRAM_PROMOTE_CHUNKS / 64];
	uint64_t asked[DRAM_PROMOTE_CHUNKS / 64]; /* some get brings them straight, or has */
};

#endif
