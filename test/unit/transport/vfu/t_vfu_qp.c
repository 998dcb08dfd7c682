/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hot path end to end, in one thread: SQEs from a client's memory, CQEs back.
 */
#include "rig.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "base/rng.h"

/* One command after the other, far enough that all rings wrap several times. */
static void test_one_by_one(void **state)
{
	struct rig r = {0};
	struct peer p;

	rig_init(&r, 1, NULL);
	peer_open(&r, &p, PEER_STOCK);
	peer_enable(&p);
	assert_int_equal(peer_queue(&p, 1, 7), 0);
	for (uint32_t i = 0; i < 50; i++) {
		struct nvme_sqe sqe = peer_read_sqe((uint16_t)i, RIG_DATA, 4096, i);
		struct nvme_cqe cqe;

		peer_submit(&p, 1, &sqe);
		peer_ring(&p, 1);
		cqe = peer_wait(&p, 1);
		assert_int_equal(cqe.status >> 1, NVME_ST_OK);
		assert_int_equal(cqe.cid, i);
		assert_int_equal(cqe.dw0, 4096);
		assert_int_equal(cqe.sq_head, (i + 1) % 7);
		peer_check_data(&p, RIG_DATA, 4096, i);
	}
	peer_close(&p);
	rig_fini(&r);
}

/*
 * Random waves on several queues and workers, random sizes, both directions; every byte is
 * checked.
 */
static void test_waves(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct rng rng;

	rng_init(&rng, unit_seed(1));
	rig_init(&r, 3, NULL);
	peer_open(&r, &p, PEER_PEAL);
	assert_int_equal(p.stride, 64);
	peer_enable(&p);
	for (uint16_t qid = 1; qid <= 5; qid++)
		assert_int_equal(peer_queue(&p, qid, (uint32_t)(2 + rng_below(&rng, 380))), 0);
	for (int round = 0; round < 100; round++) {
		uint32_t nr[6] = {0}, left = 0;

		for (uint16_t qid = 1; qid <= 5; qid++) {
			nr[qid] = (uint32_t)rng_below(&rng, p.q[qid].size);
			for (uint32_t i = 0; i < nr[qid]; i++) {
				struct nvme_sqe sqe = {.opc = RIG_NOP,
						       .nsid = 1,
						       .cid = (uint16_t)i,
						       .cdw12 = i * 7};

				peer_submit(&p, qid, &sqe);
			}
			peer_ring(&p, qid);
			left += nr[qid];
		}
		for (int turn = 0; left; turn++) {
			assert_true(turn < RIG_TURNS);
			rig_step(&r);
			for (uint16_t qid = 1; qid <= 5; qid++) {
				struct nvme_cqe cqe;

				while (peer_reap(&p, qid, &cqe)) {
					assert_int_equal(cqe.dw0, cqe.cid * 7);
					assert_true(cqe.cid < nr[qid]);
					left--;
				}
			}
		}
	}
	peer_close(&p);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_by_one),
		cmocka_unit_test(test_waves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
