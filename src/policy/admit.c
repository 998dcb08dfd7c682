/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See admit.h. A class that another one pushes out of the table starts anew; a key that another one
 * pushes out of the seen has to be asked for once more. One thread.
 */
#include "policy/admit.h"

#include <stddef.h>

#include "base/container.h"

#define PLENTY 256u	    /* of 1024: everything goes */
#define SURE 32u	    /* values of one length, before shorter ones are tails */
#define SURE_MAX 256u	    /* what many have built up, some can undo */
#define UNSURE 4u	    /* that another length takes away: it takes four in five to be sure */
#define WINDOW 256u	    /* evicted values that a class is judged by, */
#define WINDOW_DEAD 32u	    /* and a dead one */
#define USED_LEAST 64u	    /* one in that many used is not dead */
#define PROBE_EVERY 16u	    /* of a dead class */
#define CLASS_SPREAD 40503u /* 2^16 / golden ratio */

static struct admit_class *admit_class(struct admit *a, uint16_t cls)
{
	struct admit_class *c =
		&a->classes[(uint16_t)(cls * CLASS_SPREAD) / (65536u / ADMIT_CLASSES)];

	if (c->cls != cls)
		*c = (struct admit_class){.cls = cls};
	return c;
}

/* A majority vote (Boyer and Moore), with a bias to doubt. */
static bool admit_is_tail(struct admit_class *c, uint32_t len)
{
	bool is_tail = c->sure >= SURE && len < c->len;

	if (len == c->len)
		c->sure += c->sure < SURE_MAX;
	else if (c->sure > UNSURE)
		c->sure -= UNSURE;
	else
		*c = (struct admit_class){.cls = c->cls,
					  .is_dead = c->is_dead,
					  .nr_probes = c->nr_probes,
					  .len = len,
					  .sure = 1,
					  .nr_gone = c->nr_gone,
					  .nr_used = c->nr_used};
	return is_tail;
}

static bool admit_is_dead(struct admit_class *c)
{
	return c->is_dead && ++c->nr_probes % PROBE_EVERY;
}

/* Twice in the memory of the refused. */
static bool admit_is_second(struct admit *a, uint64_t hash)
{
	uint32_t *seen = &a->seen[hash % ADMIT_SEEN], mark = (uint32_t)(hash >> 32) | 1;

	if (*seen == mark) {
		*seen = 0;
		return true;
	}
	*seen = mark;
	return false;
}

bool admit_wants(struct admit *a, uint64_t hash, uint16_t cls, uint32_t len, uint32_t level)
{
	struct admit_class *c = cls ? admit_class(a, cls) : NULL;

	if (c && (admit_is_tail(c, len) || admit_is_dead(c)))
		return false;
	return level >= PLENTY || (level && admit_is_second(a, hash));
}

void admit_gone(struct admit *a, uint16_t cls, bool was_used)
{
	struct admit_class *c;

	if (!cls)
		return;
	c = admit_class(a, cls);
	c->nr_gone++;
	c->nr_used += was_used;
	if (c->nr_gone < (c->is_dead ? WINDOW_DEAD : WINDOW))
		return;
	c->is_dead = c->nr_used * USED_LEAST < c->nr_gone;
	c->nr_gone = c->nr_used = 0;
}
