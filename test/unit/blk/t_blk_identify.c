/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blk_identify.c and blk_csi.c: what a host reads of sizes, formats, promises; log 05h.
 */
#include "unit.h"

#include <nvme/types.h>
#include <string.h>

#include "base/le.h"
#include "blk_host.h"

static void check_ns(uint32_t lba)
{
	struct blk_host h;
	struct nvme_id_ns id;
	uint64_t capacity = 1, used = 1;

	blk_host_init(&h, &(struct blk_host_opts){.lba_bytes = lba, .seed = 1});
	memset(&id, 0, sizeof(id));
	assert_int_equal(h.ns->ops->identify(h.ns, 0x00, &id), NVME_ST_OK);
	assert_int_equal(le64toh(id.nsze), h.bytes / lba);
	assert_int_equal(id.ncap, id.nsze);
	assert_int_equal(id.nuse, id.nsze);
	assert_int_equal(id.nlbaf, 0);
	assert_int_equal(id.flbas, 0);
	assert_int_equal(1u << id.lbaf[0].ds, lba);
	assert_int_equal(le16toh(id.lbaf[0].ms), 0);
	assert_int_equal(id.dlfeat, 9);
	assert_int_equal(id.nmic, 1);
	assert_int_equal((le16toh(id.npwg) + 1u) * lba, 4096);
	assert_int_equal(le64_get(id.nvmcap), h.bytes);
	assert_memory_equal(id.nguid, h.ns->nguid, 16);
	h.ns->ops->sizes(h.ns, &capacity, &used);
	assert_int_equal(capacity | used, 0); /* not the node's memory */
	blk_host_fini(&h);
}

static void t_ns(void **state)
{
	check_ns(512);
	check_ns(4096);
}

static void t_others(void **state)
{
	struct blk_host h;
	uint8_t buf[4096] = {0}, none[4096] = {0};

	blk_host_init(&h, &(struct blk_host_opts){.seed = 1});
	assert_int_equal(h.ns->ops->identify(h.ns, 0x05, buf), NVME_ST_OK);
	assert_int_equal(h.ns->ops->identify(h.ns, 0x06, buf), NVME_ST_OK);
	assert_memory_equal(buf, none, 4096);
	assert_int_equal(h.ns->ops->identify(h.ns, 0x08, buf), NVME_ST_OK);
	assert_int_equal(buf[14], 1);
	assert_int_equal(h.ns->ops->identify(h.ns, 0x42, buf), NVME_ST_INVALID_FIELD);
	blk_host_fini(&h);
}

static void t_csi(void **state)
{
	uint32_t iocs[256] = {0};
	unsigned nr = 0;

	blk_csi()->effects(iocs);
	for (unsigned i = 0; i < 256; i++)
		nr += iocs[i] != 0;
	assert_int_equal(nr, 6);
	assert_int_equal(iocs[BLK_READ], 1);
	assert_int_equal(iocs[BLK_WRITE], 3);
	assert_int_equal(blk_csi()->oncs, 1 | 1 << 2 | 1 << 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_ns),
		cmocka_unit_test(t_others),
		cmocka_unit_test(t_csi),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
