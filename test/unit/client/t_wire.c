/* SPDX-License-Identifier: Apache-2.0 */
/* The socket: replies, late replies, requests from the server, descriptors, damage. */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mono.h"
#include "client/wire.h"

struct pair {
	struct wire w;
	int peer;
};

static void pair_open(struct pair *p)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	memset(&p->w, 0, sizeof(p->w));
	p->w.fd = fds[0];
	turn_init(&p->w.turn);
	p->peer = fds[1];
}

static void pair_close(struct pair *p)
{
	wire_close(&p->w);
	close(p->peer);
}

static void peer_says(struct pair *p, uint16_t id, uint32_t flags, const char *body)
{
	struct vfio_user_hdr h = {
		.msg_id = id,
		.cmd = VFIO_USER_VERSION,
		.flags = flags,
		.size = (uint32_t)(sizeof(h) + strlen(body)),
		.error_no = flags & VFIO_USER_ERROR ? EACCES : 0,
	};

	assert_int_equal(send(p->peer, &h, sizeof(h), 0), sizeof(h));
	assert_int_equal(send(p->peer, body, strlen(body), 0), strlen(body));
}

static int ask(struct pair *p, char reply[16], uint64_t wait_ms)
{
	struct wire_call m = {.cmd = VFIO_USER_VERSION, .reply = reply, .reply_room = 15};
	int err = wire_call(&p->w, &m, mono_ns() + wait_ms * MONO_NS_PER_MS);

	reply[m.reply_bytes] = 0;
	return err;
}

static void test_late_and_foreign(void **state)
{
	struct vfio_user_hdr h;
	struct pair p;
	char r[16];

	pair_open(&p);
	assert_int_equal(ask(&p, r, 1), -ETIMEDOUT); /* id 1 */
	peer_says(&p, 1, VFIO_USER_REPLY, "late");
	peer_says(&p, 9, 0, "a question");
	peer_says(&p, 8, VFIO_USER_NO_REPLY, "an aside");
	peer_says(&p, 2, VFIO_USER_REPLY, "mine");
	assert_int_equal(ask(&p, r, 1000), 0);
	assert_string_equal(r, "mine");
	/* The server got our two commands, and one refusal of its question. */
	for (int i = 0; i < 3; i++)
		assert_int_equal(recv(p.peer, &h, sizeof(h), 0), sizeof(h));
	assert_int_equal(h.msg_id, 9);
	assert_int_equal(h.flags, VFIO_USER_REPLY | VFIO_USER_ERROR);
	assert_int_equal(recv(p.peer, &h, sizeof(h), 0), -1);
	pair_close(&p);
}

static void test_errors(void **state)
{
	struct pair p;
	char r[16];

	pair_open(&p);
	peer_says(&p, 1, VFIO_USER_REPLY | VFIO_USER_ERROR, "");
	assert_int_equal(ask(&p, r, 1000), -EACCES);
	/* Half a message, a time-out, the other half: the stream goes on where it stood. */
	assert_int_equal(send(p.peer, "\2\0\1\0", 4, 0), 4);
	assert_int_equal(ask(&p, r, 1), -ETIMEDOUT);
	assert_int_equal(send(p.peer, "\22\0\0\0\1\0\0\0\0\0\0\0hi", 14, 0), 14);
	peer_says(&p, 3, VFIO_USER_REPLY, "three");
	assert_int_equal(ask(&p, r, 1000), 0);
	assert_string_equal(r, "three");
	/* A size that can't be: the stream is given up, and our side is shut. */
	assert_int_equal(send(p.peer, "\4\0\1\0\1\0\0\0\1\0\0\0\0\0\0\0", 16, 0), 16);
	assert_int_equal(ask(&p, r, 1000), -EPROTO);
	assert_int_equal(ask(&p, r, 1000), -ENOTCONN);
	pair_close(&p);

	pair_open(&p);
	shutdown(p.peer, SHUT_RDWR);
	assert_int_equal(ask(&p, r, 1000), -ENOTCONN);
	pair_close(&p);
	assert_int_equal(wire_open(&p.w, "/nonexistent/cntrl", 0), -ENOENT);
}

static void test_descriptors(void **state)
{
	int pipefd[2];
	struct wire_call m = {.cmd = VFIO_USER_DMA_MAP, .fds = pipefd, .nr_fds = 1};
	char ctl[CMSG_SPACE(sizeof(int))], data[64];
	struct iovec iov = {data, sizeof(data)};
	struct msghdr mh = {.msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = ctl,
			    .msg_controllen = sizeof(ctl)};
	struct vfio_user_hdr h = {.msg_id = 1, .size = sizeof(h), .flags = VFIO_USER_REPLY};
	struct pair p;
	int fd;

	pair_open(&p);
	assert_int_equal(pipe(pipefd), 0);
	/* The reply carries a descriptor too: the same message, sent by the peer beforehand. */
	iov.iov_base = &h;
	iov.iov_len = sizeof(h);
	*(struct cmsghdr *)ctl = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA((struct cmsghdr *)ctl), &pipefd[1], sizeof(int));
	assert_int_equal(sendmsg(p.peer, &mh, 0), sizeof(h));
	assert_int_equal(wire_call(&p.w, &m, mono_ns() + MONO_NS_PER_S), 0);
	assert_int_equal(m.nr_reply_fds, 1);
	assert_int_equal(write(m.reply_fds[0], "x", 1), 1);
	close(m.reply_fds[0]);

	iov.iov_base = data;
	iov.iov_len = sizeof(data);
	mh.msg_controllen = sizeof(ctl);
	assert_int_equal(recvmsg(p.peer, &mh, 0), sizeof(h));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&mh)), sizeof(fd));
	assert_int_equal(read(fd, data, 1), 1);
	assert_int_equal(data[0], 'x');
	close(fd);
	close(pipefd[0]);
	close(pipefd[1]);
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_late_and_foreign),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
