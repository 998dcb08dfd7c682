/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake daemon's socket, rings and thread, see fake_peald.h. The thread always says that it
 * sleeps, so every doorbell of the client must write the eventfd; that tests the wake protocol and
 * costs no polling.
 */
#include "fake_peald.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/vfio.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/must.h"
#include "fake_int.h"

uint8_t *fake_ptr(struct fake *f, uint64_t iova, uint64_t bytes)
{
	for (unsigned i = 0; i < FAKE_MAPS_MAX; i++) {
		const struct fake_map *m = &f->maps[i];

		if (m->ptr && iova >= m->iova && iova - m->iova <= m->bytes &&
		    bytes <= m->bytes - (iova - m->iova))
			return m->ptr + (iova - m->iova);
	}
	return NULL;
}

static bool fake_move(struct fake *f, uint64_t iova, uint8_t *buf, uint64_t bytes, bool is_to_host)
{
	uint8_t *p = fake_ptr(f, iova, bytes);

	if (!p)
		return false;
	if (is_to_host)
		memcpy(p, buf, bytes);
	else
		memcpy(buf, p, bytes);
	return true;
}

bool fake_xfer(struct fake *f, const struct nvme_sqe *sqe, void *buf, uint32_t bytes,
	       bool is_to_host)
{
	uint64_t first = 4096 - sqe->prp1 % 4096;
	uint64_t entry = sqe->prp2;
	uint8_t *b = buf;

	if (!bytes)
		return true;
	if (NVME_PSDT(sqe->flags) == 1)
		return sqe->sgl.id == 0 && bytes <= sqe->sgl.len &&
		       fake_move(f, sqe->sgl.addr, b, bytes, is_to_host);
	if (bytes <= first)
		return fake_move(f, sqe->prp1, b, bytes, is_to_host);
	if (!fake_move(f, sqe->prp1, b, first, is_to_host))
		return false;
	b += first;
	bytes -= (uint32_t)first;
	/* The buffer, not what is moved, decides what PRP2 is; admin data end in the first page. */
	if (sqe->cdw10 - first <= 4096)
		return fake_move(f, sqe->prp2, b, bytes, is_to_host);
	for (; bytes; entry += 8) {
		uint32_t n = bytes < 4096 ? bytes : 4096;
		uint64_t page;

		if (!fake_move(f, entry, (uint8_t *)&page, 8, false) ||
		    !fake_move(f, page, b, n, is_to_host))
			return false;
		b += n;
		bytes -= n;
	}
	return true;
}

/* ---- rings ---- */

static uint32_t fake_doorbell(struct fake *f, uint32_t qid)
{
	uint8_t *p = f->bar + VFU_DOORBELL_OFFSET + (uint64_t)(2 * qid) * f->stride;

	return __atomic_load_n((uint32_t *)p, __ATOMIC_SEQ_CST);
}

static void fake_post(struct fake *f, struct fake_queue *q, struct nvme_cqe *cqe)
{
	uint64_t half[2], one = 1;
	uint64_t *slot = (uint64_t *)(q->cq + q->cq_tail * 16ull);

	cqe->status = nvme_status_wire(cqe->status, q->phase);
	memcpy(half, cqe, 16);
	__atomic_store_n(slot, half[0], __ATOMIC_RELAXED);
	__atomic_store_n(slot + 1, half[1], __ATOMIC_RELEASE);
	if (++q->cq_tail == q->cq_size) {
		q->cq_tail = 0;
		q->phase ^= 1;
	}
	if (q->has_irq && f->irqs[q->vector] >= 0)
		must(write(f->irqs[q->vector], &one, 8) == 8);
}

static void fake_check_after(struct fake *f, uint8_t opc)
{
	if (!atomic_load(&f->after_nr) || opc != atomic_load(&f->after_opc) ||
	    atomic_fetch_sub(&f->after_nr, 1) > 1)
		return;
	atomic_store(atomic_load(&f->after_disconnect) ? &f->wants_disconnect : &f->is_paused,
		     true);
	fake_kick(f);
}

/* See fake_hold(). True: this one isn't answered now. */
static bool fake_is_withheld(struct fake *f, uint32_t qid, uint8_t opc, const struct nvme_cqe *cqe)
{
	if (f->held_qid && opc == f->hold_until_opc && !--f->hold_nr) {
		fake_post(f, &f->q[f->held_qid], &f->held);
		f->held_qid = 0;
	}
	if (!f->hold_nr || f->held_qid || opc != f->hold_opc)
		return false;
	f->held = *cqe;
	f->held_qid = qid;
	return true;
}

static bool fake_is_held(struct fake *f)
{
	return atomic_load(&f->is_paused) || atomic_load(&f->wants_disconnect);
}

static void fake_run_queue(struct fake *f, uint32_t qid)
{
	struct fake_queue *q = &f->q[qid];

	while (q->sq && !fake_is_held(f) && q->sq_head != fake_doorbell(f, qid)) {
		struct nvme_cqe cqe = {.sq_id = (uint16_t)qid};
		struct nvme_sqe sqe;

		memcpy(&sqe, q->sq + q->sq_head * 64ull, 64);
		if (!qid && atomic_load(&f->pause_at) == sqe.opc + 1u) {
			atomic_store(&f->pause_at, 0);
			atomic_store(&f->is_paused, true);
			return;
		}
		q->sq_head = q->sq_head + 1 == q->sq_size ? 0 : q->sq_head + 1;
		cqe.cid = sqe.cid;
		cqe.sq_head = (uint16_t)q->sq_head;
		if (qid)
			fake_kv_io(f, &sqe, &cqe);
		else
			fake_kv_admin(f, &sqe, &cqe);
		if (!qid || !fake_is_withheld(f, qid, sqe.opc, &cqe))
			fake_post(f, q, &cqe);
		if (qid)
			fake_check_after(f, sqe.opc);
	}
}

/* ---- messages ---- */

struct fake_msg {
	struct vfio_user_hdr hdr;
	uint8_t body[8192];
	int fds[40];
	unsigned nr_fds;
};

static void fake_reply(struct fake *f, struct fake_msg *m, const void *body, uint32_t bytes,
		       const int *fds, unsigned nr_fds) /* tidy: a message is that much */
{
	struct vfio_user_hdr hdr = {
		.msg_id = m->hdr.msg_id,
		.cmd = m->hdr.cmd,
		.size = (uint32_t)sizeof(hdr) + bytes,
		.flags = VFIO_USER_REPLY,
	};
	struct iovec iov[2] = {{&hdr, sizeof(hdr)}, {(void *)(uintptr_t)body, bytes}};
	union {
		char buf[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} ctl = {0};
	struct msghdr mh = {.msg_iov = iov, .msg_iovlen = 2};

	if (nr_fds) {
		mh.msg_control = ctl.buf;
		mh.msg_controllen = CMSG_SPACE(nr_fds * sizeof(int));
		ctl.align.cmsg_level = SOL_SOCKET;
		ctl.align.cmsg_type = SCM_RIGHTS;
		ctl.align.cmsg_len = CMSG_LEN(nr_fds * sizeof(int));
		memcpy(CMSG_DATA(&ctl.align), fds, nr_fds * sizeof(int));
	}
	sendmsg(f->client_fd, &mh, MSG_NOSIGNAL);
}

static void fake_refuse(struct fake *f, struct fake_msg *m, int err)
{
	struct vfio_user_hdr hdr = m->hdr;

	hdr.size = sizeof(hdr);
	hdr.flags = VFIO_USER_REPLY | VFIO_USER_ERROR;
	hdr.error_no = (uint32_t)err;
	send(f->client_fd, &hdr, sizeof(hdr), MSG_NOSIGNAL);
}

static void fake_version(struct fake *f, struct fake_msg *m)
{
	struct {
		struct vfio_user_version v;
		char json[256];
	} r = {.v = {.minor = 1}};

	must(strstr((char *)m->body + 4, "\"doorbell_stride\":64"));
	f->is_silent = !strstr((char *)m->body + 4, "\"wakeup\"");
	f->stride = f->no_stride ? 4 : 64;
	snprintf(r.json, sizeof(r.json),
		 "{\"capabilities\":{\"max_msg_fds\":8,\"peal\":{%s\"arena\":%s,\"wakeup\":1}}}",
		 f->no_stride ? "" : "\"doorbell_stride\":64,", f->no_arena ? "false" : "true");
	fake_reply(f, m, &r, (uint32_t)(4 + strlen(r.json) + 1), NULL, 0);
}

static void fake_region_info(struct fake *f, struct fake_msg *m)
{
	struct {
		struct vfio_region_info info;
		struct vfio_region_info_cap_sparse_mmap cap;
		struct vfio_region_sparse_mmap_area area[2];
	} r = {0};
	uint32_t index = ((struct vfio_region_info *)m->body)->index;
	int fds[2] = {f->bar_fd, f->wake_fd};

	r.info.argsz = sizeof(r);
	r.info.index = index;
	if (index == PEAL_REGION_ARENA && !f->no_arena) {
		r.info.size = FAKE_ARENA_BYTES;
		fake_reply(f, m, &r.info, sizeof(r.info), &f->arena_fd, 1);
		return;
	}
	if (index != VFIO_PCI_BAR0_REGION_INDEX) {
		fake_refuse(f, m, EINVAL);
		return;
	}
	r.info.size = VFU_BAR0_BYTES;
	r.info.flags = VFIO_REGION_INFO_FLAG_MMAP | VFIO_REGION_INFO_FLAG_CAPS;
	r.info.cap_offset = sizeof(r.info);
	r.cap.header.id = VFIO_REGION_INFO_CAP_SPARSE_MMAP;
	r.cap.nr_areas = 2;
	r.area[0] = (struct vfio_region_sparse_mmap_area){
		VFU_DOORBELL_OFFSET,
		f->no_stride ? VFU_DOORBELL_BYTES_STRIDE4 : VFU_DOORBELL_BYTES_STRIDE64};
	r.area[1] = (struct vfio_region_sparse_mmap_area){VFU_WAKE_OFFSET, 0x1000};
	fake_reply(f, m, &r, sizeof(r), fds, 2);
}

static void fake_dma(struct fake *f, struct fake_msg *m)
{
	const struct vfio_user_dma_map *d = (const struct vfio_user_dma_map *)m->body;
	const struct vfio_user_dma_unmap *u = (const struct vfio_user_dma_unmap *)m->body;

	for (unsigned i = 0; i < FAKE_MAPS_MAX; i++) {
		struct fake_map *at = &f->maps[i];

		if (m->hdr.cmd == VFIO_USER_DMA_MAP && !at->ptr) {
			at->ptr = mmap(NULL, d->size, PROT_READ | PROT_WRITE, MAP_SHARED, m->fds[0],
				       (off_t)d->offset);
			must(m->nr_fds == 1);
			if (at->ptr == MAP_FAILED) {
				at->ptr = NULL;
				fake_refuse(f, m, ENOTSUP);
				return;
			}
			at->iova = d->addr;
			at->bytes = d->size;
			atomic_fetch_add(&f->nr_maps, 1);
			fake_reply(f, m, NULL, 0, NULL, 0);
			return;
		}
		if (m->hdr.cmd == VFIO_USER_DMA_UNMAP && at->ptr && at->iova == u->addr) {
			must(at->bytes == u->size);
			munmap(at->ptr, at->bytes);
			at->ptr = NULL;
			atomic_fetch_sub(&f->nr_maps, 1);
			fake_reply(f, m, u, sizeof(*u), NULL, 0);
			return;
		}
	}
	fake_refuse(f, m, ENOENT);
}

static void fake_enable(struct fake *f, uint32_t cc)
{
	f->cc = cc;
	f->csts = cc & 1;
	memset(f->q, 0, sizeof(f->q));
	if (!(cc & 1))
		return;
	must((cc >> 4 & 7) == 6);
	memset(f->bar + VFU_DOORBELL_OFFSET, 0, VFU_DOORBELL_BYTES_STRIDE64);
	f->q[0] = (struct fake_queue){
		.sq_size = (f->aqa & 0xfff) + 1,
		.cq_size = (f->aqa >> 16 & 0xfff) + 1,
		.phase = 1,
		.has_irq = true,
	};
	f->q[0].sq = fake_ptr(f, f->asq, f->q[0].sq_size * 64ull);
	f->q[0].cq = fake_ptr(f, f->acq, f->q[0].cq_size * 16ull);
	must(f->q[0].sq && f->q[0].cq);
}

static void fake_register(struct fake *f, struct fake_msg *m)
{
	struct vfio_user_region_access *a = (struct vfio_user_region_access *)m->body;
	uint64_t v = 0, dstrd = f->stride == 64 ? 4 : 0;

	if (m->hdr.cmd == VFIO_USER_REGION_READ) {
		if (a->offset == 0)
			v = 4095 | dstrd << 32 | 1ull << 43 | 1ull << 37;
		else if (a->offset == 0x14)
			v = f->cc;
		else if (a->offset == 0x1c)
			v = f->csts;
		memcpy(a->data, &v, a->count);
		fake_reply(f, m, a, (uint32_t)sizeof(*a) + a->count, NULL, 0);
		return;
	}
	memcpy(&v, a->data, a->count);
	if (a->offset == 0x24)
		f->aqa = (uint32_t)v;
	else if (a->offset == 0x28)
		f->asq = v;
	else if (a->offset == 0x30)
		f->acq = v;
	else if (a->offset == 0x14)
		fake_enable(f, (uint32_t)v);
	fake_reply(f, m, a, sizeof(*a), NULL, 0);
}

static void fake_irq(struct fake *f, struct fake_msg *m)
{
	struct vfio_irq_set *s = (struct vfio_irq_set *)m->body;
	struct vfio_irq_info info = {
		.argsz = sizeof(info), .index = VFIO_PCI_MSIX_IRQ_INDEX, .count = FAKE_VECTORS};

	if (m->hdr.cmd == VFIO_USER_DEVICE_GET_IRQ_INFO) {
		fake_reply(f, m, &info, sizeof(info), NULL, 0);
		return;
	}
	must(s->index == VFIO_PCI_MSIX_IRQ_INDEX && s->start < FAKE_VECTORS && m->nr_fds == 1);
	if (f->irqs[s->start] >= 0)
		close(f->irqs[s->start]);
	f->irqs[s->start] = m->fds[0];
	m->nr_fds = 0;
	fake_reply(f, m, NULL, 0, NULL, 0);
}

static void fake_drop_client(struct fake *f)
{
	for (unsigned i = 0; i < FAKE_MAPS_MAX; i++) {
		if (f->maps[i].ptr)
			munmap(f->maps[i].ptr, f->maps[i].bytes);
		f->maps[i].ptr = NULL;
	}
	for (unsigned i = 0; i < FAKE_VECTORS; i++) {
		if (f->irqs[i] >= 0)
			close(f->irqs[i]);
		f->irqs[i] = -1;
	}
	atomic_store(&f->nr_maps, 0);
	f->cc = 0;
	f->csts = 0;
	f->hold_nr = f->held_qid = 0;
	memset(f->q, 0, sizeof(f->q));
	if (f->client_fd >= 0)
		close(f->client_fd); /* last: everything is let go of */
	f->client_fd = -1;
}

static bool fake_recv(struct fake *f, struct fake_msg *m)
{
	union {
		char buf[CMSG_SPACE(sizeof(m->fds))];
		struct cmsghdr align;
	} ctl;
	struct iovec iov = {&m->hdr, sizeof(m->hdr)};
	struct msghdr mh = {.msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = ctl.buf,
			    .msg_controllen = sizeof(ctl.buf)};
	struct cmsghdr *cm;
	uint32_t body;

	m->nr_fds = 0;
	if (recvmsg(f->client_fd, &mh, MSG_WAITALL | MSG_CMSG_CLOEXEC) != sizeof(m->hdr))
		return false;
	cm = CMSG_FIRSTHDR(&mh);
	if (cm && cm->cmsg_type == SCM_RIGHTS) {
		m->nr_fds = (unsigned)((cm->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(m->fds, CMSG_DATA(cm), m->nr_fds * sizeof(int));
	}
	body = m->hdr.size - (uint32_t)sizeof(m->hdr);
	return body <= sizeof(m->body) &&
	       (!body || recv(f->client_fd, m->body, body, MSG_WAITALL) == (ssize_t)body);
}

static void fake_message(struct fake *f)
{
	struct fake_msg m;

	if (!fake_recv(f, &m)) {
		fake_drop_client(f);
		return;
	}
	switch (m.hdr.cmd) {
	case VFIO_USER_VERSION:
		fake_version(f, &m);
		break;
	case VFIO_USER_DEVICE_GET_REGION_INFO:
		fake_region_info(f, &m);
		break;
	case VFIO_USER_DMA_MAP:
	case VFIO_USER_DMA_UNMAP:
		fake_dma(f, &m);
		break;
	case VFIO_USER_REGION_READ:
	case VFIO_USER_REGION_WRITE:
		fake_register(f, &m);
		break;
	case VFIO_USER_DEVICE_GET_IRQ_INFO:
	case VFIO_USER_DEVICE_SET_IRQS:
		fake_irq(f, &m);
		break;
	default:
		fake_refuse(f, &m, ENOTSUP);
		break;
	}
	for (unsigned i = 0; i < m.nr_fds; i++)
		close(m.fds[i]);
}

/* ---- thread ---- */

static void fake_turn(struct fake *f, struct pollfd pfd[4])
{
	uint64_t n;

	if (pfd[0].revents & POLLIN)
		must(read(f->ctl_fd, &n, 8) == 8);
	fake_count_rings(f);
	if (atomic_exchange(&f->wants_disconnect, false))
		fake_drop_client(f);
	if (atomic_load(&f->is_paused))
		return;
	if (f->client_fd < 0 && pfd[2].revents & POLLIN) {
		f->client_fd = accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC);
		atomic_fetch_add(&f->nr_connects, 1);
	} else if (f->client_fd >= 0 && pfd[3].revents) {
		fake_message(f);
	}
	for (uint32_t q = 0; q <= f->nr_queues; q++)
		fake_run_queue(f, q);
}

static void *fake_main(void *arg)
{
	struct fake *f = arg;

	while (!atomic_load(&f->is_stopping)) {
		bool is_paused = atomic_load(&f->is_paused);
		struct pollfd pfd[4] = {
			{f->ctl_fd, POLLIN, 0},
			{f->wake_fd, POLLIN, 0},
			{f->client_fd < 0 && !is_paused ? f->listen_fd : -1, POLLIN, 0},
			{is_paused ? -1 : f->client_fd, POLLIN, 0},
		};

		/* Who can't ring the bell is looked at now and then. */
		poll(pfd, 4, f->is_silent && f->client_fd >= 0 ? 1 : -1);
		pthread_mutex_lock(&f->lock);
		fake_turn(f, pfd);
		pthread_mutex_unlock(&f->lock);
	}
	fake_drop_client(f);
	return NULL;
}

static void fake_listen(struct fake *f)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};

	memcpy(sa.sun_path, f->path, strlen(f->path));
	f->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(bind(f->listen_fd, (struct sockaddr *)&sa, sizeof(sa)) == 0);
	must(listen(f->listen_fd, 8) == 0);
}

struct fake *fake_start(const struct fake_opts *o)
{
	static const struct fake_opts none;
	struct fake *f = calloc(1, sizeof(*f));

	o = o ? o : &none;
	must(f);
	if (o->dir) {
		snprintf(f->dir, sizeof(f->dir), "%s", o->dir);
	} else {
		snprintf(f->dir, sizeof(f->dir), "/tmp/fake-peald-XXXXXX");
		must(mkdtemp(f->dir));
	}
	snprintf(f->path, sizeof(f->path), "%s/cntrl", f->dir);
	snprintf(f->uri, sizeof(f->uri), "vfu:%s", f->dir);
	f->nr_queues = o->nr_queues ? o->nr_queues : 16;
	f->no_vendor = o->no_vendor;
	f->no_sgl = o->no_sgl;
	f->no_arena = o->no_arena;
	f->no_stride = o->no_stride;
	f->client_fd = -1;
	f->ns_bytes[0] = FAKE_ARENA_BYTES;
	for (unsigned i = 0; i < FAKE_VECTORS; i++)
		f->irqs[i] = -1;
	f->ctl_fd = eventfd(0, EFD_CLOEXEC);
	f->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	f->bar_fd = memfd_create("fake-bar", MFD_CLOEXEC);
	f->arena_fd = memfd_create("fake-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	must(ftruncate(f->bar_fd, VFU_BAR0_BYTES) == 0);
	must(ftruncate(f->arena_fd, FAKE_ARENA_BYTES) == 0);
	f->bar = mmap(NULL, VFU_BAR0_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, f->bar_fd, 0);
	f->arena = mmap(NULL, FAKE_ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, f->arena_fd, 0);
	must(fcntl(f->arena_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) ==
	     0);
	((struct vfu_wake_page *)(f->bar + VFU_WAKE_OFFSET))->worker[0].sleeping = 1;
	pthread_mutex_init(&f->lock, NULL);
	fake_listen(f);
	must(pthread_create(&f->thread, NULL, fake_main, f) == 0);
	return f;
}

void fake_stop(struct fake *f)
{
	atomic_store(&f->is_stopping, true);
	fake_kick(f);
	pthread_join(f->thread, NULL);
	unlink(f->path);
	rmdir(f->dir);
	for (unsigned i = 0; i < f->nr_entries; i++)
		free(f->entries[i].seals);
	munmap(f->bar, VFU_BAR0_BYTES);
	munmap(f->arena, FAKE_ARENA_BYTES);
	close(f->bar_fd);
	close(f->arena_fd);
	close(f->listen_fd);
	close(f->ctl_fd);
	close(f->wake_fd);
	pthread_mutex_destroy(&f->lock);
	free(f);
}
