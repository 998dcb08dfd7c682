/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_health.c: ok while nothing is wrong, else a line for each thing that is.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "ctl/ctl_health.h"

static void says(enum trip_state state, const char *what)
{
	struct ctl_stat *st = calloc(1, sizeof(*st) + sizeof(st->ns[0]));
	struct ctl c = {0};
	size_t n = 0;
	char *text;

	st->nr_ns = 1;
	st->ns[0].nsid = 3;
	st->ns[0].nr_tiers = 2;
	st->ns[0].tiers[0].name = "dram";
	st->ns[0].tiers[1].name = "ssd";
	st->ns[0].tiers[1].health = (struct store_health){.nr_shards = 1, .state = state};
	text = ctl_health_text(&c, st, &n);
	assert_string_equal(text, what);
	assert_int_equal(n, strlen(what));
	free(text);
	free(st);
}

static void texts(void **state)
{
	says(TRIP_RW, "ok\n");
	says(TRIP_READ_ONLY, "degraded\nnamespace 3: tier 1-ssd is read_only\n");
	says(TRIP_OFF, "degraded\nnamespace 3: tier 1-ssd is off\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(texts)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
