/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_gate.c: per key one at a time in order of arrival, keys of one bucket apart, reads past
 * it.
 */
#include "puppet.h"

#include "store/store_gate_int.h"

#define NR_IOS 40

/* Random arrivals and ends of 5 keys in one bucket, against a queue per key. */
static void t_order(void **state)
{
	struct store_gate g;
	struct store_io io[NR_IOS] = {0}, *next;
	unsigned queue[5][NR_IOS], nr[5] = {0}, free_ios[NR_IOS], nr_free = 0, waits = 0;
	struct rng rng;

	rng_init(&rng, unit_seed(11));
	assert_int_equal(store_gate_init(&g), 0);
	for (unsigned i = 0; i < NR_IOS; i++)
		free_ios[nr_free++] = i;
	for (unsigned round = 0; round < 20000; round++) {
		unsigned key = (unsigned)rng_below(&rng, 5);
		bool add = nr_free && rng_chance(&rng, round < 19000 ? 1 : 0, 2);

		if (add) {
			unsigned i = free_ios[--nr_free];

			io[i].key = world_key(key);
			io[i].key.hash = 77 + 1024 * key;
			assert_int_equal(store_gate_enter(&g, &io[i]), nr[key] == 0);
			waits += nr[key] > 0;
			queue[key][nr[key]++] = i;
		} else if (nr[key]) {
			next = store_gate_leave(&g, &io[queue[key][0]]);
			free_ios[nr_free++] = queue[key][0];
			memmove(&queue[key][0], &queue[key][1], --nr[key] * sizeof(unsigned));
			assert_ptr_equal(next, nr[key] ? &io[queue[key][0]] : NULL);
		}
	}
	for (unsigned key = 0; key < 5; key++)
		for (unsigned i = 0; i < nr[key]; i++)
			store_gate_leave(&g, &io[queue[key][i]]);
	assert_int_equal(counter_get(&g.waits), waits);
	store_gate_fini(&g);
}

/* Through the door: a thousand mutations of one key and some of another, one under way each. */
static void t_door(void **state)
{
	enum { NR = 1000 };
	static struct world_io wi[NR], get, other;
	static const enum store_op ops[] = {STORE_PUT, STORE_DEL, STORE_FILL, STORE_INVAL};
	struct puppet *p = puppet_create(NULL);
	struct world w;

	world_init(&w, 1, 1);
	world_set(&w, 1, 1 << 20);
	store_set_push(w.set, 0, &p->st);
	for (unsigned i = 0; i < NR; i++) {
		wi[i].io.op = (uint8_t)ops[i % 4];
		wi[i].io.key = world_key(1);
		wi[i].io.view.st = &p->st;
		world_start(&w, 0, &wi[i]);
	}
	assert_int_equal(p->nr_held, 1);
	other.io.op = STORE_DEL;
	other.io.key = world_key(2);
	world_start(&w, 0, &other);
	get.io.op = STORE_GET;
	get.io.key = world_key(1);
	world_start(&w, 0, &get);
	assert_int_equal(p->nr_held, 3);
	store_done(puppet_take(p, 2), -ENOENT);
	store_done(puppet_take(p, 1), 0);
	assert_true(get.is_over && other.is_over);
	for (unsigned i = 0; i < NR; i++) {
		while (p->nr_held == 0)
			world_step(&w);
		assert_int_equal(p->nr_held, 1);
		assert_ptr_equal(p->held[0], &wi[i].io);
		assert_false(wi[i].is_over);
		store_done(puppet_take(p, 0), 0);
		assert_true(wi[i].is_over);
	}
	assert_int_equal(p->nr_released, NR / 2);
	world_fini(&w);
}

/* Waiters that complete at once when their turn comes: no stack of a thousand frames, a bounded
 * turn each. */
static void t_burst(void **state)
{
	enum { NR = 1000 };
	static struct world_io wi[NR];
	struct puppet *p = puppet_create(NULL);
	struct world w;

	world_init(&w, 1, 1);
	world_set(&w, 1, 1 << 20);
	store_set_push(w.set, 0, &p->st);
	for (unsigned i = 0; i < NR; i++) {
		wi[i].io.op = STORE_DEL;
		wi[i].io.key = world_key(1);
		world_start(&w, 0, &wi[i]);
	}
	p->play = puppet_done;
	store_done(puppet_take(p, 0), 0);
	assert_true(wi[0].is_over && !wi[1].is_over);
	world_until(&w, &wi[NR - 1].is_over);
	for (unsigned i = 0; i < NR; i++)
		assert_true(wi[i].is_over);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_order),
		cmocka_unit_test(t_door),
		cmocka_unit_test(t_burst),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
