/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room to slide is looked for by reserving it; it is given back, and the file is mapped at the
 * place in it that fits, as a wish. MAP_FIXED over the reservation would be no wish, but a file
 * that refuses (a seal) does so when the reservation under it has gone already: what another thread
 * had mapped there meanwhile would be unmapped with the rest. What is too small for a huge page is
 * mapped as ever. Any thread.
 */
#include "base/hugemap.h"

#include <errno.h>
#include <sys/mman.h>

#define HUGEMAP_COLLAPSE 25 /* MADV_COLLAPSE, which older headers lack */

void *hugemap_shared(size_t bytes, int prot, int fd, uint64_t off)
{
	size_t wide = bytes + HUGEMAP_BYTES;
	uint8_t *room, *wish = NULL;
	void *p;

	if (bytes < HUGEMAP_BYTES || wide < bytes)
		return mmap(NULL, bytes, prot, MAP_SHARED, fd, (off_t)off);
	room = mmap(NULL, wide, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room != MAP_FAILED) {
		wish = room + (uintptr_t)(off - (uintptr_t)room) % HUGEMAP_BYTES;
		munmap(room, wide);
	}
	p = mmap(wish, bytes, prot, MAP_SHARED, fd, (off_t)off);
	if (p != MAP_FAILED)
		(void)madvise(p, bytes, MADV_HUGEPAGE);
	return p;
}

int hugemap_collapse(void *p, size_t bytes)
{
	/* One small page in each: the kernel has nothing to begin with otherwise. */
	for (size_t i = 0; i < bytes; i += HUGEMAP_BYTES)
		(void)*(volatile uint8_t *)((uint8_t *)p + i);
	return madvise(p, bytes, HUGEMAP_COLLAPSE) ? -errno : 0;
}

void *hugemap_own(size_t bytes)
{
	size_t wide = bytes + HUGEMAP_BYTES, before;
	uint8_t *room;

	if (wide < bytes) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	room = mmap(NULL, wide, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		    -1, 0);
	if (room == MAP_FAILED)
		return room;
	before = (size_t)(-(uintptr_t)room % HUGEMAP_BYTES);
	if (before)
		munmap(room, before);
	if (HUGEMAP_BYTES - before)
		munmap(room + before + bytes, HUGEMAP_BYTES - before);
	(void)madvise(room + before, bytes, MADV_HUGEPAGE);
	return room + before;
}
