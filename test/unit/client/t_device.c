/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal/device.h against a controller of a few lines: every slot of every lap, a full queue,
 * completions out of order, what builds SQEs. The torn read itself needs a scheduler of fibres.
 */
#include "unit.h"

#include <stddef.h>
#include <string.h>

#include "base/rng.h"
#include "peal/device.h"

#define SIZE 7u

struct side {
	struct peal_device_queue q;
	struct peal_sqe sq[SIZE];
	struct peal_cqe cq[SIZE];
	uint8_t bar[8192];
	/* the controller's */
	uint32_t sq_head, cq_tail, phase;
	struct peal_sqe got[SIZE];
	uint32_t nr_got;
};

static uint32_t bell(struct side *s, uint32_t off)
{
	uint32_t v;

	memcpy(&v, s->bar + off, 4);
	return v;
}

static void start(struct side *s)
{
	memset(s, 0, sizeof(*s));
	s->q.sq = s->sq;
	s->q.cq = s->cq;
	s->q.size = SIZE;
	s->phase = 1;
	peal_device_bells(&s->q, s->bar, 3, 4);
	peal_device_start(&s->q);
}

static void fetch(struct side *s)
{
	uint32_t tail = bell(s, 0x1000 + 2 * 3 * 4);

	while (s->sq_head != tail) {
		s->got[s->nr_got++] = s->sq[s->sq_head];
		s->sq_head = peal_ring_next(s->sq_head, SIZE);
	}
}

static void answer(struct side *s, uint32_t which)
{
	struct peal_cqe c = {.dw0 = s->got[which].cdw10,
			     .sq_head = (uint16_t)s->sq_head,
			     .cid = s->got[which].cid,
			     .status = (uint16_t)(0x87 << 1 | s->phase)};

	s->cq[s->cq_tail] = c;
	s->phase = peal_ring_phase(s->cq_tail, SIZE, s->phase);
	s->cq_tail = peal_ring_next(s->cq_tail, SIZE);
	s->got[which] = s->got[--s->nr_got];
}

static void t_laps(void **state)
{
	struct rng rng;
	struct side s;
	struct peal_cqe c;
	uint32_t cid = 0, want[65536] = {0};

	rng_init(&rng, unit_seed(1));
	start(&s);
	for (unsigned lap = 0; lap < 500; lap++) {
		uint32_t nr = 1 + (uint32_t)rng_below(&rng, SIZE - 1);

		for (uint32_t i = 0; i < nr; i++) {
			struct peal_sqe sqe = {.cid = (uint16_t)++cid,
					       .cdw10 = (uint32_t)rng_u64(&rng)};

			want[cid] = sqe.cdw10;
			assert_int_equal(peal_device_put(&s.q, &sqe), 1);
		}
		assert_int_equal(peal_device_reap(&s.q, &c), 0);
		fetch(&s);
		assert_int_equal(s.nr_got, 0); /* not rung */
		peal_device_ring(&s.q);
		fetch(&s);
		assert_int_equal(s.nr_got, nr);
		while (s.nr_got)
			answer(&s, (uint32_t)rng_below(&rng, s.nr_got));
		for (uint32_t i = 0; i < nr; i++) {
			assert_int_equal(peal_device_reap(&s.q, &c), 1);
			assert_int_equal(peal_device_status(&c), 0x87);
			assert_int_equal(c.dw0, want[c.cid]);
			want[c.cid] = 0;
		}
		assert_int_equal(peal_device_reap(&s.q, &c), 0);
		peal_device_reaped(&s.q);
		assert_int_equal(bell(&s, 0x1000 + (2 * 3 + 1) * 4), s.cq_tail);
	}
}

/* A slot is free when a CQE has told that its SQE was fetched, not before. */
static void t_full(void **state)
{
	struct peal_sqe sqe = {0};
	struct peal_cqe c;
	struct side s;

	start(&s);
	for (uint32_t i = 0; i < SIZE - 1; i++)
		assert_int_equal(peal_device_put(&s.q, &sqe), 1);
	assert_int_equal(peal_device_put(&s.q, &sqe), 0);
	peal_device_ring(&s.q);
	fetch(&s);
	assert_int_equal(peal_device_put(&s.q, &sqe), 0);
	answer(&s, 0);
	assert_int_equal(peal_device_reap(&s.q, &c), 1);
	assert_int_equal(peal_device_put(&s.q, &sqe), 1);
}

static void t_sqe(void **state)
{
	struct peal_key k = {.b = "0123456789abcde", .len = 15};
	struct peal_sqe s;
	const uint8_t *b = (const uint8_t *)&s;

	peal_device_kv(&s, 2, 9, &k);
	assert_int_equal(b[0], 2);
	assert_int_equal(b[4], 9);
	assert_memory_equal(b + 8, "01234567", 8);
	assert_memory_equal(b + 56, "89abcde", 8);
	assert_int_equal(b[44], 15);
	peal_device_prp(&s, 0x10000, 4096);
	assert_int_equal(s.dptr[1], 0);
	peal_device_prp(&s, 0x10ff8, 9);
	assert_int_equal(s.dptr[0], 0x10ff8);
	assert_int_equal(s.dptr[1], 0x11000);
	assert_int_equal(s.cdw10, 9);
	assert_int_equal(b[1], 0);
	peal_device_sgl(&s, 0x123456789, 100000);
	assert_int_equal(b[1], 0x40);
	assert_int_equal(s.dptr[0], 0x123456789);
	assert_int_equal(s.dptr[1], 100000);
	assert_int_equal(s.cdw10, 100000);
	assert_int_equal(offsetof(struct peal_sqe, dptr), 24);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_laps),
		cmocka_unit_test(t_full),
		cmocka_unit_test(t_sqe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
