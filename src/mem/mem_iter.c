/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See mem_iter.h. The thread of whoever owns the iterator.
 */
#include "mem/mem_iter.h"

#include <errno.h>

#include "base/container.h"

static int mem_iter_runs_next(struct mem_iter *it, uint64_t max, struct mem_run *run)
{
	struct mem_iter_runs *ir = container_of(it, struct mem_iter_runs, it);

	if (ir->nr == 0)
		return -ENODATA;
	*run = (struct mem_run){
		.reg = ir->runs->reg,
		.off = ir->runs->off + ir->pos,
		.len = min_t(uint64_t, max, ir->runs->len - ir->pos),
	};
	ir->pos += run->len;
	if (ir->pos == ir->runs->len) {
		ir->runs++;
		ir->nr--;
		ir->pos = 0;
	}
	return 0;
}

void mem_iter_runs_init(struct mem_iter_runs *ir, const struct mem_run *runs, uint32_t nr)
{
	*ir = (struct mem_iter_runs){.it.next = mem_iter_runs_next, .runs = runs, .nr = nr};
}
