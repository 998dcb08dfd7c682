/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Store and STORE_EX: a value is visible whole or not at all, whatever goes wrong on the way;
 * conditions; seals that are given are checked; nothing leaks when the host's memory fails.
 */
#include "unit.h"

#include "base/hash.h"
#include "kv_host.h"
#include "peal/seal.h"

static uint8_t value[1u << 20];

static void fill(uint32_t len, uint64_t seed)
{
	struct rng r;

	rng_init(&r, seed);
	rng_fill(&r, value, len);
}

static uint64_t used(struct kv_host *h)
{
	struct store_stats st = {0};

	store_set_stats(kv_ns_store(h->ns), 0, &st);
	return st.value_bytes;
}

static void t_conditions(void **state)
{
	struct kv_host h;
	uint32_t len;

	kv_host_init(&h, &(struct kv_host_opts){.nr_workers = 2, .stack = "dram"});
	assert_int_equal(kv_host_store(&h, "k", "one", 3, NVME_KV_STORE_IF_EXISTS),
			 NVME_ST_KEY_NOT_FOUND);
	assert_int_equal(kv_host_store(&h, "k", "one", 3, NVME_KV_STORE_IF_ABSENT), NVME_ST_OK);
	assert_int_equal(kv_host_store(&h, "k", "two!", 4, NVME_KV_STORE_IF_ABSENT),
			 NVME_ST_KEY_EXISTS);
	assert_int_equal(kv_host_retrieve(&h, "k", 64, &len), NVME_ST_OK);
	assert_int_equal(len, 3);
	assert_int_equal(kv_host_store(&h, "k", "two!", 4, NVME_KV_STORE_IF_EXISTS), NVME_ST_OK);
	assert_int_equal(kv_host_retrieve(&h, "k", 64, &len), NVME_ST_OK);
	assert_memory_equal(h.mem + KV_HOST_IN, "two!", 4);
	kv_host_fini(&h);
}

/* The host's memory ends in the middle of the value: no trace of it, the old value stays. */
static void t_fault(void **state)
{
	struct kv_host h;
	struct nvme_sqe sqe = kv_host_sqe(NVME_KV_STORE, "k", 0);
	uint32_t len;

	kv_host_init(&h, &(struct kv_host_opts){.nr_workers = 3, .stack = "dram"});
	for (unsigned i = 0; i < 50; i++) {
		kv_host_data(&sqe, KV_HOST_MEM_BYTES - 4096 * (i + 1), 1u << 20);
		assert_int_equal(kv_host_run(&h, i % 3, &sqe).status, NVME_ST_DATA_TRANSFER);
		assert_int_equal(kv_host_retrieve(&h, "k", 64, &len), NVME_ST_KEY_NOT_FOUND);
	}
	assert_int_equal(used(&h), 0);
	assert_int_equal(kv_host_store(&h, "k", "old", 3, 0), NVME_ST_OK);
	assert_int_equal(kv_host_run(&h, 0, &sqe).status, NVME_ST_DATA_TRANSFER);
	assert_int_equal(kv_host_retrieve(&h, "k", 64, &len), NVME_ST_OK);
	assert_memory_equal(h.mem + KV_HOST_IN, "old", 3);
	assert_int_equal(used(&h), 3);
	kv_host_fini(&h);
}

static struct kv_host_cmd store_ex(struct kv_host *h, uint32_t len, uint32_t nr_seals,
				   uint32_t bad_seal)
{
	struct peal_store_ex ex = {.flags = nr_seals ? PEAL_STORE_EX_SEALS : 0};
	struct nvme_sqe sqe = kv_host_sqe(PEAL_OPC_STORE_EX, "s", 0);
	uint64_t kh = hash_key((const uint8_t[16]){'s'}, 1);
	uint8_t *at = h->mem + KV_HOST_OUT;

	memcpy(at, &ex, sizeof(ex));
	memcpy(at + sizeof(ex), value, len);
	for (uint32_t i = 0; i < nr_seals; i++) {
		uint64_t seal = hash_xxh3(value + i * 65536u, peal_seal_chunk_len(len, i),
					  peal_seal_seed_at(kh, i));

		seal ^= i + 1 == bad_seal;
		memcpy(at + sizeof(ex) + len + i * 8, &seal, 8);
	}
	kv_host_data(&sqe, KV_HOST_OUT, (uint32_t)sizeof(ex) + len + nr_seals * 8);
	return kv_host_run(h, 0, &sqe);
}

static void t_given_seals(void **state)
{
	static const uint32_t sizes[] = {1, 4096, 65535, 65536, 65537, 131072, 131073, 1u << 20};
	struct kv_host h;
	uint32_t len, nr;

	kv_host_init(&h, &(struct kv_host_opts){.nr_workers = 2, .stack = "dram"});
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		fill(sizes[i], i);
		nr = (uint32_t)peal_seal_count(sizes[i]);
		for (uint32_t bad = 1; bad <= nr; bad++) {
			assert_int_equal(store_ex(&h, sizes[i], nr, bad).status,
					 NVME_ST_DATA_TRANSFER);
			assert_int_equal(kv_host_retrieve(&h, "s", sizes[i], &len),
					 NVME_ST_KEY_NOT_FOUND);
		}
		assert_int_equal(store_ex(&h, sizes[i], nr, 0).status, NVME_ST_OK);
		assert_int_equal(kv_host_retrieve(&h, "s", sizes[i], &len), NVME_ST_OK);
		assert_int_equal(len, sizes[i]);
		assert_memory_equal(h.mem + KV_HOST_IN, value, len);
		struct nvme_sqe del = kv_host_sqe(NVME_KV_DELETE, "s", 0);
		assert_int_equal(kv_host_run(&h, 1, &del).status, NVME_ST_OK);
	}
	assert_int_equal(used(&h), 0);
	kv_host_fini(&h);
}

/* More than fits: evictions, never an error, never above the bound. */
static void t_evicts(void **state)
{
	struct kv_host h;
	struct store_stats st;
	char key[16];

	kv_host_init(&h, &(struct kv_host_opts){
				 .nr_workers = 2, .stack = "dram", .ns.dram_bytes = 8u << 20});
	for (unsigned i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "%u", i);
		fill(200000, i);
		assert_int_equal(kv_host_store(&h, key, value, 200000, 0), NVME_ST_OK);
		store_set_stats(kv_ns_store(h.ns), 0, &st);
		assert_true(st.used_bytes <= st.capacity_bytes && st.capacity_bytes <= 8u << 20);
	}
	assert_true(st.evictions > 200);
	kv_host_fini(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_conditions),
		cmocka_unit_test(t_fault),
		cmocka_unit_test(t_given_seals),
		cmocka_unit_test(t_evicts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
