/* SPDX-License-Identifier: Apache-2.0 */
/* mem.c: every verb of the oracle, one after another, on one reactor and over three shards. */
#include "world.h"
#include "store/store_make.h"

static void t_put_get(void **state)
{
	struct world w;

	world_init(&w, 1, 1);
	world_set(&w, 1, 1 << 20);
	store_set_push(w.set, 0, store_mem_create());
	assert_int_equal(world_get(&w, 1, 0, 0), -ENOENT);
	assert_int_equal(world_put(&w, 1, 1, 1), 0);
	assert_int_equal(world_get(&w, 1, 1, 1), 0);
	assert_int_equal(world_put(&w, 1, 2, 200000), 0);
	assert_int_equal(world_get(&w, 1, 2, 200000), 0);
	assert_int_equal(world_op(&w, STORE_EXIST, 1), 0);
	assert_int_equal(world_op(&w, STORE_EXIST, 2), -ENOENT);
	assert_int_equal(world_op(&w, STORE_DEL, 1), 0);
	assert_int_equal(world_op(&w, STORE_DEL, 1), -ENOENT);
	assert_int_equal(world_get(&w, 1, 2, 200000), -ENOENT);
	assert_int_equal(world_put(&w, 3, 2, (1 << 20) + 1), -EFBIG);
	assert_int_equal(world_op(&w, STORE_FLUSH, 0), 0);
	world_fini(&w);
}

static void t_flags(void **state)
{
	struct world w;
	struct world_io wi = {.io = {.op = STORE_BUF, .key = world_key(1), .len = 8}};

	world_init(&w, 1, 1);
	world_set(&w, 1, 1 << 20);
	store_set_push(w.set, 0, store_mem_create());
	wi.io.flags = STORE_IF_PRESENT;
	assert_int_equal(world_run(&w, 0, &wi), -ENOENT);
	wi.io.flags = STORE_IF_ABSENT;
	assert_int_equal(world_run(&w, 0, &wi), 0);
	world_fill(&wi.io.view, &wi.io.key, 5);
	/* Somebody else is faster. */
	assert_int_equal(world_put(&w, 1, 6, 9), 0);
	wi.io.op = STORE_PUT;
	assert_int_equal(world_run(&w, 0, &wi), -EEXIST);
	assert_null(wi.io.view.st);
	assert_int_equal(world_get(&w, 1, 6, 9), 0);
	wi.io.op = STORE_BUF;
	assert_int_equal(world_run(&w, 0, &wi), -EEXIST);
	wi.io.flags = STORE_IF_PRESENT;
	assert_int_equal(world_run(&w, 0, &wi), 0);
	world_fill(&wi.io.view, &wi.io.key, 7);
	assert_int_equal(world_op(&w, STORE_DEL, 1), 0);
	wi.io.op = STORE_PUT;
	assert_int_equal(world_run(&w, 0, &wi), -ENOENT);
	assert_null(wi.io.view.st);
	world_fini(&w);
}

/* A buffer for key `no`, filled with generation gen. */
static void make_buf(struct world *w, struct world_io *wi, uint32_t no, uint64_t gen, uint64_t len)
{
	*wi = (struct world_io){.io = {.op = STORE_BUF, .key = world_key(no), .len = len}};
	assert_int_equal(world_run(w, 0, wi), 0);
	world_fill(&wi->io.view, &wi->io.key, gen);
}

static int fill_ver(struct world *w, uint32_t no, uint64_t gen, uint64_t ver)
{
	struct world_io wi;
	int res;

	make_buf(w, &wi, no, gen, 100);
	wi.io.op = STORE_FILL;
	wi.io.ver = ver;
	res = world_run(w, 0, &wi);
	assert_null(wi.io.view.st);
	return res;
}

static void t_fill_inval(void **state)
{
	struct world w;
	struct world_io wi = {.io = {.op = STORE_INVAL, .key = world_key(1)}};

	world_init(&w, 1, 1);
	world_set(&w, 1, 1 << 20);
	store_set_push(w.set, 0, store_mem_create());
	assert_int_equal(fill_ver(&w, 1, 10, 10), 0);
	assert_int_equal(world_get(&w, 1, 10, 100), 0);
	assert_int_equal(fill_ver(&w, 1, 9, 9), -ESTALE);
	assert_int_equal(world_get(&w, 1, 10, 100), 0);
	wi.io.ver = 10; /* versions below 10: not this one */
	assert_int_equal(world_run(&w, 0, &wi), 0);
	assert_int_equal(world_get(&w, 1, 10, 100), 0);
	wi.io.ver = 12;
	assert_int_equal(world_run(&w, 0, &wi), 0);
	assert_int_equal(world_get(&w, 1, 10, 100), -ENOENT);
	assert_int_equal(fill_ver(&w, 1, 11, 11), -ESTALE);
	assert_int_equal(fill_ver(&w, 1, 12, 12), 0);
	/* A put is newer than all that was seen; so is a del. */
	assert_int_equal(world_put(&w, 1, 50, 77), 0);
	assert_int_equal(fill_ver(&w, 1, 12, 12), -ESTALE);
	assert_int_equal(world_get(&w, 1, 50, 77), 0);
	assert_int_equal(world_op(&w, STORE_DEL, 1), 0);
	assert_int_equal(fill_ver(&w, 1, 13, 13), -ESTALE);
	assert_int_equal(world_get(&w, 1, 50, 77), -ENOENT);
	world_fini(&w);
}

static void t_versions(void **state)
{
	struct world w;
	struct world_io wi, get = {.io = {.op = STORE_GET, .key = world_key(1)}};
	uint64_t ver;

	world_init(&w, 1, 1);
	world_set(&w, 1, 1 << 20);
	store_set_push(w.set, 0, store_mem_create());
	make_buf(&w, &wi, 1, 1, 10);
	wi.io.op = STORE_PUT;
	assert_int_equal(world_run(&w, 0, &wi), 0);
	ver = wi.io.ver;
	get.io.ver = ver;
	assert_int_equal(world_run(&w, 0, &get), 0);
	assert_int_equal(get.io.view.ver, ver);
	/* The view stays what it is while the key moves on. */
	assert_int_equal(world_put(&w, 1, 2, 11), 0);
	assert_true(world_is_gen(&get.io.view, &get.io.key, 1));
	store_release(&get.io.view, w.r[0], NULL);
	get.io.ver = ver;
	assert_int_equal(world_run(&w, 0, &get), -ESTALE);
	get.io.ver = 0;
	assert_int_equal(world_run(&w, 0, &get), 0);
	assert_true(get.io.ver > ver);
	store_release(&get.io.view, w.r[0], NULL);
	world_fini(&w);
}

static void t_bad(void **state)
{
	struct world w;
	struct world_io get = {.io = {.op = STORE_GET, .key = world_key(1)}};
	struct store_stats st;

	world_init(&w, 1, 1);
	world_set(&w, 1, 1 << 20);
	store_set_push(w.set, 0, store_mem_create());
	assert_int_equal(world_put(&w, 1, 1, 10), 0);
	assert_int_equal(world_run(&w, 0, &get), 0);
	get.io.view.is_bad = true;
	store_release(&get.io.view, w.r[0], NULL);
	assert_int_equal(w.nr_alerts, 1);
	assert_int_equal(world_get(&w, 1, 1, 10), -ENOENT);
	assert_int_equal(store_set_stats(w.set, 0, &st), 0);
	assert_int_equal(st.bad_seals, 1);
	assert_int_equal(st.nr_keys, 0);
	assert_int_equal(st.value_bytes, 0);
	world_fini(&w);
}

#define NR_LIST 700

/* All keys, in order, in pages of `max`. */
static void walk(struct world *w, uint32_t max)
{
	struct store_key keys[64], last = {0};
	struct world_io wi = {.io = {.op = STORE_LIST}};
	struct store_list *l = &wi.io.list;
	unsigned nr = 0;

	*l = (struct store_list){.keys = keys, .max = max};
	for (;;) {
		assert_int_equal(world_run(w, 0, &wi), 0);
		assert_ptr_equal(l->keys, keys);
		assert_int_equal(l->max, max);
		for (unsigned i = 0; i < l->nr; i++) {
			assert_true(nr + i == 0 || store_key_cmp(&last, &keys[i]) < 0);
			last = keys[i];
		}
		nr += l->nr;
		assert_int_equal(l->more, nr < NR_LIST);
		if (!l->more)
			break;
		assert_int_equal(l->nr, max);
		l->after = last;
		l->has_after = true;
	}
	assert_int_equal(nr, NR_LIST);
	/* Again from the last but one on, itself included. */
	l->is_inclusive = true;
	assert_int_equal(world_run(w, 0, &wi), 0);
	assert_true(store_key_equal(&keys[0], &l->after));
}

static void t_list_match(void **state)
{
	struct world w;
	struct store_key keys[NR_LIST + 1];
	uint8_t found[NR_LIST + 1];
	struct world_io wi = {.io = {.op = STORE_MATCH,
				     .match = {.keys = keys, .found = found, .nr = NR_LIST + 1}}};

	world_init(&w, 2, unit_seed(3));
	world_set(&w, 3, 1 << 20);
	for (unsigned i = 0; i < 3; i++)
		store_set_push(w.set, i, store_mem_create());
	for (uint32_t i = 0; i < NR_LIST; i++)
		assert_int_equal(world_put(&w, i, i, 8), 0);
	for (uint32_t i = 0; i <= NR_LIST; i++)
		keys[i] = world_key(i);
	assert_int_equal(world_run(&w, 0, &wi), 0);
	for (uint32_t i = 0; i < NR_LIST; i++)
		assert_int_equal(found[i], STORE_MEMORY);
	assert_int_equal(found[NR_LIST], STORE_ABSENT);
	walk(&w, 1);
	walk(&w, 7);
	walk(&w, 64);
	for (uint32_t i = 0; i < NR_LIST; i++)
		assert_int_equal(world_get(&w, i, i, 8), 0);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_put_get),	cmocka_unit_test(t_flags),
		cmocka_unit_test(t_fill_inval), cmocka_unit_test(t_versions),
		cmocka_unit_test(t_bad),	cmocka_unit_test(t_list_match),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
