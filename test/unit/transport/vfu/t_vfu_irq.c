/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SET_IRQS with every kind of data and action, good and bad; interrupts that are never lost and
 * come once per burst; descriptors that don't leak.
 */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>

#include "base/rng.h"

#define NR (TGT_QUEUES_MAX + 1)
#define TRIGGER VFIO_IRQ_SET_ACTION_TRIGGER
#define NONE VFIO_IRQ_SET_DATA_NONE
#define BOOL VFIO_IRQ_SET_DATA_BOOL
#define EVENTFD VFIO_IRQ_SET_DATA_EVENTFD

struct set {
	uint32_t flags, index, start, count;
	const uint8_t *bools;
	const int *fds;
	unsigned nr_fds;
};

static int set_irqs(struct peer *p, const struct set *s)
{
	uint8_t buf[sizeof(struct vfio_irq_set) + 256] = {0};
	uint32_t len = sizeof(struct vfio_irq_set);
	struct vfio_irq_set h = {0, s->flags, s->index, s->start, s->count};

	if (s->bools) {
		memcpy(buf + len, s->bools, s->count);
		len += s->count;
	}
	h.argsz = len;
	memcpy(buf, &h, sizeof(h));
	return peer_ask(p, &(struct peer_msg){.cmd = VFIO_USER_DEVICE_SET_IRQS,
					      .data = buf,
					      .len = len,
					      .fds = s->fds,
					      .nr_fds = s->nr_fds});
}

/* How often since the last time. */
static uint64_t rung(struct rig *r, int fd)
{
	eventfd_t v = 0;

	rig_steps(r, 4);
	return eventfd_read(fd, &v) ? 0 : v;
}

static void nop(struct peer *p, uint16_t qid, uint32_t nr)
{
	struct nvme_cqe cqe;

	for (uint32_t i = 0; i < nr; i++) {
		struct nvme_sqe sqe = {.opc = RIG_NOP, .nsid = 1, .cdw12 = i};

		peer_submit(p, qid, &sqe);
	}
	peer_ring(p, qid);
	for (uint32_t i = 0; i < nr; i++)
		cqe = peer_wait(p, qid);
	assert_int_equal(cqe.dw0, nr - 1);
}

static void test_bad(void **state)
{
	const struct set bad[] = {
		{0, 2, 0, 1},
		{EVENTFD, 2, 0, 1},
		{TRIGGER, 2, 0, 1},
		{EVENTFD | BOOL | TRIGGER, 2, 0, 1},
		{NONE | TRIGGER | VFIO_IRQ_SET_ACTION_MASK, 2, 0, 1},
		{NONE | TRIGGER | 1u << 6, 2, 0, 1},
		{NONE | TRIGGER, 5, 0, 0},
		{NONE | TRIGGER, 2, 0, NR + 1},
		{NONE | TRIGGER, 2, NR, 1},
		{NONE | TRIGGER, 2, UINT32_MAX, 2},
		{NONE | TRIGGER, 2, 1, UINT32_MAX},
		{NONE | TRIGGER, 2, 1, 0},
		{NONE | VFIO_IRQ_SET_ACTION_MASK, 2, 0, 0},
		{EVENTFD | TRIGGER, 2, 0, 0},
		{NONE | TRIGGER, 0, 0, 1},
		{BOOL | TRIGGER, 2, 0, 3},
	};
	struct rig r = {0};
	struct peer p;
	int fds[4], pipes[2], before;

	rig_init(&r, 2, NULL);
	peer_open(&r, &p, PEER_STOCK);
	before = rig_count_fds();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(set_irqs(&p, &bad[i]), EINVAL);
	for (uint32_t i = 0; i < VFIO_PCI_NUM_IRQS; i++)
		assert_int_equal(set_irqs(&p, &(struct set){NONE | TRIGGER, i, 0, 0}), 0);
	/* descriptors: the wrong number, the wrong kind, the wrong action */
	for (int i = 0; i < 4; i++)
		fds[i] = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(set_irqs(&p, &(struct set){EVENTFD | TRIGGER, 2, 0, 3, NULL, fds, 4}),
			 EINVAL);
	assert_int_equal(set_irqs(&p, &(struct set){EVENTFD | TRIGGER, 2, 0, 4, NULL, fds, 3}),
			 EINVAL);
	assert_int_equal(set_irqs(&p, &(struct set){EVENTFD | VFIO_IRQ_SET_ACTION_MASK, 2, 0, 1,
						    NULL, fds, 1}),
			 ENOTSUP);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	fds[0] = pipes[1];
	assert_int_equal(set_irqs(&p, &(struct set){EVENTFD | TRIGGER, 2, 0, 1, NULL, fds, 1}),
			 EINVAL);
	close(pipes[0]);
	close(pipes[1]);
	assert_int_equal(peer_call(&p, VFIO_USER_DEVICE_SET_IRQS, NULL, 0), EINVAL);
	assert_int_equal(rig_count_fds(), before);
	peer_close(&p);
	rig_fini(&r);
}

/*
 * One per burst; none lost while masked or before there is an eventfd; replaced ones stay silent.
 */
static void test_delivery(void **state)
{
	struct rig r = {0};
	struct peer p;
	const uint8_t second[2] = {0, 1};
	int fds[2], other;

	rig_init(&r, 2, NULL);
	peer_open(&r, &p, PEER_STOCK);
	peer_enable(&p);
	fds[0] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	fds[1] = eventfd(0, EFD_CLOEXEC); /* blocking: we make it non-blocking */
	other = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	assert_int_equal(peer_queue(&p, 1, 128), 0);
	assert_int_equal(peer_queue(&p, 2, 128), 0);
	nop(&p, 1, 5); /* nobody listens yet */
	assert_int_equal(set_irqs(&p, &(struct set){EVENTFD | TRIGGER, 2, 1, 2, NULL, fds, 2}), 0);
	assert_int_equal(rung(&r, fds[0]), 1);
	assert_int_equal(rung(&r, fds[1]), 0);
	nop(&p, 1, 64);
	nop(&p, 2, 1);
	assert_int_equal(rung(&r, fds[0]), 1);
	assert_int_equal(rung(&r, fds[1]), 1);

	assert_int_equal(set_irqs(&p, &(struct set){NONE | VFIO_IRQ_SET_ACTION_MASK, 2, 1, 1}), 0);
	nop(&p, 1, 3);
	nop(&p, 1, 3);
	assert_int_equal(rung(&r, fds[0]), 0);
	assert_int_equal(set_irqs(&p, &(struct set){NONE | VFIO_IRQ_SET_ACTION_UNMASK, 2, 1, 1}),
			 0);
	assert_int_equal(rung(&r, fds[0]), 1);
	assert_int_equal(rung(&r, fds[0]), 0);

	/* by the client itself */
	assert_int_equal(set_irqs(&p, &(struct set){BOOL | TRIGGER, 2, 1, 2, second}), 0);
	assert_int_equal(rung(&r, fds[0]), 0);
	assert_int_equal(rung(&r, fds[1]), 1);
	assert_int_equal(set_irqs(&p, &(struct set){NONE | TRIGGER, 2, 1, 2}), 0);
	assert_int_equal(rung(&r, fds[0]), 1);
	assert_int_equal(rung(&r, fds[1]), 1);

	/* another one in its place; then none */
	assert_int_equal(set_irqs(&p, &(struct set){EVENTFD | TRIGGER, 2, 1, 1, NULL, &other, 1}),
			 0);
	nop(&p, 1, 1);
	assert_int_equal(rung(&r, fds[0]), 0);
	assert_int_equal(rung(&r, other), 1);
	assert_int_equal(set_irqs(&p, &(struct set){EVENTFD | TRIGGER, 2, 1, 1}), 0);
	nop(&p, 1, 1);
	assert_int_equal(rung(&r, other), 0);
	assert_int_equal(set_irqs(&p, &(struct set){NONE | TRIGGER, 2, 0, 0}), 0);
	nop(&p, 2, 1);
	assert_int_equal(rung(&r, fds[1]), 0);

	/* a full counter loses nothing and blocks nobody */
	assert_int_equal(set_irqs(&p, &(struct set){EVENTFD | TRIGGER, 2, 1, 1, NULL, &other, 1}),
			 0);
	rung(&r, other);
	assert_int_equal(eventfd_write(other, UINT64_MAX - 1), 0);
	nop(&p, 1, 1);
	close(fds[0]);
	close(fds[1]);
	close(other);
	peer_close(&p);
	rig_fini(&r);
}

/*
 * A client that makes its eventfds blocking again and fills them: its interrupts wait, nobody else
 * does; SET_IRQS, queue deletion and death still come to an end.
 */
static void test_stalled_eventfd(void **state)
{
	struct rig r = {0};
	struct peer p, other;
	int fd[2];

	rig_init(&r, 2, NULL);
	r.nr_fds += 2;
	for (int i = 0; i < 2; i++)
		fd[i] = eventfd(0, EFD_CLOEXEC);
	peer_open(&r, &other, PEER_STOCK);
	for (int round = 0; round < 3; round++) {
		const struct set set = {EVENTFD | TRIGGER, 2, 1, 2, NULL, fd, 2};

		peer_open(&r, &p, PEER_STOCK);
		peer_enable(&p);
		assert_int_equal(peer_queue(&p, 1, 16), 0);
		assert_int_equal(peer_queue(&p, 2, 16), 0);
		assert_int_equal(set_irqs(&p, &set), 0);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(fcntl(fd[i], F_SETFL, 0), 0);
			assert_int_equal(eventfd_write(fd[i], UINT64_MAX - 1), 0);
		}
		nop(&p, 1, 5);
		nop(&p, 1, 5);
		nop(&p, 2, 5);
		assert_int_equal(set_irqs(&p, &(struct set){NONE | TRIGGER, 2, 1, 2}), 0);
		peer_reg(&other, 0, 8);
		if (round == 0)
			assert_int_equal(set_irqs(&p, &set), 0);
		if (round == 1)
			assert_int_equal(peer_queue_del(&p, 1), 0);
		peer_close(&p);
		rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 1);
		for (int i = 0; i < 2; i++) {
			eventfd_t v;

			assert_int_equal(eventfd_read(fd[i], &v), 0);
		}
	}
	peer_close(&other);
	close(fd[0]);
	close(fd[1]);
	r.nr_fds -= 2;
	rig_fini(&r);
}

/* Random SET_IRQS; every eventfd of ours that is closed there is really closed. */
static void test_random(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct rng rng;

	rng_init(&rng, unit_seed(8));
	rig_init(&r, 3, NULL);
	peer_open(&r, &p, PEER_PEAL);
	peer_enable(&p);
	assert_int_equal(peer_queue(&p, 1, 16), 0);
	for (int i = 0; i < 500; i++) {
		const uint32_t data[] = {NONE, EVENTFD, EVENTFD, BOOL};
		uint8_t bools[16];
		int fds[16];
		struct set s = {.index = 2, .bools = bools};
		unsigned nr_fds = 0;

		s.start = (uint32_t)rng_below(&rng, NR);
		s.count = (uint32_t)(1 + rng_below(&rng, 16));
		s.flags = data[rng_below(&rng, 4)] | 1u << (3 + rng_below(&rng, 3));
		rng_fill(&rng, bools, sizeof(bools));
		if (s.flags & EVENTFD && rng_chance(&rng, 4, 5)) {
			nr_fds = s.count;
			for (unsigned n = 0; n < nr_fds; n++)
				fds[n] = eventfd(0, EFD_CLOEXEC);
			s.fds = fds;
			s.nr_fds = nr_fds;
		}
		assert_true(set_irqs(&p, &s) >= 0);
		for (unsigned n = 0; n < nr_fds; n++)
			close(fds[n]);
		nop(&p, 1, 3);
	}
	peer_close(&p);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_delivery),
		cmocka_unit_test(test_stalled_eventfd),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
