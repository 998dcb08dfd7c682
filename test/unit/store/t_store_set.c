/* SPDX-License-Identifier: Apache-2.0 */
/* store_set.c: sums, alerts, resize in turns, destroy while things are under way. */
#include "puppet.h"
#include "store/store_make.h"

static void world_of(struct world *w, struct puppet **p, unsigned nr_shards, unsigned nr_reactors)
{
	world_init(w, nr_reactors, unit_seed(2));
	world_set(w, nr_shards, 12345);
	for (unsigned i = 0; i < nr_shards; i++) {
		p[i] = puppet_create(puppet_done);
		store_set_push(w->set, i, &p[i]->st);
	}
}

static void t_stats(void **state)
{
	struct world w;
	struct puppet *p[3];
	struct store_stats st = {.puts = 99};

	world_of(&w, p, 3, 2);
	for (unsigned i = 0; i < 3; i++) {
		store_set_push(w.set, i, store_null_create());
		store_set_push(w.set, i, &puppet_create(puppet_done)->st);
	}
	assert_int_equal(store_set_nr_shards(w.set), 3);
	assert_int_equal(store_set_value_max(w.set), 12345);
	assert_false(store_set_is_immutable(w.set));
	assert_int_equal(store_set_stats(w.set, 0, &st), 0);
	assert_int_equal(st.hits, 3);
	assert_int_equal(st.puts, 0);
	assert_int_equal(st.capacity_bytes, 300);
	assert_int_equal(store_set_stats(w.set, 1, &st), 0);
	assert_int_equal(st.hits, 0);
	assert_int_equal(store_set_stats(w.set, 2, &st), 0);
	assert_int_equal(st.hits, 9);
	assert_int_equal(store_set_stats(w.set, 3, &st), -ENOENT);
	store_alert(&p[1]->st, &(struct store_key){.len = 1}, "test");
	assert_int_equal(w.nr_alerts, 1);
	world_fini(&w);
}

static int resize(struct world *w, uint64_t bytes)
{
	struct world_wait wait = {0};

	store_set_resize(w->set, w->r[0], bytes, world_done, &wait);
	world_until(w, &wait.is_over);
	return wait.res;
}

static void t_resize(void **state)
{
	struct world w;
	struct puppet *p[4];

	world_of(&w, p, 4, 3);
	for (int i = 0; i < 4; i++)
		p[i]->resize_left = 3 * i;
	assert_int_equal(resize(&w, 4000), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(p[i]->resize_bytes, 1000);
		assert_int_equal(p[i]->resize_left, -1);
	}
	p[0]->res = -EINVAL;
	assert_int_equal(resize(&w, 8), -EINVAL);
	assert_int_equal(p[1]->resize_bytes, 1000);
	world_fini(&w);
}

static void t_destroy_waits(void **state)
{
	struct world w;
	struct puppet *p[2];
	struct world_io slow = {.io = {.op = STORE_DEL}}, late = {.io = {.op = STORE_GET}},
			put = {.io = {.op = STORE_PUT}};
	struct world_io list = {.io = {.op = STORE_LIST}};
	struct world_wait wait = {0};
	struct store_key keys[4];
	uint32_t no = 0;

	world_of(&w, p, 2, 2);
	while (store_shard_of(world_key(no).hash, 2) != 0)
		no++;
	slow.io.key = late.io.key = put.io.key = world_key(no);
	put.io.view.st = &p[0]->st;
	list.io.list = (struct store_list){.keys = keys, .max = 4};
	p[0]->play = NULL;
	world_start(&w, 0, &slow);
	store_set_destroy(w.set, w.r[1], world_done, &wait);
	world_settle(&w);
	assert_false(wait.is_over);
	assert_int_equal(world_run(&w, 0, &late), -ECANCELED);
	assert_int_equal(world_run(&w, 1, &late), -ECANCELED);
	assert_int_equal(world_run(&w, 1, &list), -ECANCELED);
	assert_ptr_equal(list.io.list.keys, keys);
	assert_int_equal(world_run(&w, 1, &put), -ECANCELED);
	assert_null(put.io.view.st);
	assert_int_equal(p[0]->nr_released, 1);
	assert_false(slow.is_over);
	store_done(puppet_take(p[0], 0), 0);
	assert_true(slow.is_over);
	world_until(&w, &wait.is_over);
	assert_int_equal(wait.res, 0);
	w.set = NULL;
	world_fini(&w);
}

static void t_unused(void **state)
{
	struct world w;
	struct puppet *p[4];

	world_of(&w, p, 4, 4);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_stats),
		cmocka_unit_test(t_resize),
		cmocka_unit_test(t_destroy_waits),
		cmocka_unit_test(t_unused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
