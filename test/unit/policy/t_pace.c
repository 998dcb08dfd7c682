/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pace.c: whatever is asked and however often, never more than the rate and a burst; and all of the
 * rate for who always has something to do.
 */
#include "unit.h"

#include "base/rng.h"
#include "policy/pace.h"

static void no_limit(void **state)
{
	struct pace p;
	uint64_t wait = 0;

	pace_init(&p, 0, 5);
	pace_spend(&p, 1ull << 60);
	assert_true(pace_may(&p, 5, &wait));
	assert_int_equal(wait, 0);
}

static void debt(void **state)
{
	struct pace p;
	uint64_t wait = 0;

	pace_init(&p, 1 << 20, 0);
	assert_true(pace_may(&p, 0, &wait));
	pace_spend(&p, 3 << 20);
	assert_false(pace_may(&p, 0, &wait));
	assert_in_range(wait, 2000000000, 2000002000);
	assert_false(pace_may(&p, wait - 3000, &(uint64_t){0}));
	assert_true(pace_may(&p, wait, &(uint64_t){0}));
}

static void rates(void **state)
{
	struct rng r;

	rng_init(&r, unit_seed(4));
	for (unsigned n = 0; n < 200; n++) {
		uint64_t rate = 1 + rng_below(&r, rng_chance(&r, 1, 2) ? 1000 : 8ull << 30);
		uint64_t now = rng_below(&r, 1ull << 40), begin = now, sum = 0, wait, len;
		struct pace p;

		pace_init(&p, rate, now);
		for (unsigned i = 0; i < 400; i++) {
			/* Asked in vain, too. */
			now += rng_below(&r, 3) ? 0 : rng_below(&r, 1000);
			wait = 0;
			if (!pace_may(&p, now, &wait)) {
				assert_true(wait > 0);
				now += wait;
				assert_true(pace_may(&p, now, &wait));
			}
			len = 1 + rng_below(&r, 1 << 20);
			pace_spend(&p, len);
			sum += len;
		}
		/* A burst, and a debt of one request. */
		assert_true((double)sum <= (double)(now - begin) / 1e9 * (double)rate +
						   (double)rate / 10 + (2 << 20));
		assert_true((double)sum + 1 >= (double)(now - begin) / 1e9 * (double)rate * 0.99);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_limit),
		cmocka_unit_test(debt),
		cmocka_unit_test(rates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
