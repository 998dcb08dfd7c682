/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs that hold both ends of shared memory: what one end has mapped, the other gets at the
 * same address. ThreadSanitizer knows memory by its address, so only then does it see the two ends
 * meet: rings, doorbells, buffers, the arena. Linked with --wrap=mmap and --wrap=munmap.
 *
 * A mapping that is asked for by the second end must lie inside the first's, else it gets its own.
 * Any thread.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/must.h"
#include "one_map.h"

#define MAPS_MAX 8192

void *__real_mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t off);
int __real_munmap(void *addr, size_t len);
void *__wrap_mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off);
int __wrap_munmap(void *addr, size_t len);

_Atomic unsigned one_map_nr_shared;

static struct map {
	uint8_t *at; /* NULL: free */
	size_t len;
	off_t off;
	dev_t dev;
	ino_t ino;
	unsigned refs;
} maps[MAPS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct map *map_find(const struct stat *st, off_t off, size_t len)
{
	for (unsigned i = 0; i < MAPS_MAX; i++) {
		struct map *m = &maps[i];

		if (m->at && m->dev == st->st_dev && m->ino == st->st_ino && off >= m->off &&
		    (size_t)(off - m->off) + len <= m->len)
			return m;
	}
	return NULL;
}

static void map_note(const struct stat *st, void *at, off_t off, size_t len)
{
	for (unsigned i = 0; i < MAPS_MAX; i++) {
		if (maps[i].at)
			continue;
		maps[i] = (struct map){at, len, off, st->st_dev, st->st_ino, 1};
		return;
	}
	must_not_reach();
}

/* tidy: what mmap() takes */
void *__wrap_mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	struct stat st;
	struct map *m;
	void *at;

	if (addr || fd < 0 || !(flags & MAP_SHARED) || fstat(fd, &st))
		return __real_mmap64(addr, len, prot, flags, fd, off);
	pthread_mutex_lock(&lock);
	m = map_find(&st, off, len);
	if (m) {
		m->refs++;
		one_map_nr_shared++;
		at = m->at + (off - m->off);
	} else {
		/* Writable: whoever comes second may want to. */
		at = __real_mmap64(NULL, len, prot | PROT_WRITE, flags, fd, off);
		if (at == MAP_FAILED)
			at = __real_mmap64(NULL, len, prot, flags, fd, off);
		if (at != MAP_FAILED)
			map_note(&st, at, off, len);
	}
	pthread_mutex_unlock(&lock);
	return at;
}

/* tidy: what mmap() takes */
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	return __wrap_mmap64(addr, len, prot, flags, fd, off);
}

int __wrap_munmap(void *addr, size_t len)
{
	struct map *m = NULL;
	int err = 0;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < MAPS_MAX && !m; i++)
		if (maps[i].at && (uint8_t *)addr >= maps[i].at &&
		    (uint8_t *)addr < maps[i].at + maps[i].len)
			m = &maps[i];
	if (m && --m->refs == 0) {
		err = __real_munmap(m->at, m->len);
		m->at = NULL;
	}
	pthread_mutex_unlock(&lock);
	return m ? err : __real_munmap(addr, len);
}
