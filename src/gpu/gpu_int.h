/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU's queue pair inside libpeal-gpu: gpu.c makes it, gpu_launch.c launches kernels over it. One
 * thread at a time.
 */
#ifndef GPU_GPU_INT_H
#define GPU_GPU_INT_H

#include <stdbool.h>

#include "gpu/gpu_cuda.h"
#include "gpu/gpu_job.h"
#include "peal/gpu.h"
#include "peal/pair.h"

#define GPU_SEGMENTS_MAX 4096u

/* Host memory that the GPU has mapped. */
struct gpu_reg {
	struct gpu_reg *next;
	void *p;
	bool is_ours; /* allocated by the driver */
};

struct peal_gpu {
	struct gpu_cuda cu;
	struct peal_pair *pair;
	struct peal_pair_info info;
	struct gpu_reg *regs;
	uint64_t side;	   /* struct peal_gpu_side, and behind it what it points to */
	uint32_t per_wave; /* commands of a wave at most */
	uint64_t lease_bytes;
	uint64_t land_bytes;
	uint64_t wait_ns;
	void *module; /* NULL: no kernels */
	void *run, *fetch, *match;
};

#endif
