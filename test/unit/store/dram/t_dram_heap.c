/* SPDX-License-Identifier: Apache-2.0 */
/* dram_heap.c: adjacent ranges, aligned, counted, and "none" when there is no room or never was. */
#include "unit.h"

#include "store/dram/dram_heap.h"

static void t_heap(void **state)
{
	struct dram_heap h;
	uint32_t at[3];

	assert_int_equal(dram_heap_init(&h, 4096), 0);
	for (int i = 0; i < 3; i++) {
		at[i] = dram_heap_alloc(&h, 100);
		assert_int_not_equal(at[i], DRAM_SIDE_NONE);
		assert_int_equal((uintptr_t)dram_heap_at(&h, at[i]) % 16, 0);
	}
	assert_int_equal(dram_heap_used_bytes(&h), 3 * 112);
	assert_int_equal(dram_heap_alloc(&h, 4096), DRAM_SIDE_NONE);
	for (int i = 0; i < 3; i++)
		dram_heap_free(&h, at[i], 100);
	assert_int_equal(dram_heap_used_bytes(&h), 0);
	dram_heap_fini(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_heap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
