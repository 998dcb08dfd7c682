/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A vfio-user NVMe host in C, from the specifications: the attackers' tools. It believes nothing of
 * the server's but works with one that is sound. One thread per host.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/vfio.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/mono.h"
#include "base/must.h"
#include "hostile.h"

#define HOST_BELL_OFFSET 0x1000u
#define HOST_SPINS 200000u
#define HOST_ADMIN_MS 60000u

void host_init(struct host *h, const char *path, int mem_fd)
{
	memset(h, 0, sizeof(*h));
	h->path = path;
	h->sock = -1;
	h->admin_ms = HOST_ADMIN_MS;
	h->mem_fd = mem_fd;
	h->mem = mmap(NULL, HOST_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, mem_fd, 0);
	must(h->mem != MAP_FAILED);
}

int host_connect(struct host *h)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	struct timeval minute = {.tv_sec = 60};

	strncpy(sa.sun_path, h->path, sizeof(sa.sun_path) - 1);
	h->sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(h->sock >= 0);
	setsockopt(h->sock, SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof(minute));
	if (connect(h->sock, (void *)&sa, sizeof(sa)) == 0)
		return 0;
	close(h->sock);
	h->sock = -1;
	return -errno;
}

void host_hang_up(struct host *h)
{
	if (h->sock >= 0)
		close(h->sock);
	h->sock = -1;
	if (h->bells)
		munmap(h->bells, 4096);
	h->bells = NULL;
}

int host_send(struct host *h, const void *buf, size_t len, const int *fds, unsigned nr_fds)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
	union {
		struct cmsghdr align;
		uint8_t b[CMSG_SPACE(253 * sizeof(int))];
	} ctl = {0};

	must(nr_fds <= 253);
	if (nr_fds) {
		ctl.align.cmsg_level = SOL_SOCKET;
		ctl.align.cmsg_type = SCM_RIGHTS;
		ctl.align.cmsg_len = CMSG_LEN(nr_fds * sizeof(int));
		memcpy(CMSG_DATA(&ctl.align), fds, nr_fds * sizeof(int));
		mh.msg_control = &ctl;
		mh.msg_controllen = CMSG_SPACE(nr_fds * sizeof(int));
	}
	return sendmsg(h->sock, &mh, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static void take_fds(struct msghdr *mh, int *first)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
		for (size_t at = 0; at < c->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
			if (*first < 0)
				*first = fd;
			else
				close(fd);
		}
	}
}

static int recv_all(struct host *h, void *buf, size_t len, int *fd)
{
	union {
		struct cmsghdr align;
		uint8_t b[CMSG_SPACE(64 * sizeof(int))];
	} ctl;

	for (size_t at = 0; at < len;) {
		struct iovec iov = {.iov_base = (uint8_t *)buf + at, .iov_len = len - at};
		struct msghdr mh = {.msg_iov = &iov,
				    .msg_iovlen = 1,
				    .msg_control = &ctl,
				    .msg_controllen = sizeof(ctl)};
		ssize_t n = recvmsg(h->sock, &mh, MSG_CMSG_CLOEXEC);

		if (n <= 0)
			return n < 0 ? -errno : -EPIPE;
		take_fds(&mh, fd);
		at += (size_t)n;
	}
	return 0;
}

int host_call(struct host *h, struct host_msg *m)
{
	uint8_t buf[4096];
	struct vfio_user_hdr out = {.msg_id = ++h->msg_id, .cmd = m->cmd}, in;
	int fd = -1, err;
	size_t len;

	must(m->len <= sizeof(buf) - sizeof(out));
	out.size = (uint32_t)(sizeof(out) + m->len);
	memcpy(buf, &out, sizeof(out));
	if (m->len)
		memcpy(buf + sizeof(out), m->data, m->len);
	err = host_send(h, buf, out.size, &m->fd, m->fd >= 0);
	if (!err)
		err = recv_all(h, &in, sizeof(in), &fd);
	if (!err && (in.size < sizeof(in) || in.size - sizeof(in) > sizeof(buf)))
		err = -EPROTO;
	len = err ? 0 : in.size - sizeof(in);
	if (!err)
		err = recv_all(h, buf, len, &fd);
	if (!err && (in.msg_id != out.msg_id || in.cmd != out.cmd))
		err = -EPROTO;
	if (!err && in.flags & VFIO_USER_ERROR)
		err = -(int)in.error_no;
	if (!err && m->reply)
		memcpy(m->reply, buf, len < m->max ? len : m->max);
	m->reply_fd = err ? -1 : fd;
	if (err && fd >= 0)
		close(fd);
	return err;
}

int host_map(struct host *h, uint64_t iova, uint64_t bytes, int fd)
{
	struct vfio_user_dma_map map = {32, 3, 0, iova, bytes};

	return host_call(
		h, &(struct host_msg){.cmd = VFIO_USER_DMA_MAP, .data = &map, .len = 32, .fd = fd});
}

int host_unmap(struct host *h, uint64_t iova, uint64_t bytes)
{
	struct vfio_user_dma_unmap unmap = {24, 0, iova, bytes};

	return host_call(h, &(struct host_msg){.cmd = VFIO_USER_DMA_UNMAP,
					       .data = &unmap,
					       .len = sizeof(unmap),
					       .fd = -1});
}

int host_reg_read(struct host *h, uint32_t off, uint32_t *val)
{
	struct vfio_user_region_access a = {off, 0, 4};
	uint8_t back[sizeof(a) + 4] = {0};
	int err = host_call(h, &(struct host_msg){.cmd = VFIO_USER_REGION_READ,
						  .data = &a,
						  .len = sizeof(a),
						  .fd = -1,
						  .reply = back,
						  .max = sizeof(back)});

	if (!err)
		memcpy(val, back + sizeof(a), 4);
	return err;
}

int host_reg_write(struct host *h, uint32_t off, uint64_t val, uint32_t len)
{
	struct vfio_user_region_access a = {off, 0, len};
	uint8_t buf[sizeof(a) + 8];

	memcpy(buf, &a, sizeof(a));
	memcpy(buf + sizeof(a), &val, 8);
	return host_call(h, &(struct host_msg){.cmd = VFIO_USER_REGION_WRITE,
					       .data = buf,
					       .len = sizeof(a) + len,
					       .fd = -1});
}

/* ---- rings ---- */

static uint8_t *ring(struct host *h, unsigned q, bool is_cq)
{
	return h->mem + q * HOST_RING_BYTES + (is_cq ? 0x4000 : 0);
}

void host_bell(struct host *h, unsigned index, uint32_t val)
{
	__atomic_store_n((uint32_t *)(void *)h->bells + index, val, __ATOMIC_RELEASE);
}

struct nvme_sqe *host_slot(struct host *h, unsigned q)
{
	return (struct nvme_sqe *)(void *)ring(h, q, false) + h->q[q].tail;
}

void host_put(struct host *h, unsigned q, const struct nvme_sqe *sqe)
{
	*host_slot(h, q) = *sqe;
	h->q[q].tail = (h->q[q].tail + 1) % HOST_SLOTS;
}

void host_ring(struct host *h, unsigned q)
{
	host_bell(h, 2 * q, h->q[q].tail);
}

unsigned host_reap(struct host *h, unsigned q, struct nvme_cqe *cqe, unsigned max)
{
	const struct nvme_cqe *cq = (void *)ring(h, q, true);
	unsigned nr = 0;

	while (nr < max) {
		const uint16_t *status = &cq[h->q[q].head].status;

		if ((__atomic_load_n(status, __ATOMIC_ACQUIRE) & 1) != h->q[q].phase)
			break;
		if (cqe)
			cqe[nr] = cq[h->q[q].head];
		nr++;
		h->q[q].head = (h->q[q].head + 1) % HOST_SLOTS;
		h->q[q].phase ^= h->q[q].head == 0;
	}
	if (nr)
		host_bell(h, 2 * q + 1, h->q[q].head);
	return nr;
}

/* ---- attaching ---- */

static int map_bells(struct host *h)
{
	struct vfio_region_info in = {.argsz = 4096}, back[8] = {0};
	struct host_msg m = {.cmd = VFIO_USER_DEVICE_GET_REGION_INFO,
			     .data = &in,
			     .len = sizeof(in),
			     .fd = -1,
			     .reply = back,
			     .max = sizeof(back)};
	int err = host_call(h, &m);
	void *p;

	if (err)
		return err;
	if (m.reply_fd < 0)
		return -EPROTO;
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, m.reply_fd,
		 (off_t)(back[0].offset + HOST_BELL_OFFSET));
	close(m.reply_fd);
	if (p == MAP_FAILED)
		return -errno;
	h->bells = p;
	return 0;
}

static int enable(struct host *h)
{
	uint32_t csts = 0;
	int err = host_reg_write(h, 0x24, (HOST_SLOTS - 1) << 16 | (HOST_SLOTS - 1), 4);

	memset(h->mem, 0, HOST_QUEUES * HOST_RING_BYTES);
	memset(h->q, 0, sizeof(h->q));
	for (unsigned q = 0; q < HOST_QUEUES; q++)
		h->q[q].phase = 1;
	if (!err)
		err = host_reg_write(h, 0x28, HOSTILE_IOVA, 8);
	if (!err)
		err = host_reg_write(h, 0x30, HOSTILE_IOVA + 0x4000, 8);
	if (!err)
		err = host_reg_write(h, 0x14, 4u << 20 | 6u << 16 | 6u << 4 | 1, 4);
	for (unsigned i = 0; !err && !(csts & 1) && i < HOST_SPINS; i++) {
		err = host_reg_read(h, 0x1c, &csts);
		if (csts & 2)
			return -EIO;
	}
	return err;
}

static int admin(struct host *h, const struct nvme_sqe *sqe)
{
	uint64_t end = mono_ns() + h->admin_ms * MONO_NS_PER_MS;
	struct nvme_cqe cqe;

	host_put(h, 0, sqe);
	host_ring(h, 0);
	for (unsigned i = 0; mono_ns() < end; i++) {
		if (host_reap(h, 0, &cqe, 1))
			return cqe.status >> 1 & 0x7ff ? -EIO : 0;
		poll(NULL, 0, i < 1000 ? 0 : 10);
	}
	return -ETIMEDOUT;
}

static int make_queue(struct host *h, unsigned q)
{
	uint64_t at = HOSTILE_IOVA + q * HOST_RING_BYTES;
	struct nvme_sqe cq = {.opc = 5, .prp1 = at + 0x4000, .cdw11 = 1};
	struct nvme_sqe sq = {.opc = 1, .prp1 = at, .cdw11 = q << 16 | 1};
	int err;

	cq.cdw10 = sq.cdw10 = (HOST_SLOTS - 1) << 16 | q;
	err = admin(h, &cq);
	return err ? err : admin(h, &sq);
}

int host_attach(struct host *h, unsigned nr)
{
	static const uint8_t version[4] = {0, 0, 1, 0};
	int err = host_connect(h);

	must(nr < HOST_QUEUES);
	if (err)
		return err;
	err = host_call(h, &(struct host_msg){
				   .cmd = VFIO_USER_VERSION, .data = version, .len = 4, .fd = -1});
	if (!err)
		err = host_map(h, HOSTILE_IOVA, HOST_BYTES, h->mem_fd);
	if (!err)
		err = map_bells(h);
	if (!err)
		err = enable(h);
	for (unsigned q = 1; !err && q <= nr; q++)
		err = make_queue(h, q);
	if (err)
		host_hang_up(h);
	return err;
}
