/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fifo.h: first in, first out, also across running empty, pushing back in front and splicing. One
 * thread.
 */
#include "unit.h"

#include "base/fifo.h"

struct item {
	int v;
	struct fifo_node node;
};

static int pop_v(struct fifo *f)
{
	struct fifo_node *n = fifo_pop(f);

	return n ? fifo_entry(n, struct item, node)->v : -1;
}

static void t_order(void **state)
{
	struct item items[4] = {{0}, {1}, {2}, {3}};
	struct fifo f;

	fifo_init(&f);
	for (int round = 0; round < 3; round++) {
		assert_true(fifo_is_empty(&f));
		assert_null(fifo_pop(&f));
		for (int i = 0; i < 4; i++)
			fifo_push(&f, &items[i].node);
		assert_ptr_equal(fifo_peek(&f), &items[0].node);
		for (int i = 0; i < 4; i++)
			assert_int_equal(pop_v(&f), i);
	}
}

static void t_push_front(void **state)
{
	struct item items[3] = {{0}, {1}, {2}};
	struct fifo f;

	fifo_init(&f);
	fifo_push_front(&f, &items[1].node);
	fifo_push(&f, &items[2].node);
	fifo_push_front(&f, &items[0].node);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pop_v(&f), i);
	assert_true(fifo_is_empty(&f));
}

static void t_splice(void **state)
{
	struct item items[4] = {{0}, {1}, {2}, {3}};
	struct fifo a, b;

	fifo_init(&a);
	fifo_init(&b);
	fifo_splice(&a, &b);
	assert_true(fifo_is_empty(&a));
	fifo_push(&b, &items[0].node);
	fifo_push(&b, &items[1].node);
	fifo_splice(&a, &b);
	assert_true(fifo_is_empty(&b));
	fifo_push(&b, &items[2].node);
	fifo_splice(&a, &b);
	fifo_push(&a, &items[3].node);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pop_v(&a), i);
	assert_null(fifo_pop(&a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_order),
		cmocka_unit_test(t_push_front),
		cmocka_unit_test(t_splice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
