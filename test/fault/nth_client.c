/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libpeal with its n-th allocation or system call failing, n = FIRST, FIRST + STEP, ... until a
 * call meets no more, for each call of peal.h in turn; nth_client.py starts this under nth_run,
 * beside a daemon that nothing fails in.
 *
 *	nth_client URI CASE FIRST STEP MODE | nth_client list
 *
 * Each call gives an error, and says which, or what is right, byte for byte; what it gives out is
 * untouched after an error. Then, without a fault, the same handle gives what is right, and no
 * block and no descriptor is kept. What isn't so ends this with status 1 and a line. Of a crash the
 * driver sees the signal, and in the page how far it came. One thread, and libpeal's own.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "nth_calls.h"

#define RETRY_MS 10000

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static unsigned nr_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned nr = 0;

	nth_check(d != NULL, "opendir", errno);
	while (readdir(d))
		nr++;
	closedir(d);
	return nr;
}

/* The same again with nothing failing: soon it is right. */
static void calm(const struct nth_case *c)
{
	uint64_t end = now_ms() + RETRY_MS;
	int rc;

	while ((rc = c->go()) != 0) {
		nth_check(now_ms() < end, "goes on failing without a fault", rc);
		usleep(1000);
	}
	while ((rc = nth_calls_look()) != 0)
		nth_check(now_ms() < end, "a get goes on failing", rc);
}

/* How many of its events failed that go: 0, then it met fewer. */
static uint64_t armed(const struct nth_case *c, uint64_t n, uint64_t mode, int *rc)
{
	atomic_store(&nth_at.page->mode, 0);
	atomic_store(&nth_at.page->count, 0);
	atomic_store(&nth_at.page->nr_failed, 0);
	atomic_store(&nth_at.page->nr_frames, 0);
	atomic_store(&nth_at.page->fail_at, n);
	atomic_store(&nth_at.page->mode, mode);
	*rc = c->go();
	atomic_store(&nth_at.page->mode, 0);
	if (*rc && peal_errmsg()[0] == 0)
		nth_wrong("an error without a text", *rc);
	if (c->after)
		c->after();
	return atomic_load(&nth_at.page->nr_failed);
}

struct kept {
	uint64_t blocks;
	unsigned fds;
};

static struct kept kept(void)
{
	return (struct kept){atomic_load(&nth_at.page->nr_live), nr_fds()};
}

/* More than before may be a cache: then the same once more adds nothing. */
static struct kept check_kept(const struct nth_case *c, uint64_t mode, struct kept was)
{
	const struct kept first = was;
	struct kept now = was;
	int rc;

	for (int i = 0; i < 5; i++) {
		now = kept();
		if (now.blocks <= was.blocks && now.fds <= was.fds)
			return now;
		was = now;
		armed(c, nth_at.n, mode, &rc);
		calm(c);
	}
	nth_check(now.fds <= first.fds, "descriptors are kept, five times", now.fds - first.fds);
	nth_wrong("blocks are kept, five times", (long)(now.blocks - first.blocks));
	return now;
}

static void sweep(const struct nth_case *c, uint64_t first, uint64_t step, uint64_t mode)
{
	uint64_t nr = 0, bad = 0, failed;
	struct kept was;
	int rc;

	for (int i = 0; i < 5; i++)
		calm(c);
	was = kept();
	for (nth_at.n = first;; nth_at.n += step) {
		failed = armed(c, nth_at.n, mode, &rc);
		if (!failed)
			break;
		nr++;
		bad += rc != 0;
		calm(c);
		was = check_kept(c, mode, was);
	}
	nth_check(rc == 0, "fails without a fault", rc);
	printf("%s: %llu events, %llu gave an error\n", c->name, (unsigned long long)nr,
	       (unsigned long long)bad);
}

int main(int argc, char **argv)
{
	const char *path = getenv("NTH_PAGE");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

	for (const struct nth_case *c = nth_cases; argc == 2 && c->name; c++)
		puts(c->name);
	if (argc != 6 || fd < 0)
		return argc == 2 ? 0 : 2;
	nth_at.page = mmap(NULL, sizeof(*nth_at.page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (nth_at.page == MAP_FAILED)
		return 2;
	nth_at.uri = argv[1];
	nth_at.name = argv[2];
	nth_calls_init();
	if (strcmp(argv[2], "open") != 0)
		nth_calls_open();
	for (const struct nth_case *c = nth_cases; c->name; c++)
		if (strcmp(c->name, argv[2]) == 0)
			sweep(c, strtoull(argv[3], NULL, 0), strtoull(argv[4], NULL, 0),
			      strtoull(argv[5], NULL, 0));
	nth_calls_fini();
	return 0;
}
