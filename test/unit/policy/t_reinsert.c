/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reinsert.c: only what was used, and never more than the budget.
 */
#include "unit.h"

#include "policy/reinsert.h"

static void budget(void **state)
{
	struct reinsert r = {.share_1024 = 512};

	reinsert_begin(&r, 1 << 20);
	assert_false(reinsert_wants(&r, 0, 1));
	assert_true(reinsert_wants(&r, 1, 500 << 10));
	assert_false(reinsert_wants(&r, 3, 13 << 10));
	assert_true(reinsert_wants(&r, 3, 12 << 10));
	assert_false(reinsert_wants(&r, 3, 1));
	reinsert_begin(&r, 1 << 20);
	assert_true(reinsert_wants(&r, 1, 1));
}

static void none(void **state)
{
	struct reinsert r = {0};

	reinsert_begin(&r, 1 << 30);
	assert_false(reinsert_wants(&r, 3, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(budget), cmocka_unit_test(none)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
