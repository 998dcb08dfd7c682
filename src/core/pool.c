/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See pool.h. Set-up and tear-down; the data path is inline there. The calling thread touches
 * nothing but the stack of free objects, so pages come from the node of whoever uses them first.
 */
#include "core/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/container.h"
#include "base/must.h"

#define POOL_HUGE_BYTES (2ull << 20)
#define POOL_LINE_BYTES 64u

static void *pool_mmap(size_t bytes, int flags)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1,
		       0);

	return p == MAP_FAILED ? NULL : p;
}

/* Aligned, so that the first and last pages can be huge ones too. */
static void *pool_mmap_huge(size_t bytes)
{
	size_t head, wide = bytes + POOL_HUGE_BYTES;
	uint8_t *p = pool_mmap(wide, 0);

	if (!p)
		return NULL;
	head = align_up((uintptr_t)p, POOL_HUGE_BYTES) - (uintptr_t)p;
	/*
	 * The kernel may have no room to cut a mapping: then addresses are lost, that nobody has
	 * touched and that cost nothing.
	 */
	if (head > 0)
		(void)munmap(p, head);
	p += head;
	(void)munmap(p + bytes, wide - head - bytes);
	/* Refused where transparent huge pages are not built in, which costs speed only. */
	(void)madvise(p, bytes, MADV_HUGEPAGE);
	return p;
}

void *pool_map(size_t bytes, size_t *map_bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t len;
	void *p;

	if (bytes == 0 || bytes > SIZE_MAX / 4)
		return NULL;
	if (bytes < POOL_HUGE_BYTES / 2) {
		len = align_up(bytes, page);
		p = pool_mmap(len, 0);
	} else {
		len = align_up(bytes, POOL_HUGE_BYTES);
		/* Fails at once unless the pages are there: MAP_HUGETLB reserves them. */
		p = pool_mmap(len, MAP_HUGETLB);
		if (!p)
			p = pool_mmap_huge(len);
	}
	if (p)
		*map_bytes = len;
	return p;
}

void pool_unmap(void *base, size_t map_bytes)
{
	/* As above: when the addresses can't be given back, the memory can. */
	if (base && munmap(base, map_bytes))
		(void)madvise(base, map_bytes, MADV_DONTNEED);
}

int pool_init(struct pool *p, size_t size, uint32_t nr, size_t align)
{
	size_t step, map_bytes;
	void **free_objs;
	uint8_t *base;

	must(size > 0 && nr > 0 && is_pow2(align) && align <= 4096);
	step = align_up(size, align);
	/*
	 * An odd number of lines: the same field of many objects lies in all sets of a cache, not
	 * in a few of them.
	 */
	if (align <= POOL_LINE_BYTES && step % (2 * POOL_LINE_BYTES) == 0)
		step += POOL_LINE_BYTES;
	if (step > UINT32_MAX || step > SIZE_MAX / 4 / nr)
		return -ENOMEM;
	free_objs = calloc(nr, sizeof(*free_objs));
	if (!free_objs)
		return -ENOMEM;
	base = pool_map(step * nr, &map_bytes);
	if (!base) {
		free(free_objs);
		return -ENOMEM;
	}
	*p = (struct pool){
		.base = base,
		.map_bytes = map_bytes,
		.size = (uint32_t)step,
		.nr = nr,
		.nr_free = nr,
		.nr_low = nr,
		.free = free_objs,
	};
	for (uint32_t i = 0; i < nr; i++)
		free_objs[i] = base + step * (nr - 1 - i);
	return 0;
}

void pool_fini(struct pool *p)
{
	must(p->nr_free == p->nr);
	pool_unmap(p->base, p->map_bytes);
	free(p->free);
	*p = (struct pool){0};
}
