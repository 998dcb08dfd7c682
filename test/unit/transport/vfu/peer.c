/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's half of rig.h: raw vfio-user messages, rings in a memfd. The test's thread.
 */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* ---- messages ---- */

void peer_connect(struct rig *r, struct peer *p)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};

	memset(p, 0, sizeof(*p));
	p->rig = r;
	p->mem_fd = -1;
	p->bar0_fd = -1;
	p->stride = 4;
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/cntrl", r->dir);
	p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(p->fd >= 0);
	assert_int_equal(connect(p->fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
}

void peer_drop_fds(struct peer *p)
{
	for (unsigned i = 0; i < p->nr_fds; i++)
		close(p->fds[i]);
	p->nr_fds = 0;
}

void peer_close(struct peer *p)
{
	peer_drop_fds(p);
	for (unsigned i = 0; i < p->nr_bells; i++)
		close(p->bell[i]);
	if (p->bar0 && !p->is_shared)
		munmap(p->bar0, VFU_BAR0_BYTES);
	if (p->bar0_fd >= 0)
		close(p->bar0_fd);
	if (p->mem && !p->is_shared)
		munmap(p->mem, RIG_MEM_BYTES);
	if (p->mem_fd >= 0)
		close(p->mem_fd);
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

void peer_send(struct peer *p, const struct peer_msg *m)
{
	struct vfio_user_hdr h = {.msg_id = ++p->msg_id,
				  .cmd = m->cmd,
				  .size = (uint32_t)sizeof(h) + m->len,
				  .flags = m->flags};
	struct iovec iov[2] = {{&h, sizeof(h)}, {(void *)(uintptr_t)m->data, m->len}};
	struct msghdr mh = {.msg_iov = iov, .msg_iovlen = 2};
	union {
		struct cmsghdr align;
		uint8_t b[CMSG_SPACE(64 * sizeof(int))];
	} ctl;

	if (m->nr_fds) {
		memset(&ctl, 0, sizeof(ctl));
		ctl.align.cmsg_level = SOL_SOCKET;
		ctl.align.cmsg_type = SCM_RIGHTS;
		ctl.align.cmsg_len = CMSG_LEN(m->nr_fds * sizeof(int));
		memcpy(CMSG_DATA(&ctl.align), m->fds, m->nr_fds * sizeof(int));
		mh.msg_control = &ctl;
		mh.msg_controllen = CMSG_SPACE(m->nr_fds * sizeof(int));
	}
	assert_int_equal(sendmsg(p->fd, &mh, MSG_NOSIGNAL), (ssize_t)h.size);
}

static int peer_read(struct peer *p, void *buf, uint32_t len)
{
	struct iovec iov = {buf, len};
	union {
		struct cmsghdr align;
		uint8_t b[CMSG_SPACE(40 * sizeof(int))];
	} ctl;
	struct msghdr mh = {.msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &ctl,
			    .msg_controllen = sizeof(ctl)};
	ssize_t n = recvmsg(p->fd, &mh, MSG_CMSG_CLOEXEC);

	if (n < 0)
		return errno == EAGAIN ? 0 : -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&mh); c; c = CMSG_NXTHDR(&mh, c)) {
		unsigned nr = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));

		assert_true(p->nr_fds + nr <= 40);
		memcpy(p->fds + p->nr_fds, CMSG_DATA(c), nr * sizeof(int));
		p->nr_fds += nr;
	}
	return n == 0 ? -1 : (int)n;
}

bool peer_try_recv(struct peer *p)
{
	int n;

	if (p->rx_len < sizeof(p->hdr)) {
		n = peer_read(p, (uint8_t *)&p->hdr + p->rx_len,
			      (uint32_t)sizeof(p->hdr) - p->rx_len);
		if (n < 0)
			p->rx_len = UINT32_MAX;
		if (n <= 0)
			return n < 0;
		p->rx_len += (uint32_t)n;
		if (p->rx_len < sizeof(p->hdr))
			return false;
		assert_true(p->hdr.size >= sizeof(p->hdr) && p->hdr.size <= sizeof(p->rx));
	}
	while (p->rx_len < p->hdr.size) {
		n = peer_read(p, p->rx + p->rx_len - sizeof(p->hdr), p->hdr.size - p->rx_len);
		if (n < 0)
			p->rx_len = UINT32_MAX;
		if (n <= 0)
			return n < 0;
		p->rx_len += (uint32_t)n;
	}
	return true;
}

int peer_recv(struct peer *p)
{
	p->rx_len = 0;
	rig_until(p->rig, peer_try_recv(p));
	if (p->rx_len == UINT32_MAX)
		return -1;
	assert_int_equal(p->hdr.flags & 0xf, VFIO_USER_REPLY);
	assert_int_equal(p->hdr.msg_id, p->msg_id);
	if (!(p->hdr.flags & VFIO_USER_ERROR))
		return 0;
	assert_int_equal(p->hdr.size, sizeof(p->hdr));
	assert_true(p->hdr.error_no > 0);
	return (int)p->hdr.error_no;
}

int peer_ask(struct peer *p, const struct peer_msg *m)
{
	int err;

	peer_drop_fds(p);
	peer_send(p, m);
	err = peer_recv(p);
	if (err >= 0)
		assert_int_equal(p->hdr.cmd, m->cmd);
	return err;
}

int peer_call(struct peer *p, uint16_t cmd, const void *data, uint32_t len)
{
	return peer_ask(p, &(struct peer_msg){.cmd = cmd, .data = data, .len = len});
}

bool peer_is_closed(struct peer *p)
{
	p->rx_len = 0;
	for (int i = 0; i < 200; i++) {
		rig_step(p->rig);
		if (peer_try_recv(p) && p->rx_len == UINT32_MAX)
			return true;
	}
	return false;
}

/* ---- set-up ---- */

static void peer_version(struct peer *p, const char *json)
{
	uint8_t buf[512] = {0, 0, 1, 0};
	uint32_t len = 4;

	if (json) {
		strcpy((char *)buf + 4, json);
		len += (uint32_t)strlen(json) + 1;
	}
	assert_int_equal(peer_call(p, VFIO_USER_VERSION, buf, len), 0);
	if (strstr((char *)p->rx + 4, "\"doorbell_stride\":64"))
		p->stride = 64;
}

static void peer_bar0(struct peer *p)
{
	struct vfio_region_info in = {.argsz = 4096};

	assert_int_equal(peer_call(p, VFIO_USER_DEVICE_GET_REGION_INFO, &in, sizeof(in)), 0);
	assert_true(p->nr_fds >= 1);
	p->bar0_fd = p->fds[0];
	p->nr_bells = p->nr_fds - 1;
	memcpy(p->bell, p->fds + 1, p->nr_bells * sizeof(int));
	p->nr_fds = 0;
	p->bar0 = mmap(NULL, VFU_BAR0_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, p->bar0_fd, 0);
	assert_true(p->bar0 != MAP_FAILED);
}

void peer_open(struct rig *r, struct peer *p, const char *json)
{
	peer_connect(r, p);
	peer_version(p, json);
	peer_bar0(p);
	p->mem_fd = memfd_create("peer", MFD_CLOEXEC);
	assert_true(p->mem_fd >= 0);
	assert_int_equal(ftruncate(p->mem_fd, RIG_MEM_BYTES), 0);
	p->mem = mmap(NULL, RIG_MEM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, p->mem_fd, 0);
	assert_true(p->mem != MAP_FAILED);
	assert_int_equal(peer_map(p, p->mem_fd, 0, RIG_IOVA, RIG_MEM_BYTES), 0);
}

/* The other mapping of the file that `mine` maps. */
static uint8_t *peer_other_mapping(int fd, const uint8_t *mine)
{
	FILE *f = fopen("/proc/self/maps", "re");
	uint8_t *found = NULL;
	struct stat st;
	char line[512];

	assert_non_null(f);
	assert_int_equal(fstat(fd, &st), 0);
	while (fgets(line, sizeof(line), f)) {
		unsigned long from, ino;

		if (sscanf(line, "%lx-%*x %*s %*s %*s %lu", &from, &ino) == 2 && ino == st.st_ino &&
		    (uint8_t *)from != mine)
			found = (uint8_t *)from;
	}
	fclose(f);
	return found;
}

/*
 * So that ThreadSanitizer, which goes by addresses, sees client and server touch the same memory.
 * Not to be used after anything that makes the server unmap it.
 */
void peer_share(struct peer *p)
{
	uint8_t *mem = peer_other_mapping(p->mem_fd, p->mem);
	uint8_t *bar0 = peer_other_mapping(p->bar0_fd, p->bar0);

	assert_non_null(mem);
	assert_non_null(bar0);
	munmap(p->mem, RIG_MEM_BYTES);
	munmap(p->bar0, VFU_BAR0_BYTES);
	p->mem = mem;
	p->bar0 = bar0;
	p->is_shared = true;
}

int peer_map(struct peer *p, int fd, uint64_t off, uint64_t iova, uint64_t size)
{
	struct vfio_user_dma_map m = {sizeof(m), 3, off, iova, size};

	return peer_ask(p, &(struct peer_msg){.cmd = VFIO_USER_DMA_MAP,
					      .data = &m,
					      .len = sizeof(m),
					      .fds = &fd,
					      .nr_fds = fd >= 0});
}

int peer_unmap(struct peer *p, uint64_t iova, uint64_t size)
{
	struct vfio_user_dma_unmap m = {sizeof(m), 0, iova, size};

	return peer_call(p, VFIO_USER_DMA_UNMAP, &m, sizeof(m));
}

uint64_t peer_reg(struct peer *p, uint32_t off, uint32_t len)
{
	struct vfio_user_region_access a = {off, VFIO_PCI_BAR0_REGION_INDEX, len};
	uint64_t val = 0;

	assert_int_equal(peer_call(p, VFIO_USER_REGION_READ, &a, sizeof(a)), 0);
	assert_int_equal(p->hdr.size, sizeof(p->hdr) + sizeof(a) + len);
	memcpy(&val, p->rx + sizeof(a), len);
	return val;
}

void peer_reg_set(struct peer *p, uint32_t off, uint32_t len, uint64_t val)
{
	uint8_t buf[sizeof(struct vfio_user_region_access) + 8];
	struct vfio_user_region_access a = {off, VFIO_PCI_BAR0_REGION_INDEX, len};

	memcpy(buf, &a, sizeof(a));
	memcpy(buf + sizeof(a), &val, 8);
	assert_int_equal(peer_call(p, VFIO_USER_REGION_WRITE, buf, (uint32_t)sizeof(a) + len), 0);
}

_Atomic uint32_t *peer_bell(struct peer *p, uint16_t qid, bool is_cq)
{
	return (_Atomic uint32_t *)(p->bar0 + peal_doorbell_offset(qid, is_cq, p->stride));
}

static void peer_queue_reset(struct peer *p, uint16_t qid, uint32_t size)
{
	uint32_t at = qid * 0x8000u;

	p->q[qid] = (struct peer_queue){
		.qid = qid, .size = size, .phase = 1, .sq_at = at, .cq_at = at + 0x6000};
	memset(p->mem + at, 0, 0x8000);
}

void peer_enable(struct peer *p)
{
	peer_queue_reset(p, 0, 32);
	peer_reg_set(p, 0x24, 4, 31u << 16 | 31);
	peer_reg_set(p, 0x28, 8, RIG_IOVA + p->q[0].sq_at);
	peer_reg_set(p, 0x30, 8, RIG_IOVA + p->q[0].cq_at);
	peer_reg_set(p, 0x14, 4, 4u << 20 | 6u << 16 | 6u << 4 | 1);
	rig_until(p->rig, peer_reg(p, 0x1c, 4) & 1);
}

void peer_disable(struct peer *p)
{
	peer_reg_set(p, 0x14, 4, 4u << 20 | 6u << 16 | 6u << 4);
	rig_until(p->rig, !(peer_reg(p, 0x1c, 4) & 1));
}

/* ---- rings ---- */

void peer_submit(struct peer *p, uint16_t qid, const struct nvme_sqe *sqe)
{
	struct peer_queue *q = &p->q[qid];

	memcpy(p->mem + q->sq_at + q->sq_tail * sizeof(*sqe), sqe, sizeof(*sqe));
	q->sq_tail = peal_ring_next(q->sq_tail, q->size);
}

/* Wakes the queue's worker if it sleeps: vfio_user.h's protocol. */
static void peer_wake(struct peer *p, uint16_t qid)
{
	struct vfu_wake_page *wake = (void *)(p->bar0 + VFU_WAKE_OFFSET);
	unsigned w = wake->queue_worker[qid];

	if (!p->nr_bells)
		return;
	atomic_thread_fence(memory_order_seq_cst);
	if (__atomic_load_n(&wake->worker[w].sleeping, __ATOMIC_RELAXED)) {
		p->nr_woken++;
		eventfd_write(p->bell[w], 1);
	}
}

void peer_ring(struct peer *p, uint16_t qid)
{
	atomic_store_explicit(peer_bell(p, qid, false), p->q[qid].sq_tail, memory_order_release);
	peer_wake(p, qid);
}

bool peer_reap(struct peer *p, uint16_t qid, struct nvme_cqe *cqe)
{
	struct peer_queue *q = &p->q[qid];
	uint64_t *at = (uint64_t *)(p->mem + q->cq_at) + 2 * q->cq_head, half[2];

	/* ring.h: the high half with acquire; it was written last */
	half[1] = __atomic_load_n(at + 1, __ATOMIC_ACQUIRE);
	if ((half[1] >> 48 & 1) != q->phase)
		return false;
	half[0] = __atomic_load_n(at, __ATOMIC_RELAXED);
	memcpy(cqe, half, sizeof(*cqe));
	assert_int_equal(cqe->sq_id, qid);
	q->phase = peal_ring_phase(q->cq_head, q->size, q->phase);
	q->cq_head = peal_ring_next(q->cq_head, q->size);
	atomic_store_explicit(peer_bell(p, qid, true), q->cq_head, memory_order_release);
	peer_wake(p, qid);
	return true;
}

struct nvme_cqe peer_wait(struct peer *p, uint16_t qid)
{
	struct nvme_cqe cqe;

	rig_until(p->rig, peer_reap(p, qid, &cqe));
	return cqe;
}

uint16_t peer_admin(struct peer *p, struct nvme_sqe *sqe, uint32_t *dw0)
{
	struct nvme_cqe cqe;

	sqe->cid = (uint16_t)(p->q[0].sq_tail + 1000);
	peer_submit(p, 0, sqe);
	peer_ring(p, 0);
	cqe = peer_wait(p, 0);
	assert_int_equal(cqe.cid, sqe->cid);
	if (dw0)
		*dw0 = cqe.dw0;
	return cqe.status >> 1 & 0x7ff;
}

uint16_t peer_queue(struct peer *p, uint16_t qid, uint32_t size)
{
	struct nvme_sqe cq = {.opc = 5, .cdw10 = (size - 1) << 16 | qid, .cdw11 = 1};
	struct nvme_sqe sq = {
		.opc = 1, .cdw10 = (size - 1) << 16 | qid, .cdw11 = (uint32_t)qid << 16 | 1};
	uint16_t st;

	peer_queue_reset(p, qid, size);
	cq.cdw11 |= 2 | (uint32_t)qid << 16; /* interrupts on vector qid */
	cq.prp1 = RIG_IOVA + p->q[qid].cq_at;
	sq.prp1 = RIG_IOVA + p->q[qid].sq_at;
	st = peer_admin(p, &cq, NULL);
	return st ? st : peer_admin(p, &sq, NULL);
}

uint16_t peer_queue_del(struct peer *p, uint16_t qid)
{
	struct nvme_sqe sq = {.opc = 0, .cdw10 = qid}, cq = {.opc = 4, .cdw10 = qid};
	uint16_t st = peer_admin(p, &sq, NULL);

	return st ? st : peer_admin(p, &cq, NULL);
}

struct nvme_sqe peer_read_sqe(uint16_t cid, uint32_t at, uint32_t len, uint32_t seed)
{
	/* SGL: one data block */
	return (struct nvme_sqe){.opc = RIG_READ,
				 .flags = 1u << 6,
				 .cid = cid,
				 .nsid = 1,
				 .sgl = {.addr = RIG_IOVA + at, .len = len},
				 .cdw10 = len,
				 .cdw12 = seed};
}

void peer_check_data(struct peer *p, uint32_t at, uint32_t len, uint32_t seed)
{
	for (uint32_t i = 0; i < len; i++) {
		if (p->mem[at + i] != rig_byte(seed, i))
			fail_msg("byte %u of %u is wrong", i, len);
	}
}
