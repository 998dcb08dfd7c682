/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeout.c: the wheel against a plain array, over spans from one tick to years; never early, never
 * later than the tick after; set again from inside fn; the bound per run. One thread, a clock of
 * its own.
 */
#include "unit.h"

#include "base/container.h"
#include "base/rng.h"
#include "core/timeout_int.h"

#define TICK_NS (1ull << TIMEOUT_TICK_SHIFT)
#define NR_TIMEOUTS 300

struct item {
	struct timeout t;
	uint64_t want_ns; /* 0 = not set */
	unsigned nr_fired;
};

static uint64_t now_ns;

static void item_fn(struct timeout *t)
{
	struct item *it = container_of(t, struct item, t);

	assert_false(timeout_is_set(t));
	assert_true(it->want_ns != 0 && now_ns >= it->want_ns);
	it->want_ns = 0;
	it->nr_fired++;
}

static uint64_t some_span(struct rng *rng)
{
	return rng_u64(rng) >> (12 + rng_below(rng, 50));
}

static void check(struct timeout_wheel *w, struct item *items)
{
	uint64_t next_ns = timeout_wheel_next_ns(w);

	for (int i = 0; i < NR_TIMEOUTS; i++) {
		uint64_t want_ns = items[i].want_ns;

		assert_int_equal(timeout_is_set(&items[i].t), want_ns != 0);
		/* Whatever is a whole tick old has fired, and the wheel never oversleeps. */
		assert_true(!want_ns || want_ns + TICK_NS > now_ns);
		assert_true(!want_ns || next_ns < want_ns + TICK_NS);
	}
}

static void t_random(void **state)
{
	static struct timeout_wheel w;
	static struct item items[NR_TIMEOUTS];
	struct rng rng;

	rng_init(&rng, unit_seed(1));
	now_ns = some_span(&rng);
	timeout_wheel_init(&w, now_ns);
	for (int i = 0; i < NR_TIMEOUTS; i++)
		timeout_init(&items[i].t, item_fn);
	for (int step = 0; step < 100000; step++) {
		struct item *it = &items[rng_below(&rng, NR_TIMEOUTS)];
		uint64_t op = rng_below(&rng, 100), next_ns;

		if (op < 60) {
			it->want_ns = now_ns + some_span(&rng) + 1;
			timeout_wheel_set(&w, &it->t, it->want_ns);
		} else if (op < 80) {
			it->want_ns = 0;
			timeout_cancel(&it->t);
		} else {
			next_ns = timeout_wheel_next_ns(&w);
			if (op < 90 && next_ns != UINT64_MAX && next_ns > now_ns)
				now_ns = next_ns;
			else
				now_ns += some_span(&rng) >> 8;
			while (timeout_wheel_run(&w, now_ns, 16) > 0)
				;
			check(&w, items);
		}
	}
	timeout_wheel_fini(&w);
	for (int i = 0; i < NR_TIMEOUTS; i++)
		assert_false(timeout_is_set(&items[i].t));
}

static void t_unset_forms(void **state)
{
	struct timeout t = {.fn = item_fn};

	assert_false(timeout_is_set(&t));
	timeout_cancel(&t);
	timeout_init(&t, item_fn);
	assert_false(timeout_is_set(&t));
	timeout_cancel(&t);
}

static void t_far(void **state)
{
	static struct timeout_wheel w;
	struct item it = {.want_ns = UINT64_MAX};

	timeout_wheel_init(&w, 5);
	timeout_init(&it.t, item_fn);
	assert_int_equal(timeout_wheel_next_ns(&w), UINT64_MAX);
	assert_false(timeout_wheel_set(&w, &it.t, UINT64_MAX));
	now_ns = UINT64_MAX - TICK_NS;
	assert_int_equal(timeout_wheel_run(&w, now_ns, 1), 0);
	assert_true(timeout_is_set(&it.t));
	timeout_wheel_fini(&w);
}

static struct timeout_wheel again_w;

static void again_fn(struct timeout *t)
{
	struct item *it = container_of(t, struct item, t);

	it->nr_fired++;
	timeout_wheel_set(&again_w, t, it->want_ns);
}

/* One that sets itself to the past fires at most `max` times a run, and others get their turn. */
static void t_again(void **state)
{
	struct item a = {.want_ns = 0}, b = {.want_ns = 1};

	timeout_wheel_init(&again_w, 10 * TICK_NS);
	timeout_init(&a.t, again_fn);
	timeout_init(&b.t, item_fn);
	now_ns = 10 * TICK_NS;
	assert_true(timeout_wheel_set(&again_w, &a.t, 0));
	assert_true(timeout_wheel_set(&again_w, &b.t, 1));
	assert_int_equal(timeout_wheel_next_ns(&again_w), 0);
	assert_int_equal(timeout_wheel_run(&again_w, now_ns, 4), 4);
	assert_int_equal(a.nr_fired, 3);
	assert_int_equal(b.nr_fired, 1);
	timeout_wheel_fini(&again_w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_random),
		cmocka_unit_test(t_unset_forms),
		cmocka_unit_test(t_far),
		cmocka_unit_test(t_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
