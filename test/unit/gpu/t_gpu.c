/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libpeal-gpu without a GPU: no driver, one that is too old, one whose every call fails in turn;
 * launchers whose kernels run on the CPU against the client's fake daemon, small values by the
 * landing area, large ones by lease.
 */
#include "unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fake_peald.h"
#include "peal/gpu.h"

static int (*cuda_left)(void), (*cuda_calls)(void), (*cuda_launches)(void);

static int group_setup(void **state)
{
	void *lib = dlopen(getenv("FAKE_CUDA"), RTLD_NOW);

	assert_non_null(lib);
	*(void **)&cuda_left = dlsym(lib, "fake_cuda_left");
	*(void **)&cuda_calls = dlsym(lib, "fake_cuda_calls");
	*(void **)&cuda_launches = dlsym(lib, "fake_cuda_launches");
	assert_true(cuda_left && cuda_calls && cuda_launches);
	return 0;
}

static int setup(void **state)
{
	setenv("PEAL_LIBCUDA", getenv("FAKE_CUDA"), 1);
	unsetenv("FAKE_CUDA_FAIL");
	*state = fake_start(&(struct fake_opts){0});
	return 0;
}

static int teardown(void **state)
{
	fake_stop(*state);
	return 0;
}

static void t_no_driver(void **state)
{
	struct peal_gpu *g;

	setenv("PEAL_LIBCUDA", "/nowhere/libcuda.so.1", 1);
	assert_int_equal(peal_gpu_attach(fake_uri(*state), NULL, &g), -ENODEV);
	assert_non_null(strstr(peal_gpu_errmsg(), "no CUDA driver"));
	setenv("PEAL_LIBCUDA", "libc.so.6", 1);
	assert_int_equal(peal_gpu_attach(fake_uri(*state), NULL, &g), -ENODEV);
	assert_non_null(strstr(peal_gpu_errmsg(), "cuInit"));
}

static void t_refused(void **state)
{
	struct peal_gpu *g;

	assert_int_equal(
		peal_gpu_attach(fake_uri(*state),
				&(struct peal_gpu_opts){.mode = PEAL_GPU_CQ | PEAL_GPU_DATA}, &g),
		-EOPNOTSUPP);
	assert_non_null(strstr(peal_gpu_errmsg(), "mode 10"));
	assert_int_equal(peal_gpu_attach(fake_uri(*state), &(struct peal_gpu_opts){.depth = 5}, &g),
			 -EINVAL);
	assert_int_equal(peal_gpu_attach("vfu:/nowhere", NULL, &g), -ENOENT);
	assert_int_equal(cuda_left(), 0);
	peal_gpu_detach(NULL);
}

/* Each call that can fail does, once: an error with a reason, and nothing is left behind. */
static void t_fails(void **state)
{
	struct peal_gpu *g;
	char nr[16];
	int err = 1;

	for (unsigned i = 1; err; i++) {
		assert_in_range(i, 1, 40);
		snprintf(nr, sizeof(nr), "%d", cuda_calls() + (int)i);
		setenv("FAKE_CUDA_FAIL", nr, 1);
		err = peal_gpu_attach(fake_uri(*state), NULL, &g);
		if (!err)
			peal_gpu_detach(g);
		else
			assert_true(strlen(peal_gpu_errmsg()) > 5);
		assert_int_equal(cuda_left(), 0);
	}
}

static void key_set(struct peal_gpu_req *r, uint32_t i)
{
	memset(r, 0, sizeof(*r));
	r->key.len = 8;
	memcpy(r->key.b, "gpu ", 4);
	memcpy(r->key.b + 4, &i, 4);
}

/* Stores nr values, reads them back with room for a byte more, and one that is absent. */
static void round_trip(struct peal_gpu *g, uint32_t nr, uint32_t bytes, int launches)
{
	struct peal_gpu_req *r = peal_gpu_reqs(g, nr + 1);
	uint8_t *mem = malloc((size_t)(nr + 1) * (bytes + 1));
	int before;

	assert_true(r && mem);
	for (uint32_t i = 0; i < nr; i++) {
		key_set(&r[i], i);
		r[i].buf = mem + (size_t)i * (bytes + 1);
		r[i].bytes = bytes;
		memset(r[i].buf, (int)(i + 1), bytes);
	}
	assert_int_equal(peal_gpu_store_async(g, r, nr, 0, NULL), 0);
	for (uint32_t i = 0; i < nr; i++)
		assert_int_equal(r[i].status, PEAL_ST_OK);
	memset(mem, 0xee, (size_t)(nr + 1) * (bytes + 1));
	for (uint32_t i = 0; i <= nr; i++) {
		key_set(&r[i], i < nr ? i : 1000000);
		r[i].buf = mem + (size_t)i * (bytes + 1);
		r[i].bytes = bytes + 1;
	}
	before = cuda_launches();
	assert_int_equal(peal_gpu_retrieve_async(g, r, nr + 1, NULL), 0);
	assert_int_equal(cuda_launches() - before, launches);
	for (uint32_t i = 0; i < nr; i++) {
		const uint8_t *p = r[i].buf;

		assert_int_equal(r[i].status, PEAL_ST_OK);
		assert_int_equal(r[i].value_bytes, bytes);
		for (uint32_t b = 0; b < bytes; b++)
			assert_int_equal(p[b], (uint8_t)(i + 1));
		assert_int_equal(p[bytes], 0xee);
	}
	assert_int_equal(r[nr].status, PEAL_ST_NOT_FOUND);
	free(mem);
}

static void t_launchers(void **state)
{
	struct peal_gpu_opts o = {.depth = 63, .land_bytes = 1 << 20, .lease_bytes = 20000};
	struct peal_gpu_req *r;
	struct peal_gpu *g;

	assert_int_equal(peal_gpu_attach(fake_uri(*state), &o, &g), 0);
	assert_non_null(peal_gpu_side(g));
	r = peal_gpu_reqs(g, 100);
	assert_non_null(r);
	round_trip(g, 100, 3000, 1); /* more than the queue holds: two waves in one kernel */
	round_trip(g, 5, 30000, 4);  /* lease, fetch, release, and what no lease was had for */
	for (uint32_t i = 0; i < 100; i++)
		key_set(&r[i], i == 70 ? 1000000 : i);
	assert_int_equal(peal_gpu_exist_async(g, r, 100, NULL), 0);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(r[i].status, i == 70 ? PEAL_ST_NOT_FOUND : PEAL_ST_OK);
	assert_int_equal(peal_gpu_match_async(g, r, 60, NULL), 0);
	assert_int_equal(r[0].status, PEAL_ST_OK);
	assert_int_equal(r[0].value_bytes, 60);
	r[0].bytes = 2 << 20;
	r[0].buf = r;
	assert_int_equal(peal_gpu_store_async(g, r, 1, 0, NULL), -EFBIG);
	peal_gpu_detach(g);
	assert_int_equal(cuda_left(), 0);
}

/* A wave that is late leaves its requests pending; the next one waits for it, then goes on. */
static void t_late(void **state)
{
	struct peal_gpu_opts o = {.timeout_ms = 50};
	struct peal_gpu_req *r;
	struct peal_gpu *g;

	assert_int_equal(peal_gpu_attach(fake_uri(*state), &o, &g), 0);
	r = peal_gpu_reqs(g, 4);
	assert_non_null(r);
	for (uint32_t i = 0; i < 4; i++)
		key_set(&r[i], i);
	fake_pause(*state, true);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(peal_gpu_exist_async(g, r, 4, NULL), 0);
		assert_int_equal(r[0].status, PEAL_ST_PENDING);
	}
	fake_pause(*state, false);
	do
		assert_int_equal(peal_gpu_exist_async(g, r, 4, NULL), 0);
	while (r[0].status == PEAL_ST_PENDING);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(r[i].status, PEAL_ST_NOT_FOUND);
	peal_gpu_detach(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(t_no_driver, setup, teardown),
		cmocka_unit_test_setup_teardown(t_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(t_fails, setup, teardown),
		cmocka_unit_test_setup_teardown(t_launchers, setup, teardown),
		cmocka_unit_test_setup_teardown(t_late, setup, teardown),
	};

	return cmocka_run_group_tests(tests, group_setup, NULL);
}
