/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssd_pace.c: writes of values keep to their rate and nobody polls meanwhile; who needs a tombstone
 * waits for none of them, nor does the end.
 */
#include "ssd_world.h"

#define RATE (1u << 20)
#define LEN 60000u
#define NR_PUTS 120u
#define SOME_STEPS 50000u

struct paced {
	struct ssd_world *sw;
	struct store_ssd_care care;
	struct world_io put[NR_PUTS];
	unsigned nr_over;
};

static void buffed(struct paced *p, struct world_io *wi, uint32_t no)
{
	*wi = (struct world_io){.io = {.op = STORE_BUF, .key = world_key(no), .len = LEN}};
	assert_int_equal(world_run(&p->sw->w, 0, wi), 0);
	world_fill(&wi->io.view, &wi->io.key, 2);
	wi->io.op = STORE_PUT;
	world_start(&p->sw->w, 0, wi);
}

/* One that is there, then many puts, most of which have to wait. */
static struct paced *paced(void)
{
	struct paced *p = calloc(1, sizeof(*p));

	must(p);
	p->sw = ssd_world_create(64 << 20, 4 << 20);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(world_put(&p->sw->w, i, 1, 100), 0);
	p->care.rate_bytes = RATE;
	p->sw->o.care = &p->care;
	ssd_world_again(p->sw);
	for (uint32_t i = 0; i < NR_PUTS; i++)
		buffed(p, &p->put[i], 100 + i);
	return p;
}

static unsigned nr_over(const struct paced *p)
{
	unsigned nr = 0;

	for (uint32_t i = 0; i < NR_PUTS; i++) {
		nr += p->put[i].is_over;
		assert_int_equal(p->put[i].is_over ? p->put[i].res : 0, 0);
	}
	return nr;
}

static void ended(struct paced *p)
{
	for (uint32_t i = 0; i < NR_PUTS; i++)
		world_until(&p->sw->w, &p->put[i].is_over);
	assert_int_equal(nr_over(p), NR_PUTS);
	p->sw->o.care = NULL;
	ssd_world_destroy(p->sw);
	free(p);
}

static void tombstones(void **state)
{
	struct paced *p = paced();

	for (uint32_t i = 0; i < 4; i++) {
		struct world_io del = {.io = {.op = STORE_DEL, .key = world_key(i)}};

		for (uint32_t n = 0; n < 2000; n++)
			world_step(&p->sw->w);
		world_start(&p->sw->w, 0, &del);
		for (uint32_t n = 0; n < SOME_STEPS && !del.is_over; n++)
			world_step(&p->sw->w);
		assert_true(del.is_over);
		assert_int_equal(del.res, 0);
	}
	/* 7 MiB at one MiB a second: they are still waiting. */
	assert_true(nr_over(p) < NR_PUTS - 20);
	store_set_ending(p->sw->w.set);
	ended(p);
}

static void keeps_rate(void **state)
{
	struct paced *p = paced();
	uint64_t begin, steps = 0, busy = 0;

	for (uint32_t n = 0; n < SOME_STEPS; n++)
		world_step(&p->sw->w);
	begin = p->sw->w.clock_ns;
	assert_true(nr_over(p) < NR_PUTS / 2);
	while (nr_over(p) < NR_PUTS) {
		p->sw->w.clock_ns += 100000;
		steps++;
		busy += reactor_step(p->sw->w.r[0]) != 0;
	}
	/* What waits costs no turn: turns that did something are as many as writes, or so. */
	printf("%llu of %llu turns, %.1f s\n", (unsigned long long)busy, (unsigned long long)steps,
	       (double)(p->sw->w.clock_ns - begin) / 1e9);
	assert_true(busy < steps / 10);
	assert_true(p->sw->w.clock_ns - begin > 4ull * 1000000000);
	assert_true(p->sw->w.clock_ns - begin < 9ull * 1000000000);
	ended(p);
}

static void end(void **state)
{
	struct paced *p = paced();
	uint64_t begin = p->sw->w.clock_ns;

	assert_true(nr_over(p) < NR_PUTS / 2);
	store_set_ending(p->sw->w.set);
	for (uint32_t n = 0; n < SOME_STEPS && nr_over(p) < NR_PUTS; n++)
		world_step(&p->sw->w);
	assert_int_equal(nr_over(p), NR_PUTS);
	assert_true(p->sw->w.clock_ns - begin < 1000000000);
	ended(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tombstones),
		cmocka_unit_test(keeps_rate),
		cmocka_unit_test(end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
