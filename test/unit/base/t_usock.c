/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening at a path: modes, a second listener, what was left behind, and who is there.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_listen),
		cmocka_unit_test(test_refused),
	};
	int rc;

	if (!mkdtemp(folder))
		return 1;
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/s", folder);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(folder);
	return rc;
}
