/* SPDX-License-Identifier: Apache-2.0 */
/* heap.c: one value, its view, its runs, its last reference. */
#include "world.h"

#include "store/heap_int.h"

static void t_value(void **state)
{
	static const uint64_t lens[] = {0, 1, 65536, 65537, 1000000};
	struct store s = {.tier = 3};
	struct store_view view;
	struct mem_run run;

	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
		struct heap_value *v = heap_value_create(lens[i]);

		assert_non_null(v);
		v->ver = 9;
		heap_value_get(v);
		heap_view(&s, v, &view);
		assert_ptr_equal(view.st, &s);
		assert_int_equal(view.tier, 3);
		assert_int_equal(view.value_len, lens[i]);
		assert_int_equal(view.len, lens[i]);
		assert_int_equal(view.ver, 9);
		assert_int_equal(heap_runs(&view, lens[i], &run, 1), 0);
		assert_int_equal(heap_runs(&view, 0, &run, 1), lens[i] > 0);
		if (lens[i] > 1) {
			assert_int_equal(heap_runs(&view, 1, &run, 5), 1);
			assert_int_equal(run.len, lens[i] - 1);
			assert_ptr_equal(world_run_ptr(&run), v->reg.base + 1);
		}
		for (uint64_t c = 0; c < peal_seal_count(lens[i]); c++)
			assert_int_equal(heap_seals(&view)[c], 0);
		assert_int_equal(heap_meta(&view)->cost_us, 0);
		heap_value_put(v);
		memset(v->reg.base, 1, lens[i]); /* still ours */
		heap_value_put(v);
	}
	assert_null(heap_value_create(UINT64_MAX / 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(t_value)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
