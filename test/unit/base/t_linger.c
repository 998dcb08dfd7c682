/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks of processes that live, that are gone, and that were killed while something has their file.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/linger.h"

static char path[] = "/tmp/peal-linger-XXXXXX";

static int open_file(void)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

/* A child that takes the lock of `fd`, its own copy of which ends with it. */
static void lock_in_child(int fd)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(linger_lock(fd) ? 1 : 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_is_alive(void **state)
{
	siginfo_t info;
	pid_t pid;

	assert_true(linger_is_alive(getpid()));
	pid = fork();
	if (!pid)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_false(linger_is_alive(pid)); /* a zombie */
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(linger_is_alive(pid));
}

static void test_held(void **state)
{
	int fd = open_file(), other = open_file();

	assert_int_equal(linger_lock(fd), 0);
	assert_int_equal(linger_lock(other), -EBUSY); /* at once: this process lives */
	close(fd);
	assert_int_equal(linger_lock(other), 0);
	close(other);
	assert_int_equal(linger_lock(-1), -EBADF);
}

static void *lock_late(void *fd)
{
	return linger_lock(*(int *)fd) ? fd : NULL;
}

/* Whoever locked it is gone, the open file isn't: as with I/O that the kernel has yet to end. */
static void test_lingers(void **state)
{
	int fd = open_file(), other = open_file();
	pthread_t thread;
	void *failed;

	lock_in_child(fd);
	assert_int_equal(flock(other, LOCK_EX | LOCK_NB), -1);
	assert_int_equal(pthread_create(&thread, NULL, lock_late, &other), 0);
	close(fd);
	pthread_join(thread, &failed);
	assert_null(failed);
	close(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_is_alive),
		cmocka_unit_test(test_held),
		cmocka_unit_test(test_lingers),
	};
	int rc, fd = mkstemp(path);

	if (fd < 0)
		return 1;
	close(fd);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return rc;
}
