/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See linger.h. Whether a process lives is what /proc says, who has a lock what /proc/locks says.
 */
#include "base/linger.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "base/cleanup.h"

#define LINGER_NS 20000000

bool linger_is_alive(int pid)
{
	char path[64], line[128];
	auto_fclose FILE *f = NULL;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "State:", 6) == 0)
			return !strpbrk(line + 6, "ZX");
	return false;
}

void linger_wait(void)
{
	nanosleep(&(struct timespec){.tv_nsec = LINGER_NS}, NULL);
}

/*
 * Who has the lock? Whether one of them is alive is what /proc/locks says; true also when it can't
 * be known.
 */
static bool linger_has_holder(int fd)
{
	auto_fclose FILE *f = fopen("/proc/locks", "re");
	unsigned long long ino;
	unsigned maj, min;
	char line[256];
	struct stat st;
	int pid;

	if (!f || fstat(fd, &st))
		return true;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*s FLOCK %*s %*s %d %x:%x:%llu", &pid, &maj, &min, &ino) != 4)
			continue;
		if (ino == st.st_ino && maj == major(st.st_dev) && min == minor(st.st_dev) &&
		    linger_is_alive(pid))
			return true;
	}
	return false;
}

int linger_lock(int fd)
{
	for (unsigned i = 0; flock(fd, LOCK_EX | LOCK_NB); i++) {
		if (errno != EWOULDBLOCK)
			return -errno;
		if (i == LINGER_TRIES || linger_has_holder(fd))
			return -EBUSY;
		linger_wait();
	}
	return 0;
}
