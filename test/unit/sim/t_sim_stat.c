/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_stat: a trace of a few requests whose figures can be counted by hand. One thread.
 */
#include "unit.h"

#include "sim/sim_stat.h"

static void add(struct sim_trace *t, uint64_t time_s, uint32_t input_tokens, const uint64_t *ids)
{
	struct sim_req req = {.time_ns = time_s * 1000000000ull, .input_tokens = input_tokens};

	req.nr_blocks = sim_trace_blocks(input_tokens);
	req.ids = ids;
	assert_int_equal(sim_trace_append(t, &req), 0);
}

static void t_by_hand(void **state)
{
	struct sim_trace t = {0};
	struct sim_stat s;

	add(&t, 0, 1500, (uint64_t[]){100, 1, 2});	    /* turn 0 */
	add(&t, 10, 600, (uint64_t[]){100, 9});		    /* another, turn 0 */
	add(&t, 70, 2000, (uint64_t[]){100, 1, 3, 4});	    /* continues the first */
	add(&t, 90, 2500, (uint64_t[]){100, 1, 3, 5, 6});   /* continues that */
	add(&t, 95, 2500, (uint64_t[]){100, 1, 7, 70, 71}); /* keeps too little: turn 0 */
	add(&t, 2000, 600, (uint64_t[]){100, 9});	    /* the second, sent again */
	assert_int_equal(sim_stat_measure(&t, &s), 0);
	assert_int_equal(s.duration_ns, 2000000000000ull);
	assert_int_equal(s.refs, 21);
	assert_int_equal(s.uniques, 11);
	assert_int_equal(s.used_once, 7); /* all but 100, 1, 3, 9 */
	assert_int_equal(s.partial_tails, 5);
	assert_int_equal(s.partial_reused, 1);
	assert_int_equal(s.with_first_block, 6);
	assert_int_equal(s.turns[0], 3);
	assert_int_equal(s.followed[0], 2);
	assert_int_equal(s.turns[1], 1);
	assert_int_equal(s.followed[1], 1);
	assert_int_equal(s.turns[2], 1);
	assert_int_equal(s.followed[2], 0);
	assert_true(s.gap_s[0] == 20.0 && s.gap_s[1] == 70.0);
	assert_int_equal(s.events[0][4], 1);  /* 70 s */
	assert_int_equal(s.events[0][11], 1); /* 1990 s */
	assert_int_equal(s.events[1][1], 1);  /* 20 s */
	assert_true(s.exposed_s[1][0] == 15.0 + 0.0);
	assert_true(s.exposed_s[1][1] == 5.0);
	sim_trace_fini(&t);
}

static void t_empty(void **state)
{
	struct sim_trace t = {0};
	struct sim_stat s;

	assert_int_equal(sim_stat_measure(&t, &s), 0);
	assert_int_equal(s.uniques, 0);
	assert_true(sim_stat_p_followed(&s, 0) == 0.0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_by_hand),
		cmocka_unit_test(t_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
