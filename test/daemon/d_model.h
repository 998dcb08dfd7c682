/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The oracle: what was put, deleted and acknowledged, per key, with the host's own order of events.
 * A mutation has an interval, from its doorbell to its CQE. A value may be seen by a reader whose
 * interval is [begin, end] unless its put came after that, failed for sure, or was followed, before
 * the reader began, by another mutation that began after it had ended. Several may be seen when
 * they overlapped; then the bytes say which it was.
 *
 * Nothing is stored but numbers: a value's bytes follow from (salt, key, id of its put), so any
 * byte can be checked alone. In an immutable namespace all puts of a key have the same bytes.
 * One thread.
 */
#pragma once

#include "base/vec.h"
#include "store/store.h"

#define D_NEVER UINT64_MAX

enum d_mut_state {
	D_PENDING,
	D_ACKED,
	D_MAYBE,  /* it ended, nobody knows how: reset, abort, or a fault on the way */
	D_FAILED, /* it ended and has changed nothing */
};

struct d_mut {
	uint64_t begin, end;
	uint64_t seed; /* of the bytes */
	uint64_t id;
	uint32_t len;
	uint32_t ver; /* low half; 0 = not seen yet */
	uint8_t state;
	bool is_del;
	bool has_meta;
};

struct d_key {
	struct store_key k;
	VEC(struct d_mut)
	muts;
};

/* The bytes [off, off + len) of the value with that seed. */
void d_value_fill(uint64_t seed, uint64_t off, void *buf, size_t len);
bool d_value_check(uint64_t seed, uint64_t off, const void *buf, size_t len);
/* The seal of one of its chunks, as it must be. */
uint64_t d_value_seal(struct d_key *key, const struct d_mut *m, uint64_t chunk);

struct d_mut *d_key_begin(struct d_key *key, const struct d_mut *m); /* its end is set here */
void d_key_end(struct d_key *key, uint64_t id, uint64_t now, enum d_mut_state state);

struct d_span {
	uint64_t begin, end; /* the reader's */
	uint64_t self;	     /* its own mutation, if it is one: not seen */
};
bool d_key_may_see(struct d_key *key, const struct d_mut *m, const struct d_span *s);
bool d_key_may_hit(struct d_key *key, const struct d_span *s);
/* In a namespace that loses nothing: may a reader of that time miss the key? */
bool d_key_may_miss(struct d_key *key, const struct d_span *s);
/*
 * A reader has seen version `ver` on what m wrote: no other put has it, and those that came before
 * have lower ones. False: they don't.
 */
bool d_key_note_ver(struct d_key *key, struct d_mut *m, uint32_t ver);
