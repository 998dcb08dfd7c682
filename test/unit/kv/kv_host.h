/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host for the tests of kv/: one controller, one I/O queue per worker, host memory at bus address
 * 0, everything in one thread by reactor_step(). kv_host_run() executes one command and gives its
 * CQE; kv_host_start() and kv_host_turn() leave it under way. Stacks are picked by name: "mem",
 * "dram", "dram/mem", ...
 */
#ifndef KV_HOST_H
#define KV_HOST_H

#include "base/rng.h"
#include "core/env_sim.h"
#include "kv/kv.h"
#include "peal/vendor.h"

#define KV_HOST_MEM_BYTES (64u << 20)
#define KV_HOST_REQS 64

struct kv_host_cmd {
	struct tgt_req *req;
	bool is_over;
	uint16_t status; /* without DNR */
	uint16_t raw_status;
	uint32_t dw0, dw1;
};

struct kv_host {
	uint64_t clock_ns;
	struct tgt_node node;
	struct tgt_subsys *ss;
	struct tgt_ctrl *ctrl;
	struct tgt_ns *ns;
	const struct tgt_csi_ops *csi;
	struct tgt_sq sq[REACTORS_MAX];
	struct mem_region *reg;
	uint8_t *mem;
	bool is_faulty;	   /* resolve fails */
	unsigned nr_later; /* steps that commands left for other turns */
	struct rng rng;
};

struct kv_host_opts {
	unsigned nr_workers;  /* 0 = 1 */
	const char *stack;    /* NULL = "mem" */
	struct kv_ns_opts ns; /* dram_bytes 0 = 64 MiB */
};

void kv_host_init(struct kv_host *h, const struct kv_host_opts *o);
void kv_host_fini(struct kv_host *h);
void kv_host_turn(struct kv_host *h); /* one step of a random worker, the clock moves */
void kv_host_start(struct kv_host *h, unsigned q, const struct nvme_sqe *sqe,
		   struct kv_host_cmd *cmd);
void kv_host_wait(struct kv_host *h, struct kv_host_cmd *cmd);
struct kv_host_cmd kv_host_run(struct kv_host *h, unsigned q, const struct nvme_sqe *sqe);

/* SQEs. Data lie at `at` in host memory, as one SGL data block. */
struct nvme_sqe kv_host_sqe(uint8_t opc, const char *key, uint8_t opts);
void kv_host_data(struct nvme_sqe *sqe, uint64_t at, uint32_t len); /* and CDW10 = len */
uint16_t kv_host_store(struct kv_host *h, const char *key, const void *value, uint32_t len,
		       uint8_t opts);
/* Into memory at 8 MiB; *len = DW0. */
uint16_t kv_host_retrieve(struct kv_host *h, const char *key, uint32_t room, uint32_t *len);
#define KV_HOST_IN (8u << 20)	/* where kv_host_retrieve() puts it */
#define KV_HOST_OUT (36u << 20) /* where kv_host_store() takes it from */

#endif
