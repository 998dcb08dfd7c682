/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vfio-user socket of the client, see wire.h. The socket is non-blocking and every wait is a
 * poll() with what is left of the deadline. What has arrived of a message survives a time-out, so
 * that the next transaction goes on where the stream stands.
 */
#include "client/wire.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mono.h"
#include "base/must.h"
#include "base/usock.h"

#define WIRE_RETRY_MS 5

/* What is left until the deadline, in the milliseconds of poll(); rounded up. */
static int wire_left_ms(uint64_t deadline_ns)
{
	uint64_t now, ms;

	if (deadline_ns == WIRE_NEVER)
		return -1;
	now = mono_ns();
	if (now >= deadline_ns)
		return 0;
	ms = (deadline_ns - now + MONO_NS_PER_MS - 1) / MONO_NS_PER_MS;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

static int wire_wait(struct wire *w, short events, uint64_t deadline_ns)
{
	struct pollfd pfd = {.fd = w->fd, .events = events};
	int n;

	do
		n = poll(&pfd, 1, wire_left_ms(deadline_ns));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return n ? 0 : -ETIMEDOUT;
}

int wire_open(struct wire *w, const char *path, uint64_t deadline_ns)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int err;

	if (fd < 0)
		return -errno;
	while ((err = usock_connect(fd, path)) < 0) {
		/* EAGAIN: the backlog is full, and there is nothing to poll for. */
		if (err != -EAGAIN && err != -EINTR)
			return err;
		if (wire_left_ms(deadline_ns) == 0)
			return -ETIMEDOUT;
		poll(NULL, 0, WIRE_RETRY_MS);
	}
	memset(w, 0, sizeof(*w));
	turn_init(&w->turn);
	w->fd = fd;
	fd = -1;
	return 0;
}

static void wire_drop_fds(struct wire *w)
{
	for (unsigned i = 0; i < w->nr_rx_fds; i++)
		close(w->rx_fds[i]);
	w->nr_rx_fds = 0;
}

void wire_close(struct wire *w)
{
	wire_drop_fds(w);
	close(w->fd);
	turn_fini(&w->turn);
}

/* The stream is of no use any more. That is no proof that the daemon has let go of our memory; its
 * closing the socket, now that we have ended our side, is. */
static void wire_break(struct wire *w)
{
	w->is_broken = true;
	shutdown(w->fd, SHUT_WR);
}

static int wire_send(struct wire *w, struct msghdr *mh, size_t bytes, uint64_t deadline_ns)
{
	size_t sent = 0;

	while (sent < bytes) {
		ssize_t n = sendmsg(w->fd, mh, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			int err = wire_wait(w, POLLOUT, deadline_ns);

			if (!err)
				continue;
			if (sent > 0)
				wire_break(w);
			return err;
		}
		if (n < 0) {
			wire_break(w);
			return -ENOTCONN;
		}
		sent += (size_t)n;
		mh->msg_control = NULL; /* descriptors go with the first byte */
		mh->msg_controllen = 0;
		for (; n > 0 && (size_t)n >= mh->msg_iov->iov_len; mh->msg_iov++, mh->msg_iovlen--)
			n -= (ssize_t)mh->msg_iov->iov_len;
		if (n > 0) {
			mh->msg_iov->iov_base = (char *)mh->msg_iov->iov_base + n;
			mh->msg_iov->iov_len -= (size_t)n;
		}
	}
	return 0;
}

static int wire_send_cmd(struct wire *w, const struct wire_call *m, uint64_t deadline_ns)
{
	struct vfio_user_hdr hdr = {
		.msg_id = ++w->msg_id,
		.cmd = m->cmd,
		.size = (uint32_t)sizeof(hdr) + m->body_bytes,
	};
	struct iovec iov[3] = {
		{&hdr, sizeof(hdr)},
		{(void *)(uintptr_t)m->body, m->body_bytes},
	};
	union {
		char buf[CMSG_SPACE(sizeof(int) * WIRE_FDS_MAX)];
		struct cmsghdr align;
	} ctl = {0};
	struct msghdr mh = {.msg_iov = iov, .msg_iovlen = 2};

	must(m->nr_fds <= WIRE_FDS_MAX);
	if (m->nr_fds) {
		struct cmsghdr *cm = &ctl.align;

		mh.msg_control = ctl.buf;
		mh.msg_controllen = CMSG_SPACE(sizeof(int) * m->nr_fds);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(sizeof(int) * m->nr_fds);
		memcpy(CMSG_DATA(cm), m->fds, sizeof(int) * m->nr_fds);
	}
	return wire_send(w, &mh, hdr.size, deadline_ns);
}

static void wire_keep_fds(struct wire *w, struct msghdr *mh)
{
	for (struct cmsghdr *cm = CMSG_FIRSTHDR(mh); cm; cm = CMSG_NXTHDR(mh, cm)) {
		size_t nr = (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < nr; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(cm) + i * sizeof(int), sizeof(fd));
			if (w->nr_rx_fds < WIRE_FDS_MAX)
				w->rx_fds[w->nr_rx_fds++] = fd;
			else
				close(fd);
		}
	}
}

/* Reads until `want` bytes of the current message are there. */
static int wire_fill(struct wire *w, uint32_t want, uint64_t deadline_ns)
{
	union {
		char buf[CMSG_SPACE(sizeof(int) * WIRE_FDS_MAX)];
		struct cmsghdr align;
	} ctl;

	while (w->rx_have < want) {
		struct iovec iov = {w->rx + w->rx_have, want - w->rx_have};
		struct msghdr mh = {
			.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = ctl.buf,
			.msg_controllen = sizeof(ctl.buf),
		};
		ssize_t n = recvmsg(w->fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			int err = wire_wait(w, POLLIN, deadline_ns);

			if (err)
				return err;
			continue;
		}
		if (n <= 0)
			return -ENOTCONN;
		wire_keep_fds(w, &mh);
		w->rx_have += (uint32_t)n;
	}
	return 0;
}

/* The whole next message into w->rx. */
static int wire_recv(struct wire *w, uint64_t deadline_ns)
{
	struct vfio_user_hdr *hdr = (struct vfio_user_hdr *)w->rx;
	int err = wire_fill(w, sizeof(*hdr), deadline_ns);

	if (err)
		return err;
	if (hdr->size < sizeof(*hdr) || hdr->size > sizeof(w->rx)) {
		wire_break(w);
		return -EPROTO;
	}
	return wire_fill(w, hdr->size, deadline_ns);
}

/* The server asks for something: no. */
static int wire_refuse(struct wire *w, uint64_t deadline_ns)
{
	struct vfio_user_hdr hdr = *(struct vfio_user_hdr *)w->rx;
	struct iovec iov = {&hdr, sizeof(hdr)};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};

	if (hdr.flags & VFIO_USER_NO_REPLY)
		return 0;
	hdr.size = sizeof(hdr);
	hdr.flags = VFIO_USER_REPLY | VFIO_USER_ERROR;
	hdr.error_no = ENOTSUP;
	return wire_send(w, &mh, sizeof(hdr), deadline_ns);
}

static int wire_take_reply(struct wire *w, struct wire_call *m)
{
	const struct vfio_user_hdr *hdr = (const struct vfio_user_hdr *)w->rx;
	uint32_t body = hdr->size - (uint32_t)sizeof(*hdr);

	if (hdr->flags & VFIO_USER_ERROR) {
		uint32_t e = hdr->error_no;

		return e > 0 && e < 4096 ? -(int)e : -EIO;
	}
	m->reply_bytes = body < m->reply_room ? body : m->reply_room;
	if (m->reply_bytes)
		memcpy(m->reply, w->rx + sizeof(*hdr), m->reply_bytes);
	memcpy(m->reply_fds, w->rx_fds, sizeof(m->reply_fds));
	m->nr_reply_fds = w->nr_rx_fds;
	w->nr_rx_fds = 0;
	return 0;
}

static int wire_transact(struct wire *w, struct wire_call *m, uint64_t deadline_ns)
{
	int err = w->is_broken ? -ENOTCONN : wire_send_cmd(w, m, deadline_ns);

	while (!err) {
		const struct vfio_user_hdr *hdr = (const struct vfio_user_hdr *)w->rx;
		bool is_mine;

		err = wire_recv(w, deadline_ns);
		if (err)
			break;
		is_mine = (hdr->flags & 0xf) == VFIO_USER_REPLY && hdr->msg_id == w->msg_id;
		if (is_mine)
			err = wire_take_reply(w, m);
		else if ((hdr->flags & 0xf) != VFIO_USER_REPLY)
			err = wire_refuse(w, deadline_ns);
		w->rx_have = 0;
		wire_drop_fds(w);
		if (is_mine)
			break;
	}
	return err;
}

int wire_call(struct wire *w, struct wire_call *m, uint64_t deadline_ns)
{
	int err;

	must(m->body_bytes <= WIRE_BODY_MAX);
	m->nr_reply_fds = 0;
	m->reply_bytes = 0;
	err = turn_take(&w->turn, deadline_ns);
	if (err)
		return err;
	err = wire_transact(w, m, deadline_ns);
	turn_give(&w->turn);
	return err;
}
