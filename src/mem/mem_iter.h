/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_iter over an array of runs that the owner keeps: what a store's extents and most tests need.
 */
#ifndef MEM_MEM_ITER_H
#define MEM_MEM_ITER_H

#include "mem/mem.h"

struct mem_iter_runs {
	struct mem_iter it;
	const struct mem_run *runs; /* what is left; none of length 0 */
	uint32_t nr;
	uint64_t pos; /* in runs[0] */
};

/* next() gives -ENODATA behind the last one. */
void mem_iter_runs_init(struct mem_iter_runs *ir, const struct mem_run *runs, uint32_t nr);

#endif
