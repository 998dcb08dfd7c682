/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_iter.c: every cut of a list of runs gives the same bytes in order, and then there are no
 * more.
 */
#include "unit.h"

#include <errno.h>

#include "mem/mem_iter.h"

static void walk(uint64_t max)
{
	struct mem_region a = {.len = 1000}, b = {.len = 1000};
	const struct mem_run runs[] = {{&a, 5, 7}, {&b, 100, 1}, {&a, 900, 100}, {&a, 0, 30}};
	struct mem_iter_runs ir;
	struct mem_run run;
	unsigned k = 0;
	uint64_t at = 0;

	mem_iter_runs_init(&ir, runs, 4);
	for (int err = ir.it.next(&ir.it, max, &run); err != -ENODATA;
	     err = ir.it.next(&ir.it, max, &run)) {
		assert_int_equal(err, 0);
		assert_in_range(run.len, 1, max);
		assert_ptr_equal(run.reg, runs[k].reg);
		assert_int_equal(run.off, runs[k].off + at);
		at += run.len;
		if (at == runs[k].len) {
			k++;
			at = 0;
		}
	}
	assert_int_equal(k, 4);
	assert_int_equal(at, 0);
}

static void t_walk(void **state)
{
	for (uint64_t max = 1; max < 120; max++)
		walk(max);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_walk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
