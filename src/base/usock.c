/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See usock.h. The socket gets its name when it listens already: whoever sees the file can connect.
 * link() and not rename(), so that of two daemons that start at once one is refused.
 */
#include "base/usock.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/linger.h"

/*
 * 0 when the path is free, or has become so. -EADDRINUSE: somebody listens; *is_dead when he called
 * listen() and lives no more, else it is as it was: a full backlog names nobody.
 */
static int usock_check_stale(const struct sockaddr_un *sa, bool *is_dead)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;
	uid_t uid;
	pid_t pid;

	if (fd < 0)
		return -errno;
	if (lstat(sa->sun_path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	if (connect(fd, (const struct sockaddr *)sa, sizeof(*sa)) == 0) {
		*is_dead = usock_peer(fd, &uid, &pid) == 0 && pid > 0 && !linger_is_alive(pid);
		return -EADDRINUSE;
	}
	if (errno != ECONNREFUSED)
		return -EADDRINUSE;
	return unlink(sa->sun_path) ? -errno : 0;
}

/* Under a name of its own first. */
static int usock_bind(int fd, const char *path, int backlog)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int n = snprintf(sa.sun_path, sizeof(sa.sun_path), "%s.%d", path, (int)getpid());
	int err = 0;

	if (n < 0 || (size_t)n >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	unlink(sa.sun_path);
	/* The mode of the unbound socket is the file's: there is no moment in which it is wider. */
	if (fchmod(fd, 0600) || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) || listen(fd, backlog))
		err = -errno;
	else if (link(sa.sun_path, path))
		err = errno == EEXIST ? -EADDRINUSE : -errno;
	unlink(sa.sun_path);
	return err;
}

int usock_listen(const char *path, int backlog)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	bool is_dead = false;
	int fd, err;

	if (strlen(path) >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	strcpy(sa.sun_path, path);
	err = usock_check_stale(&sa, &is_dead);
	for (unsigned i = 0; err == -EADDRINUSE && is_dead && i < LINGER_TRIES; i++) {
		linger_wait();
		err = usock_check_stale(&sa, &is_dead);
	}
	if (err)
		return err;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	err = usock_bind(fd, path, backlog);
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

static bool usock_is_trusted(uid_t uid)
{
	return uid == 0 || uid == geteuid();
}

/* May anybody rename or remove what others have put there? */
static bool usock_is_open(const struct stat *st)
{
	return (st->st_mode & S_IWOTH) && !(st->st_mode & S_ISVTX);
}

int usock_folder_make(const char *dir)
{
	struct stat st;

	if (mkdir(dir, 0755) && errno != EEXIST)
		return -errno;
	if (stat(dir, &st))
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	return usock_is_trusted(st.st_uid) && !usock_is_open(&st) ? 0 : -EPERM;
}

/* SO_PEERCRED of a socket that connected is whoever called listen(). */
static int usock_check_listener(int fd, const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[sizeof(((struct sockaddr_un *)NULL)->sun_path)] = ".";
	struct stat st;
	uid_t uid;
	pid_t pid;
	int err = usock_peer(fd, &uid, &pid);

	if (err || usock_is_trusted(uid))
		return err;
	if (slash)
		snprintf(dir, sizeof(dir), "%.*s", slash == path ? 1 : (int)(slash - path), path);
	if (stat(dir, &st))
		return -errno;
	return st.st_uid == uid && !usock_is_open(&st) ? 0 : -EPERM;
}

int usock_connect(int fd, const char *path)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};

	if (strlen(path) >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	strcpy(sa.sun_path, path);
	if (connect(fd, (const struct sockaddr *)&sa, sizeof(sa)))
		return -errno;
	return usock_check_listener(fd, path);
}

int usock_peer(int fd, uid_t *uid, pid_t *pid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	*uid = cred.uid;
	*pid = cred.pid;
	return 0;
}
