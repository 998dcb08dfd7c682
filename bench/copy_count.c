/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LD_PRELOADed into a peald: adds up what goes through memcpy() and memmove(), of 4 KiB or more at
 * a time, in all of its threads and libraries, librados' included. The sum is the first 8 bytes of
 * the file that PEAL_COPY_COUNT names. What the kernel copies, or code that copies by itself, isn't
 * seen. bench/ceph reads it.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNT_MIN 4096u

static _Atomic uint64_t *copy_count;

__attribute__((constructor)) static void count_open(void)
{
	const char *path = getenv("PEAL_COPY_COUNT");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *p;

	if (fd < 0)
		return;
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p != MAP_FAILED)
		copy_count = p;
}

static void count_add(size_t n)
{
	if (n >= COUNT_MIN && copy_count)
		atomic_fetch_add_explicit(copy_count, n, memory_order_relaxed);
}

/* No call of the compiler's choice may stand in here: it would be ourselves. */
static void count_copy(void *to, const void *from, size_t n)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

void *memcpy(void *to, const void *from, size_t n)
{
	count_add(n);
	count_copy(to, from, n);
	return to;
}

void *memmove(void *to, const void *from, size_t n)
{
	const char *s = (const char *)from + n;
	char *d = (char *)to + n;

	if ((uintptr_t)to - (uintptr_t)from >= n)
		return memcpy(to, from, n);
	count_add(n);
	while (n--) {
		*--d = *--s;
		__asm__ volatile("" : : : "memory"); /* or gcc makes a memmove() of it */
	}
	return to;
}
