/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which values of a segment that is reclaimed are written again: those that were used since they
 * were written, within a budget that is a share of the segment. Pure: no I/O, no clock. One thread.
 */
#ifndef POLICY_REINSERT_H
#define POLICY_REINSERT_H

#include <stdbool.h>
#include <stdint.h>

struct reinsert {
	uint32_t share_1024; /* of a segment's bytes, at most, in 1024ths; 0: nothing */
	uint64_t left_bytes; /* of this segment's budget */
};

void reinsert_begin(struct reinsert *r, uint64_t segment_bytes);
/* A value of `bytes` that was used `hits` times: true takes it out of the budget. */
bool reinsert_wants(struct reinsert *r, uint32_t hits, uint64_t bytes);

#endif
