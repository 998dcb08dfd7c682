/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tiers of a namespace did while a trace was replayed, told by the daemon (RPC `stats`),
 * summed over its lives; and what its process wrote to disks, told by the kernel. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "cli/cli.h"

#define REPLAY_TIERS_MAX 8u

struct replay_tier {
	char name[16];
	uint64_t capacity_bytes;
	uint64_t nr_keys;
	uint64_t hits; /* these two since begin */
	uint64_t puts;
	uint64_t hits_base, puts_base; /* when this life was begun with */
};

struct replay_tiers {
	unsigned nr; /* 0: the daemon wasn't asked, or didn't say */
	struct replay_tier t[REPLAY_TIERS_MAX];
	bool has_written;
	uint64_t written_bytes;
	uint64_t written_base;
	int pid; /* of the daemon, this life's */
};

/* Begins to count. 0 or -errno: then nr is 0 and the other functions do nothing. */
int replay_tiers_begin(const struct cli *c, uint32_t nsid, struct replay_tiers *rt);
/* Adds what was done until now: the daemon may end. */
int replay_tiers_add(const struct cli *c, uint32_t nsid, struct replay_tiers *rt);
/* Another life has begun, with counters of zero. */
void replay_tiers_again(struct replay_tiers *rt);
/* Waits until the tiers know what was there when the daemon started. 0 or -errno; -ETIMEDOUT. */
int replay_tiers_recovered(const struct cli *c, uint32_t nsid);

/* NULL: there is none of this name. */
static inline const struct replay_tier *replay_tiers_find(const struct replay_tiers *rt,
							  const char *name)
{
	for (unsigned i = 0; i < rt->nr; i++)
		if (strcmp(rt->t[i].name, name) == 0)
			return &rt->t[i];
	return NULL;
}
