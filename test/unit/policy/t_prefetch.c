/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefetch.c: the bound holds, a source that is wrong too often is switched off and can come back.
 */
#include "unit.h"

#include "policy/prefetch.h"

#define MIB (1u << 20)

static void t_bound(void **state)
{
	struct prefetch p;

	prefetch_init(&p, 40 * MIB);
	assert_true(prefetch_wants(&p, PREFETCH_HINT, 6 * MIB));
	assert_false(prefetch_wants(&p, PREFETCH_HINT, 5 * MIB));
	assert_true(prefetch_wants(&p, PREFETCH_CHAIN, 4 * MIB));
	assert_false(prefetch_wants(&p, PREFETCH_AHEAD, 1));
	prefetch_undone(&p, 4 * MIB);
	prefetch_used(&p, PREFETCH_HINT, 6 * MIB);
	assert_int_equal(p.out_bytes, 0);
	assert_true(prefetch_wants(&p, PREFETCH_AHEAD, 10 * MIB));
}

static unsigned nr_granted(struct prefetch *p, enum prefetch_source src, bool is_good)
{
	unsigned n = 0;

	for (unsigned i = 0; i < 160; i++) {
		if (!prefetch_wants(p, src, MIB))
			continue;
		n++;
		if (is_good)
			prefetch_used(p, src, MIB);
		else
			prefetch_wasted(p, src, MIB);
	}
	return n;
}

static void t_accuracy(void **state)
{
	struct prefetch p;

	prefetch_init(&p, 400 * MIB);
	assert_int_equal(nr_granted(&p, PREFETCH_CHAIN, true), 160);
	assert_true(nr_granted(&p, PREFETCH_AHEAD, false) < 50);
	assert_true(prefetch_is_off(&p, PREFETCH_AHEAD));
	assert_false(prefetch_is_off(&p, PREFETCH_CHAIN));
	/* It does better from now on. */
	for (unsigned i = 0; i < 20; i++)
		nr_granted(&p, PREFETCH_AHEAD, true);
	assert_false(prefetch_is_off(&p, PREFETCH_AHEAD));
	assert_int_equal(nr_granted(&p, PREFETCH_HINT, false), 160);
	assert_int_equal(p.out_bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_bound),
		cmocka_unit_test(t_accuracy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
