/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blk_ns.c: a namespace that is deleted with commands in it; blocks of sizes that aren't; a text
 * that is no image.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "blk_host.h"

static void gone(void *arg, uint16_t st)
{
	assert_int_equal(st, NVME_ST_OK);
	*(bool *)arg = true;
}

static void t_refused(void **state)
{
	char why[BLK_WHY_BYTES] = "";
	struct blk_ns_opts o = {.path = "rbd:pool", .lba_bytes = 520, .why = why};
	struct tgt_ns *ns = NULL;
	struct blk_host h;

	blk_host_init(&h, &(struct blk_host_opts){.seed = 1});
	assert_int_equal(blk_ns_create(h.ss, &o, &ns), -EINVAL);
	o.lba_bytes = 4096;
	o.size_bytes = 4096 * 5 + 512;
	assert_int_equal(blk_ns_create(h.ss, &o, &ns), -EINVAL);
	assert_string_equal(why, "");
	o.size_bytes = 0;
	assert_true(blk_ns_create(h.ss, &o, &ns) < 0);
	assert_string_not_equal(why, "");
	assert_null(ns);
	blk_host_fini(&h);
}

static void t_delete_busy(void **state)
{
	struct blk_host h;
	struct blk_host_cmd cmd[40];
	bool is_gone = false;

	blk_host_init(&h, &(struct blk_host_opts){.nr_workers = 2, .seed = unit_seed(1)});
	for (unsigned i = 0; i < 40; i++) {
		struct nvme_sqe sqe = blk_host_sqe(i % 2 ? BLK_READ : BLK_WRITE, i * 128, 128);

		blk_host_data(&sqe, BLK_HOST_DATA + i * 65536, 65536);
		blk_host_start(&h, i % 2, &sqe, &cmd[i]);
	}
	tgt_subsys_ns_del(h.ss, 2, gone, &is_gone);
	while (!is_gone)
		blk_host_turn(&h);
	for (unsigned i = 0; i < 40; i++) {
		assert_true(cmd[i].is_over);
		assert_int_equal(cmd[i].status, 0);
	}
	blk_host_fini(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_refused),
		cmocka_unit_test(t_delete_busy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
