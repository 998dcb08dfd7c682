/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blk_rw.c: random reads, writes and compares of any length against a model in memory; short reads
 * and writes of the file; faults of the file and of the host's memory, after which what lay beside
 * is as it was; more commands than buffers; FUA.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "blk_host.h"

#define LBA 512u
#define DNR NVME_ST_DNR

static void t_model(void **state)
{
	struct blk_host h;
	uint64_t seed = unit_seed(1);
	static uint8_t model[4 << 20];

	for (unsigned round = 0; round < 2; round++) {
		uint32_t lba = round ? 4096 : 512, max = (512u << 10) / lba, nr;

		blk_host_init(&h, &(struct blk_host_opts){
					  .nr_workers = 2, .lba_bytes = lba, .seed = seed});
		memset(model, 0, sizeof(model));
		nr = (uint32_t)(h.bytes / lba);
		for (unsigned i = 0; i < 200; i++) {
			uint32_t nlb = 1 + (uint32_t)rng_below(&h.rng, max);
			uint32_t slba = (uint32_t)rng_below(&h.rng, nr - nlb + 1);
			size_t len = (size_t)nlb * lba;
			uint8_t *want = model + (size_t)slba * lba;

			if (rng_chance(&h.rng, 1, 2)) {
				rng_fill(&h.rng, h.mem + BLK_HOST_DATA, len);
				assert_int_equal(blk_host_write(&h, slba, nlb), 0);
				memcpy(want, h.mem + BLK_HOST_DATA, len);
			}
			memset(h.mem + BLK_HOST_DATA, 0xee, len + 1);
			assert_int_equal(blk_host_read(&h, slba, nlb), 0);
			assert_memory_equal(h.mem + BLK_HOST_DATA, want, len);
			assert_int_equal(h.mem[BLK_HOST_DATA + len], 0xee);
		}
		assert_int_equal(pread(h.fd, h.mem, h.bytes, 0), h.bytes);
		assert_memory_equal(h.mem, model, h.bytes);
		blk_host_fini(&h);
	}
}

static void t_short(void **state)
{
	struct blk_host h;
	static uint8_t want[100 * LBA];

	blk_host_init(&h, &(struct blk_host_opts){.seed = 1});
	rng_fill(&h.rng, want, sizeof(want));
	memcpy(h.mem + BLK_HOST_DATA, want, sizeof(want));
	h.fault = (struct blk_host_fault){.op = IO_WRITE, .times = 20, .short_bytes = 777};
	assert_int_equal(blk_host_write(&h, 7, 100), 0);
	assert_int_equal(h.fault.times, 0);
	h.fault = (struct blk_host_fault){.op = IO_READ, .times = 20, .short_bytes = 1};
	memset(h.mem + BLK_HOST_DATA, 0, sizeof(want));
	assert_int_equal(blk_host_read(&h, 7, 100), 0);
	assert_int_equal(h.fault.times, 0);
	assert_memory_equal(h.mem + BLK_HOST_DATA, want, sizeof(want));
	blk_host_fini(&h);
}

static void t_file_faults(void **state)
{
	static const struct {
		enum io_op op;
		int res;
		uint16_t status;
	} faults[] = {
		{IO_READ, -EIO, NVME_ST_READ_ERROR},
		{IO_READ, 0, NVME_ST_READ_ERROR}, /* the file has shrunk: never zeros */
		{IO_READ, -EAGAIN, NVME_ST_INTERRUPTED},
		{IO_WRITE, -EIO, NVME_ST_WRITE_FAULT},
		{IO_WRITE, 0, NVME_ST_WRITE_FAULT},
		{IO_WRITE, -ENOSPC, NVME_ST_CAPACITY_EXCEEDED},
		{IO_WRITE, -EDQUOT, NVME_ST_CAPACITY_EXCEEDED},
		{IO_WRITE, -EINTR, NVME_ST_INTERRUPTED},
	};
	struct blk_host h;

	blk_host_init(&h, &(struct blk_host_opts){.seed = 1});
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		for (unsigned after = 0; after < 3; after++) {
			h.fault = (struct blk_host_fault){.op = faults[i].op,
							  .after = after,
							  .times = 1,
							  .res = faults[i].res};
			if (faults[i].op == IO_READ)
				assert_int_equal(blk_host_read(&h, 0, 384), faults[i].status);
			else
				assert_int_equal(blk_host_write(&h, 0, 384), faults[i].status);
			assert_int_equal(h.fault.times, 0);
			/* It is as good as new. */
			assert_int_equal(blk_host_write(&h, 0, 384), 0);
			assert_int_equal(blk_host_read(&h, 0, 384), 0);
		}
	}
	blk_host_fini(&h);
}

static void t_truncated(void **state)
{
	struct blk_host h;

	blk_host_init(&h, &(struct blk_host_opts){.seed = 1});
	assert_int_equal(ftruncate(h.fd, 100 * LBA), 0);
	assert_int_equal(blk_host_read(&h, 0, 100), 0);
	assert_int_equal(blk_host_read(&h, 50, 100), NVME_ST_READ_ERROR);
	/* A write behind the end would make zeros of what is gone. */
	assert_int_equal(blk_host_write(&h, 1000, 1), NVME_ST_WRITE_FAULT);
	assert_int_equal(blk_host_read(&h, 100, 1), NVME_ST_READ_ERROR);
	assert_int_equal(blk_host_write(&h, 0, 1), NVME_ST_WRITE_FAULT);
	assert_int_equal(blk_host_read(&h, 0, 100), 0);
	blk_host_fini(&h);
}

static void t_host_faults(void **state)
{
	struct blk_host h;
	static uint8_t was[384 * LBA];

	blk_host_init(&h, &(struct blk_host_opts){.seed = 1});
	rng_fill(&h.rng, h.mem + BLK_HOST_DATA, sizeof(was));
	assert_int_equal(blk_host_write(&h, 0, 384), 0);
	memcpy(was, h.mem + BLK_HOST_DATA, sizeof(was));
	h.hole = BLK_HOST_DATA + 70000;
	h.hole_len = 4096;
	assert_int_equal(blk_host_read(&h, 0, 384), NVME_ST_DATA_TRANSFER);
	memset(h.mem + BLK_HOST_DATA, 0, sizeof(was));
	assert_int_equal(blk_host_write(&h, 0, 384), NVME_ST_DATA_TRANSFER);
	h.hole = BLK_HOST_MEM_BYTES;
	assert_int_equal(blk_host_read(&h, 0, 384), 0);
	/* The first piece may have been written; of the piece that failed, nothing. */
	assert_memory_equal(h.mem + BLK_HOST_DATA + BLK_PIECE_BYTES, was + BLK_PIECE_BYTES,
			    sizeof(was) - BLK_PIECE_BYTES);
	blk_host_fini(&h);
}

static void t_compare(void **state)
{
	struct blk_host h;
	struct nvme_sqe sqe = blk_host_sqe(BLK_COMPARE, 3, 300);

	blk_host_init(&h, &(struct blk_host_opts){.seed = 1});
	rng_fill(&h.rng, h.mem + BLK_HOST_DATA, 300 * LBA);
	assert_int_equal(blk_host_write(&h, 3, 300), 0);
	blk_host_data(&sqe, BLK_HOST_DATA, 300 * LBA);
	assert_int_equal(blk_host_run(&h, &sqe), 0);
	for (unsigned i = 0; i < 20; i++) {
		uint8_t *p = h.mem + BLK_HOST_DATA + rng_below(&h.rng, 300 * LBA);

		*p ^= 1;
		assert_int_equal(blk_host_run(&h, &sqe), NVME_ST_COMPARE_FAILURE);
		*p ^= 1;
	}
	h.fault = (struct blk_host_fault){.op = IO_READ, .after = 2, .times = 1, .res = -EIO};
	assert_int_equal(blk_host_run(&h, &sqe), NVME_ST_READ_ERROR);
	h.hole = BLK_HOST_DATA + 299 * LBA;
	h.hole_len = 1;
	assert_int_equal(blk_host_run(&h, &sqe), NVME_ST_DATA_TRANSFER);
	blk_host_fini(&h);
}

/* All wait for their turn, and each gets its own bytes. */
static void t_many(void **state)
{
	struct blk_host h;
	struct blk_host_cmd cmd[BLK_HOST_REQS];
	struct blk_bufs *b;

	blk_host_init(&h, &(struct blk_host_opts){.seed = unit_seed(3)});
	b = container_of(h.ns, struct blk_ns, ns)->bufs[0];
	rng_fill(&h.rng, h.mem, BLK_HOST_REQS * 8 * LBA);
	for (unsigned dir = 0; dir < 2; dir++) {
		for (unsigned i = 0; i < BLK_HOST_REQS; i++) {
			struct nvme_sqe sqe = blk_host_sqe(dir ? BLK_READ : BLK_WRITE, i * 8, 8);

			blk_host_data(&sqe, (dir ? BLK_HOST_DATA : 0) + i * 8 * LBA, 8 * LBA);
			/* Some of the waiting ones fail as soon as they are served. */
			if (dir && i % 8 == 7)
				sqe.sgl.addr = BLK_HOST_MEM_BYTES;
			blk_host_start(&h, 0, &sqe, &cmd[i]);
		}
		assert_int_equal(b->nr_free, 0);
		for (unsigned i = 0; i < BLK_HOST_REQS; i++) {
			blk_host_wait(&h, &cmd[i]);
			assert_int_equal(cmd[i].status,
					 dir && i % 8 == 7 ? NVME_ST_DATA_TRANSFER : 0);
			if (dir && i % 8 != 7)
				assert_memory_equal(h.mem + BLK_HOST_DATA + i * 8 * LBA,
						    h.mem + i * 8 * LBA, 8 * LBA);
		}
		assert_int_equal(b->nr_free, BLK_BUFS);
	}
	assert_true(counter_get(&b->nr_waited) > 0);
	blk_host_fini(&h);
}

static void t_fua(void **state)
{
	struct blk_host h;
	struct nvme_sqe sqe = blk_host_sqe(BLK_WRITE, 0, 8);

	blk_host_init(&h, &(struct blk_host_opts){.seed = 1});
	blk_host_data(&sqe, BLK_HOST_DATA, 8 * LBA);
	assert_int_equal(blk_host_run(&h, &sqe), 0);
	assert_int_equal(h.nr_io[IO_FSYNC], 0);
	sqe.cdw12 |= 1u << 30;
	assert_int_equal(blk_host_run(&h, &sqe), 0);
	assert_int_equal(h.nr_io[IO_FSYNC], 1);
	sqe.opc = BLK_READ;
	assert_int_equal(blk_host_run(&h, &sqe), 0);
	assert_int_equal(h.nr_io[IO_FSYNC], 2);
	h.fault = (struct blk_host_fault){.op = IO_FSYNC, .times = 1, .res = -EIO};
	sqe.opc = BLK_WRITE;
	assert_int_equal(blk_host_run(&h, &sqe), NVME_ST_WRITE_FAULT);
	blk_host_fini(&h);
}

static void t_abort(void **state)
{
	struct blk_host h;
	struct blk_host_cmd cmd;

	blk_host_init(&h, &(struct blk_host_opts){.seed = 1});
	for (unsigned dir = 0; dir < 2; dir++) {
		struct nvme_sqe sqe = blk_host_sqe(dir ? BLK_READ : BLK_WRITE, 0, 1024);

		sqe.cid = 77;
		blk_host_data(&sqe, BLK_HOST_DATA, 1024 * LBA);
		blk_host_start(&h, 0, &sqe, &cmd);
		assert_true(tgt_sq_abort(&h.sq[0], 77));
		blk_host_wait(&h, &cmd);
		assert_int_equal(cmd.status, NVME_ST_ABORTED);
	}
	blk_host_fini(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_model),	 cmocka_unit_test(t_short),
		cmocka_unit_test(t_file_faults), cmocka_unit_test(t_truncated),
		cmocka_unit_test(t_host_faults), cmocka_unit_test(t_compare),
		cmocka_unit_test(t_many),	 cmocka_unit_test(t_fua),
		cmocka_unit_test(t_abort),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
