/* SPDX-License-Identifier: Apache-2.0 */
/*
 * env_linux: CLOCK_MONOTONIC, one io_uring and one eventfd per reactor. io_submit() fills SQEs;
 * io_push(), once or twice a turn, hands them to the kernel in one system call when there are any,
 * io_reap() likewise what is left, and wait() does both at once. Every URING_PUSH of them go at
 * once: of a burst of reads the first are under way while the last are prepared.
 *
 * The ring is made disabled and enabled by the thread that first reaps or waits, because
 * IORING_SETUP_SINGLE_ISSUER ties it to that thread. Requests in the kernel never exceed the CQ's
 * entries (no overflow); what comes above that is held back in order.
 *
 * wake() writes the eventfd, on which a read is always under way while we wait. When its CQE is
 * seen outside wait(), `is_woken` remembers it for the next one. Owner's thread, but for wake().
 */
#include "core/env.h"

#include <errno.h>
#include <liburing.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/container.h"
#include "base/mono.h"
#include "base/must.h"

#define URING_CLOCK_TURNS 64
#define URING_POLL_TURNS 16u
#define URING_BATCH 32
#define URING_PUSH 8u /* SQEs that don't wait for more */
#define URING_REAP_BYTES (256u << 10)
#define URING_MEMS 16u		   /* stretches of memory that the kernel has looked up */
#define URING_MEM_MAX (1ull << 30) /* of one, says the kernel */

/* Oldest first, linked by io->next. */
struct uring_queue {
	struct io_req *first;
	struct io_req *last;
};

struct uring {
	struct env env;
	struct io_uring ring;
	int event_fd;
	bool is_enabled;
	bool is_woken;	    /* a wake-up that no wait() has seen */
	bool is_armed;	    /* the read of event_fd is in the kernel or in the SQ */
	uint32_t nr_out;    /* requests of ours that have not ended, wherever they are */
	uint32_t nr_kernel; /* of these, in the SQ or in the kernel */
	uint32_t nr_soon;   /* of nr_out, all but polls: looked after every turn */
	uint32_t nr_skipped;
	uint32_t kernel_max;
	bool has_mems; /* the kernel takes them */
	struct {
		uint8_t *base; /* NULL: free */
		uint64_t bytes;
	} mem[URING_MEMS];
	struct uring_queue held; /* not yet in the SQ */
	struct uring_queue done; /* res is known, end() has not run */
	uint64_t event_count;
};

static void uring_put(struct uring_queue *q, struct io_req *io)
{
	io->next = NULL;
	if (q->first)
		q->last->next = io;
	else
		q->first = io;
	q->last = io;
}

static struct io_req *uring_take(struct uring_queue *q)
{
	struct io_req *io = q->first;

	if (io)
		q->first = io->next;
	return io;
}

/* Takes `io` out of the middle; false when it isn't there. */
static bool uring_remove(struct uring_queue *q, struct io_req *io)
{
	struct io_req *prev = NULL, *at = q->first;

	for (; at && at != io; at = at->next)
		prev = at;
	if (!at)
		return false;
	if (prev)
		prev->next = io->next;
	else
		q->first = io->next;
	if (q->last == io)
		q->last = prev;
	return true;
}

static void uring_finish(struct uring *u, struct io_req *io, int res)
{
	io->res = res;
	uring_put(&u->done, io);
}

/* Which of the stretches it lies in; -1: none. */
static int uring_mem(const struct uring *u, const struct iovec *iov)
{
	uint64_t off;

	for (unsigned i = 0; u->has_mems && i < URING_MEMS; i++) {
		off = (uintptr_t)iov->iov_base - (uintptr_t)u->mem[i].base;
		if (u->mem[i].base && off < u->mem[i].bytes &&
		    iov->iov_len <= u->mem[i].bytes - off)
			return (int)i;
	}
	return -1;
}

/* One buffer: the kernel needn't fetch an array first, nor look up memory that it knows. */
static void uring_prep_read(struct uring *u, struct io_uring_sqe *sqe, const struct io_req *io)
{
	unsigned len = (unsigned)io->iov->iov_len;
	int mem = io->nr_iov == 1 ? uring_mem(u, io->iov) : -1;

	if (mem >= 0)
		io_uring_prep_read_fixed(sqe, io->fd, io->iov->iov_base, len, io->off, mem);
	else if (io->nr_iov == 1)
		io_uring_prep_read(sqe, io->fd, io->iov->iov_base, len, io->off);
	else
		io_uring_prep_readv(sqe, io->fd, io->iov, io->nr_iov, io->off);
}

static void uring_prep_write(struct uring *u, struct io_uring_sqe *sqe, const struct io_req *io)
{
	unsigned len = (unsigned)io->iov->iov_len;
	int mem = io->nr_iov == 1 ? uring_mem(u, io->iov) : -1;

	if (mem >= 0)
		io_uring_prep_write_fixed(sqe, io->fd, io->iov->iov_base, len, io->off, mem);
	else if (io->nr_iov == 1)
		io_uring_prep_write(sqe, io->fd, io->iov->iov_base, len, io->off);
	else
		io_uring_prep_writev(sqe, io->fd, io->iov, io->nr_iov, io->off);
}

static void uring_prep(struct uring *u, struct io_uring_sqe *sqe, struct io_req *io)
{
	switch (io->op) {
	case IO_POLL:
		io_uring_prep_poll_add(sqe, io->fd, io->poll_mask);
		break;
	case IO_READ:
		uring_prep_read(u, sqe, io);
		break;
	case IO_WRITE:
		uring_prep_write(u, sqe, io);
		break;
	case IO_FSYNC:
		io_uring_prep_fsync(sqe, io->fd, IORING_FSYNC_DATASYNC);
		break;
	case IO_FALLOCATE:
		io_uring_prep_fallocate(sqe, io->fd, io->mode, (off_t)io->off, (off_t)io->len);
		break;
	case IO_CANCEL:
		io_uring_prep_cancel(sqe, io->target, 0);
		break;
	}
	io_uring_sqe_set_data(sqe, io);
}

/* Fills SQEs while there is room, leaving one for the read of event_fd. */
static void uring_fill(struct uring *u)
{
	while (u->held.first && u->nr_kernel < u->kernel_max &&
	       io_uring_sq_space_left(&u->ring) > 1) {
		struct io_req *io = uring_take(&u->held);

		uring_prep(u, io_uring_get_sqe(&u->ring), io);
		u->nr_kernel++;
	}
}

static void uring_arm(struct uring *u)
{
	struct io_uring_sqe *sqe;

	if (u->is_armed)
		return;
	sqe = io_uring_get_sqe(&u->ring);
	if (!sqe)
		return; /* the SQ is full: wait() comes back at once and tries again */
	io_uring_prep_read(sqe, u->event_fd, &u->event_count, sizeof(u->event_count), 0);
	io_uring_sqe_set_data(sqe, u);
	u->is_armed = true;
}

static void uring_enable(struct uring *u)
{
	if (u->is_enabled)
		return;
	/*
	 * By hand: liburing 2.3 declares io_uring_enable_rings() but its shared library doesn't
	 * export it.
	 */
	if (u->ring.flags & IORING_SETUP_R_DISABLED)
		must(syscall(__NR_io_uring_register, u->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS,
			     NULL, 0) == 0);
	u->is_enabled = true;
}

/*
 * What the kernel may say to io_uring_enter() at any time; the SQEs stay where they are and go with
 * the next turn.
 */
static void uring_entered(int res)
{
	must(res >= 0 || res == -EINTR || res == -EAGAIN || res == -EBUSY || res == -ETIME ||
	     res == -ENOMEM);
}

static void uring_push(struct env *env)
{
	struct uring *u = container_of(env, struct uring, env);

	if (u->is_enabled && io_uring_sq_ready(&u->ring) > 0)
		uring_entered(io_uring_submit(&u->ring));
}

static void uring_submit(struct env *env, struct io_req *io)
{
	struct uring *u = container_of(env, struct uring, env);

	must(io->end);
	u->nr_out++;
	u->nr_soon += io->op != IO_POLL;
	if (io->op == IO_CANCEL && uring_remove(&u->held, io->target)) {
		uring_finish(u, io->target, -ECANCELED);
		uring_finish(u, io, 0);
		return;
	}
	uring_put(&u->held, io);
	uring_fill(u);
	if (io_uring_sq_ready(&u->ring) >= URING_PUSH)
		uring_push(env);
}

/* Moves finished requests to `done`. */
static void uring_collect(struct uring *u)
{
	struct io_uring_cqe *cqes[URING_BATCH];
	unsigned nr;

	do {
		nr = io_uring_peek_batch_cqe(&u->ring, cqes, URING_BATCH);
		for (unsigned i = 0; i < nr; i++) {
			void *data = io_uring_cqe_get_data(cqes[i]);

			if (data == u) {
				u->is_armed = false;
				u->is_woken = true;
				continue;
			}
			u->nr_kernel--;
			uring_finish(u, data, cqes[i]->res);
		}
		io_uring_cq_advance(&u->ring, nr);
	} while (nr == URING_BATCH);
}

static int uring_reap(struct env *env, int max)
{
	struct uring *u = container_of(env, struct uring, env);
	uint64_t bytes = 0;
	struct io_req *io;
	int nr = 0;

	if (u->nr_out == 0)
		return 0;
	/* Sockets and eventfds that may become ready: a busy reactor looks every few turns. */
	if (u->nr_soon == 0 && !u->done.first && !u->held.first &&
	    io_uring_sq_ready(&u->ring) == 0 && ++u->nr_skipped < URING_POLL_TURNS)
		return 0;
	u->nr_skipped = 0;
	uring_enable(u);
	uring_fill(u);
	uring_push(env);
	uring_collect(u);
	/* What was read is looked at, every byte of it: of large reads a few are a turn's work. */
	while (nr < max && bytes < URING_REAP_BYTES && (io = uring_take(&u->done)) != NULL) {
		bytes += io->op == IO_READ && io->res > 0 ? (uint64_t)io->res : 0;
		u->nr_out--;
		u->nr_soon -= io->op != IO_POLL;
		io->end(io, io->res);
		nr++;
	}
	return nr;
}

static void uring_wait(struct env *env, uint64_t until_ns)
{
	struct uring *u = container_of(env, struct uring, env);
	struct __kernel_timespec ts;
	struct io_uring_cqe *cqe;
	uint64_t now_ns;

	uring_enable(u);
	uring_fill(u);
	uring_arm(u);
	uring_collect(u);
	if (!u->is_woken && !u->done.first && u->is_armed) {
		now_ns = mono_ns();
		if (until_ns > now_ns) {
			ts.tv_sec = (int64_t)((until_ns - now_ns) / MONO_NS_PER_S);
			ts.tv_nsec = (int64_t)((until_ns - now_ns) % MONO_NS_PER_S);
			uring_entered(io_uring_submit_and_wait_timeout(
				&u->ring, &cqe, 1, until_ns == UINT64_MAX ? NULL : &ts, NULL));
			uring_collect(u);
		}
	}
	u->is_woken = false;
}

static void uring_wake(struct env *env)
{
	struct uring *u = container_of(env, struct uring, env);
	uint64_t one = 1;

	must(write(u->event_fd, &one, sizeof(one)) == sizeof(one));
}

static uint64_t uring_now_ns(struct env *env)
{
	return mono_ns();
}

/* ---- memory that the kernel has looked up ---------------------------------------------------- */

static int uring_mem_set(struct uring *u, unsigned i, void *base, uint64_t bytes)
{
	struct iovec iov = {base, bytes};
	__u64 tag = 0;
	int res = io_uring_register_buffers_update_tag(&u->ring, i, &iov, &tag, 1);

	return res < 0 ? res : res == 1 ? 0 : -EIO;
}

static int uring_memory(struct env *env, void *base, uint64_t bytes)
{
	struct uring *u = container_of(env, struct uring, env);
	unsigned i = 0;
	int err;

	if (!u->has_mems)
		return -ENOSYS;
	if (!bytes || bytes > URING_MEM_MAX)
		return -EINVAL;
	while (i < URING_MEMS && u->mem[i].base)
		i++;
	if (i == URING_MEMS)
		return -ENOSPC;
	err = uring_mem_set(u, i, base, bytes);
	if (err)
		return err;
	u->mem[i].base = base;
	u->mem[i].bytes = bytes;
	return 0;
}

/* No request is prepared with it any more, even if the kernel can't let go of it. */
static void uring_memory_gone(struct env *env, void *base)
{
	struct uring *u = container_of(env, struct uring, env);

	for (unsigned i = 0; i < URING_MEMS; i++) {
		if (!u->mem[i].base || u->mem[i].base != base)
			continue;
		u->mem[i].base = NULL;
		(void)uring_mem_set(u, i, NULL, 0);
	}
}

static void uring_destroy(struct env *env)
{
	struct uring *u = container_of(env, struct uring, env);

	/* The kernel would go on writing into buffers that nobody knows of any more. */
	must(u->nr_out == 0);
	io_uring_queue_exit(&u->ring);
	close(u->event_fd);
	free(u);
}

static const struct env_ops uring_ops = {
	.now_ns = uring_now_ns,
	.io_submit = uring_submit,
	.io_reap = uring_reap,
	.io_push = uring_push,
	.wait = uring_wait,
	.wake = uring_wake,
	.io_memory = uring_memory,
	.io_memory_gone = uring_memory_gone,
	.destroy = uring_destroy,
};

/*
 * Best first. DEFER_TASKRUN (6.1): completions are made when we ask, on our thread, without an
 * interrupt.
 */
static int uring_setup(struct io_uring *ring, unsigned depth)
{
	static const unsigned flags[] = {
		IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
			IORING_SETUP_TASKRUN_FLAG,
		IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
		0,
	};
	int err = -ENOSYS;

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		struct io_uring_params p = {.flags = flags[i]};

		err = io_uring_queue_init_params(depth, ring, &p);
		if (err != -EINVAL)
			break;
	}
	if (err)
		return err;
	/*
	 * Without timeouts in io_uring_enter() (5.11) liburing would spend an SQE and a CQE on
	 * each.
	 */
	if (!(ring->features & IORING_FEAT_EXT_ARG) || !(ring->features & IORING_FEAT_NODROP)) {
		io_uring_queue_exit(ring);
		return -ENOSYS;
	}
	return 0;
}

/* tidy: name: the env is known by its system, the file by what is in it */
int env_linux_create(unsigned depth, struct env **env)
{
	struct uring *u = calloc(1, sizeof(*u));
	int err;

	if (!u)
		return -ENOMEM;
	u->env = (struct env){.ops = &uring_ops, .clock_turns = URING_CLOCK_TURNS};
	/* Blocking: io_uring would answer -EAGAIN at once on a non-blocking one. */
	u->event_fd = eventfd(0, EFD_CLOEXEC);
	if (u->event_fd < 0) {
		err = -errno;
		goto free_u;
	}
	err = uring_setup(&u->ring, max_t(unsigned, depth, 2));
	if (err)
		goto close_event;
	u->has_mems = io_uring_register_buffers_sparse(&u->ring, URING_MEMS) == 0;
	/* One CQE is the eventfd's. */
	u->kernel_max = *u->ring.cq.kring_entries - 1;
	*env = &u->env;
	return 0;

close_event:
	close(u->event_fd);
free_u:
	free(u);
	return err;
}
