/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spsc.h: full and empty are exact for one thread, and between two threads every pointer arrives
 * once, in order, with what was written behind it. The second test is what ThreadSanitizer looks
 * at.
 */
#include "unit.h"

#include <pthread.h>
#include <sched.h>

#include "base/spsc.h"

#define NR_MSGS 200000

static void t_full_empty(void **state)
{
	struct spsc r;
	int v[8];

	assert_int_equal(spsc_init(&r, 4), 0);
	for (int round = 0; round < 10; round++) {
		assert_null(spsc_pop(&r));
		for (int i = 0; i < 4; i++)
			assert_true(spsc_push(&r, &v[i]));
		assert_false(spsc_push(&r, &v[4]));
		assert_int_equal(spsc_count(&r), 4);
		assert_ptr_equal(spsc_pop(&r), &v[0]);
		assert_true(spsc_push(&r, &v[5]));
		for (int i = 1; i < 4; i++)
			assert_ptr_equal(spsc_pop(&r), &v[i]);
		assert_ptr_equal(spsc_pop(&r), &v[5]);
		assert_int_equal(spsc_count(&r), 0);
	}
	spsc_fini(&r);
}

static void t_index_wrap(void **state)
{
	struct spsc r;
	int v;

	assert_int_equal(spsc_init(&r, 2), 0);
	/* The indices run through 2^32; put them just below. */
	atomic_store(&r.head, UINT32_MAX - 1);
	atomic_store(&r.tail, UINT32_MAX - 1);
	r.head_seen = UINT32_MAX - 1;
	r.tail_seen = UINT32_MAX - 1;
	for (int i = 0; i < 8; i++) {
		assert_true(spsc_push(&r, &v));
		assert_true(spsc_push(&r, &v));
		assert_false(spsc_push(&r, &v));
		assert_ptr_equal(spsc_pop(&r), &v);
		assert_ptr_equal(spsc_pop(&r), &v);
		assert_null(spsc_pop(&r));
	}
	spsc_fini(&r);
}

struct shared {
	struct spsc ring;
	uint64_t msgs[NR_MSGS];
};

static void *produce(void *arg)
{
	struct shared *s = arg;

	for (uint64_t i = 0; i < NR_MSGS; i++) {
		s->msgs[i] = i + 1;
		while (!spsc_push(&s->ring, &s->msgs[i]))
			sched_yield();
	}
	return NULL;
}

static void t_two_threads(void **state)
{
	struct shared *s = calloc(1, sizeof(*s));
	uint64_t *p, nr_bad = 0;
	pthread_t t;

	assert_non_null(s);
	assert_int_equal(spsc_init(&s->ring, 64), 0);
	assert_int_equal(pthread_create(&t, NULL, produce, s), 0);
	for (uint64_t i = 0; i < NR_MSGS; i++) {
		while (!(p = spsc_pop(&s->ring)))
			sched_yield();
		nr_bad += p != &s->msgs[i] || *p != i + 1;
	}
	pthread_join(t, NULL);
	assert_int_equal(nr_bad, 0);
	assert_null(spsc_pop(&s->ring));
	spsc_fini(&s->ring);
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_full_empty),
		cmocka_unit_test(t_index_wrap),
		cmocka_unit_test(t_two_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
