/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker has what it promises: aligned requests, a sink of its own memory, an engine; and gives
 * it back.
 */
#include "fake_fix.h"

static void test_life(void **state)
{
	struct fake_node *n =
		fake_node_create(&(struct fake_node_opts){.seed = 1, .nr = 3, .nr_reqs = 5});
	struct tgt_worker *w;
	struct tgt_req *reqs[5];
	struct mem_run run;
	uint8_t byte = 7;

	for (unsigned i = 0; i < 3; i++) {
		w = n->node.workers[i];
		assert_int_equal(w->id, i);
		assert_ptr_equal(w->reactor, n->node.reactors[i]);
		assert_non_null(w->engine);
		for (int j = 0; j < 5; j++) {
			reqs[j] = pool_get(&w->reqs);
			assert_non_null(reqs[j]);
			assert_int_equal((uintptr_t)reqs[j] % 64, 0);
		}
		assert_null(pool_get(&w->reqs));
		for (int j = 0; j < 5; j++)
			pool_put(&w->reqs, reqs[j]);
		run = (struct mem_run){w->sink, TGT_SINK_BYTES - 1, 1};
		assert_int_equal(mem_poke(&run, &byte), 0);
	}
	fake_node_destroy(n);
}

static void test_names(void **state)
{
	struct tgt_node n = {.nr = 3, .is_home_apart = true};
	char name[TGT_WORKER_NAME_BYTES];

	tgt_node_name(&n, 1, name);
	assert_string_equal(name, "peal-1");
	tgt_node_name(&n, 2, name);
	assert_string_equal(name, "peal-home");
	n.is_home_apart = false;
	tgt_node_name(&n, 2, name);
	assert_string_equal(name, "peal-2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_life),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
