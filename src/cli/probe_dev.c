/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layers of `peal probe` that are messages on the socket (QEMU's docs/interop/vfio-user.rst):
 * connecting, VERSION, the device and its regions, registers (NVMe Base 2.0, 3.1.3), the DMA map,
 * the doorbell page. See probe.h.
 */
/* tidy: no-test: test/peer/probe.py runs it against devices with planted faults */
#include <errno.h>
#include <jansson.h>
#include <linux/vfio.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mono.h"
#include "cli/probe.h"

#define DEV_MQES 4095u
#define DEV_MQES_LEAST 15u /* less than our admin queue: nothing can be tried */
#define DEV_VS 0x00020000u
#define DEV_CAP_CSI (1ull << 43)
#define DEV_CLASS 0x010802u /* mass storage, non-volatile memory, NVMe */
#define DEV_CONFIG_BYTES 256u
#define DEV_CSTS_RDY 1u
#define DEV_CSTS_CFS 2u
#define DEV_AREAS_MAX 8u
#define DEV_BAR0_LEAST (VFU_DOORBELL_OFFSET + PROBE_PAGE)

const char *probe_dev_error(int err)
{
	switch (err) {
	case -ETIMEDOUT:
		return "no answer in time";
	case -ENOTCONN:
		return "the peer hung up";
	case -EPROTO:
		return "the answer is no vfio-user message";
	case -EUSERS:
		return "the peer has as many clients as it takes (peald --max-clients)";
	default:
		return strerror(-err);
	}
}

static void dev_close_fds(const struct wire_call *m)
{
	for (unsigned i = 0; i < m->nr_reply_fds; i++)
		close(m->reply_fds[i]);
}

/* One message; a reply shorter than `least` is a broken peer's. */
static int dev_call(struct probe *p, struct wire_call *m, uint32_t least)
{
	int err = wire_call(&p->wire, m, probe_deadline(p));

	if (!err && m->reply_bytes < least) {
		dev_close_fds(m);
		return -EPROTO;
	}
	return err;
}

/* ---- socket, version ---- */

void probe_dev_socket(struct probe *p)
{
	int err = wire_open(&p->wire, p->path, probe_deadline(p));

	if (err) {
		p->wire.fd = -1;
		probe_bad(p, PROBE_SOCKET, "%s: %s%s", p->path, strerror(-err),
			  err == -ENOENT || err == -ECONNREFUSED ? ": is peald running?" : "");
		return;
	}
	probe_good(p, PROBE_SOCKET, "connected to %s", p->path);
}

void probe_dev_version(struct probe *p)
{
	static const char ours[] = "{\"capabilities\":{\"max_msg_fds\":8}}";
	struct {
		struct vfio_user_version v;
		char json[4096];
	} msg = {.v = {.major = 0, .minor = 1}}, reply = {0};
	struct wire_call m = {
		.cmd = VFIO_USER_VERSION,
		.body = &msg,
		.body_bytes = sizeof(msg.v) + sizeof(ours),
		.reply = &reply,
		.reply_room = sizeof(reply) - 1,
	};
	json_t *root;
	int err;

	memcpy(msg.json, ours, sizeof(ours));
	err = dev_call(p, &m, sizeof(reply.v));
	if (err) {
		probe_bad(p, PROBE_VERSION, "VERSION: %s", probe_dev_error(err));
		return;
	}
	dev_close_fds(&m);
	if (reply.v.major != 0) {
		probe_bad(p, PROBE_VERSION, "the peer speaks vfio-user %u.%u, expected 0.x",
			  reply.v.major, reply.v.minor);
		return;
	}
	root = json_loads(reply.json, 0, NULL);
	if (reply.json[0] && !json_is_object(root))
		probe_bad(p, PROBE_VERSION, "the capabilities are no JSON object");
	else
		probe_good(p, PROBE_VERSION, "vfio-user %u.%u, %lld maps at most", reply.v.major,
			   reply.v.minor,
			   (long long)json_integer_value(json_object_get(
				   json_object_get(root, "capabilities"), "max_dma_maps")));
	json_decref(root);
}

/* ---- device and regions ---- */

struct dev_region {
	struct vfio_region_info info;
	uint8_t caps[512];
};

static int dev_region(struct probe *p, uint32_t index, struct dev_region *r, struct wire_call *m)
{
	struct vfio_region_info ask = {.argsz = sizeof(*r), .index = index};

	*m = (struct wire_call){
		.cmd = VFIO_USER_DEVICE_GET_REGION_INFO,
		.body = &ask,
		.body_bytes = sizeof(ask),
		.reply = r,
		.reply_room = sizeof(*r),
	};
	memset(r, 0, sizeof(*r));
	return dev_call(p, m, sizeof(r->info));
}

/* A region that has to be there, of a size, readable and writable. */
static bool dev_check_region(struct probe *p, uint32_t index, const char *name, uint64_t least)
{
	uint32_t want = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
	struct dev_region r;
	struct wire_call m;
	int err = dev_region(p, index, &r, &m);

	if (err) {
		probe_bad(p, PROBE_DEVICE, "region info of %s: %s", name, probe_dev_error(err));
		return false;
	}
	dev_close_fds(&m);
	if (r.info.size < least || (r.info.flags & want) != want) {
		probe_bad(p, PROBE_DEVICE,
			  "%s has %llu bytes, flags %xh, expected %llu, readable and writable",
			  name, (unsigned long long)r.info.size, r.info.flags,
			  (unsigned long long)least);
		return false;
	}
	return true;
}

static int dev_access(struct probe *p, uint32_t region, uint32_t off, uint32_t bytes, uint64_t *v)
{
	struct vfio_user_region_access ask = {.offset = off, .region = region, .count = bytes};
	struct {
		struct vfio_user_region_access a;
		uint64_t v;
	} reply = {0};
	struct wire_call m = {
		.cmd = VFIO_USER_REGION_READ,
		.body = &ask,
		.body_bytes = sizeof(ask),
		.reply = &reply,
		.reply_room = sizeof(reply),
	};
	int err = dev_call(p, &m, (uint32_t)sizeof(ask) + bytes);

	if (!err)
		*v = reply.v;
	return err;
}

void probe_dev_device(struct probe *p)
{
	uint32_t ask[4] = {sizeof(ask)}, got[4] = {0}; /* argsz, flags, regions, interrupts */
	struct wire_call m = {
		.cmd = VFIO_USER_DEVICE_GET_INFO,
		.body = ask,
		.body_bytes = sizeof(ask),
		.reply = got,
		.reply_room = sizeof(got),
	};
	uint64_t id = 0, class = 0;
	int err = dev_call(p, &m, sizeof(got));

	if (err) {
		probe_bad(p, PROBE_DEVICE, "device info: %s", probe_dev_error(err));
		return;
	}
	if (!(got[1] & VFIO_DEVICE_FLAGS_PCI) || got[2] <= VFIO_PCI_CONFIG_REGION_INDEX) {
		probe_bad(p, PROBE_DEVICE, "no PCI device: flags %xh, %u regions", got[1], got[2]);
		return;
	}
	if (!dev_check_region(p, VFIO_PCI_BAR0_REGION_INDEX, "BAR0", DEV_BAR0_LEAST) ||
	    !dev_check_region(p, VFIO_PCI_CONFIG_REGION_INDEX, "config space", DEV_CONFIG_BYTES))
		return;
	err = dev_access(p, VFIO_PCI_CONFIG_REGION_INDEX, 0, 4, &id);
	if (!err)
		err = dev_access(p, VFIO_PCI_CONFIG_REGION_INDEX, 8, 4, &class);
	if (err) {
		probe_bad(p, PROBE_DEVICE, "config space: %s", probe_dev_error(err));
		return;
	}
	p->vid = (uint16_t)id;
	if (class >> 8 != DEV_CLASS) {
		probe_bad(p, PROBE_DEVICE, "PCI class %06llxh, expected %06xh (NVMe)",
			  (unsigned long long)class >> 8, DEV_CLASS);
		return;
	}
	probe_good(p, PROBE_DEVICE, "PCI %04x:%04x, NVMe, %u regions", p->vid, (unsigned)(id >> 16),
		   got[2]);
}

/* ---- registers ---- */

int probe_dev_read(struct probe *p, uint32_t off, uint32_t bytes, uint64_t *v)
{
	return dev_access(p, VFIO_PCI_BAR0_REGION_INDEX, off, bytes, v);
}

int probe_dev_write(struct probe *p, uint32_t off, uint32_t bytes, uint64_t v)
{
	struct {
		struct vfio_user_region_access a;
		uint64_t v;
	} msg = {{.offset = off, .count = bytes}, v};
	struct wire_call m = {
		.cmd = VFIO_USER_REGION_WRITE,
		.body = &msg,
		.body_bytes = (uint32_t)sizeof(msg.a) + bytes,
	};

	return dev_call(p, &m, 0);
}

int probe_dev_wait_ready(struct probe *p, bool want)
{
	uint64_t csts, end = probe_deadline(p);

	for (;;) {
		int err = probe_dev_read(p, PROBE_REG_CSTS, 4, &csts);

		if (err)
			return err;
		if (want && (csts & DEV_CSTS_CFS))
			return -EIO;
		if ((csts & DEV_CSTS_RDY) == want)
			return 0;
		if (mono_ns() >= end)
			return -ETIMEDOUT;
		poll(NULL, 0, 1);
	}
}

/* A register that keeps what is written to it, twice, so that a stuck bit shows. */
static bool dev_check_keeps(struct probe *p, const char *name, uint32_t off, uint32_t bytes)
{
	/* AQA: two sizes below 4096; ASQ and ACQ: page addresses */
	static const uint64_t small[2] = {0x00070003, 0x000c000f};
	static const uint64_t large[2] = {0x5a5a5a5a5000, 0xa5a5a5a5a000};
	const uint64_t *v = bytes == 4 ? small : large;

	for (unsigned i = 0; i < 2; i++) {
		uint64_t got = 0;
		int err = probe_dev_write(p, off, bytes, v[i]);

		if (!err)
			err = probe_dev_read(p, off, bytes, &got);
		if (err) {
			probe_bad(p, PROBE_REGISTERS, "%s: %s", name, probe_dev_error(err));
			return false;
		}
		if (got != v[i]) {
			probe_bad(p, PROBE_REGISTERS, "%s is stuck: wrote %llxh, read %llxh", name,
				  (unsigned long long)v[i], (unsigned long long)got);
			return false;
		}
	}
	return true;
}

/* The controller must be off before its queues' registers are written. */
static int dev_idle(struct probe *p)
{
	uint64_t cc;
	int err = probe_dev_read(p, PROBE_REG_CC, 4, &cc);

	if (!err && (cc & 1))
		err = probe_dev_write(p, PROBE_REG_CC, 4, cc & ~1ull);
	return err ? err : probe_dev_wait_ready(p, false);
}

/* What a host that knows nothing of us needs to find in CAP. */
static void dev_check_cap(struct probe *p, uint64_t vs)
{
	unsigned mqes = p->cap & 0xffff;

	if (mqes != DEV_MQES)
		probe_bad(p, PROBE_REGISTERS, "CAP.MQES is %u, expected %u%s", mqes, DEV_MQES,
			  mqes < PROBE_IO_SLOTS - 1 ? ": a GPU's queue of 1024 doesn't fit" : "");
	if (!(p->cap & DEV_CAP_CSI))
		probe_bad(p, PROBE_REGISTERS,
			  "CAP.CSS is %02llxh, without bit 6: no KV command set",
			  (unsigned long long)(p->cap >> 37 & 0xff));
	if (p->cap >> 32 & 0xf)
		probe_bad(p, PROBE_REGISTERS, "CAP.DSTRD is %llu, expected 0: doorbells 4 apart",
			  (unsigned long long)(p->cap >> 32 & 0xf));
	if (p->cap >> 48 & 0xf)
		probe_bad(p, PROBE_REGISTERS, "CAP.MPSMIN is %llu, expected 0: pages of 4 KiB",
			  (unsigned long long)(p->cap >> 48 & 0xf));
	if (vs < DEV_VS || vs == UINT32_MAX)
		probe_bad(p, PROBE_REGISTERS, "VS is %08llxh, expected 2.0 or later",
			  (unsigned long long)vs);
}

void probe_dev_registers(struct probe *p)
{
	uint64_t vs = 0, low = 0, high = 0;
	int err = probe_dev_read(p, PROBE_REG_CAP, 8, &p->cap);

	if (!err)
		err = probe_dev_read(p, PROBE_REG_VS, 4, &vs);
	if (!err)
		err = probe_dev_read(p, PROBE_REG_CAP, 4, &low);
	if (!err)
		err = probe_dev_read(p, PROBE_REG_CAP + 4, 4, &high);
	if (!err)
		err = dev_idle(p);
	if (err) {
		probe_bad(p, PROBE_REGISTERS, "CAP, VS, CC or CSTS: %s", probe_dev_error(err));
		return;
	}
	if (p->cap != (low | high << 32)) {
		probe_bad(p, PROBE_REGISTERS, "CAP read at once is %016llxh, by halves %016llxh",
			  (unsigned long long)p->cap, (unsigned long long)(low | high << 32));
		return;
	}
	if (!dev_check_keeps(p, "AQA", PROBE_REG_AQA, 4) ||
	    !dev_check_keeps(p, "ASQ", PROBE_REG_ASQ, 8) ||
	    !dev_check_keeps(p, "ACQ", PROBE_REG_ACQ, 8))
		return;
	dev_check_cap(p, vs);
	if ((p->cap & 0xffff) < DEV_MQES_LEAST || !(p->cap & DEV_CAP_CSI) || (p->cap >> 32 & 0xf) ||
	    (p->cap >> 48 & 0xf))
		return;
	probe_good(p, PROBE_REGISTERS, "NVMe %llu.%llu, MQES %llu, CSS %02llxh; AQA, ASQ, ACQ keep",
		   (unsigned long long)vs >> 16, (unsigned long long)vs >> 8 & 0xff,
		   (unsigned long long)p->cap & 0xffff, (unsigned long long)p->cap >> 37 & 0xff);
}

/* ---- DMA map ---- */

static int dev_map(struct probe *p, int fd, uint64_t iova, uint64_t bytes)
{
	struct vfio_user_dma_map msg = {
		.argsz = sizeof(msg),
		.flags = VFIO_USER_DMA_READABLE | VFIO_USER_DMA_WRITABLE,
		.addr = iova,
		.size = bytes,
	};
	struct wire_call m = {
		.cmd = VFIO_USER_DMA_MAP,
		.body = &msg,
		.body_bytes = sizeof(msg),
		.fds = &fd,
		.nr_fds = 1,
	};

	return dev_call(p, &m, 0);
}

int probe_dev_unmap(struct probe *p, uint64_t iova, uint64_t bytes)
{
	struct vfio_user_dma_unmap msg = {.argsz = sizeof(msg), .addr = iova, .size = bytes};
	struct vfio_user_dma_unmap reply;
	struct wire_call m = {
		.cmd = VFIO_USER_DMA_UNMAP,
		.body = &msg,
		.body_bytes = sizeof(msg),
		.reply = &reply,
		.reply_room = sizeof(reply),
	};

	return dev_call(p, &m, 0);
}

static int dev_memory(const char *name, size_t bytes, int *fd, uint8_t **ptr)
{
	void *at;

	*fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0 || ftruncate(*fd, (off_t)bytes) < 0)
		return -errno;
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	*ptr = at;
	return 0;
}

/*
 * A second map over part of a first: which of them would an access go to? On a range of its own,
 * so that a device that takes it isn't confused about our queues.
 */
static int dev_check_overlap(struct probe *p)
{
	static const struct {
		int64_t shift;
		uint64_t bytes;
		const char *what;
	} tries[] = {
		{(int)PROBE_SCRATCH_BYTES / 2, PROBE_SCRATCH_BYTES, "the second half"},
		{-(int)PROBE_SCRATCH_BYTES / 2, PROBE_SCRATCH_BYTES, "the first half"},
		{0, PROBE_SCRATCH_BYTES, "the same range"},
		{PROBE_PAGE, PROBE_PAGE, "one page inside"},
	};
	int err = dev_map(p, p->scratch_fd, PROBE_SCRATCH_IOVA, PROBE_SCRATCH_BYTES);

	for (unsigned i = 0; i < sizeof(tries) / sizeof(tries[0]) && !err; i++) {
		uint64_t at = PROBE_SCRATCH_IOVA + (uint64_t)tries[i].shift;
		int res = dev_map(p, p->scratch_fd, at, tries[i].bytes);

		if (res == -ETIMEDOUT || res == -ENOTCONN || res == -EPROTO)
			return res;
		if (res)
			continue;
		probe_bad(p, PROBE_DMA, "an overlapping map (%s of another) was accepted",
			  tries[i].what);
		probe_dev_unmap(p, at, tries[i].bytes);
		/* An exact double may have gone with it. */
		dev_map(p, p->scratch_fd, PROBE_SCRATCH_IOVA, PROBE_SCRATCH_BYTES);
		break;
	}
	return err;
}

/* The range is free after an unmap: it can be mapped and unmapped again. */
static int dev_check_unmap(struct probe *p)
{
	int err = probe_dev_unmap(p, PROBE_SCRATCH_IOVA, PROBE_SCRATCH_BYTES);

	if (!err)
		err = dev_map(p, p->scratch_fd, PROBE_SCRATCH_IOVA, PROBE_SCRATCH_BYTES);
	if (!err)
		err = probe_dev_unmap(p, PROBE_SCRATCH_IOVA, PROBE_SCRATCH_BYTES);
	return err;
}

void probe_dev_dma(struct probe *p)
{
	int err = dev_memory("peal-probe", PROBE_MEM_BYTES, &p->mem_fd, &p->mem);

	if (!err)
		err = dev_memory("peal-probe-scratch", PROBE_SCRATCH_BYTES, &p->scratch_fd,
				 &p->scratch);
	if (err) {
		probe_bad(p, PROBE_DMA, "no memory to show: %s", strerror(-err));
		return;
	}
	err = dev_map(p, p->mem_fd, PROBE_IOVA, PROBE_MEM_BYTES);
	if (err) {
		probe_bad(p, PROBE_DMA, "DMA_MAP of a memfd: %s", probe_dev_error(err));
		return;
	}
	p->is_mapped = true;
	err = dev_check_overlap(p);
	if (err)
		probe_bad(p, PROBE_DMA, "a second DMA_MAP: %s", probe_dev_error(err));
	if (!err) {
		err = dev_check_unmap(p);
		if (err)
			probe_bad(p, PROBE_DMA, "DMA_UNMAP, and mapping the range again: %s",
				  probe_dev_error(err));
	}
	probe_good(p, PROBE_DMA, "mapped, overlapping maps refused, unmapped, mapped again");
}

/* ---- doorbells ---- */

/* The part of BAR0 that may be mapped and holds the first page of doorbells. */
static bool dev_has_area(const struct dev_region *r, uint32_t bytes)
{
	struct vfio_region_info_cap_sparse_mmap cap;
	struct vfio_region_sparse_mmap_area a;
	uint32_t at = r->info.cap_offset;

	if (!(r->info.flags & VFIO_REGION_INFO_FLAG_MMAP))
		return false;
	if (!(r->info.flags & VFIO_REGION_INFO_FLAG_CAPS))
		return true; /* all of it */
	for (unsigned hops = 0; at && hops < DEV_AREAS_MAX; hops++, at = cap.header.next) {
		if (at > bytes || bytes - at < sizeof(cap))
			return false;
		memcpy(&cap, (const uint8_t *)r + at, sizeof(cap));
		if (cap.header.id != VFIO_REGION_INFO_CAP_SPARSE_MMAP)
			continue;
		for (uint32_t i = 0; i < cap.nr_areas && i < DEV_AREAS_MAX; i++) {
			size_t off = at + sizeof(cap) + i * sizeof(a);

			if (off + sizeof(a) > bytes)
				return false;
			memcpy(&a, (const uint8_t *)r + off, sizeof(a));
			if (a.offset <= VFU_DOORBELL_OFFSET &&
			    a.offset + a.size >= VFU_DOORBELL_OFFSET + PROBE_PAGE)
				return true;
		}
	}
	return false;
}

/* Good only when a command was seen through it: probe_admin.c says so. */
void probe_dev_doorbells(struct probe *p)
{
	struct dev_region r;
	struct wire_call m;
	void *at = MAP_FAILED;
	int err = dev_region(p, VFIO_PCI_BAR0_REGION_INDEX, &r, &m);

	if (err) {
		probe_bad(p, PROBE_DOORBELLS, "region info of BAR0: %s", probe_dev_error(err));
		return;
	}
	p->lines[PROBE_DOORBELLS].is_usable = true; /* they can be rung by message */
	if (!dev_has_area(&r, m.reply_bytes))
		probe_bad(p, PROBE_DOORBELLS,
			  "no mmap area at BAR0 + 1000h: only messages can ring, no GPU can");
	else if (!m.nr_reply_fds)
		probe_bad(p, PROBE_DOORBELLS, "a mmap area, but no descriptor to map");
	else
		at = mmap(NULL, PROBE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, m.reply_fds[0],
			  (off_t)(r.info.offset + VFU_DOORBELL_OFFSET));
	if (at != MAP_FAILED) {
		p->bells = at;
		p->has_bell_map = true;
	} else {
		probe_bad(p, PROBE_DOORBELLS, "mmap of BAR0 + 1000h: %s", strerror(errno));
	}
	dev_close_fds(&m);
}
