/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients beside each other on one worker, on a clock that stands still: how much of others' work
 * is done before a small command is answered, whatever they have outstanding; shares by client, not
 * by queue; requests that one client can't take from another.
 */
#include "rig.h"

#include "transport/vfu/vfu_int.h"

#define MIB (1u << 20)
#define CLOCK_NS 5000000000ull

static struct vfu_dev *dev_at(struct rig *r, unsigned i)
{
	struct vfu *v = container_of(r->tr, struct vfu, tr);
	struct vfu_dev *d;

	list_for_each_entry(d, &v->devs, node)
		if (i-- == 0)
			return d;
	fail();
	return NULL;
}

static void attach(struct rig *r, struct peer *p, unsigned nr_queues, uint32_t size)
{
	peer_open(r, p, PEER_PEAL);
	peer_enable(p);
	for (uint16_t qid = 1; qid <= nr_queues; qid++)
		assert_int_equal(peer_queue(p, qid, size), 0);
}

static struct nvme_sqe copy_sqe(uint16_t cid, uint32_t len)
{
	struct nvme_sqe sqe = peer_read_sqe(cid, RIG_DATA, len, 0);

	sqe.opc = RIG_COPY;
	return sqe;
}

static uint32_t reap_all(struct peer *p, unsigned nr_queues)
{
	struct nvme_cqe cqe;
	uint32_t nr = 0;

	for (uint16_t qid = 1; qid <= nr_queues; qid++) {
		while (peer_reap(p, qid, &cqe)) {
			assert_int_equal(cqe.status >> 1, 0);
			nr++;
		}
	}
	return nr;
}

/* A thousand of 1 MiB in four queues, all taken. */
static void outstanding(struct rig *r, struct peer *p)
{
	for (uint16_t qid = 1; qid <= 4; qid++) {
		for (uint16_t i = 0; i < 250; i++) {
			struct nvme_sqe sqe = copy_sqe(i, MIB);

			peer_submit(p, qid, &sqe);
		}
		peer_ring(p, qid);
	}
	for (uint16_t qid = 1; qid <= 4; qid++)
		rig_until(r, dev_at(r, 0)->sq[qid]->head == 250);
}

/* Work until B's command of `len` bytes is answered; *turns of it. */
static uint64_t beside(struct rig *r, struct peer *b, uint32_t len, unsigned *turns)
{
	uint64_t before = mem_engine_work(r->node.workers[0]->engine);
	struct nvme_sqe sqe = copy_sqe(7, len);

	peer_submit(b, 1, &sqe);
	peer_ring(b, 1);
	for (*turns = 1;; ++*turns) {
		rig_step(r);
		if (reap_all(b, 1))
			return mem_engine_work(r->node.workers[0]->engine) - before;
		assert_true(*turns < 1000);
	}
}

static void test_small_beside_large(void **state)
{
	struct rig r = {.nr_reqs = 2048, .clock_ns = CLOCK_NS};
	struct peer a, b;
	uint64_t work;
	unsigned turns;

	rig_init(&r, 1, NULL);
	attach(&r, &a, 4, 256);
	attach(&r, &b, 1, 64);
	outstanding(&r, &a);
	for (int i = 0; i < 20; i++) {
		work = beside(&r, &b, 4096, &turns);
		assert_true(turns <= 2);
		assert_true(work <= 4096 + 2 * MEM_TURN_BYTES);
		r.clock_ns += 20000;
	}
	/* Half of the engine for one of its own size, not one part of a thousand and one. */
	work = beside(&r, &b, MIB, &turns);
	print_message("1 MiB beside 1000 of them: %.2f MiB, %u turns\n", (double)work / MIB, turns);
	assert_true(work <= 2 * MIB + 4 * MEM_TURN_BYTES);
	peer_close(&a);
	peer_close(&b);
	rig_fini(&r);
}

/* Small ones behind as many medium ones as the other cares to ring for. */
static void test_small_beside_many(void **state)
{
	struct rig r = {.nr_reqs = 2048, .clock_ns = CLOCK_NS};
	struct peer a, b;
	uint32_t nr;
	unsigned turns;

	rig_init(&r, 1, NULL);
	attach(&r, &a, 8, 128);
	attach(&r, &b, 1, 64);
	beside(&r, &b, 4096, &turns);
	for (int i = 0; i < 20; i++) {
		for (uint16_t qid = 1; qid <= 8; qid++) {
			for (uint16_t n = 0; n < 60; n++) {
				struct nvme_sqe sqe = copy_sqe(n, 16384);

				peer_submit(&a, qid, &sqe);
			}
			peer_ring(&a, qid);
		}
		rig_step(&r);
		nr = reap_all(&a, 8);
		assert_true(beside(&r, &b, 4096, &turns) <= 2 * VFU_TURN_COST + 4096);
		assert_true(turns <= 2);
		while (nr < 480) {
			rig_step(&r);
			nr += reap_all(&a, 8);
		}
	}
	peer_close(&a);
	peer_close(&b);
	rig_fini(&r);
}

static void keep_full(struct peer *p, unsigned nr_queues, uint32_t size)
{
	for (uint16_t qid = 1; qid <= nr_queues; qid++) {
		struct peer_queue *q = &p->q[qid];

		while (peal_ring_next(q->sq_tail, size) != q->cq_head) {
			struct nvme_sqe sqe = {
				.opc = RIG_NOP, .cid = (uint16_t)q->sq_tail, .nsid = 1};

			peer_submit(p, qid, &sqe);
		}
		peer_ring(p, qid);
	}
}

/* Eight queues against one, both always full: the same for both. Alone: all of a burst. */
static void test_clients_not_queues(void **state)
{
	struct rig r = {.clock_ns = CLOCK_NS};
	uint32_t nr_a = 0, nr_b = 0, alone = 0;
	struct peer a, b;

	rig_init(&r, 1, NULL);
	attach(&r, &a, 8, 64);
	attach(&r, &b, 1, 64);
	for (int i = 0; i < 200; i++) {
		keep_full(&a, 8, 64);
		keep_full(&b, 1, 64);
		rig_step(&r);
		nr_a += reap_all(&a, 8);
		nr_b += reap_all(&b, 1);
	}
	print_message("eight queues: %u, one queue: %u\n", nr_a, nr_b);
	assert_in_range(nr_a * 100 / nr_b, 95, 110);
	for (int i = 0; i < 400; i++) {
		rig_step(&r);
		reap_all(&a, 8);
		reap_all(&b, 1);
	}
	r.clock_ns += VFU_ACTIVE_NS + 1;
	rig_steps(&r, 64);
	for (int i = 0; i < 20; i++) {
		keep_full(&a, 8, 64);
		rig_step(&r);
		alone += reap_all(&a, 8);
	}
	/* Up to the end of a ring at once: some turns take less. */
	assert_in_range(alone, 18 * TGT_BURST, 20 * TGT_BURST);
	peer_close(&a);
	peer_close(&b);
	rig_fini(&r);
}

/* What is held back, in all queues of a client that asks for more than there is. */
static void test_requests(void **state)
{
	struct rig r = {.nr_reqs = 512};
	struct peer a, b, c;
	struct nvme_sqe sqe;

	rig_init(&r, 1, &(struct vfu_opts){.max_clients = 4});
	attach(&r, &a, 4, 256);
	attach(&r, &b, 1, 256);
	r.is_held = true;
	for (uint16_t qid = 1; qid <= 4; qid++) {
		for (uint16_t i = 0; i < 250; i++) {
			sqe = peer_read_sqe(i, RIG_DATA, 64, 1);
			peer_submit(&a, qid, &sqe);
		}
		peer_ring(&a, qid);
	}
	rig_until(&r, r.nr_held >= 400);
	rig_steps(&r, 200);
	/* Of 512, 32 are for queues that have none, 64 b is sure of. */
	assert_true(r.nr_held <= 512 - 32 - 64);
	attach(&r, &c, 1, 256);
	for (uint16_t i = 0; i < 200; i++) {
		sqe = peer_read_sqe(i, RIG_DATA, 64, 1);
		peer_submit(&b, 1, &sqe);
		peer_submit(&c, 1, &sqe);
	}
	peer_ring(&b, 1);
	rig_until(&r, dev_at(&r, 1)->sq[1]->sq.nr_inflight == 64);
	/* c came when the rest was gone: one, and more as soon as something ends. */
	peer_ring(&c, 1);
	rig_until(&r, dev_at(&r, 2)->sq[1]->sq.nr_inflight >= 1);
	r.is_held = false;
	rig_let_go(&r, NVME_ST_OK);
	rig_until(&r, reap_all(&c, 1) || dev_at(&r, 2)->sq[1]->head == 200);
	peer_close(&a);
	peer_close(&b);
	peer_close(&c);
	rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 0);
	rig_fini(&r);
}

static void ask(struct peer *p, uint16_t qid, unsigned nr)
{
	struct nvme_sqe sqe;

	for (uint16_t i = 0; i < nr; i++) {
		sqe = peer_read_sqe(i, RIG_DATA, 64, 1);
		peer_submit(p, qid, &sqe);
	}
	peer_ring(p, qid);
}

/* One each from many queues isn't much more than many from one. */
static void test_requests_of_queues(void **state)
{
	struct rig r = {.nr_reqs = 512, .clock_ns = CLOCK_NS};
	struct peer a, b;

	rig_init(&r, 1, &(struct vfu_opts){.max_clients = 4});
	attach(&r, &a, 30, 256);
	attach(&r, &b, 1, 256);
	r.is_held = true;
	ask(&a, 1, 250);
	ask(&a, 2, 250);
	rig_until(&r, r.nr_held == 512 - 32 - 64);
	rig_steps(&r, 200);
	assert_int_equal(r.nr_held, 512 - 32 - 64);
	for (uint16_t qid = 3; qid <= 30; qid++)
		ask(&a, qid, 1);
	rig_until(&r, r.nr_held == 512 - 16 - 64);
	rig_steps(&r, 200);
	assert_int_equal(r.nr_held, 512 - 16 - 64);
	r.is_held = false;
	rig_let_go(&r, NVME_ST_OK);
	peer_close(&a);
	peer_close(&b);
	rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 0);
	rig_fini(&r);
}

/* What a client that has gone was still to get isn't copied. */
static void test_gone(void **state)
{
	struct rig r = {.nr_reqs = 2048, .clock_ns = CLOCK_NS};
	uint64_t before;
	struct peer a;

	rig_init(&r, 1, NULL);
	attach(&r, &a, 4, 256);
	outstanding(&r, &a);
	before = mem_engine_work(r.node.workers[0]->engine);
	peer_close(&a);
	rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 0);
	assert_true(mem_engine_work(r.node.workers[0]->engine) - before <= 8 * MIB);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_beside_large), cmocka_unit_test(test_small_beside_many),
		cmocka_unit_test(test_clients_not_queues), cmocka_unit_test(test_requests),
		cmocka_unit_test(test_requests_of_queues), cmocka_unit_test(test_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
