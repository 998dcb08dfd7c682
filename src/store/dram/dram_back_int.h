/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One write-back under way. Belongs to the shard's owner. Its own header because dram.c makes the
 * array of them and only dram_back.c looks inside.
 */
#ifndef STORE_DRAM_BACK_INT_H
#define STORE_DRAM_BACK_INT_H

#include "store/dram/dram_int.h"

enum dram_back_state {
	DRAM_BACK_FREE,
	DRAM_BACK_WAIT, /* for the tier below, or for the key */
	DRAM_BACK_COPY, /* into io.view, a buffer of the tier below */
};

struct dram_back {
	struct store_io io;
	struct dram *d;
	struct dram_entry *e;
	uint64_t chunk;
	uint64_t at_ns; /* of the FILL, in a set with fresh_ns */
	enum dram_back_state state;
	bool is_demoted; /* dropped once it is written */
	bool is_victim;	 /* dropped if it can't be written */
	bool is_wanted;	 /* a flush waits for it */
	bool is_dead;	 /* its key was deleted since */
	/* e is its buffer, and it goes on when that is below (dram_through.c) */
	struct store_io *put;
};

/* The slot alone: e was never pinned by it. */
void dram_back_free(struct dram_back *b);
/* A free one, for a put that is to be acknowledged below. */
void dram_back_put(struct dram *d, struct dram_entry *e, struct store_io *put);

/* dram_through.c: the copy below is whole; it has failed. */
void dram_through_fill(struct dram_back *b);
void dram_through_end(struct dram_back *b, int res);

#endif
