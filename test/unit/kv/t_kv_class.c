/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classes of a namespace: which of them STORE_EX takes, before there are any, while there are some
 * and after the last; what stays of one that goes; what is counted.
 */
#include "unit.h"

#include <errno.h>

#include "kv_host.h"

static uint16_t put(struct kv_host *h, const char *key, uint16_t cls)
{
	struct peal_store_ex ex = {.cls = cls};
	struct nvme_sqe sqe = kv_host_sqe(PEAL_OPC_STORE_EX, key, 0);

	memcpy(h->mem + KV_HOST_OUT, &ex, sizeof(ex));
	memset(h->mem + KV_HOST_OUT + sizeof(ex), 'x', 100);
	kv_host_data(&sqe, KV_HOST_OUT, (uint32_t)sizeof(ex) + 100);
	return kv_host_run(h, 0, &sqe).status;
}

static void t_takes(void **state)
{
	const struct kv_class seven = {.id = 7, .name = "seven"}, top = {.id = 65535};
	const struct kv_class *all;
	struct kv_host h;
	uint32_t len;

	kv_host_init(&h, &(struct kv_host_opts){.nr_workers = 2, .stack = "dram"});
	assert_int_equal(put(&h, "any", 9), NVME_ST_OK);
	assert_int_equal(kv_class_add(h.ns, &seven), 0);
	assert_int_equal(kv_class_add(h.ns, &top), 0);
	assert_int_equal(kv_class_add(h.ns, &seven), -EEXIST);
	assert_int_equal(kv_class_add(h.ns, &(struct kv_class){0}), -EINVAL);
	assert_int_equal(kv_class_list(h.ns, &all), 2);
	assert_string_equal(all[0].name, "seven");
	assert_int_equal(put(&h, "a", 7), NVME_ST_OK);
	assert_int_equal(put(&h, "b", 65535), NVME_ST_OK);
	assert_int_equal(put(&h, "c", 0), NVME_ST_OK);
	assert_int_equal(kv_host_store(&h, "d", "x", 1, 0), NVME_ST_OK);
	assert_int_equal(put(&h, "e", 9), PEAL_ST_CLASS);
	assert_int_equal(put(&h, "a", 8), PEAL_ST_CLASS);
	assert_int_equal(kv_host_retrieve(&h, "e", 200, &len), NVME_ST_KEY_NOT_FOUND);
	assert_int_equal(kv_host_retrieve(&h, "any", 200, &len), NVME_ST_OK);
	/* Gone: no new ones, the old ones stay. */
	assert_int_equal(kv_class_del(h.ns, 7), 0);
	assert_int_equal(kv_class_del(h.ns, 7), -ENOENT);
	assert_int_equal(put(&h, "f", 7), PEAL_ST_CLASS);
	assert_int_equal(kv_host_retrieve(&h, "a", 200, &len), NVME_ST_OK);
	assert_int_equal(len, 100);
	/* The last one: any again. */
	assert_int_equal(kv_class_del(h.ns, 65535), 0);
	assert_int_equal(put(&h, "f", 7), NVME_ST_OK);
	kv_host_fini(&h);
}

static void t_counts(void **state)
{
	struct kv_class k = {0};
	struct kv_class_stats st;
	struct kv_host h;
	char key[16];

	kv_host_init(&h, &(struct kv_host_opts){.nr_workers = 3, .stack = "dram"});
	for (unsigned i = 0; i < 90; i++) {
		snprintf(key, sizeof(key), "key-%u", i);
		assert_int_equal(put(&h, key, (uint16_t)(i % 3 * 1000)), NVME_ST_OK);
	}
	for (unsigned i = 0; i < 2; i++) {
		k.id = (uint16_t)(i ? 5 : 2000);
		assert_int_equal(kv_class_add(h.ns, &k), 0);
	}
	kv_class_stats(h.ns, &st);
	assert_int_equal(st.nr, 3);
	assert_int_equal(st.of[0].id, 5);
	assert_int_equal(st.of[0].nr_keys, 0);
	assert_int_equal(st.of[1].id, 2000);
	assert_int_equal(st.of[1].nr_keys, 30);
	assert_int_equal(st.of[1].value_bytes, 3000);
	assert_int_equal(st.of[2].id, 1000);
	assert_int_equal(st.of[2].nr_keys, 30);
	assert_int_equal(st.others.nr_keys, 0);
	kv_host_fini(&h);
}

static void t_most(void **state)
{
	struct kv_class k = {0};
	const struct kv_class *all;
	struct kv_class_stats st;
	struct kv_host h;

	kv_host_init(&h, &(struct kv_host_opts){.stack = "dram"});
	for (unsigned i = 0; i < KV_CLASSES_MAX; i++) {
		k.id = (uint16_t)(i * 37 % KV_CLASSES_MAX * 200 + 1);
		assert_int_equal(kv_class_add(h.ns, &k), 0);
	}
	k.id = 65000;
	assert_int_equal(kv_class_add(h.ns, &k), -ENOSPC);
	assert_int_equal(kv_class_list(h.ns, &all), KV_CLASSES_MAX);
	for (unsigned i = 0; i < KV_CLASSES_MAX; i++)
		assert_int_equal(all[i].id, i * 200 + 1);
	kv_class_stats(h.ns, &st);
	assert_int_equal(st.nr, KV_CLASSES_MAX);
	kv_host_fini(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_takes),
		cmocka_unit_test(t_counts),
		cmocka_unit_test(t_most),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
