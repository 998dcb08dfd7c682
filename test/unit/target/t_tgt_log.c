/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every log page with the figures it must show, offsets and lengths, and what reading clears.
 */
#include "fake_fix.h"
#include <nvme/types.h>
#include "base/le.h"

static uint8_t page[4096];

static uint16_t read_log(struct fix *f, uint8_t lid, uint32_t off, uint32_t bytes, uint32_t cdw14)
{
	struct nvme_sqe sqe = {.opc = 0x02,
			       .nsid = 0xffffffff,
			       .cdw12 = off,
			       .cdw14 = cdw14,
			       .cdw10 = lid | (bytes / 4 - 1) << 16};

	memset(page, 0xee, sizeof(page));
	return fix_data(f->t, 0, &sqe, page, NULL);
}

static void test_supported(void **state)
{
	static const uint8_t lids[] = {0, 1, 2, 3, 4, 5, 0x12, 0x13};
	struct fix *f = fix_create(1, NULL);
	unsigned nr = 0;

	assert_int_equal(read_log(f, 0, 0, 1024, 0), 0);
	for (unsigned i = 0; i < 256; i++)
		nr += le32_get(page + 4 * i) & 1;
	for (size_t i = 0; i < sizeof(lids); i++)
		assert_int_equal(le32_get(page + 4 * lids[i]), 1);
	assert_int_equal(nr, sizeof(lids));
	assert_int_equal(page[1024], 0xee);
	fix_destroy(f);
}

static void test_errors(void **state)
{
	struct fix *f = fix_create(1, NULL);
	struct nvme_error_log_page *e = (struct nvme_error_log_page *)page;
	struct nvme_sqe bad = {.opc = 0x7e, .nsid = 9};

	assert_int_equal(read_log(f, 1, 0, 1024, 0), 0);
	assert_int_equal(e[0].error_count, 0);
	for (int i = 0; i < 20; i++)
		fake_tr_exec(f->t, 0, &bad, NULL);
	assert_int_equal(read_log(f, 1, 0, 1024, 0), 0);
	for (int i = 0; i < 16; i++) {
		assert_int_equal(le64toh(e[i].error_count), 20 - i);
		assert_int_equal(le16toh(e[i].status_field), (NVME_ST_INVALID_OPCODE | NVME_ST_DNR)
								     << 1);
		assert_int_equal(le32toh(e[i].nsid), 9);
	}
	assert_int_equal(read_log(f, 2, 0, 512, 0), 0);
	assert_int_equal(le64_get(((struct nvme_smart_log *)page)->num_err_log_entries), 20);
	fix_destroy(f);
}

static void io(struct fix *f, uint8_t opc, uint32_t bytes)
{
	struct nvme_sqe sqe = {.opc = opc, .nsid = 1, .cdw10 = bytes};
	uint64_t addr = fake_tr_alloc(f->t, bytes);

	fake_tr_prp(f->t, &sqe, addr, bytes);
	assert_int_equal(fake_tr_exec(f->t, 1, &sqe, NULL), 0);
	fake_tr_free(f->t, addr, bytes);
}

static void test_smart(void **state)
{
	struct fix *f = fix_create(2, NULL);
	struct nvme_smart_log *l = (struct nvme_smart_log *)page;
	struct nvme_sqe hang = {.opc = FAKE_HANG, .nsid = 1};

	for (int i = 0; i < 3; i++)
		io(f, FAKE_WRITE, 1 << 20);
	io(f, FAKE_READ, 4096);
	tgt_subsys_media_error(f->n->ss);
	/* Busy for two minutes, then idle for three hours. */
	assert_true(fake_tr_submit(f->t, 1, &hang) >= 0);
	fake_node_steps(f->n, 500);
	f->n->clock_ns += 121000000000ull;
	fake_node_steps(f->n, 500); /* the turn's clock may be 64 turns old */
	fake_ns_let_go(f->ns);
	f->n->clock_ns += 3 * 3600000000000ull;
	assert_int_equal(fix_ns_del(f->n, 1), 0); /* its figures stay */
	assert_int_equal(read_log(f, 2, 0, 512, 0), 0);
	assert_int_equal(l->critical_warning, 0);
	assert_int_equal(le16_get(l->temperature), 298);
	assert_int_equal(l->avail_spare, 100);
	assert_int_equal(le64_get(l->data_units_written), 7); /* 3 MiB in units of 512000 bytes */
	assert_int_equal(le64_get(l->data_units_read), 1);
	assert_int_equal(le64_get(l->host_writes), 3);
	assert_int_equal(le64_get(l->host_reads), 1);
	assert_int_equal(le64_get(l->ctrl_busy_time), 2);
	assert_int_equal(le64_get(l->power_on_hours), 3);
	assert_int_equal(le64_get(l->power_cycles), 1);
	assert_int_equal(le64_get(l->media_errors), 1);
	assert_int_equal(page[512], 0xee);
	fix_destroy(f);
}

static void test_parts(void **state)
{
	struct fix *f = fix_create(1, NULL);
	uint8_t whole[512];

	assert_int_equal(read_log(f, 3, 0, 512, 0), 0);
	assert_int_equal(page[0], 1); /* active slot 1 */
	assert_int_not_equal(page[8], ' ');
	assert_int_equal(page[16], 0);
	assert_int_equal(page[512], 0xee);
	memcpy(whole, page, 512);
	assert_int_equal(read_log(f, 3, 8, 8, 0), 0);
	assert_memory_equal(page, whole + 8, 8);
	assert_int_equal(page[8], 0xee);
	assert_int_equal(read_log(f, 3, 504, 4096, 0),
			 0); /* past the end: nothing there is touched */
	assert_memory_equal(page, whole + 504, 8);
	assert_int_equal(page[8], 0xee);
	fix_destroy(f);
}

static void test_mdts(void **state)
{
	const struct fake_tr_opts o = {.mdts = 1};
	struct fix *f = fix_create(1, &o);
	struct nvme_sqe sqe = {.opc = 0x02, .cdw10 = 0x05 | 2047u << 16};
	uint64_t addr = fake_tr_alloc(f->t, 3 * 4096);

	fake_tr_prp(f->t, &sqe, addr, 8192);
	assert_int_equal(fake_tr_exec(f->t, 0, &sqe, NULL), 0);
	sqe.cdw10 += 1 << 16;
	assert_int_equal(fake_tr_exec(f->t, 0, &sqe, NULL), NVME_ST_INVALID_FIELD);
	fix_destroy(f);
}

static void test_changed(void **state)
{
	struct fix *f = fix_create(2, NULL);
	uint32_t rae = 1 << 15;
	struct nvme_sqe sqe = {.opc = 0x02, .prp1 = 1, .cdw10 = 0x04 | 1023u << 16};

	assert_int_equal(read_log(f, 4, 0, 4096, 0), 0);
	assert_int_equal(le32_get(page), 0); /* what was there at enable isn't a change */
	assert_int_equal(tgt_subsys_ns_add(f->n->ss, &fake_ns_create(1, 4096)->ns, 900), 0);
	assert_int_equal(tgt_subsys_ns_add(f->n->ss, &fake_ns_create(1, 4096)->ns, 64), 0);
	assert_int_equal(fix_ns_del(f->n, 1), 0);
	/* Not cleared by a read that failed, nor with RAE. */
	assert_int_equal(fake_tr_exec(f->t, 0, &sqe, NULL), NVME_ST_PRP_OFFSET);
	sqe.cdw10 |= rae;
	assert_int_equal(fix_data(f->t, 0, &sqe, page, NULL), 0);
	for (int i = 0; i < 2; i++) {
		if (i)
			assert_int_equal(read_log(f, 4, 0, 4096, 0), 0);
		assert_int_equal(le32_get(page), 1);
		assert_int_equal(le32_get(page + 4), 64);
		assert_int_equal(le32_get(page + 8), 900);
		assert_int_equal(le32_get(page + 12), 0);
	}
	assert_int_equal(read_log(f, 4, 0, 4096, 0), 0);
	assert_int_equal(le32_get(page), 0);
	fix_destroy(f);
}

static void test_all_changed(void **state)
{
	struct fix *f = fix_create(1, NULL);

	for (uint32_t nsid = 2; nsid <= TGT_NS_MAX; nsid++)
		assert_int_equal(tgt_subsys_ns_add(f->n->ss, &fake_ns_create(1, 4096)->ns, nsid),
				 0);
	assert_int_equal(fix_ns_del(f->n, 1), 0);
	assert_int_equal(read_log(f, 4, 0, 4096, 0), 0);
	for (uint32_t i = 0; i < 1024; i++)
		assert_int_equal(le32_get(page + 4 * i), i + 1);
	fix_destroy(f);
}

static void check_effects(struct fix *f, bool is_operator)
{
	const uint32_t ctrl = 1 | 1 << 21;

	for (uint32_t csi = 0; csi < 2; csi++) {
		assert_int_equal(read_log(f, 5, 0, 4096, csi << 24), 0);
		assert_int_equal(le32_get(page + 4 * 0x06), ctrl);
		assert_int_equal(le32_get(page + 4 * 0x18), ctrl);
		assert_int_equal(le32_get(page + 4 * 0x80), 0);
		assert_int_equal(le32_get(page + 4 * 0x0d) & 1, is_operator);
		assert_int_equal(le32_get(page + 4 * 0xc0) & 1, is_operator);
		assert_int_equal(le32_get(page + 1024 + 4 * FAKE_WRITE), csi ? 3 : 0);
		assert_int_equal(le32_get(page + 1024 + 4 * FAKE_READ), csi ? 1 : 0);
	}
}

static void test_effects(void **state)
{
	const struct fake_tr_opts plain = {0};
	struct fix *f = fix_create(1, NULL);

	check_effects(f, true);
	assert_int_equal(read_log(f, 0x12, 0, 1024, 0), 0);
	assert_int_equal(le32_get(page + 4 * 0x07), 1 | 1 << 21);
	assert_int_equal(le32_get(page + 4 * 0x20), 1 | 1 << 20);
	assert_int_equal(le32_get(page + 4 * 0x03), 0);
	assert_int_equal(read_log(f, 0x13, 0, 4096, 0), 0);
	assert_int_equal(page[4095], 0);
	fix_destroy(f);
	f = fix_create(1, &plain);
	check_effects(f, false);
	fix_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_supported),   cmocka_unit_test(test_errors),
		cmocka_unit_test(test_smart),	    cmocka_unit_test(test_parts),
		cmocka_unit_test(test_mdts),	    cmocka_unit_test(test_changed),
		cmocka_unit_test(test_all_changed), cmocka_unit_test(test_effects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
