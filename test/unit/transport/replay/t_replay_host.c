/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host inside the daemon: it comes and goes at any time, with queues on every worker.
 */
#include "replay_fix.h"
#include <errno.h>

static void test_empty(void **state)
{
	struct replay_host *h;
	struct rfix f;

	rfix_init(&f, 2);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(replay_host_create(f.n->ss, &h), 0);
		assert_int_equal(tgt_ctrl_id(replay_host_ctrl(h)), i + 1);
		*tgt_subsys_leased(f.n->ss, (uint16_t)(i + 1)) = 1;
		rfix_host_end(&f, h);
	}
	assert_int_equal(f.ns->nr_gone, 10);
	rfix_fini(&f);
}

/* Stopped in the middle of its load: what was under way ends, nothing new begins. */
static void test_stop_early(void **state)
{
	struct replay_host *h;
	struct load *ld[3];
	struct rfix f;
	uint32_t nr_left;

	rfix_init(&f, 3);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(replay_host_create(f.n->ss, &h), 0);
		for (unsigned w = 0; w < 3; w++) {
			ld[w] = load_create((uint64_t)i, 1000000, w * 5, 5);
			memcpy(ld[w]->model, f.ns->bytes, FAKE_NS_BYTES);
			assert_int_equal(replay_queue_create(h,
							     &(struct replay_queue_opts){
								     .worker = w,
								     .depth = 16,
								     .slot_bytes = LOAD_BLOCK,
								     .load = &ld[w]->l},
							     NULL),
					 0);
		}
		fake_node_steps(f.n, (unsigned)i * 20);
		nr_left = ld[0]->nr_left + ld[1]->nr_left + ld[2]->nr_left;
		rfix_host_end(&f, h);
		assert_true(ld[0]->nr_left + ld[1]->nr_left + ld[2]->nr_left <= nr_left);
		for (unsigned w = 0; w < 3; w++) {
			assert_null(memchr(ld[w]->is_busy, true, LOAD_BLOCKS));
			assert_int_equal(ld[w]->nr_done + ld[w]->nr_left, 1000000);
			free(ld[w]);
		}
	}
	rfix_fini(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_stop_early),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
