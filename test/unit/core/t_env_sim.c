/* SPDX-License-Identifier: Apache-2.0 */
/*
 * env_sim.c: the same seed gives the same order, another seed another one; time and readiness are
 * what the test says; injected results; cancels. One thread.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/container.h"
#include "core/env_sim.h"

#define NR_REQS 40

struct req {
	struct io_req io;
	struct iovec iov;
	int no, res;
	unsigned nr_ends;
};

static int order[NR_REQS], nr_order;

static void req_end(struct io_req *io, int res)
{
	struct req *q = container_of(io, struct req, io);

	q->res = res;
	q->nr_ends++;
	if (nr_order < NR_REQS)
		order[nr_order++] = q->no;
}

static struct io_req *req_init(struct req *q, enum io_op op, int fd)
{
	*q = (struct req){.io = {.op = op, .fd = fd, .end = req_end}};
	return &q->io;
}

static int inject(void *arg, struct io_req *io)
{
	return io->op == IO_READ ? -EIO : (int)io->off;
}

static void run_order(uint64_t seed, int *copy)
{
	uint64_t clock_ns = 1000;
	struct env *env = env_sim_create(&(struct env_sim_opts){
		.seed = seed, .clock_ns = &clock_ns, .delay_max_ns = 50, .io = inject});
	struct req q[NR_REQS];

	nr_order = 0;
	for (int i = 0; i < NR_REQS; i++) {
		req_init(&q[i], i % 3 ? IO_WRITE : IO_READ, -1);
		q[i].no = i;
		q[i].io.off = (uint64_t)i;
		env->ops->io_submit(env, &q[i].io);
	}
	while (nr_order < NR_REQS) {
		if (env->ops->io_reap(env, 3) == 0)
			env->ops->wait(env, UINT64_MAX); /* to what comes next */
		assert_true(clock_ns <= 1050);
	}
	for (int i = 0; i < NR_REQS; i++) {
		assert_int_equal(q[i].nr_ends, 1);
		assert_int_equal(q[i].res, i % 3 ? i : -EIO);
	}
	memcpy(copy, order, sizeof(order));
	assert_int_equal(env_sim_next_ns(env), UINT64_MAX);
	env->ops->destroy(env);
}

static void t_seed(void **state)
{
	int a[NR_REQS], b[NR_REQS], c[NR_REQS];

	run_order(1, a);
	run_order(1, b);
	run_order(2, c);
	assert_memory_equal(a, b, sizeof(a));
	assert_memory_not_equal(a, c, sizeof(a));
}

static void t_poll(void **state)
{
	struct env *env = env_sim_create(&(struct env_sim_opts){.seed = 1});
	struct req q, real, cancel;
	int p[2];

	assert_int_equal(pipe(p), 0);
	req_init(&q, IO_POLL, 12345)->poll_mask = POLLIN;
	req_init(&real, IO_POLL, p[0])->poll_mask = POLLIN;
	env->ops->io_submit(env, &q.io);
	env->ops->io_submit(env, &real.io);
	env_sim_ready(env, 12345, POLLOUT);
	assert_int_equal(env->ops->io_reap(env, 9), 0);
	env_sim_ready(env, 12345, POLLOUT | POLLIN);
	assert_int_equal(env->ops->io_reap(env, 9), 1);
	assert_int_equal(q.res, POLLIN);
	assert_int_equal(write(p[1], "x", 1), 1);
	assert_int_equal(env->ops->io_reap(env, 9), 1);
	assert_int_equal(real.res, POLLIN);
	env_sim_ready(env, 12345, 0);
	env->ops->io_submit(env, &q.io);
	req_init(&cancel, IO_CANCEL, -1)->target = &q.io;
	env->ops->io_submit(env, &cancel.io);
	assert_int_equal(env->ops->io_reap(env, 9), 2);
	assert_int_equal(q.res, -ECANCELED);
	assert_int_equal(cancel.res, 0);
	env->ops->io_submit(env, &cancel.io);
	assert_int_equal(env->ops->io_reap(env, 9), 1);
	assert_int_equal(cancel.res, -ENOENT);
	close(p[0]);
	close(p[1]);
	env->ops->destroy(env);
}

static void t_real_file(void **state)
{
	struct env *env = env_sim_create(&(struct env_sim_opts){.seed = 1});
	int fd = memfd_create("t_env_sim", MFD_CLOEXEC);
	char in[6] = "";
	struct req w, r;

	req_init(&w, IO_WRITE, fd);
	w.iov = (struct iovec){"hello", 5};
	w.io.iov = &w.iov;
	w.io.nr_iov = 1;
	w.io.off = 3;
	env->ops->io_submit(env, &w.io);
	assert_int_equal(env->ops->io_reap(env, 9), 1);
	assert_int_equal(w.res, 5);
	req_init(&r, IO_READ, fd);
	r.iov = (struct iovec){in, 4};
	r.io.iov = &r.iov;
	r.io.nr_iov = 1;
	r.io.off = 4;
	env->ops->io_submit(env, &r.io);
	assert_int_equal(env->ops->io_reap(env, 9), 1);
	assert_string_equal(in, "ello");
	req_init(&w, IO_FALLOCATE, fd);
	w.io.mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	w.io.off = 4;
	w.io.len = 2;
	env->ops->io_submit(env, &w.io);
	assert_int_equal(env->ops->io_reap(env, 9), 1);
	assert_int_equal(w.res, 0);
	assert_int_equal(pread(fd, in, 4, 4), 4);
	assert_memory_equal(in, "\0\0lo", 4);
	close(fd);
	env->ops->destroy(env);
}

static void t_wait(void **state)
{
	uint64_t clock_ns = 7;
	struct env *env = env_sim_create(&(struct env_sim_opts){.clock_ns = &clock_ns});

	env->ops->wait(env, 20);
	assert_int_equal(clock_ns, 20);
	assert_int_equal(env->ops->now_ns(env), 20);
	env->ops->wake(env);
	assert_true(env_sim_is_woken(env));
	env->ops->wait(env, 30);
	assert_int_equal(clock_ns, 20);
	assert_false(env_sim_is_woken(env));
	env->ops->wait(env, UINT64_MAX);
	assert_int_equal(env_sim_nr_stuck(env), 1);
	env->ops->destroy(env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_seed),
		cmocka_unit_test(t_poll),
		cmocka_unit_test(t_real_file),
		cmocka_unit_test(t_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
