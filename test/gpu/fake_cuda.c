/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA driver without a GPU, as a library for PEAL_LIBCUDA: its memory is the process's, its
 * kernels are those of src/gpu compiled for the CPU, run at once by one lane when they are
 * launched. FAKE_CUDA_FAIL=n lets the n-th call fail that can; fake_cuda_left() says what was not
 * given back. One thread.
 */
#include <stdlib.h>
#include <string.h>

#define __device__
#define GPU_KERNEL static
struct fake_dim {
	unsigned x;
};
typedef struct {
	unsigned long long x, y;
} __attribute__((aligned(16), may_alias)) ulonglong2;
static const struct fake_dim threadIdx = {0}, blockDim = {1}, blockIdx = {0}, gridDim = {1};

#include "gpu/gpu_kernels.cu"
#include "bench_kernels.cu"

#define OUT_OF_MEMORY 2
#define NOT_FOUND 500

int fake_cuda_left(void);
int fake_cuda_calls(void);
int fake_cuda_launches(void);

static int nr_left, nr_calls, nr_launches;

int fake_cuda_left(void)
{
	return nr_left;
}

int fake_cuda_calls(void)
{
	return nr_calls;
}

int fake_cuda_launches(void)
{
	return nr_launches;
}

static int fails(void)
{
	const char *s = getenv("FAKE_CUDA_FAIL");

	return ++nr_calls == (s ? atoi(s) : 0);
}

#define API(name, ...) \
	int name(__VA_ARGS__); \
	int name(__VA_ARGS__)

API(cuInit, unsigned flags)
{
	return fails();
}

API(cuDeviceGet, int *dev, int ordinal)
{
	*dev = ordinal;
	return fails();
}

API(cuDevicePrimaryCtxRetain, void **ctx, int dev)
{
	*ctx = &nr_calls;
	return fails();
}

API(cuCtxGetCurrent, void **ctx)
{
	*ctx = NULL;
	return 0;
}

API(cuCtxSetCurrent, void *ctx)
{
	return fails();
}

API(cuMemHostRegister_v2, void *p, size_t bytes, unsigned flags)
{
	if (fails())
		return OUT_OF_MEMORY;
	nr_left++;
	return 0;
}

API(cuMemHostUnregister, void *p)
{
	nr_left--;
	return 0;
}

API(cuMemHostGetDevicePointer_v2, uint64_t *dev, void *p, unsigned flags)
{
	*dev = (uint64_t)(uintptr_t)p;
	return fails();
}

static int alloc(void **p, size_t bytes)
{
	if (fails() || posix_memalign(p, 4096, bytes ? bytes : 1))
		return OUT_OF_MEMORY;
	nr_left++;
	return 0;
}

API(cuMemHostAlloc, void **p, size_t bytes, unsigned flags)
{
	return alloc(p, bytes);
}

API(cuMemFreeHost, void *p)
{
	free(p);
	nr_left--;
	return 0;
}

API(cuMemAlloc_v2, uint64_t *dev, size_t bytes)
{
	void *p;
	int err = alloc(&p, bytes);

	if (!err)
		*dev = (uint64_t)(uintptr_t)p;
	return err;
}

API(cuMemFree_v2, uint64_t dev)
{
	return cuMemFreeHost((void *)(uintptr_t)dev);
}

API(cuMemcpyHtoD_v2, uint64_t dev, const void *p, size_t bytes)
{
	memcpy((void *)(uintptr_t)dev, p, bytes);
	return fails();
}

API(cuMemcpyDtoH_v2, void *p, uint64_t dev, size_t bytes)
{
	memcpy(p, (void *)(uintptr_t)dev, bytes);
	return 0;
}

API(cuMemsetD8_v2, uint64_t dev, unsigned char c, size_t n)
{
	memset((void *)(uintptr_t)dev, c, n);
	return 0;
}

API(cuStreamCreate, void **stream, unsigned flags)
{
	*stream = &nr_calls;
	return 0;
}

API(cuStreamSynchronize, void *stream)
{
	return fails();
}

API(cuModuleLoadData, void **mod, const void *image)
{
	if (fails())
		return OUT_OF_MEMORY;
	*mod = &nr_left;
	nr_left++;
	return 0;
}

API(cuModuleUnload, void *mod)
{
	nr_left--;
	return 0;
}

static const char *const names[] = {"gpu_run",	  "gpu_fetch",	"gpu_match",
				    "bench_wait", "bench_pull", "bench_exist"};

API(cuModuleGetFunction, void **fn, void *mod, const char *name)
{
	if (fails())
		return NOT_FOUND;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(name, names[i]))
			continue;
		*fn = (void *)&names[i];
		return 0;
	}
	return NOT_FOUND;
}

/* tidy: the driver's own parameters */
API(cuLaunchKernel, void *fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
    unsigned bz, unsigned shared, void *stream, void **args, void **extra)
{
	struct peal_gpu_side *side = *(struct peal_gpu_side **)args[0];

	if (fails())
		return OUT_OF_MEMORY;
	nr_launches++;
	switch ((const char *const *)fn - names) {
	case 0:
		gpu_run(side, *(struct gpu_job *)args[1]);
		break;
	case 1:
		gpu_fetch(side, *(struct gpu_job *)args[1]);
		break;
	case 2:
		gpu_match(side, *(struct gpu_job *)args[1]);
		break;
	case 3:
		bench_wait(*(uint64_t *)args[0]);
		break;
	case 4:
		bench_pull(side, *(struct bench_job *)args[1]);
		break;
	default:
		bench_exist(side, *(struct bench_job *)args[1]);
		break;
	}
	return 0;
}

API(cuGetErrorName, int err, const char **name)
{
	*name = err == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OTHER";
	return 0;
}
