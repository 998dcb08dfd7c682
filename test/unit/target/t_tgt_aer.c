/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous events: who hears of them and when, masks, the limit, and that nothing is left
 * behind by a reset.
 */
#include "fake_fix.h"

static int aer(struct fix *f)
{
	struct nvme_sqe sqe = {.opc = 0x0c};

	return fake_tr_submit(f->t, 0, &sqe);
}

static void mask(struct fix *f, uint32_t bits)
{
	struct nvme_sqe sqe = {.opc = 0x09, .cdw10 = 0x0b, .cdw11 = bits};

	assert_int_equal(fake_tr_exec(f->t, 0, &sqe, NULL), 0);
}

static void read_log(struct fix *f, uint8_t lid, bool rae)
{
	struct nvme_sqe sqe = {.opc = 0x02, .cdw10 = lid | (uint32_t)rae << 15 | 127u << 16};
	uint8_t page[4096] = {0};

	assert_int_equal(fix_data(f->t, 0, &sqe, page, NULL), 0);
}

static bool is_told(struct fix *f, int cid, uint32_t *dw0)
{
	struct nvme_cqe cqe;

	fake_node_steps(f->n, 100);
	if (!fake_tr_done(f->t, 0, (uint16_t)cid, &cqe))
		return false;
	assert_int_equal(fake_tr_status(&cqe), 0);
	*dw0 = cqe.dw0;
	return true;
}

static void change_ns(struct fix *f, uint32_t nsid)
{
	assert_int_equal(tgt_subsys_ns_add(f->n->ss, &fake_ns_create(1, 4096)->ns, nsid), 0);
}

static void test_ns_change(void **state)
{
	struct fix *f = fix_create(2, NULL);
	uint32_t dw0;
	int cid = aer(f);

	change_ns(f, 2);
	assert_false(is_told(f, cid, &dw0)); /* not asked for */
	mask(f, 1 << 8);
	change_ns(f, 3);
	assert_true(is_told(f, cid, &dw0));
	assert_int_equal(dw0, 2 | 0 << 8 | 4 << 16);
	cid = aer(f);
	change_ns(f, 4); /* masked until log 04h was read */
	assert_false(is_told(f, cid, &dw0));
	read_log(f, 4, true);
	change_ns(f, 5);
	assert_false(is_told(f, cid, &dw0));
	read_log(f, 4, false);
	assert_false(is_told(f, cid, &dw0)); /* the page told it all */
	change_ns(f, 6);
	assert_true(is_told(f, cid, &dw0));
	fix_destroy(f);
}

/* An event before there is a request for it waits. Errors can't be masked. */
static void test_early(void **state)
{
	struct fix *f = fix_create(1, NULL);
	uint32_t dw0;
	int cid;

	tgt_ctrl_aen(f->t->ctrl, 0, 1, 1);
	tgt_ctrl_aen(f->t->ctrl, 0, 1, 1); /* the same: once */
	tgt_ctrl_aen(f->t->ctrl, 1, 0, 2); /* SMART: masked by feature 0Bh */
	cid = aer(f);
	assert_true(is_told(f, cid, &dw0));
	assert_int_equal(dw0, 0 | 1 << 8 | 1 << 16);
	cid = aer(f);
	assert_false(is_told(f, cid, &dw0));
	mask(f, 0xff);
	tgt_ctrl_aen(f->t->ctrl, 1, 0, 2);
	assert_true(is_told(f, cid, &dw0));
	assert_int_equal(dw0, 1 | 0 << 8 | 2 << 16);
	fix_destroy(f);
}

static void test_limit(void **state)
{
	struct fix *f = fix_create(1, NULL);
	struct nvme_sqe sqe = {.opc = 0x0c};
	int cids[8];
	uint32_t dw0;

	for (int i = 0; i < 8; i++)
		cids[i] = aer(f);
	assert_int_equal(fake_tr_exec(f->t, 0, &sqe, NULL), NVME_ST_AER_LIMIT);
	for (int i = 0; i < 20; i++) /* more kinds than the table holds */
		tgt_ctrl_aen(f->t->ctrl, 0, (uint8_t)i, (uint8_t)(0x10 + i));
	for (int i = 0; i < 8; i++) { /* in order, one each */
		assert_true(is_told(f, cids[i], &dw0));
		assert_int_equal(dw0, (uint32_t)i << 8 | (0x10u + (uint32_t)i) << 16);
	}
	assert_true(is_told(f, aer(f), &dw0));
	fix_destroy(f);
}

/* A CQ of two slots has room for one answer at a time: an AER would keep it for ever. */
static void test_small_ring(void **state)
{
	struct nvme_sqe sqe = {.opc = 0x0c}, other = {.opc = 0x0a, .cdw10 = 0x07};
	struct fix *f = fix_create(1, NULL);

	for (uint32_t slots = 2; slots <= 4; slots++) {
		assert_true(fake_tr_disable(f->t));
		f->t->adminq_size = slots;
		assert_true(fake_tr_enable(f->t));
		for (uint32_t i = 2; i < slots; i++)
			aer(f);
		assert_int_equal(fake_tr_exec(f->t, 0, &sqe, NULL), NVME_ST_AER_LIMIT);
		assert_int_equal(fake_tr_exec(f->t, 0, &other, NULL), 0);
	}
	fix_destroy(f);
}

/* A threshold on the wrong side of the temperature, which is always the same, is told. */
static void test_temperature(void **state)
{
	struct nvme_sqe over = {.opc = 0x09, .cdw10 = 0x04, .cdw11 = 298};
	struct fix *f = fix_create(1, NULL);
	uint8_t page[4096] = {0};
	struct nvme_sqe log = {.opc = 0x02, .cdw10 = 2 | 127u << 16};
	uint32_t dw0;
	int cid;

	mask(f, 0x2);
	cid = aer(f);
	over.cdw11 = 299;
	assert_int_equal(fake_tr_exec(f->t, 0, &over, NULL), 0);
	assert_false(is_told(f, cid, &dw0));
	over.cdw11 = 298;
	assert_int_equal(fake_tr_exec(f->t, 0, &over, NULL), 0);
	assert_true(is_told(f, cid, &dw0));
	assert_int_equal(dw0, 1 | 1 << 8 | 2 << 16);
	assert_int_equal(fix_data(f->t, 0, &log, page, NULL), 0);
	assert_int_equal(page[0], 2);
	fix_destroy(f);
}

static void test_reset(void **state)
{
	struct fix *f = fix_create(2, NULL);
	uint32_t dw0;

	for (int round = 0; round < 3; round++) {
		mask(f, 0x1ff);
		aer(f);
		aer(f);
		fake_node_steps(f->n, 100);
		tgt_ctrl_aen(f->t->ctrl, 0, 1, 1);
		fake_node_steps(f->n, 100);
		assert_true(fake_tr_disable(f->t)); /* no completion for the one that waits */
		tgt_ctrl_aen(f->t->ctrl, 0, 2, 1);
		change_ns(f, 10 + (uint32_t)round);
		assert_true(fake_tr_enable(f->t));
		assert_false(is_told(f, aer(f), &dw0));
	}
	fix_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ns_change),   cmocka_unit_test(test_early),
		cmocka_unit_test(test_limit),	    cmocka_unit_test(test_small_ring),
		cmocka_unit_test(test_temperature), cmocka_unit_test(test_reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
