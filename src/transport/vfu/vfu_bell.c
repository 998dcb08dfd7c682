/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waking a worker that sleeps. A client that was granted "wakeup" has one eventfd per worker and
 * the wake page in its BAR0 (nvme/vfio_user.h):
 *
 * 	client					worker
 * 	store doorbell				sleeping = 1
 * 	full fence				full fence
 * 	load sleeping; if set, write eventfd	look at all doorbells once more; sleep
 *
 * At least one of the two sees the other. Each client has its own eventfds, so that one who drains
 * or floods them hurts nobody else; a worker watches them through its env. Clients without
 * (guests) can't ring: while one has a queue here the worker sleeps at most poll_ns (vfu.c).
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "transport/vfu/vfu_int.h"

static void vfu_bell_set(struct vfu_worker *w, uint32_t sleeping)
{
	struct vfu_share *s;
	struct vfu_sq *sq;

	list_for_each_entry(s, &w->shares, node) {
		if (list_is_empty(&s->sqs))
			continue;
		sq = list_first_entry(&s->sqs, struct vfu_sq, node);
		if (sq->dev->has_wake)
			__atomic_store_n(&vfu_dev_wake(sq->dev)->worker[w->id].sleeping, sleeping,
					 __ATOMIC_RELAXED);
	}
}

void vfu_bell_arm(struct poller *p)
{
	struct vfu_worker *w = container_of(p, struct vfu_worker, poller);

	w->is_armed = true;
	w->until_timed = 0; /* the first after a rest is timed */
	vfu_share_rest(w);
	vfu_bell_set(w, 1);
	atomic_thread_fence(memory_order_seq_cst);
}

void vfu_bell_disarm(struct poller *p)
{
	struct vfu_worker *w = container_of(p, struct vfu_worker, poller);

	w->is_armed = false;
	vfu_bell_set(w, 0);
}

/* ---- watching ---- */

static void vfu_bell_gone(struct mbox_msg *m)
{
	struct vfu_dev *d = container_of(m, struct vfu_bell, msg)->dev;

	d->nr_bells--;
	vfu_dev_settle(d);
}

static void vfu_bell_end(struct io_req *io, int res);

static void vfu_bell_io(struct vfu_bell *b, enum io_op op)
{
	b->is_busy = true;
	b->iov = (struct iovec){&b->nr, sizeof(b->nr)};
	b->io = (struct io_req){.op = op,
				.fd = b->fd,
				.poll_mask = POLLIN,
				.iov = &b->iov,
				.nr_iov = 1,
				.off = UINT64_MAX, /* no position */
				.end = vfu_bell_end};
	reactor_io(b->w->tw->reactor, &b->io);
}

static void vfu_bell_still(struct vfu_bell *b)
{
	if (b->is_busy || b->is_cancelling)
		return;
	b->msg.fn = vfu_bell_gone;
	reactor_send(b->w->tw->reactor, vfu_home_reactor(b->w->vfu), &b->msg);
}

/* To have been woken is all that it is about: the poller looks at the doorbells anyway. */
static void vfu_bell_end(struct io_req *io, int res)
{
	struct vfu_bell *b = container_of(io, struct vfu_bell, io);

	b->is_busy = false;
	if (b->is_stopping)
		vfu_bell_still(b);
	else
		vfu_bell_io(b, io->op == IO_POLL ? IO_READ : IO_POLL);
}

static void vfu_bell_cancelled(struct io_req *io, int res)
{
	struct vfu_bell *b = container_of(io, struct vfu_bell, cancel);

	b->is_cancelling = false;
	vfu_bell_still(b);
}

static void vfu_bell_start_at(struct mbox_msg *m)
{
	vfu_bell_io(container_of(m, struct vfu_bell, msg), IO_POLL);
}

static void vfu_bell_stop_at(struct mbox_msg *m)
{
	struct vfu_bell *b = container_of(m, struct vfu_bell, msg);

	b->is_stopping = true;
	b->is_cancelling = true;
	b->cancel = (struct io_req){.op = IO_CANCEL, .target = &b->io, .end = vfu_bell_cancelled};
	reactor_io(b->w->tw->reactor, &b->cancel);
}

/* ---- home ---- */

static void vfu_bell_send(struct vfu_bell *b, void (*fn)(struct mbox_msg *))
{
	b->msg.fn = fn;
	reactor_send(vfu_home_reactor(b->w->vfu), b->w->tw->reactor, &b->msg);
}

void vfu_bell_destroy(struct vfu_dev *d)
{
	must(d->nr_bells == 0);
	if (!d->bells)
		return;
	for (unsigned i = 0; i < d->vfu->node->nr; i++) {
		if (d->bells[i].fd >= 0)
			close(d->bells[i].fd);
	}
	free(d->bells);
	d->bells = NULL;
}

int vfu_bell_create(struct vfu_dev *d)
{
	unsigned nr = d->vfu->node->nr;

	d->bells = calloc(nr, sizeof(*d->bells));
	if (!d->bells)
		return -ENOMEM;
	for (unsigned i = 0; i < nr; i++)
		d->bells[i] = (struct vfu_bell){.dev = d, .w = &d->vfu->workers[i], .fd = -1};
	for (unsigned i = 0; i < nr; i++) {
		d->bells[i].fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		if (d->bells[i].fd < 0) {
			int err = -errno;

			vfu_bell_destroy(d);
			return err;
		}
	}
	d->nr_bells = nr;
	/* A client may look before it enables: who has the admin queue is no question of that. */
	vfu_dev_wake(d)->queue_worker[0] = (uint8_t)vfu_home(d->vfu)->id;
	for (unsigned i = 0; i < nr; i++)
		vfu_bell_send(&d->bells[i], vfu_bell_start_at);
	return 0;
}

/* After a round: the start has arrived everywhere. */
void vfu_bell_stop(struct vfu_dev *d)
{
	for (unsigned i = 0; i < d->nr_bells; i++)
		vfu_bell_send(&d->bells[i], vfu_bell_stop_at);
}
