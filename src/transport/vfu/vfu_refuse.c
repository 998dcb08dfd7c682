/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who can't be served is told so: a connection beyond max_clients (or that there is no memory for)
 * waits for its VERSION, which is answered with an errno, and is then closed. That costs a slot of
 * a small table and no client; who says nothing within VFU_REFUSE_LATE_NS, or says anything else,
 * or comes when the table is full, is closed without a word. Both are counted. Home reactor.
 *
 * The header is only peeked at: descriptors behind it are vfu_sock_close()'s, like all that was
 * never read.
 */
/* tidy: no-test: t_vfu.c refuses */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include "base/log.h"
#include "transport/vfu/vfu_int.h"

#define VFU_REFUSE_LATE_NS 1000000000ull

void vfu_refuse_init(struct vfu *v)
{
	for (unsigned i = 0; i < VFU_REFUSALS; i++)
		v->refusal[i].fd = -1;
}

static bool vfu_refuse_answer(const struct vfu_refusal *f)
{
	struct vfio_user_hdr h;

	if (recv(f->fd, &h, sizeof(h), MSG_PEEK | MSG_DONTWAIT) != sizeof(h) ||
	    h.cmd != VFIO_USER_VERSION || h.flags & 0xf)
		return false;
	h.flags = VFIO_USER_REPLY | VFIO_USER_ERROR;
	h.size = sizeof(h);
	h.error_no = f->err;
	return send(f->fd, &h, sizeof(h), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(h);
}

static void vfu_refuse_count(struct vfu *v, bool is_told)
{
	v->refused.nr_told += is_told;
	v->refused.nr_silent += !is_told;
}

static void vfu_refuse_ready(struct io_req *io, int res)
{
	struct vfu_refusal *f = container_of(io, struct vfu_refusal, io);
	struct vfu *v = f->vfu;

	timeout_cancel(&f->late);
	vfu_refuse_count(v, res >= 0 && vfu_refuse_answer(f));
	vfu_sock_close(f->fd);
	f->fd = -1;
	v->nr_refusals--;
	vfu_dev_gone(v);
}

static void vfu_refuse_end(struct vfu_refusal *f)
{
	shutdown(f->fd, SHUT_RDWR); /* ends the poll */
}

static void vfu_refuse_late(struct timeout *t)
{
	vfu_refuse_end(container_of(t, struct vfu_refusal, late));
}

void vfu_refuse(struct vfu *v, int fd, int err)
{
	struct vfu_refusal *f = v->refusal;

	must(err > 0);
	while (f->fd >= 0 && f < &v->refusal[VFU_REFUSALS - 1])
		f++;
	if (f->fd >= 0) {
		log_some_warn("vfu: %s: %u connections are being refused, one more was closed "
			      "without an answer; %llu so far",
			      v->path, VFU_REFUSALS, (unsigned long long)v->refused.nr_silent + 1);
		vfu_refuse_count(v, false);
		vfu_sock_close(fd);
		return;
	}
	*f = (struct vfu_refusal){.vfu = v, .fd = fd, .err = (uint32_t)err};
	f->io = (struct io_req){
		.op = IO_POLL, .fd = fd, .poll_mask = POLLIN, .end = vfu_refuse_ready};
	v->nr_refusals++;
	reactor_io(vfu_home_reactor(v), &f->io);
	timeout_init(&f->late, vfu_refuse_late);
	timeout_set(vfu_home_reactor(v), &f->late,
		    reactor_now_ns(vfu_home_reactor(v)) + VFU_REFUSE_LATE_NS);
}

void vfu_refuse_stop(struct vfu *v)
{
	for (unsigned i = 0; i < VFU_REFUSALS; i++)
		if (v->refusal[i].fd >= 0)
			vfu_refuse_end(&v->refusal[i]);
}
