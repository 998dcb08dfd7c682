/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread.c: the new thread's name, processor and signal mask, and that the starter's mask stays.
 */
#include "unit.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

#include "core/thread.h"

struct seen {
	char name[16];
	sigset_t mask;
	cpu_set_t cpus;
	pthread_barrier_t barrier;
};

static void *look(void *arg)
{
	struct seen *s = arg;

	pthread_barrier_wait(&s->barrier); /* the name is given after the start */
	pthread_getname_np(pthread_self(), s->name, sizeof(s->name));
	pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
	pthread_getaffinity_np(pthread_self(), sizeof(s->cpus), &s->cpus);
	return NULL;
}

static int first_cpu(void)
{
	cpu_set_t cpus;

	assert_int_equal(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (CPU_ISSET(i, &cpus))
			return i;
	}
	return -1;
}

static void t_start(void **state)
{
	sigset_t before, after;
	struct seen s;
	pthread_t thread;
	int cpu = first_cpu();

	pthread_barrier_init(&s.barrier, NULL, 2);
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	assert_int_equal(thread_start(&thread, "a-very-long-name-indeed", cpu, look, &s), 0);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	for (int sig = 1; sig < 32; sig++)
		assert_int_equal(sigismember(&before, sig), sigismember(&after, sig));
	pthread_barrier_wait(&s.barrier);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&s.barrier);
	assert_string_equal(s.name, "a-very-long-nam");
	assert_true(sigismember(&s.mask, SIGTERM));
	assert_true(sigismember(&s.mask, SIGINT));
	assert_false(sigismember(&s.mask, SIGSEGV));
	assert_false(sigismember(&s.mask, SIGBUS));
	assert_int_equal(CPU_COUNT(&s.cpus), 1);
	assert_true(CPU_ISSET((unsigned)cpu, &s.cpus));
}

static void t_no_such_cpu(void **state)
{
	pthread_t thread;

	assert_int_equal(thread_start(&thread, "none", CPU_SETSIZE, look, NULL), -EINVAL);
	assert_int_equal(thread_start(&thread, "none", CPU_SETSIZE - 1, look, NULL), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_start),
		cmocka_unit_test(t_no_such_cpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
