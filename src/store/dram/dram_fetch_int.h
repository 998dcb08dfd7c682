/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that are brought up before they are asked for: wishes in a heap, and those under way.
 * Belongs to the shard's owner. Its own header because dram.c makes it and dram_fetch.c alone looks
 * inside.
 */
#ifndef STORE_DRAM_FETCH_INT_H
#define STORE_DRAM_FETCH_INT_H

#include "store/dram/dram_int.h"

#define DRAM_FETCHES 4u
#define DRAM_WISHES 1024u

enum dram_fetch_state {
	DRAM_FETCH_FREE,
	DRAM_FETCH_SIZING,  /* how long is it? */
	DRAM_FETCH_READY,   /* the next part may be read when nobody waits for something */
	DRAM_FETCH_READING, /* a part is under way */
};

struct dram_fetch {
	struct store_io io;
	struct dram *d;
	struct dram_wish wish;
	uint64_t pos;
	uint64_t granted; /* by policy/prefetch, bytes */
	uint8_t state;
	bool is_cancelled;
};

struct dram_fetch_set {
	uint64_t last_ns;   /* when a part began */
	uint64_t waited_ns; /* when somebody was last seen to wait for a read */
	uint32_t nr_busy;
	uint32_t nr_reading;
	uint32_t nr_wishes;
	struct dram_fetch fetch[DRAM_FETCHES];
	struct dram_wish wish[DRAM_WISHES]; /* a heap */
};

#endif
