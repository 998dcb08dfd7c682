/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An address is reserved with room to slide, the file is mapped over the part that fits, the rest
 * goes back. What is too small for a huge page is mapped as ever. Any thread.
 */
#include "base/hugemap.h"

#include <sys/mman.h>

void *hugemap_shared(size_t bytes, int prot, int fd, uint64_t off)
{
	size_t wide = bytes + HUGEMAP_BYTES;
	uintptr_t slide;
	uint8_t *room;
	void *p;

	if (bytes < HUGEMAP_BYTES || wide < bytes)
		return mmap(NULL, bytes, prot, MAP_SHARED, fd, (off_t)off);
	room = mmap(NULL, wide, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return mmap(NULL, bytes, prot, MAP_SHARED, fd, (off_t)off);
	slide = (uintptr_t)(off - (uintptr_t)room) % HUGEMAP_BYTES;
	p = mmap(room + slide, bytes, prot, MAP_SHARED | MAP_FIXED, fd, (off_t)off);
	if (p == MAP_FAILED) {
		munmap(room, wide);
		return p;
	}
	/*
	 * The mapping ends with a whole page; munmap() rounds the start of what is left behind it
	 * up.
	 */
	bytes = (bytes + 4095) & ~(size_t)4095;
	if (slide)
		munmap(room, slide);
	if (slide + bytes < wide)
		munmap(room + slide + bytes, wide - slide - bytes);
	(void)madvise(p, bytes, MADV_HUGEPAGE);
	return p;
}
