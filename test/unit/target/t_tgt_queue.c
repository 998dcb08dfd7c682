/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O queues come and go: sizes up to 4096, several SQs on one CQ, deletion under commands,
 * creation and deletion that overlap. What each field must be is t_tgt_admin's table.
 */
#include "fake_fix.h"
#include <errno.h>

/* 16 slots; cdw11 as the command has it. */
static uint16_t create(struct fix *f, uint8_t opc, uint16_t qid, uint32_t cdw11, uint64_t addr)
{
	struct nvme_sqe sqe = {
		.opc = opc,
		.prp1 = addr,
		.cdw10 = qid | 15 << 16,
		.cdw11 = cdw11,
	};

	return fake_tr_exec(f->t, 0, &sqe, NULL);
}

static uint16_t drop(struct fix *f, uint8_t opc, uint16_t qid)
{
	struct nvme_sqe sqe = {.opc = opc, .cdw10 = qid};

	return fake_tr_exec(f->t, 0, &sqe, NULL);
}

static void test_sizes(void **state)
{
	static const uint32_t sizes[] = {2, 3, 5, 63, 1023, 1024, 4095, 4096};
	struct fix *f = fix_create(2, NULL);
	struct nvme_sqe ping = {.opc = FAKE_PING, .nsid = 1};
	struct nvme_cqe cqe;
	int cid, err;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_true(fake_tr_queue_create(f->t, 2, sizes[i]));
		for (uint32_t n = 0; n < 3 * sizes[i] + 7; n++) {
			ping.cdw12 = n;
			cid = fake_tr_submit(f->t, 2, &ping);
			assert_true(cid >= 0);
			if (n % sizes[i] == 0) /* a full ring */
				while ((err = fake_tr_submit(f->t, 2, &ping)) >= 0)
					;
			while (!fake_tr_done(f->t, 2, (uint16_t)cid, &cqe))
				fake_node_step(f->n);
			assert_int_equal(cqe.dw0, n);
			for (uint16_t c = 0; c < FAKE_CIDS; c++) /* the others */
				while (f->t->q[2].cmds[c].is_used &&
				       !fake_tr_done(f->t, 2, c, NULL))
					fake_node_step(f->n);
			if (n > 20)
				n += sizes[i] / 4;
		}
		assert_true(fake_tr_queue_delete(f->t, 2));
	}
	fix_destroy(f);
}

static void test_book(void **state)
{
	struct fix *f = fix_create(2, NULL);
	uint64_t a = fake_tr_alloc(f->t, 4096);

	/* Two SQs on CQ 3; it can't go before both have. */
	assert_int_equal(create(f, 0x05, 3, 1, a), 0);
	assert_int_equal(create(f, 0x05, 3, 1, a), NVME_ST_QID_INVALID);
	assert_int_equal(create(f, 0x01, 4, 1 | 3 << 16, a), 0);
	assert_int_equal(create(f, 0x01, 5, 1 | 3 << 16, a), 0);
	assert_int_equal(create(f, 0x01, 5, 1 | 3 << 16, a), NVME_ST_QID_INVALID);
	assert_int_equal(drop(f, 0x04, 3), NVME_ST_INVALID_QUEUE_DELETION);
	assert_int_equal(drop(f, 0x00, 4), 0);
	assert_int_equal(drop(f, 0x00, 4), NVME_ST_QID_INVALID);
	assert_int_equal(drop(f, 0x04, 3), NVME_ST_INVALID_QUEUE_DELETION);
	assert_int_equal(drop(f, 0x00, 5), 0);
	assert_int_equal(drop(f, 0x04, 3), 0);
	assert_int_equal(drop(f, 0x04, 3), NVME_ST_QID_INVALID);
	fix_destroy(f);
}

/* IOSQES and IOCQES left at 0: queues want them. */
static void test_entry_sizes(void **state)
{
	struct fix *f = fix_create(1, NULL);
	uint64_t a = fake_tr_alloc(f->t, 4096);

	fake_tr_reg_set(f->t, 0x14, 4, 0x00060061);
	assert_int_equal(create(f, 0x05, 3, 1, a), NVME_ST_INVALID_FIELD);
	fake_tr_reg_set(f->t, 0x14, 4, 0x00400061);
	assert_int_equal(create(f, 0x05, 3, 1, a), 0);
	assert_int_equal(create(f, 0x01, 3, 1 | 3 << 16, a), NVME_ST_INVALID_FIELD);
	fake_tr_reg_set(f->t, 0x14, 4, 0x00460061);
	assert_int_equal(create(f, 0x01, 3, 1 | 3 << 16, a), 0);
	fix_destroy(f);
}

static void test_delete_under_io(void **state)
{
	struct fix *f = fix_create(2, NULL);
	struct nvme_sqe hang = {.opc = FAKE_HANG, .nsid = 1}, sqe = {.opc = 0x00, .cdw10 = 1};
	uint16_t io[5], gone, again;
	struct nvme_cqe cqe;

	for (int i = 0; i < 5; i++)
		io[i] = (uint16_t)fake_tr_submit(f->t, 1, &hang);
	fake_node_steps(f->n, 100);
	gone = (uint16_t)fake_tr_submit(f->t, 0, &sqe);
	fake_node_steps(f->n, 100);
	assert_false(fake_tr_done(f->t, 0, gone, NULL));
	/* On its way out: not there any more, and not there again either. */
	assert_int_equal(drop(f, 0x00, 1), NVME_ST_QID_INVALID);
	assert_int_equal(drop(f, 0x04, 1), NVME_ST_INVALID_QUEUE_DELETION);
	assert_int_equal(create(f, 0x01, 1, 1 | 1 << 16, FAKE_BUS), NVME_ST_QID_INVALID);
	sqe.opc = 0x08; /* Abort into a queue that is going */
	sqe.cdw10 = 1 | (uint32_t)io[0] << 16;
	assert_int_equal(fake_tr_exec(f->t, 0, &sqe, &cqe), 0);
	assert_int_equal(cqe.dw0, 1);
	fake_ns_let_go(f->ns);
	fake_node_steps(f->n, 100);
	for (int i = 0; i < 5; i++)
		assert_true(fake_tr_done(f->t, 1, io[i], NULL));
	assert_true(fake_tr_done(f->t, 0, gone, &cqe));
	assert_int_equal(fake_tr_status(&cqe), 0);
	/* And a creation and a deletion in one go. */
	sqe = (struct nvme_sqe){
		.opc = 0x01, .prp1 = f->t->q[1].sq, .cdw10 = 1 | 63 << 16, .cdw11 = 1 | 1 << 16};
	gone = (uint16_t)fake_tr_submit(f->t, 0, &sqe);
	again = (uint16_t)fake_tr_submit(f->t, 0, &sqe);
	while (!fake_tr_done(f->t, 0, gone, &cqe))
		fake_node_step(f->n);
	assert_int_equal(fake_tr_status(&cqe), 0);
	while (!fake_tr_done(f->t, 0, again, &cqe))
		fake_node_step(f->n);
	assert_int_equal(fake_tr_status(&cqe) & 0x7ff, NVME_ST_QID_INVALID);
	fix_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_book),
		cmocka_unit_test(test_entry_sizes),
		cmocka_unit_test(test_delete_under_io),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
