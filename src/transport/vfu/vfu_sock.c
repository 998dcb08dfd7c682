/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket of one client: whole messages in, one reply each out, never blocking the home
 * reactor.
 *
 *   poll for input -> header (16 bytes) -> payload -> vfu_proto_message() -> reply -> next
 *
 * Only the bytes of one message are read at a time, so descriptors that arrive belong to it; those
 * that nobody took are closed when it is answered. More than VFU_MSG_FDS of them end the client, as
 * does any header that makes no sense - nothing behind it can be trusted. Everything else that is
 * wrong is answered with an errno.
 *
 * No descriptor of a client's is closed but by fd_drop(), since close() may wait. So room is made
 * for as many as a message can carry, and a socket is emptied before it is closed: else the kernel
 * would close what didn't fit, or was never read, on this thread.
 *
 * A client has VFU_SOCK_LATE_NS to say VERSION, then as long for the rest of a message that it has
 * begun and to take a reply: connections are few, and whoever only sits on one goes. One that has
 * said VERSION may be silent for as long as it likes.
 *
 * While a message waits for something (dev->wait) or its reply doesn't fit into the socket,
 * nothing is read; vfu_dev_resume() and the next POLLOUT go on.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/log.h"
#include "core/fd_drop.h"
#include "transport/vfu/vfu_int.h"

#define VFU_SOCK_BUDGET 16 /* messages in one turn */
#define VFU_SOCK_LATE_NS 10000000000ull
#define VFU_SOCK_SCM_MAX 253 /* Linux, SCM_MAX_FD */

union vfu_sock_ctl {
	struct cmsghdr align;
	uint8_t b[CMSG_SPACE(VFU_SOCK_SCM_MAX * sizeof(int))];
};

static void vfu_sock_drop_fds(struct vfu_sock *s)
{
	for (uint32_t i = 0; i < s->nr_fds; i++) {
		if (s->fds[i] >= 0)
			fd_drop(s->fds[i]);
	}
	s->nr_fds = 0;
}

/* The descriptor is the caller's from here; -1 when there is none. */
int vfu_sock_take_fd(struct vfu_dev *d, unsigned i)
{
	struct vfu_sock *s = &d->sock;
	int fd;

	if (i >= s->nr_fds)
		return -1;
	fd = s->fds[i];
	s->fds[i] = -1;
	return fd;
}

/* What goes with the reply is sent, or won't be. */
void vfu_sock_no_tx_fds(struct vfu_dev *d)
{
	struct vfu_sock *s = &d->sock;

	s->nr_tx_fds = 0;
	if (s->tx_reg)
		mem_region_put(s->tx_reg);
	s->tx_reg = NULL;
}

/* The message is over; `len` bytes of payload lie in tx behind the header. */
static void vfu_sock_answer(struct vfu_dev *d, uint32_t flags, uint32_t err, uint32_t len)
{
	struct vfu_sock *s = &d->sock;

	must(s->tx_len == 0 && sizeof(s->tx_hdr) + len <= sizeof(s->tx));
	vfu_sock_drop_fds(s);
	s->rx_len = 0;
	/* The last word is always said: its going out is what closes. */
	if (s->hdr.flags & VFIO_USER_NO_REPLY && !s->is_closing) {
		vfu_sock_no_tx_fds(d);
		return;
	}
	s->tx_len = (uint32_t)sizeof(s->tx_hdr) + len;
	s->tx_at = 0;
	s->tx_hdr = (struct vfio_user_hdr){.msg_id = s->hdr.msg_id,
					   .cmd = s->hdr.cmd,
					   .size = s->tx_len,
					   .flags = VFIO_USER_REPLY | flags,
					   .error_no = err};
}

void vfu_sock_reply(struct vfu_dev *d, uint32_t len)
{
	vfu_sock_answer(d, 0, 0, len);
}

/* err > 0: an errno. */
void vfu_sock_fail(struct vfu_dev *d, int err)
{
	must(err > 0);
	vfu_sock_no_tx_fds(d);
	vfu_sock_answer(d, VFIO_USER_ERROR, (uint32_t)err, 0);
}

/* The descriptors that came with a message: they are ours now. */
static unsigned vfu_sock_came(struct msghdr *mh, int fds[VFU_SOCK_SCM_MAX])
{
	unsigned nr = 0, n;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		must(nr + n <= VFU_SOCK_SCM_MAX);
		memcpy(fds + nr, CMSG_DATA(c), n * sizeof(int));
		nr += n;
	}
	return nr;
}

static int vfu_sock_keep_fds(struct vfu_sock *s, struct msghdr *mh)
{
	int err = mh->msg_flags & MSG_CTRUNC ? -EBADMSG : 0, fds[VFU_SOCK_SCM_MAX];
	unsigned nr = vfu_sock_came(mh, fds);

	for (unsigned i = 0; i < nr; i++) {
		if (s->nr_fds < VFU_MSG_FDS) {
			s->fds[s->nr_fds++] = fds[i];
		} else {
			fd_drop(fds[i]);
			err = -EBADMSG;
		}
	}
	return err;
}

/*
 * Closes a client's socket. After the shutdown nothing more comes in, so the loop ends with what
 * the socket held, which its buffer bounds.
 */
void vfu_sock_close(int fd)
{
	int fds[VFU_SOCK_SCM_MAX];
	union vfu_sock_ctl ctl;
	uint8_t buf[4096];
	ssize_t n;

	shutdown(fd, SHUT_RDWR);
	do {
		struct iovec iov = {.iov_base = buf, .iov_len = sizeof(buf)};
		struct msghdr mh = {.msg_iov = &iov,
				    .msg_iovlen = 1,
				    .msg_control = &ctl,
				    .msg_controllen = sizeof(ctl)};

		n = recvmsg(fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		for (unsigned i = n > 0 ? vfu_sock_came(&mh, fds) : 0; i > 0; i--)
			fd_drop(fds[i - 1]);
	} while (n > 0 || (n < 0 && errno == EINTR));
	close(fd);
}

/* > 0 bytes, 0 nothing there, -errno; end of file is -EPIPE. */
static int vfu_sock_recv(struct vfu_sock *s, uint32_t upto)
{
	union vfu_sock_ctl ctl;
	struct iovec iov = {.iov_base = s->rx + s->rx_len, .iov_len = upto - s->rx_len};
	struct msghdr mh = {.msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &ctl,
			    .msg_controllen = sizeof(ctl)};
	ssize_t n;
	int err;

	do {
		n = recvmsg(s->fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	err = vfu_sock_keep_fds(s, &mh);
	if (err)
		return err;
	if (n == 0)
		return -EPIPE;
	s->rx_len += (uint32_t)n;
	return (int)n;
}

static int vfu_sock_check_hdr(const struct vfio_user_hdr *h)
{
	if (h->size < sizeof(*h) || h->size > VFU_MSG_BYTES)
		return -EMSGSIZE;
	if (h->flags & 0xf)
		return -EBADMSG; /* a reply: we ask nothing */
	return 0;
}

/* 1 a whole message lies in rx, 0 not yet, -errno. */
static int vfu_sock_read(struct vfu_sock *s)
{
	int res;

	if (s->rx_len < sizeof(s->hdr)) {
		res = vfu_sock_recv(s, sizeof(s->hdr));
		if (res <= 0)
			return res;
		if (s->rx_len < sizeof(s->hdr))
			return 0;
		res = vfu_sock_check_hdr(&s->hdr);
		if (res)
			return res;
	}
	while (s->rx_len < s->hdr.size) {
		res = vfu_sock_recv(s, s->hdr.size);
		if (res <= 0)
			return res;
	}
	return 1;
}

/* 1 all out, 0 not yet, -errno. */
static int vfu_sock_write(struct vfu_dev *d)
{
	struct vfu_sock *s = &d->sock;
	union {
		struct cmsghdr align;
		uint8_t b[CMSG_SPACE(VFU_REPLY_FDS * sizeof(int))];
	} ctl;
	ssize_t n;

	while (s->tx_at < s->tx_len) {
		struct iovec iov = {.iov_base = s->tx + s->tx_at, .iov_len = s->tx_len - s->tx_at};
		struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
		size_t bytes = s->nr_tx_fds * sizeof(int);

		if (bytes) {
			memset(&ctl, 0, sizeof(ctl));
			ctl.align.cmsg_level = SOL_SOCKET;
			ctl.align.cmsg_type = SCM_RIGHTS;
			ctl.align.cmsg_len = CMSG_LEN(bytes);
			memcpy(CMSG_DATA(&ctl.align), s->tx_fds, bytes);
			mh.msg_control = &ctl;
			mh.msg_controllen = CMSG_SPACE(bytes);
		}
		n = sendmsg(s->fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		s->tx_at += (uint32_t)n;
		vfu_sock_no_tx_fds(d);
	}
	s->tx_len = 0;
	return 1;
}

/* ---- the loop ---- */

static void vfu_sock_ready(struct io_req *io, int res);

static void vfu_sock_wait(struct vfu_dev *d, uint32_t mask)
{
	struct vfu_sock *s = &d->sock;

	if (s->is_polling)
		return;
	s->io = (struct io_req){
		.op = IO_POLL, .fd = s->fd, .poll_mask = mask, .end = vfu_sock_ready};
	s->is_polling = true;
	reactor_io(vfu_home_reactor(d->vfu), &s->io);
	if ((!d->ctrl || s->rx_len || s->tx_len) && !s->is_shut && !timeout_is_set(&s->late))
		timeout_set(vfu_home_reactor(d->vfu), &s->late,
			    reactor_now_ns(vfu_home_reactor(d->vfu)) + VFU_SOCK_LATE_NS);
}

static void vfu_sock_late(struct timeout *t)
{
	struct vfu_dev *d = container_of(t, struct vfu_dev, sock.late);

	log_some_warn("vfu: %s: %s within %u s, closed", d->host,
		      !d->ctrl	       ? "no VERSION"
		      : d->sock.tx_len ? "a reply was not read"
				       : "half a message and no more of it",
		      (unsigned)(VFU_SOCK_LATE_NS / 1000000000u));
	vfu_sock_shut(d);
}

void vfu_sock_init(struct vfu_dev *d)
{
	timeout_init(&d->sock.late, vfu_sock_late);
}

static void vfu_sock_bad(struct vfu_dev *d, int err)
{
	if (err != -EPIPE && err != -ECONNRESET)
		log_some_warn("vfu: %s: %s on its socket, closed", d->host, strerrorname_np(-err));
	vfu_sock_shut(d);
}

/* One step: false when there is nothing more to do now. */
static bool vfu_sock_step(struct vfu_dev *d)
{
	struct vfu_sock *s = &d->sock;
	int res;

	if (s->tx_len) {
		res = vfu_sock_write(d);
		if (res < 0)
			vfu_sock_bad(d, res);
		else if (res == 0)
			vfu_sock_wait(d, POLLOUT);
		else if (s->is_closing)
			vfu_sock_shut(d);
		else if (d->ctrl)
			timeout_cancel(&s->late);
		return res > 0 && !s->is_shut;
	}
	if (d->wait != VFU_WAIT_NONE)
		return false;
	res = vfu_sock_read(s);
	if (res == 0)
		vfu_sock_wait(d, POLLIN);
	if (res == -EMSGSIZE || res == -EBADMSG) {
		/* say so, then hang up: what follows isn't a message */
		log_some_warn("vfu: %s: malformed message, closed", d->host);
		s->is_closing = true;
		vfu_sock_fail(d, EINVAL);
		return true;
	}
	if (res < 0)
		vfu_sock_bad(d, res);
	if (res <= 0)
		return false;
	vfu_proto_message(d);
	if (d->ctrl)
		timeout_cancel(&s->late);
	return true;
}

static void vfu_sock_run(struct vfu_dev *d)
{
	struct vfu_sock *s = &d->sock;

	vfu_must_home(d->vfu);
	if (s->is_running || s->is_shut)
		return;
	s->is_running = true;
	for (int i = 0; i < 2 * VFU_SOCK_BUDGET; i++) {
		if (!vfu_sock_step(d))
			break;
		if (i == 2 * VFU_SOCK_BUDGET - 1)
			vfu_sock_wait(d, POLLIN | POLLOUT);
	}
	s->is_running = false;
	if (s->is_shut && !s->is_polling)
		vfu_dev_close(d);
}

static void vfu_sock_ready(struct io_req *io, int res)
{
	struct vfu_dev *d = container_of(io, struct vfu_dev, sock.io);

	d->sock.is_polling = false;
	if (d->sock.is_shut)
		vfu_dev_close(d);
	else if (res < 0 && res != -EINTR)
		vfu_sock_bad(d, res);
	else
		vfu_sock_run(d);
}

/* Begins, or goes on after a wait. */
void vfu_sock_start(struct vfu_dev *d)
{
	vfu_sock_run(d);
}

/* No more of it; the client is taken down as soon as nothing of it is under way. */
void vfu_sock_shut(struct vfu_dev *d)
{
	struct vfu_sock *s = &d->sock;

	vfu_must_home(d->vfu);
	if (s->is_shut)
		return;
	s->is_shut = true;
	timeout_cancel(&s->late);
	s->tx_len = 0;
	vfu_sock_no_tx_fds(d);
	vfu_sock_drop_fds(s);
	shutdown(s->fd, SHUT_RDWR); /* ends the poll that is under way */
	if (!s->is_polling && !s->is_running)
		vfu_dev_close(d);
}
