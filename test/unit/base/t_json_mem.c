/* SPDX-License-Identifier: Apache-2.0 */
/* The reserve is given out, counted, and whole again when all of it is back. */
#include "unit.h"

#include <string.h>

#include "base/json_mem.h"

static void test_alloc(void **state)
{
	uint64_t failed = json_mem_failed();
	char *p = json_mem_alloc(100);

	assert_non_null(p);
	memset(p, 1, 100);
	json_mem_free(p);
	json_mem_free(NULL);
	assert_int_equal(json_mem_failed(), failed);
	/* More than there is, and than the reserve has. */
	assert_null(json_mem_alloc(PTRDIFF_MAX));
	assert_int_equal(json_mem_failed(), failed + 1);
}

static void test_reserve(void **state)
{
	char *first = json_mem_reserve(1), *second = json_mem_reserve(JSON_MEM_RESERVE_BYTES / 2);

	assert_non_null(first);
	assert_non_null(second);
	assert_int_equal((uintptr_t)second % 16, 0);
	memset(second, 7, JSON_MEM_RESERVE_BYTES / 2);
	*first = 8;
	assert_int_equal(second[0], 7);
	assert_null(json_mem_reserve(JSON_MEM_RESERVE_BYTES / 2));
	assert_null(json_mem_reserve(SIZE_MAX));
	json_mem_free(first);
	assert_null(json_mem_reserve(JSON_MEM_RESERVE_BYTES / 2));
	json_mem_free(second);
	second = json_mem_reserve(JSON_MEM_RESERVE_BYTES);
	assert_ptr_equal(second, first);
	json_mem_free(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alloc),
		cmocka_unit_test(test_reserve),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
