/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blk_trim.c: zeroes by the file system, as holes, and written where it can do neither; Dataset
 * Management against a model; lists of ranges that are wrong change nothing.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/le.h"
#include "blk_host.h"

#define LBA 512u
#define AREA 2048u /* blocks */
#define DNR NVME_ST_DNR

static uint8_t model[AREA * LBA];

static void start(struct blk_host *h)
{
	blk_host_init(h, &(struct blk_host_opts){.seed = 1});
	rng_fill(&h->rng, h->mem + BLK_HOST_DATA, sizeof(model));
	memcpy(model, h->mem + BLK_HOST_DATA, sizeof(model));
	assert_int_equal(blk_host_write(h, 0, AREA), 0);
}

static void check(struct blk_host *h)
{
	assert_int_equal(pread(h->fd, h->mem + BLK_HOST_DATA, sizeof(model), 0), sizeof(model));
	assert_memory_equal(h->mem + BLK_HOST_DATA, model, sizeof(model));
}

static void t_zeroes(void **state)
{
	struct blk_host h;

	/* As the file system has it, then one that can't. */
	for (unsigned round = 0; round < 2; round++) {
		start(&h);
		if (round)
			h.fault = (struct blk_host_fault){
				.op = IO_FALLOCATE, .times = 99, .res = -EOPNOTSUPP};
		for (unsigned i = 0; i < 20; i++) {
			uint32_t slba = (uint32_t)rng_below(&h.rng, AREA);
			uint32_t nlb = 1 + (uint32_t)rng_below(&h.rng, AREA - slba);
			struct nvme_sqe sqe;

			nlb = nlb > 300 ? 300 : nlb;
			sqe = blk_host_sqe(BLK_WRITE_ZEROES, slba, nlb);
			sqe.cdw12 |= i % 2 ? 1u << 25 : 0;
			sqe.cdw12 |= i % 4 == 3 ? 1u << 30 : 0;
			assert_int_equal(blk_host_run(&h, &sqe), 0);
			memset(model + slba * LBA, 0, nlb * LBA);
			check(&h);
		}
		assert_int_equal(h.nr_io[IO_FSYNC], 5);
		blk_host_fini(&h);
	}
}

static void t_zeroes_fail(void **state)
{
	struct blk_host h;
	struct nvme_sqe sqe = blk_host_sqe(BLK_WRITE_ZEROES, 0, 512);

	start(&h);
	h.fault = (struct blk_host_fault){.op = IO_FALLOCATE, .times = 1, .res = -EIO};
	assert_int_equal(blk_host_run(&h, &sqe), NVME_ST_WRITE_FAULT);
	h.fault = (struct blk_host_fault){.op = IO_FALLOCATE, .times = 1, .res = -ENOSPC};
	assert_int_equal(blk_host_run(&h, &sqe), NVME_ST_CAPACITY_EXCEEDED);
	check(&h);
	blk_host_fini(&h);
}

static void put_range(struct blk_host *h, unsigned i, uint64_t slba, uint32_t nlb)
{
	uint8_t *r = h->mem + BLK_HOST_DATA + 16 * i;

	le32_put(r, (uint32_t)rng_u64(&h->rng)); /* context attributes: hints */
	le32_put(r + 4, nlb);
	le64_put(r + 8, slba);
}

static struct nvme_sqe dsm(unsigned nr, uint32_t attr)
{
	struct nvme_sqe sqe = {.opc = BLK_DSM, .nsid = 2, .cdw10 = nr - 1, .cdw11 = attr};

	blk_host_data(&sqe, BLK_HOST_DATA, nr * 16);
	return sqe;
}

static void t_dsm(void **state)
{
	struct blk_host h;
	struct nvme_sqe sqe;

	start(&h);
	for (unsigned nr = 1; nr <= 256; nr = nr * 3 + 1) {
		for (unsigned i = 0; i < nr; i++) {
			uint32_t slba = (uint32_t)rng_below(&h.rng, AREA);
			uint32_t nlb = (uint32_t)rng_below(&h.rng, AREA - slba < 9 ? 1 : 9);

			put_range(&h, i, slba, nlb);
			memset(model + slba * LBA, 0, nlb * LBA);
		}
		sqe = dsm(nr, 4);
		assert_int_equal(blk_host_run(&h, &sqe), 0);
		check(&h);
	}
	blk_host_fini(&h);
}

static void t_dsm_refused(void **state)
{
	struct blk_host h;
	struct nvme_sqe sqe;

	start(&h);
	/* The last range is wrong: none is touched. */
	put_range(&h, 0, 0, 8);
	put_range(&h, 1, 8192 - 4, 5);
	sqe = dsm(2, 4);
	assert_int_equal(blk_host_run(&h, &sqe), NVME_ST_LBA_RANGE | DNR);
	check(&h);
	put_range(&h, 0, 0, 8);
	put_range(&h, 1, UINT64_MAX, UINT32_MAX);
	assert_int_equal(blk_host_run(&h, &sqe), NVME_ST_LBA_RANGE | DNR);
	check(&h);
	/* Hints alone do nothing. */
	put_range(&h, 0, 0, 8);
	sqe = dsm(1, 3);
	assert_int_equal(blk_host_run(&h, &sqe), 0);
	check(&h);
	/* No list. */
	put_range(&h, 0, 0, 8);
	sqe = dsm(1, 4);
	sqe.sgl.addr = BLK_HOST_MEM_BYTES;
	assert_int_equal(blk_host_run(&h, &sqe), NVME_ST_DATA_TRANSFER | DNR);
	/* A file system without holes: allowed to do nothing. One that fails: said. */
	put_range(&h, 0, 0, 8);
	sqe = dsm(1, 4);
	h.fault = (struct blk_host_fault){.op = IO_FALLOCATE, .times = 1, .res = -EOPNOTSUPP};
	assert_int_equal(blk_host_run(&h, &sqe), 0);
	h.fault = (struct blk_host_fault){.op = IO_FALLOCATE, .times = 1, .res = -EIO};
	put_range(&h, 0, 0, 8);
	assert_int_equal(blk_host_run(&h, &sqe), NVME_ST_WRITE_FAULT);
	check(&h);
	blk_host_fini(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_zeroes),
		cmocka_unit_test(t_zeroes_fail),
		cmocka_unit_test(t_dsm),
		cmocka_unit_test(t_dsm_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
