/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared mappings of a file that the processor can walk with huge pages: where the kernel gives a
 * memfd huge pages (transparent ones, /sys/kernel/mm/transparent_hugepage/shmem_enabled "advise"),
 * a mapping profits only if its address and the file's offset agree modulo 2 MiB, which mmap()
 * alone doesn't see to. Random 4 KiB out of gigabytes costs a page walk each otherwise. Any thread.
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
