/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_run KERNELS URI COMMAND ...
 *
 *   check SEED OPS     mixed operations by the launchers, every byte compared
 *   stop NR            launches NR Retrieves behind a wait, stops itself, checks when it goes on
 *   pull KEYS COUNT    4 KiB values one at a time, the GPU's own clock: samples in ns
 *   exist KEYS WAVES   1023 look-ups a wave: samples in ns
 *
 * KERNELS is bench_kernels.fatbin, or "-" with a driver that needs none. Prints one line of JSON.
 */
#include <dlfcn.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run_int.h"

void run_ok(int res, const char *what)
{
	if (res)
		errx(1, "%s: CUDA error %d", what, res);
}

void run_fill(struct run *r, uint64_t dev, unsigned char c, size_t n)
{
	run_ok(r->cu.fill(dev, c, n), "filling");
	run_ok(r->cu.stream_wait(NULL), "filling");
}

void run_to_device(struct run *r, uint64_t dev, const void *p, size_t bytes)
{
	run_ok(r->cu.to_device(dev, p, bytes), "to the GPU");
	run_ok(r->cu.stream_wait(NULL), "to the GPU");
}

uint64_t run_alloc(struct run *r, size_t bytes)
{
	uint64_t dev;

	run_ok(r->cu.mem_alloc(&dev, bytes), "memory of the GPU");
	return dev;
}

static void load(struct run *r)
{
	static char image[8 << 20];
	FILE *f;
	size_t n;

	if (r->module)
		return;
	if (strcmp(r->kernels, "-")) {
		f = fopen(r->kernels, "rb");
		if (!f)
			err(1, "%s", r->kernels);
		n = fread(image, 1, sizeof(image), f);
		fclose(f);
		if (!n || n == sizeof(image))
			errx(1, "%s: %zu bytes are no kernels", r->kernels, n);
	}
	run_ok(r->cu.module_load(&r->module, image), "loading kernels");
}

void run_launch(struct run *r, const char *name, unsigned threads, void **args)
{
	void *fn;

	load(r);
	run_ok(r->cu.module_function(&fn, r->module, name), name);
	run_ok(r->cu.launch(fn, 1, 1, 1, threads, 1, 1, 0, r->stream, args, NULL), name);
}

void run_cuda_init(struct run *r)
{
	const char *name = getenv("PEAL_LIBCUDA");
	void *lib = dlopen(name ? name : "libcuda.so.1", RTLD_NOW);
	const struct {
		const char *name;
		void *to;
	} all[] = {
		{"cuMemAlloc_v2", &r->cu.mem_alloc},
		{"cuMemFree_v2", &r->cu.mem_free},
		{"cuMemcpyHtoD_v2", &r->cu.to_device},
		{"cuMemcpyDtoH_v2", &r->cu.to_host},
		{"cuMemsetD8_v2", &r->cu.fill},
		{"cuStreamCreate", &r->cu.stream_create},
		{"cuStreamSynchronize", &r->cu.stream_wait},
		{"cuModuleLoadData", &r->cu.module_load},
		{"cuModuleGetFunction", &r->cu.module_function},
		{"cuLaunchKernel", &r->cu.launch},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		void *fn = lib ? dlsym(lib, all[i].name) : NULL;

		if (!fn)
			errx(1, "%s is not to be had", all[i].name);
		memcpy(all[i].to, &fn, sizeof(fn));
	}
	run_ok(r->cu.stream_create(&r->stream, 1), "a stream"); /* not behind the default one */
}

static uint32_t number(char **argv, int i)
{
	return (uint32_t)strtoul(argv[i], NULL, 0);
}

int main(int argc, char **argv)
{
	struct run r = {0};
	struct peal_gpu_opts o = {.timeout_ms = 20000};
	const char *what;
	int rc;

	if (argc < 5)
		errx(2, "usage: gpu_run KERNELS URI check|stop|pull|exist NUMBER [NUMBER]");
	r.kernels = argv[1];
	r.uri = argv[2];
	what = argv[3];
	rc = peal_gpu_attach(r.uri, &o, &r.g);
	if (rc) {
		printf("skip: %s\n", peal_gpu_errmsg());
		return rc == -19 ? 77 : 1;
	}
	run_cuda_init(&r);
	if (!strcmp(what, "check") && argc == 6)
		rc = run_check(&r, number(argv, 4), number(argv, 5));
	else if (!strcmp(what, "stop"))
		rc = run_stop(&r, number(argv, 4));
	else if (!strcmp(what, "pull") && argc == 6)
		rc = run_pull(&r, number(argv, 4), number(argv, 5));
	else if (!strcmp(what, "exist") && argc == 6)
		rc = run_exist(&r, number(argv, 4), number(argv, 5));
	else
		errx(2, "%s: unknown, or numbers are missing", what);
	peal_gpu_detach(r.g);
	return rc;
}
