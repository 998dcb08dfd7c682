/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See dram_buddy.h. Invariants: a set bit of order k is a free block whose buddy of order k is not
 * wholly free; no granule is in two free blocks; nr_free is the sum. One thread.
 */
#include "store/dram/dram_buddy.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/container.h"
#include "base/must.h"

#define BUDDY_PAGE 4096u

size_t dram_buddy_bytes(uint32_t nr)
{
	size_t sum = 0;

	for (uint32_t k = 0; k < DRAM_BUDDY_ORDERS && nr >> k; k++)
		sum += dram_bits_bytes(nr >> k);
	return align_up(sum, BUDDY_PAGE);
}

static void block_add(struct dram_buddy *b, uint32_t at, uint32_t k)
{
	dram_bits_set(&b->free[k], at >> k);
	b->nr_blocks[k]++;
	b->orders |= 1u << k;
}

static void block_del(struct dram_buddy *b, uint32_t at, uint32_t k)
{
	dram_bits_clear(&b->free[k], at >> k);
	if (--b->nr_blocks[k] == 0)
		b->orders &= ~(1u << k);
}

/*
 * Frees an aligned block, merging upwards. A block that would reach past nr has no bit and so never
 * merges.
 */
static void block_free(struct dram_buddy *b, uint32_t at, uint32_t k)
{
	uint32_t buddy;

	for (; k + 1 < DRAM_BUDDY_ORDERS; k++) {
		buddy = (at ^ 1u << k) >> k;
		if (buddy >= b->free[k].nr || !dram_bits_test(&b->free[k], buddy))
			break;
		block_del(b, buddy << k, k);
		at &= ~(1u << k);
	}
	must(!dram_bits_test(&b->free[k], at >> k));
	block_add(b, at, k);
}

void dram_buddy_free(struct dram_buddy *b, uint32_t at, uint32_t n)
{
	uint32_t k;

	must(n > 0 && at < b->nr && n <= b->nr - at);
	b->nr_free += n;
	must(b->nr_free <= b->nr);
	while (n) {
		k = ilog2_u64(n);
		if (at)
			k = min_t(uint32_t, k, (uint32_t)__builtin_ctz(at));
		block_free(b, at, k);
		at += 1u << k;
		n -= 1u << k;
	}
}

uint32_t dram_buddy_alloc(struct dram_buddy *b, uint32_t n)
{
	uint32_t k = dram_buddy_fit(b, n), at;

	must(n > 0);
	if (k == DRAM_BUDDY_ORDERS)
		return DRAM_BUDDY_NONE;
	at = (uint32_t)dram_bits_next(&b->free[k], 0) << k;
	block_del(b, at, k);
	b->nr_free -= 1u << k;
	if (n < 1u << k)
		dram_buddy_free(b, at + n, (1u << k) - n);
	return at;
}

int dram_buddy_init(struct dram_buddy *b, uint32_t nr)
{
	uint8_t *at;

	must(nr > 0 && nr < 1u << DRAM_BUDDY_ORDERS);
	memset(b, 0, sizeof(*b));
	b->map_bytes = dram_buddy_bytes(nr);
	b->map = mmap(NULL, b->map_bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (b->map == MAP_FAILED)
		return -ENOMEM;
	at = b->map;
	for (uint32_t k = 0; k < DRAM_BUDDY_ORDERS && nr >> k; k++) {
		dram_bits_init(&b->free[k], at, nr >> k);
		at += dram_bits_bytes(nr >> k);
	}
	b->nr = nr;
	dram_buddy_free(b, 0, nr);
	return 0;
}

void dram_buddy_fini(struct dram_buddy *b)
{
	munmap(b->map, b->map_bytes);
}
