/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uring.c against the real kernel: reads, writes, polls, cancels, more requests than the ring
 * holds, wake-ups that come before, during and instead of a wait. No assertion depends on how long
 * anything takes.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/container.h"
#include "base/mono.h"
#include "core/env.h"
#include "core/thread.h"

struct req {
	struct io_req io;
	struct iovec iov;
	int res;
	unsigned nr_ends;
};

static void req_end(struct io_req *io, int res)
{
	struct req *q = container_of(io, struct req, io);

	q->res = res;
	q->nr_ends++;
}

static struct env *make(unsigned depth)
{
	struct env *env = NULL;
	int err = env_linux_create(depth, &env);

	if (err == -ENOSYS || err == -EPERM) {
		print_message("no io_uring here: %s\n", strerror(-err));
		skip();
	}
	assert_int_equal(err, 0);
	return env;
}

static void rw_init(struct req *q, enum io_op op, int fd, void *buf, size_t len)
{
	*q = (struct req){.iov = {buf, len}};
	q->io = (struct io_req){.op = op, .fd = fd, .iov = &q->iov, .nr_iov = 1, .end = req_end};
}

static void finish(struct env *env, struct req *q)
{
	while (q->nr_ends == 0) {
		if (env->ops->io_reap(env, 64) == 0)
			env->ops->wait(env, UINT64_MAX);
	}
	assert_int_equal(q->nr_ends, 1);
}

static void t_read_write(void **state)
{
	struct env *env = make(8);
	int fd = memfd_create("t_uring", MFD_CLOEXEC);
	char out[] = "0123456789", in[8] = "";
	struct req q;

	rw_init(&q, IO_WRITE, fd, out, 10);
	q.io.off = 100;
	env->ops->io_submit(env, &q.io);
	assert_int_equal(q.nr_ends, 0); /* never from inside */
	finish(env, &q);
	assert_int_equal(q.res, 10);
	rw_init(&q, IO_READ, fd, in, 5);
	q.io.off = 103;
	env->ops->io_submit(env, &q.io);
	finish(env, &q);
	assert_int_equal(q.res, 5);
	assert_string_equal(in, "34567");
	rw_init(&q, IO_FSYNC, fd, NULL, 0);
	env->ops->io_submit(env, &q.io);
	finish(env, &q);
	assert_int_equal(q.res, 0);
	rw_init(&q, IO_READ, -1, in, 5);
	env->ops->io_submit(env, &q.io);
	finish(env, &q);
	assert_int_equal(q.res, -EBADF);
	rw_init(&q, IO_FALLOCATE, fd, NULL, 0);
	q.io.mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	q.io.off = 103;
	q.io.len = 4;
	env->ops->io_submit(env, &q.io);
	finish(env, &q);
	assert_int_equal(q.res, 0);
	assert_int_equal(pread(fd, in, 6, 102), 6);
	assert_memory_equal(in, "2\0\0\0\0007", 6);
	close(fd);
	env->ops->destroy(env);
}

#define NR_MANY 300

/* Memory that the kernel knows, or can't know: the bytes are the same, also of what follows it. */
static void t_memory(void **state)
{
	struct env *env = make(8);
	uint8_t *mem = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);
	int fd = memfd_create("t_uring", MFD_CLOEXEC), err;
	struct req q;

	assert_true(mem != MAP_FAILED);
	for (unsigned round = 0; round < 20; round++) {
		err = env->ops->io_memory(env, mem, 32768);
		assert_true(err <= 0);
		for (unsigned at = 0; at < 65536; at += 16384) {
			memset(mem + at, (int)(round + at / 16384), 16384);
			rw_init(&q, IO_WRITE, fd, mem + at, 16384);
			env->ops->io_submit(env, &q.io);
			finish(env, &q);
			assert_int_equal(q.res, 16384);
			memset(mem + at, 0xff, 16384);
			rw_init(&q, IO_READ, fd, mem + at, 16384);
			env->ops->io_submit(env, &q.io);
			finish(env, &q);
			assert_int_equal(q.res, 16384);
			assert_int_equal(mem[at], round + at / 16384);
			assert_int_equal(mem[at + 16383], round + at / 16384);
		}
		/* Other pages at the same address. */
		env->ops->io_memory_gone(env, mem);
		assert_ptr_equal(mmap(mem, 65536, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
				 mem);
		rw_init(&q, IO_READ, fd, mem, 16384);
		env->ops->io_submit(env, &q.io);
		finish(env, &q);
		assert_int_equal(mem[0], round + 3);
	}
	assert_true(env->ops->io_memory(env, mem, 2ull << 30) < 0);
	assert_true(env->ops->io_memory(env, mem, 0) < 0);
	env->ops->io_memory_gone(env, mem);
	munmap(mem, 65536);
	close(fd);
	env->ops->destroy(env);
}

static void t_more_than_the_ring(void **state)
{
	struct env *env = make(4);
	int fd = memfd_create("t_uring", MFD_CLOEXEC);
	static struct req q[NR_MANY];
	static uint32_t v[NR_MANY];

	for (uint32_t i = 0; i < NR_MANY; i++) {
		v[i] = i;
		rw_init(&q[i], IO_WRITE, fd, &v[i], 4);
		q[i].io.off = 4 * i;
		env->ops->io_submit(env, &q[i].io);
	}
	for (uint32_t i = 0; i < NR_MANY; i++)
		finish(env, &q[i]);
	for (uint32_t i = 0; i < NR_MANY; i++) {
		uint32_t got = ~i;

		assert_int_equal(q[i].res, 4);
		assert_int_equal(pread(fd, &got, 4, 4 * i), 4);
		assert_int_equal(got, i);
	}
	assert_int_equal(env->ops->io_reap(env, 64), 0);
	close(fd);
	env->ops->destroy(env);
}

static void t_poll_cancel(void **state)
{
	struct env *env = make(2);
	struct req polls[20], cancel;
	int p[2];

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	for (int i = 0; i < 20; i++) {
		rw_init(&polls[i], IO_POLL, p[0], NULL, 0);
		polls[i].io.poll_mask = POLLIN;
		env->ops->io_submit(env, &polls[i].io);
	}
	assert_int_equal(env->ops->io_reap(env, 64), 0);
	/* The first is in the kernel; the last one is held back, since the ring is so small. */
	for (int i = 0; i < 20; i += 19) {
		rw_init(&cancel, IO_CANCEL, -1, NULL, 0);
		cancel.io.target = &polls[i].io;
		env->ops->io_submit(env, &cancel.io);
		if (i == 0)
			assert_int_equal(write(p[1], "x", 1), 1);
		finish(env, &polls[i]);
		finish(env, &cancel);
	}
	assert_int_equal(polls[19].nr_ends, 1);
	for (int i = 0; i < 20; i++) {
		finish(env, &polls[i]);
		assert_true(polls[i].res == POLLIN || polls[i].res == -ECANCELED);
	}
	close(p[0]);
	close(p[1]);
	env->ops->destroy(env);
}

static void *waker(void *arg)
{
	struct env *env = arg;

	env->ops->wake(env);
	return NULL;
}

static void t_wake(void **state)
{
	struct env *env = make(2);
	pthread_t thread;

	/* Before the ring was ever used, twice for one wait. */
	env->ops->wake(env);
	env->ops->wake(env);
	env->ops->wait(env, UINT64_MAX);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(thread_start(&thread, "waker", -1, waker, env), 0);
		env->ops->wait(env, UINT64_MAX);
		pthread_join(thread, NULL);
	}
	env->ops->destroy(env);
}

/* A wake-up whose completion is seen by io_reap() still ends the next wait(). */
static void t_wake_reaped(void **state)
{
	struct env *env = make(8);
	int fd = memfd_create("t_uring", MFD_CLOEXEC);
	struct req q;

	env->ops->wait(env, 1); /* arms, the time has passed */
	env->ops->wake(env);
	rw_init(&q, IO_WRITE, fd, "x", 1);
	env->ops->io_submit(env, &q.io);
	while (q.nr_ends == 0)
		env->ops->io_reap(env, 64);
	env->ops->wait(env, UINT64_MAX);
	close(fd);
	env->ops->destroy(env);
}

static void t_wait_ends(void **state)
{
	struct env *env = make(2);
	uint64_t until_ns = env->ops->now_ns(env) + 3000000;

	env->ops->wait(env, 0);
	while (env->ops->now_ns(env) < until_ns)
		env->ops->wait(env, until_ns);
	env->ops->destroy(env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_read_write),
		cmocka_unit_test(t_memory),
		cmocka_unit_test(t_more_than_the_ring),
		cmocka_unit_test(t_poll_cancel),
		cmocka_unit_test(t_wake),
		cmocka_unit_test(t_wake_reaped),
		cmocka_unit_test(t_wait_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
