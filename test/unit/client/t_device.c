/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal/device.h against a controller of a few lines: every slot of every lap, a full queue,
 * completions out of order, waves. Lanes and torn reads need a scheduler of fibres: test/gpu.
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
	struct peal_cqe c = {0};
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
			assert_int_equal(peal_cqe_status(&c), 0x87);
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
	struct peal_cqe c = {0};
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

/* A queue takes what it has completion slots for, also when its SQEs were fetched. */
static void t_slots(void **state)
{
	struct peal_sqe sqe = {0};
	struct peal_cqe c = {0};
	struct side s;

	start(&s);
	for (uint32_t i = 0; i < SIZE - 1; i++)
		assert_int_equal(peal_device_put(&s.q, &sqe), 1);
	peal_device_ring(&s.q);
	fetch(&s);
	answer(&s, 0);
	assert_int_equal(peal_device_reap(&s.q, &c), 1);
	assert_int_equal(peal_device_put(&s.q, &sqe), 1);
	assert_int_equal(peal_device_put(&s.q, &sqe), 0);
}

/* ---- waves, by one lane ---- */

static const struct peal_lane one = {0, 1, NULL, NULL};

static void wave_put(struct side *s, uint32_t nr, struct peal_result *res)
{
	struct peal_sqe sqe = {0};

	assert_int_equal(peal_wave_begin(&s->q, nr), 1);
	for (uint32_t i = 0; i < nr; i++) {
		sqe.cdw10 = 1000 + i;
		peal_wave_put(&s->q, i, &sqe, res);
	}
	peal_wave_ring(&s->q, &one);
	fetch(s);
}

static void t_wave(void **state)
{
	struct peal_result res[SIZE];
	struct rng rng;
	struct side s;

	rng_init(&rng, unit_seed(1));
	start(&s);
	for (unsigned lap = 0; lap < 500; lap++) {
		uint32_t nr = 1 + (uint32_t)rng_below(&rng, SIZE - 1);

		wave_put(&s, nr, res);
		assert_int_equal(s.nr_got, nr);
		while (s.nr_got)
			answer(&s, (uint32_t)rng_below(&rng, s.nr_got));
		assert_int_equal(peal_wave_reap(&s.q, &one, res, 0), PEAL_WAVE_OVER);
		for (uint32_t i = 0; i < nr; i++) {
			assert_int_equal(res[i].status, 0x87);
			assert_int_equal(res[i].dw0, 1000 + i);
		}
		assert_int_equal(bell(&s, 0x1000 + (2 * 3 + 1) * 4), s.cq_tail);
	}
}

/* Late: what is there is good, nothing is given back, and the rest comes with the next reap. */
static void t_wave_late(void **state)
{
	struct peal_result res[SIZE];
	uint32_t stop = 1;
	struct side s;

	start(&s);
	wave_put(&s, 4, res);
	answer(&s, 1);
	assert_int_equal(peal_wave_reap(&s.q, &one, res, 0), PEAL_WAVE_LATE);
	assert_int_equal(res[1].status, 0x87);
	assert_int_equal(res[0].status, PEAL_ST_PENDING);
	assert_int_equal(peal_wave_begin(&s.q, 1), 0);
	assert_int_equal(bell(&s, 0x1000 + (2 * 3 + 1) * 4), 0);
	s.q.stop = &stop;
	assert_int_equal(peal_wave_reap(&s.q, &one, res, UINT64_MAX), PEAL_WAVE_LATE);
	while (s.nr_got)
		answer(&s, 0);
	assert_int_equal(peal_wave_reap(&s.q, &one, res, 0), PEAL_WAVE_OVER);
	assert_int_equal(res[0].dw0, 1000);
	assert_int_equal(peal_wave_begin(&s.q, 1), 1);
}

/* A controller that answers what nobody asked, or one command twice. */
static void t_wave_bad(void **state)
{
	struct peal_result res[SIZE];
	struct side s;

	start(&s);
	wave_put(&s, 2, res);
	s.got[0].cid ^= 0x8000;
	answer(&s, 0);
	assert_int_equal(peal_wave_reap(&s.q, &one, res, 0), PEAL_WAVE_BAD);

	start(&s);
	wave_put(&s, 2, res);
	s.got[0].cid = s.got[1].cid;
	answer(&s, 0);
	answer(&s, 0);
	assert_int_equal(peal_wave_reap(&s.q, &one, res, 0), PEAL_WAVE_BAD);
}

static void t_wave_size(void **state)
{
	struct peal_result res[SIZE];
	struct side s;

	start(&s);
	assert_int_equal(peal_wave_begin(&s.q, 0), 0);
	assert_int_equal(peal_wave_begin(&s.q, SIZE), 0);
	/* CIDs never reach FFFFh and differ from wave to wave. */
	for (uint32_t i = 0, last = 1; i < 100; i++, last = s.q.cid) {
		wave_put(&s, SIZE - 1, res);
		assert_true(s.q.cid != last && s.q.cid + SIZE - 2 < 0xffff);
		while (s.nr_got)
			answer(&s, 0);
		assert_int_equal(peal_wave_reap(&s.q, &one, res, 0), PEAL_WAVE_OVER);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_laps),      cmocka_unit_test(t_full),
		cmocka_unit_test(t_slots),     cmocka_unit_test(t_wave),
		cmocka_unit_test(t_wave_late), cmocka_unit_test(t_wave_bad),
		cmocka_unit_test(t_wave_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
