/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LD_PRELOADed into the program under test: every allocation is an event that may be told to fail,
 * and blocks are counted, so that a driver sees what was not given back. NTH_PAGE names the file of
 * the shared page; without it, this does nothing. Any thread of the program.
 *
 * The real functions are glibc's __libc_*: dlsym() allocates.
 */
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "nth.h"

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t nr, size_t n);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);

static struct nth_page *shim_page;
static _Thread_local int shim_depth;

static void shim_say(const char *fn, size_t n)
{
	void *at[NTH_FRAMES + 2];
	int nr;

	shim_depth++;
	snprintf(shim_page->what, sizeof(shim_page->what), "%s of %zu bytes", fn, n);
	nr = backtrace(at, NTH_FRAMES + 2);
	for (int i = 2; i < nr; i++)
		shim_page->frame[i - 2] = (uint64_t)at[i];
	atomic_store(&shim_page->nr_frames, nr > 2 ? (uint64_t)nr - 2 : 0);
	shim_depth--;
}

__attribute__((noinline)) static int shim_fails(const char *fn, size_t n)
{
	int due;

	if (!shim_page || shim_depth)
		return 0;
	due = nth_is_due(shim_page, NTH_ALLOCS);
	if (due == 1)
		shim_say(fn, n);
	if (due)
		errno = ENOMEM;
	return due;
}

static void *shim_got(void *p)
{
	if (p && shim_page)
		atomic_fetch_add(&shim_page->nr_live, 1);
	return p;
}

void *malloc(size_t n)
{
	return shim_fails("malloc", n) ? NULL : shim_got(__libc_malloc(n));
}

void *calloc(size_t nr, size_t n)
{
	return shim_fails("calloc", nr * n) ? NULL : shim_got(__libc_calloc(nr, n));
}

void *realloc(void *p, size_t n)
{
	if (n && shim_fails("realloc", n))
		return NULL;
	if (!p)
		return shim_got(__libc_realloc(NULL, n));
	if (n == 0 && shim_page)
		atomic_fetch_sub(&shim_page->nr_live, 1);
	return __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n)
{
	return shim_fails("aligned_alloc", n) ? NULL : shim_got(__libc_memalign(align, n));
}

void *memalign(size_t align, size_t n)
{
	return shim_fails("memalign", n) ? NULL : shim_got(__libc_memalign(align, n));
}

int posix_memalign(void **p, size_t align, size_t n)
{
	void *got = shim_fails("posix_memalign", n) ? NULL : shim_got(__libc_memalign(align, n));

	if (!got)
		return ENOMEM;
	*p = got;
	return 0;
}

void free(void *p)
{
	int err = errno;

	if (p && shim_page)
		atomic_fetch_sub(&shim_page->nr_live, 1);
	__libc_free(p);
	errno = err;
}

/* The first is the program itself. */
static int shim_base(struct dl_phdr_info *info, size_t bytes, void *page)
{
	(void)bytes;
	atomic_store(&((struct nth_page *)page)->base, info->dlpi_addr);
	return 1;
}

__attribute__((constructor)) static void shim_init(void)
{
	const char *path = getenv("NTH_PAGE");
	void *at[2], *p;
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	p = mmap(NULL, sizeof(struct nth_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return;
	(void)backtrace(at, 2); /* loads what it needs */
	dl_iterate_phdr(shim_base, p);
	shim_page = p;
	atomic_store(&shim_page->is_on, 1);
}
