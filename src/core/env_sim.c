/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See env_sim.h. Everything is on the thread that drives the simulation; only wake() may come from
 * another one. Arrays grow by allocation: this is not a data path.
 */
#include "core/env_sim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/container.h"
#include "base/must.h"
#include "base/rng.h"
#include "base/vec.h"

struct env_sim_req {
	struct io_req *io;
	uint64_t due_ns;
	bool has_res; /* io->res is its result already */
};

struct env_sim_fd {
	int fd;
	uint32_t events;
};

struct env_sim {
	struct env env;
	struct env_sim_opts o;
	struct rng rng;
	uint64_t own_clock_ns;
	_Atomic bool is_woken;
	uint64_t nr_stuck;
	VEC(struct env_sim_req)
	reqs;
	VEC(struct env_sim_fd)
	fds;
};

static struct env_sim *env_sim_of(struct env *env)
{
	return container_of(env, struct env_sim, env);
}

static uint64_t env_sim_now_ns(struct env *env)
{
	return *env_sim_of(env)->o.clock_ns;
}

static void env_sim_submit(struct env *env, struct io_req *io)
{
	struct env_sim *s = env_sim_of(env);
	uint64_t delay_ns = 0;
	bool is_disk = io->op == IO_READ || io->op == IO_WRITE || io->op == IO_FSYNC ||
		       io->op == IO_FALLOCATE;

	must(io->end);
	if (is_disk && s->o.submitted)
		s->o.submitted(s->o.arg, io);
	if (is_disk && s->o.delay_max_ns)
		delay_ns = rng_below(&s->rng, s->o.delay_max_ns + 1);
	must(vec_push(&s->reqs,
		      (struct env_sim_req){.io = io, .due_ns = *s->o.clock_ns + delay_ns}));
}

static uint32_t env_sim_events(struct env_sim *s, const struct io_req *io)
{
	struct pollfd pfd = {.fd = io->fd, .events = (short)io->poll_mask};

	vec_for_each(&s->fds, f) {
		if (f->fd == io->fd)
			return f->events & io->poll_mask;
	}
	return poll(&pfd, 1, 0) > 0 ? (uint32_t)pfd.revents : 0;
}

static bool env_sim_is_due(struct env_sim *s, const struct env_sim_req *q)
{
	if (q->has_res)
		return true;
	if (q->io->op == IO_POLL)
		return env_sim_events(s, q->io) != 0;
	return q->due_ns <= *s->o.clock_ns;
}

/* No position: an eventfd or the like. Never waits; a real env would go on trying on a thread. */
static int env_sim_real_stream(const struct io_req *io)
{
	struct pollfd pfd = {.fd = io->fd, .events = io->op == IO_READ ? POLLIN : POLLOUT};
	ssize_t n;

	if (poll(&pfd, 1, 0) <= 0)
		return -EAGAIN;
	n = io->op == IO_READ ? readv(io->fd, io->iov, (int)io->nr_iov)
			      : writev(io->fd, io->iov, (int)io->nr_iov);
	return n < 0 ? -errno : (int)n;
}

static int env_sim_real(const struct io_req *io)
{
	ssize_t n = -1;

	if ((io->op == IO_READ || io->op == IO_WRITE) && io->off == UINT64_MAX)
		return env_sim_real_stream(io);
	switch (io->op) {
	case IO_READ:
		n = preadv(io->fd, io->iov, (int)io->nr_iov, (off_t)io->off);
		break;
	case IO_WRITE:
		n = pwritev(io->fd, io->iov, (int)io->nr_iov, (off_t)io->off);
		break;
	case IO_FSYNC:
		n = fsync(io->fd);
		break;
	case IO_FALLOCATE:
		n = fallocate(io->fd, io->mode, (off_t)io->off, (off_t)io->len);
		break;
	case IO_POLL:
	case IO_CANCEL:
		must_not_reach();
	}
	return n < 0 ? -errno : (int)n;
}

/* As in Linux, a poll can always be taken back, and a disk request only sometimes. */
static int env_sim_cancel(struct env_sim *s, const struct io_req *target)
{
	vec_for_each(&s->reqs, q) {
		if (q->io != target)
			continue;
		if (q->has_res || (target->op != IO_POLL && rng_chance(&s->rng, 1, 2)))
			return -EALREADY;
		q->has_res = true;
		q->io->res = -ECANCELED;
		return 0;
	}
	return -ENOENT;
}

static int env_sim_result(struct env_sim *s, struct io_req *io)
{
	switch (io->op) {
	case IO_POLL:
		return (int)env_sim_events(s, io);
	case IO_READ:
	case IO_WRITE:
	case IO_FSYNC:
	case IO_FALLOCATE:
		return s->o.io ? s->o.io(s->o.arg, io) : env_sim_real(io);
	case IO_CANCEL:
		return env_sim_cancel(s, io->target);
	}
	must_not_reach();
}

/* Ends one of the due requests, whichever the seed says. */
static bool env_sim_end_one(struct env_sim *s)
{
	size_t nr_due = 0, pick = 0;
	struct env_sim_req q;

	for (size_t i = 0; i < s->reqs.nr; i++) {
		if (env_sim_is_due(s, &s->reqs.at[i]) && rng_below(&s->rng, ++nr_due) == 0)
			pick = i;
	}
	if (nr_due == 0)
		return false;
	q = s->reqs.at[pick];
	s->reqs.at[pick] = vec_last(&s->reqs);
	s->reqs.nr--;
	if (!q.has_res)
		q.io->res = env_sim_result(s, q.io);
	q.io->end(q.io, q.io->res);
	return true;
}

static int env_sim_reap(struct env *env, int max)
{
	int nr = 0;

	while (nr < max && env_sim_end_one(env_sim_of(env)))
		nr++;
	return nr;
}

static void env_sim_wait(struct env *env, uint64_t until_ns)
{
	struct env_sim *s = env_sim_of(env);
	uint64_t next_ns = min_t(uint64_t, until_ns, env_sim_next_ns(env));

	if (atomic_exchange(&s->is_woken, false))
		return;
	if (s->o.wait)
		s->o.wait(s->o.arg, env, until_ns);
	else if (next_ns == UINT64_MAX)
		s->nr_stuck++;
	else if (next_ns > *s->o.clock_ns)
		*s->o.clock_ns = next_ns;
	atomic_store(&s->is_woken, false);
}

static void env_sim_wake(struct env *env)
{
	atomic_store(&env_sim_of(env)->is_woken, true);
}

static void env_sim_destroy(struct env *env)
{
	struct env_sim *s = env_sim_of(env);

	must(s->reqs.nr == 0);
	vec_fini(&s->reqs);
	vec_fini(&s->fds);
	free(s);
}

static const struct env_ops env_sim_ops = {
	.now_ns = env_sim_now_ns,
	.io_submit = env_sim_submit,
	.io_reap = env_sim_reap,
	.wait = env_sim_wait,
	.wake = env_sim_wake,
	.destroy = env_sim_destroy,
};

struct env *env_sim_create(const struct env_sim_opts *o)
{
	struct env_sim *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->env = (struct env){.ops = &env_sim_ops, .clock_turns = 1};
	s->o = *o;
	if (!s->o.clock_ns)
		s->o.clock_ns = &s->own_clock_ns;
	rng_init(&s->rng, o->seed);
	return &s->env;
}

void env_sim_ready(struct env *env, int fd, uint32_t events)
{
	struct env_sim *s = env_sim_of(env);

	vec_for_each(&s->fds, f) {
		if (f->fd == fd) {
			f->events = events;
			return;
		}
	}
	must(vec_push(&s->fds, (struct env_sim_fd){fd, events}));
}

uint64_t env_sim_next_ns(struct env *env)
{
	uint64_t next_ns = UINT64_MAX;

	vec_for_each(&env_sim_of(env)->reqs, q) {
		if (q->has_res || q->io->op != IO_POLL)
			next_ns = min_t(uint64_t, next_ns, q->due_ns);
	}
	return next_ns;
}

bool env_sim_is_woken(struct env *env)
{
	return atomic_load(&env_sim_of(env)->is_woken);
}

uint64_t env_sim_nr_stuck(struct env *env)
{
	return env_sim_of(env)->nr_stuck;
}
