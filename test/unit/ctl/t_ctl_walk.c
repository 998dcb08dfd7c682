/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks over a namespace: purge of all and of a class, usage by class, over several shards, with
 * values that come and go meanwhile.
 */
#include "ctl_world.h"
#include "ctl/ctl_walk.h"

static void put(struct ctl_world *w, int i, uint16_t cls)
{
	struct peal_store_ex ex = {.cls = cls};
	struct nvme_sqe sqe;
	char key[16];

	snprintf(key, sizeof(key), "key-%d", i);
	sqe = kv_host_sqe(PEAL_OPC_STORE_EX, key, 0);
	memcpy(w->h.mem + KV_HOST_OUT, &ex, sizeof(ex));
	memset(w->h.mem + KV_HOST_OUT + sizeof(ex), i, 100);
	kv_host_data(&sqe, KV_HOST_OUT, sizeof(ex) + 100);
	assert_int_equal(kv_host_run(&w->h, (unsigned)i % w->h.node.nr, &sqe).status, NVME_ST_OK);
}

static void check(struct ctl_world *w, int64_t keys, int cls, int64_t of_cls)
{
	json_t *r = ctl_world_result(w, "key.usage", "[1]"), *c;
	size_t i;

	assert_int_equal(ctl_world_int(r, "keys"), keys);
	json_array_foreach(json_object_get(r, "classes"), i, c)
	{
		if (ctl_world_int(c, "class") != cls)
			continue;
		assert_int_equal(ctl_world_int(c, "keys"), of_cls);
		assert_int_equal(ctl_world_int(c, "value_bytes"), of_cls * 100);
		of_cls = 0;
	}
	assert_int_equal(of_cls, 0);
	json_decref(r);
}

static void test_classes(const char *stack, unsigned nr_workers)
{
	struct kv_host_opts o = {.stack = stack, .nr_workers = nr_workers};
	struct ctl_world *w = ctl_world_create(&o);
	json_t *r;

	check(w, 0, 0, 0);
	for (int i = 0; i < 1000; i++)
		put(w, i, (uint16_t)(i % 5));
	check(w, 1000, 3, 200);
	r = ctl_world_result(w, "key.purge", "[1, 3]");
	assert_int_equal(ctl_world_int(r, "seen"), 1000);
	assert_int_equal(ctl_world_int(r, "deleted"), 200);
	json_decref(r);
	check(w, 800, 3, 0);
	check(w, 800, 4, 200);
	r = ctl_world_result(w, "key.purge", "{\"ns\": 1, \"class\": 0}");
	assert_int_equal(ctl_world_int(r, "deleted"), 200);
	json_decref(r);
	r = ctl_world_result(w, "key.purge", "{\"ns\": 1}");
	assert_int_equal(ctl_world_int(r, "seen"), 600);
	assert_int_equal(ctl_world_int(r, "deleted"), 600);
	json_decref(r);
	check(w, 0, 0, 0);
	assert_int_equal(ctl_world_error(w, "key.purge", "[7]"), RPC_NOT_FOUND);
	assert_int_equal(ctl_world_error(w, "key.usage", "[\"nobody\"]"), RPC_NOT_FOUND);
	ctl_world_destroy(w);
}

static void test_one(void **state)
{
	test_classes("dram", 1);
}

static void test_shards(void **state)
{
	test_classes("dram", 3);
}

static void test_tiers(void **state)
{
	test_classes("dram/mem", 2);
}

/* More classes than are counted apart: none is lost. */
static void test_many(void **state)
{
	struct kv_host_opts o = {.stack = "mem"};
	struct ctl_world *w = ctl_world_create(&o);
	json_t *r;

	for (int i = 0; i < CTL_WALK_CLASSES + 50; i++)
		put(w, i, (uint16_t)(i + 1));
	r = ctl_world_result(w, "key.usage", "[1]");
	assert_int_equal(json_array_size(json_object_get(r, "classes")), CTL_WALK_CLASSES);
	assert_int_equal(ctl_world_int(r, "other_keys"), 50);
	json_decref(r);
	ctl_world_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one),
		cmocka_unit_test(test_shards),
		cmocka_unit_test(test_tiers),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
