/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which values are worth being written to flash. While the budget of bytes a day is at least a
 * quarter full: everything, for on real traces the first reuse is most of the reuse, and asking for
 * a second touch loses it. Below that: what has been asked for twice. At any level:
 *
 *  - partial tails never: of a class whose values nearly all have one length, a shorter one is the
 *    end of a prompt, which the next turn replaces;
 *  - classes of which next to nothing was used before it was evicted, but for one value in sixteen,
 *    which shows whether that has changed.
 *
 * Values without a class (0) are only asked about the budget. Pure: no I/O, no clock. One thread.
 */
#ifndef POLICY_ADMIT_H
#define POLICY_ADMIT_H

#include <stdbool.h>
#include <stdint.h>

#define ADMIT_SEEN 8192u   /* refused keys that are remembered */
#define ADMIT_CLASSES 128u /* that are known at a time */

struct admit_class {
	uint16_t cls; /* 0: nobody's */
	bool is_dead;
	uint8_t nr_probes;
	uint32_t len; /* that most have */
	uint32_t sure;
	uint32_t nr_gone, nr_used; /* of the values evicted in this window */
};

struct admit {
	uint32_t seen[ADMIT_SEEN];
	struct admit_class classes[ADMIT_CLASSES];
};

/* level: of the budget, 0 to 1024 (wear_budget_level()). True: write it. */
bool admit_wants(struct admit *a, uint64_t hash, uint16_t cls, uint32_t len, uint32_t level);
/* A value of the class is evicted from flash; it was used there, or not. */
void admit_gone(struct admit *a, uint16_t cls, bool was_used);

#endif
