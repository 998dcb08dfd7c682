/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See fd_drop.h. What a descriptor is, is found out without asking its file system, which might be
 * what makes us wait: F_GET_SEALS works on memory files alone, and the link in /proc names an
 * eventfd. (fstat() and fstatfs() of a FUSE file are questions to its server.) Any thread; the
 * count of threads is the one thing shared.
 */
#include "core/fd_drop.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/must.h"
#include "core/thread.h"

static _Atomic unsigned fd_drop_threads;

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
	return atomic_load_explicit(&fd_drop_threads, memory_order_relaxed);
}

static void *fd_drop_main(void *arg)
{
	close((int)(intptr_t)arg);
	atomic_fetch_sub_explicit(&fd_drop_threads, 1, memory_order_relaxed);
	return NULL;
}

static bool fd_drop_start(int fd)
{
	pthread_t thread;

	if (atomic_fetch_add_explicit(&fd_drop_threads, 1, memory_order_relaxed) <
		    FD_DROP_THREADS &&
	    thread_start(&thread, "peal-drop", -1, fd_drop_main, (void *)(intptr_t)fd) == 0) {
		must(pthread_detach(thread) == 0);
		return true;
	}
	atomic_fetch_sub_explicit(&fd_drop_threads, 1, memory_order_relaxed);
	return false;
}

void fd_drop(int fd)
{
	if (fd_drop_is_memory(fd) || fd_drop_is_eventfd(fd))
		close(fd);
	else if (!fd_drop_start(fd))
		log_once_warn("descriptors of clients that can't be closed: %u are under way, the "
			      "others stay open",
			      fd_drop_nr_stuck());
}
