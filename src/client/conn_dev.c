/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vfio-user device behind the socket: VERSION with Peal's capability, BAR0 with its doorbells
 * and wake page, registers, DMA map, interrupts, regions. Each function is one message and its
 * reply. Any thread: the wire makes them take turns.
 */
/* tidy: no-test: every opening sends each of its messages */
#include "client/conn.h"

#include <errno.h>
#include <jansson.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "client/errmsg.h"

#define CONN_DEV_AREAS_MAX 8
#define CONN_DEV_JSON_BYTES 4096
#define CONN_DEV_IOVA_ALIGN (2ull << 20)
#define CONN_DEV_IOVA_FIRST (4ull << 30)

/* What a message came to, in words; the errno of a stream that ended is always -ENOTCONN. */
static int conn_dev_error(int err, const char *what)
{
	if (err == -ETIMEDOUT)
		return errmsg_set(err, "%s: no answer from the daemon in time", what);
	if (err == -ENOTCONN)
		return errmsg_set(err, "%s: the daemon is gone", what);
	return errmsg_set(err, "%s: the daemon refused: %s", what, strerror(-err));
}

/* A reply shorter than its struct is a broken peer. */
static int conn_dev_call(struct conn *c, struct wire_call *m, uint32_t least, const char *what,
			 uint64_t deadline_ns)
{
	int err = wire_call(&c->wire, m, deadline_ns);

	if (!err && m->reply_bytes < least) {
		for (unsigned i = 0; i < m->nr_reply_fds; i++)
			close(m->reply_fds[i]);
		err = -EPROTO;
	}
	return err ? conn_dev_error(err, what) : 0;
}

/* Text that is no JSON grants nothing; without memory to read it, nobody knows what it grants. */
static int conn_dev_take_caps(struct conn *c, const char *text)
{
	json_error_t e = {0};
	json_t *root = json_loads(text, 0, &e);
	json_t *caps = json_object_get(root, "capabilities");
	json_t *peal = json_object_get(caps, "peal");

	c->has_arena = json_is_true(json_object_get(peal, "arena"));
	c->is_operator = json_is_true(json_object_get(peal, "operator"));
	if (!root && json_error_code(&e) == json_error_out_of_memory)
		return errmsg_set(-ENOMEM, "no memory to read the daemon's capabilities");
	json_decref(root);
	return 0;
}

/* As many eventfds as a message has room for; without the capability it polls at intervals. */
static const char *conn_dev_wakeup(const struct conn_opts *o, char text[32])
{
	if (o->is_silent)
		return "";
	snprintf(text, 32, ",\"wakeup\":%u", VFU_WAKE_WORKERS_MAX);
	return text;
}

int conn_dev_version(struct conn *c, const struct conn_opts *o)
{
	char wakeup[32];
	struct {
		struct vfio_user_version v;
		char json[CONN_DEV_JSON_BYTES];
	} msg = {.v = {.major = 0, .minor = 1}}, reply = {0};
	int n = snprintf(msg.json, sizeof(msg.json),
			 "{\"capabilities\":{\"max_msg_fds\":%u,\"max_data_xfer_size\":4096,"
			 "\"peal\":{\"doorbell_stride\":64,\"arena\":true%s%s}}}",
			 WIRE_FDS_MAX, conn_dev_wakeup(o, wakeup),
			 o->is_operator ? ",\"operator\":true" : "");
	struct wire_call m = {
		.cmd = VFIO_USER_VERSION,
		.body = &msg,
		.body_bytes = (uint32_t)(sizeof(msg.v) + (size_t)n + 1),
		.reply = &reply,
		.reply_room = sizeof(reply) - 1,
	};
	int err = conn_dev_call(c, &m, sizeof(reply.v), "vfio-user version", o->deadline_ns);

	if (err == -EUSERS)
		return errmsg_set(err, "the daemon has as many clients as it takes: close one, or "
				       "let it take more (peald --max-clients)");
	if (err == -ENOTCONN)
		return errmsg_set(err, "the daemon hung up at once: it is ending, or has more "
				       "clients than it takes");
	if (err)
		return err;
	if (reply.v.major != 0)
		return errmsg_set(
			-EPROTO,
			"the daemon speaks vfio-user %u.%u, this library 0.1: they are of "
			"different releases",
			reply.v.major, reply.v.minor);
	return conn_dev_take_caps(c, reply.json);
}

/* ---- regions and BAR0 ---- */

struct conn_dev_info {
	struct vfio_region_info info;
	uint8_t caps[512];
};

static int conn_dev_info(struct conn *c, uint32_t index, struct conn_dev_info *ri,
			 struct wire_call *m, uint64_t deadline_ns)
{
	struct vfio_region_info ask = {.argsz = sizeof(*ri), .index = index};

	*m = (struct wire_call){
		.cmd = VFIO_USER_DEVICE_GET_REGION_INFO,
		.body = &ask,
		.body_bytes = sizeof(ask),
		.reply = ri,
		.reply_room = sizeof(*ri),
	};
	memset(ri, 0, sizeof(*ri));
	return conn_dev_call(c, m, sizeof(ri->info), "region info", deadline_ns);
}

static int conn_dev_map_area(struct conn *c, int fd, uint64_t base,
			     const struct vfio_region_sparse_mmap_area *a)
{
	bool is_doorbells = a->offset == VFU_DOORBELL_OFFSET;
	void *p;

	if ((!is_doorbells && a->offset != VFU_WAKE_OFFSET) || !a->size || a->size > VFU_BAR0_BYTES)
		return 0; /* something newer; not ours to use */
	p = mmap(NULL, a->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(base + a->offset));
	if (p == MAP_FAILED)
		return errmsg_set(-errno, "can't map the daemon's doorbells: %s", strerror(errno));
	if (is_doorbells) {
		c->doorbells = p;
		c->doorbells_bytes = a->size;
	} else if (a->size >= sizeof(struct vfu_wake_page)) {
		c->wake = p;
	} else {
		munmap(p, a->size);
	}
	return 0;
}

/* The sparse-mmap capability: a chain of headers inside the reply, each offset checked. */
static int conn_dev_map_areas(struct conn *c, const struct conn_dev_info *ri, uint32_t bytes,
			      int fd)
{
	uint32_t at = ri->info.flags & VFIO_REGION_INFO_FLAG_CAPS ? ri->info.cap_offset : 0;
	const uint8_t *base = (const uint8_t *)ri;

	for (unsigned hops = 0; at && hops < CONN_DEV_AREAS_MAX; hops++) {
		struct vfio_region_info_cap_sparse_mmap cap;
		int err = 0;

		if (at > bytes || bytes - at < sizeof(cap))
			return errmsg_set(-EPROTO, "the daemon's region info is damaged");
		memcpy(&cap, base + at, sizeof(cap));
		for (uint32_t i = 0; cap.header.id == VFIO_REGION_INFO_CAP_SPARSE_MMAP &&
				     i < cap.nr_areas && i < CONN_DEV_AREAS_MAX && !err;
		     i++) {
			struct vfio_region_sparse_mmap_area a;
			size_t off = at + sizeof(cap) + i * sizeof(a);

			if (off + sizeof(a) > bytes)
				return errmsg_set(-EPROTO, "the daemon's region info is damaged");
			memcpy(&a, base + off, sizeof(a));
			err = conn_dev_map_area(c, fd, ri->info.offset, &a);
		}
		if (err)
			return err;
		at = cap.header.next;
	}
	return 0;
}

static int conn_dev_count_vectors(struct conn *c, uint64_t deadline_ns)
{
	struct vfio_irq_info info = {.argsz = sizeof(info), .index = VFIO_PCI_MSIX_IRQ_INDEX};
	struct wire_call m = {
		.cmd = VFIO_USER_DEVICE_GET_IRQ_INFO,
		.body = &info,
		.body_bytes = sizeof(info),
		.reply = &info,
		.reply_room = sizeof(info),
	};
	int err = conn_dev_call(c, &m, sizeof(info), "interrupt info", deadline_ns);

	if (!err)
		c->nr_vectors = info.count;
	return err;
}

int conn_dev_map_bar(struct conn *c, uint64_t deadline_ns)
{
	struct conn_dev_info ri;
	struct wire_call m;
	int err = conn_dev_info(c, VFIO_PCI_BAR0_REGION_INDEX, &ri, &m, deadline_ns);

	if (err)
		return err;
	if (m.nr_reply_fds)
		err = conn_dev_map_areas(c, &ri, m.reply_bytes, m.reply_fds[0]);
	for (unsigned i = 1; i < m.nr_reply_fds; i++)
		c->wake_fds[c->nr_wake_fds++] = m.reply_fds[i];
	if (m.nr_reply_fds)
		close(m.reply_fds[0]);
	if (err)
		return err;
	if (!c->doorbells)
		return errmsg_set(-EPROTO, "the daemon shows no doorbells to map at BAR0 + 1000h");
	return conn_dev_count_vectors(c, deadline_ns);
}

int conn_dev_region(struct conn *c, uint32_t index, struct conn_region *r, uint64_t deadline_ns)
{
	struct conn_dev_info ri;
	struct wire_call m;
	int err = conn_dev_info(c, index, &ri, &m, deadline_ns);

	if (err)
		return err;
	for (unsigned i = 1; i < m.nr_reply_fds; i++)
		close(m.reply_fds[i]);
	if (!m.nr_reply_fds)
		return errmsg_set(-EPROTO, "the daemon sent no descriptor for region %u", index);
	*r = (struct conn_region){ri.info.size, ri.info.offset, m.reply_fds[0]};
	return 0;
}

/* ---- registers ---- */

int conn_dev_read(struct conn *c, uint32_t off, uint32_t bytes, uint64_t *v, uint64_t deadline_ns)
{
	struct vfio_user_region_access ask = {.offset = off, .count = bytes};
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
	int err = conn_dev_call(c, &m, (uint32_t)sizeof(ask) + bytes, "register read", deadline_ns);

	if (!err)
		*v = reply.v;
	return err;
}

int conn_dev_write(struct conn *c, uint32_t off, uint32_t bytes, uint64_t v, uint64_t deadline_ns)
{
	struct {
		struct vfio_user_region_access a;
		uint64_t v;
	} msg = {{.offset = off, .count = bytes}, v};
	struct vfio_user_region_access reply;
	struct wire_call m = {
		.cmd = VFIO_USER_REGION_WRITE,
		.body = &msg,
		.body_bytes = (uint32_t)sizeof(msg.a) + bytes,
		.reply = &reply,
		.reply_room = sizeof(reply),
	};

	return conn_dev_call(c, &m, 0, "register write", deadline_ns);
}

/* ---- memory and interrupts ---- */

uint64_t conn_dev_iova(uint64_t bytes)
{
	static _Atomic uint64_t next = CONN_DEV_IOVA_FIRST;

	bytes = (bytes + CONN_DEV_IOVA_ALIGN - 1) & ~(CONN_DEV_IOVA_ALIGN - 1);
	return atomic_fetch_add_explicit(&next, bytes, memory_order_relaxed);
}

int conn_dev_dma_map(struct conn *c, const struct conn_dma *d, uint64_t deadline_ns)
{
	struct vfio_user_dma_map msg = {
		.argsz = sizeof(msg),
		.flags = VFIO_USER_DMA_READABLE | VFIO_USER_DMA_WRITABLE,
		.offset = d->offset,
		.addr = d->iova,
		.size = d->bytes,
	};
	struct wire_call m = {
		.cmd = VFIO_USER_DMA_MAP,
		.body = &msg,
		.body_bytes = sizeof(msg),
		.fds = &d->fd,
		.nr_fds = 1,
	};

	return conn_dev_call(c, &m, 0, "registering memory", deadline_ns);
}

int conn_dev_dma_unmap(struct conn *c, uint64_t iova, uint64_t bytes, uint64_t deadline_ns)
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

	return conn_dev_call(c, &m, 0, "unregistering memory", deadline_ns);
}

int conn_dev_set_irq(struct conn *c, uint32_t vector, int eventfd, uint64_t deadline_ns)
{
	struct vfio_irq_set msg = {
		.argsz = sizeof(msg),
		.flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER,
		.index = VFIO_PCI_MSIX_IRQ_INDEX,
		.start = vector,
		.count = 1,
	};
	struct wire_call m = {
		.cmd = VFIO_USER_DEVICE_SET_IRQS,
		.body = &msg,
		.body_bytes = sizeof(msg),
		.fds = &eventfd,
		.nr_fds = 1,
	};

	return conn_dev_call(c, &m, 0, "setting an interrupt", deadline_ns);
}
