/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A namespace's life: made, identified, resized both ways under its hard bound, ended with commands
 * and leases in it; the command set's effects.
 */
#include "unit.h"

#include "kv/kv_int.h"
#include "kv_host.h"

static void t_identify(void **state)
{
	struct kv_host h;
	struct nvme_kv_id_ns id = {0};
	const struct peal_id_vendor *v = (const void *)id.vs;
	uint8_t buf[4096] = {0};

	kv_host_init(&h, &(struct kv_host_opts){.stack = "dram",
						.ns.value_max = 1u << 20,
						.ns.is_immutable = true});
	assert_int_equal(h.ns->ops->identify(h.ns, 0x05, &id), NVME_ST_OK);
	assert_in_range(id.nsze, 60u << 20, 64u << 20);
	assert_int_equal(id.nkvf, 0);
	assert_int_equal(id.kvf[0].kml, 16);
	assert_int_equal(id.kvf[0].vml, 1u << 20);
	assert_int_equal(v->magic, PEAL_ID_MAGIC);
	assert_int_equal(v->flags, PEAL_ID_IMMUTABLE);
	assert_true(v->commands >> (PEAL_OPC_MATCH - 0x80) & 1);
	assert_true(v->commands >> (PEAL_OPC_HINT - 0x80) & 1);
	assert_false(v->commands >> (PEAL_OPC_EXEC - 0x80) & 1);
	assert_int_equal(h.ns->ops->identify(h.ns, 0x00, buf), NVME_ST_OK);
	/* NCAP: SPDK's host takes 0 for "not there" */
	assert_int_not_equal(*(uint64_t *)(buf + 8), 0);
	memset(buf, 0, sizeof(buf));
	assert_int_equal(h.ns->ops->identify(h.ns, 0x08, buf), NVME_ST_OK);
	assert_int_equal(buf[14], 1);
	assert_int_equal(h.ns->ops->identify(h.ns, 0x42, buf), NVME_ST_INVALID_FIELD);
	kv_host_fini(&h);
}

static void t_csi(void **state)
{
	struct kv_host h;
	const struct tgt_csi_ops *csi;
	uint32_t iocs[256] = {0};
	uint8_t buf[4096] = {0};

	kv_host_init(&h, &(struct kv_host_opts){0});
	csi = h.csi;
	csi->effects(iocs);
	assert_int_equal(iocs[NVME_KV_RETRIEVE], 1);
	assert_int_equal(iocs[NVME_KV_STORE], 3);
	assert_int_equal(iocs[0x03], 0);
	assert_int_equal(csi->identify_ctrl(buf), NVME_ST_OK);
	kv_host_fini(&h);
}

struct answer {
	bool is_there;
	uint16_t st;
};

static void answered(void *arg, uint16_t st)
{
	struct answer *a = arg;

	a->is_there = true;
	a->st = st;
}

static void resize(struct kv_host *h, uint64_t bytes, uint16_t want)
{
	struct answer a = {0};

	h->ns->ops->resize(h->ns, h->node.reactors[0], bytes, answered, &a);
	for (unsigned i = 0; i < 100000 && !a.is_there; i++)
		kv_host_turn(h);
	assert_true(a.is_there);
	assert_int_equal(a.st, want);
}

static void fill(struct kv_host *h, unsigned nr)
{
	struct store_stats st;
	char key[16];

	for (unsigned i = 0; i < nr; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(kv_host_store(h, key, h->mem, 100000, 0), NVME_ST_OK);
		store_set_stats(kv_ns_store(h->ns), 0, &st);
		assert_true(st.used_bytes <= st.capacity_bytes);
	}
}

static unsigned nr_segments(struct kv_host *h, uint64_t *bytes)
{
	struct mem_region *reg;
	unsigned nr = 0;

	*bytes = 0;
	for (uint32_t i = 0; i < TGT_SEGMENTS_MAX; i++) {
		reg = tgt_subsys_segment_get(h->ss, i);
		if (!reg)
			continue;
		nr++;
		*bytes += reg->len;
		mem_region_put(reg);
	}
	return nr;
}

/* What a smaller namespace gave up is gone for clients, too: else its memory was never free. */
static void t_resize_segments(void **state)
{
	struct kv_host h;
	uint64_t bytes;

	kv_host_init(&h, &(struct kv_host_opts){.stack = "dram",
						.nr_workers = 2,
						.ns.dram_bytes = 32u << 20,
						.ns.segment_bytes = 1u << 20});
	for (unsigned i = 0; i < 200; i++) {
		resize(&h, 32u << 20, NVME_ST_OK);
		assert_in_range(nr_segments(&h, &bytes), 24, 40);
		assert_true(bytes <= 32u << 20);
		fill(&h, 20);
		resize(&h, 8u << 20, NVME_ST_OK);
		assert_in_range(nr_segments(&h, &bytes), 2, 10);
		assert_true(bytes <= 8u << 20);
	}
	kv_host_fini(&h);
}

static void t_resize(void **state)
{
	struct kv_host h;
	uint64_t capacity, used;

	for (unsigned nr = 1; nr <= 2; nr++) {
		kv_host_init(&h, &(struct kv_host_opts){.stack = "dram",
							.nr_workers = nr,
							.ns.dram_bytes = 32u << 20,
							.ns.segment_bytes = 4u << 20});
		fill(&h, 500);
		resize(&h, 64u << 20, NVME_ST_OK);
		h.ns->ops->sizes(h.ns, &capacity, &used);
		assert_in_range(capacity, 60u << 20, 64u << 20);
		fill(&h, 1000);
		h.ns->ops->sizes(h.ns, &capacity, &used);
		assert_true(used > 32u << 20);
		resize(&h, 16u << 20, NVME_ST_OK);
		h.ns->ops->sizes(h.ns, &capacity, &used);
		assert_true(capacity <= 16u << 20 && used <= capacity);
		fill(&h, 500);
		resize(&h, 1000, NVME_ST_INVALID_FIELD);
		kv_host_fini(&h);
	}
}

/* Deleted while commands and leases are in it: they end first, later ones find no namespace. */
static void t_delete_busy(void **state)
{
	struct kv_host h;
	struct kv_host_cmd cmd[8];
	struct answer a = {0};
	struct nvme_sqe sqe;

	kv_host_init(&h, &(struct kv_host_opts){.stack = "dram", .nr_workers = 3});
	fill(&h, 20);
	sqe = kv_host_sqe(PEAL_OPC_LEASE, "k3", 0);
	kv_host_data(&sqe, KV_HOST_IN, 8192);
	assert_int_equal(kv_host_run(&h, 1, &sqe).status, NVME_ST_OK);
	for (unsigned i = 0; i < 8; i++) {
		char key[16];

		snprintf(key, sizeof(key), "k%u", i);
		sqe = kv_host_sqe(NVME_KV_RETRIEVE, key, 0);
		kv_host_data(&sqe, KV_HOST_IN + i * 0x40000, 100000);
		kv_host_start(&h, i % 3, &sqe, &cmd[i]);
	}
	tgt_subsys_ns_del(h.ss, 1, answered, &a);
	for (unsigned i = 0; i < 8; i++) {
		kv_host_wait(&h, &cmd[i]);
		assert_int_equal(cmd[i].status, NVME_ST_OK);
	}
	for (unsigned i = 0; i < 1000000 && !a.is_there; i++)
		kv_host_turn(&h);
	assert_true(a.is_there);
	assert_int_equal(a.st, NVME_ST_OK);
	assert_int_equal(kv_host_run(&h, 0, &sqe).status, NVME_ST_INVALID_NS);
	kv_host_fini(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_identify),	 cmocka_unit_test(t_csi),
		cmocka_unit_test(t_resize),	 cmocka_unit_test(t_resize_segments),
		cmocka_unit_test(t_delete_busy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
