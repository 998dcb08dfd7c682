/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blk_cmd.c: ranges at the edges, opcodes that aren't there, Flush and what a failed one means for
 * all that follows, what is counted.
 */
#include "unit.h"

#include <errno.h>
#include <unistd.h>

#include "blk_host.h"

#define DNR NVME_ST_DNR

static uint16_t at(struct blk_host *h, uint8_t opc, uint64_t slba, uint32_t nlb)
{
	struct nvme_sqe sqe = blk_host_sqe(opc, slba, nlb);

	blk_host_data(&sqe, BLK_HOST_DATA, (uint64_t)nlb * blk_host_lba(h));
	return blk_host_run(h, &sqe);
}

static void t_ranges(void **state)
{
	static const uint8_t opcs[] = {BLK_READ, BLK_WRITE, BLK_COMPARE, BLK_WRITE_ZEROES};
	struct blk_host h;

	for (unsigned round = 0; round < 2; round++) {
		uint64_t nr;

		blk_host_init(&h,
			      &(struct blk_host_opts){.lba_bytes = round ? 4096 : 512, .seed = 1});
		nr = h.bytes / blk_host_lba(&h);
		for (unsigned i = 0; i < sizeof(opcs); i++) {
			assert_int_equal(at(&h, opcs[i], nr - 1, 1), 0);
			assert_int_equal(at(&h, opcs[i], 0, 512), 0);
			assert_int_equal(at(&h, opcs[i], nr, 1), NVME_ST_LBA_RANGE | DNR);
			assert_int_equal(at(&h, opcs[i], nr - 1, 2), NVME_ST_LBA_RANGE | DNR);
			assert_int_equal(at(&h, opcs[i], UINT64_MAX, 1), NVME_ST_LBA_RANGE | DNR);
			assert_int_equal(at(&h, opcs[i], 1ull << 55, 65536),
					 NVME_ST_LBA_RANGE | DNR);
		}
		blk_host_fini(&h);
	}
}

static void t_opcodes(void **state)
{
	static const uint8_t known[] = {BLK_FLUSH,   BLK_READ,	       BLK_WRITE,
					BLK_COMPARE, BLK_WRITE_ZEROES, BLK_DSM};
	struct blk_host h;

	blk_host_init(&h, &(struct blk_host_opts){.seed = 1});
	for (unsigned opc = 0; opc < 256; opc++) {
		uint16_t st = at(&h, (uint8_t)opc, 0, 1);
		bool is_known = false;

		for (unsigned i = 0; i < sizeof(known); i++)
			is_known |= known[i] == opc;
		assert_int_equal(st, is_known ? NVME_ST_OK : NVME_ST_INVALID_OPCODE | DNR);
	}
	/* The SGL is shorter than the blocks. */
	struct nvme_sqe sqe = blk_host_sqe(BLK_READ, 0, 8);
	blk_host_data(&sqe, BLK_HOST_DATA, 4095);
	assert_int_equal(blk_host_run(&h, &sqe), NVME_ST_SGL_LEN | DNR);
	blk_host_fini(&h);
}

/* The kernel tells of a lost page once: from then on nothing is acknowledged as written. */
static void t_lost(void **state)
{
	struct blk_host h;

	blk_host_init(&h, &(struct blk_host_opts){.seed = 1});
	assert_int_equal(at(&h, BLK_FLUSH, 0, 1), 0);
	assert_int_equal(h.nr_io[IO_FSYNC], 1);
	h.fault = (struct blk_host_fault){.op = IO_FSYNC, .times = 1, .res = -EIO};
	assert_int_equal(at(&h, BLK_FLUSH, 0, 1), NVME_ST_WRITE_FAULT);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(at(&h, BLK_FLUSH, 0, 1), NVME_ST_WRITE_FAULT);
		assert_int_equal(at(&h, BLK_WRITE, 0, 1), NVME_ST_WRITE_FAULT);
		assert_int_equal(at(&h, BLK_WRITE_ZEROES, 0, 1), NVME_ST_WRITE_FAULT);
		assert_int_equal(at(&h, BLK_DSM, 0, 1), NVME_ST_WRITE_FAULT);
		assert_int_equal(at(&h, BLK_READ, 0, 1), 0);
	}
	assert_int_equal(h.nr_io[IO_FSYNC], 2);
	blk_host_fini(&h);
}

/* Two at once: one of them gets the news, both must fail. */
static void t_lost_together(void **state)
{
	for (uint64_t seed = 1; seed < 20; seed++) {
		struct blk_host h;
		struct nvme_sqe sqe = blk_host_sqe(BLK_FLUSH, 0, 1);
		struct blk_host_cmd a, b;
		bool was_first;

		blk_host_init(&h, &(struct blk_host_opts){.nr_workers = 2, .seed = seed});
		h.fault = (struct blk_host_fault){.op = IO_FSYNC, .times = 1, .res = -EIO};
		blk_host_start(&h, 0, &sqe, &a);
		blk_host_start(&h, 1, &sqe, &b);
		while (!a.is_over && !b.is_over)
			blk_host_turn(&h);
		was_first = a.is_over;
		blk_host_wait(&h, &a);
		blk_host_wait(&h, &b);
		assert_int_equal(was_first ? a.status : b.status, NVME_ST_WRITE_FAULT);
		assert_int_equal(was_first ? b.status : a.status, NVME_ST_WRITE_FAULT);
		blk_host_fini(&h);
	}
}

static void t_counts(void **state)
{
	struct blk_host h;
	struct tgt_ns_stat *st;

	blk_host_init(&h, &(struct blk_host_opts){.seed = 1});
	st = &h.ns->stat[0];
	at(&h, BLK_WRITE, 0, 8);
	at(&h, BLK_WRITE, 0, 8);
	at(&h, BLK_READ, 0, 4);
	at(&h, BLK_COMPARE, 0, 4);
	at(&h, BLK_FLUSH, 0, 1);
	at(&h, BLK_WRITE_ZEROES, 0, 8);
	at(&h, BLK_READ, UINT32_MAX, 1);
	assert_int_equal(counter_get(&st->writes), 2);
	assert_int_equal(counter_get(&st->write_bytes), 16 * 512);
	assert_int_equal(counter_get(&st->reads), 2);
	assert_int_equal(counter_get(&st->read_bytes), 8 * 512);
	assert_int_equal(counter_get(&st->inflight), 0);
	blk_host_fini(&h);
}

/*
 * Whatever a host writes: each command ends once, the file keeps its size, blocks that no good
 * write could have touched keep their bytes.
 */
static void t_random(void **state)
{
	static uint8_t keep[64 * 512], now[64 * 512];
	struct blk_host h;
	uint64_t nr;

	blk_host_init(&h, &(struct blk_host_opts){.nr_workers = 2, .seed = unit_seed(7)});
	nr = h.bytes / 512;
	rng_fill(&h.rng, keep, sizeof(keep));
	assert_int_equal(pwrite(h.fd, keep, sizeof(keep), (off_t)(h.bytes - sizeof(keep))),
			 sizeof(keep));
	h.hole = 8u << 20;
	h.hole_len = 12288;
	for (unsigned i = 0; i < 4000; i++) {
		static const uint8_t opcs[] = {0, 1, 2, 5, 8, 9};
		struct nvme_sqe sqe;

		rng_fill(&h.rng, &sqe, sizeof(sqe));
		sqe.nsid = 2;
		if (!rng_chance(&h.rng, 1, 50))
			sqe.opc = opcs[rng_below(&h.rng, sizeof(opcs))];
		sqe.flags &= rng_chance(&h.rng, 1, 8) ? 0xff : 0xc0;
		/* Often a range that is nearly right: before the last 64 blocks, or too long. */
		if (rng_chance(&h.rng, 3, 4)) {
			bool is_out = rng_chance(&h.rng, 1, 4);
			uint32_t nlb = 1 + (uint32_t)rng_below(&h.rng, 300);

			sqe.cdw10 = (uint32_t)(is_out ? nr - 10 + rng_below(&h.rng, 300)
						      : rng_below(&h.rng, nr - 64 - nlb));
			sqe.cdw11 = 0;
			sqe.cdw12 = (sqe.cdw12 & 0xffff0000) | (is_out ? nlb + 10 : nlb - 1);
		}
		if (rng_chance(&h.rng, 1, 2))
			blk_host_data(&sqe, rng_below(&h.rng, BLK_HOST_MEM_BYTES),
				      rng_below(&h.rng, 512 * 300));
		/* Ranges of a list in memory that is random may be anything: none that is good. */
		if (sqe.opc == BLK_DSM)
			sqe.cdw11 &= ~4u;
		blk_host_run(&h, &sqe);
	}
	assert_int_equal(lseek(h.fd, 0, SEEK_END), h.bytes);
	assert_int_equal(pread(h.fd, now, sizeof(now), (off_t)(h.bytes - sizeof(now))),
			 sizeof(now));
	assert_memory_equal(now, keep, sizeof(keep));
	blk_host_fini(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_ranges), cmocka_unit_test(t_opcodes),
		cmocka_unit_test(t_lost),   cmocka_unit_test(t_lost_together),
		cmocka_unit_test(t_counts), cmocka_unit_test(t_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
