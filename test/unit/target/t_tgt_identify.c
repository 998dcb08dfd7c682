/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every Identify page, byte by byte where hosts look: what Linux and SPDK need to accept the
 * controller and its KV namespaces, lists, descriptors; and a host that enabled the NVM command
 * set alone.
 */
#include "fake_fix.h"
#include <nvme/types.h>
#include "base/le.h"

static uint8_t page[4096];

static uint16_t identify(struct fix *f, uint8_t cns, uint32_t nsid, uint8_t csi, uint16_t cntid)
{
	struct nvme_sqe sqe = {.opc = 0x06,
			       .nsid = nsid,
			       .cdw10 = cns | (uint32_t)cntid << 16,
			       .cdw11 = (uint32_t)csi << 24};

	memset(page, 0xee, sizeof(page));
	return fix_data(f->t, 0, &sqe, page, NULL);
}

static void is_zero_from(unsigned at)
{
	for (; at < 4096; at++)
		assert_int_equal(page[at], 0);
}

static void check_ctrl(struct fix *f, bool is_operator, uint8_t mdts)
{
	struct nvme_id_ctrl *id = (struct nvme_id_ctrl *)page;

	assert_int_equal(identify(f, 0x01, 0, 0, 0), 0);
	assert_int_equal(le16toh(id->vid), TGT_PCI_VID);
	assert_memory_equal(id->sn, "PEAL0001            ", 20);
	assert_memory_equal(id->mn, "Peal test                               ", 40);
	assert_int_not_equal(id->fr[0], ' ');
	assert_int_equal(id->cmic, 2);
	assert_int_equal(id->mdts, mdts);
	assert_int_equal(le16toh(id->cntlid), tgt_ctrl_id(f->t->ctrl));
	assert_int_equal(le32toh(id->ver), 0x20000);
	assert_int_not_equal(le32toh(id->rtd3e), 0);
	assert_int_equal(le32toh(id->oaes), 1 << 8);
	assert_int_equal(page[111], 1); /* CNTRLTYPE */
	assert_int_equal(le16toh(id->oacs), is_operator ? 1 << 3 : 0);
	assert_int_equal(id->acl, 7);
	assert_int_equal(id->aerl, 7);
	assert_int_equal(id->lpa, 0x26);
	assert_int_equal(id->elpe, 15);
	assert_int_equal(le64_get(id->tnvmcap), is_operator ? 1ull << 40 : 0);
	assert_int_equal(le64_get(id->unvmcap), is_operator ? (1ull << 40) - (1 << 30) : 0);
	assert_int_equal(le16_get(page + 320), 10); /* KAS */
	assert_int_equal(page[512], 0x66);
	assert_int_equal(page[513], 0x44);
	assert_int_equal(le16_get(page + 514), 4096);		 /* MAXCMD */
	assert_int_equal(le32_get(page + 516), TGT_NS_MAX);	 /* NN */
	assert_int_equal(le16_get(page + 520), 1 << 4 | 1 << 2); /* ONCS, the fake set's too */
	assert_int_equal(page[525], 5); /* VWC: Flush, not for all namespaces */
	assert_int_equal(le32_get(page + 536), 1 | 1 << 16 | 1 << 18);		     /* SGLS */
	assert_true(le32_get(page + 540) > 0 && le32_get(page + 540) <= TGT_NS_MAX); /* MNAN */
	assert_string_equal((char *)page + 768, "nqn.2024-01.io.peal:test");
	assert_int_equal(le32_get(page + 1792), 0); /* IOCCSZ: not Fabrics */
}

static void test_ctrl(void **state)
{
	const struct fake_tr_opts plain = {.mdts = 5};
	struct fix *f = fix_create(2, NULL);

	check_ctrl(f, true, 0);
	fix_destroy(f);
	f = fix_create(1, &plain);
	check_ctrl(f, false, 5);
	fix_destroy(f);
}

static void test_ns(void **state)
{
	struct fix *f = fix_create(1, NULL);

	/* SPDK: NCAP 0 would be "inactive". */
	assert_int_equal(identify(f, 0x00, 1, 0, 0), 0);
	assert_int_not_equal(le64_get(page + 8), 0);
	assert_int_equal(identify(f, 0x00, 2, 0, 0), 0);
	is_zero_from(0);
	assert_int_equal(identify(f, 0x11, 1, 0, 0), 0);
	assert_int_not_equal(le64_get(page + 8), 0);
	assert_int_equal(identify(f, 0x05, 1, 1, 0), 0);
	assert_int_equal(le64_get(page), 1 << 30);
	assert_int_equal(identify(f, 0x1b, 1, 1, 0), 0);
	assert_int_equal(le64_get(page), 1 << 30);
	assert_int_equal(identify(f, 0x05, 2, 1, 0), 0);
	is_zero_from(0);
	/* Linux: NRDY, or it skips the namespace silently. */
	assert_int_equal(identify(f, 0x08, 1, 0, 0), 0);
	assert_int_equal(page[14], 1);
	assert_int_equal(identify(f, 0x08, 2, 0, 0), 0);
	is_zero_from(0);
	fix_destroy(f);
}

static void test_descriptors(void **state)
{
	struct fix *f = fix_create(1, NULL);
	static const uint8_t want[] = {2, 16, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,
				       0, 0,  0, 0, 7, 3, 16, 0, 0, 9, 0, 0, 0, 0, 0,
				       0, 0,  0, 0, 0, 0, 0,  0, 0, 0, 4, 1, 0, 0, 1};

	assert_int_equal(identify(f, 0x03, 1, 0, 0), 0);
	assert_memory_equal(page, want, sizeof(want));
	is_zero_from(sizeof(want));
	fix_destroy(f);
}

static void add_ns(struct fix *f, uint8_t csi, uint32_t nsid)
{
	assert_int_equal(tgt_subsys_ns_add(f->n->ss, &fake_ns_create(csi, 1 << 20)->ns, nsid), 0);
}

static void is_list(const uint32_t *want, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		assert_int_equal(le32_get(page + 4 * i), want[i]);
	is_zero_from(4 * nr);
}

static void test_lists(void **state)
{
	static const uint32_t all[] = {1, 2, 7, 1024}, kv[] = {1, 7, 1024}, nvm[] = {2};
	struct fix *f = fix_create(1, NULL);

	add_ns(f, 1, 1024);
	add_ns(f, 1, 7);
	add_ns(f, 0, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(identify(f, i ? 0x10 : 0x02, 0, 0, 0), 0);
		is_list(all, 4);
		assert_int_equal(identify(f, i ? 0x10 : 0x02, 2, 0, 0), 0);
		is_list(all + 2, 2);
		assert_int_equal(identify(f, i ? 0x10 : 0x02, 1024, 0, 0), 0);
		is_list(NULL, 0);
		assert_int_equal(identify(f, i ? 0x1a : 0x07, 0, 1, 0), 0);
		is_list(kv, 3);
		assert_int_equal(identify(f, i ? 0x1a : 0x07, 1, 1, 0), 0);
		is_list(kv + 1, 2);
		assert_int_equal(identify(f, i ? 0x1a : 0x07, 0, 0, 0), 0);
		is_list(nvm, 1);
	}
	fix_destroy(f);
}

static void test_full_list(void **state)
{
	struct fix *f = fix_create(1, NULL);

	for (uint32_t nsid = 2; nsid <= TGT_NS_MAX; nsid++)
		add_ns(f, 1, nsid);
	assert_int_equal(identify(f, 0x02, 0, 0, 0), 0);
	for (uint32_t i = 0; i < 1024; i++)
		assert_int_equal(le32_get(page + 4 * i), i + 1);
	fix_destroy(f);
}

static void test_sets(void **state)
{
	struct fix *f = fix_create(1, NULL);

	assert_int_equal(identify(f, 0x06, 0, 1, 0), 0);
	assert_int_equal(le32_get(page), 0x00010300);
	assert_int_equal(identify(f, 0x06, 0, 0, 0), 0);
	is_zero_from(0);
	assert_int_equal(identify(f, 0x1c, 0, 0, 0xffff), 0);
	assert_int_equal(le64_get(page), 3);
	is_zero_from(8);
	fix_destroy(f);
}

static void test_ctrl_lists(void **state)
{
	struct fix *f = fix_create(1, NULL);
	struct fake_tr *more[3];

	for (int i = 0; i < 3; i++)
		more[i] = fake_tr_create(f->n, NULL);
	for (uint8_t cns = 0x12; cns <= 0x13; cns++) {
		assert_int_equal(identify(f, cns, 1, 0, 0), 0);
		assert_int_equal(le16_get(page), 4);
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(le16_get(page + 2 + 2 * i), i + 1);
		assert_int_equal(identify(f, cns, 1, 0, 3), 0);
		assert_int_equal(le16_get(page), 2);
		assert_int_equal(le16_get(page + 2), 3);
	}
	for (int i = 0; i < 3; i++)
		fake_tr_destroy(more[i]);
	fix_destroy(f);
}

/* CC.CSS 0: KV namespaces don't exist for this host. */
static void test_nvm_only(void **state)
{
	struct fix *f = fix_create(1, NULL);
	struct nvme_sqe ping = {.opc = FAKE_PING, .nsid = 1};
	static const uint32_t nvm[] = {3};

	add_ns(f, 0, 3);
	assert_true(fake_tr_disable(f->t));
	f->t->css = 0;
	assert_true(fake_tr_enable(f->t));
	assert_true(fake_tr_queue_create(f->t, 1, 16));
	assert_int_equal(identify(f, 0x02, 0, 0, 0), 0);
	is_list(nvm, 1);
	assert_int_equal(identify(f, 0x00, 1, 0, 0), 0);
	is_zero_from(0);
	assert_int_equal(identify(f, 0x03, 1, 0, 0), NVME_ST_INVALID_NS);
	assert_int_equal(fake_tr_exec(f->t, 1, &ping, NULL), NVME_ST_INVALID_NS);
	ping.nsid = 3;
	assert_int_equal(fake_tr_exec(f->t, 1, &ping, NULL), NVME_ST_OK);
	fix_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ctrl),	    cmocka_unit_test(test_ns),
		cmocka_unit_test(test_descriptors), cmocka_unit_test(test_lists),
		cmocka_unit_test(test_full_list),   cmocka_unit_test(test_sets),
		cmocka_unit_test(test_ctrl_lists),  cmocka_unit_test(test_nvm_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
