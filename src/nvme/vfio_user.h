/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vfio-user protocol on the wire, version 0.1 as QEMU's docs/interop/vfio-user.rst has it:
 * message header, commands, structs. Shared by transport/vfu (server) and client/ (client); pure,
 * no state. Host byte order. VFIO's own structs and constants come from <linux/vfio.h>.
 *
 * Peal's capability: in VERSION's JSON, "capabilities": {"peal": {"doorbell_stride": 64, "arena":
 * true, "wakeup": 32, "operator": true}}; the server answers with those that it grants and leaves
 * the others out. "wakeup" is the number of eventfds that the client can take with one message; the
 * server's figure is how many there are, one per worker. Then the page behind the doorbells (see
 * VFU_WAKE_OFFSET) carries the `sleeping` words, and the reply to GET_REGION_INFO of BAR0 carries
 * behind the BAR's own descriptor eventfd w for worker w, as second, third ... descriptor. They are
 * this client's alone. With "arena", regions PEAL_REGION_ARENA + n (peal/vendor.h) are the arena's
 * segments: not counted in GET_INFO's num_regions, EINVAL from GET_REGION_INFO where there is none.
 */
#ifndef NVME_VFIO_USER_H
#define NVME_VFIO_USER_H

#include <assert.h>
#include <stdint.h>

enum vfio_user_cmd {
	VFIO_USER_VERSION = 1,
	VFIO_USER_DMA_MAP = 2,
	VFIO_USER_DMA_UNMAP = 3,
	VFIO_USER_DEVICE_GET_INFO = 4,
	VFIO_USER_DEVICE_GET_REGION_INFO = 5,
	VFIO_USER_DEVICE_GET_REGION_IO_FDS = 6,
	VFIO_USER_DEVICE_GET_IRQ_INFO = 7,
	VFIO_USER_DEVICE_SET_IRQS = 8,
	VFIO_USER_REGION_READ = 9,
	VFIO_USER_REGION_WRITE = 10,
	VFIO_USER_DMA_READ = 11,
	VFIO_USER_DMA_WRITE = 12,
	VFIO_USER_DEVICE_RESET = 13,
	VFIO_USER_REGION_WRITE_MULTI = 15,
	VFIO_USER_DEVICE_FEATURE = 16,
};

#define VFIO_USER_REPLY 0x1u
#define VFIO_USER_NO_REPLY 0x10u
#define VFIO_USER_ERROR 0x20u

struct vfio_user_hdr {
	uint16_t msg_id;
	uint16_t cmd;
	uint32_t size; /* with this header */
	uint32_t flags;
	uint32_t error_no;
};
static_assert(sizeof(struct vfio_user_hdr) == 16, "vfio-user header");

struct vfio_user_version {
	uint16_t major;
	uint16_t minor;
	char json[]; /* NUL-terminated; may be absent */
};

#define VFIO_USER_DMA_READABLE 1u
#define VFIO_USER_DMA_WRITABLE 2u
struct vfio_user_dma_map {
	uint32_t argsz;
	uint32_t flags;
	uint64_t offset; /* in the fd */
	uint64_t addr;	 /* bus address */
	uint64_t size;
};
static_assert(sizeof(struct vfio_user_dma_map) == 32, "DMA_MAP");

#define VFIO_USER_DMA_UNMAP_ALL 2u
struct vfio_user_dma_unmap {
	uint32_t argsz;
	uint32_t flags;
	uint64_t addr;
	uint64_t size;
};

struct vfio_user_write_one {
	uint64_t offset;
	uint32_t region;
	uint32_t count; /* <= 8 */
	uint8_t data[8];
};
static_assert(sizeof(struct vfio_user_write_one) == 24, "REGION_WRITE_MULTI, behind a u64 count");

struct vfio_user_region_access {
	uint64_t offset;
	uint32_t region;
	uint32_t count;
	uint8_t data[];
};
static_assert(sizeof(struct vfio_user_region_access) == 16, "REGION_READ and REGION_WRITE");

/* BAR0 of Peal's controller: registers 0x0000-0x0fff trapped, doorbells from 0x1000 mapped (one
 * page; 64-byte stride: 4 pages), then the wake page. */
#define VFU_DOORBELL_OFFSET 0x1000u
#define VFU_DOORBELL_BYTES_STRIDE4 0x1000u
#define VFU_DOORBELL_BYTES_STRIDE64 0x5000u /* 129 queue pairs x 2 x 64, in pages */
#define VFU_WAKE_OFFSET 0x6000u
#define VFU_BAR0_BYTES 0x8000u
#define VFU_WAKE_WORKERS_MAX 32

/*
 * The wake page, one 64-byte line per worker: a client stores its doorbell, fences fully, loads
 * sleeping[w] of the worker that serves the queue and writes the eventfd when it is not 0.
 * queue_worker[qid] says which line.
 */
struct vfu_wake_page {
	struct {
		uint32_t sleeping; /* 1: write the eventfd after a doorbell */
		uint8_t pad[60];
	} worker[VFU_WAKE_WORKERS_MAX];
	uint8_t queue_worker[256];
};
static_assert(sizeof(struct vfu_wake_page) <= 0x1000, "one page");

#endif
