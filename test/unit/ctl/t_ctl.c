/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control plane end to end in one thread: namespaces, figures, keys, and the end of it while
 * something is under way.
 */
#include "ctl_world.h"

static const struct kv_host_opts dram = {.stack = "dram", .nr_workers = 2};

static void test_daemon(void **state)
{
	struct ctl_world *w = ctl_world_create(&dram);
	json_t *r = ctl_world_result(w, "daemon.info", "{}");

	assert_int_equal(ctl_world_int(r, "reactors"), 2);
	json_decref(r);
	r = ctl_world_result(w, "daemon.config", "[]");
	assert_int_equal(ctl_world_int(r, "reactors"), 1);
	assert_true(json_is_true(json_object_get(r, "immutable")));
	json_decref(r);
	r = ctl_world_result(w, "rpc.methods", "{}");
	assert_true(json_array_size(r) >= 13);
	json_decref(r);
	ctl_world_destroy(w);
}

static void test_namespaces(void **state)
{
	struct ctl_world *w = ctl_world_create(&dram);
	json_t *r = ctl_world_result(w, "ns.create", "{\"name\":\"x\",\"size\":\"8M\"}");

	assert_int_equal(ctl_world_int(r, "nsid"), 2);
	json_decref(r);
	assert_int_equal(ctl_world_error(w, "ns.create", "{\"name\":\"x\",\"size\":\"8M\"}"),
			 RPC_EXISTS);
	r = ctl_world_result(w, "ns.list", "{}");
	assert_int_equal(json_array_size(r), 2);
	assert_string_equal(json_string_value(json_object_get(json_array_get(r, 1), "name")), "x");
	json_decref(r);
	json_decref(ctl_world_result(w, "ns.resize", "[\"x\",\"4M\"]"));
	json_decref(ctl_world_result(w, "ns.flush", "[2]"));
	json_decref(ctl_world_result(w, "ns.delete", "{\"ns\":2}"));
	assert_int_equal(ctl_world_error(w, "ns.delete", "{\"ns\":2}"), RPC_NOT_FOUND);
	assert_int_equal(ctl_world_error(w, "ns.resize", "[\"x\",\"4M\"]"), RPC_NOT_FOUND);
	assert_int_equal(ctl_world_error(w, "ns.flush", "[\"x\"]"), RPC_NOT_FOUND);
	r = ctl_world_result(w, "ns.list", "{}");
	assert_int_equal(json_array_size(r), 1);
	json_decref(r);
	ctl_world_destroy(w);
}

static void test_where(void **state)
{
	struct kv_host_opts o = {.stack = "dram/mem", .nr_workers = 2};
	struct ctl_world *w = ctl_world_create(&o);
	json_t *r, *tiers;

	for (char key[] = "k0"; key[1] < '8'; key[1]++) {
		char params[64];

		assert_int_equal(kv_host_store(&w->h, key, "value", 5, 0), NVME_ST_OK);
		snprintf(params, sizeof(params), "{\"ns\":1,\"key\":\"%s\"}", key);
		r = ctl_world_result(w, "key.where", params);
		assert_true(json_is_true(json_object_get(r, "found")));
		tiers = json_object_get(r, "tiers");
		assert_true(json_array_size(tiers) >= 1);
		assert_string_equal(
			json_string_value(json_object_get(json_array_get(tiers, 0), "name")),
			"dram");
		assert_int_equal(ctl_world_int(json_array_get(tiers, 0), "value_bytes"), 5);
		json_decref(r);
	}
	json_decref(ctl_world_result(w, "ns.flush", "[1]"));
	r = ctl_world_result(w, "key.where", "[1,\"k3\"]");
	tiers = json_object_get(r, "tiers");
	assert_int_equal(json_array_size(tiers), 2);
	assert_string_equal(json_string_value(json_object_get(json_array_get(tiers, 1), "name")),
			    "mem");
	json_decref(r);
	r = ctl_world_result(w, "key.where", "[1,\"0xffff\"]");
	assert_true(json_is_false(json_object_get(r, "found")));
	json_decref(r);
	assert_int_equal(ctl_world_error(w, "key.where", "[9,\"a\"]"), RPC_NOT_FOUND);
	/* A look is no hit. */
	r = ctl_world_result(w, "stats", "{}");
	tiers = json_object_get(json_array_get(json_object_get(r, "namespaces"), 0), "tiers");
	assert_int_equal(ctl_world_int(json_array_get(tiers, 0), "hits"), 0);
	assert_int_equal(ctl_world_int(json_array_get(tiers, 0), "puts"), 8);
	json_decref(r);
	ctl_world_destroy(w);
}

static void test_stats(void **state)
{
	struct ctl_world *w = ctl_world_create(&dram);
	json_t *r, *ns;
	uint32_t len;

	assert_int_equal(kv_host_store(&w->h, "a", "value", 5, 0), NVME_ST_OK);
	assert_int_equal(kv_host_retrieve(&w->h, "a", 64, &len), NVME_ST_OK);
	assert_int_equal(kv_host_retrieve(&w->h, "b", 64, &len), NVME_ST_KEY_NOT_FOUND);
	r = ctl_world_result(w, "stats", "{}");
	assert_int_equal(json_array_size(json_object_get(r, "reactors")), 2);
	ns = json_array_get(json_object_get(r, "namespaces"), 0);
	assert_int_equal(ctl_world_int(ns, "reads"), 2);
	assert_int_equal(ctl_world_int(ns, "read_bytes"), 5);
	assert_int_equal(ctl_world_int(ns, "writes"), 1);
	ns = json_array_get(json_object_get(r, "commands"), 1);
	assert_string_equal(json_string_value(json_object_get(ns, "name")), "Retrieve");
	assert_int_equal(ctl_world_int(ns, "done"), 1);
	assert_int_equal(ctl_world_int(ns, "missed"), 1);
	assert_int_equal(ctl_world_int(ns, "failed"), 0);
	ns = json_array_get(json_object_get(r, "reactors"), 0);
	assert_string_equal(json_string_value(json_object_get(ns, "name")), "peal-0");
	assert_int_equal(ctl_world_int(ns, "requests_max"), KV_HOST_REQS);
	assert_int_equal(ctl_world_int(ns, "requests_low"), KV_HOST_REQS - 1);
	ns = json_array_get(json_object_get(r, "namespaces"), 0);
	ns = json_array_get(json_object_get(ns, "tiers"), 0);
	assert_int_equal(ctl_world_int(ns, "hits"), 1);
	assert_int_equal(ctl_world_int(ns, "misses"), 1);
	assert_int_equal(ctl_world_int(ns, "keys"), 1);
	json_decref(r);
	ctl_world_destroy(w);
}

static void test_stop(void **state)
{
	static const char ask[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"stats\"}"
				  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"key.purge\","
				  "\"params\":[1]}";
	struct ctl_world *w = ctl_world_create(&dram);

	for (int i = 0; i < 500; i++) {
		char key[16];

		snprintf(key, sizeof(key), "key-%d", i);
		assert_int_equal(kv_host_store(&w->h, key, "value", 5, 0), NVME_ST_OK);
	}
	/* Asked, and stopped at once: on each of the turns that it would have taken. */
	must(send(w->fd, ask, sizeof(ask) - 1, 0) == sizeof(ask) - 1);
	ctl_step(w->c, 0);
	assert_int_equal(w->c->nr_calls, 1);
	ctl_world_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_daemon), cmocka_unit_test(test_namespaces),
		cmocka_unit_test(test_where),  cmocka_unit_test(test_stats),
		cmocka_unit_test(test_stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
