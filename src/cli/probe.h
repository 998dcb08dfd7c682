/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `peal probe` is made of: each layer between a host and a KV namespace, checked by itself,
 * with one verdict for each. The host here is a stranger's: it asks for none of Peal's
 * capabilities, maps one page of doorbells of stride 4, and polls, as a guest or a GPU does. Only
 * the socket's messages are libpeal's (client/wire.h); rings, commands and values are this code's,
 * so that it doesn't stand on what it tests.
 *
 *	probe.c        the table of layers, verdicts, clean-up
 *	probe_dev.c    socket, version, regions, registers, DMA map, doorbells
 *	probe_queue.c  rings: commands in waves, CQEs under the torn-read rule
 *	probe_admin.c  admin queue, the I/O queue pair, SQEs, CQEs
 *	probe_value.c  values: Store and Retrieve, seals, data pointers
 *	probe_data.c   where the bytes of a value lie: PRPs and SGLs
 *
 * A layer that fails may still be of use: with MQES of 255, say, or an overlapping map that was
 * accepted, the rest can be checked all the same. One whose needs aren't there stays "not checked".
 * What a later step finds out about an earlier layer is that layer's verdict; the first failure of
 * a layer is the one that is told. One thread. Nothing waits longer than a step's time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "client/wire.h"
#include "nvme/nvme_kv.h"
#include "base/rng.h"

enum probe_layer {
	PROBE_SOCKET,
	PROBE_VERSION,
	PROBE_DEVICE,
	PROBE_REGISTERS,
	PROBE_DMA,
	PROBE_DOORBELLS,
	PROBE_ADMIN,
	PROBE_IOQ,
	PROBE_SQE,
	PROBE_VALUE,
	PROBE_CQE,
	PROBE_DATA,
	PROBE_CLEANUP,
	PROBE_NR,
};

enum probe_verdict {
	PROBE_UNKNOWN,
	PROBE_GOOD,
	PROBE_BAD,
};

struct probe_line {
	enum probe_verdict verdict;
	bool is_usable; /* what stands on it can be checked */
	char text[224];
};

#define PROBE_PAGE 4096u
#define PROBE_ADMIN_SLOTS 16u
#define PROBE_IO_SLOTS 1024u /* what ROCm XIO asks for */

/* Our memory, one DMA map at PROBE_IOVA. Offsets: */
#define PROBE_IOVA 0x1000000000ull
#define PROBE_SCRATCH_IOVA 0x2000000000ull
#define PROBE_SCRATCH_BYTES 0x10000u
#define PROBE_MEM_BYTES 0x400000u
#define PROBE_AT_ASQ 0x0u
#define PROBE_AT_ACQ 0x1000u
#define PROBE_AT_BUF 0x2000u /* Identify, seals: one page */
#define PROBE_AT_IOCQ 0x4000u
#define PROBE_AT_IOSQ 0x10000u
#define PROBE_AT_LISTS 0x20000u /* 8 pages */
#define PROBE_AT_OUT 0x100000u	/* values on their way out: PROBE_AREA_PAGES */
#define PROBE_AT_IN 0x200000u	/* and where they land */
#define PROBE_AREA_PAGES 64u
#define PROBE_LIST_PAGES 8u

struct probe_queue {
	uint16_t qid;
	uint32_t size;
	struct nvme_sqe *sq;
	struct nvme_cqe *cq;
	uint32_t tail;
	uint32_t sq_head; /* as the last CQE said */
	uint32_t cq_head;
	uint32_t phase;
};

/* One command of a wave. */
struct probe_cmd {
	struct nvme_sqe sqe; /* all but the CID */
	uint16_t want;	     /* status */
	bool has_dw0;
	uint32_t want_dw0;
	/* out */
	bool is_done;
	struct nvme_cqe cqe;
};

#define PROBE_NR_KEYS 6u
struct probe_key {
	uint8_t b[16];
	uint32_t bytes;
	uint16_t tag;	/* of its words */
	bool is_tried;	/* it may be there */
	bool is_stored; /* it is */
};

struct probe {
	const char *path;
	uint32_t nsid; /* 0: the lowest with the KV command set */
	uint64_t step_ns;
	uint64_t end_ns;
	struct probe_line lines[PROBE_NR];

	struct wire wire; /* fd -1: none */
	struct rng rng;
	int mem_fd;
	uint8_t *mem;
	int scratch_fd;
	uint8_t *scratch;
	bool is_mapped; /* the device has our memory */
	uint8_t *bells;
	bool has_bell_map; /* else doorbells go by message */
	bool is_enabled;
	bool has_io; /* the pair was made */
	uint16_t vid;
	uint64_t cap;
	uint32_t sgls;
	uint64_t data_max;
	uint64_t vendor_cmds;
	struct probe_queue admin, io;
	uint16_t next_cid;
	uint32_t nr_dw0, nr_dw0_bad; /* CQEs with a DW0 that is known beforehand */
	char dw0_text[160];	     /* about the first bad one */
	struct nvme_cqe got[PROBE_IO_SLOTS];
	struct probe_cmd cmds[PROBE_IO_SLOTS];
	struct probe_key keys[PROBE_NR_KEYS];
};

extern const char *const probe_names[PROBE_NR];

/* All layers, then clean-up. `path` is the socket; time_ns for the whole. */
void probe_run(struct probe *p, const char *path, uint32_t nsid, uint64_t time_ns);

/* A layer is good unless it is known to be bad. */
__attribute__((format(printf, 3, 4))) void probe_good(struct probe *p, enum probe_layer l,
						      const char *fmt, ...);
/* The first failure of a layer is its verdict. */
__attribute__((format(printf, 3, 4))) void probe_bad(struct probe *p, enum probe_layer l,
						     const char *fmt, ...);
/* The end of a step that begins now. */
uint64_t probe_deadline(const struct probe *p);

/* ---- probe_dev.c ---- */

void probe_dev_socket(struct probe *p);
void probe_dev_version(struct probe *p);
void probe_dev_device(struct probe *p);
void probe_dev_registers(struct probe *p);
void probe_dev_dma(struct probe *p);
void probe_dev_doorbells(struct probe *p);
/* 0 or -errno, without a verdict. */
int probe_dev_read(struct probe *p, uint32_t off, uint32_t bytes, uint64_t *v);
int probe_dev_write(struct probe *p, uint32_t off, uint32_t bytes, uint64_t v);
int probe_dev_unmap(struct probe *p, uint64_t iova, uint64_t bytes);
/* What an errno of the wire says. */
const char *probe_dev_error(int err);
enum {
	PROBE_REG_CAP = 0x00,
	PROBE_REG_VS = 0x08,
	PROBE_REG_CC = 0x14,
	PROBE_REG_CSTS = 0x1c,
	PROBE_REG_AQA = 0x24,
	PROBE_REG_ASQ = 0x28,
	PROBE_REG_ACQ = 0x30,
};
/* Waits for CSTS.RDY: 0, -ETIMEDOUT, -EIO (CFS) or the wire's. */
int probe_dev_wait_ready(struct probe *p, bool want);

/* ---- probe_queue.c ---- */

void probe_queue_init(struct probe_queue *q, uint16_t qid, uint32_t size, void *sq, void *cq);
/*
 * Issues nr commands on the I/O queue with one doorbell and takes their CQEs. 0: each was answered
 * once, with the right status; a wrong one is the layer's fault. -ETIMEDOUT: not all were answered.
 * -EBADMSG: a verdict was given on SQEs, CQEs or doorbells.
 */
int probe_queue_wave(struct probe *p, enum probe_layer layer, struct probe_cmd *cmds, unsigned nr);
/*
 * One command; its status is the caller's to judge: 0 and cmd->cqe, or as above.
 */
int probe_queue_exec(struct probe *p, struct probe_queue *q, struct probe_cmd *cmd);
uint16_t probe_queue_status(const struct probe_cmd *cmd);

/* ---- probe_admin.c ---- */

void probe_admin_queue(struct probe *p);
void probe_admin_io(struct probe *p);
void probe_admin_sqes(struct probe *p);
void probe_admin_cqes(struct probe *p);
/* Takes down what probe_admin_io() made; 0 or -errno. */
int probe_admin_io_delete(struct probe *p);

/* ---- probe_value.c ---- */

void probe_value_simple(struct probe *p);
void probe_value_layouts(struct probe *p);
/* Deletes the keys; the number that may still be there. */
unsigned probe_value_delete(struct probe *p);
/* A command on a key. */
void probe_value_sqe(const struct probe *p, struct nvme_sqe *sqe, uint8_t opc,
		     const uint8_t key[16]);

/* ---- probe_data.c ---- */

enum probe_shape {
	PROBE_PRP1,
	PROBE_PRP2,
	PROBE_PRP_LIST,
	PROBE_PRP_CHAIN,
	PROBE_SGL_BLOCK,
	PROBE_SGL_SEGMENTS,
	PROBE_NR_SHAPES,
};
extern const char *const probe_shapes[PROBE_NR_SHAPES];

#define PROBE_PIECES_MAX (PROBE_AREA_PAGES + 2)
struct probe_layout {
	enum probe_shape shape;
	uint32_t area; /* PROBE_AT_OUT or PROBE_AT_IN */
	uint32_t bytes;
	unsigned nr;
	struct {
		uint32_t at, len; /* in the area */
	} pieces[PROBE_PIECES_MAX];
};
/* Chooses places for the bytes, and names them in the SQE. */
void probe_data_lay(struct probe *p, struct probe_layout *l, struct nvme_sqe *sqe);
/* Fills the whole area with a pattern that no value has. */
void probe_data_blank(struct probe *p, uint32_t area);
/* The value of a key into the layout. */
void probe_data_fill(struct probe *p, const struct probe_layout *l, const struct probe_key *k);
/* What came back, judged: true when right; otherwise VALUE or DATA has a verdict. */
bool probe_data_check(struct probe *p, const struct probe_layout *l, const struct probe_key *k);
/* The value's bytes in a row. */
void probe_data_value(const struct probe_key *k, uint8_t *buf);
