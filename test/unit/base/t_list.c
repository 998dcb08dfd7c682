/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list.h: order, removal inside a loop, splicing, and nodes that know whether they are linked. One
 * thread.
 */
#include "unit.h"

#include "base/list.h"

struct item {
	int v;
	struct list node;
};

static void fill(struct list *head, struct item *items, int nr, int first)
{
	for (int i = 0; i < nr; i++) {
		items[i].v = first + i;
		list_init(&items[i].node);
		list_add_tail(head, &items[i].node);
	}
}

static void assert_order(struct list *head, const int *want, int nr)
{
	struct item *it;
	int i = 0;

	list_for_each_entry(it, head, node) {
		assert_true(i < nr);
		assert_int_equal(it->v, want[i++]);
	}
	assert_int_equal(i, nr);
}

static void t_order(void **state)
{
	struct list head = LIST_INIT(head);
	struct item items[3], front = {.v = 9};

	assert_true(list_is_empty(&head));
	assert_order(&head, NULL, 0);
	fill(&head, items, 3, 1);
	list_add_head(&head, &front.node);
	assert_order(&head, (int[]){9, 1, 2, 3}, 4);
	assert_ptr_equal(list_first_entry(&head, struct item, node), &front);
	assert_ptr_equal(list_last_entry(&head, struct item, node), &items[2]);
}

static void t_del(void **state)
{
	struct list head = LIST_INIT(head);
	struct item items[3];

	fill(&head, items, 3, 1);
	assert_true(list_is_linked(&items[1].node));
	list_del(&items[1].node);
	assert_false(list_is_linked(&items[1].node));
	assert_order(&head, (int[]){1, 3}, 2);
	list_del(&items[1].node);
	assert_order(&head, (int[]){1, 3}, 2);
	list_del(&items[0].node);
	list_del(&items[2].node);
	assert_true(list_is_empty(&head));
}

static void t_safe_loop(void **state)
{
	struct list head = LIST_INIT(head);
	struct item items[6], *it, *tmp;

	fill(&head, items, 6, 0);
	list_for_each_entry_safe(it, tmp, &head, node) {
		if (it->v % 2 == 0)
			list_del(&it->node);
	}
	assert_order(&head, (int[]){1, 3, 5}, 3);
	list_for_each_entry_safe(it, tmp, &head, node)
		list_del(&it->node);
	assert_true(list_is_empty(&head));
}

/* Type and head so that an entry made of the head would lie wrong: UBSan looks at this one. */
struct wide {
	uint64_t v[8] __attribute__((aligned(64)));
	struct list node;
};

static void t_wide_entries(void **state)
{
	struct list pad[3], *head = &pad[1];
	struct wide items[2], *it, *tmp;
	int nr = 0;

	list_init(head);
	list_for_each_entry(it, head, node)
		nr++;
	assert_int_equal(nr, 0);
	list_add_tail(head, &items[0].node);
	list_add_tail(head, &items[1].node);
	list_for_each_entry(it, head, node)
		assert_ptr_equal(it, &items[nr++]);
	list_for_each_entry_safe(it, tmp, head, node) {
		assert_ptr_equal(tmp, it == &items[0] ? &items[1] : NULL);
		list_del(&it->node);
	}
	assert_true(list_is_empty(head));
}

static void t_splice(void **state)
{
	struct list a = LIST_INIT(a), b = LIST_INIT(b);
	struct item items[4];

	fill(&a, items, 2, 1);
	list_splice_tail(&a, &b);
	assert_order(&a, (int[]){1, 2}, 2);
	fill(&b, items + 2, 2, 3);
	list_splice_tail(&a, &b);
	assert_order(&a, (int[]){1, 2, 3, 4}, 4);
	assert_true(list_is_empty(&b));
	list_splice_tail(&b, &a);
	assert_order(&b, (int[]){1, 2, 3, 4}, 4);
	assert_true(list_is_empty(&a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_order),     cmocka_unit_test(t_del),
		cmocka_unit_test(t_safe_loop), cmocka_unit_test(t_wide_entries),
		cmocka_unit_test(t_splice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
