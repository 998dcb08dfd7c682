/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device's regions over the socket: what they are (GET_REGION_INFO) and access to them.
 *
 *   BAR0    registers (trapped: tgt_ctrl_reg_*), from 0x1000 doorbells in a memfd that the client
 *           maps, then the wake page; see nvme/vfio_user.h
 *   BAR4    MSI-X table and pending bits, plain memory
 *   config  vfu_pci.c
 *   16 + n  segment n of the arena, to be mapped read-only (peal/vendor.h), with "arena" only
 *
 * Run by the home reactor.
 */
#include <errno.h>
#include <string.h>
#include "base/container.h"
#include "peal/vendor.h"
#include "transport/vfu/vfu_int.h"

#define VFU_REGION_AREAS 2

static uint32_t vfu_region_len(const struct vfu_dev *d)
{
	return d->sock.hdr.size - (uint32_t)sizeof(struct vfio_user_hdr);
}

static const void *vfu_region_in(const struct vfu_dev *d)
{
	return d->sock.rx + sizeof(struct vfio_user_hdr);
}

static void *vfu_region_out(struct vfu_dev *d)
{
	return d->sock.tx + sizeof(struct vfio_user_hdr);
}

static uint32_t vfu_region_doorbell_bytes(const struct vfu_dev *d)
{
	return d->has_stride ? VFU_DOORBELL_BYTES_STRIDE64 : VFU_DOORBELL_BYTES_STRIDE4;
}

static uint64_t vfu_region_size(uint32_t index)
{
	switch (index) {
	case VFIO_PCI_BAR0_REGION_INDEX:
		return VFU_BAR0_BYTES;
	case VFIO_PCI_BAR4_REGION_INDEX:
		return VFU_MSIX_BYTES;
	case VFIO_PCI_CONFIG_REGION_INDEX:
		return VFU_PCI_BYTES;
	default:
		return 0;
	}
}

/* ---- GET_REGION_INFO ---- */

/* BAR0's mappable parts behind the info. Returns the size of the whole reply. */
static uint32_t vfu_region_bar0(struct vfu_dev *d, struct vfio_region_info *out)
{
	struct vfio_region_info_cap_sparse_mmap *cap = (void *)(out + 1);
	unsigned nr = 0;

	out->flags |= VFIO_REGION_INFO_FLAG_MMAP | VFIO_REGION_INFO_FLAG_CAPS;
	out->cap_offset = sizeof(*out);
	cap->areas[nr++] = (struct vfio_region_sparse_mmap_area){VFU_DOORBELL_OFFSET,
								 vfu_region_doorbell_bytes(d)};
	if (d->has_wake)
		cap->areas[nr++] = (struct vfio_region_sparse_mmap_area){VFU_WAKE_OFFSET, 4096};
	cap->header.id = VFIO_REGION_INFO_CAP_SPARSE_MMAP;
	cap->header.version = 1;
	cap->header.next = 0;
	cap->nr_areas = nr;
	cap->reserved = 0;
	must(nr <= VFU_REGION_AREAS);

	d->sock.tx_fds[0] = d->bar0_fd;
	d->sock.nr_tx_fds = 1;
	for (unsigned i = 0; d->has_wake && i < d->vfu->node->nr; i++)
		d->sock.tx_fds[d->sock.nr_tx_fds++] = d->bells[i].fd;
	return (uint32_t)(sizeof(*out) + sizeof(*cap) + nr * sizeof(cap->areas[0]));
}

static int vfu_region_arena(struct vfu_dev *d, struct vfio_region_info *out)
{
	struct mem_region *reg;

	if (!d->has_arena)
		return -EINVAL;
	reg = tgt_subsys_segment_get(d->vfu->ss, out->index - PEAL_REGION_ARENA);
	if (!reg)
		return -EINVAL;
	if (reg->fd < 0) {
		mem_region_put(reg);
		return -EINVAL;
	}
	out->flags = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_MMAP;
	out->size = reg->len;
	d->sock.tx_fds[0] = reg->fd; /* sealed against writing when it was made */
	d->sock.nr_tx_fds = 1;
	d->sock.tx_reg = reg;
	return 0;
}

void vfu_region_info(struct vfu_dev *d)
{
	const struct vfio_region_info *in = vfu_region_in(d);
	struct vfio_region_info *out = vfu_region_out(d);
	uint32_t argsz, need = sizeof(*out);

	if (vfu_region_len(d) < sizeof(*in) || in->argsz < sizeof(*in)) {
		vfu_sock_fail(d, EINVAL);
		return;
	}
	argsz = in->argsz;
	*out = (struct vfio_region_info){.index = in->index};
	if (in->index >= PEAL_REGION_ARENA) {
		int err = vfu_region_arena(d, out);

		if (err) {
			vfu_sock_fail(d, -err);
			return;
		}
	} else if (in->index >= VFIO_PCI_NUM_REGIONS) {
		vfu_sock_fail(d, EINVAL);
		return;
	} else {
		out->size = vfu_region_size(in->index);
		if (out->size)
			out->flags = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
		if (in->index == VFIO_PCI_BAR0_REGION_INDEX)
			need = vfu_region_bar0(d, out);
	}
	out->argsz = need;
	if (argsz < need) {
		/*
		 * The client asks again with that much room (Message sizes); descriptors come then.
		 * cap_offset stays, behind what is sent: QEMU refuses CAPS with an offset of 0.
		 */
		vfu_sock_no_tx_fds(d);
		need = sizeof(*out);
	}
	vfu_sock_reply(d, need);
}

/* ---- BAR0 ---- */

/*
 * Registers are read as NVMe has them, in aligned pieces of 8 and 4; a host may ask for any bytes.
 */
static int vfu_region_reg_read(struct vfu_dev *d, uint32_t off, uint8_t *buf, uint32_t len)
{
	while (len) {
		uint32_t size = off % 8 == 0 && len >= 8 ? 8 : 4;
		uint32_t at = off & ~(size - 1), skip = off - at;
		uint32_t n = min_t(uint32_t, size - skip, len);
		uint64_t val = 0;
		int err;

		err = tgt_ctrl_reg_read(d->ctrl, at, size, &val);
		if (err)
			return err;
		memcpy(buf, (const uint8_t *)&val + skip, n);
		buf += n;
		off += n;
		len -= n;
	}
	return 0;
}

static int vfu_region_reg_write(struct vfu_dev *d, uint32_t off, const uint8_t *buf, uint32_t len)
{
	if (off % 4 || len % 4)
		return -EINVAL;
	while (len) {
		uint32_t size = off % 8 == 0 && len >= 8 ? 8 : 4;
		uint64_t val = 0;
		int err;

		memcpy(&val, buf, size);
		err = tgt_ctrl_reg_write(d->ctrl, off, size, val);
		if (err)
			return err;
		buf += size;
		off += size;
		len -= size;
	}
	return 0;
}

/* A doorbell by message: into the same word that a mapping client stores to. */
static int vfu_region_doorbell(struct vfu_dev *d, uint32_t off, const uint8_t *buf, uint32_t len)
{
	uint32_t stride = d->has_stride ? 64 : 4, at = off - VFU_DOORBELL_OFFSET, val;

	if (len != 4 || off % 4)
		return -EINVAL;
	if (at >= vfu_region_doorbell_bytes(d))
		return 0; /* wake page and the rest: not written from here */
	memcpy(&val, buf, sizeof(val));
	atomic_store_explicit((_Atomic uint32_t *)(d->bar0 + off), val, memory_order_release);
	if (at / stride / 2 < VFU_QUEUES)
		vfu_dev_kick(d, at / stride / 2);
	return 0;
}

static int vfu_region_bar0_read(struct vfu_dev *d, uint32_t off, uint8_t *buf, uint32_t len)
{
	uint32_t n = 0;

	if (off < VFU_DOORBELL_OFFSET) {
		n = min_t(uint32_t, len, VFU_DOORBELL_OFFSET - off);
		int err = vfu_region_reg_read(d, off, buf, n);

		if (err)
			return err;
	}
	memcpy(buf + n, d->bar0 + off + n, len - n);
	return 0;
}

static int vfu_region_bar0_write(struct vfu_dev *d, uint32_t off, const uint8_t *buf, uint32_t len)
{
	if (off >= VFU_DOORBELL_OFFSET)
		return vfu_region_doorbell(d, off, buf, len);
	if (len > VFU_DOORBELL_OFFSET - off)
		return -EINVAL;
	return vfu_region_reg_write(d, off, buf, len);
}

/* ---- READ and WRITE ---- */

static int vfu_region_check(const struct vfio_user_region_access *a)
{
	uint64_t size = a->region < VFIO_PCI_NUM_REGIONS ? vfu_region_size(a->region) : 0;

	if (a->count == 0 || a->count > VFU_XFER_BYTES)
		return -EINVAL;
	if (a->offset > size || a->count > size - a->offset)
		return -EINVAL;
	return 0;
}

static int vfu_region_get(struct vfu_dev *d, const struct vfio_user_region_access *a, uint8_t *buf)
{
	uint32_t off = (uint32_t)a->offset;
	int err = vfu_region_check(a);

	if (err)
		return err;
	switch (a->region) {
	case VFIO_PCI_BAR0_REGION_INDEX:
		return vfu_region_bar0_read(d, off, buf, a->count);
	case VFIO_PCI_BAR4_REGION_INDEX:
		memcpy(buf, d->msix + off, a->count);
		return 0;
	case VFIO_PCI_CONFIG_REGION_INDEX:
		vfu_pci_read(d, off, buf, a->count);
		return 0;
	default:
		return -EINVAL;
	}
}

static int vfu_region_set(struct vfu_dev *d, const struct vfio_user_region_access *a,
			  const uint8_t *buf)
{
	uint32_t off = (uint32_t)a->offset;
	int err = vfu_region_check(a);

	if (err)
		return err;
	switch (a->region) {
	case VFIO_PCI_BAR0_REGION_INDEX:
		return vfu_region_bar0_write(d, off, buf, a->count);
	case VFIO_PCI_BAR4_REGION_INDEX:
		memcpy(d->msix + off, buf, a->count);
		return 0;
	case VFIO_PCI_CONFIG_REGION_INDEX:
		vfu_pci_write(d, off, buf, a->count);
		return 0;
	default:
		return -EINVAL;
	}
}

void vfu_region_read(struct vfu_dev *d)
{
	const struct vfio_user_region_access *in = vfu_region_in(d);
	struct vfio_user_region_access *out = vfu_region_out(d);
	int err;

	err = vfu_region_len(d) < sizeof(*in) ? -EINVAL : vfu_region_get(d, in, out->data);
	if (err) {
		vfu_sock_fail(d, -err);
		return;
	}
	out->offset = in->offset;
	out->region = in->region;
	out->count = in->count;
	vfu_sock_reply(d, (uint32_t)sizeof(*out) + in->count);
}

void vfu_region_write(struct vfu_dev *d)
{
	const struct vfio_user_region_access *in = vfu_region_in(d);
	struct vfio_user_region_access *out = vfu_region_out(d);
	uint32_t len = vfu_region_len(d);
	int err;

	if (len < sizeof(*in) || in->count > len - sizeof(*in))
		err = -EINVAL;
	else
		err = vfu_region_set(d, in, in->data);
	if (err) {
		vfu_sock_fail(d, -err);
		return;
	}
	out->offset = in->offset;
	out->region = in->region;
	out->count = in->count;
	vfu_sock_reply(d, sizeof(*out));
}

/* Writes of at most 8 bytes each, in order, up to the first that fails. */
void vfu_region_write_multi(struct vfu_dev *d)
{
	const uint8_t *in = vfu_region_in(d);
	uint32_t len = vfu_region_len(d);
	uint64_t nr, i;

	if (len < sizeof(nr)) {
		vfu_sock_fail(d, EINVAL);
		return;
	}
	memcpy(&nr, in, sizeof(nr));
	if (nr > (len - sizeof(nr)) / sizeof(struct vfio_user_write_one)) {
		vfu_sock_fail(d, EINVAL);
		return;
	}
	in += sizeof(nr);
	for (i = 0; i < nr; i++) {
		struct vfio_user_write_one one;
		struct vfio_user_region_access a;

		memcpy(&one, in + i * sizeof(one), sizeof(one));
		a = (struct vfio_user_region_access){one.offset, one.region, one.count};
		if (one.count > sizeof(one.data) || vfu_region_set(d, &a, one.data))
			break;
	}
	if (i < nr) {
		vfu_sock_fail(d, EINVAL);
		return;
	}
	memcpy(vfu_region_out(d), &nr, sizeof(nr));
	vfu_sock_reply(d, sizeof(nr));
}
