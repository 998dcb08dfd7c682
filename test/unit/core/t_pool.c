/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.c: every object once, aligned, zero the first time, last in first out; empty is counted;
 * mappings of all sizes. One thread.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "core/pool.h"

static void use(size_t size, uint32_t nr, size_t align)
{
	struct pool p;
	uint8_t **objs = calloc(nr, sizeof(*objs));

	assert_non_null(objs);
	assert_int_equal(pool_init(&p, size, nr, align), 0);
	for (uint32_t i = 0; i < nr; i++) {
		objs[i] = pool_get(&p);
		assert_non_null(objs[i]);
		assert_int_equal((uintptr_t)objs[i] % align, 0);
		for (size_t k = 0; k < size; k++)
			assert_int_equal(objs[i][k], 0);
		memset(objs[i], (int)(i % 251) + 1, size);
	}
	assert_null(pool_get(&p));
	assert_int_equal(counter_get(&p.nr_empty), 1);
	/* None overlaps another one. */
	for (uint32_t i = 0; i < nr; i++) {
		assert_int_equal(objs[i][0], i % 251 + 1);
		assert_int_equal(objs[i][size - 1], i % 251 + 1);
	}
	for (uint32_t i = 0; i < nr; i++)
		pool_put(&p, objs[i]);
	assert_ptr_equal(pool_get(&p), objs[nr - 1]);
	pool_put(&p, objs[nr - 1]);
	pool_fini(&p);
	free(objs);
}

static void t_use(void **state)
{
	use(1, 1, 1);
	use(24, 1000, 8);
	use(100, 50, 64);
	use(70000, 64, 4096);
}

static void t_too_much(void **state)
{
	struct pool p;

	assert_int_equal(pool_init(&p, SIZE_MAX / 8, 1, 8), -ENOMEM);
	assert_int_equal(pool_init(&p, 1u << 31, UINT32_MAX, 8), -ENOMEM);
}

static void t_map(void **state)
{
	static const size_t sizes[] = {1, 4096, 4097, 1 << 20, (2 << 20) + 1, 5 << 20};
	size_t map_bytes = 0;
	uint8_t *p;

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		p = pool_map(sizes[i], &map_bytes);
		assert_non_null(p);
		assert_true(map_bytes >= sizes[i]);
		if (sizes[i] >= 1 << 20)
			assert_int_equal((uintptr_t)p % (2 << 20), 0);
		p[0] = 1;
		p[map_bytes - 1] = 1;
		pool_unmap(p, map_bytes);
	}
	assert_null(pool_map(0, &map_bytes));
	assert_null(pool_map(SIZE_MAX, &map_bytes));
	pool_unmap(NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_use),
		cmocka_unit_test(t_too_much),
		cmocka_unit_test(t_map),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
