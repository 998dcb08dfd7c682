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
#define NR_FLOODS 10

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
	for (int i = 0; i < 8 * 64; i++) { /* until nothing is left */
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

/* All that a client's ring holds, of commands like this one; how many came back. */
static uint32_t flood(struct peer *p, struct nvme_sqe sqe)
{
	struct peer_queue *q = &p->q[1];
	uint32_t nr = reap_all(p, 1);

	while (peal_ring_next(q->sq_tail, q->size) != q->cq_head) {
		sqe.cid = (uint16_t)q->sq_tail;
		peer_submit(p, 1, &sqe);
	}
	peer_ring(p, 1);
	return nr;
}

/*
 * However many have a backlog, who had nothing waits for a turn of one of them and not for all;
 * they share the rest evenly.
 */
static void test_small_beside_floods(void **state)
{
	struct rig r = {.clock_ns = CLOCK_NS};
	struct peer a[NR_FLOODS], b;
	uint32_t nr[NR_FLOODS] = {0};
	uint64_t work, most = 0;
	unsigned turns;

	rig_init(&r, 1, NULL);
	attach(&r, &b, 1, 64);
	for (unsigned n = 0; n < NR_FLOODS; n++)
		attach(&r, &a[n], 1, 64);
	for (int i = 0; i < 200; i++) {
		for (unsigned n = 0; n < NR_FLOODS; n++)
			nr[n] += flood(&a[n], copy_sqe(0, 8192));
		work = beside(&r, &b, 4096, &turns);
		if (i >= 4) { /* who is there is known */
			most = max_t(uint64_t, most, work);
			assert_true(turns <= 2);
		}
		r.clock_ns += 3000;
		rig_steps(&r, (unsigned)i % 5);
	}
	print_message("4 KiB beside %d floods of 8 KiB: %u bytes' work at most\n", NR_FLOODS,
		      (unsigned)most);
	/* Its own, one command of one of them, and what its turn may have cost before. */
	assert_true(most <= 4096 + 8192 + VFU_SMALL_COST);
	for (unsigned n = 0; n < NR_FLOODS; n++)
		assert_in_range(nr[n], nr[0] * 9 / 10, nr[0] * 11 / 10 + 2);
	for (unsigned n = 0; n < NR_FLOODS; n++)
		peer_close(&a[n]);
	peer_close(&b);
	rig_fini(&r);
}

/* Who comes again and again with one command isn't always first: the others have their part. */
/*
 * A client's many queues are looked at a few in a turn while others are there, and none is
 * forgotten: a lone command in any of them is found when its turn has come round, and at once when
 * the worker looks for the last time before it sleeps.
 */
static void test_many_queues(void **state)
{
	enum { NR = 4 * VFU_LOOKS_MAX };
	struct rig r = {.clock_ns = CLOCK_NS};
	struct nvme_sqe sqe = copy_sqe(3, 64);
	struct vfu_worker *w;
	struct peer a, b;
	unsigned turns;
	uint64_t looks;

	rig_init(&r, 1, NULL);
	attach(&r, &a, NR, 16);
	attach(&r, &b, 1, 64);
	w = &container_of(r.tr, struct vfu, tr)->workers[0];
	for (uint16_t i = 0; i < 3 * NR; i++) {
		uint16_t qid = (uint16_t)(1 + i * 7u % NR);
		bool is_last_look = i % 3 == 2;

		beside(&r, &b, 64, &turns);
		peer_submit(&a, qid, &sqe);
		peer_ring(&a, qid);
		if (is_last_look)
			vfu_bell_arm(&w->poller);
		for (turns = 0; !reap_all(&a, NR); turns++) {
			assert_true(turns < (is_last_look ? 1 : NR / VFU_LOOKS_MAX + 2));
			looks = w->nr_looks;
			rig_step(&r);
			assert_true(is_last_look || w->nr_looks - looks <= 2 * VFU_LOOKS_MAX + 2);
		}
		if (is_last_look)
			vfu_bell_disarm(&w->poller);
	}
	peer_close(&a);
	peer_close(&b);
	rig_fini(&r);
}

/* Clients that do nothing but be there cost a turn no more than a few looks, however many. */
static void test_silent(void **state)
{
	enum { NR = 20, QUEUES = 3 * VFU_LOOKS_MAX };
	struct rig r = {.clock_ns = CLOCK_NS};
	struct peer a[NR], b;
	struct vfu_worker *w;
	unsigned turns;
	uint64_t looks;

	rig_init(&r, 1, NULL);
	for (unsigned i = 0; i < NR; i++)
		attach(&r, &a[i], QUEUES, 4);
	attach(&r, &b, 1, 64);
	w = &container_of(r.tr, struct vfu, tr)->workers[0];
	r.clock_ns += 2 * VFU_ACTIVE_NS;
	rig_steps(&r, 2 * NR);
	for (unsigned i = 0; i < 50; i++) {
		looks = w->nr_looks;
		beside(&r, &b, 64, &turns);
		/* Who was silent, too, has to be found first. */
		assert_true(turns <= (i ? 1 : 2 + NR * VFU_LOOKS_MAX / VFU_LOOKS_TURN));
		assert_true(w->nr_looks - looks <= turns * (VFU_LOOKS_TURN + VFU_LOOKS_MAX + 2));
		r.clock_ns += 3000;
		rig_steps(&r, i % 3);
	}
	for (unsigned i = 0; i < NR; i++)
		peer_close(&a[i]);
	peer_close(&b);
	rig_fini(&r);
}

static void test_small_ones_pay(void **state)
{
	struct rig r = {.clock_ns = CLOCK_NS};
	struct nvme_sqe sqe = copy_sqe(1, 4096);
	uint32_t nr = 0, nr_small = 0;
	struct peer a, b[NR_FLOODS];

	rig_init(&r, 1, NULL);
	attach(&r, &a, 1, 64);
	for (unsigned n = 0; n < NR_FLOODS; n++)
		attach(&r, &b[n], 1, 64);
	for (int i = 0; i < 400; i++) {
		nr += flood(&a, copy_sqe(0, 4096));
		for (unsigned n = 0; n < NR_FLOODS; n++) {
			nr_small += reap_all(&b[n], 1);
			if (dev_at(&r, n + 1)->sq[1]->head != b[n].q[1].sq_tail)
				continue;
			peer_submit(&b[n], 1, &sqe);
			peer_ring(&b[n], 1);
		}
		rig_step(&r);
	}
	print_message("a flood: %u, each of %d that ring one by one: %u\n", nr, NR_FLOODS,
		      nr_small / NR_FLOODS);
	assert_true(nr >= nr_small / NR_FLOODS * 3 / 4);
	peer_close(&a);
	for (unsigned n = 0; n < NR_FLOODS; n++)
		peer_close(&b[n]);
	rig_fini(&r);
}

/* Commands that take many turns pay for each: they have one step in their client's turn. */
static void test_steps(void **state)
{
	struct rig r = {.clock_ns = CLOCK_NS};
	struct nvme_sqe sqe = {.opc = RIG_STEPS, .nsid = 1, .cdw12 = 1000};
	struct peer a, b;
	unsigned turns, before;

	rig_init(&r, 1, NULL);
	attach(&r, &a, 1, 64);
	attach(&r, &b, 1, 64);
	flood(&a, sqe);
	rig_until(&r, dev_at(&r, 0)->sq[1]->sq.nr_inflight == 63);
	beside(&r, &b, 4096, &turns);
	before = r.nr_steps;
	for (int i = 0; i < 50; i++) {
		beside(&r, &b, 4096, &turns);
		assert_true(turns <= 2);
		rig_steps(&r, 2);
	}
	/* Two clients: half of each turn is its, and a step is worth two turns. */
	print_message("steps of 63 commands in 100 to 200 turns beside another: %u\n",
		      r.nr_steps - before);
	assert_in_range(r.nr_steps - before, 20, 100);
	/* Alone: one a turn, and its own small command isn't behind 63 of them. */
	r.clock_ns += VFU_ACTIVE_NS + 1;
	rig_steps(&r, 2);
	before = r.nr_steps;
	rig_steps(&r, 50);
	assert_int_equal(r.nr_steps - before, 50);
	peer_close(&b);
	peer_close(&a);
	rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 0);
	rig_fini(&r);
}

static void no_mail(struct mbox_msg *m)
{
}

/* Messages are somebody's who has commands, or nobody's. */
static void test_mail(void **state)
{
	struct rig r = {.clock_ns = CLOCK_NS};
	struct nvme_sqe nop = {.opc = RIG_NOP, .nsid = 1};
	struct mbox_msg mail;
	struct peer a, b;
	struct vfu *v;

	rig_init(&r, 2, NULL);
	v = container_of(r.tr, struct vfu, tr);
	attach(&r, &a, 1, 256); /* worker 0 */
	attach(&r, &b, 1, 256); /* worker 1 */
	assert_ptr_equal(dev_at(&r, 1)->sq[1]->w, &v->workers[1]);
	r.clock_ns += VFU_ACTIVE_NS + 1;
	for (int i = 0; i < 20; i++) {
		flood(&a, nop);
		mail.fn = no_mail;
		mbox_post(r.reactors[0], &mail);
		rig_step(&r);
		assert_true(i < 2 || v->workers[0].nr_active == 1);
	}
	for (int i = 0; i < 5; i++) {
		flood(&a, nop);
		flood(&b, nop);
		mail.fn = no_mail;
		mbox_post(r.reactors[0], &mail);
		rig_step(&r);
	}
	assert_int_equal(v->workers[0].nr_active, 2);
	assert_int_equal(v->workers[1].nr_active, 1);
	rig_until(&r, !dev_at(&r, 1)->view[1].share.has_more);
	r.clock_ns += VFU_ACTIVE_NS + 1;
	for (int i = 0; i < 5; i++) {
		flood(&a, nop);
		rig_step(&r);
	}
	assert_int_equal(v->workers[0].nr_active, 1);
	assert_int_equal(v->nr_active_devs, 1);
	peer_close(&a);
	peer_close(&b);
	rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 0);
	assert_int_equal(v->nr_active_devs, 0);
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
		cmocka_unit_test(test_small_beside_large),
		cmocka_unit_test(test_small_beside_many),
		cmocka_unit_test(test_clients_not_queues),
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_small_beside_floods),
		cmocka_unit_test(test_many_queues),
		cmocka_unit_test(test_silent),
		cmocka_unit_test(test_small_ones_pay),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_mail),
		cmocka_unit_test(test_requests_of_queues),
		cmocka_unit_test(test_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
