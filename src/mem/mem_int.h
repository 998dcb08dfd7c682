/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside mem/ only: what its files share, the table entry of the host domain and the check of runs
 * that our own code made. Constant data and pure functions.
 */
#ifndef MEM_MEM_INT_H
#define MEM_MEM_INT_H

#include "base/must.h"
#include "mem/mem.h"

extern const struct mem_domain_ops mem_host_ops;

/* Runs are made by our own translation, which has checked what the peer said. */
static inline void mem_run_must(const struct mem_run *run)
{
	must(run->off <= run->reg->len && run->len <= run->reg->len - run->off);
}

#endif
