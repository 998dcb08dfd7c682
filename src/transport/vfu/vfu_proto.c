/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vfio-user messages, as QEMU's docs/interop/vfio-user.rst has them: VERSION with its
 * capabilities, what the device is, and the table that leads a message to its function. Regions
 * are in vfu_region.c, interrupts in vfu_irq.c, memory in vfu_dma.c. Run by the home reactor.
 *
 * A handler ends its message with vfu_sock_reply() or vfu_sock_fail(), now or, having set
 * dev->wait, later. Payloads may be longer than needed (SPDK's host sends whole buffers) and never
 * shorter.
 *
 * Reading VERSION is tolerant: what we don't know is ignored, and no JSON at all means the
 * defaults. QEMU wants a reply that is not larger than its request, so the JSON is written tight,
 * and "peal" is only mentioned to clients that asked for it.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "transport/vfu/vfu_int.h"

#define VFU_PROTO_MAJOR 0
#define VFU_PROTO_MINOR 1

static uint32_t vfu_proto_len(const struct vfu_dev *d)
{
	return d->sock.hdr.size - (uint32_t)sizeof(struct vfio_user_hdr);
}

static const void *vfu_proto_in(const struct vfu_dev *d)
{
	return d->sock.rx + sizeof(struct vfio_user_hdr);
}

static void *vfu_proto_out(struct vfu_dev *d)
{
	return d->sock.tx + sizeof(struct vfio_user_hdr);
}

/* ---- VERSION ---- */

/* What we grant of {"capabilities": {"peal": {...}}}. */
static void vfu_proto_grant(struct vfu_dev *d, const json_t *root)
{
	const json_t *peal = json_object_get(json_object_get(root, "capabilities"), "peal");
	unsigned nr = d->vfu->node->nr;

	if (json_integer_value(json_object_get(peal, "doorbell_stride")) == 64)
		d->has_stride = true;
	if (json_is_true(json_object_get(peal, "arena")))
		d->has_arena = true;
	if (json_integer_value(json_object_get(peal, "wakeup")) >= (json_int_t)nr &&
	    nr <= VFU_WAKE_WORKERS_MAX)
		d->has_wake = true;
	if (json_is_true(json_object_get(peal, "operator")))
		d->is_operator = d->may_operate;
}

static uint32_t vfu_proto_write_json(const struct vfu_dev *d, char *out, uint32_t max)
{
	char peal[160] = "", wake[32] = "";

	if (d->has_wake)
		snprintf(wake, sizeof(wake), "\"wakeup\":%u,", d->vfu->node->nr);
	if (d->has_stride || d->has_arena || d->has_wake || d->is_operator)
		snprintf(peal, sizeof(peal), ",\"peal\":{%s%s%s%s\"version\":1}",
			 d->has_stride ? "\"doorbell_stride\":64," : "",
			 d->has_arena ? "\"arena\":true," : "", wake,
			 d->is_operator ? "\"operator\":true," : "");
	return (uint32_t)snprintf(
		       out, max,
		       "{\"capabilities\":{\"max_msg_fds\":%u,\"max_data_xfer_size\":%u,"
		       "\"max_dma_maps\":%u,\"pgsizes\":4096,\"write_multiple\":true%s}}",
		       VFU_MSG_FDS, VFU_XFER_BYTES, VFU_MAPS_MAX, peal) +
	       1;
}

/* Checks the request; *root is NULL when it has no JSON. */
static int vfu_proto_check_version(const struct vfu_dev *d, json_t **root)
{
	const struct vfio_user_version *v = vfu_proto_in(d);
	uint32_t len = vfu_proto_len(d);

	*root = NULL;
	if (d->ctrl || len < sizeof(*v) || v->major != VFU_PROTO_MAJOR)
		return -EINVAL;
	len -= (uint32_t)sizeof(*v);
	if (len == 0 || v->json[0] == 0)
		return 0;
	if (v->json[len - 1] != 0)
		return -EINVAL;
	*root = json_loads(v->json, 0, NULL);
	return *root ? 0 : -EINVAL;
}

static void vfu_proto_version(struct vfu_dev *d)
{
	const struct vfio_user_version *in = vfu_proto_in(d);
	struct vfio_user_version *out = vfu_proto_out(d);
	json_t *root;
	int err;

	err = vfu_proto_check_version(d, &root);
	if (!err) {
		vfu_proto_grant(d, root);
		err = vfu_dev_negotiate(d);
	}
	json_decref(root);
	if (err) {
		log_some_warn("vfu: %s: VERSION refused: %s", d->host, strerrorname_np(-err));
		d->sock.is_closing = true;
		vfu_sock_fail(d, -err);
		return;
	}
	out->major = VFU_PROTO_MAJOR;
	out->minor = in->minor < VFU_PROTO_MINOR ? in->minor : VFU_PROTO_MINOR;
	vfu_sock_reply(d, (uint32_t)sizeof(*out) + vfu_proto_write_json(d, out->json, 1024));
}

/* ---- the device ---- */

static void vfu_proto_info(struct vfu_dev *d)
{
	struct vfio_device_info *out = vfu_proto_out(d);
	uint32_t argsz;

	/* argsz, flags, num_regions, num_irqs; vfio-user knows no more of the struct */
	if (vfu_proto_len(d) < 16) {
		vfu_sock_fail(d, EINVAL);
		return;
	}
	memcpy(&argsz, vfu_proto_in(d), sizeof(argsz));
	if (argsz < 16) {
		vfu_sock_fail(d, EINVAL);
		return;
	}
	out->argsz = 16;
	out->flags = VFIO_DEVICE_FLAGS_RESET | VFIO_DEVICE_FLAGS_PCI;
	out->num_regions = VFIO_PCI_NUM_REGIONS;
	out->num_irqs = VFIO_PCI_NUM_IRQS;
	vfu_sock_reply(d, 16);
}

static void vfu_proto_irq_info(struct vfu_dev *d)
{
	const struct vfio_irq_info *in = vfu_proto_in(d);
	struct vfio_irq_info *out = vfu_proto_out(d);

	if (vfu_proto_len(d) < sizeof(*in) || in->argsz < sizeof(*in) ||
	    in->index >= VFIO_PCI_NUM_IRQS) {
		vfu_sock_fail(d, EINVAL);
		return;
	}
	*out = (struct vfio_irq_info){.argsz = sizeof(*out), .index = in->index};
	if (in->index == VFIO_PCI_MSIX_IRQ_INDEX) {
		out->flags = VFIO_IRQ_INFO_EVENTFD | VFIO_IRQ_INFO_MASKABLE;
		out->count = VFU_VECTORS;
	}
	vfu_sock_reply(d, sizeof(*out));
}

/* No subregion has one: a doorbell's value matters, and an eventfd has none. */
static void vfu_proto_io_fds(struct vfu_dev *d)
{
	uint32_t in[4], out[4] = {sizeof(out)}; /* argsz, flags, index, count */

	if (vfu_proto_len(d) < sizeof(in)) {
		vfu_sock_fail(d, EINVAL);
		return;
	}
	memcpy(in, vfu_proto_in(d), sizeof(in));
	if (in[0] < sizeof(out) || in[1] || in[2] >= VFIO_PCI_NUM_REGIONS) {
		vfu_sock_fail(d, EINVAL);
		return;
	}
	out[2] = in[2];
	memcpy(vfu_proto_out(d), out, sizeof(out));
	vfu_sock_reply(d, sizeof(out));
}

/* ---- what waits for a round ---- */

static void vfu_proto_published(struct vfu_dev *d)
{
	vfu_sock_reply(d, 0);
	vfu_dev_resume(d);
}

static void vfu_proto_map(struct vfu_dev *d)
{
	int fd = d->sock.nr_fds ? d->sock.fds[0] : -1, err;

	if (vfu_proto_len(d) < sizeof(struct vfio_user_dma_map) || d->sock.nr_fds > 1)
		err = -EINVAL;
	else
		err = vfu_dma_map(d, vfu_proto_in(d), fd); /* which dups it */
	if (err) {
		vfu_sock_fail(d, -err);
		return;
	}
	d->wait = VFU_WAIT_ROUND;
	vfu_dev_round(d, vfu_proto_published);
}

static void vfu_proto_set_irqs(struct vfu_dev *d)
{
	int res = vfu_irq_set(d, vfu_proto_in(d), vfu_proto_len(d));

	if (res < 0) {
		vfu_sock_fail(d, -res);
	} else if (res == 0) {
		vfu_sock_reply(d, 0);
	} else {
		d->wait = VFU_WAIT_IRQS;
		vfu_dev_round(d, vfu_dev_settle);
	}
}

static void vfu_proto_unmap(struct vfu_dev *d)
{
	const struct vfio_user_dma_unmap *in = vfu_proto_in(d);
	int err;

	err = vfu_proto_len(d) < sizeof(*in) ? -EINVAL : vfu_dma_unmap(d, in);
	if (err) {
		vfu_sock_fail(d, -err);
		return;
	}
	memcpy(vfu_proto_out(d), in, sizeof(*in)); /* the reply is the entry */
	d->wait = VFU_WAIT_UNMAP;		   /* until nobody uses the region any more */
	vfu_dev_round(d, vfu_dev_settle);
}

/* ---- entry ---- */

static void vfu_proto_unsupported(struct vfu_dev *d)
{
	vfu_sock_fail(d, ENOTSUP);
}

static void (*const vfu_proto_table[])(struct vfu_dev *d) = {
	[VFIO_USER_VERSION] = vfu_proto_version,
	[VFIO_USER_DMA_MAP] = vfu_proto_map,
	[VFIO_USER_DMA_UNMAP] = vfu_proto_unmap,
	[VFIO_USER_DEVICE_GET_INFO] = vfu_proto_info,
	[VFIO_USER_DEVICE_GET_REGION_INFO] = vfu_region_info,
	[VFIO_USER_DEVICE_GET_REGION_IO_FDS] = vfu_proto_io_fds,
	[VFIO_USER_DEVICE_GET_IRQ_INFO] = vfu_proto_irq_info,
	[VFIO_USER_DEVICE_SET_IRQS] = vfu_proto_set_irqs,
	[VFIO_USER_REGION_READ] = vfu_region_read,
	[VFIO_USER_REGION_WRITE] = vfu_region_write,
	[VFIO_USER_DMA_READ] = vfu_proto_unsupported, /* server to client */
	[VFIO_USER_DMA_WRITE] = vfu_proto_unsupported,
	[VFIO_USER_DEVICE_RESET] = vfu_dev_reset,
	[VFIO_USER_REGION_WRITE_MULTI] = vfu_region_write_multi,
	[VFIO_USER_DEVICE_FEATURE] = vfu_proto_unsupported, /* migration */
};

void vfu_proto_message(struct vfu_dev *d)
{
	uint16_t cmd = d->sock.hdr.cmd;

	if (!d->ctrl && cmd != VFIO_USER_VERSION) {
		d->sock.is_closing = true;
		vfu_sock_fail(d, EINVAL);
		return;
	}
	if (cmd >= sizeof(vfu_proto_table) / sizeof(vfu_proto_table[0]) || !vfu_proto_table[cmd]) {
		vfu_sock_fail(d, ENOTSUP);
		return;
	}
	vfu_proto_table[cmd](d);
}
