/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interrupts: MSI-X vectors are eventfds that the client gave us with SET_IRQS; INTx and MSI are
 * not offered (GET_IRQ_INFO: count 0).
 *
 * An eventfd's flags and counter are the client's as much as ours: it may clear O_NONBLOCK, fill
 * the counter and stall whoever writes. So a worker never writes itself, its env does (io_uring:
 * inline while the file is non-blocking, else on a thread of the kernel's). Each source of
 * interrupts (a CQ; the home for those that the client asks for) has one write under way at most;
 * what comes meanwhile is one more.
 *
 * The table that workers read is immutable: SET_IRQS makes the next one, a round publishes it and
 * cancels writes that the old one has under way (they are made again by the new one). It is
 * answered, and descriptors that the new table doesn't have are closed, when the last of them is
 * over; so none ever goes to a number that has become another file. A vector that fires while it
 * is masked or has no eventfd yet is pending and fires when that changes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/fd_drop.h"
#include "transport/vfu/vfu_int.h"

static const uint64_t vfu_irq_one = 1;
static const struct iovec vfu_irq_iov = {(void *)(uintptr_t)&vfu_irq_one, sizeof(vfu_irq_one)};

/* ---- firing: on the source's worker ---- */

static void vfu_irq_released(struct mbox_msg *m)
{
	struct vfu_irqs *t = container_of(m, struct vfu_irq_use, msg)->table;
	struct vfu_dev *d = t->dev;

	must(t == d->old_irqs && d->nr_old_irqs > 0);
	if (--d->nr_old_irqs == 0)
		vfu_dev_settle(d);
}

static void vfu_irq_release(struct vfu_worker *w, struct vfu_irq_use *use)
{
	use->msg.fn = vfu_irq_released;
	reactor_send(w->tw->reactor, vfu_home_reactor(w->vfu), &use->msg);
}

static void vfu_irq_cancelled(struct io_req *io, int res)
{
	struct vfu_vec *v = container_of(io, struct vfu_vec, cancel);

	v->is_cancelling = false;
	if (v->stopped && !v->is_busy)
		v->stopped(v);
}

static void vfu_irq_cancel(struct vfu_vec *v)
{
	if (v->is_cancelling)
		return;
	v->is_cancelling = true;
	v->cancel = (struct io_req){.op = IO_CANCEL, .target = &v->io, .end = vfu_irq_cancelled};
	reactor_io(v->w->tw->reactor, &v->cancel);
}

/* The round: w takes the new table. */
void vfu_irq_view(struct vfu_dev *d, struct vfu_worker *w)
{
	struct vfu_irqs *old = d->view[w->id].irqs;
	struct vfu_irq_use *use;
	struct vfu_vec *v;

	if (old == d->irqs)
		return;
	d->view[w->id].irqs = d->irqs;
	if (!old)
		return;
	use = &old->use[w->id];
	use->is_old = true;
	if (list_is_empty(&use->vecs))
		vfu_irq_release(w, use);
	list_for_each_entry(v, &use->vecs, node)
		vfu_irq_cancel(v);
}

static void vfu_irq_end(struct io_req *io, int res)
{
	struct vfu_vec *v = container_of(io, struct vfu_vec, io);
	struct vfu_irq_use *use = &v->table->use[v->w->id];

	/* EAGAIN is as good as written: the counter is full, the client will wake up anyway. */
	if (res == -ECANCELED || res == -EINTR)
		v->is_again = true;
	v->is_busy = false;
	list_del(&v->node);
	if (use->is_old && list_is_empty(&use->vecs))
		vfu_irq_release(v->w, use);
	if (v->stopped) {
		if (!v->is_cancelling)
			v->stopped(v);
	} else if (v->is_again) {
		v->is_again = false;
		vfu_irq_fire(v);
	}
}

void vfu_irq_fire(struct vfu_vec *v)
{
	struct vfu_dev *d = v->dev;
	struct vfu_irqs *t = d->view[v->w->id].irqs;

	if (!t || t->fd[v->vector] < 0 || t->is_masked[v->vector]) {
		atomic_store_explicit(&d->irq_pending[v->vector], 1, memory_order_relaxed);
		return;
	}
	if (v->is_busy) {
		v->is_again = true;
		return;
	}
	v->is_busy = true;
	v->table = t;
	list_add_tail(&t->use[v->w->id].vecs, &v->node);
	v->io = (struct io_req){.op = IO_WRITE,
				.fd = t->fd[v->vector],
				.iov = &vfu_irq_iov,
				.nr_iov = 1,
				.off = UINT64_MAX, /* no position */
				.end = vfu_irq_end};
	reactor_io(v->w->tw->reactor, &v->io);
}

/* No more from this source; stopped() when nothing of it is under way, maybe at once. */
void vfu_irq_stop(struct vfu_vec *v, void (*stopped)(struct vfu_vec *v))
{
	v->stopped = stopped;
	if (v->is_busy)
		vfu_irq_cancel(v);
	else if (!v->is_cancelling)
		stopped(v);
}

/* ---- SET_IRQS: home ---- */

static void vfu_irq_free(struct vfu_irqs *t)
{
	if (t)
		free(t->use);
	free(t);
}

/* Nobody uses d->old_irqs any more. */
void vfu_irq_settled(struct vfu_dev *d)
{
	struct vfu_irqs *old = d->old_irqs, *t = d->irqs;

	vfu_must_home(d->vfu);
	for (unsigned i = 0; i < VFU_VECTORS; i++) {
		if (old && old->fd[i] >= 0 && (!t || t->fd[i] != old->fd[i]))
			close(old->fd[i]);
		if (t && t->fd[i] >= 0 && !t->is_masked[i] &&
		    atomic_exchange_explicit(&d->irq_pending[i], 0, memory_order_relaxed))
			vfu_irq_fire(&d->vec[i]);
	}
	vfu_irq_free(old);
	d->old_irqs = NULL;
}

/* Publishes `t` (NULL: no interrupts at all) with the next round. */
static void vfu_irq_publish(struct vfu_dev *d, struct vfu_irqs *t)
{
	must(!d->old_irqs && d->nr_old_irqs == 0);
	d->old_irqs = d->irqs;
	if (d->old_irqs)
		d->nr_old_irqs = d->vfu->node->nr;
	d->irqs = t;
}

void vfu_irq_none(struct vfu_dev *d)
{
	vfu_irq_publish(d, NULL);
}

static void vfu_irq_use_init(struct vfu_irq_use *use, struct vfu_irqs *t)
{
	*use = (struct vfu_irq_use){.table = t};
	list_init(&use->vecs);
}

static struct vfu_irqs *vfu_irq_new(struct vfu_dev *d)
{
	size_t bytes = d->vfu->node->nr * sizeof(struct vfu_irq_use);
	struct vfu_irqs *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->use = aligned_alloc(64, bytes);
	if (!t->use) {
		free(t);
		return NULL;
	}
	for (unsigned i = 0; i < d->vfu->node->nr; i++)
		vfu_irq_use_init(&t->use[i], t);
	t->dev = d;
	memset(t->fd, 0xff, sizeof(t->fd));
	return t;
}

/* All or none: takes the descriptors of the message over, or leaves them all. 1 or -errno. */
static int vfu_irq_assign(struct vfu_dev *d, struct vfu_irqs *t, const struct vfio_irq_set *set)
{
	uint32_t nr = d->sock.nr_fds;

	if (nr != 0 && nr != set->count)
		return -EINVAL;
	for (uint32_t i = 0; i < nr; i++) {
		int fd = d->sock.fds[i];
		int fl;

		if (!fd_drop_is_eventfd(fd))
			return -EINVAL;
		/* A full counter has already said what we want to say. */
		fl = fcntl(fd, F_GETFL);
		if (fl < 0 || fcntl(fd, F_SETFL, fl | O_NONBLOCK))
			return -EINVAL;
	}
	for (uint32_t i = 0; i < set->count; i++)
		t->fd[set->start + i] = nr ? vfu_sock_take_fd(d, i) : -1;
	return 1;
}

/* DATA_NONE or DATA_BOOL. 1 when the table changed, 0 when not. */
static int vfu_irq_act(struct vfu_dev *d, struct vfu_irqs *t, const struct vfio_irq_set *set)
{
	uint32_t action = set->flags & VFIO_IRQ_SET_ACTION_TYPE_MASK;

	for (uint32_t i = 0; i < set->count; i++) {
		uint32_t v = set->start + i;

		if (set->flags & VFIO_IRQ_SET_DATA_BOOL && !set->data[i])
			continue;
		if (action == VFIO_IRQ_SET_ACTION_TRIGGER)
			vfu_irq_fire(&d->vec[v]);
		else
			t->is_masked[v] = action == VFIO_IRQ_SET_ACTION_MASK;
	}
	return action != VFIO_IRQ_SET_ACTION_TRIGGER;
}

/* The header of SET_IRQS: flags, range, size of the data. */
static int vfu_irq_check(const struct vfio_irq_set *set, uint32_t len)
{
	uint32_t data = set->flags & VFIO_IRQ_SET_DATA_TYPE_MASK;
	uint32_t action = set->flags & VFIO_IRQ_SET_ACTION_TYPE_MASK;
	uint32_t max = set->index == VFIO_PCI_MSIX_IRQ_INDEX ? VFU_VECTORS : 0;

	if (set->flags & ~(VFIO_IRQ_SET_DATA_TYPE_MASK | VFIO_IRQ_SET_ACTION_TYPE_MASK))
		return -EINVAL;
	if (!data || data & (data - 1) || !action || action & (action - 1))
		return -EINVAL;
	if (set->index >= VFIO_PCI_NUM_IRQS)
		return -EINVAL;
	if (set->start > max || set->count > max - set->start)
		return -EINVAL;
	if (set->count == 0 &&
	    (data != VFIO_IRQ_SET_DATA_NONE || set->start || action != VFIO_IRQ_SET_ACTION_TRIGGER))
		return -EINVAL;
	if (data == VFIO_IRQ_SET_DATA_BOOL && len - sizeof(*set) < set->count)
		return -EINVAL;
	if (data == VFIO_IRQ_SET_DATA_EVENTFD && action != VFIO_IRQ_SET_ACTION_TRIGGER)
		return -ENOTSUP;
	return 0;
}

int vfu_irq_set(struct vfu_dev *d, const struct vfio_irq_set *set, uint32_t len)
{
	struct vfu_irqs *t;
	int res;

	if (len < sizeof(*set))
		return -EINVAL;
	res = vfu_irq_check(set, len);
	if (res)
		return res;
	if (set->index != VFIO_PCI_MSIX_IRQ_INDEX)
		return 0; /* switching off what doesn't exist */
	t = vfu_irq_new(d);
	if (!t)
		return -ENOMEM;
	if (set->count == 0) {
		/* DATA_NONE, start 0, count 0: all off, which is what t says */
		res = 1;
	} else {
		if (d->irqs) {
			memcpy(t->fd, d->irqs->fd, sizeof(t->fd));
			memcpy(t->is_masked, d->irqs->is_masked, sizeof(t->is_masked));
		}
		res = set->flags & VFIO_IRQ_SET_DATA_EVENTFD ? vfu_irq_assign(d, t, set)
							     : vfu_irq_act(d, t, set);
	}
	if (res <= 0) {
		vfu_irq_free(t);
		return res;
	}
	vfu_irq_publish(d, t);
	return 1;
}

/* ---- the home's own sources ---- */

void vfu_irq_init(struct vfu_dev *d)
{
	for (unsigned i = 0; i < VFU_VECTORS; i++)
		d->vec[i] =
			(struct vfu_vec){.dev = d, .w = vfu_home(d->vfu), .vector = (uint16_t)i};
}

static void vfu_irq_home_stopped(struct vfu_vec *v)
{
	v->dev->nr_vecs--;
	vfu_dev_settle(v->dev);
}

void vfu_irq_quiet(struct vfu_dev *d)
{
	d->nr_vecs = VFU_VECTORS + 1; /* one for us: it must not settle inside the loop */
	for (unsigned i = 0; i < VFU_VECTORS; i++)
		vfu_irq_stop(&d->vec[i], vfu_irq_home_stopped);
	d->nr_vecs--;
}
