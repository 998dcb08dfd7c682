/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See dram_heap.h: a mapping and a buddy over its granules. Runs on the shard's owner.
 */
#include "store/dram/dram_heap.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/container.h"
#include "base/must.h"

#define HEAP_PAGE 4096u

static uint32_t side_granules(uint64_t bytes)
{
	return (uint32_t)div_round_up(bytes, DRAM_SIDE_GRANULE);
}

uint64_t dram_heap_cost(uint64_t bytes)
{
	return align_up(bytes, HEAP_PAGE) + dram_buddy_bytes(side_granules(bytes));
}

int dram_heap_init(struct dram_heap *h, uint64_t bytes)
{
	int err;

	h->map_bytes = align_up(bytes, HEAP_PAGE);
	h->base = mmap(NULL, h->map_bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (h->base == MAP_FAILED)
		return -ENOMEM;
	/* Granule 0 isn't the buddy's: its number says "none". */
	err = dram_buddy_init(&h->buddy, side_granules(h->map_bytes) - 1);
	if (err) {
		munmap(h->base, h->map_bytes);
		return err;
	}
	return 0;
}

void dram_heap_fini(struct dram_heap *h)
{
	dram_buddy_fini(&h->buddy);
	munmap(h->base, h->map_bytes);
}

uint32_t dram_heap_alloc(struct dram_heap *h, uint64_t bytes)
{
	uint32_t at = dram_buddy_alloc(&h->buddy, side_granules(bytes));

	return at == DRAM_BUDDY_NONE ? DRAM_SIDE_NONE : at + 1;
}

void dram_heap_free(struct dram_heap *h, uint32_t at, uint64_t bytes)
{
	must(at != DRAM_SIDE_NONE);
	dram_buddy_free(&h->buddy, at - 1, side_granules(bytes));
}
