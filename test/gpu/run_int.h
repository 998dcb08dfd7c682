/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_run, the program that tests and measures a GPU as client of a daemon: run_main.c says what
 * there is, run_check.c compares bytes, run_bench.c measures. One thread; any failure ends it with
 * a message. The CUDA driver is found by dlopen, PEAL_LIBCUDA names another.
 */
#pragma once

#include <stdint.h>

#include "bench_job.h"
#include "peal/gpu.h"
#include "peal/pair.h"

struct run_cuda {
	int (*mem_alloc)(uint64_t *dev, size_t bytes);
	int (*mem_free)(uint64_t dev);
	int (*to_device)(uint64_t dev, const void *p, size_t bytes);
	int (*to_host)(void *p, uint64_t dev, size_t bytes);
	int (*fill)(uint64_t dev, unsigned char c, size_t n);
	int (*stream_create)(void **stream, unsigned flags);
	int (*stream_wait)(void *stream);
	int (*module_load)(void **mod, const void *image);
	int (*module_function)(void **fn, void *mod, const char *name);
	int (*launch)(void *fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		      unsigned bz, unsigned shared, void *stream, void **args, void **extra);
};

struct run {
	const char *uri;
	const char *kernels; /* the fat binary of bench_kernels.cu; "-": the driver has them */
	struct run_cuda cu;
	struct peal_gpu *g;
	void *stream;
	void *module;
};

/* After peal_gpu_attach(), which makes a context. */
void run_cuda_init(struct run *r);
void run_ok(int res, const char *what);
/* Both have arrived when they come back, for all streams. */
void run_fill(struct run *r, uint64_t dev, unsigned char c, size_t n);
void run_to_device(struct run *r, uint64_t dev, const void *p, size_t bytes);
uint64_t run_alloc(struct run *r, size_t bytes);
void run_launch(struct run *r, const char *name, unsigned threads, void **args);

/* Exit status. */
int run_check(struct run *r, uint64_t seed, uint32_t ops);
int run_stop(struct run *r, uint32_t nr);
int run_pull(struct run *r, uint32_t keys, uint32_t count);
int run_exist(struct run *r, uint32_t keys, uint32_t waves);
