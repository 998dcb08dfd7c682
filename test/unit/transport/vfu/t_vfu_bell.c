/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleep and wake-up with real threads: reactors that sleep as soon as they find nothing, for ever
 * when nobody rings. A lost wake-up hangs here.
 */
#include "rig.h"

#include <poll.h>

static void one(struct peer *p, uint16_t qid, uint32_t i)
{
	struct nvme_sqe sqe = {.opc = RIG_NOP, .nsid = 1, .cdw12 = i};

	peer_submit(p, qid, &sqe);
	peer_ring(p, qid);
	assert_int_equal(peer_wait(p, qid).dw0, i);
}

static void run(const char *json, uint64_t poll_ns, uint32_t nr, unsigned *nr_woken)
{
	struct rig r = {.is_threaded = true, .spin_ns = 1};
	struct peer p;

	rig_init(&r, 2, &(struct vfu_opts){.poll_ns = poll_ns});
	peer_open(&r, &p, json);
	peer_enable(&p);
	assert_int_equal(peer_queue(&p, 1, 8), 0);
	assert_int_equal(peer_queue(&p, 2, 8), 0);
	for (uint32_t i = 0; i < nr; i++)
		one(&p, (uint16_t)(1 + i % 2), i);
	/* more than the CQ holds: the worker waits for a CQ head that it is told about */
	for (uint32_t i = 0; i < 7; i++) {
		struct nvme_sqe sqe = {.opc = RIG_NOP, .nsid = 1, .cdw12 = i};

		peer_submit(&p, 1, &sqe);
	}
	peer_ring(&p, 1);
	for (uint32_t i = 0; i < 7; i++)
		assert_int_equal(peer_wait(&p, 1).dw0, i);
	*nr_woken = p.nr_woken;
	peer_close(&p);
	rig_fini(&r);
}

/* An hour's poll period: only bells can wake. */
static void test_bells(void **state)
{
	unsigned nr_woken;

	run(PEER_PEAL, 3600ull * 1000000000, 2000, &nr_woken);
	assert_true(nr_woken > 0);
}

/* A guest can't ring: the period does it. */
static void test_period(void **state)
{
	unsigned nr_woken;

	run(PEER_STOCK, 100000, 200, &nr_woken);
	assert_int_equal(nr_woken, 0);
}

/* A client that empties its own bells, or floods them, hurts nobody else. */
static void test_hostile_bell(void **state)
{
	struct rig r = {.is_threaded = true, .spin_ns = 1};
	struct peer bad, good;

	rig_init(&r, 2, &(struct vfu_opts){.poll_ns = 3600ull * 1000000000});
	peer_open(&r, &bad, PEER_PEAL);
	peer_enable(&bad);
	peer_open(&r, &good, PEER_PEAL);
	peer_enable(&good);
	assert_int_equal(peer_queue(&bad, 1, 8), 0);
	assert_int_equal(peer_queue(&good, 1, 8), 0);
	assert_int_equal(peer_queue(&good, 2, 8), 0);
	for (uint32_t i = 0; i < 500; i++) {
		uint64_t v = i % 3 == 0 ? UINT64_MAX - 1 : 1;

		for (unsigned w = 0; w < bad.nr_bells; w++) {
			if (i % 2)
				(void)!read(bad.bell[w], &v, sizeof(v));
			else
				(void)!write(bad.bell[w], &v, sizeof(v));
		}
		one(&good, (uint16_t)(1 + i % 2), i);
	}
	memset(bad.bar0 + VFU_WAKE_OFFSET, 0xff, 4096); /* its own page */
	one(&good, 1, 1);
	peer_close(&bad);
	one(&good, 2, 1);
	peer_close(&good);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bells),
		cmocka_unit_test(test_period),
		cmocka_unit_test(test_hostile_bell),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
