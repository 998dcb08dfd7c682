/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every feature: what it is at first, what it becomes, what the four SELs say, and that a reset
 * undoes it.
 */
#include "fake_fix.h"
#include "base/le.h"

static uint16_t set(struct fix *f, uint8_t fid, uint32_t nsid, uint32_t val, uint32_t *dw0)
{
	struct nvme_sqe sqe = {.opc = 0x09, .nsid = nsid, .cdw10 = fid, .cdw11 = val};
	struct nvme_cqe cqe;
	uint16_t st = fake_tr_exec(f->t, 0, &sqe, &cqe);

	if (dw0)
		*dw0 = cqe.dw0;
	return st;
}

static uint32_t get(struct fix *f, uint8_t fid, uint32_t sel, uint32_t nsid, uint32_t cdw11)
{
	struct nvme_sqe sqe = {.opc = 0x0a, .nsid = nsid, .cdw10 = fid | sel << 8, .cdw11 = cdw11};
	struct nvme_cqe cqe;

	assert_int_equal(fake_tr_exec(f->t, 0, &sqe, &cqe), 0);
	return cqe.dw0;
}

static void test_plain(void **state)
{
	static const struct {
		uint8_t fid;
		uint32_t dflt, val, kept;
	} cases[] = {
		{0x01, 7, 0xffffffff, 0xffffff07},
		{0x02, 0, 0x20, 0x20},
		{0x05, 0, 0x1234, 0x1234},
		{0x06, 1, 1, 1},
		{0x08, 0, 0xffff, 0xffff},
		{0x0a, 0, 1, 1},
		{0x0b, 0, 0xffffffff, 0x1ff},
		{0x0f, 0, 60000, 60000},
		{0x19, 0, 0, 0},
		{0x04, 0x157, 0x155, 0x155},
	};
	struct fix *f = fix_create(1, NULL);
	uint8_t fid;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fid = cases[i].fid;
		assert_int_equal(get(f, fid, 0, 0, 0), cases[i].dflt);
		assert_int_equal(set(f, fid, 0, cases[i].val, NULL), 0);
		assert_int_equal(get(f, fid, 0, 0, 0), cases[i].kept);
		assert_int_equal(get(f, fid, 1, 0, 0), cases[i].dflt);
		assert_int_equal(get(f, fid, 2, 0, 0), cases[i].dflt);
		assert_int_equal(get(f, fid, 3, 0, 0), 4); /* changeable, of the controller */
	}
	assert_true(fake_tr_disable(f->t));
	assert_true(fake_tr_enable(f->t));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(get(f, cases[i].fid, 0, 0, 0), cases[i].dflt);
	fix_destroy(f);
}

static void test_temperature(void **state)
{
	struct fix *f = fix_create(1, NULL);

	assert_int_equal(get(f, 0x04, 0, 0, 1 << 20), 0);
	assert_int_equal(get(f, 0x04, 0, 0, 0), 0x157);
	assert_int_equal(set(f, 0x04, 0, 0x100 | 1 << 20, NULL), 0);
	assert_int_equal(set(f, 0x04, 0, 0x200 | 0xf << 16, NULL), 0);
	assert_int_equal(get(f, 0x04, 0, 0, 1 << 20), 0x100);
	assert_int_equal(get(f, 0x04, 0, 0, 0), 0x200);
	assert_int_equal(get(f, 0x04, 1, 0, 1 << 20), 0);
	fix_destroy(f);
}

static void test_queues(void **state)
{
	struct fix *f = fix_create(1, NULL);
	struct nvme_sqe cq = {.opc = 0x05, .cdw10 = 5 | 15 << 16, .cdw11 = 1};
	uint32_t dw0;

	assert_int_equal(get(f, 0x07, 0, 0, 0), 15 | 15 << 16);
	assert_true(fake_tr_queue_delete(f->t, 1));
	assert_int_equal(set(f, 0x07, 0, 1 | 3 << 16, &dw0), 0);
	assert_int_equal(dw0, 3 | 3 << 16);
	assert_int_equal(get(f, 0x07, 0, 0, 0), dw0);
	assert_int_equal(get(f, 0x07, 1, 0, 0), 15 | 15 << 16);
	cq.prp1 = fake_tr_alloc(f->t, 4096);
	assert_int_equal(fake_tr_exec(f->t, 0, &cq, NULL),
			 NVME_ST_QID_INVALID); /* 4 were granted */
	cq.cdw10 = 4 | 15 << 16;
	assert_int_equal(fake_tr_exec(f->t, 0, &cq, NULL), 0);
	cq.opc = 0x04;
	cq.cdw10 = 4;
	assert_int_equal(fake_tr_exec(f->t, 0, &cq, NULL), 0);
	assert_int_equal(set(f, 0x07, 0, 0xfffe | 0xfffeu << 16, &dw0), 0);
	assert_int_equal(dw0, 15 | 15 << 16);
	fix_destroy(f);
}

static void test_vectors(void **state)
{
	struct fix *f = fix_create(1, NULL);

	assert_int_equal(get(f, 0x09, 0, 0, 16), 16);
	assert_int_equal(set(f, 0x09, 0, 16 | 1 << 16, NULL), 0);
	assert_int_equal(get(f, 0x09, 0, 0, 16), 16 | 1 << 16);
	assert_int_equal(get(f, 0x09, 1, 0, 16), 16);
	assert_int_equal(get(f, 0x09, 0, 0, 15), 15);
	assert_int_equal(set(f, 0x09, 0, 16, NULL), 0);
	assert_int_equal(get(f, 0x09, 0, 0, 16), 16);
	fix_destroy(f);
}

static uint16_t data(struct fix *f, uint8_t opc, uint8_t fid, uint32_t cdw11, void *page)
{
	struct nvme_sqe sqe = {.opc = opc, .cdw10 = fid, .cdw11 = cdw11};

	return fix_data(f->t, 0, &sqe, page, NULL);
}

static void test_behavior(void **state)
{
	struct fix *f = fix_create(1, NULL);
	uint8_t page[4096] = {1, 0, 1};

	assert_int_equal(data(f, 0x09, 0x16, 0, page), 0);
	memset(page, 0xee, sizeof(page));
	assert_int_equal(data(f, 0x0a, 0x16, 0, page), 0);
	assert_memory_equal(page, "\1\0\1\0", 4);
	assert_int_equal(page[511], 0);
	assert_int_equal(page[512], 0xee);
	page[1] = 2;
	assert_int_equal(data(f, 0x09, 0x16, 0, page), NVME_ST_INVALID_FIELD);
	fix_destroy(f);
}

static void test_host_id(void **state)
{
	struct fix *f = fix_create(1, NULL);
	uint8_t page[4096] = "0123456789abcdef";

	assert_int_equal(data(f, 0x09, 0x81, 1, page), 0);
	memset(page, 0xee, sizeof(page));
	assert_int_equal(data(f, 0x0a, 0x81, 1, page), 0);
	assert_memory_equal(page, "0123456789abcdef\xee", 17);
	memset(page, 0xee, sizeof(page));
	assert_int_equal(data(f, 0x0a, 0x81, 0, page), 0);
	assert_memory_equal(page, "01234567\xee", 9);
	assert_int_equal(data(f, 0x09, 0x81, 1, page), NVME_ST_SEQUENCE); /* once only */
	assert_true(fake_tr_disable(f->t));
	assert_true(fake_tr_enable(f->t));
	assert_int_equal(data(f, 0x09, 0x81, 0, page), 0);
	fix_destroy(f);
}

static void test_kv_config(void **state)
{
	struct fix *f = fix_create(1, NULL);
	struct fake_ns *nvm = fake_ns_create(0, 4096), *kv = fake_ns_create(1, 4096);

	assert_int_equal(tgt_subsys_ns_add(f->n->ss, &nvm->ns, 2), 0);
	assert_int_equal(tgt_subsys_ns_add(f->n->ss, &kv->ns, 3), 0);
	assert_int_equal(get(f, 0x20, 0, 1, 0), 0);
	assert_int_equal(get(f, 0x20, 3, 1, 0), 4 | 2);
	assert_int_equal(set(f, 0x20, 1, 1, NULL), 0);
	assert_int_equal(get(f, 0x20, 0, 1, 0), 1);
	assert_int_equal(get(f, 0x20, 1, 1, 0), 1);
	assert_int_equal(kv->ns.kv_config, 0);
	assert_int_equal(set(f, 0x20, 2, 1, NULL), NVME_ST_INVALID_FIELD);
	assert_int_equal(set(f, 0x20, 0xffffffff, 1, NULL), 0);
	assert_int_equal(kv->ns.kv_config, 1);
	assert_int_equal(nvm->ns.kv_config, 0);
	fix_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),	  cmocka_unit_test(test_temperature),
		cmocka_unit_test(test_queues),	  cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_behavior),  cmocka_unit_test(test_host_id),
		cmocka_unit_test(test_kv_config),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
