/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared mappings of a file that the processor can walk with huge pages: where the kernel gives a
 * memfd huge pages (transparent ones, /sys/kernel/mm/transparent_hugepage/shmem_enabled "advise"),
 * a mapping profits only if its address and the file's offset agree modulo 2 MiB, which mmap()
 * alone doesn't see to. Random 4 KiB out of gigabytes costs a page walk each otherwise. And memory
 * of our own that devices read into and write from: of small pages each is a segment of a request.
 * Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define HUGEMAP_BYTES ((uint64_t)2 << 20)

/*
 * As mmap(NULL, bytes, prot, MAP_SHARED, fd, off); off is a multiple of the page. MAP_FAILED and
 * errno on failure. munmap() as ever.
 */
void *hugemap_shared(size_t bytes, int prot, int fd, uint64_t off);

/*
 * Makes huge pages of a part of such a mapping, from a border on, bytes being a multiple of
 * HUGEMAP_BYTES; what is in it stays. Of memory that isn't touched yet it takes as long as touching
 * it. 0; -errno where the kernel can't (before 6.1) or finds none, and the memory is as it was.
 */
int hugemap_collapse(void *p, size_t bytes);

/*
 * Zeroed memory of our own, taken when it is touched, from a huge page's border on; of huge pages
 * where the kernel gives some. munmap(p, bytes) ends it; bytes is a multiple of the page.
 * MAP_FAILED and errno on failure.
 */
void *hugemap_own(size_t bytes);
