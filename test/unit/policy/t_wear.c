/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wear.c: the states at their thresholds and back, a page of SMART as devices send it, days to the
 * end at a given rate, and a budget that no burst gets around.
 */
#include "unit.h"

#include "base/le.h"
#include "base/rng.h"
#include "policy/wear.h"

#define HOUR (3600ull * 1000000000)
#define DAY (24 * HOUR)

static struct wear_smart smart(unsigned used, unsigned spare, unsigned critical)
{
	return (struct wear_smart){.used = (uint8_t)used,
				   .spare = (uint8_t)spare,
				   .spare_threshold = 10,
				   .critical = (uint8_t)critical};
}

static enum wear_state state_after(struct wear *w, struct wear_smart s)
{
	enum wear_state was = w->state;
	bool is_new = wear_look(w, &s);

	assert_int_equal(is_new, w->state != was);
	return w->state;
}

static void states(void **state)
{
	struct wear w;

	wear_init(&w, &(struct wear_opts){0}, 0);
	assert_true(wear_may_write(&w));
	assert_int_equal(state_after(&w, smart(69, 100, 0)), WEAR_OK);
	assert_int_equal(state_after(&w, smart(70, 100, 0)), WEAR_WARN);
	assert_int_equal(state_after(&w, smart(79, 100, 0)), WEAR_WARN);
	assert_true(wear_may_write(&w));
	assert_int_equal(state_after(&w, smart(80, 100, 0)), WEAR_NO_WRITE);
	assert_false(wear_may_write(&w));
	assert_int_equal(state_after(&w, smart(255, 100, 0)), WEAR_NO_WRITE);
	/* Back only by a margin. */
	assert_int_equal(state_after(&w, smart(77, 100, 0)), WEAR_NO_WRITE);
	assert_int_equal(state_after(&w, smart(76, 100, 0)), WEAR_WARN);
	assert_int_equal(state_after(&w, smart(67, 100, 0)), WEAR_WARN);
	assert_int_equal(state_after(&w, smart(66, 100, 0)), WEAR_OK);
}

static void spare(void **state)
{
	struct wear w;

	wear_init(&w, &(struct wear_opts){0}, 0);
	assert_int_equal(state_after(&w, smart(1, 21, 0)), WEAR_OK);
	assert_int_equal(state_after(&w, smart(1, 20, 0)), WEAR_WARN);
	assert_int_equal(state_after(&w, smart(1, 10, 0)), WEAR_NO_WRITE);
	assert_int_equal(state_after(&w, smart(1, 13, 0)), WEAR_NO_WRITE);
	assert_int_equal(state_after(&w, smart(1, 14, 0)), WEAR_WARN);
	assert_int_equal(state_after(&w, smart(1, 24, 0)), WEAR_OK);
	/* Bits: temperature and the memory's back-up are no reason, the other three are. */
	assert_int_equal(state_after(&w, smart(1, 100, 0x12)), WEAR_OK);
	for (unsigned bit = 0; bit < 4; bit++) {
		if (bit == 1)
			continue;
		assert_int_equal(state_after(&w, smart(1, 100, 1u << bit)), WEAR_NO_WRITE);
		assert_int_equal(state_after(&w, smart(1, 100, 0)), WEAR_OK);
	}
	/* One that doesn't tell of its spare. */
	assert_false(wear_look(&w, &(struct wear_smart){.used = 3}));
}

static void override(void **state)
{
	struct wear w;

	wear_init(&w, &(struct wear_opts){.warn_used = 40, .stop_used = 50}, 0);
	state_after(&w, smart(50, 100, 0));
	assert_false(wear_may_write(&w));
	w.override = WEAR_WRITE;
	assert_true(wear_may_write(&w));
	state_after(&w, smart(10, 100, 0));
	w.override = WEAR_STOP;
	assert_false(wear_may_write(&w));
	w.override = WEAR_AUTO;
	assert_true(wear_may_write(&w));
}

static void page(void **state)
{
	uint8_t p[WEAR_PAGE_BYTES] = {0};
	struct wear_smart s;

	p[0] = 4;
	p[3] = 98;
	p[4] = 10;
	p[5] = 37;
	le64_put(p + 48, 1000000);
	le64_put(p + 160, 5);
	wear_parse(p, &s);
	assert_int_equal(s.critical, 4);
	assert_int_equal(s.spare, 98);
	assert_int_equal(s.spare_threshold, 10);
	assert_int_equal(s.used, 37);
	assert_int_equal(s.written_bytes, 512000000000ull);
	assert_int_equal(s.media_errors, 5);
	p[60] = 1;
	wear_parse(p, &s);
	assert_int_equal(s.written_bytes, UINT64_MAX);
}

static void days(void **state)
{
	struct wear w;
	struct wear_smart s = smart(20, 100, 0);

	/* A fifth of its life took 200 TB: 800 are left. */
	s.written_bytes = 200000000000000ull;
	wear_init(&w, &(struct wear_opts){0}, 77);
	assert_int_equal(wear_days_left(&w), WEAR_DAYS_UNKNOWN);
	wear_look(&w, &s);
	assert_int_equal(wear_days_left(&w), WEAR_DAYS_UNKNOWN); /* no rate yet */
	for (uint64_t h = 1; h <= 100; h++)
		wear_wrote(&w, 77 + h * HOUR, h * 1000000000000ull); /* 1 TB an hour */
	assert_in_range(wear_day_bytes(&w), 23000000000000ull, 25100000000000ull);
	assert_in_range(wear_days_left(&w), 31, 35);
	/* A maker's word counts for more. */
	w.o.endurance_bytes = 480000000000000ull;
	assert_in_range(wear_days_left(&w), 15, 17);
	/* Somebody else writes as much again; SMART shows both. */
	for (uint64_t h = 101; h <= 140; h++) {
		s.written_bytes += 2000000000000ull;
		wear_look(&w, &s);
		wear_wrote(&w, 77 + h * HOUR, h * 1000000000000ull);
	}
	assert_in_range(wear_day_bytes(&w), 46000000000000ull, 50100000000000ull);
	/* Nothing for days: no end in sight. */
	wear_wrote(&w, 77 + 400 * HOUR, 140000000000000ull);
	assert_int_equal(wear_day_bytes(&w), 0);
	assert_int_equal(wear_days_left(&w), WEAR_DAYS_UNKNOWN);
	s.used = 100;
	wear_look(&w, &s);
	assert_int_equal(wear_days_left(&w), 0);
}

/* However it is asked: in any stretch of a day no more than a day's and the burst. */
static void budget(void **state)
{
	const uint64_t day_bytes = 1000000;
	struct wear_budget b;
	uint64_t now = 5, sum = 0, begin = now;
	struct rng r;

	rng_init(&r, unit_seed(7));
	wear_budget_init(&b, day_bytes, now);
	for (unsigned i = 0; i < 100000; i++) {
		now += rng_below(&r, HOUR / 10);
		if (!wear_budget_level(&b, now))
			continue;
		sum += 5000;
		wear_budget_spend(&b, 5000);
		assert_true(sum <= (unsigned __int128)(now - begin) * day_bytes / DAY +
					   day_bytes / 4 + 5000);
	}
	/* And it is not much less. */
	assert_true(sum >= (unsigned __int128)(now - begin) * day_bytes / DAY * 99 / 100);
	/* After a long rest a quarter of a day, not more. */
	now += 100 * DAY;
	assert_int_equal(wear_budget_level(&b, now), 1024);
	for (sum = 0; wear_budget_level(&b, now); sum += 5000)
		wear_budget_spend(&b, 5000);
	assert_in_range(sum, day_bytes / 4, day_bytes / 4 + 5000);
}

static void no_budget(void **state)
{
	struct wear_budget b;

	wear_budget_init(&b, 0, 0);
	wear_budget_spend(&b, UINT64_MAX / 2);
	assert_int_equal(wear_budget_level(&b, 1), 1024);
	wear_budget_set(&b, 24000, HOUR);
	assert_int_equal(wear_budget_level(&b, HOUR), 512);
	wear_budget_spend(&b, 12000);
	assert_int_equal(wear_budget_level(&b, HOUR), 0);
	assert_int_equal(wear_budget_level(&b, 9 * HOUR), 0);
	assert_int_not_equal(wear_budget_level(&b, 11 * HOUR), 0);
	wear_budget_set(&b, 0, HOUR);
	assert_int_equal(wear_budget_level(&b, HOUR), 1024);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(states),    cmocka_unit_test(spare), cmocka_unit_test(override),
		cmocka_unit_test(page),	     cmocka_unit_test(days),  cmocka_unit_test(budget),
		cmocka_unit_test(no_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
