/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening at a path: modes, a second listener, what was left behind, and who is there.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/usock.h"

static char folder[] = "/tmp/peal-usock-XXXXXX";
static struct sockaddr_un sa = {.sun_family = AF_UNIX};

static void test_listen(void **state)
{
	int fd = usock_listen(sa.sun_path, 4), client, server;
	struct stat st;
	uid_t uid;
	pid_t pid;

	assert_true(fd >= 0);
	assert_int_equal(stat(sa.sun_path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(usock_listen(sa.sun_path, 4), -EADDRINUSE);
	client = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(connect(client, (struct sockaddr *)&sa, sizeof(sa)), 0);
	server = accept(fd, NULL, NULL); /* the look of the second listener comes first */
	close(server);
	server = accept(fd, NULL, NULL);
	assert_int_equal(usock_peer(server, &uid, &pid), 0);
	assert_int_equal(uid, getuid());
	assert_int_equal(pid, getpid());
	assert_int_equal(usock_peer(-1, &uid, &pid), -EBADF);
	close(client);
	close(server);
	close(fd);
	/* Left behind, as by a crash: it is taken over. */
	fd = usock_listen(sa.sun_path, 4);
	assert_true(fd >= 0);
	close(fd);
	unlink(sa.sun_path);
}

static void *listen_late(void *fd)
{
	*(int *)fd = usock_listen(sa.sun_path, 4);
	return NULL;
}

/* A daemon was killed, and the kernel's end of its I/O has the socket still: this process has. */
static void test_lingers(void **state)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), got = -1, status;
	pthread_t thread;
	pid_t pid;

	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	pid = fork();
	if (!pid)
		_exit(listen(fd, 4) ? 1 : 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(pthread_create(&thread, NULL, listen_late, &got), 0);
	for (int i = 0; i < 2; i++) { /* it has looked, and looks again */
		int server = accept(fd, NULL, NULL);

		assert_true(server >= 0);
		close(server);
	}
	close(fd);
	pthread_join(thread, NULL);
	assert_true(got >= 0);
	close(got);
	unlink(sa.sun_path);
}

static void test_refused(void **state)
{
	char path[200];
	int fd = open(sa.sun_path, O_CREAT | O_WRONLY, 0600);

	close(fd);
	assert_int_equal(usock_listen(sa.sun_path, 4), -EEXIST);
	unlink(sa.sun_path);
	snprintf(path, sizeof(path), "%s/nowhere/s", folder);
	assert_int_equal(usock_listen(path, 4), -ENOENT);
	memset(path, 'x', sizeof(path) - 1);
	path[108] = 0;
	assert_int_equal(usock_listen(path, 4), -ENAMETOOLONG);
	path[106] = 0; /* fits, but not with the pid behind it */
	assert_int_equal(usock_listen(path, 4), -ENAMETOOLONG);
}

/* Folders that somebody else could put his own socket into. */
static void test_folder(void **state)
{
	char dir[128];

	snprintf(dir, sizeof(dir), "%s/d", folder);
	assert_int_equal(usock_folder_make(dir), 0);
	assert_int_equal(usock_folder_make(dir), 0);
	assert_int_equal(chmod(dir, 0777), 0);
	assert_int_equal(usock_folder_make(dir), -EPERM);
	assert_int_equal(chmod(dir, 01777), 0);
	assert_int_equal(usock_folder_make(dir), 0);
	if (geteuid() == 0) {
		assert_int_equal(chmod(dir, 0755), 0);
		assert_int_equal(chown(dir, 65534, 65534), 0);
		assert_int_equal(usock_folder_make(dir), -EPERM);
	}
	rmdir(dir);
	snprintf(dir, sizeof(dir), "%s/no/d", folder);
	assert_int_equal(usock_folder_make(dir), -ENOENT);
	assert_int_equal(usock_folder_make("/dev/null"), -ENOTDIR);
}

/* A listener of uid 65534 at dir/s, in a process of its own. Its pid. */
static pid_t listen_as_nobody(const char *path)
{
	int go[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0) {
		if (setuid(65534) || usock_listen(path, 4) < 0)
			_exit(1);
		if (write(go[1], "x", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(go[1]);
	assert_int_equal(read(go[0], &c, 1), 1);
	close(go[0]);
	return pid;
}

static void test_connect(void **state)
{
	char path[128], dir[100];
	int fd = usock_listen(sa.sun_path, 4), client = socket(AF_UNIX, SOCK_STREAM, 0);
	pid_t pid;

	assert_int_equal(usock_connect(client, sa.sun_path), 0);
	close(client);
	close(fd);
	unlink(sa.sun_path);
	if (geteuid())
		return; /* the rest takes two users */
	snprintf(dir, sizeof(dir), "%s/d", folder);
	snprintf(path, sizeof(path), "%s/s", dir);
	assert_int_equal(chmod(folder, 0755), 0);
	assert_int_equal(mkdir(dir, 0755), 0);
	/* Where everybody makes files, as in /tmp, the listener has to be root or ourselves. */
	assert_int_equal(chmod(dir, 01777), 0);
	pid = listen_as_nobody(path);
	client = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(usock_connect(client, path), -EPERM);
	close(client);
	/* In his own folder he is who was meant. */
	assert_int_equal(chmod(dir, 0755), 0);
	assert_int_equal(chown(dir, 65534, 65534), 0);
	client = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(usock_connect(client, path), 0);
	close(client);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	unlink(path);
	rmdir(dir);
	client = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(usock_connect(client, path), -ENOENT);
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	assert_int_equal(usock_connect(client, path), -ENAMETOOLONG);
	close(client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_listen),	cmocka_unit_test(test_lingers),
		cmocka_unit_test(test_refused), cmocka_unit_test(test_folder),
		cmocka_unit_test(test_connect),
	};
	int rc;

	if (!mkdtemp(folder))
		return 1;
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/s", folder);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(folder);
	return rc;
}
