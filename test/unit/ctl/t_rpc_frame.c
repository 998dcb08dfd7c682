/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where messages end, whatever the pieces they come in.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/rng.h"
#include "ctl/rpc.h"

static void test_ends(void **state)
{
	static const struct {
		const char *text;
		long end;
	} cases[] = {
		{"", 0},
		{" \n\t", 0},
		{"{}", 2},
		{" {} ", 3},
		{"{}{}", 2},
		{"[{\"a\":[1,2]},{}]x", 16},
		{"{\"}\":1}", 7},
		{"{\"\\\"}\":1}", 9},
		{"{\"\\\\\":1}", 8},
		{"{", 0},
		{"{\"}", 0},
		{"hello\n{}", 6},
		{"hello", 0},
		{"]\n", 2},
		{"{]", 2}, /* brackets are counted; that they don't match is the parser's */
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rpc_frame f = {0};

		assert_int_equal(rpc_frame_next(&f, cases[i].text, strlen(cases[i].text)),
				 cases[i].end);
	}
}

static void test_pieces(void **state)
{
	static const char text[] = " {\"a\": \"}\\\"{\", \"b\": [1, {\"c\": []}]} []\nno\n{}";
	struct rng rng;

	rng_init(&rng, unit_seed(1));
	for (unsigned round = 0; round < 1000; round++) {
		size_t begin = 0, have = 0, ends[8];
		struct rpc_frame f = {0};
		unsigned nr = 0;

		while (have < sizeof(text) - 1) {
			long n;

			have += 1 + rng_below(&rng, 5);
			if (have > sizeof(text) - 1)
				have = sizeof(text) - 1;
			while ((n = rpc_frame_next(&f, text + begin, have - begin)) > 0) {
				begin += (size_t)n;
				ends[nr++] = begin;
			}
			assert_int_equal(n, 0);
		}
		assert_int_equal(nr, 4);
		assert_int_equal(ends[1] - ends[0], 3);
		assert_int_equal(ends[3], sizeof(text) - 1);
	}
}

static void test_bounds(void **state)
{
	char *text = malloc(RPC_MESSAGE_BYTES);
	struct rpc_frame f = {0};

	memset(text, '[', RPC_MESSAGE_BYTES);
	assert_int_equal(rpc_frame_next(&f, text, RPC_DEPTH_MAX), 0);
	assert_int_equal(rpc_frame_next(&f, text, RPC_DEPTH_MAX + 1), -E2BIG);
	memset(text, 'x', RPC_MESSAGE_BYTES);
	f = (struct rpc_frame){0};
	assert_int_equal(rpc_frame_next(&f, text, RPC_MESSAGE_BYTES - 1), 0);
	assert_int_equal(rpc_frame_next(&f, text, RPC_MESSAGE_BYTES), -E2BIG);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
