/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HINT: every verb from every worker's queue, pins that hold for their time and no longer and
 * within their bounds, and what is refused.
 */
#include "unit.h"

#include "base/container.h"
#include "kv/kv_int.h"
#include "kv_host.h"

static void hint_set(struct kv_host *h, unsigned i, const char *key, uint8_t verb, uint32_t ms)
{
	struct peal_wire_hint *w = (struct peal_wire_hint *)(h->mem + KV_HOST_OUT) + i;

	memset(w, 0, sizeof(*w));
	w->len = (uint8_t)strlen(key);
	memcpy(w->b, key, w->len);
	w->verb = verb;
	w->ms = ms;
	w->weight = 5;
}

static struct kv_host_cmd hint_run(struct kv_host *h, unsigned q, unsigned nr)
{
	struct nvme_sqe sqe = {.opc = PEAL_OPC_HINT, .nsid = 1};

	kv_host_data(&sqe, KV_HOST_OUT, nr * (uint32_t)sizeof(struct peal_wire_hint));
	return kv_host_run(h, q, &sqe);
}

static unsigned hint_one(struct kv_host *h, unsigned q, const char *key, uint8_t verb, uint32_t ms)
{
	struct kv_host_cmd cmd;

	hint_set(h, 0, key, verb, ms);
	cmd = hint_run(h, q, 1);
	assert_int_equal(cmd.status, NVME_ST_OK);
	return cmd.dw0;
}

static unsigned nr_pins(struct kv_host *h)
{
	struct kv_ns *kn = container_of(h->ns, struct kv_ns, ns);
	unsigned n = 0;

	for (unsigned i = 0; i < h->node.nr; i++)
		n += kv_lease_count(kn->leases[i]);
	return n;
}

static void put_keys(struct kv_host *h, unsigned nr)
{
	char key[16];

	for (unsigned i = 0; i < nr; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(kv_host_store(h, key, "value", 5, 0), NVME_ST_OK);
	}
}

/* A pin made by one queue is found by another one. */
static void t_pins(void **state)
{
	struct kv_host h;
	char key[16];

	for (unsigned nr = 1; nr <= 3; nr += 2) {
		kv_host_init(&h, &(struct kv_host_opts){.stack = "dram", .nr_workers = nr});
		put_keys(&h, 20);
		for (unsigned i = 0; i < 20; i++) {
			snprintf(key, sizeof(key), "k%u", i);
			assert_int_equal(hint_one(&h, 0, key, PEAL_HINT_PIN, 10000), 1);
			assert_int_equal(hint_one(&h, nr - 1, key, PEAL_HINT_PIN, 10000), 1);
		}
		assert_int_equal(nr_pins(&h), 20);
		assert_int_equal(hint_one(&h, nr - 1, "k3", PEAL_HINT_UNPIN, 0), 1);
		assert_int_equal(hint_one(&h, 0, "k3", PEAL_HINT_UNPIN, 0), 0);
		assert_int_equal(hint_one(&h, 0, "no", PEAL_HINT_PIN, 1000), 0);
		assert_int_equal(nr_pins(&h), 19);
		kv_host_fini(&h);
	}
}

static void t_pin_time(void **state)
{
	struct kv_host h;
	uint64_t start;

	kv_host_init(&h, &(struct kv_host_opts){.stack = "dram"});
	put_keys(&h, 1);
	start = h.clock_ns;
	assert_int_equal(hint_one(&h, 0, "k0", PEAL_HINT_PIN, 50), 1);
	h.clock_ns = start + 49000000;
	kv_host_turn(&h);
	assert_int_equal(nr_pins(&h), 1);
	h.clock_ns = start + 55000000;
	for (unsigned i = 0; i < 4; i++)
		kv_host_turn(&h);
	assert_int_equal(nr_pins(&h), 0);
	kv_host_fini(&h);
}

/* 256 MiB of one controller, then no more; the hint says so and nothing else is harmed. */
static void t_pin_bound(void **state)
{
	struct kv_host_opts o = {.stack = "dram", .ns = {.dram_bytes = 512u << 20}};
	struct kv_host h;
	char key[16];
	unsigned nr = 0;

	kv_host_init(&h, &o);
	for (unsigned i = 0; i < 24; i++) {
		snprintf(key, sizeof(key), "b%u", i);
		assert_int_equal(kv_host_store(&h, key, h.mem, 16u << 20, 0), NVME_ST_OK);
		nr += hint_one(&h, 0, key, PEAL_HINT_PIN, 60000);
	}
	assert_int_equal(nr, KV_LEASE_CTRL_MIB_MAX / 16);
	assert_int_equal(nr_pins(&h), nr);
	kv_host_fini(&h);
}

static void t_many(void **state)
{
	struct kv_host h;
	struct kv_host_cmd cmd;
	char key[16];

	for (unsigned nr = 1; nr <= 4; nr++) {
		kv_host_init(&h, &(struct kv_host_opts){.stack = "dram", .nr_workers = nr});
		put_keys(&h, 500);
		for (unsigned i = 0; i < PEAL_HINT_MAX; i++) {
			snprintf(key, sizeof(key), "k%u", i);
			hint_set(&h, i, key, PEAL_HINT_SCORE, 0);
		}
		cmd = hint_run(&h, nr - 1, PEAL_HINT_MAX);
		assert_int_equal(cmd.status, NVME_ST_OK);
		assert_int_equal(cmd.dw0, 500);
		kv_host_fini(&h);
	}
}

static void t_refused(void **state)
{
	struct kv_host h;
	struct kv_host_cmd cmd;

	kv_host_init(&h, &(struct kv_host_opts){.stack = "dram"});
	put_keys(&h, 2);
	assert_int_equal(hint_run(&h, 0, 0).status, NVME_ST_INVALID_FIELD);
	assert_int_equal(hint_run(&h, 0, PEAL_HINT_MAX + 1).status, NVME_ST_INVALID_FIELD);
	hint_set(&h, 0, "k0", PEAL_HINT_SCORE, 0);
	hint_set(&h, 1, "k1", 7, 0);
	cmd = hint_run(&h, 0, 2);
	assert_int_equal(cmd.status, NVME_ST_INVALID_FIELD);
	assert_int_equal(cmd.dw0, 0);
	hint_set(&h, 1, "", PEAL_HINT_PIN, 0);
	assert_int_equal(hint_run(&h, 0, 2).status, NVME_ST_INVALID_KEY_SIZE);
	/* No tier below: there is nothing to bring, and nowhere to go. */
	assert_int_equal(hint_one(&h, 0, "k0", PEAL_HINT_PREFETCH, 10), 0);
	assert_int_equal(hint_one(&h, 0, "k0", PEAL_HINT_DEMOTE, 0), 0);
	assert_int_equal(hint_one(&h, 0, "k0", PEAL_HINT_CANCEL, 0), 0);
	kv_host_fini(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_pins),      cmocka_unit_test(t_pin_time),
		cmocka_unit_test(t_pin_bound), cmocka_unit_test(t_many),
		cmocka_unit_test(t_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
