/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of several devices takes something new? Weighted rendezvous hashing: each device draws a
 * number from (what, its id), scaled by its weight, and the highest one has it. So each gets its
 * share; when one is added, things go to it and to no other; when one goes, only its own go
 * elsewhere; and nobody keeps a table. Pure, any thread.
 */
#ifndef POLICY_PLACE_H
#define POLICY_PLACE_H

#include <stdint.h>

struct place_dev {
	uint64_t id;	 /* stays its own whatever else is there */
	uint32_t weight; /* its share, in any unit; 0: it takes nothing */
};

/* The one that takes `what`, a hash; -1: none does. */
int place_pick(uint64_t what, const struct place_dev *devs, unsigned nr);

#endif
