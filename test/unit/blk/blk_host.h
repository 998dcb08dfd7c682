/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host for the tests of blk/: one controller, one I/O queue per worker, host memory at bus
 * address 0, a namespace on a temporary file, everything in one thread by reactor_step(). The
 * file's I/O takes random time under env_sim and goes through blk_host_io(), where a test plants
 * faults.
 */
#ifndef BLK_HOST_H
#define BLK_HOST_H

#include "base/rng.h"
#include "blk/blk_int.h"
#include "core/env_sim.h"

#define BLK_HOST_MEM_BYTES (16u << 20)
#define BLK_HOST_REQS 64
#define BLK_HOST_DATA (1u << 20) /* where data lie unless a test says otherwise */

struct blk_host_cmd {
	bool is_over;
	uint16_t status; /* with DNR */
};

/* From its nth use on (0 = the next one), `op` answers res, `times` times; short: moves so many. */
struct blk_host_fault {
	enum io_op op;
	unsigned after, times;
	int res;
	unsigned short_bytes;
};

struct blk_host {
	uint64_t clock_ns;
	struct tgt_node node;
	struct tgt_subsys *ss;
	struct tgt_ctrl *ctrl;
	struct tgt_ns *ns;
	struct tgt_sq sq[REACTORS_MAX];
	struct mem_region *reg;
	uint8_t *mem;
	uint64_t hole, hole_len; /* host memory that isn't there */
	char path[64];
	int fd; /* our own look at the file */
	uint64_t bytes;
	struct blk_host_fault fault;
	unsigned nr_io[IO_CANCEL + 1]; /* by op */
	struct rng rng;
};

struct blk_host_opts {
	unsigned nr_workers; /* 0 = 1 */
	uint32_t lba_bytes;
	uint64_t bytes; /* 0 = 4 MiB */
	uint64_t seed;
};

void blk_host_init(struct blk_host *h, const struct blk_host_opts *o);
void blk_host_fini(struct blk_host *h);
void blk_host_turn(struct blk_host *h);
void blk_host_start(struct blk_host *h, unsigned q, const struct nvme_sqe *sqe,
		    struct blk_host_cmd *cmd);
void blk_host_wait(struct blk_host *h, struct blk_host_cmd *cmd);
uint16_t blk_host_run(struct blk_host *h, const struct nvme_sqe *sqe);
void blk_host_ns_del(struct blk_host *h);

/* SLBA, NLB (as a number, not 0's based), data as one SGL block at `at`. */
struct nvme_sqe blk_host_sqe(uint8_t opc, uint64_t slba, uint32_t nlb);
void blk_host_data(struct nvme_sqe *sqe, uint64_t at, uint64_t len);
/* Write from and read to BLK_HOST_DATA. */
uint16_t blk_host_write(struct blk_host *h, uint64_t slba, uint32_t nlb);
uint16_t blk_host_read(struct blk_host *h, uint64_t slba, uint32_t nlb);
uint32_t blk_host_lba(const struct blk_host *h);

#endif
