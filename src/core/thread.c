/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See thread.h. The signal mask is inherited from the creating thread, so it is changed there for
 * the moment of creation: the new thread never runs with another one.
 */
#include "core/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>

#include "base/must.h"

/*
 * Ample, and glibc keeps the stacks of ended threads up to 40 MiB: beyond that it gives them back,
 * and a munmap() that fails there ends the process (nptl/nptl-stack.c).
 */
#define THREAD_STACK_BYTES (2u << 20)

static void thread_mask(sigset_t *set)
{
	static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};

	sigfillset(set);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(set, own[i]);
}

static int thread_create(pthread_t *thread, int cpu, void *(*fn)(void *arg), void *arg)
{
	pthread_attr_t attr;
	cpu_set_t cpus;
	int err;

	err = pthread_attr_init(&attr);
	if (err)
		return -err;
	err = pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES);
	if (!err && cpu >= 0) {
		CPU_ZERO(&cpus);
		CPU_SET((unsigned)cpu, &cpus);
		err = pthread_attr_setaffinity_np(&attr, sizeof(cpus), &cpus);
	}
	if (!err)
		err = pthread_create(thread, &attr, fn, arg);
	pthread_attr_destroy(&attr);
	return -err;
}

int thread_start(pthread_t *thread, const char *name, int cpu, void *(*fn)(void *arg), void *arg)
{
	sigset_t set, old;
	char comm[16];
	int err;

	if (cpu >= CPU_SETSIZE)
		return -EINVAL;
	thread_mask(&set);
	must(pthread_sigmask(SIG_SETMASK, &set, &old) == 0);
	err = thread_create(thread, cpu, fn, arg);
	must(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
	if (err)
		return err;
	snprintf(comm, sizeof(comm), "%s", name);
	/* A name is only a courtesy to who looks at top. */
	(void)pthread_setname_np(*thread, comm);
	return 0;
}
