/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the CUDA driver; see gpu_cuda.h. Any thread.
 */
/* tidy: no-test: t_gpu.c */
#include "gpu/gpu_cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu_errmsg.h"

#define FN(field, symbol) \
	{ \
		symbol, offsetof(struct gpu_cuda, field) \
	}

static const struct {
	const char *name;
	size_t at;
} functions[] = {
	FN(init, "cuInit"),
	FN(device_get, "cuDeviceGet"),
	FN(primary_retain, "cuDevicePrimaryCtxRetain"),
	FN(ctx_get, "cuCtxGetCurrent"),
	FN(ctx_set, "cuCtxSetCurrent"),
	FN(host_register, "cuMemHostRegister_v2"),
	FN(host_unregister, "cuMemHostUnregister"),
	FN(host_pointer, "cuMemHostGetDevicePointer_v2"),
	FN(host_alloc, "cuMemHostAlloc"),
	FN(host_free, "cuMemFreeHost"),
	FN(mem_alloc, "cuMemAlloc_v2"),
	FN(mem_free, "cuMemFree_v2"),
	FN(mem_to_device, "cuMemcpyHtoD_v2"),
	FN(stream_wait, "cuStreamSynchronize"),
	FN(module_load, "cuModuleLoadData"),
	FN(module_unload, "cuModuleUnload"),
	FN(module_function, "cuModuleGetFunction"),
	FN(launch, "cuLaunchKernel"),
	FN(error_name, "cuGetErrorName"),
};

int gpu_cuda_check(const struct gpu_cuda *cu, int res, const char *what)
{
	const char *name = "unknown error";

	if (!res)
		return 0;
	cu->error_name(res, &name);
	return gpu_errmsg_set(-EIO, "%s: CUDA says %s (%d)", what, name, res);
}

static int cuda_functions(struct gpu_cuda *cu)
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *fn = dlsym(cu->lib, functions[i].name);

		if (!fn)
			return gpu_errmsg_set(-ENODEV, "the CUDA driver has no %s: it is too old",
					      functions[i].name);
		memcpy((char *)cu + functions[i].at, &fn, sizeof(fn));
	}
	return 0;
}

/* The caller's context, or the one that the CUDA runtime will use. */
static int cuda_context(struct gpu_cuda *cu)
{
	void *ctx = NULL;
	int dev;

	if (cu->init(0) || cu->device_get(&dev, 0))
		return gpu_errmsg_set(-ENODEV, "the CUDA driver is here, but no GPU");
	if (!cu->ctx_get(&ctx) && ctx)
		return 0;
	if (cu->primary_retain(&ctx, dev) || cu->ctx_set(ctx))
		return gpu_errmsg_set(-ENODEV, "no context on GPU 0 to be had");
	return 0;
}

int gpu_cuda_open(struct gpu_cuda *cu)
{
	const char *name = getenv("PEAL_LIBCUDA");
	int err;

	name = name ? name : "libcuda.so.1";
	cu->lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!cu->lib)
		return gpu_errmsg_set(-ENODEV, "no CUDA driver here: %s", dlerror());
	err = cuda_functions(cu);
	if (!err)
		err = cuda_context(cu);
	if (err)
		gpu_cuda_close(cu);
	return err;
}

void gpu_cuda_close(struct gpu_cuda *cu)
{
	if (cu->lib)
		dlclose(cu->lib);
	cu->lib = NULL;
}
