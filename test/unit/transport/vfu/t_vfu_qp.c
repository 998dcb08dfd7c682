/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hot path end to end, in one thread: SQEs from a client's memory, CQEs back.
 */
#include "rig.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "base/rng.h"
#include "transport/vfu/vfu_int.h"

/* One command after the other, far enough that all rings wrap several times. */
static void test_one_by_one(void **state)
{
	struct rig r = {0};
	struct peer p;

	rig_init(&r, 1, NULL);
	peer_open(&r, &p, PEER_STOCK);
	peer_enable(&p);
	assert_int_equal(peer_queue(&p, 1, 7), 0);
	for (uint32_t i = 0; i < 50; i++) {
		struct nvme_sqe sqe = peer_read_sqe((uint16_t)i, RIG_DATA, 4096, i);
		struct nvme_cqe cqe;

		peer_submit(&p, 1, &sqe);
		peer_ring(&p, 1);
		cqe = peer_wait(&p, 1);
		assert_int_equal(cqe.status >> 1, NVME_ST_OK);
		assert_int_equal(cqe.cid, i);
		assert_int_equal(cqe.dw0, 4096);
		assert_int_equal(cqe.sq_head, (i + 1) % 7);
		peer_check_data(&p, RIG_DATA, 4096, i);
	}
	peer_close(&p);
	rig_fini(&r);
}

/*
 * Random waves on several queues and workers, random sizes, both directions; every byte is
 * checked.
 */
static void test_waves(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct rng rng;

	rng_init(&rng, unit_seed(1));
	rig_init(&r, 3, NULL);
	peer_open(&r, &p, PEER_PEAL);
	assert_int_equal(p.stride, 64);
	peer_enable(&p);
	for (uint16_t qid = 1; qid <= 5; qid++)
		assert_int_equal(peer_queue(&p, qid, (uint32_t)(2 + rng_below(&rng, 380))), 0);
	for (int round = 0; round < 100; round++) {
		uint32_t nr[6] = {0}, left = 0;

		for (uint16_t qid = 1; qid <= 5; qid++) {
			nr[qid] = (uint32_t)rng_below(&rng, p.q[qid].size);
			for (uint32_t i = 0; i < nr[qid]; i++) {
				struct nvme_sqe sqe = {.opc = RIG_NOP,
						       .nsid = 1,
						       .cid = (uint16_t)i,
						       .cdw12 = i * 7};

				peer_submit(&p, qid, &sqe);
			}
			peer_ring(&p, qid);
			left += nr[qid];
		}
		for (int turn = 0; left; turn++) {
			assert_true(turn < RIG_TURNS);
			rig_step(&r);
			for (uint16_t qid = 1; qid <= 5; qid++) {
				struct nvme_cqe cqe;

				while (peer_reap(&p, qid, &cqe)) {
					assert_int_equal(cqe.dw0, cqe.cid * 7);
					assert_true(cqe.cid < nr[qid]);
					left--;
				}
			}
		}
	}
	peer_close(&p);
	rig_fini(&r);
}

/*
 * A client that doesn't take its completions: no more than the CQ holds are fetched, the rest goes
 * on when it does; nothing is overwritten.
 */
static void test_reservation(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct nvme_cqe cqe;
	struct nvme_sqe cq = {
		.opc = 5, .cdw10 = 3u << 16 | 1, .cdw11 = 1, .prp1 = RIG_IOVA + 0xe000};
	struct nvme_sqe sq = {.opc = 1, .cdw10 = 63u << 16 | 1, .cdw11 = 1u << 16 | 1};

	rig_init(&r, 1, NULL);
	peer_open(&r, &p, PEER_STOCK);
	peer_enable(&p);
	assert_int_equal(peer_queue(&p, 1, 64), 0); /* sets the layout */
	assert_int_equal(peer_queue_del(&p, 1), 0);
	memset(p.mem + 0x8000, 0, 0x8000);
	p.q[1] = (struct peer_queue){
		.qid = 1, .size = 64, .phase = 1, .sq_at = 0x8000, .cq_at = 0xe000};
	sq.prp1 = RIG_IOVA + 0x8000;
	assert_int_equal(peer_admin(&p, &cq, NULL), 0); /* 4 slots: 3 entries */
	assert_int_equal(peer_admin(&p, &sq, NULL), 0);
	for (uint32_t i = 0; i < 60; i++) {
		struct nvme_sqe sqe = {.opc = RIG_NOP, .nsid = 1, .cdw12 = i};

		peer_submit(&p, 1, &sqe);
	}
	p.q[1].size = 4; /* of the CQ from here */
	atomic_store(peer_bell(&p, 1, false), 60);
	rig_steps(&r, 100);
	for (uint32_t i = 0; i < 60; i++) {
		const struct nvme_cqe *ring = (const void *)(p.mem + 0xe000);
		unsigned nr = 0;

		for (unsigned n = 0; n < 4; n++)
			nr += ring[n].status == 0 && ring[n].cid == 0 && ring[n].sq_id == 0;
		assert_true(i > 3 || nr >= 1); /* one slot stays empty */
		cqe = peer_wait(&p, 1);
		assert_int_equal(cqe.dw0, i);
	}
	peer_close(&p);
	rig_fini(&r);
}

/* Invalid doorbells: one event each, nothing fetched, valid ones still work. */
static void test_bad_doorbells(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct nvme_sqe aer = {.opc = 0x0c, .cid = 900},
			sqe = {.opc = RIG_NOP, .nsid = 1, .cdw12 = 5};
	struct nvme_cqe cqe;
	int nr_events = 0;

	rig_init(&r, 2, NULL);
	peer_open(&r, &p, PEER_STOCK);
	peer_enable(&p);
	assert_int_equal(peer_queue(&p, 1, 16), 0);
	assert_int_equal(peer_queue(&p, 2, 16), 0);
	for (int i = 0; i < 4; i++) {
		peer_submit(&p, 0, &aer);
		peer_ring(&p, 0);
	}
	const uint32_t bad[] = {16, 17, 0xffff, UINT32_MAX};

	for (int i = 0; i < 4; i++) {
		atomic_store(peer_bell(&p, 1, false), bad[i]);
		rig_steps(&r, 20);
		assert_false(peer_reap(&p, 1, &cqe));
	}
	peer_submit(&p, 1, &sqe);
	peer_ring(&p, 1);
	assert_int_equal(peer_wait(&p, 1).dw0, 5);
	/* a CQ head beyond what was posted counts as not moved: 15 more fit, then no more */
	for (uint32_t i = 0; i < 40; i++) {
		atomic_store(peer_bell(&p, 2, true), i % 2 ? 9 : 77);
		peer_submit(&p, 2, &sqe);
		peer_ring(&p, 2);
		rig_steps(&r, 10);
	}
	while (peer_reap(&p, 0, &cqe)) {
		assert_int_equal(cqe.cid, 900);
		/* error status, invalid doorbell value, error log */
		assert_int_equal(cqe.dw0, 1u << 16 | 1u << 8 | 0);
		nr_events++;
	}
	assert_true(nr_events >= 1);
	peer_close(&p);
	rig_fini(&r);
}

/*
 * Firmware unmaps and maps all memory under live queues: they stand still and go on, nothing is
 * lost.
 */
static void test_memory_moves(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct nvme_sqe sqe = peer_read_sqe(1, RIG_DATA, 4096, 1);
	struct nvme_cqe cqe;
	const uint64_t rest = RIG_MEM_BYTES - 0x9000;

	rig_init(&r, 3, NULL);
	peer_open(&r, &p, PEER_STOCK);
	peer_enable(&p);
	assert_int_equal(peer_queue(&p, 1, 16), 0);
	assert_int_equal(peer_queue(&p, 2, 16), 0);
	for (uint16_t i = 0; i < 12; i++) {
		uint16_t qid = 1 + i % 2;

		sqe.cid = i;
		sqe.cdw12 = i;
		assert_int_equal(peer_unmap(&p, RIG_IOVA, RIG_MEM_BYTES), 0);
		peer_submit(&p, qid, &sqe);
		peer_ring(&p, qid);
		rig_steps(&r, 20);
		assert_false(peer_reap(&p, qid, &cqe));
		assert_int_equal(peer_reg(&p, 0x1c, 4) & 3, 1); /* RDY, no CFS */
		/* in two pieces this time, the one with the data first */
		assert_int_equal(peer_map(&p, p.mem_fd, 0x9000, RIG_IOVA + 0x9000, rest), 0);
		assert_int_equal(peer_map(&p, p.mem_fd, 0, RIG_IOVA, 0x9000), 0);
		cqe = peer_wait(&p, qid);
		assert_int_equal(cqe.cid, i);
		assert_int_equal(cqe.status >> 1, 0);
		peer_check_data(&p, RIG_DATA, 4096, i);
		assert_int_equal(peer_unmap(&p, RIG_IOVA, 0x9000), 0);
		assert_int_equal(peer_unmap(&p, RIG_IOVA + 0x9000, rest), 0);
		assert_int_equal(peer_map(&p, p.mem_fd, 0, RIG_IOVA, RIG_MEM_BYTES), 0);
	}
	peer_close(&p);
	rig_fini(&r);
}

/*
 * A completion queue whose ring isn't mapped: nobody looks at it until the map changes, then it
 * goes on; one that is deleted meanwhile is gone.
 */
static void test_ring_unmapped(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct nvme_sqe cq = {.opc = 5, .cdw10 = 15u << 16 | 1, .cdw11 = 1, .prp1 = 0x10000};
	struct nvme_sqe sq = {
		.opc = 1, .cdw10 = 15u << 16 | 1, .cdw11 = 1u << 16 | 1, .prp1 = RIG_IOVA + 0x8000};
	struct nvme_sqe nop = {.opc = RIG_NOP, .nsid = 1};
	const struct vfu_worker *w;
	const struct vfu_dev *d;

	rig_init(&r, 1, NULL);
	w = &container_of(r.tr, struct vfu, tr)->workers[0];
	peer_open(&r, &p, PEER_STOCK);
	d = list_first_entry(&w->vfu->devs, struct vfu_dev, node);
	peer_enable(&p);
	assert_int_equal(peer_map(&p, p.mem_fd, 0xe000, 0x10000, 4096), 0);
	assert_int_equal(peer_admin(&p, &cq, NULL), 0);
	assert_int_equal(peer_admin(&p, &sq, NULL), 0);
	p.q[1] = (struct peer_queue){
		.qid = 1, .size = 16, .phase = 1, .sq_at = 0x8000, .cq_at = 0xe000};
	for (int i = 0; i < 40; i++) {
		assert_int_equal(peer_unmap(&p, 0x10000, 4096), 0);
		for (nop.cid = 0; nop.cid < 5; nop.cid++)
			peer_submit(&p, 1, &nop);
		peer_ring(&p, 1);
		rig_until(&r, d->sq[1]->head == p.q[1].sq_tail);
		rig_step(&r);
		assert_true(list_is_empty(&w->dirty));
		assert_int_equal(peal_ring_used(d->cq[1]->tail, d->cq[1]->staged, 16), 5);
		if (i == 39)
			break;
		assert_int_equal(peer_map(&p, p.mem_fd, 0xe000, 0x10000, 4096), 0);
		for (uint16_t cid = 0; cid < 5; cid++)
			assert_int_equal(peer_wait(&p, 1).cid, cid);
	}
	assert_int_equal(peer_queue_del(&p, 1), 0);
	assert_int_equal(peer_map(&p, p.mem_fd, 0xe000, 0x10000, 4096), 0);
	assert_true(list_is_empty(&w->dirty));
	peer_close(&p);
	rig_fini(&r);
}

/*
 * The ring's file is cut: that controller fails (CFS), its neighbour works; a reset brings it
 * back.
 */
static void test_ring_vanishes(void **state)
{
	struct rig r = {0};
	struct peer p, other;
	struct nvme_sqe sqe = {.opc = RIG_NOP, .nsid = 1, .cdw12 = 3};

	rig_init(&r, 2, NULL);
	for (int what = 0; what < 2; what++) {
		int fd = memfd_create("rings", MFD_CLOEXEC);
		struct nvme_sqe cq = {.opc = 5, .cdw10 = 15u << 16 | 1, .cdw11 = 1};
		struct nvme_sqe sq = {.opc = 1, .cdw10 = 15u << 16 | 1, .cdw11 = 1u << 16 | 1};

		peer_open(&r, &other, PEER_STOCK);
		peer_enable(&other);
		assert_int_equal(peer_queue(&other, 1, 16), 0);
		peer_open(&r, &p, PEER_PEAL);
		peer_enable(&p);
		assert_int_equal(ftruncate(fd, 4096), 0);
		assert_int_equal(peer_map(&p, fd, 0, 0x10000, 4096), 0);
		cq.prp1 = what ? 0x10000 : RIG_IOVA + 0xe000;
		sq.prp1 = what ? RIG_IOVA + 0x8000 : 0x10000;
		p.q[1] = (struct peer_queue){
			.qid = 1, .size = 16, .phase = 1, .sq_at = 0x8000, .cq_at = 0xe000};
		assert_int_equal(peer_admin(&p, &cq, NULL), 0);
		assert_int_equal(peer_admin(&p, &sq, NULL), 0);
		assert_int_equal(ftruncate(fd, 0), 0);
		for (int i = 0; i < 5; i++)
			peer_submit(&p, 1, &sqe);
		peer_ring(&p, 1);
		rig_until(&r, peer_reg(&p, 0x1c, 4) & 2);
		peer_submit(&other, 1, &sqe);
		peer_ring(&other, 1);
		assert_int_equal(peer_wait(&other, 1).dw0, 3);
		assert_int_equal(peer_call(&p, VFIO_USER_DEVICE_RESET, NULL, 0), 0);
		assert_int_equal(peer_reg(&p, 0x1c, 4), 0);
		peer_enable(&p);
		assert_int_equal(peer_queue(&p, 1, 16), 0);
		peer_submit(&p, 1, &sqe);
		peer_ring(&p, 1);
		assert_int_equal(peer_wait(&p, 1).dw0, 3);
		close(fd);
		peer_close(&p);
		peer_close(&other);
	}
	rig_fini(&r);
}

/* Memory punched and cut in the middle of a wave: commands fail or give the right bytes. */
static void test_punched(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct rng rng;
	int fd = memfd_create("data", MFD_CLOEXEC);
	const uint32_t len = 16384, nr = 64;

	rng_init(&rng, unit_seed(12));
	rig_init(&r, 2, NULL);
	r.nr_fds--;
	assert_int_equal(ftruncate(fd, nr * len), 0);
	peer_open(&r, &p, PEER_STOCK);
	peer_enable(&p);
	assert_int_equal(peer_queue(&p, 1, 128), 0);
	assert_int_equal(peer_map(&p, fd, 0, 0x1000000, nr * len), 0);
	for (int round = 0; round < 30; round++) {
		uint8_t got[16384];

		for (uint16_t i = 0; i < nr; i++) {
			struct nvme_sqe sqe = peer_read_sqe(i, 0, len, i);

			sqe.sgl.addr = 0x1000000 + i * len;
			peer_submit(&p, 1, &sqe);
		}
		peer_ring(&p, 1);
		if (round % 2)
			assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
						   0, nr * len / 2),
					 0);
		else
			assert_int_equal(ftruncate(fd, (off_t)rng_below(&rng, nr * len)), 0);
		for (uint32_t i = 0; i < nr; i++) {
			struct nvme_cqe cqe = peer_wait(&p, 1);
			uint16_t st = cqe.status >> 1 & 0x7ff;

			assert_true(st == NVME_ST_OK || st == NVME_ST_DATA_TRANSFER);
			if (st == NVME_ST_OK && round % 2) {
				assert_int_equal(pread(fd, got, len, cqe.cid * len), len);
				for (uint32_t j = 0; j < len; j++)
					assert_int_equal(got[j], rig_byte(cqe.cid, j));
			}
		}
		assert_int_equal(ftruncate(fd, nr * len), 0);
	}
	assert_int_equal(peer_reg(&p, 0x1c, 4) & 3, 1);
	close(fd);
	peer_close(&p);
	rig_fini(&r);
}

/*
 * More commands than requests: all are served in the end, and a small queue beside a flood is,
 * too.
 */
static void test_few_requests(void **state)
{
	struct rig r = {.nr_reqs = 32};
	struct peer p;
	uint32_t left = 300, turns = 0;
	bool is_small_done = false;
	struct nvme_sqe small = {.opc = RIG_NOP, .nsid = 1, .cdw12 = 77};
	struct nvme_cqe cqe;

	rig_init(&r, 1, NULL);
	peer_open(&r, &p, PEER_STOCK);
	peer_enable(&p);
	assert_int_equal(peer_queue(&p, 1, 380), 0);
	assert_int_equal(peer_queue(&p, 2, 16), 0);
	r.is_held = true;
	for (uint16_t i = 0; i < 300; i++) {
		struct nvme_sqe sqe = peer_read_sqe(i, RIG_DATA + i * 512u, 512, i);

		peer_submit(&p, 1, &sqe);
	}
	peer_ring(&p, 1);
	rig_steps(&r, 20);
	assert_true(r.nr_held >= 16 && r.nr_held < 32); /* some are kept for others */
	peer_submit(&p, 2, &small);
	peer_ring(&p, 2);
	assert_int_equal(peer_wait(&p, 2).dw0, 77);
	peer_submit(&p, 2, &small);
	peer_ring(&p, 2);
	while (left) {
		assert_true(turns++ < RIG_TURNS);
		rig_step(&r);
		rig_let_go(&r, NVME_ST_OK);
		if (!is_small_done)
			is_small_done = peer_reap(&p, 2, &cqe);
		while (peer_reap(&p, 1, &cqe))
			left--;
		assert_true(turns < 4 || is_small_done);
	}
	peer_close(&p);
	rig_fini(&r);
}

/* The admin queue isn't busy for its AERs: a flood by somebody else leaves it something. */
static void test_few_requests_admin(void **state)
{
	struct rig r = {.nr_reqs = 32};
	struct peer p, flood;
	struct nvme_sqe aer = {.opc = 0x0c}, ka = {.opc = 0x18};

	rig_init(&r, 1, NULL);
	peer_open(&r, &p, PEER_STOCK);
	peer_enable(&p);
	for (aer.cid = 0; aer.cid < 4; aer.cid++)
		peer_submit(&p, 0, &aer);
	peer_ring(&p, 0);
	rig_steps(&r, 10);
	peer_open(&r, &flood, PEER_STOCK);
	peer_enable(&flood);
	assert_int_equal(peer_queue(&flood, 1, 380), 0);
	r.is_held = true;
	for (uint16_t i = 0; i < 300; i++) {
		struct nvme_sqe sqe = peer_read_sqe(i, RIG_DATA + i * 512u, 512, i);

		peer_submit(&flood, 1, &sqe);
	}
	peer_ring(&flood, 1);
	rig_steps(&r, 50);
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(peer_admin(&p, &ka, NULL), NVME_ST_OK);
	r.is_held = false;
	rig_let_go(&r, NVME_ST_OK);
	peer_close(&flood);
	peer_close(&p);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_by_one),    cmocka_unit_test(test_waves),
		cmocka_unit_test(test_reservation),   cmocka_unit_test(test_bad_doorbells),
		cmocka_unit_test(test_memory_moves),  cmocka_unit_test(test_ring_unmapped),
		cmocka_unit_test(test_ring_vanishes), cmocka_unit_test(test_punched),
		cmocka_unit_test(test_few_requests),  cmocka_unit_test(test_few_requests_admin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
