/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vfio-user server fed with bytes by two clients: messages, whole and torn, descriptors of
 * every kind, memory and doorbells that change, commands. Each input is a new daemon in one thread
 * under the simulated clock, with a KV namespace over DRAM, and a socketpair per client. Records:
 *
 *	op (bits 2:0; bit 3: of which client), then
 *	0 message   cmd, flags, descriptors (3:0 how many, 7:4 first kind), length, payload
 *	1 bytes     length, descriptors, bytes as they are: framing
 *	2 memory    offset / 16 (2 bytes), length, bytes: into the client's memory
 *	3 doorbell  index, value (2 bytes)
 *	4 turns     5:0 how many, 6: read the answers, 7: a second goes by
 *	5 file      5:0 pages that the memory file has from now on, 7:6 holes instead
 *	6 set-up    bits: peal's VERSION, map, BAR0, enable, I/O queue, big message, hang up
 *	7 command   bit 0 queue, 1 and 2 PRP1 and PRP2 become addresses in that memory; length, SQE
 *
 * Whatever comes: no must() fails, and when both have hung up everything that they had is back, to
 * the last request and descriptor.
 */
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/log.h"
#include "base/must.h"
#include "core/fd_drop.h"
#include "fake_node.h"
#include "kv/kv.h"
#include "transport/vfu/vfu_int.h"

#define FUZZ_PAGES 64u
#define FUZZ_PAGE 4096u
#define FUZZ_BYTES (FUZZ_PAGES * FUZZ_PAGE)
#define FUZZ_IOVA 0x100000ull
#define FUZZ_SLOTS 64u /* of each ring; SQ q is page 2q, CQ q page 2q + 1 */
#define FUZZ_KINDS 9u
#define FUZZ_TURNS 100000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_peer {
	struct fuzz *f;
	int fd; /* its end of the socket; -1: hung up */
	int mem_fd;
	uint8_t *mem;
	uint8_t *bar0; /* NULL: no descriptor yet */
	bool has_stride;
	struct {
		uint32_t sq_tail, cq_head, phase;
	} q[2];
};

struct fuzz {
	struct fake_node *n;
	const struct tgt_csi_ops *csi;
	struct tr *tr;
	struct vfu *v;
	struct fuzz_peer peer[2];
	const uint8_t *at, *end; /* of the input */
	int first_fd;		 /* the lowest number that is free before and after */
};

static char fuzz_dir[] = "/tmp/fuzz_vfu.XXXXXX";
static int fuzz_kinds[FUZZ_KINDS]; /* [0]: the client's own memory */

static uint8_t next_u8(struct fuzz *f)
{
	return f->at < f->end ? *f->at++ : 0;
}

static uint16_t next_u16(struct fuzz *f)
{
	uint16_t lo = next_u8(f);

	return (uint16_t)(lo | next_u8(f) << 8);
}

static const uint8_t *next_bytes(struct fuzz *f, size_t *len)
{
	const uint8_t *at = f->at;

	*len = min_t(size_t, *len, (size_t)(f->end - f->at));
	f->at += *len;
	return at;
}

/* ---- the client's end ---- */

static void peer_send(struct fuzz_peer *p, const void *buf, size_t len, uint8_t what)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
	unsigned nr = what & 0xf, kind = what >> 4;
	union {
		struct cmsghdr align;
		uint8_t b[CMSG_SPACE(32 * sizeof(int))];
	} ctl;
	int fds[32];

	if (nr > 13) /* around the most that is taken */
		nr += 2;
	for (unsigned i = 0; i < nr; i++, kind++)
		fds[i] = kind % FUZZ_KINDS ? fuzz_kinds[kind % FUZZ_KINDS] : p->mem_fd;
	if (nr) {
		memset(&ctl, 0, sizeof(ctl));
		ctl.align.cmsg_level = SOL_SOCKET;
		ctl.align.cmsg_type = SCM_RIGHTS;
		ctl.align.cmsg_len = CMSG_LEN(nr * sizeof(int));
		memcpy(CMSG_DATA(&ctl.align), fds, nr * sizeof(int));
		mh.msg_control = &ctl;
		mh.msg_controllen = CMSG_SPACE(nr * sizeof(int));
	}
	if (p->fd >= 0)
		(void)sendmsg(p->fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void peer_message(struct fuzz_peer *p, uint16_t cmd, uint8_t what, const void *data,
			 size_t len)
{
	struct {
		struct vfio_user_hdr h;
		uint8_t data[512];
	} m = {.h = {.msg_id = 1, .cmd = cmd, .size = (uint32_t)(sizeof(m.h) + len)}};

	must(len <= sizeof(m.data));
	memcpy(m.data, data, len);
	peer_send(p, &m, m.h.size, what);
}

static void peer_take_fd(struct fuzz_peer *p, int fd)
{
	void *bar0;

	if (!p->bar0 && lseek(fd, 0, SEEK_END) == VFU_BAR0_BYTES) {
		bar0 = mmap(NULL, VFU_BAR0_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		p->bar0 = bar0 == MAP_FAILED ? NULL : bar0;
	}
	close(fd);
}

/* The answers, and what comes with them. */
static void peer_read(struct fuzz_peer *p)
{
	static uint8_t buf[65536];
	union {
		struct cmsghdr align;
		uint8_t b[CMSG_SPACE(64 * sizeof(int))];
	} ctl;
	ssize_t n;

	do {
		struct iovec iov = {.iov_base = buf, .iov_len = sizeof(buf)};
		struct msghdr mh = {.msg_iov = &iov,
				    .msg_iovlen = 1,
				    .msg_control = &ctl,
				    .msg_controllen = sizeof(ctl)};

		n = p->fd < 0 ? 0 : recvmsg(p->fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		for (struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&mh) : NULL; c;
		     c = CMSG_NXTHDR(&mh, c)) {
			for (size_t at = 0; at < c->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
				int fd;

				memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
				peer_take_fd(p, fd);
			}
		}
	} while (n > 0);
}

static void peer_bell(struct fuzz_peer *p, uint32_t index, uint32_t val)
{
	uint32_t off = VFU_DOORBELL_OFFSET + index * (p->has_stride ? 64u : 4u);

	if (p->bar0 && off + 4 <= VFU_BAR0_BYTES)
		__atomic_store_n((uint32_t *)(p->bar0 + off), val, __ATOMIC_RELEASE);
}

/* Only what lies in the file: a client may not fault, either. */
static bool peer_has(struct fuzz_peer *p, size_t off, size_t len)
{
	off_t size = lseek(p->mem_fd, 0, SEEK_END);

	return size > 0 && off + len <= (size_t)size;
}

static void peer_reap(struct fuzz_peer *p, unsigned q)
{
	const struct nvme_cqe *cq = (void *)(p->mem + (2 * q + 1) * FUZZ_PAGE);

	for (unsigned i = 0; i < FUZZ_SLOTS && peer_has(p, 0, (2 * q + 2) * FUZZ_PAGE); i++) {
		if ((cq[p->q[q].cq_head].status & 1) != p->q[q].phase)
			return;
		p->q[q].cq_head = (p->q[q].cq_head + 1) % FUZZ_SLOTS;
		p->q[q].phase ^= p->q[q].cq_head == 0;
		peer_bell(p, 2 * q + 1, p->q[q].cq_head);
	}
}

static void peer_command(struct fuzz_peer *p, unsigned q, const struct nvme_sqe *sqe)
{
	size_t at = 2 * q * FUZZ_PAGE + p->q[q].sq_tail * sizeof(*sqe);

	if (peer_has(p, at, sizeof(*sqe)))
		memcpy(p->mem + at, sqe, sizeof(*sqe));
	p->q[q].sq_tail = (p->q[q].sq_tail + 1) % FUZZ_SLOTS;
	peer_bell(p, 2 * q, p->q[q].sq_tail);
}

static void peer_turns(struct fuzz_peer *p, unsigned nr, bool reads)
{
	fake_node_steps(p->f->n, nr);
	if (!reads)
		return;
	peer_read(p);
	peer_reap(p, 0);
	peer_reap(p, 1);
}

static void peer_hang_up(struct fuzz_peer *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
	if (p->bar0)
		munmap(p->bar0, VFU_BAR0_BYTES);
	p->bar0 = NULL;
}

/* In a turn of the home reactor, as the listener does. */
struct fuzz_job {
	struct mbox_msg msg;
	struct fuzz *f;
	int fd; /* of a new client; -1: the transport is to stop */
	bool is_stopped;
	bool is_done;
};

static void note(void *arg)
{
	*(bool *)arg = true;
}

static bool is_noted(void *arg)
{
	return *(bool *)arg;
}

static void fuzz_job_run(struct mbox_msg *m)
{
	struct fuzz_job *j = container_of(m, struct fuzz_job, msg);

	if (j->fd >= 0)
		must(vfu_dev_create(j->f->v, j->fd) == 0);
	else
		j->f->tr->ops->stop(j->f->tr, note, &j->is_stopped);
	j->is_done = true;
}

static void fuzz_do(struct fuzz *f, struct fuzz_job *j)
{
	j->msg.fn = fuzz_job_run;
	j->f = f;
	mbox_post(vfu_home_reactor(f->v), &j->msg);
	must(fake_node_run(f->n, is_noted, &j->is_done, FUZZ_TURNS));
}

static void peer_connect(struct fuzz_peer *p)
{
	int sv[2];

	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
	must(fcntl(sv[1], F_SETFL, O_NONBLOCK) == 0);
	p->fd = sv[0];
	fuzz_do(p->f, &(struct fuzz_job){.fd = sv[1]});
}

static void peer_open(struct fuzz *f, struct fuzz_peer *p)
{
	p->f = f;
	p->fd = -1;
	p->mem_fd = memfd_create("fuzz", MFD_CLOEXEC);
	must(p->mem_fd >= 0 && ftruncate(p->mem_fd, FUZZ_BYTES) == 0);
	p->mem = mmap(NULL, FUZZ_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, p->mem_fd, 0);
	must(p->mem != MAP_FAILED);
}

static void peer_close(struct fuzz_peer *p)
{
	peer_hang_up(p);
	munmap(p->mem, FUZZ_BYTES);
	close(p->mem_fd);
}

/* ---- what a proper client does first ---- */

static void setup_version(struct fuzz_peer *p, bool is_peal)
{
	static const char ver[] =
		"\0\0\1\0{\"capabilities\":{\"max_msg_fds\":33,\"peal\":{\"doorbell_stride\":64,"
		"\"arena\":true,\"wakeup\":32,\"operator\":true}}}";

	p->has_stride = is_peal;
	peer_message(p, VFIO_USER_VERSION, 0, ver, is_peal ? sizeof(ver) : 4);
}

static void setup_reg(struct fuzz_peer *p, uint32_t off, uint32_t len, uint64_t val)
{
	uint8_t buf[sizeof(struct vfio_user_region_access) + 8];
	struct vfio_user_region_access a = {off, VFIO_PCI_BAR0_REGION_INDEX, len};

	memcpy(buf, &a, sizeof(a));
	memcpy(buf + sizeof(a), &val, 8);
	peer_message(p, VFIO_USER_REGION_WRITE, 0, buf, sizeof(a) + len);
}

static void setup_enable(struct fuzz_peer *p)
{
	setup_reg(p, 0x24, 4, (FUZZ_SLOTS - 1) << 16 | (FUZZ_SLOTS - 1));
	setup_reg(p, 0x28, 8, FUZZ_IOVA);
	setup_reg(p, 0x30, 8, FUZZ_IOVA + FUZZ_PAGE);
	setup_reg(p, 0x14, 4, 4u << 20 | 6u << 16 | 6u << 4 | 1);
	if (peer_has(p, 0, 2 * FUZZ_PAGE))
		memset(p->mem, 0, 2 * FUZZ_PAGE);
	memset(&p->q[0], 0, sizeof(p->q[0]));
	p->q[0].phase = 1;
	peer_turns(p, 40, true);
}

static void setup_queue(struct fuzz_peer *p)
{
	struct nvme_sqe cq = {.opc = 5,
			      .cdw10 = (FUZZ_SLOTS - 1) << 16 | 1,
			      .cdw11 = 3 | 1u << 16,
			      .prp1 = FUZZ_IOVA + 3 * FUZZ_PAGE};
	struct nvme_sqe sq = {.opc = 1,
			      .cdw10 = (FUZZ_SLOTS - 1) << 16 | 1,
			      .cdw11 = 1 | 1u << 16,
			      .prp1 = FUZZ_IOVA + 2 * FUZZ_PAGE};

	if (peer_has(p, 0, 4 * FUZZ_PAGE))
		memset(p->mem + 2 * FUZZ_PAGE, 0, 2 * FUZZ_PAGE);
	memset(&p->q[1], 0, sizeof(p->q[1]));
	p->q[1].phase = 1;
	peer_command(p, 0, &cq);
	peer_turns(p, 10, true);
	peer_command(p, 0, &sq);
	peer_turns(p, 20, true);
}

static void setup_big(struct fuzz_peer *p)
{
	static struct {
		struct vfio_user_hdr h;
		struct vfio_user_region_access a;
		uint8_t data[VFU_XFER_BYTES];
	} m = {{1, VFIO_USER_REGION_READ, sizeof(m), 0, 0},
	       {0, VFIO_PCI_BAR0_REGION_INDEX, VFU_BAR0_BYTES},
	       {0}};

	peer_send(p, &m, sizeof(m), 0);
}

static void do_setup(struct fuzz_peer *p, uint8_t bits)
{
	struct vfio_user_dma_map map = {32, 3, 0, FUZZ_IOVA, FUZZ_BYTES};
	struct vfio_region_info info = {.argsz = 4096};

	if (bits & 0x40) {
		peer_hang_up(p);
		peer_connect(p);
	}
	if (!(bits & 0x80))
		setup_version(p, bits & 1);
	if (bits & 2)
		peer_message(p, VFIO_USER_DMA_MAP, 1, &map, sizeof(map));
	if (bits & 4)
		peer_message(p, VFIO_USER_DEVICE_GET_REGION_INFO, 0, &info, sizeof(info));
	peer_turns(p, 40, true);
	if (bits & 8)
		setup_enable(p);
	if (bits & 16)
		setup_queue(p);
	if (bits & 32)
		setup_big(p);
}

static void do_message(struct fuzz *f, struct fuzz_peer *p)
{
	uint8_t cmd = next_u8(f), flags = next_u8(f), what = next_u8(f), buf[16 + 255];
	size_t len = next_u8(f);
	const uint8_t *data = next_bytes(f, &len);
	struct vfio_user_hdr h = {
		.msg_id = flags, .cmd = cmd, .size = (uint32_t)(sizeof(h) + len), .flags = flags};

	memcpy(buf, &h, sizeof(h));
	memcpy(buf + sizeof(h), data, len);
	peer_send(p, buf, sizeof(h) + len, what);
}

static void do_bytes(struct fuzz *f, struct fuzz_peer *p)
{
	size_t len = next_u8(f);
	uint8_t what = next_u8(f);
	const uint8_t *data = next_bytes(f, &len);

	if (len)
		peer_send(p, data, len, what);
}

static void do_memory(struct fuzz *f, struct fuzz_peer *p)
{
	size_t off = next_u16(f) * 16u % FUZZ_BYTES, len = next_u8(f);
	const uint8_t *data = next_bytes(f, &len);

	if (off + len <= FUZZ_BYTES && peer_has(p, off, len))
		memcpy(p->mem + off, data, len);
}

static void do_file(struct fuzz_peer *p, uint8_t how)
{
	off_t at = (how & 0x3f) * FUZZ_PAGE;

	if (how & 0xc0)
		(void)fallocate(p->mem_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at,
				FUZZ_PAGE);
	else
		must(ftruncate(p->mem_fd, at) == 0);
}

static void do_command(struct fuzz *f, struct fuzz_peer *p)
{
	uint8_t how = next_u8(f);
	size_t len = next_u8(f) % (sizeof(struct nvme_sqe) + 1);
	const uint8_t *data = next_bytes(f, &len);
	struct nvme_sqe sqe = {0};

	memcpy(&sqe, data, len);
	if (how & 2)
		sqe.prp1 = FUZZ_IOVA + sqe.prp1 % FUZZ_BYTES;
	if (how & 4)
		sqe.prp2 = FUZZ_IOVA + sqe.prp2 % FUZZ_BYTES;
	peer_command(p, how & 1, &sqe);
}

static void do_turns(struct fuzz *f, struct fuzz_peer *p)
{
	uint8_t how = next_u8(f);

	if (how & 0x80)
		f->n->clock_ns += 1000000000;
	peer_turns(p, how & 0x3f, how & 0x40);
}

static void do_record(struct fuzz *f)
{
	uint8_t op = next_u8(f), index;
	struct fuzz_peer *p = &f->peer[op >> 3 & 1];

	if (p->fd < 0 && !(op >> 3 & 1))
		peer_connect(p);
	switch (op & 7) {
	case 0:
		do_message(f, p);
		break;
	case 1:
		do_bytes(f, p);
		break;
	case 2:
		do_memory(f, p);
		break;
	case 3:
		index = next_u8(f);
		peer_bell(p, index, next_u16(f));
		break;
	case 4:
		do_turns(f, p);
		break;
	case 5:
		do_file(p, next_u8(f));
		break;
	case 6:
		do_setup(p, next_u8(f));
		break;
	default:
		do_command(f, p);
	}
	fake_node_steps(f->n, 2);
}

/* ---- the daemon ---- */

static void note_st(void *arg, uint16_t st)
{
	*(bool *)arg = true;
}

static bool is_alone(void *arg)
{
	struct fuzz *f = arg;

	return f->tr->ops->nr_hosts(f->tr) == 0;
}

static void fuzz_kinds_init(void)
{
	log_set_level(LOG_LEVEL_ERR);
	must(mem_guard_init() == 0 && mkdtemp(fuzz_dir));
	fuzz_kinds[1] = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	must(ftruncate(fuzz_kinds[1], FUZZ_BYTES) == 0);
	must(fcntl(fuzz_kinds[1], F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) == 0);
	fuzz_kinds[2] = open("/dev/null", O_RDWR | O_CLOEXEC);
	fuzz_kinds[3] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	fuzz_kinds[4] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fuzz_kinds[5] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	fuzz_kinds[6] = eventfd(0, EFD_CLOEXEC);
	fuzz_kinds[7] = memfd_create("short", MFD_CLOEXEC);
	must(ftruncate(fuzz_kinds[7], 100) == 0);
	fuzz_kinds[8] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	for (unsigned i = 1; i < FUZZ_KINDS; i++)
		must(fuzz_kinds[i] >= 0);
}

static int fuzz_free_fd(void)
{
	int fd = dup(0);

	must(fd >= 0);
	close(fd);
	return fd;
}

static void fuzz_begin(struct fuzz *f)
{
	struct kv_ns_opts ko = {.name = "fuzz", .dram_bytes = 2u << 20, .max_keys = 64};
	struct vfu_opts vo = {.dir = fuzz_dir};
	struct tgt_ns *ns;

	if (!fuzz_kinds[1])
		fuzz_kinds_init();
	f->first_fd = fuzz_free_fd();
	f->n = fake_node_create(&(struct fake_node_opts){
		.seed = 1, .nr = 2, .nr_reqs = 48, .capacity_bytes = 16u << 20});
	f->csi = kv_csi_create(f->n->ss, &ko);
	must(f->csi);
	tgt_subsys_csi_add(f->n->ss, f->csi);
	must(!kv_ns_create(f->n->ss, &ko, &ns) && !tgt_subsys_ns_add(f->n->ss, ns, 1));
	must(!vfu_create(f->n->ss, &vo, &f->tr) && !f->tr->ops->start(f->tr));
	f->v = container_of(f->tr, struct vfu, tr);
	fake_node_steps(f->n, 20);
	for (unsigned i = 0; i < 2; i++)
		peer_open(f, &f->peer[i]);
}

static void fuzz_end(struct fuzz *f)
{
	struct fuzz_job stop = {.fd = -1};
	struct pool *reqs;
	bool is_gone;

	for (unsigned i = 0; i < 2; i++)
		peer_close(&f->peer[i]);
	must(fake_node_run(f->n, is_alone, f, FUZZ_TURNS));
	for (unsigned i = 0; i < f->n->node.nr; i++) {
		reqs = &f->n->node.workers[i]->reqs;
		must(reqs->nr_free == reqs->nr);
	}
	fuzz_do(f, &stop);
	must(fake_node_run(f->n, is_noted, &stop.is_stopped, FUZZ_TURNS));
	for (uint32_t nsid = 1; nsid <= TGT_NS_MAX; nsid++) {
		if (!tgt_subsys_ns(f->n->ss, nsid))
			continue;
		is_gone = false;
		tgt_subsys_ns_del(f->n->ss, nsid, note_st, &is_gone);
		must(fake_node_run(f->n, is_noted, &is_gone, FUZZ_TURNS));
	}
	f->tr->ops->destroy(f->tr);
	fake_node_destroy(f->n);
	kv_csi_destroy(f->csi);
	while (fd_drop_nr_stuck())
		sched_yield();
	must(fuzz_free_fd() == f->first_fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = {.at = data, .end = data + size};

	fuzz_begin(&f);
	while (f.at < f.end)
		do_record(&f);
	fuzz_end(&f);
	return 0;
}
