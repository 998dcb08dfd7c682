/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues coming and going with commands under way: create, delete, Abort, disable, and what is
 * refused.
 */
#include "rig.h"

#include <sys/eventfd.h>
#include <sys/mman.h>

#include "base/rng.h"

static void submit_held(struct rig *r, struct peer *p, uint16_t qid, uint16_t nr)
{
	unsigned before = r->nr_held;

	r->is_held = true;
	for (uint16_t i = 0; i < nr; i++) {
		struct nvme_sqe sqe = peer_read_sqe(i, RIG_DATA + qid * 0x10000u + i * 512u, 512,
						    i);

		peer_submit(p, qid, &sqe);
	}
	peer_ring(p, qid);
	rig_until(r, r->nr_held == before + nr);
}

static void test_create_and_delete(void **state)
{
	struct rig r = {0};
	struct peer p;

	rig_init(&r, 3, NULL);
	peer_open(&r, &p, PEER_PEAL);
	peer_enable(&p);
	for (int round = 0; round < 3; round++) {
		for (uint16_t qid = 1; qid <= 120; qid++) {
			struct nvme_sqe sqe = {.opc = RIG_NOP, .nsid = 1, .cdw12 = qid};

			assert_int_equal(peer_queue(&p, qid, 2), 0);
			peer_submit(&p, qid, &sqe);
			peer_ring(&p, qid);
			assert_int_equal(peer_wait(&p, qid).dw0, qid);
		}
		for (uint16_t qid = 120; qid > 0; qid--)
			assert_int_equal(peer_queue_del(&p, qid), 0);
	}
	peer_close(&p);
	rig_fini(&r);
}

static void test_refused(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct nvme_sqe cq = {
		.opc = 5, .cdw10 = 15u << 16 | 1, .cdw11 = 3, .prp1 = RIG_IOVA + 0x8000};
	struct nvme_sqe sq = {.opc = 1, .cdw10 = 15u << 16 | 1, .cdw11 = 1u << 16 | 1};
	struct nvme_sqe del = {.opc = 4, .cdw10 = 1};

	rig_init(&r, 2, NULL);
	peer_open(&r, &p, PEER_STOCK);
	peer_enable(&p);
	/* rings that aren't mapped, wholly or in part */
	cq.prp1 = 0x5000;
	assert_int_equal(peer_admin(&p, &cq, NULL), NVME_ST_INVALID_FIELD);
	cq.cdw10 = 4095u << 16 | 1;
	cq.prp1 = RIG_IOVA + RIG_MEM_BYTES - 0x1000;
	assert_int_equal(peer_admin(&p, &cq, NULL), NVME_ST_INVALID_FIELD);
	cq.cdw10 = 15u << 16 | 1;
	cq.prp1 = RIG_IOVA + 0x8000;
	cq.cdw11 = 3 | 129u << 16; /* vector */
	assert_int_equal(peer_admin(&p, &cq, NULL), NVME_ST_INVALID_VECTOR);
	cq.cdw11 = 3;
	assert_int_equal(peer_admin(&p, &cq, NULL), 0);
	assert_int_equal(peer_admin(&p, &cq, NULL), NVME_ST_QID_INVALID);
	sq.prp1 = 0x5000;
	assert_int_equal(peer_admin(&p, &sq, NULL), NVME_ST_INVALID_FIELD);
	sq.prp1 = RIG_IOVA + 0x9000;
	sq.cdw11 = 2u << 16 | 1;
	assert_int_equal(peer_admin(&p, &sq, NULL), NVME_ST_CQ_INVALID);
	sq.cdw11 = 1u << 16 | 1;
	assert_int_equal(peer_admin(&p, &sq, NULL), 0);
	/* a CQ with an SQ */
	assert_int_equal(peer_admin(&p, &del, NULL), NVME_ST_INVALID_QUEUE_DELETION);
	del.opc = 0;
	assert_int_equal(peer_admin(&p, &del, NULL), 0);
	assert_int_equal(peer_admin(&p, &del, NULL), NVME_ST_QID_INVALID);
	peer_close(&p);
	rig_fini(&r);
}

/* A delete answers when the last command has, and every command is answered before it. */
static void test_delete_under_io(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct nvme_sqe del = {.opc = 0, .cid = 500, .cdw10 = 1};
	struct nvme_cqe cqe;

	rig_init(&r, 2, NULL);
	peer_open(&r, &p, PEER_STOCK);
	peer_enable(&p);
	assert_int_equal(peer_queue(&p, 1, 64), 0);
	assert_int_equal(peer_queue(&p, 2, 64), 0);
	submit_held(&r, &p, 1, 20);
	peer_submit(&p, 0, &del);
	peer_ring(&p, 0);
	rig_steps(&r, 100);
	assert_false(peer_reap(&p, 0, &cqe));
	assert_int_equal(r.nr_held, 20);
	for (unsigned i = 0; i < 20; i++)
		assert_true(r.held[i]->is_aborted);
	rig_let_go(&r, NVME_ST_OK);
	cqe = peer_wait(&p, 0);
	assert_int_equal(cqe.cid, 500);
	for (unsigned i = 0; i < 20; i++) {
		assert_true(peer_reap(&p, 1, &cqe)); /* there already */
		assert_int_equal(cqe.cid, i);
		assert_int_equal(cqe.status >> 1 & 0x7ff, NVME_ST_ABORTED_SQ_DELETED);
	}
	/* the same id again */
	r.is_held = false;
	del = (struct nvme_sqe){.opc = 4, .cdw10 = 1};
	assert_int_equal(peer_admin(&p, &del, NULL), 0);
	assert_int_equal(peer_queue(&p, 1, 64), 0);
	peer_close(&p);
	rig_fini(&r);
}

/*
 * Only what was given up ends as that: by us, or by a transfer that was stopped, which without a
 * delete is what a namespace says that goes.
 */
static void test_delete_status(void **state)
{
	static const uint16_t rows[][2] = {
		{NVME_ST_OK, NVME_ST_OK},
		{NVME_ST_ABORTED, NVME_ST_ABORTED_SQ_DELETED},
		{NVME_ST_NS_NOT_READY, NVME_ST_ABORTED_SQ_DELETED},
		{NVME_ST_DATA_TRANSFER, NVME_ST_DATA_TRANSFER},
		{NVME_ST_KEY_NOT_FOUND, NVME_ST_KEY_NOT_FOUND},
	};
	const unsigned nr = sizeof(rows) / sizeof(rows[0]);
	struct nvme_sqe del = {.opc = 0, .cid = 500, .cdw10 = 1};
	struct rig r = {0};
	struct peer p;

	rig_init(&r, 2, NULL);
	peer_open(&r, &p, PEER_STOCK);
	peer_enable(&p);
	for (uint16_t qid = 1; qid <= 2; qid++) {
		assert_int_equal(peer_queue(&p, qid, 64), 0);
		submit_held(&r, &p, qid, (uint16_t)nr);
	}
	peer_submit(&p, 0, &del);
	peer_ring(&p, 0);
	rig_steps(&r, 100);
	for (unsigned i = 0; i < 2 * nr; i++) {
		bool is_deleted = r.held[i]->sq->qid == 1;

		assert_int_equal(r.held[i]->is_aborted, is_deleted);
		tgt_req_complete(r.held[i], rows[r.held[i]->sqe.cid][0]);
	}
	r.nr_held = 0;
	peer_wait(&p, 0);
	for (uint16_t qid = 1; qid <= 2; qid++) {
		for (unsigned i = 0; i < nr; i++) {
			struct nvme_cqe cqe = peer_wait(&p, qid);

			assert_int_equal(cqe.status >> 1 & 0x7ff, rows[cqe.cid][qid == 1]);
		}
	}
	peer_close(&p);
	rig_fini(&r);
}

static void test_abort(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct nvme_sqe ab = {.opc = 8};
	struct nvme_cqe cqe;

	rig_init(&r, 3, NULL);
	peer_open(&r, &p, PEER_STOCK);
	peer_enable(&p);
	for (uint16_t qid = 1; qid <= 3; qid++)
		assert_int_equal(peer_queue(&p, qid, 64), 0);
	submit_held(&r, &p, 2, 10);
	ab.cdw10 = 7u << 16 | 2;
	assert_int_equal(peer_admin(&p, &ab, NULL), 0);
	ab.cdw10 = 7u << 16 | 3; /* not in that queue */
	assert_int_equal(peer_admin(&p, &ab, NULL), 0);
	ab.cdw10 = 99u << 16 | 2;
	assert_int_equal(peer_admin(&p, &ab, NULL), 0);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(r.held[i]->is_aborted, i == 7);
	rig_let_go(&r, NVME_ST_OK);
	for (unsigned i = 0; i < 10; i++) {
		cqe = peer_wait(&p, 2);
		assert_int_equal(cqe.status >> 1 & 0x7ff,
				 cqe.cid == 7 ? NVME_ST_ABORTED : NVME_ST_OK);
	}
	peer_close(&p);
	rig_fini(&r);
}

/* CC.EN = 0 waits for everything, and nothing is written into the host's memory after RDY is 0. */
static void test_disable_under_io(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct nvme_sqe aer = {.opc = 0x0c, .cid = 9};
	static uint8_t before[RIG_MEM_BYTES];

	rig_init(&r, 3, NULL);
	peer_open(&r, &p, PEER_STOCK);
	for (int round = 0; round < 5; round++) {
		peer_enable(&p);
		for (uint16_t qid = 1; qid <= 5; qid++)
			assert_int_equal(peer_queue(&p, qid, 64), 0);
		peer_submit(&p, 0, &aer);
		peer_ring(&p, 0);
		for (uint16_t qid = 1; qid <= 5; qid++)
			submit_held(&r, &p, qid, 10);
		peer_reg_set(&p, 0x14, 4, 4u << 20 | 6u << 16 | 6u << 4);
		rig_steps(&r, 100);
		assert_int_equal(peer_reg(&p, 0x1c, 4) & 1, 1);
		rig_let_go(&r, NVME_ST_OK);
		rig_until(&r, !(peer_reg(&p, 0x1c, 4) & 1));
		r.is_held = false;
		memcpy(before, p.mem, RIG_MEM_BYTES);
		rig_steps(&r, 50);
		assert_memory_equal(before, p.mem, RIG_MEM_BYTES);
		assert_int_equal(rig_nr_free(&r), r.nr * r.nr_reqs);
	}
	peer_close(&p);
	rig_fini(&r);
}

/* Admin rings that can't be: CFS, and a reset brings it back. */
static void test_enable_fails(void **state)
{
	struct rig r = {0};
	struct peer p;

	rig_init(&r, 2, NULL);
	peer_open(&r, &p, PEER_STOCK);
	for (int i = 0; i < 2; i++) {
		peer_reg_set(&p, 0x24, 4, 31u << 16 | 31);
		peer_reg_set(&p, 0x28, 8, i ? RIG_IOVA : 0x7000);
		peer_reg_set(&p, 0x30, 8, i ? 0x7000 : RIG_IOVA);
		peer_reg_set(&p, 0x14, 4, 4u << 20 | 6u << 16 | 6u << 4 | 1);
		rig_until(&r, peer_reg(&p, 0x1c, 4) & 2);
		assert_int_equal(peer_reg(&p, 0x1c, 4) & 1, 0);
		assert_int_equal(peer_call(&p, VFIO_USER_DEVICE_RESET, NULL, 0), 0);
		assert_int_equal(peer_reg(&p, 0x1c, 4), 0);
	}
	peer_enable(&p);
	assert_int_equal(peer_queue(&p, 1, 64), 0);
	peer_close(&p);
	rig_fini(&r);
}

/*
 * A controller that has failed goes down by messages; admin commands that it fetches in between do
 * nothing any more. A queue made then would be one that nobody takes down.
 */
static void test_create_while_going(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct nvme_sqe nop = {.opc = RIG_NOP, .nsid = 1};
	struct nvme_sqe cq = {
		.opc = 5, .cdw10 = 15u << 16 | 2, .cdw11 = 1, .prp1 = RIG_IOVA + 0x10000};
	struct nvme_sqe sq = {.opc = 1,
			      .cdw10 = 15u << 16 | 2,
			      .cdw11 = 2u << 16 | 1,
			      .prp1 = RIG_IOVA + 0x11000};
	struct nvme_sqe kato = {.opc = 9, .cdw10 = 0x0f, .cdw11 = 1000};
	int fd = memfd_create("ring", MFD_CLOEXEC);
	const uint64_t iova = 0x40000000;

	rig_init(&r, 1, NULL);
	r.nr_fds--;
	peer_open(&r, &p, PEER_STOCK);
	for (unsigned turns = 0; turns < 8; turns++) {
		assert_int_equal(ftruncate(fd, 4096), 0);
		assert_int_equal(peer_map(&p, fd, 0, iova, 4096), 0);
		peer_enable(&p);
		assert_int_equal(peer_queue(&p, 1, 16), 0);
		assert_int_equal(peer_queue_del(&p, 1), 0);
		cq.cdw10 = 15u << 16 | 1;
		sq.cdw10 = 15u << 16 | 1;
		sq.cdw11 = 1u << 16 | 1;
		sq.prp1 = iova;
		assert_int_equal(peer_admin(&p, &cq, NULL), 0);
		assert_int_equal(peer_admin(&p, &sq, NULL), 0);
		cq.cdw10 = 15u << 16 | 2;
		sq.cdw10 = 15u << 16 | 2;
		sq.cdw11 = 2u << 16 | 1;
		sq.prp1 = RIG_IOVA + 0x11000;
		/* the ring faults: fatal */
		assert_int_equal(ftruncate(fd, 0), 0);
		peer_submit(&p, 1, &nop);
		peer_ring(&p, 1);
		rig_steps(&r, turns);
		peer_submit(&p, 0, &cq);
		peer_submit(&p, 0, &sq);
		peer_submit(&p, 0, &kato);
		peer_ring(&p, 0);
		rig_steps(&r, 100);
		assert_int_equal(peer_reg(&p, 0x1c, 4) & 2, 2);
		assert_int_equal(peer_call(&p, VFIO_USER_DEVICE_RESET, NULL, 0), 0);
		assert_int_equal(peer_unmap(&p, iova, 4096), 0);
	}
	close(fd);
	peer_close(&p);
	rig_fini(&r);
}

static unsigned served_by(struct peer *p, uint16_t qid)
{
	return ((struct vfu_wake_page *)(p->bar0 + VFU_WAKE_OFFSET))->queue_worker[qid];
}

/*
 * Three reactors, the last of them the home alone: it has the admin queue and none of the others.
 * Maps, unmaps and interrupts come and go while commands hold what they replace, and the client
 * dies under them: wherever the last user is, it is the home that unmaps and closes
 * (vfu_must_home()).
 */
static void test_home_apart(void **state)
{
	struct rig r = {.is_home_apart = true};
	int fd = eventfd(0, EFD_CLOEXEC);
	struct vfio_irq_set set = {
		sizeof(set), VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER, 2, 1, 1};
	const struct peer_msg irq = {.cmd = VFIO_USER_DEVICE_SET_IRQS,
				     .data = &set,
				     .len = sizeof(set),
				     .fds = &fd,
				     .nr_fds = 1};
	struct peer p;

	rig_init(&r, 3, NULL);
	peer_open(&r, &p, PEER_PEAL);
	assert_int_equal(served_by(&p, 0), 2); /* libpeal asks before it enables */
	peer_enable(&p);
	assert_int_equal(served_by(&p, 0), 2);
	for (uint16_t qid = 1; qid <= 6; qid++) {
		assert_int_equal(peer_queue(&p, qid, 16), 0);
		assert_int_equal(served_by(&p, qid), (qid - 1) % 2);
	}
	for (uint16_t qid = 1; qid <= 6; qid++)
		submit_held(&r, &p, qid, 4);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(peer_map(&p, p.mem_fd, 0, 0x1000, 0x1000), 0);
		assert_int_equal(peer_ask(&p, &irq), 0);
		if (i == 2)
			rig_let_go(&r, NVME_ST_OK);
		assert_int_equal(peer_unmap(&p, 0x1000, 0x1000), 0);
		if (i == 2)
			submit_held(&r, &p, 5, 3);
	}
	peer_close(&p);
	rig_steps(&r, 50);
	rig_let_go(&r, NVME_ST_OK);
	rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 0);
	rig_fini(&r);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_home_apart),    cmocka_unit_test(test_create_and_delete),
		cmocka_unit_test(test_refused),	      cmocka_unit_test(test_delete_under_io),
		cmocka_unit_test(test_abort),	      cmocka_unit_test(test_disable_under_io),
		cmocka_unit_test(test_enable_fails),  cmocka_unit_test(test_create_while_going),
		cmocka_unit_test(test_delete_status),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
