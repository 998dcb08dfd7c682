/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs over memory of the test's own: phases and wraps, the reread of a CQE, CIDs, what a
 * doorbell wakes, SGL and PRP.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/conn.h"
#include "client/qp.h"

#define SIZE 4u

struct rig {
	struct conn conn;
	struct nvme_sqe sq[SIZE];
	struct nvme_cqe cq[SIZE] __attribute__((aligned(16)));
	uint32_t bells[2], sleeping;
	uint8_t lists[(SIZE - 1) * 4096] __attribute__((aligned(8)));
	struct qp *q;
};

static int setup(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct qp *q = calloc(1, sizeof(*q) + SIZE * sizeof(uint16_t));

	r->conn.data_max = UINT64_MAX;
	r->conn.has_sgl = true;
	*q = (struct qp){.conn = &r->conn,
			 .qid = 1,
			 .size = SIZE,
			 .phase = 1,
			 .sq = r->sq,
			 .cq = r->cq,
			 .sq_doorbell = &r->bells[0],
			 .cq_doorbell = &r->bells[1],
			 .sleeping = &r->sleeping,
			 .wake_fd = eventfd(0, EFD_NONBLOCK),
			 .fd = -1};
	for (uint16_t i = 0; i < SIZE - 1; i++)
		qp_cid_put(q, i);
	r->q = q;
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	struct rig *r = *state;

	close(r->q->wake_fd);
	free(r->q);
	free(r);
	return 0;
}

static void test_cids(void **state)
{
	struct rig *r = *state;
	bool seen[SIZE] = {0};

	for (unsigned i = 0; i < SIZE - 1; i++) {
		int cid = qp_cid_get(r->q);

		assert_in_range(cid, 0, SIZE - 2);
		assert_false(seen[cid]);
		seen[cid] = true;
	}
	assert_int_equal(qp_cid_get(r->q), -EAGAIN);
	qp_cid_put(r->q, 1);
	assert_int_equal(qp_cid_get(r->q), 1);
}

static void test_ring(void **state)
{
	struct rig *r = *state;
	uint64_t n;

	for (unsigned i = 0; i < 10; i++) {
		memset(qp_sqe(r->q), 0xee, sizeof(struct nvme_sqe));
		qp_push(r->q);
		qp_ring(r->q);
		assert_int_equal(r->bells[0], (i + 1) % SIZE);
		assert_int_equal(qp_sqe(r->q)->opc, 0); /* zeroed */
	}
	assert_int_equal(read(r->q->wake_fd, &n, 8), -1);
	r->sleeping = 1;
	qp_ring(r->q);
	assert_int_equal(read(r->q->wake_fd, &n, 8), 8);
}

static void test_reap(void **state)
{
	struct rig *r = *state;
	struct nvme_cqe got[SIZE];
	unsigned phase = 1;

	assert_false(qp_has_cqe(r->q));
	for (unsigned i = 0; i < 3 * SIZE; i++) {
		unsigned slot = i % SIZE;

		r->cq[slot] = (struct nvme_cqe){.dw0 = i, .cid = (uint16_t)i};
		r->cq[slot].status = nvme_status_wire(0, !phase);
		assert_false(qp_has_cqe(r->q)); /* old phase, even with new contents */
		r->cq[slot].status = nvme_status_wire(0, phase);
		assert_true(qp_has_cqe(r->q));
		assert_int_equal(qp_reap(r->q, got, SIZE), 1);
		assert_int_equal(got[0].dw0, i);
		assert_int_equal(got[0].cid, i);
		assert_int_equal(r->bells[1], (i + 1) % SIZE);
		if (slot == SIZE - 1)
			phase ^= 1;
	}
	/* Never more than asked for. */
	for (unsigned i = 0; i < 3; i++)
		r->cq[i].status = nvme_status_wire(0, phase);
	assert_int_equal(qp_reap(r->q, got, 2), 2);
	assert_int_equal(qp_reap(r->q, got, 2), 1);
}

static void test_data(void **state)
{
	struct rig *r = *state;
	struct nvme_sqe sqe = {.cid = 2};
	uint64_t *list = (uint64_t *)(r->lists + 2 * 4096);

	assert_int_equal(qp_set_data(r->q, &sqe, 0x1000, 128u << 20), 0);
	assert_int_equal(NVME_PSDT(sqe.flags), 1);
	assert_int_equal(sqe.sgl.len, 128u << 20);
	assert_int_equal(sqe.sgl.id, 0);
	r->conn.data_max = 4096;
	assert_int_equal(qp_set_data(r->q, &sqe, 0x1000, 4097), -EFBIG);
	r->conn.data_max = UINT64_MAX;

	r->conn.has_sgl = false;
	r->q->prp_lists = r->lists;
	r->q->prp_iova = 0x100000;
	sqe = (struct nvme_sqe){.cid = 2};
	assert_int_equal(qp_set_data(r->q, &sqe, 0x1f00, 0x100), 0);
	assert_int_equal(sqe.prp1, 0x1f00);
	assert_int_equal(sqe.prp2, 0);
	assert_int_equal(qp_set_data(r->q, &sqe, 0x1f00, 0x101), 0);
	assert_int_equal(sqe.prp2, 0x2000);
	assert_int_equal(qp_set_data(r->q, &sqe, 0x1000, 3 * 4096), 0);
	assert_int_equal(sqe.prp2, 0x102000);
	assert_int_equal(list[0], 0x2000);
	assert_int_equal(list[1], 0x3000);
	assert_int_equal(qp_set_data(r->q, &sqe, 0x1000, 513 * 4096), 0);
	assert_int_equal(list[511], 0x1000 + 512 * 4096);
	assert_int_equal(qp_set_data(r->q, &sqe, 0x1000, 513 * 4096 + 1), -EFBIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_cids, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ring, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reap, setup, teardown),
		cmocka_unit_test_setup_teardown(test_data, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
