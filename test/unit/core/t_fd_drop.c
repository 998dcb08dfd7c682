/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors whose close() would wait, and those whose would not: none makes us wait, all are
 * closed.
 */
#include "lingering.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "base/container.h"
#include "core/fd_drop.h"

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void test_kinds(void **state)
{
	int pipes[2], mem = memfd_create("m", MFD_CLOEXEC), efd = eventfd(0, EFD_CLOEXEC);
	int shm = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	int dir = open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int path = open("/dev/shm", O_PATH | O_CLOEXEC);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_true(fd_drop_is_memory(mem));
	assert_true(shm < 0 || fd_drop_is_memory(shm));
	assert_true(fd_drop_is_eventfd(efd));
	for (int *fd = (int[]){dir, path, null, exe, pipes[0], efd, -1, 12345, -2}; *fd != -2; fd++)
		assert_false(fd_drop_is_memory(*fd));
	for (int *fd = (int[]){dir, path, null, exe, pipes[0], mem, -1, 12345, -2}; *fd != -2; fd++)
		assert_false(fd_drop_is_eventfd(*fd));
	for (int *fd = (int[]){dir, path, null, exe, pipes[0], pipes[1], mem, efd, shm, -1};
	     *fd != -1; fd++) {
		fd_drop(*fd);
		while (is_open(*fd))
			sched_yield();
	}
}

static void test_lingering(void **state)
{
	const unsigned nr = FD_DROP_THREADS + 8;
	int other[FD_DROP_THREADS + 8], fds[FD_DROP_THREADS + 8], null;

	/* More than there may be threads: those above wait, and so does what comes behind. */
	for (unsigned i = 0; i < nr; i++) {
		fds[i] = lingering(&other[i]);
		fd_drop(fds[i]);
	}
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	fd_drop(null);
	assert_int_equal(fd_drop_nr_stuck(), nr + 1);
	assert_true(is_open(fds[nr - 1]));
	assert_true(is_open(null));
	/* a reset lets them go: all of them, without another word */
	for (unsigned i = 0; i < nr; i++)
		close(other[i]);
	while (fd_drop_nr_stuck())
		sched_yield();
	for (unsigned i = 0; i < nr; i++)
		assert_false(is_open(fds[i]));
	assert_false(is_open(null));
}

/* As many at once as a hostile client sends: none stays open because there were many. */
static void test_flood(void **state)
{
	int fds[1000];

	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
		assert_true(fds[i] >= 0);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
		fd_drop(fds[i]);
	while (fd_drop_nr_stuck())
		sched_yield();
	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
		assert_false(is_open(fds[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_lingering),
		cmocka_unit_test(test_flood),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
