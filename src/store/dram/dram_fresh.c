/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that other machines may change below: such a one is answered from here for fresh_ns after
 * it was seen there, then it is a miss, and what is below is asked. Nobody has to tell us anything,
 * so it holds as well when we can't hear each other. A value that hasn't been written yet is our
 * own; it is written at once in such a set (is_through).
 *
 * Times are milliseconds modulo 2^32, so that a table of four bytes for each entry does; an entry
 * that nobody looks at for 24 days may be answered once more. Runs on the shard's owner.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/must.h"
#include "store/dram/dram_int.h"

#define FRESH_UNIT_NS 1000000u

int dram_fresh_init(struct dram *d, uint64_t fresh_ns, uint32_t max_keys)
{
	d->fresh_ns = fresh_ns;
	if (!fresh_ns)
		return 0;
	d->fresh_ms = calloc((size_t)max_keys + 1, sizeof(*d->fresh_ms));
	return d->fresh_ms ? 0 : -ENOMEM;
}

void dram_fresh_fini(struct dram *d)
{
	free(d->fresh_ms);
}

uint64_t dram_fresh_cost(const struct dram *d, uint32_t max_keys)
{
	return d->fresh_ns ? ((uint64_t)max_keys + 1) * sizeof(*d->fresh_ms) : 0;
}

void dram_fresh_seen(struct dram *d, const struct dram_entry *e, uint64_t at_ns)
{
	if (d->fresh_ns)
		d->fresh_ms[dram_index_no(&d->ix, e)] =
			(uint32_t)((at_ns + d->fresh_ns) / FRESH_UNIT_NS);
}

bool dram_fresh_drop(struct dram *d, struct dram_entry *e)
{
	uint32_t now_ms = (uint32_t)(reactor_now_ns(d->st.owner) / FRESH_UNIT_NS);

	must(e->is_linked);
	if (e->is_dirty || (int32_t)(now_ms - d->fresh_ms[dram_index_no(&d->ix, e)]) < 0)
		return false;
	counter_add(&d->count.evictions, 1);
	counter_add(&d->count.evicted_bytes, e->len);
	dram_value_drop(d, e);
	return true;
}
