/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a reactor gets from outside: time and I/O, by vtable. The daemon passes env_linux
 * (CLOCK_MONOTONIC and one io_uring per reactor, core/uring.c); the simulator and the tests pass
 * their own, so that the same code runs under a virtual clock and a fake disk, reproducible from a
 * seed.
 *
 * An io_req belongs to the env from io_submit() until its end() has run, on the reactor that
 * submitted it, exactly once. end() is never called from inside io_submit().
 */
#ifndef CORE_ENV_H
#define CORE_ENV_H

#include <stdint.h>
#include <sys/uio.h>

enum io_op {
	IO_POLL,      /* wait once until fd is ready for poll_mask (POLLIN ...); res = revents */
	IO_READ,      /* preadv */
	IO_WRITE,     /* pwritev */
	IO_FSYNC,     /* fdatasync */
	IO_FALLOCATE, /* fallocate: mode, off, len */
	IO_CANCEL,    /* of `target`, whose own end() runs with -ECANCELED or its result */
};

struct io_req {
	enum io_op op;
	int fd;
	uint32_t poll_mask;
	uint32_t nr_iov;
	const struct iovec *iov;
	uint64_t off; /* bytes */
	uint64_t len; /* bytes, of IO_FALLOCATE alone, and so is mode */
	int mode;     /* FALLOC_FL_... */
	struct io_req *target;
	void (*end)(struct io_req *io, int res); /* res >= 0: bytes or revents; < 0: -errno */
	struct io_req *next;			 /* the env's, and so is res */
	int res;
};

struct env;

struct env_ops {
	uint64_t (*now_ns)(struct env *env);
	void (*io_submit)(struct env *env, struct io_req *io);
	/* Runs end() of up to `max` finished requests; returns how many. Never blocks. */
	int (*io_reap)(struct env *env, int max);
	/*
	 * Hands on what was submitted, if the env has kept any of it so that many go at once; else
	 * io_reap() and wait() do. May be NULL. Never blocks.
	 */
	void (*io_push)(struct env *env);
	/*
	 * Blocks until something finished, wake() was called or until_ns (mono, UINT64_MAX = for
	 * ever) has passed.
	 */
	void (*wait)(struct env *env, uint64_t until_ns);
	/* From any thread or signal-free context: ends a wait() that is under way or comes next. */
	void (*wake)(struct env *env);
	/*
	 * Memory that many requests of one buffer will lie in, until it is told that it is gone,
	 * which must be before it is unmapped: the kernel looks it up once. May be NULL. 0, or
	 * -errno when that can't be done: requests work as ever. Owner's thread.
	 */
	int (*io_memory)(struct env *env, void *base, uint64_t bytes);
	void (*io_memory_gone)(struct env *env, void *base);
	void (*destroy)(struct env *env);
};

struct env {
	const struct env_ops *ops;
	/*
	 * How many turns may go by between two looks at the clock. 0 is taken as 1, which a virtual
	 * clock wants.
	 */
	uint32_t clock_turns;
};

/*
 * Real clock, one io_uring of `depth` entries and an eventfd. -errno on failure, *env untouched:
 * -ENOSYS or -EPERM mean that this machine has no io_uring or forbids it. The env belongs to the
 * first thread that reaps or waits; io_submit() before that may come from the one that sets up.
 */
int env_linux_create(unsigned depth, struct env **env);

#endif
