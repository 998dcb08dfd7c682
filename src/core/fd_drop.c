/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See fd_drop.h. What a descriptor is, is found out without asking its file system, which might be
 * what makes us wait: F_GET_SEALS works on memory files alone, and the link in /proc names an
 * eventfd. (fstat() and fstatfs() of a FUSE file are questions to its server.) Any thread; what
 * waits and who closes is under one lock, held for a few instructions and a thread's making.
 */
#include "core/fd_drop.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/must.h"
#include "core/thread.h"

static pthread_mutex_t fd_drop_lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static unsigned fd_drop_threads;
static int *fd_drop_fds; /* for which there was no thread */
static uint32_t fd_drop_nr, fd_drop_cap;

bool fd_drop_is_memory(int fd)
{
	return fcntl(fd, F_GET_SEALS) >= 0;
}

bool fd_drop_is_eventfd(int fd)
{
	static const char want[] = "anon_inode:[eventfd]";
	char path[40], link[40];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, link, sizeof(link));
	return n == sizeof(want) - 1 && memcmp(link, want, sizeof(want) - 1) == 0;
}

unsigned fd_drop_nr_stuck(void)
{
	auto_unlock pthread_mutex_t *held = cleanup_lock(&fd_drop_lock);

	return fd_drop_threads + fd_drop_nr;
}

/* The next that waits; when there is none, this thread is over. */
static int fd_drop_next(void)
{
	auto_unlock pthread_mutex_t *held = cleanup_lock(&fd_drop_lock);

	if (fd_drop_nr)
		return fd_drop_fds[--fd_drop_nr];
	fd_drop_threads--;
	return -1;
}

static void *fd_drop_main(void *arg)
{
	int fd = (int)(intptr_t)arg;

	do {
		close(fd);
		fd = fd_drop_next();
	} while (fd >= 0);
	return NULL;
}

static bool fd_drop_start(int fd)
{
	pthread_t thread;

	if (fd_drop_threads >= FD_DROP_THREADS ||
	    thread_start(&thread, "peal-drop", -1, fd_drop_main, (void *)(intptr_t)fd))
		return false;
	must(pthread_detach(thread) == 0);
	fd_drop_threads++;
	return true;
}

/* No thread for it now: one of those that there are takes it when it gets away. */
static bool fd_drop_wait(int fd)
{
	uint32_t cap = fd_drop_cap ? 2 * fd_drop_cap : 256;
	int *fds;

	if (fd_drop_nr == fd_drop_cap) {
		fds = realloc(fd_drop_fds, cap * sizeof(*fds));
		if (!fds)
			return false;
		fd_drop_fds = fds;
		fd_drop_cap = cap;
	}
	fd_drop_fds[fd_drop_nr++] = fd;
	return true;
}

void fd_drop(int fd)
{
	bool is_lost;

	if (fd_drop_is_memory(fd) || fd_drop_is_eventfd(fd)) {
		close(fd);
		return;
	}
	pthread_mutex_lock(&fd_drop_lock);
	is_lost = !fd_drop_start(fd) && !fd_drop_wait(fd);
	pthread_mutex_unlock(&fd_drop_lock);
	if (is_lost)
		log_once_warn("a descriptor of a client's stays open: no memory, no thread");
}
