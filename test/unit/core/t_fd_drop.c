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
	int other[FD_DROP_THREADS + 8], last = -1;

	/* More than there may be threads: those above stay open. */
	for (unsigned i = 0; i < FD_DROP_THREADS + 8; i++) {
		last = lingering(&other[i]);
		fd_drop(last);
	}
	assert_int_equal(fd_drop_nr_stuck(), FD_DROP_THREADS);
	assert_true(is_open(last));
	/* a reset lets them go */
	for (unsigned i = 0; i < FD_DROP_THREADS + 8; i++)
		close(other[i]);
	while (fd_drop_nr_stuck())
		sched_yield();
	fd_drop(last);
	while (is_open(last))
		sched_yield();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_lingering),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
