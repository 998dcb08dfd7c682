/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much is brought up before anybody asks for it, and on whose word. Each source of guesses has
 * an accuracy: of the bytes that came on its word and have been judged (used, or evicted without a
 * use), the share that was used, older ones counting less. A source that is wrong too often is
 * switched off; one wish in PREFETCH_TRY is still granted then, so that it can come back. What was
 * brought and not yet used has a bound, a share of the tier that it fills.
 *
 * Hints are somebody's word and not a guess: bounded, never switched off. Pure: no I/O, no clock.
 * One thread.
 */
#ifndef POLICY_PREFETCH_H
#define POLICY_PREFETCH_H

#include <stdbool.h>
#include <stdint.h>

enum prefetch_source {
	PREFETCH_HINT,	/* a client said so */
	PREFETCH_CHAIN, /* a MATCH asked about it */
	PREFETCH_AHEAD, /* written behind what was just read, by the same group */
	PREFETCH_SOURCES,
};

#define PREFETCH_SHARE 4u		 /* of the tier: a quarter */
#define PREFETCH_GOOD_PERCENT 30u	 /* below that a source is off */
#define PREFETCH_JUDGE_BYTES (32u << 20) /* judged before that is decided */
#define PREFETCH_TRY 16u

struct prefetch_stat {
	uint64_t used;	 /* bytes; halved with wasted when they are many */
	uint64_t wasted; /* likewise */
	uint64_t nr_refused;
};

struct prefetch {
	uint64_t tier_bytes;
	uint64_t out_bytes; /* wished for or brought, and not judged */
	struct prefetch_stat stat[PREFETCH_SOURCES];
};

void prefetch_init(struct prefetch *p, uint64_t tier_bytes);
/* May `bytes` be brought? True takes them; prefetch_used() or prefetch_wasted() gives them back. */
bool prefetch_wants(struct prefetch *p, enum prefetch_source src, uint64_t bytes);
void prefetch_used(struct prefetch *p, enum prefetch_source src, uint64_t bytes);
void prefetch_wasted(struct prefetch *p, enum prefetch_source src, uint64_t bytes);
/* It wasn't brought after all: no judgement. */
void prefetch_undone(struct prefetch *p, uint64_t bytes);
bool prefetch_is_off(const struct prefetch *p, enum prefetch_source src);

#endif
