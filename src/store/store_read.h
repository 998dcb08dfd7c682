/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader of values over the verbs of store.h: in pieces, in order, the next ones under way. Runs
 * on the reactor that it names as its home.
 */
#ifndef STORE_STORE_READ_H
#define STORE_STORE_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

/*
 * Reading a value in pieces that end at multiples of STORE_PIECE_BYTES, in order, one piece at a
 * time with the next ones under way: piece() gets a view range that the reader copies and checks,
 * then calls store_read_next(). Version pinned by the first. end(): 0, or as store results, or the
 * reader's own err; -ESTALE when the value changed half way (start again, or call it a miss).
 *
 * is_eager: the value is expected to lie below memory and to be about `len` long. Parts of
 * STORE_PART_BYTES are asked for, several at once from the start on and before the version is
 * known, so that one is checked and copied while the next ones are read. A piece is three of them
 * and a last chunk, whose check and copy is all that is left to do when the device is done.
 */
#define STORE_READ_AHEAD 4
struct store_read;
struct store_read_slot {
	struct store_io io;
	struct store_read *rd;
	uint8_t state;
	int res;
};
struct store_read {
	struct store_set *set;
	struct reactor *home;
	struct store_key key;
	uint64_t off; /* bytes, any */
	uint64_t len; /* clipped to the value when the first piece is there */
	uint64_t want_ver;
	uint8_t flags;
	bool is_eager;
	void (*piece)(struct store_read *rd, const struct store_view *v, uint64_t off,
		      uint64_t len);
	void (*end)(struct store_read *rd, int res);
	/* Out, from the first piece() on. */
	uint64_t ver;
	uint32_t value_len;
	uint8_t tier;
	/* Its own. */
	uint64_t pos;
	uint64_t issued;
	uint64_t given;	 /* bytes of the piece that the reader has */
	uint8_t nr_used; /* slots from `first` on that are not free */
	uint8_t first;
	bool is_pinned; /* the first piece has come */
	bool is_over;
	bool is_running;
	int res;
	struct store_read_slot slot[STORE_READ_AHEAD];
};
/* The struct may be reused from end() on. piece() and end() may run inside. */
void store_read_start(struct store_read *rd);
/*
 * The piece is done: is_bad = its bytes did not fit the seals (the read ends with -ENOENT). err
 * < 0 ends the read.
 */
void store_read_next(struct store_read *rd, bool is_bad, int err);

#endif
