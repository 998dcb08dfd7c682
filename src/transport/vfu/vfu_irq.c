/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interrupts: MSI-X vectors are eventfds that the client gave us with SET_IRQS; INTx and MSI are
 * not offered (GET_IRQ_INFO: count 0).
 *
 * The table that workers read is immutable: SET_IRQS makes the next one, a round publishes it, and
 * only then are descriptors that it no longer has closed, so no worker ever writes to a number
 * that has become another file. A vector that fires while it is masked or has no eventfd yet is
 * pending and fires when that changes.
 *
 * A write to an eventfd may block when its owner fills it: only eventfds are taken, and they are
 * set non-blocking, for a full counter has already said what we want to say. (The owner could
 * clear the flag again; it is a process that may use this socket, and gains a stalled daemon.)
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "transport/vfu/vfu_int.h"

void vfu_irq_fire(struct vfu_dev *d, const struct vfu_irqs *t, uint16_t vector)
{
	uint64_t one = 1;

	if (!t || t->fd[vector] < 0 || t->is_masked[vector]) {
		atomic_store_explicit(&d->irq_pending[vector], 1, memory_order_relaxed);
		return;
	}
	if (write(t->fd[vector], &one, sizeof(one)) < 0) {
		/* EAGAIN: the counter is full, the client will wake up anyway */
	}
}

/* Home, after the round that published d->irqs. */
void vfu_irq_settled(struct vfu_dev *d)
{
	struct vfu_irqs *old = d->old_irqs, *t = d->irqs;

	if (!old && !t)
		return;
	for (unsigned i = 0; i < VFU_VECTORS; i++) {
		if (old && old->fd[i] >= 0 && (!t || t->fd[i] != old->fd[i]))
			close(old->fd[i]);
		if (t && t->fd[i] >= 0 && !t->is_masked[i] &&
		    atomic_exchange_explicit(&d->irq_pending[i], 0, memory_order_relaxed))
			vfu_irq_fire(d, t, (uint16_t)i);
	}
	free(old);
	d->old_irqs = NULL;
}

static bool vfu_irq_is_eventfd(int fd)
{
	char path[40], link[40];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, link, sizeof(link) - 1);
	if (n < 0)
		return false;
	link[n] = 0;
	return strncmp(link, "anon_inode:[eventfd]", 20) == 0;
}

/* All or none: takes the descriptors of the message over, or leaves them all. */
static int vfu_irq_assign(struct vfu_dev *d, struct vfu_irqs *t, const struct vfio_irq_set *set)
{
	uint32_t nr = d->sock.nr_fds;

	if (nr != 0 && nr != set->count)
		return -EINVAL;
	for (uint32_t i = 0; i < nr; i++) {
		int fd = d->sock.fds[i];
		int fl;

		if (!vfu_irq_is_eventfd(fd))
			return -EINVAL;
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
			vfu_irq_fire(d, d->irqs, (uint16_t)v);
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
	t = malloc(sizeof(*t));
	if (!t)
		return -ENOMEM;
	memset(t, 0, sizeof(*t));
	memset(t->fd, 0xff, sizeof(t->fd));
	if (set->count == 0) {
		/* DATA_NONE, start 0, count 0: all off, which is what t says */
		res = 1;
	} else {
		if (d->irqs)
			*t = *d->irqs;
		res = set->flags & VFIO_IRQ_SET_DATA_EVENTFD ? vfu_irq_assign(d, t, set)
							     : vfu_irq_act(d, t, set);
	}
	if (res <= 0) {
		free(t);
		return res;
	}
	must(!d->old_irqs);
	d->old_irqs = d->irqs;
	d->irqs = t;
	return 1;
}

/* Nobody reads the table any more. */
void vfu_irq_fini(struct vfu_dev *d)
{
	must(!d->old_irqs);
	d->old_irqs = d->irqs;
	d->irqs = NULL;
	vfu_irq_settled(d);
}
