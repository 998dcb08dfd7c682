/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue pair of one's own, to be driven by peal/device.h: from a thread here, or by a GPU that
 * the memory is registered with (peal/gpu.h does that). It has a connection of its own, and nothing
 * in this library touches its rings.
 *
 *	struct peal_pair *pair;
 *	if (peal_pair_open("vfu:/run/peal/cntrl", NULL, &pair) < 0)
 *		errx(1, "%s", peal_errmsg());
 *	struct peal_pair_info info;
 *	peal_pair_info(pair, &info);
 *	struct peal_device_queue q = info.q;
 *	... peal_sqe_retrieve(&s, info.nsid, &key, 0); peal_sqe_sgl(&s, info.data_iova, room); ...
 *
 * The daemon isn't woken by its doorbells: an idle one looks every 5 ms, or as often as
 * peald --poll says. No reconnect: when the daemon is gone, so is the pair. Linked from libpeal;
 * C11 and C++17. A pair is one thread's at a time.
 */
#ifndef PEAL_PAIR_H
#define PEAL_PAIR_H

#include <stddef.h>
#include <stdint.h>
#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

struct peal_pair;

struct peal_pair_opts {
	uint32_t nsid;	     /* 0 = the lowest KV namespace */
	uint32_t depth;	     /* commands under way, 1 to 4095; 0 = 1023 */
	uint64_t data_bytes; /* of memory that commands may name; 0 = 64 MiB */
	uint32_t timeout_ms; /* of opening and closing; 0 = 2000 */
};

struct peal_pair_info {
	struct peal_device_queue q; /* as it is at the start */
	void *rings;		    /* both, one mapping */
	size_t rings_bytes;
	void *bells; /* the doorbells' pages */
	size_t bells_bytes;
	void *data; /* the memory, 4 KiB aligned, zeroed, and where the daemon sees it */
	size_t data_bytes;
	uint64_t data_iova;
	uint32_t nsid;
	uint32_t value_max; /* bytes */
	uint32_t match_max; /* keys of one MATCH; 0: there is no such command */
	int has_lease;
};

/* -errno with a message, as peal_open(); -EOPNOTSUPP: a controller without SGLs. */
int peal_pair_open(const char *uri, const struct peal_pair_opts *o, struct peal_pair **pair);
/* Whatever is under way then: the daemon has let go of the memory, or is dead. NULL is fine. */
void peal_pair_close(struct peal_pair *pair);
void peal_pair_info(const struct peal_pair *pair, struct peal_pair_info *info);
/* 0, or -ENOTCONN: the daemon is gone, and will answer nothing that it hasn't. */
int peal_pair_check(struct peal_pair *pair);
/*
 * Arena segment `nr`, mapped read-only as long as the pair is open: what extents of leases point
 * into. -ENOENT: there is none of that number.
 */
int peal_pair_segment(struct peal_pair *pair, uint32_t nr, const void **ptr, size_t *bytes);

#ifdef __cplusplus
}
#endif

#endif
