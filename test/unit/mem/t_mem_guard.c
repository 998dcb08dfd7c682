/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_guard.c: faults of both kinds are caught, many times and on several threads at a time, nested
 * ones by the right guard, and those outside the range go to the handler that was there before.
 */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mem/mem.h"
#include "mem/mem_guard.h"

#define PAGE MEM_GUARD_PAGE

struct access {
	volatile uint8_t *p;
	size_t len; /* of the range; 0 = none */
	uint8_t got;
	struct access *inner;
	int inner_res;
};

static int touch(struct mem_guard *g, void *arg)
{
	struct access *a = arg;

	if (a->inner)
		a->inner_res = mem_guard_call(touch, a->inner);
	if (a->len)
		mem_guard_range(g, (const void *)(uintptr_t)a->p, a->len);
	a->got = *a->p;
	mem_guard_no_range(g);
	return a->got;
}

/* A page that can't be read, and one of a file that has become shorter. */
static void make_bad(uint8_t **segv, uint8_t **bus)
{
	int fd = memfd_create("t_mem_guard", MFD_CLOEXEC);

	*segv = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(ftruncate(fd, PAGE), 0);
	*bus = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(*segv != MAP_FAILED && *bus != MAP_FAILED);
	assert_int_equal(ftruncate(fd, 0), 0);
	close(fd);
	assert_int_equal(mem_guard_init(), 0);
}

static void t_catch(void **state)
{
	uint8_t good = 42, *segv, *bus;
	struct access a;

	make_bad(&segv, &bus);
	for (int i = 0; i < 1000; i++) {
		a = (struct access){.p = segv + PAGE + 100, .len = 50};
		assert_int_equal(mem_guard_call(touch, &a), -EFAULT);
		a = (struct access){.p = bus + 17, .len = 1};
		assert_int_equal(mem_guard_call(touch, &a), -EFAULT);
		a = (struct access){.p = &good, .len = 1};
		assert_int_equal(mem_guard_call(touch, &a), 42);
	}
	munmap(segv, 2 * PAGE);
	munmap(bus, PAGE);
}

static void t_nested(void **state)
{
	uint8_t good = 42, *segv, *bus;
	struct access in, out;

	make_bad(&segv, &bus);
	in = (struct access){.p = bus, .len = 1};
	out = (struct access){.p = &good, .len = 1, .inner = &in};
	assert_int_equal(mem_guard_call(touch, &out), 42);
	assert_int_equal(out.inner_res, -EFAULT);
	in = (struct access){.p = &good, .len = 1};
	out = (struct access){.p = segv, .len = 1, .inner = &in};
	assert_int_equal(mem_guard_call(touch, &out), -EFAULT);
	assert_int_equal(out.inner_res, 42);
	munmap(segv, 2 * PAGE);
	munmap(bus, PAGE);
}

static void *many(void *arg)
{
	uint8_t **bad = arg;
	size_t nr = 0;

	for (int i = 0; i < 2000; i++) {
		struct access a = {.p = bad[i % 2], .len = PAGE};

		nr += mem_guard_call(touch, &a) == -EFAULT;
	}
	return (void *)nr;
}

static void t_threads(void **state)
{
	pthread_t threads[4];
	uint8_t *bad[2];
	void *nr;

	make_bad(&bad[0], &bad[1]);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, many, bad), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &nr);
		assert_int_equal((size_t)nr, 2000);
	}
	munmap(bad[0], 2 * PAGE);
	munmap(bad[1], PAGE);
}

static void old_info(int sig, siginfo_t *si, void *ctx)
{
	_exit(100 + sig);
}

static void old_plain(int sig)
{
	_exit(50 + sig);
}

/* What becomes of a process that does `act` with `old` under our handler: its wait status. */
static int fate(const struct sigaction *old, void (*act)(uint8_t *segv, uint8_t *bus))
{
	uint8_t *segv, *bus;
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		sigaction(SIGSEGV, old, NULL);
		sigaction(SIGBUS, old, NULL);
		make_bad(&segv, &bus);
		act(segv, bus);
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* A guard is set, but for another place. */
static void act_outside(uint8_t *segv, uint8_t *bus)
{
	struct access a = {.p = segv};

	mem_guard_call(touch, &a);
}

static void act_unguarded(uint8_t *segv, uint8_t *bus)
{
	*(volatile uint8_t *)bus = 1;
}

static void act_sent(uint8_t *segv, uint8_t *bus)
{
	kill(getpid(), SIGSEGV);
}

static void act_guarded(uint8_t *segv, uint8_t *bus)
{
	struct access a = {.p = segv, .len = 1};

	_exit(mem_guard_call(touch, &a) == -EFAULT ? 7 : 8);
}

static void t_chain(void **state)
{
	struct sigaction info = {.sa_sigaction = old_info, .sa_flags = SA_SIGINFO};
	struct sigaction plain = {.sa_handler = old_plain}, dfl = {.sa_handler = SIG_DFL};
	struct sigaction ign = {.sa_handler = SIG_IGN};
	int status;

	assert_int_equal(WEXITSTATUS(fate(&info, act_outside)), 100 + SIGSEGV);
	assert_int_equal(WEXITSTATUS(fate(&info, act_unguarded)), 100 + SIGBUS);
	assert_int_equal(WEXITSTATUS(fate(&info, act_guarded)), 7);
	assert_int_equal(WEXITSTATUS(fate(&plain, act_unguarded)), 50 + SIGBUS);
	assert_int_equal(WEXITSTATUS(fate(&plain, act_sent)), 50 + SIGSEGV);
	status = fate(&dfl, act_outside);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	status = fate(&dfl, act_sent);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	status = fate(&ign, act_sent);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	status = fate(&ign, act_unguarded);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_catch),
		cmocka_unit_test(t_nested),
		cmocka_unit_test(t_threads),
		cmocka_unit_test(t_chain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
