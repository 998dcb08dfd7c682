/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host launchers (gpu_launch.c) and their kernels (gpu_kernels.cu) tell each other. All
 * pointers are the GPU's. C11, CUDA and HIP clean.
 */
#ifndef GPU_GPU_JOB_H
#define GPU_GPU_JOB_H

#include "peal/gpu.h"

enum gpu_job_op {
	GPU_JOB_RETRIEVE, /* by way of the landing area */
	GPU_JOB_STORE,
	GPU_JOB_EXIST,
	GPU_JOB_LEASE,	 /* leases what is wanted; replies stay in the landing area */
	GPU_JOB_RELEASE, /* of the same requests */
};

struct gpu_job {
	uint32_t op;	   /* enum gpu_job_op */
	uint32_t nr;	   /* requests */
	uint32_t per_wave; /* commands: as many as the queue and the landing area take */
	uint32_t stride;   /* bytes of the landing area for each, a multiple of 256 */
	uint32_t opts;	   /* PEAL_STORE_* */
	uint32_t only;	   /* requests that ended with this status; PEAL_ST_PENDING: all */
	uint64_t wait_ns;  /* for each wave */
	struct peal_gpu_req *reqs;
};

#endif
