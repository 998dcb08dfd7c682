/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c: each fault by itself does what it says and nothing else; the same seed does the same. */
#include "puppet.h"
#include "store/store_make.h"

#define NR_KEYS 200

static void over_mem(struct world *w, const struct store_fault_opts *o)
{
	world_init(w, 1, unit_seed(13));
	world_set(w, 1, 1 << 20);
	store_set_push(w->set, 0, store_fault_create(o));
	store_set_push(w->set, 0, store_mem_create());
}

static void t_none(void **state)
{
	struct world w;

	over_mem(&w, &(struct store_fault_opts){.seed = 1});
	for (uint32_t i = 0; i < NR_KEYS; i++)
		assert_int_equal(world_put(&w, i, i, 1 + i * 500), 0);
	for (uint32_t i = 0; i < NR_KEYS; i++)
		assert_int_equal(world_get(&w, i, i, 1 + i * 500), 0);
	world_fini(&w);
}

static void t_fail(void **state)
{
	struct world w;
	struct store_door_stats door;
	struct store_stats st;
	unsigned nr_fail = 0, nr_hidden = 0;
	bool is_put[NR_KEYS];

	over_mem(&w, &(struct store_fault_opts){.seed = 1, .fail_1024 = 300});
	for (uint32_t i = 0; i < NR_KEYS; i++) {
		int res = world_put(&w, i, i, 100);

		assert_true(res == 0 || res == -ENOSPC);
		is_put[i] = res == 0;
		nr_fail += res != 0;
	}
	assert_in_range(nr_fail, 10, NR_KEYS - 10);
	/* A failed put may have happened; an acknowledged one has. */
	for (uint32_t i = 0; i < NR_KEYS; i++) {
		int res = -ENOENT;

		for (unsigned n = 0; n < 40 && res; n++) {
			res = world_get(&w, i, i, 100);
			assert_true(res == 0 || res == -ENOENT);
		}
		assert_true(res == 0 || !is_put[i]);
		nr_hidden += res == 0 && !is_put[i];
	}
	assert_true(nr_hidden > 0);
	store_set_door_stats(w.set, &door);
	assert_int_equal(store_set_stats(w.set, 0, &st), 0);
	assert_true(st.full > 0);
	assert_int_equal(door.unexpected, st.full);
	world_fini(&w);
}

static void t_delay(void **state)
{
	static struct world_io wi[NR_KEYS];
	struct world w;
	unsigned nr_late = 0, nr_order = 0, last = 0, nr_over = 0;
	bool was_over[NR_KEYS] = {0};

	over_mem(&w, &(struct store_fault_opts){.seed = 1, .delay_1024 = 512});
	for (uint32_t i = 0; i < NR_KEYS; i++)
		assert_int_equal(world_put(&w, i, i, 10), 0);
	for (uint32_t i = 0; i < NR_KEYS; i++) {
		wi[i].io.op = STORE_GET;
		wi[i].io.key = world_key(i);
		world_start(&w, 0, &wi[i]);
		nr_late += !wi[i].is_over;
	}
	assert_in_range(nr_late, 50, NR_KEYS - 10);
	while (nr_over < NR_KEYS) {
		world_step(&w);
		for (unsigned i = 0; i < NR_KEYS; i++) {
			if (!wi[i].is_over || was_over[i])
				continue;
			was_over[i] = true;
			nr_over++;
			nr_order += i < last;
			last = i;
			assert_int_equal(wi[i].res, 0);
			assert_true(world_is_gen(&wi[i].io.view, &wi[i].io.key, i));
			store_release(&wi[i].io.view, w.r[0], NULL);
		}
	}
	assert_true(nr_order > 0);
	world_fini(&w);
}

static void t_flip(void **state)
{
	struct world w;
	struct store_stats st;
	unsigned nr_bad = 0;

	over_mem(&w, &(struct store_fault_opts){.seed = 1, .flip_1024 = 512});
	for (uint32_t i = 0; i < NR_KEYS; i++) {
		struct world_io wi = {.io = {.op = STORE_GET, .key = world_key(i)}};
		bool is_bad;

		assert_int_equal(world_put(&w, i, i, 70000), 0);
		assert_int_equal(world_run(&w, 0, &wi), 0);
		is_bad = !world_seals_fit(&wi.io.view, &wi.io.key);
		assert_int_equal(is_bad, !world_is_gen(&wi.io.view, &wi.io.key, i));
		assert_int_equal(wi.io.view.value_len, 70000);
		wi.io.view.is_bad = is_bad;
		nr_bad += is_bad;
		store_release(&wi.io.view, w.r[0], NULL);
	}
	assert_in_range(nr_bad, 50, 150);
	assert_int_equal(store_set_stats(w.set, 0, &st), 0);
	assert_int_equal(st.bad_seals, nr_bad);
	assert_int_equal(w.nr_alerts, nr_bad);
	/* The value below never was bad. */
	assert_int_equal(store_set_stats(w.set, 1, &st), 0);
	assert_int_equal(st.nr_keys, NR_KEYS);
	world_fini(&w);
}

static void t_stale(void **state)
{
	struct world w;
	struct world_io get = {.io = {.op = STORE_GET, .key = world_key(1)}};

	over_mem(&w, &(struct store_fault_opts){.seed = 1, .stale_1024 = 1024});
	assert_int_equal(world_put(&w, 1, 1, 50), 0);
	world_start(&w, 0, &get);
	for (unsigned i = 0; i < 4; i++)
		world_step(&w);
	assert_false(get.is_over);
	assert_int_equal(world_put(&w, 2, 9, 50), 0); /* another key */
	assert_false(get.is_over);
	assert_int_equal(world_put(&w, 1, 2, 60), 0);
	assert_false(get.is_over);
	for (unsigned i = 0; i < 20 && !get.is_over; i++)
		world_step(&w);
	assert_true(get.is_over);
	assert_true(world_is_gen(&get.io.view, &get.io.key, 1));
	store_release(&get.io.view, w.r[0], NULL);
	/* Without a mutation it ends as well. */
	assert_int_equal(world_get(&w, 1, 2, 60), 0);
	world_fini(&w);
}

/* What happened, as a number. */
static uint64_t history(uint64_t seed)
{
	struct store_fault_opts o = {seed, 100, 200, 100, 100};
	struct world w;
	uint64_t h = 0;

	over_mem(&w, &o);
	for (uint32_t i = 0; i < NR_KEYS; i++) {
		struct world_io wi = {.io = {.op = STORE_GET, .key = world_key(i / 2)}};

		h = h * 31 + (uint64_t)-world_put(&w, i / 2, i, 64);
		h = h * 31 + (uint64_t)-world_run(&w, 0, &wi);
		h += wi.io.view.st ? store_seals(&wi.io.view)[0] + w.clock_ns : 0;
		store_release(&wi.io.view, w.r[0], NULL);
	}
	world_fini(&w);
	return h;
}

static void t_seed(void **state)
{
	assert_true(history(5) == history(5));
	assert_true(history(5) != history(6));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_none), cmocka_unit_test(t_fail),  cmocka_unit_test(t_delay),
		cmocka_unit_test(t_flip), cmocka_unit_test(t_stale), cmocka_unit_test(t_seed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
