/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a domain of memory other than the host's implements (CUDA, HIP, the tests' fake one): small
 * synchronous accesses, and copies between a region of its own and our pinned host memory that
 * finish later. The engine cuts transfers into copies, hashes on the host side and keeps order
 * where it is needed; copies may finish in any order.
 */
#ifndef MEM_MEM_DOMAIN_H
#define MEM_MEM_DOMAIN_H

#include "mem/mem.h"

/* One piece on its way. It belongs to the domain from copy() until end(). */
struct mem_copy {
	struct list node;     /* the domain's */
	struct mem_run peer;  /* in the domain */
	struct mem_run value; /* ours, host */
	enum mem_xfer_dir dir;
	void (*end)(struct mem_copy *c, int res); /* 0 or -errno */
	struct mem_job *job;			  /* the engine's */
};

struct mem_domain_ops {
	const char *name;
	/* As mem_peek() and mem_poke() and mem_poke_cqe(); NULL: -EFAULT. */
	int (*peek)(const struct mem_run *src, void *dst);
	int (*poke)(const struct mem_run *dst, const void *src);
	int (*poke_cqe)(const struct mem_run *dst, const void *cqe);
	/*
	 * The state of one engine: streams, events. 0 or -errno. Together with close, copy and
	 * poll, or not.
	 */
	int (*open)(struct reactor *r, void **state);
	void (*close)(void *state);
	/* Queues one copy; end() never runs inside. */
	void (*copy)(void *state, struct mem_copy *c);
	/*
	 * Starts what was queued since the last call, as one batch; runs end() of what has
	 * finished.
	 */
	int (*poll)(void *state);
};

/* Before the first engine is created, once per domain. */
void mem_domain_register(enum mem_domain domain, const struct mem_domain_ops *ops);
/* NULL = this machine or build has no such domain. */
const struct mem_domain_ops *mem_domain_ops(enum mem_domain domain);

#endif
