/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retrieve and RETRIEVE_EX: bytes exact at every size and offset, DW0, block and seals, versions,
 * faults of the host's memory, and a flipped bit that must be a miss. One to three workers.
 */
#include "unit.h"

#include "base/hash.h"
#include "kv_host.h"
#include "peal/seal.h"

static uint8_t value[20u << 20];

static void fill(uint32_t len, uint64_t seed)
{
	struct rng r;

	rng_init(&r, seed);
	rng_fill(&r, value, len);
}

static void t_sizes(void **state)
{
	static const uint32_t sizes[] = {1,	   7,	  64,	 4095,	   4096,	   4097,
					 65535,	   65536, 65537, 1u << 20, (1u << 20) + 1, 3333333,
					 16u << 20};
	struct kv_host h;
	uint32_t len;
	char key[16];

	for (unsigned nr = 1; nr <= 3; nr++) {
		kv_host_init(&h, &(struct kv_host_opts){.nr_workers = nr});
		for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
			snprintf(key, sizeof(key), "k%u", i);
			fill(sizes[i], i);
			assert_int_equal(kv_host_store(&h, key, value, sizes[i], 0), NVME_ST_OK);
			memset(h.mem + KV_HOST_IN, 0xee, sizes[i] + 64);
			assert_int_equal(kv_host_retrieve(&h, key, sizes[i] + 32, &len),
					 NVME_ST_OK);
			assert_int_equal(len, sizes[i]);
			assert_memory_equal(h.mem + KV_HOST_IN, value, sizes[i]);
			assert_int_equal(h.mem[KV_HOST_IN + sizes[i]], 0xee);
		}
		kv_host_fini(&h);
	}
}

/*
 * A smaller buffer is no error: as much as fits, DW0 = the whole size; no buffer: the size alone.
 */
static void t_short_buffer(void **state)
{
	struct kv_host h;
	struct nvme_sqe sqe;
	struct kv_host_cmd cmd;
	uint32_t len;

	kv_host_init(&h, &(struct kv_host_opts){.nr_workers = 2});
	fill(200000, 1);
	assert_int_equal(kv_host_store(&h, "a", value, 200000, 0), NVME_ST_OK);
	for (uint32_t room = 1; room < 200000; room = room * 3 + 1) {
		memset(h.mem + KV_HOST_IN, 0xee, 200000);
		assert_int_equal(kv_host_retrieve(&h, "a", room, &len), NVME_ST_OK);
		assert_int_equal(len, 200000);
		assert_memory_equal(h.mem + KV_HOST_IN, value, room);
		assert_int_equal(h.mem[KV_HOST_IN + room], 0xee);
	}
	sqe = kv_host_sqe(NVME_KV_RETRIEVE, "a", 0);
	cmd = kv_host_run(&h, 0, &sqe);
	assert_int_equal(cmd.status, NVME_ST_OK);
	assert_int_equal(cmd.dw0, 200000);
	kv_host_fini(&h);
}

static void t_miss_and_fault(void **state)
{
	struct kv_host h;
	struct nvme_sqe sqe = kv_host_sqe(NVME_KV_RETRIEVE, "no", 0);
	uint32_t len;

	kv_host_init(&h, &(struct kv_host_opts){0});
	assert_int_equal(kv_host_retrieve(&h, "no", 4096, &len), NVME_ST_KEY_NOT_FOUND);
	assert_int_equal(kv_host_run(&h, 0, &sqe).status, NVME_ST_KEY_NOT_FOUND);
	fill(100000, 2);
	assert_int_equal(kv_host_store(&h, "yes", value, 100000, 0), NVME_ST_OK);
	h.is_faulty = true;
	assert_int_equal(kv_host_retrieve(&h, "yes", 100000, &len), NVME_ST_DATA_TRANSFER);
	h.is_faulty = false;
	assert_int_equal(kv_host_retrieve(&h, "yes", 100000, &len), NVME_ST_OK);
	kv_host_fini(&h);
}

static struct kv_host_cmd retrieve_ex(struct kv_host *h, uint64_t off, uint32_t ver, uint8_t opts,
				      uint32_t room)
{
	struct nvme_sqe sqe = kv_host_sqe(PEAL_OPC_RETRIEVE_EX, "x", opts);

	memset(h->mem + KV_HOST_IN, 0xee, room + 16);
	kv_host_data(&sqe, KV_HOST_IN, room);
	sqe.cdw12 = (uint32_t)(off / 4096);
	sqe.cdw13 = ver;
	return kv_host_run(h, h->node.nr - 1, &sqe);
}

static void check_block(const struct kv_host *h, const struct peal_retrieve_ex *ex, uint64_t off,
			uint32_t n, bool has_seals)
{
	uint64_t first = off / 65536, last = (off + n - 1) / 65536,
		 kh = hash_key((const uint8_t *)"x\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 1);
	const uint8_t *seals = (const uint8_t *)(ex + 1);

	assert_int_equal(ex->value_bytes, 300000);
	assert_int_equal(ex->cls, 77);
	assert_int_equal(ex->seq, 1234);
	assert_int_equal(ex->cost_us, 5);
	assert_int_equal(ex->tag[31], 9);
	assert_int_equal(ex->parent_len, 3);
	assert_memory_equal(ex->parent, "par", 3);
	assert_int_equal(ex->nr_seals, has_seals ? last - first + 1 : 0);
	for (uint64_t i = 0; i < ex->nr_seals; i++) {
		uint64_t want = hash_xxh3(value + (first + i) * 65536,
					  peal_seal_chunk_len(300000, first + i),
					  peal_seal_seed_at(kh, first + i));

		assert_memory_equal(seals + i * 8, &want, 8);
	}
}

static void t_ex(void **state)
{
	struct peal_store_ex ex = {
		.parent = "par", .parent_len = 3, .cls = 77, .cost_us = 5, .seq = 1234};
	struct kv_host h;
	struct kv_host_cmd cmd;
	uint32_t ver, hdr, n;

	kv_host_init(&h, &(struct kv_host_opts){.nr_workers = 2});
	fill(300000, 3);
	ex.tag[31] = 9;
	memcpy(h.mem + KV_HOST_OUT, &ex, sizeof(ex));
	memcpy(h.mem + KV_HOST_OUT + sizeof(ex), value, 300000);
	struct nvme_sqe sqe = kv_host_sqe(PEAL_OPC_STORE_EX, "x", 0);
	kv_host_data(&sqe, KV_HOST_OUT, sizeof(ex) + 300000);
	assert_int_equal(kv_host_run(&h, 0, &sqe).status, NVME_ST_OK);

	cmd = retrieve_ex(&h, 0, 0, 0, 4096);
	assert_int_equal(cmd.status, NVME_ST_OK);
	assert_int_equal(cmd.dw0, 4096);
	ver = cmd.dw1;
	assert_int_equal(retrieve_ex(&h, 0, ver, 0, 4096).status, NVME_ST_OK);
	assert_int_equal(retrieve_ex(&h, 0, ver + 1, 0, 4096).status, NVME_ST_KEY_NOT_FOUND);
	assert_int_equal(retrieve_ex(&h, 303104, 0, 0, 4096).status, NVME_ST_INVALID_FIELD);
	assert_int_equal(retrieve_ex(&h, 0, 0, PEAL_RETRIEVE_EX_SEALS, 4096).status,
			 NVME_ST_INVALID_FIELD);
	for (uint32_t room = 127; room <= 136; room++)
		assert_int_equal(retrieve_ex(&h, 0, 0,
					     PEAL_RETRIEVE_EX_META | PEAL_RETRIEVE_EX_SEALS, room)
					 .status,
				 NVME_ST_INVALID_FIELD);
	assert_int_equal(retrieve_ex(&h, 0, 0, PEAL_RETRIEVE_EX_META, 127).status,
			 NVME_ST_INVALID_FIELD);
	/* The block alone. */
	for (uint64_t off = 0; off < 300000; off += 98304) {
		cmd = retrieve_ex(&h, off, ver, PEAL_RETRIEVE_EX_META, 128);
		assert_int_equal(cmd.status, NVME_ST_OK);
		assert_int_equal(cmd.dw0, 0);
		assert_int_equal(cmd.dw1, ver);
		check_block(&h, (void *)(h.mem + KV_HOST_IN), off, 1, false);
		assert_int_equal(h.mem[KV_HOST_IN + 128], 0xee);
	}
	assert_int_equal(retrieve_ex(&h, 0, 0, 0x80, 4096).status, NVME_ST_INVALID_FIELD);
	for (uint64_t off = 0; off < 300000; off += 12288) {
		for (uint32_t room = 200; room < 400000; room = room * 5 + 3) {
			uint8_t opts = PEAL_RETRIEVE_EX_META |
				       (room % 2 ? PEAL_RETRIEVE_EX_SEALS : 0);

			cmd = retrieve_ex(&h, off, ver, opts, room);
			assert_int_equal(cmd.status, NVME_ST_OK);
			assert_int_equal(cmd.dw1, ver);
			n = cmd.dw0;
			hdr = room - n;
			if (n < 300000 - off)
				assert_in_range(hdr, 128, 128 + 8 * 6);
			hdr = 128;
			if (opts & PEAL_RETRIEVE_EX_SEALS) {
				uint64_t most = min_t(uint64_t, room, 300000 - off);

				hdr += 8 * (uint32_t)((off + most - 1) / 65536 - off / 65536 + 1);
			}
			assert_int_equal(n, min_t(uint64_t, room - hdr, 300000 - off));
			check_block(&h, (void *)(h.mem + KV_HOST_IN), off,
				    min_t(uint32_t, room, 300000 - (uint32_t)off),
				    opts & PEAL_RETRIEVE_EX_SEALS);
			assert_memory_equal(h.mem + KV_HOST_IN + hdr, value + off, n);
			assert_int_equal(h.mem[KV_HOST_IN + hdr + n], 0xee);
		}
	}
	kv_host_fini(&h);
}

static void flip_got(struct store_io *io, int res)
{
	assert_int_equal(res, 0);
}

/* Flips one bit of byte `at` of a value, where it lies. */
static void flip(struct kv_host *h, const char *key, uint64_t at)
{
	struct store_io io = {
		.op = STORE_GET, .flags = STORE_NO_TOUCH, .off = at, .len = 1, .end = flip_got};
	struct mem_run run;

	memcpy(io.key.b, key, strlen(key));
	io.key.len = (uint8_t)strlen(key);
	io.key.hash = hash_key(io.key.b, io.key.len);
	store_submit(kv_ns_store(h->ns), h->node.reactors[0], &io);
	assert_int_equal(store_runs(&io.view, at, &run, 1), 1);
	((uint8_t *)mem_own_ptr(&run))[0] ^= 4;
	store_release(&io.view, h->node.reactors[0], NULL);
}

/* A bit that flips under us is a miss, and the entry is gone; its neighbour isn't. */
static void t_flip(void **state)
{
	static const char *const stacks[] = {"mem", "dram"};
	static const uint64_t places[] = {0, 65535, 65536, 99999};
	struct kv_host h;
	uint32_t len;

	for (unsigned s = 0; s < ARRAY_SIZE(stacks); s++) {
		kv_host_init(&h, &(struct kv_host_opts){.stack = stacks[s]});
		fill(100000, 4);
		assert_int_equal(kv_host_store(&h, "b", value, 100000, 0), NVME_ST_OK);
		for (unsigned i = 0; i < ARRAY_SIZE(places); i++) {
			assert_int_equal(kv_host_store(&h, "a", value, 100000, 0), NVME_ST_OK);
			flip(&h, "a", places[i]);
			assert_int_equal(kv_host_retrieve(&h, "a", 100000, &len),
					 NVME_ST_KEY_NOT_FOUND);
			assert_int_equal(kv_host_retrieve(&h, "a", 100000, &len),
					 NVME_ST_KEY_NOT_FOUND);
			assert_int_equal(kv_host_retrieve(&h, "b", 100000, &len), NVME_ST_OK);
		}
		kv_host_fini(&h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_sizes),	    cmocka_unit_test(t_short_buffer),
		cmocka_unit_test(t_miss_and_fault), cmocka_unit_test(t_ex),
		cmocka_unit_test(t_flip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
