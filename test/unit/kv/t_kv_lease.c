/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LEASE and RELEASE: the extents and seals are those of the value; the bytes stay while it is
 * leased, through overwrite, delete and eviction; it ends by RELEASE, by time and with the
 * controller; bounds; another's lease can't be released.
 */
#include "unit.h"

#include "base/hash.h"
#include "kv/kv_int.h"
#include "kv_host.h"
#include "peal/seal.h"

static uint8_t value[1u << 20];

static void fill(uint32_t len, uint64_t seed)
{
	struct rng r;

	rng_init(&r, seed);
	rng_fill(&r, value, len);
}

static struct kv_host_cmd lease(struct kv_host *h, unsigned q, const char *key, uint32_t room,
				uint32_t ms)
{
	struct nvme_sqe sqe = kv_host_sqe(PEAL_OPC_LEASE, key, 0);

	kv_host_data(&sqe, KV_HOST_IN, room);
	sqe.cdw12 = ms;
	return kv_host_run(h, q, &sqe);
}

static uint16_t release(struct kv_host *h, unsigned q, uint64_t id)
{
	struct nvme_sqe sqe = {.opc = PEAL_OPC_RELEASE,
			       .nsid = 1,
			       .cdw10 = (uint32_t)id,
			       .cdw11 = (uint32_t)(id >> 32)};

	return kv_host_run(h, q, &sqe).status;
}

/* The leased bytes, through the subsystem's segments as a client sees them, against value[]. */
static void check_bytes(struct kv_host *h, const struct peal_wire_lease *l)
{
	const struct peal_wire_extent *ext = (const void *)(l + 1);
	uint32_t at = 0;

	for (uint32_t i = 0; i < l->nr_ext; i++) {
		struct mem_region *reg = tgt_subsys_segment_get(h->ss, ext[i].segment);

		assert_non_null(reg);
		assert_memory_equal(reg->base + ext[i].offset, value + at, ext[i].len);
		at += ext[i].len;
		mem_region_put(reg);
	}
	assert_int_equal(at, l->value_bytes);
}

static void t_lease(void **state)
{
	union {
		struct peal_wire_lease l;
		uint8_t b[8192];
	} reply;
	struct kv_host h;
	struct kv_host_cmd cmd;
	uint64_t kh = hash_key((const uint8_t[16]){'k'}, 1), seal;
	char key[16];

	for (unsigned nr = 1; nr <= 3; nr++) {
		kv_host_init(&h, &(struct kv_host_opts){.stack = "dram",
							.nr_workers = nr,
							.ns.dram_bytes = 16u << 20});
		fill(300001, nr);
		assert_int_equal(kv_host_store(&h, "k", value, 300001, 0), NVME_ST_OK);
		cmd = lease(&h, nr - 1, "k", 32, 1000);
		assert_int_equal(cmd.status, NVME_ST_OK); /* too small: only the size */
		assert_true(cmd.dw0 >= 32 + 16 + 5 * 8);
		cmd = lease(&h, nr - 1, "k", 8192, 1000);
		assert_int_equal(cmd.status, NVME_ST_OK);
		memcpy(&reply, h.mem + KV_HOST_IN, cmd.dw0);
		assert_int_equal(reply.l.value_bytes, 300001);
		assert_int_equal(reply.l.nr_seals, 5);
		check_bytes(&h, &reply.l);
		for (unsigned i = 0; i < 5; i++) {
			seal = hash_xxh3(value + i * 65536, peal_seal_chunk_len(300001, i),
					 peal_seal_seed_at(kh, i));
			assert_memory_equal(reply.b + cmd.dw0 - 40 + i * 8, &seal, 8);
		}
		/* Overwritten, deleted, and everything evicted around it: the bytes stay. */
		assert_int_equal(kv_host_store(&h, "k", "other", 5, 0), NVME_ST_OK);
		for (unsigned i = 0; i < 200; i++) {
			snprintf(key, sizeof(key), "f%u", i);
			assert_int_equal(kv_host_store(&h, key, h.mem, 400000, 0), NVME_ST_OK);
		}
		check_bytes(&h, &reply.l);
		assert_int_equal(release(&h, 0, reply.l.id ^ 1), NVME_ST_KEY_NOT_FOUND);
		assert_int_equal(release(&h, 0, reply.l.id), NVME_ST_OK);
		assert_int_equal(release(&h, 0, reply.l.id), NVME_ST_KEY_NOT_FOUND);
		assert_int_equal(release(&h, 0, ~0ull), NVME_ST_KEY_NOT_FOUND);
		kv_host_fini(&h);
	}
}

static unsigned count(struct kv_host *h)
{
	struct kv_ns *kn = container_of(h->ns, struct kv_ns, ns);
	unsigned nr = 0;

	for (unsigned i = 0; i < h->node.nr; i++)
		nr += kv_lease_count(kn->leases[i]);
	return nr;
}

static void turn_ms(struct kv_host *h, uint64_t ms)
{
	uint64_t until = h->clock_ns + ms * 1000000;

	while (h->clock_ns < until)
		kv_host_turn(h);
}

static void host_done(void *arg)
{
	*(bool *)arg = true;
}

static void t_ends(void **state)
{
	struct kv_host h;
	bool is_reset = false;

	kv_host_init(&h, &(struct kv_host_opts){.stack = "dram", .nr_workers = 2});
	fill(1000, 1);
	assert_int_equal(kv_host_store(&h, "k", value, 1000, 0), NVME_ST_OK);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(lease(&h, i % 2, "k", 4096, 1000).status, NVME_ST_OK);
	assert_int_equal(count(&h), 10);
	turn_ms(&h, 1100);
	assert_int_equal(count(&h), 10); /* the grace */
	turn_ms(&h, 2000);
	assert_int_equal(count(&h), 0);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(lease(&h, i % 2, "k", 4096, 60000).status, NVME_ST_OK);
	tgt_ctrl_reset(h.ctrl, host_done, &is_reset);
	turn_ms(&h, 100);
	assert_true(is_reset);
	assert_int_equal(count(&h), 0);
	kv_host_fini(&h);
}

/* 256 MiB a controller: 300 leases of 1 MiB are too many, and an end makes room again. */
static void other_enable(struct tgt_ctrl *c, const struct tgt_queue_params *asq,
			 const struct tgt_queue_params *acq)
{
	tgt_ctrl_enabled(c, true);
}

static void other_disable(struct tgt_ctrl *c)
{
	tgt_ctrl_disabled(c);
}

static struct tgt_ctrl *other_ctrl(struct kv_host *h)
{
	static const struct tgt_ctrl_ops ops = {.enable = other_enable, .disable = other_disable};
	struct tgt_ctrl_opts o = {.ops = &ops,
				  .home = h->node.workers[0],
				  .max_queues = 1,
				  .is_fabrics = true,
				  .host = "other"};
	struct tgt_ctrl *c;

	assert_int_equal(tgt_ctrl_create(h->ss, &o, &c), 0);
	tgt_ctrl_set_priv(c, h);
	assert_int_equal(tgt_ctrl_reg_write(c, 0x14, 4, 0x460061), 0);
	return c;
}

static void other_gone(struct kv_host *h, struct tgt_ctrl *c)
{
	bool is_reset = false;

	tgt_ctrl_reset(c, host_done, &is_reset);
	while (!is_reset)
		kv_host_turn(h);
	turn_ms(h, 1);
	tgt_ctrl_destroy(c);
}

static struct kv_host_cmd lease_of(struct kv_host *h, struct tgt_ctrl *c)
{
	h->sq[0].ctrl = c;
	return lease(h, 0, "k", 8192, 60000);
}

/* What one controller leaves to another, in a table that it has filled. */
static void t_sure(void **state)
{
	struct tgt_ctrl *first, *other;
	struct kv_host_cmd cmd;
	struct kv_host h;
	unsigned nr = 0;

	kv_host_init(&h, &(struct kv_host_opts){.stack = "dram"});
	fill(100, 1);
	assert_int_equal(kv_host_store(&h, "k", value, 100, 0), NVME_ST_OK);
	for (unsigned i = 0; i < KV_LEASES_MAX + 100; i++) {
		cmd = lease(&h, 0, "k", 8192, 60000);
		nr += cmd.status == NVME_ST_OK;
		if (cmd.status != NVME_ST_OK)
			assert_int_equal(cmd.status, NVME_ST_INTERRUPTED);
	}
	assert_int_equal(nr, KV_LEASES_MAX / 2);
	first = h.ctrl;
	other = other_ctrl(&h);
	/* Half of the other half, and the same again for a third. */
	for (nr = 0; nr < KV_LEASES_MAX; nr++)
		if (lease_of(&h, other).status != NVME_ST_OK)
			break;
	assert_int_equal(nr, KV_LEASES_MAX / 4);
	assert_int_equal(lease_of(&h, first).status, NVME_ST_INTERRUPTED);
	other_gone(&h, other);
	assert_int_equal(count(&h), KV_LEASES_MAX / 2);
	kv_host_fini(&h);
}

/* However many fill it, the next one has what it is sure of. */
static void t_least(void **state)
{
	struct tgt_ctrl *c[TGT_CTRLS_MAX], *first;
	struct kv_host h;
	unsigned nr;

	kv_host_init(&h, &(struct kv_host_opts){.stack = "dram"});
	fill(100, 1);
	assert_int_equal(kv_host_store(&h, "k", value, 100, 0), NVME_ST_OK);
	first = h.ctrl;
	for (unsigned i = 0; i < ARRAY_SIZE(c) - 1; i++) {
		c[i] = other_ctrl(&h);
		for (unsigned k = 0; k < i; k++)
			assert_true(tgt_ctrl_id(c[k]) % TGT_CTRLS_MAX !=
				    tgt_ctrl_id(c[i]) % TGT_CTRLS_MAX);
		for (nr = 0; nr < KV_LEASES_MAX; nr++)
			if (lease_of(&h, c[i]).status != NVME_ST_OK)
				break;
		assert_true(nr >= KV_LEASES_SURE);
	}
	h.sq[0].ctrl = first;
	for (unsigned i = 0; i < ARRAY_SIZE(c) - 1; i++)
		other_gone(&h, c[i]);
	kv_host_fini(&h);
}

/* The bytes are its own wherever it leases. */
static void t_workers(void **state)
{
	struct kv_host h;
	unsigned nr = 0;

	kv_host_init(&h, &(struct kv_host_opts){.stack = "dram", .nr_workers = 3});
	fill(1u << 20, 1);
	assert_int_equal(kv_host_store(&h, "k", value, 1u << 20, 0), NVME_ST_OK);
	for (unsigned i = 0; i < 2 * KV_LEASE_CTRL_MIB_MAX; i++)
		nr += lease(&h, i % 3, "k", 8192, 60000).status == NVME_ST_OK;
	assert_int_equal(nr, KV_LEASE_CTRL_MIB_MAX);
	turn_ms(&h, 61000);
	assert_int_equal(count(&h), 0);
	assert_int_equal(*tgt_subsys_leased(h.ss, tgt_ctrl_id(h.ctrl)), 0);
	kv_host_fini(&h);
}

static void t_bounds(void **state)
{
	struct kv_host h;
	struct kv_host_cmd cmd;
	uint64_t first = 0;
	unsigned nr = 0;

	kv_host_init(&h, &(struct kv_host_opts){.stack = "dram"});
	fill(1u << 20, 1);
	assert_int_equal(kv_host_store(&h, "k", value, 1u << 20, 0), NVME_ST_OK);
	for (unsigned i = 0; i < 300; i++) {
		cmd = lease(&h, 0, "k", 8192, 60000);
		if (i == 0)
			memcpy(&first, h.mem + KV_HOST_IN, 8);
		if (cmd.status == NVME_ST_OK)
			nr++;
		else
			assert_int_equal(cmd.status, NVME_ST_INTERRUPTED);
	}
	assert_int_equal(nr, KV_LEASE_CTRL_MIB_MAX);
	assert_int_equal(release(&h, 0, first), NVME_ST_OK);
	assert_int_equal(lease(&h, 0, "k", 8192, 60000).status, NVME_ST_OK);
	h.is_faulty = true;
	assert_int_equal(lease(&h, 0, "k", 8192, 60000).status, NVME_ST_INTERRUPTED);
	h.is_faulty = false;
	kv_host_fini(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_lease), cmocka_unit_test(t_ends),  cmocka_unit_test(t_bounds),
		cmocka_unit_test(t_sure),  cmocka_unit_test(t_least), cmocka_unit_test(t_workers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
