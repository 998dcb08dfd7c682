/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting a daemon, see spawn.h. The lock is held until the connection stands, so of many
 * processes that come at once exactly one starts a daemon and the others find it. The child is
 * forked twice, so that nobody must reap it; between fork and exec only async-signal-safe calls
 * are made. The lock's descriptor is close-on-exec: the daemon doesn't hold it.
 */
/* tidy: no-test: test/peer starts the real daemon with it */
#include "client/spawn.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mono.h"
#include "client/errmsg.h"

#define SPAWN_POLL_MS 5
#define SPAWN_ARGS_MAX 10

static int spawn_lock(const char *dir, uint64_t deadline_ns)
{
	char path[URI_PATH_BYTES + 8];
	int fd;

	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return errmsg_set(-errno, "can't make %s: %s", dir, strerror(errno));
	snprintf(path, sizeof(path), "%s/lock", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return errmsg_set(-errno, "can't open %s: %s", path, strerror(errno));
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK || mono_ns() >= deadline_ns) {
			int err = errmsg_set(errno == EWOULDBLOCK ? -ETIMEDOUT : -errno,
					     "can't lock %s: %s", path, strerror(errno));

			close(fd);
			return err;
		}
		poll(NULL, 0, SPAWN_POLL_MS);
	}
	return fd;
}

/* peald in that file's folder, if it is there. */
static bool spawn_beside(char path[PATH_MAX])
{
	char *slash = strrchr(path, '/');

	if (!slash || slash + sizeof("/peald") > path + PATH_MAX)
		return false;
	memcpy(slash + 1, "peald", sizeof("peald"));
	return access(path, X_OK) == 0;
}

/* $PEALD, else beside this program, else beside this library (a wheel's), else by PATH. */
static void spawn_binary(char path[PATH_MAX])
{
	const char *env = getenv("PEALD");
	Dl_info here;
	ssize_t n;

	if (env && *env) {
		snprintf(path, PATH_MAX, "%s", env);
		return;
	}
	n = readlink("/proc/self/exe", path, PATH_MAX - sizeof("peald"));
	path[n > 0 ? n : 0] = 0;
	if (spawn_beside(path))
		return;
	if (dladdr((void *)(uintptr_t)spawn_attach, &here) && here.dli_fname) {
		snprintf(path, PATH_MAX, "%s", here.dli_fname);
		if (spawn_beside(path))
			return;
	}
	memcpy(path, "peald", sizeof("peald"));
}

struct spawn_args {
	char dram[24], reactors[24], linger[24];
	char tiers[URI_PATH_BYTES + 64];
	char *argv[SPAWN_ARGS_MAX];
};

static void spawn_fill_args(const struct uri *u, char *binary, struct spawn_args *a)
{
	unsigned n = 0;

	snprintf(a->dram, sizeof(a->dram), "%" PRIu64, u->dram_bytes);
	snprintf(a->reactors, sizeof(a->reactors), "%" PRIu64, u->nr_reactors);
	snprintf(a->linger, sizeof(a->linger), "%" PRIu64, u->linger_s);
	a->argv[n++] = binary;
	a->argv[n++] = (char *)"--dir";
	a->argv[n++] = (char *)(uintptr_t)u->dir;
	if (u->ssd_bytes) {
		snprintf(a->tiers, sizeof(a->tiers), "dram %" PRIu64 " | ssd %s/ssd %" PRIu64,
			 u->dram_bytes, u->dir, u->ssd_bytes);
		a->argv[n++] = (char *)"--tiers";
		a->argv[n++] = a->tiers;
	} else if (u->dram_bytes) {
		a->argv[n++] = (char *)"--dram";
		a->argv[n++] = a->dram;
	}
	if (u->nr_reactors) {
		a->argv[n++] = (char *)"--reactors";
		a->argv[n++] = a->reactors;
	}
	a->argv[n++] = (char *)"--linger";
	a->argv[n++] = a->linger;
	a->argv[n] = NULL;
}

/* What the grandchild tells: who it is, and then, when exec failed, why. */
struct spawn_report {
	pid_t pid;
	int err;
};

/*
 * Behind the standard files: what the starter had closed may be one of them by now, and dup2() of
 * a descriptor to itself leaves it close-on-exec.
 */
static int spawn_behind_std(int fd)
{
	return fd < 0 || fd > STDERR_FILENO ? fd : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

/* In the grandchild: becomes the daemon, or tells why not and exits. */
__attribute__((noreturn)) static void spawn_exec(struct spawn_args *a, int log_fd, int report_fd)
{
	struct spawn_report r = {.pid = getpid()};
	sigset_t none;
	int null_fd;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	report_fd = spawn_behind_std(report_fd);
	log_fd = spawn_behind_std(log_fd);
	null_fd = spawn_behind_std(open("/dev/null", O_RDONLY | O_CLOEXEC));
	/* Never with what is its starter's: whoever reads that to its end would wait for it. */
	if (null_fd >= 0 && dup2(null_fd, 0) == 0 && dup2(log_fd, 1) == 1 && dup2(log_fd, 2) == 2 &&
	    write(report_fd, &r, sizeof(r)) == (ssize_t)sizeof(r))
		execvp(a->argv[0], a->argv);
	r.err = errno;
	_exit(write(report_fd, &r, sizeof(r)) == (ssize_t)sizeof(r) ? 127 : 126);
}

struct spawn_child {
	pid_t pid;
	int pidfd;     /* readable when it has exited; -1: none to be had */
	off_t log_end; /* of what its predecessors have written */
};

/* Sleeps a moment; true: the daemon has exited. */
static bool spawn_has_exited(const struct spawn_child *d)
{
	struct pollfd pfd = {.fd = d->pidfd, .events = POLLIN};

	if (poll(&pfd, 1, SPAWN_POLL_MS) > 0)
		return true;
	return d->pidfd < 0 && kill(d->pid, 0) < 0 && errno == ESRCH;
}

/* -errno with a message. */
static int spawn_start(const struct uri *u, struct spawn_child *d)
{
	char binary[PATH_MAX], log[URI_PATH_BYTES + 16];
	auto_close int log_fd = -1, rd = -1, wr = -1;
	struct spawn_report r = {0};
	struct spawn_args args;
	int report[2];
	pid_t pid;

	spawn_binary(binary);
	spawn_fill_args(u, binary, &args);
	snprintf(log, sizeof(log), "%s/peald.log", u->dir);
	log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (log_fd < 0)
		return errmsg_set(-errno, "can't open %s: %s", log, strerror(errno));
	if (pipe2(report, O_CLOEXEC) < 0)
		return errmsg_set(-errno, "no pipe: %s", strerror(errno));
	rd = report[0];
	wr = report[1];
	d->log_end = lseek(log_fd, 0, SEEK_END);
	pid = fork();
	if (pid < 0)
		return errmsg_set(-errno, "can't fork: %s", strerror(errno));
	if (pid == 0) {
		pid_t second = fork();

		if (second == 0)
			spawn_exec(&args, log_fd, wr);
		_exit(second < 0);
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(wr);
	wr = -1;
	if (read(rd, &r, sizeof(r)) != (ssize_t)sizeof(r))
		return errmsg_set(-EAGAIN, "can't fork a daemon");
	d->pid = r.pid;
	/* End of file: exec worked and closed the other end. */
	if (r.err || read(rd, &r, sizeof(r)) == (ssize_t)sizeof(r))
		return errmsg_set(-r.err,
				  "can't start %s: %s (looked at $PEALD, beside this program and "
				  "library, in PATH)",
				  binary, strerror(r.err));
	d->pidfd = (int)syscall(SYS_pidfd_open, d->pid, 0);
	return 0;
}

/* The last line that the daemon logged, for the message of one that didn't come up. */
static void spawn_last_words(const struct uri *u, const struct spawn_child *d, char words[200])
{
	char log[URI_PATH_BYTES + 16], line[400];
	auto_fclose FILE *f = NULL;

	snprintf(words, 200, "not a word in its log");
	snprintf(log, sizeof(log), "%s/peald.log", u->dir);
	f = fopen(log, "re");
	if (f && fseeko(f, d->log_end, SEEK_SET))
		return;
	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		if (line[0])
			snprintf(words, 200, "%.199s", line);
	}
}

/* One look; a daemon that goes away under the handshake was on its way out. */
static int spawn_try(const struct uri *u, const struct conn_opts *o, struct conn **c)
{
	int err = access(u->path, F_OK) == 0 ? conn_open(o, c) : -ENOENT;

	return err == -ENOTCONN ? -ECONNREFUSED : err;
}

/* Whether an attempt failed because nobody listens, so that starting one makes sense. */
static bool spawn_is_absent(int err)
{
	return err == -ENOENT || err == -ECONNREFUSED;
}

/* Until the daemon answers, or it is clear that it won't. */
static int spawn_wait(const struct uri *u, const struct conn_opts *o, const struct spawn_child *d,
		      struct conn **c)
{
	char words[200];
	int err;

	do {
		bool has_exited = spawn_has_exited(d);

		err = spawn_try(u, o, c);
		if (spawn_is_absent(err) && has_exited) {
			spawn_last_words(u, d, words);
			return errmsg_set(-EIO, "the daemon of %s exited at once: %s", u->dir,
					  words);
		}
	} while (spawn_is_absent(err) && mono_ns() < o->deadline_ns);
	if (spawn_is_absent(err))
		return errmsg_set(-ETIMEDOUT,
				  "the daemon started for %s doesn't answer: see %s/peald.log",
				  u->dir, u->dir);
	return err;
}

int spawn_attach(const struct uri *u, const struct conn_opts *o, struct conn **c)
{
	auto_close int lock_fd = spawn_lock(u->dir, o->deadline_ns);
	struct spawn_child d;
	int err;

	if (lock_fd < 0)
		return lock_fd;
	err = spawn_try(u, o, c);
	if (!spawn_is_absent(err))
		return err;
	err = spawn_start(u, &d);
	if (err)
		return err;
	err = spawn_wait(u, o, &d, c);
	if (d.pidfd >= 0)
		close(d.pidfd);
	return err;
}
