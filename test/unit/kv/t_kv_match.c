/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MATCH: the length of the leading run, for chains of 1 to 4096 keys with the first hole anywhere;
 * in memory or below; pins hold for their time and count against the bounds; bad lengths and keys.
 */
#include "unit.h"

#include "kv/kv_int.h"
#include "kv_host.h"

static void put_chain(struct kv_host *h, unsigned nr)
{
	char key[16];

	for (unsigned i = 0; i < nr; i++) {
		snprintf(key, sizeof(key), "c%u", i);
		assert_int_equal(kv_host_store(h, key, "value", 5, 0), NVME_ST_OK);
	}
}

/* Keys c0, c1 ... of which number `hole` is one that is absent. */
static struct nvme_sqe match_sqe(struct kv_host *h, unsigned nr, unsigned hole, uint32_t cdw12,
				 uint32_t pin_ms)
{
	struct peal_wire_key *k = (void *)(h->mem + KV_HOST_OUT);
	struct nvme_sqe sqe = {.opc = PEAL_OPC_MATCH, .nsid = 1};
	char key[16];

	memset(k, 0, nr * sizeof(*k));
	for (unsigned i = 0; i < nr; i++) {
		k[i].len = (uint8_t)snprintf(key, sizeof(key), i == hole ? "no%u" : "c%u", i);
		memcpy(k[i].b, key, k[i].len);
	}
	kv_host_data(&sqe, KV_HOST_OUT, nr * (uint32_t)sizeof(*k));
	sqe.cdw12 = cdw12;
	sqe.cdw13 = pin_ms;
	return sqe;
}

static struct kv_host_cmd match(struct kv_host *h, unsigned nr, unsigned hole, uint32_t cdw12,
				uint32_t pin_ms)
{
	struct nvme_sqe sqe = match_sqe(h, nr, hole, cdw12, pin_ms);

	return kv_host_run(h, h->node.nr - 1, &sqe);
}

static void t_lengths(void **state)
{
	static const unsigned lens[] = {1, 2, 31, 32, 33, 64, 100, 1024, 4096};
	struct kv_host h;
	struct kv_host_cmd cmd;

	for (unsigned nr = 1; nr <= 3; nr += 2) {
		kv_host_init(&h, &(struct kv_host_opts){.stack = "dram", .nr_workers = nr});
		put_chain(&h, 4096);
		for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
			for (unsigned hole = 0; hole <= lens[i]; hole = hole * 2 + 1) {
				cmd = match(&h, lens[i], hole, 0, 0);
				assert_int_equal(cmd.status, NVME_ST_OK);
				assert_int_equal(cmd.dw0 & 0xffff, min_t(unsigned, hole, lens[i]));
				assert_int_equal(cmd.dw0 >> 16, cmd.dw0 & 0xffff);
			}
			cmd = match(&h, lens[i], ~0u, 0, 0);
			assert_int_equal(cmd.dw0 & 0xffff, lens[i]);
		}
		assert_int_equal(match(&h, 4097, ~0u, 0, 0).status, NVME_ST_INVALID_FIELD);
		assert_int_equal(match(&h, 5, ~0u, 2, 0).status, NVME_ST_INVALID_FIELD);
		kv_host_fini(&h);
	}
}

/* A chain of a thousand is answered at once, of four thousand or with pins in several turns. */
static void t_turns(void **state)
{
	static const struct {
		unsigned nr;
		uint32_t pin_ms;
		bool is_over;
	} cases[] = {{1024, 0, true}, {4096, 0, false}, {1024, 10, false}};
	struct kv_host_cmd cmd;
	struct kv_host h;

	kv_host_init(&h, &(struct kv_host_opts){.stack = "dram"});
	put_chain(&h, 4096);
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		struct nvme_sqe sqe = match_sqe(&h, cases[i].nr, ~0u, 0, cases[i].pin_ms);

		kv_host_start(&h, 0, &sqe, &cmd);
		assert_int_equal(cmd.is_over, cases[i].is_over);
		kv_host_wait(&h, &cmd);
		assert_int_equal(cmd.dw0 & 0xffff, cases[i].nr);
	}
	kv_host_fini(&h);
}

/* While others wait for its worker it takes a turn for each 64 keys, pinned or not. */
static void t_shared(void **state)
{
	struct kv_host h;

	kv_host_init(&h, &(struct kv_host_opts){.stack = "dram", .nr_workers = 2});
	put_chain(&h, 1024);
	h.node.workers[0]->is_shared = true;
	for (uint32_t pin_ms = 0; pin_ms <= 10; pin_ms += 10) {
		struct nvme_sqe sqe = match_sqe(&h, 1024, ~0u, 0, pin_ms);
		struct kv_host_cmd cmd;

		h.nr_later = 0;
		cmd = kv_host_run(&h, 0, &sqe);
		assert_int_equal(cmd.dw0, 1024u << 16 | 1024);
		assert_true(h.nr_later >= 1024 / 64 - 1);
	}
	kv_host_fini(&h);
}

static void t_bad_key(void **state)
{
	struct kv_host h;
	struct peal_wire_key *k;
	struct nvme_sqe sqe = {.opc = PEAL_OPC_MATCH, .nsid = 1};

	kv_host_init(&h, &(struct kv_host_opts){0});
	put_chain(&h, 3);
	match(&h, 3, ~0u, 0, 0);
	k = (void *)(h.mem + KV_HOST_OUT);
	k[1].len = 17;
	kv_host_data(&sqe, KV_HOST_OUT, 3 * sizeof(*k));
	assert_int_equal(kv_host_run(&h, 0, &sqe).status, NVME_ST_INVALID_KEY_SIZE);
	k[1].len = 0;
	assert_int_equal(kv_host_run(&h, 0, &sqe).status, NVME_ST_INVALID_KEY_SIZE);
	sqe.sgl.addr = KV_HOST_MEM_BYTES - 24;
	assert_int_equal(kv_host_run(&h, 0, &sqe).status, NVME_ST_DATA_TRANSFER);
	kv_host_fini(&h);
}

static unsigned leases(struct kv_host *h)
{
	struct kv_ns *kn = container_of(h->ns, struct kv_ns, ns);
	unsigned nr = 0;

	for (unsigned i = 0; i < h->node.nr; i++)
		nr += kv_lease_count(kn->leases[i]);
	return nr;
}

static void t_pins(void **state)
{
	struct kv_host h;
	struct kv_host_cmd cmd;
	uint64_t until;

	for (unsigned nr = 1; nr <= 2; nr++) {
		kv_host_init(&h, &(struct kv_host_opts){.stack = "dram", .nr_workers = nr});
		put_chain(&h, 2000);
		cmd = match(&h, 100, 70, 0, 1000);
		assert_int_equal(cmd.dw0 & 0xffff, 70);
		assert_int_equal(leases(&h), 70);
		/* More than there is room for: the answer is whole, the pins are what fits. */
		cmd = match(&h, 2000, ~0u, PEAL_MATCH_TOUCH, 1000);
		assert_int_equal(cmd.dw0 & 0xffff, 2000);
		assert_in_range(leases(&h), KV_LEASES_MAX / 2, KV_LEASES_MAX / 2 + 70);
		until = h.clock_ns + 3000000000ull;
		while (h.clock_ns < until)
			kv_host_turn(&h);
		assert_int_equal(leases(&h), 0);
		match(&h, 100, ~0u, 0, 60000);
		kv_host_fini(&h); /* pins end with the namespace */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_lengths), cmocka_unit_test(t_turns), cmocka_unit_test(t_shared),
		cmocka_unit_test(t_bad_key), cmocka_unit_test(t_pins),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
