/* SPDX-License-Identifier: Apache-2.0 */
/*
 * List: every key once, in an order that stays, from the start, from a key that is there and from
 * one that isn't; only whole entries; pages of every size give the same keys.
 */
#include "unit.h"

#include "base/le.h"
#include "kv_host.h"

#define KEYS 500u

struct got {
	char key[17];
};

/* One List; returns the number of keys, the last key in `last`. */
static uint32_t list(struct kv_host *h, const char *start, uint32_t room, struct got *keys)
{
	struct nvme_sqe sqe = kv_host_sqe(NVME_KV_LIST, start, 0);
	const uint8_t *at = h->mem + KV_HOST_IN + 4;
	uint32_t nr;

	memset(h->mem + KV_HOST_IN, 0xee, room + 64);
	kv_host_data(&sqe, KV_HOST_IN, room);
	assert_int_equal(kv_host_run(h, 0, &sqe).status, NVME_ST_OK);
	nr = le32_get(h->mem + KV_HOST_IN);
	for (uint32_t i = 0; i < nr; i++) {
		uint16_t len = le16_get(at);

		assert_in_range(len, 1, 16);
		memset(&keys[i], 0, sizeof(keys[i]));
		memcpy(keys[i].key, at + 2, len);
		at += nvme_kv_list_entry_bytes((uint8_t)len);
	}
	assert_true(at <= h->mem + KV_HOST_IN + room);
	assert_int_equal(*at, 0xee);
	return nr;
}

static void put_keys(struct kv_host *h)
{
	char key[17];

	for (unsigned i = 0; i < KEYS; i++) {
		snprintf(key, sizeof(key), "%.*s%u", (int)(i % 12), "xxxxxxxxxxxx", i);
		assert_int_equal(kv_host_store(h, key, "v", 1, 0), NVME_ST_OK);
	}
}

static void pages(const char *stack, unsigned nr_workers)
{
	static struct got all[KEYS + 1], page[KEYS + 1];
	struct kv_host h;
	uint32_t nr, at;

	kv_host_init(&h, &(struct kv_host_opts){.stack = stack, .nr_workers = nr_workers});
	assert_int_equal(list(&h, "", 4096, all), 0);
	put_keys(&h);
	assert_int_equal(list(&h, "", 65536, all), KEYS);
	for (uint32_t i = 0; i < KEYS; i++)
		for (uint32_t k = 0; k < i; k++)
			assert_string_not_equal(all[i].key, all[k].key);
	for (uint32_t room = 4 + 2 * 20; room < 4096; room = room * 3 / 2) {
		at = list(&h, "", room, page);
		assert_memory_equal(page, all, at * sizeof(page[0]));
		while (at < KEYS) {
			nr = list(&h, all[at - 1].key, room, page);
			assert_true(nr >= 2); /* the start key again, and at least one more */
			assert_memory_equal(page, all + at - 1, nr * sizeof(page[0]));
			at += nr - 1;
		}
	}
	kv_host_fini(&h);
}

static void t_pages(void **state)
{
	pages("mem", 1);
	pages("dram", 1);
	pages("mem", 3);
	pages("dram", 3);
}

static void t_small(void **state)
{
	struct kv_host h;
	struct got keys[4];

	kv_host_init(&h, &(struct kv_host_opts){0});
	assert_int_equal(kv_host_store(&h, "abcdefgh", "v", 1, 0), NVME_ST_OK);
	assert_int_equal(list(&h, "", 4, keys), 0);
	assert_int_equal(list(&h, "", 15, keys), 0); /* an entry of 12 does not fit in 11 */
	assert_int_equal(list(&h, "", 16, keys), 1);
	assert_string_equal(keys[0].key, "abcdefgh");
	kv_host_fini(&h);
}

/* A long one goes on in later turns, and gives up when it is aborted meanwhile. */
static void t_turns(void **state)
{
	struct nvme_sqe sqe = kv_host_sqe(NVME_KV_LIST, "", 0);
	struct kv_host_cmd cmd;
	struct kv_host h;

	kv_host_init(&h, &(struct kv_host_opts){.stack = "dram"});
	put_keys(&h);
	kv_host_data(&sqe, KV_HOST_IN, 65536);
	for (unsigned i = 0; i < 2; i++) {
		sqe.cid = 77;
		kv_host_start(&h, 0, &sqe, &cmd);
		assert_false(cmd.is_over);
		if (i)
			assert_true(tgt_sq_abort(&h.sq[0], 77));
		kv_host_wait(&h, &cmd);
		assert_int_equal(cmd.status, i ? NVME_ST_ABORTED : NVME_ST_OK);
		if (!i)
			assert_int_equal(le32_get(h.mem + KV_HOST_IN), KEYS);
	}
	kv_host_fini(&h);
}

/* While others wait for its worker it takes a turn for each page, from wherever that comes. */
static void t_shared(void **state)
{
	struct nvme_sqe sqe = kv_host_sqe(NVME_KV_LIST, "", 0);
	unsigned nr[2];

	for (unsigned is_shared = 0; is_shared < 2; is_shared++) {
		struct kv_host h;

		kv_host_init(&h, &(struct kv_host_opts){.stack = "dram", .nr_workers = 2});
		put_keys(&h);
		h.node.workers[0]->is_shared = is_shared;
		kv_host_data(&sqe, KV_HOST_IN, 65536);
		assert_int_equal(kv_host_run(&h, 0, &sqe).status, NVME_ST_OK);
		assert_int_equal(le32_get(h.mem + KV_HOST_IN), KEYS);
		nr[is_shared] = h.nr_later;
		kv_host_fini(&h);
	}
	assert_true(nr[0] <= 1);
	assert_true(nr[1] >= KEYS / 64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_pages),
		cmocka_unit_test(t_small),
		cmocka_unit_test(t_turns),
		cmocka_unit_test(t_shared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
