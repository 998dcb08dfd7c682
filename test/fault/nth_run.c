/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a program and stands behind its system calls: each that the table names is an event, and the
 * one that the shared page asks for fails with an errno that it may really have. By seccomp's user
 * notification, so io_uring's calls and those inside glibc are seen like all others, in every
 * thread and child.
 *
 *	nth_run PAGE SHIM PROGRAM [ARG...]
 *
 * The program gets SHIM preloaded and NTH_PAGE; its pid is in the page. This ends with the
 * program's status, 128 + signal when it was killed, 77 when the kernel has no user notification.
 *
 * Not in the table: what can't fail for want of anything (exit, futex, sigprocmask, getpid),
 * close() (its descriptor is gone whatever it says, and here it would stay open), shutdown() (the
 * only failure of a connected Unix socket's is that it isn't connected any more, and then what
 * waits for it ends by itself: here it would stay connected), brk(), which has
 * no errno, and io_uring_register(), which core/ calls once, to enable a ring: always 0 on one of
 * ours. Nor are writes of 8 bytes, to eventfds, which only a full counter refuses, and those to
 * standard error, by which the driver knows how far the program is; nth_start.py has a case for
 * that. epoll_ctl() only allocates to add.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "nth.h"

#define CALL(name, error) \
	{ \
		__NR_##name, error, #name \
	}

static const struct call {
	int nr, error;
	const char *name;
} calls[] = {
	/* clang-format off */
	CALL(accept4, EMFILE), CALL(bind, ENOSPC), CALL(chmod, EIO), CALL(clone, EAGAIN),
	CALL(clone3, EAGAIN), CALL(connect, EAGAIN), CALL(dup, EMFILE), CALL(dup2, EMFILE),
	CALL(dup3, EMFILE), CALL(epoll_create1, EMFILE), CALL(epoll_ctl, ENOMEM),
	CALL(epoll_wait, EINTR), CALL(eventfd2, EMFILE), CALL(execve, ENOMEM),
	CALL(fallocate, ENOSPC), CALL(fchmod, EIO), CALL(fcntl, EINVAL), CALL(fdatasync, EIO),
	CALL(flock, ENOLCK), CALL(fstat, EIO), CALL(fsync, EIO), CALL(ftruncate, ENOSPC),
	CALL(getdents64, EIO), CALL(getrandom, EINTR), CALL(getsockname, ENOBUFS),
	CALL(getsockopt, ENOMEM), CALL(io_uring_enter, EAGAIN),
	CALL(io_uring_setup, ENOMEM), CALL(ioctl, EIO), CALL(link, ENOSPC),
	CALL(linkat, ENOSPC), CALL(listen, EADDRINUSE),
	CALL(lseek, EIO), CALL(madvise, EAGAIN), CALL(memfd_create, EMFILE), CALL(mkdir, ENOSPC),
	CALL(mkdirat, ENOSPC), CALL(mlock, ENOMEM), CALL(mmap, ENOMEM), CALL(mprotect, ENOMEM),
	CALL(mremap, ENOMEM), CALL(munmap, ENOMEM), CALL(newfstatat, EIO), CALL(open, EMFILE),
	CALL(openat, EMFILE), CALL(pidfd_open, EMFILE), CALL(pipe2, EMFILE), CALL(poll, EINTR),
	CALL(ppoll, EINTR), CALL(prctl, EINVAL), CALL(pread64, EIO), CALL(prlimit64, EPERM),
	CALL(pwrite64, ENOSPC), CALL(read, EIO), CALL(readlink, ENOMEM), CALL(readv, EIO),
	CALL(recvfrom, ENOMEM), CALL(recvmsg, ENOMEM), CALL(rename, EIO), CALL(select, EINTR),
	CALL(pselect6, EINTR), CALL(sendmsg, ENOBUFS), CALL(sendto, ENOBUFS),
	CALL(setsockopt, ENOMEM), CALL(sigaltstack, ENOMEM),
	CALL(socket, EMFILE), CALL(socketpair, EMFILE), CALL(stat, EIO), CALL(statfs, EIO),
	CALL(statx, EIO), CALL(timerfd_create, EMFILE), CALL(unlink, EIO), CALL(unlinkat, EIO),
	CALL(write, ENOSPC), CALL(writev, ENOSPC),
	/* clang-format on */
};
#define NR_CALLS (sizeof(calls) / sizeof(calls[0]))

static int run_filter(void)
{
	struct sock_filter code[NR_CALLS + 6], *c = code;
	struct sock_fprog prog = {.filter = code};
	uint32_t arch = offsetof(struct seccomp_data, arch), nr = offsetof(struct seccomp_data, nr);

	*c++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, arch);
	*c++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
	*c++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	*c++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, nr);
	for (unsigned i = 0; i < NR_CALLS; i++)
		*c++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
						    (uint32_t)calls[i].nr, (uint8_t)(NR_CALLS - i),
						    0);
	*c++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	*c++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
	prog.len = (unsigned short)(c - code);
	return (int)syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			    &prog);
}

/* Between the filter and exec nothing may be called that waits for who isn't listening yet. */
static void run_child(struct nth_page *p, char **argv)
{
	char preload[4096], page[4096];
	int fd;

	snprintf(page, sizeof(page), "NTH_PAGE=%s", argv[1]);
	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", argv[2]);
	putenv(page);
	putenv(preload);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	fd = run_filter();
	atomic_store(&p->listener, fd < 0 ? UINT64_MAX : (uint64_t)fd);
	if (fd < 0)
		_exit(77);
	execvp(argv[3], argv + 3);
	_exit(127);
}

/* The thread's name, what it wanted. */
static void run_say(struct nth_page *p, const struct call *c, const struct seccomp_notif *n)
{
	char path[64], comm[32] = "?";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/comm", n->pid);
	f = fopen(path, "re");
	if (f) {
		if (!fgets(comm, sizeof(comm), f))
			comm[0] = 0;
		comm[strcspn(comm, "\n")] = 0;
		fclose(f);
	}
	snprintf(p->what, sizeof(p->what), "%s(0x%llx, 0x%llx, 0x%llx, 0x%llx): %s, in %s", c->name,
		 (unsigned long long)n->data.args[0], (unsigned long long)n->data.args[1],
		 (unsigned long long)n->data.args[2], (unsigned long long)n->data.args[3],
		 strerrorname_np(c->error), comm);
}

static int run_is_exempt(const struct seccomp_notif *n)
{
	switch (n->data.nr) {
	case __NR_write:
		return n->data.args[0] == 2 || n->data.args[2] == 8;
	case __NR_epoll_ctl:
		return n->data.args[1] != EPOLL_CTL_ADD;
	default:
		return 0;
	}
}

static void run_one(struct nth_page *p, int listener)
{
	struct seccomp_notif n = {0};
	struct seccomp_notif_resp r = {0};
	const struct call *c = calls;
	int due;

	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &n))
		return;
	while (c < calls + NR_CALLS - 1 && c->nr != n.data.nr)
		c++;
	r.id = n.id;
	r.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	due = run_is_exempt(&n) ? 0 : nth_is_due(p, NTH_CALLS);
	if (due == 1)
		run_say(p, c, &n);
	/* Even where all fails from here on: no signal comes so often that nothing ever waits. */
	if (due == 1 || (due && c->error != EINTR)) {
		r.flags = 0;
		r.error = -c->error;
	}
	(void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &r);
}

static int run_wait(struct nth_page *p, pid_t pid)
{
	int pidfd = (int)syscall(__NR_pidfd_open, pid, 0), status, fd;
	struct pollfd at = {.events = POLLIN};

	if (pidfd < 0)
		err(1, "pidfd_open");
	while (atomic_load(&p->listener) == 0)
		usleep(100);
	fd = (int)syscall(__NR_pidfd_getfd, pidfd, (int)atomic_load(&p->listener), 0);
	at.fd = fd;
	/* Hung up: nobody has the filter any more. */
	while (fd >= 0 && poll(&at, 1, -1) >= 0 && !(at.revents & (POLLHUP | POLLERR)))
		run_one(p, fd);
	if (waitpid(pid, &status, 0) != pid)
		err(1, "waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
	struct nth_page *p;
	pid_t pid;
	int fd;

	if (argc < 4)
		errx(2, "usage: nth_run PAGE SHIM PROGRAM [ARG...]");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = open(argv[1], O_RDWR | O_CLOEXEC);
	if (fd < 0)
		err(1, "%s", argv[1]);
	p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		err(1, "mmap");
	pid = fork();
	if (pid < 0)
		err(1, "fork");
	if (pid == 0)
		run_child(p, argv);
	atomic_store(&p->pid, (uint64_t)pid);
	return run_wait(p, pid);
}
