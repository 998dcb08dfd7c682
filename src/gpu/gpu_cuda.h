/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver, as much of it as is used here, found by dlopen under the exact names of the
 * versions that these prototypes are of. Neither its headers nor its library are needed to build or
 * to start. PEAL_LIBCUDA in the environment names another library, for tests.
 */
#ifndef GPU_GPU_CUDA_H
#define GPU_GPU_CUDA_H

#include <stddef.h>
#include <stdint.h>

#define GPU_CUDA_REG_PORTABLE 1u
#define GPU_CUDA_REG_DEVICEMAP 2u
#define GPU_CUDA_REG_READ_ONLY 8u
#define GPU_CUDA_ALLOC_MAPPED 3u /* portable, mapped */

struct gpu_cuda_dim {
	unsigned blocks;
	unsigned threads;
};

struct gpu_cuda {
	void *lib;
	int (*init)(unsigned flags);
	int (*device_get)(int *dev, int ordinal);
	int (*primary_retain)(void **ctx, int dev);
	int (*ctx_get)(void **ctx);
	int (*ctx_set)(void *ctx);
	int (*host_register)(void *p, size_t bytes, unsigned flags);
	int (*host_unregister)(void *p);
	int (*host_pointer)(uint64_t *dev, void *p, unsigned flags);
	int (*host_alloc)(void **p, size_t bytes, unsigned flags);
	int (*host_free)(void *p);
	int (*mem_alloc)(uint64_t *dev, size_t bytes);
	int (*mem_free)(uint64_t dev);
	int (*mem_to_device)(uint64_t dev, const void *p, size_t bytes);
	int (*stream_wait)(void *stream);
	int (*module_load)(void **mod, const void *image);
	int (*module_unload)(void *mod);
	int (*module_function)(void **fn, void *mod, const char *name);
	int (*launch)(void *fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		      unsigned bz, unsigned shared, void *stream, void **args, void **extra);
	int (*error_name)(int err, const char **name);
};

/* -ENODEV with a message: there is no driver, it lacks a function, or it has no GPU. */
int gpu_cuda_open(struct gpu_cuda *cu);
void gpu_cuda_close(struct gpu_cuda *cu);
/* 0, or -EIO with a message that says what failed and CUDA's name for why. */
int gpu_cuda_check(const struct gpu_cuda *cu, int res, const char *what);

#endif
