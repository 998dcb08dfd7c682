/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal/sqe.h: every builder against the bytes that the specification and doc/vendor-commands.md ask
 * for, and PRP lists walked as a controller walks them.
 */
#include "unit.h"

#include <stddef.h>
#include <string.h>

#include "base/rng.h"
#include "nvme/nvme_kv.h"
#include "peal/sqe.h"

static const struct peal_key key = {.b = "0123456789abcde", .len = 15};

/* The same bytes as the daemon's own struct. */
static struct nvme_sqe wire(const struct peal_sqe *s)
{
	struct nvme_sqe n;

	static_assert(sizeof(n) == sizeof(*s), "one wire");
	memcpy(&n, s, sizeof(n));
	return n;
}

static void assert_keyed(const struct peal_sqe *s, uint8_t opc, uint8_t opts)
{
	struct nvme_sqe want = {.opc = opc, .nsid = 9}, got = wire(s);

	nvme_kv_key_set(&want, key.b, key.len, opts);
	want.cdw10 = got.cdw10;
	want.cdw12 = got.cdw12;
	want.cdw13 = got.cdw13;
	assert_memory_equal(&got, &want, sizeof(want));
}

static void t_standard(void **state)
{
	const struct peal_key none = {.len = 0};
	struct peal_sqe s;

	memset(&s, 0xee, sizeof(s));
	peal_sqe_store(&s, 9, &key, PEAL_STORE_IF_ABSENT);
	assert_keyed(&s, NVME_KV_STORE, NVME_KV_STORE_IF_ABSENT);
	peal_sqe_retrieve(&s, 9, &key, PEAL_RETRIEVE_RAW);
	assert_keyed(&s, NVME_KV_RETRIEVE, NVME_KV_RETRIEVE_RAW);
	peal_sqe_exist(&s, 9, &key);
	assert_keyed(&s, NVME_KV_EXIST, 0);
	peal_sqe_delete(&s, 9, &key);
	assert_keyed(&s, NVME_KV_DELETE, 0);
	peal_sqe_list(&s, 9, &key);
	assert_keyed(&s, NVME_KV_LIST, 0);
	peal_sqe_list(&s, 9, &none);
	assert_int_equal(wire(&s).cdw11, 0);
	memset(&s, 0xee, sizeof(s));
	peal_sqe_flush(&s, 9);
	assert_memory_equal(&s, (&(struct nvme_sqe){.opc = NVME_KV_FLUSH, .nsid = 9}), sizeof(s));
}

static void t_vendor(void **state)
{
	struct peal_sqe s;
	struct nvme_sqe n;

	peal_sqe_store_ex(&s, 9, &key, PEAL_STORE_IF_EXISTS);
	assert_keyed(&s, 0x81, 1);
	peal_sqe_retrieve_ex(&s, 9, &key, &(struct peal_sqe_range){7, 0x1234, 6});
	assert_keyed(&s, 0x82, 6);
	assert_int_equal(s.cdw12, 7);
	assert_int_equal(s.cdw13, 0x1234);
	peal_sqe_exec(&s, 9, 42, 100);
	n = wire(&s);
	assert_memory_equal(
		&n, (&(struct nvme_sqe){.opc = 0x83, .nsid = 9, .cdw12 = 100, .cdw13 = 42}), 64);
	peal_sqe_match(&s, 9, PEAL_MATCH_TOUCH, 3, 500);
	n = wire(&s);
	assert_memory_equal(
		&n, (&(struct nvme_sqe){.opc = 0x85, .nsid = 9, .cdw12 = 0x30001, .cdw13 = 500}),
		64);
	peal_sqe_hint(&s, 9);
	n = wire(&s);
	assert_memory_equal(&n, (&(struct nvme_sqe){.opc = 0x89, .nsid = 9}), 64);
	peal_sqe_lease(&s, 9, &key, 250);
	assert_keyed(&s, 0x8a, 0);
	assert_int_equal(s.cdw12, 250);
	peal_sqe_release(&s, 9, 0x123456789abcull);
	n = wire(&s);
	assert_memory_equal(
		&n,
		(&(struct nvme_sqe){.opc = 0x8c, .nsid = 9, .cdw10 = 0x56789abc, .cdw11 = 0x1234}),
		64);
}

static void t_sgl(void **state)
{
	struct nvme_sgl d;
	struct peal_sgl piece = {0x1000, 77 | PEAL_SGL_HOLE};
	struct peal_sqe s;

	peal_sqe_store(&s, 9, &key, 0);
	peal_sqe_sgl(&s, 0x123456789, 100000);
	assert_int_equal(NVME_PSDT(s.flags), 1);
	d = wire(&s).sgl;
	assert_memory_equal(&d, (&(struct nvme_sgl){.addr = 0x123456789, .len = 100000}), 16);
	assert_int_equal(s.cdw10, 100000);
	peal_sqe_sgl_list(&s, 0x4000, 3, 5000);
	d = wire(&s).sgl;
	assert_int_equal(d.addr, 0x4000);
	assert_int_equal(d.len, 48);
	assert_int_equal(d.id, NVME_SGL_LAST_SEGMENT << 4);
	assert_int_equal(s.cdw10, 5000);
	memcpy(&d, &piece, sizeof(d));
	assert_int_equal(d.len, 77);
	assert_int_equal(d.id, NVME_SGL_BIT_BUCKET << 4);
	piece.len_type = 4096 | PEAL_SGL_MORE;
	memcpy(&d, &piece, sizeof(d));
	assert_int_equal(d.id, NVME_SGL_SEGMENT << 4);
}

static void t_prp(void **state)
{
	struct peal_sqe s;

	peal_sqe_store(&s, 9, &key, 0);
	peal_sqe_prp(&s, 0x10000, 4096);
	assert_int_equal(s.dptr[1], 0);
	peal_sqe_prp(&s, 0x10ff8, 9);
	assert_int_equal(s.dptr[0], 0x10ff8);
	assert_int_equal(s.dptr[1], 0x11000);
	assert_int_equal(s.cdw10, 9);
	assert_int_equal(s.flags, 0);
}

#define LIST_ADDR 0x70000000ull

/* Walks it as a controller does: the last entry of a page with more behind it is the next page. */
static void check_list(const uint64_t *list, uint64_t addr, uint64_t bytes, uint32_t pages)
{
	uint64_t left = ((addr & 4095) + bytes + 4095) / 4096 - 1, page = (addr | 4095) + 1;
	uint64_t at = 0, used = 1;

	for (; left; left--, page += 4096) {
		if (at % 512 == 511 && left > 1) {
			at = (list[at] - LIST_ADDR) / 8;
			assert_int_equal(at, used * 512);
			used++;
		}
		assert_int_equal(list[at], page);
		at++;
	}
	assert_int_equal(used, pages);
}

static void t_prp_list(void **state)
{
	static uint64_t list[70 * 512];
	struct peal_sqe s;
	struct rng rng;

	rng_init(&rng, unit_seed(1));
	peal_sqe_store(&s, 9, &key, 0);
	for (unsigned i = 0; i < 2000; i++) {
		uint64_t off = rng_below(&rng, 1024) * 4, addr = 0x100000 + off;
		/* Around each number of list pages, and anywhere. */
		uint64_t edge = 4096 * (1 + rng_below(&rng, 5) * 511 + rng_below(&rng, 4)) - off;
		uint64_t bytes = i % 2 ? edge + rng_below(&rng, 9000)
				       : 1 + rng_below(&rng, PEAL_VALUE_MAX);
		uint32_t pages = peal_prp_pages(addr, bytes);

		assert_true(pages <= 70);
		peal_sqe_prp_list(&s, addr, (uint32_t)bytes, list, LIST_ADDR);
		assert_int_equal(s.dptr[0], addr);
		if (!pages) {
			assert_true(s.dptr[1] == 0 || s.dptr[1] == ((addr | 4095) + 1));
			continue;
		}
		assert_int_equal(s.dptr[1], LIST_ADDR);
		check_list(list, addr, bytes, pages);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_standard), cmocka_unit_test(t_vendor),   cmocka_unit_test(t_sgl),
		cmocka_unit_test(t_prp),      cmocka_unit_test(t_prp_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
