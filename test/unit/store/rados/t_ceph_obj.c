/* SPDX-License-Identifier: Apache-2.0 */
/* ceph_obj.c: names there and back, heads there and back, and no single change that passes. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/le.h"
#include "base/rng.h"
#include "store/rados/ceph_obj.h"

#define NR_SEALS 3u

static struct store_key key_of(const char *bytes, uint8_t len)
{
	struct store_key k = {.len = len};

	memcpy(k.b, bytes, len);
	k.hash = hash_key(k.b, len);
	return k;
}

static void test_name(void **state)
{
	struct store_key k = key_of("\x00\x9f\xff", 3), back;
	char name[CEPH_NAME_BYTES];

	ceph_obj_name(&k, name);
	assert_string_equal(name, "009fff");
	assert_int_equal(ceph_obj_key(name, &back), 0);
	assert_true(store_key_equal(&k, &back) && back.hash == k.hash);
	k = key_of("0123456789abcdef", 16);
	ceph_obj_name(&k, name);
	assert_string_equal(name, "30313233343536373839616263646566");
	assert_int_equal(ceph_obj_key(name, &back), 0);
	assert_true(store_key_equal(&k, &back));
}

static void test_no_name(void **state)
{
	static const char *const names[] = {
		"",   "0",	    "000",  "0G",
		"0A", "peal.watch", "00 0", "3031323334353637383961626364656600",
	};
	struct store_key k;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(ceph_obj_key(names[i], &k), -EINVAL);
}

struct object {
	struct ceph_obj_info info;
	uint64_t seals[NR_SEALS];
	uint8_t head[CEPH_HEAD_BYTES];
	uint64_t kept[NR_SEALS];
};

static void object_make(struct object *o, struct rng *rng)
{
	memset(o, 0, sizeof(*o));
	for (unsigned i = 0; i < NR_SEALS; i++)
		o->seals[i] = rng_u64(rng);
	for (size_t i = 0; i < sizeof(o->info.meta.tag); i++)
		o->info.meta.tag[i] = (uint8_t)rng_u64(rng);
	memcpy(o->info.meta.parent, o->seals, 16);
	memcpy(o->info.meta.group, o->seals + 1, 16);
	o->info.meta.parent_len = 16;
	o->info.meta.group_len = 7;
	o->info.meta.cls = 0xabcd;
	o->info.meta.cost_us = 123456;
	o->info.meta.seq = 99;
	o->info.ver = rng_u64(rng);
	o->info.value_len = 2 * MEM_CHUNK_BYTES + 1;
	ceph_obj_head(&o->info, o->seals, o->head);
}

static void object_attrs(struct object *o, struct ceph_obj_attrs *a)
{
	*a = (struct ceph_obj_attrs){.first = 1, .seals = o->kept, .max_seals = 2};
	ceph_obj_attr(a, "something", "else", 4);
	ceph_obj_attr(a, CEPH_HEAD_ATTR, o->head, sizeof(o->head));
	ceph_obj_attr(a, CEPH_SEALS_ATTR, o->seals, sizeof(o->seals));
}

static void test_sealed(void **state)
{
	struct ceph_obj_attrs a;
	struct ceph_obj_info info;
	struct object o;
	struct rng rng;

	rng_init(&rng, unit_seed(1));
	object_make(&o, &rng);
	object_attrs(&o, &a);
	assert_int_equal(ceph_obj_check(&a, o.info.value_len, 0, &info), CEPH_OBJ_SEALED);
	assert_memory_equal(&info.meta, &o.info.meta, sizeof(info.meta));
	assert_true(info.ver == o.info.ver && info.value_len == o.info.value_len);
	assert_memory_equal(o.kept, o.seals + 1, 2 * sizeof(uint64_t));
	assert_int_equal(o.kept[2], 0); /* no more than there is room for */
}

/* Any bit of the attributes, any other length of the data. */
static void test_damaged(void **state)
{
	struct ceph_obj_attrs a;
	struct ceph_obj_info info;
	struct object o;
	struct rng rng;

	rng_init(&rng, unit_seed(2));
	object_make(&o, &rng);
	for (uint32_t bit = 0; bit < 8 * CEPH_HEAD_BYTES; bit++) {
		o.head[bit / 8] ^= (uint8_t)(1u << bit % 8);
		object_attrs(&o, &a);
		assert_int_equal(ceph_obj_check(&a, o.info.value_len, 0, &info), CEPH_OBJ_BAD);
		o.head[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	for (uint32_t bit = 0; bit < 64 * NR_SEALS; bit++) {
		o.seals[bit / 64] ^= 1ull << bit % 64;
		object_attrs(&o, &a);
		assert_int_equal(ceph_obj_check(&a, o.info.value_len, 0, &info), CEPH_OBJ_BAD);
		o.seals[bit / 64] ^= 1ull << bit % 64;
	}
	object_attrs(&o, &a);
	assert_int_equal(ceph_obj_check(&a, o.info.value_len - 1, 0, &info), CEPH_OBJ_BAD);
	assert_int_equal(ceph_obj_check(&a, o.info.value_len + 1, 0, &info), CEPH_OBJ_BAD);
	assert_int_equal(ceph_obj_check(&a, 0, 0, &info), CEPH_OBJ_BAD);
	assert_int_equal(ceph_obj_check(&a, o.info.value_len, 0, &info), CEPH_OBJ_SEALED);
}

/* What has no meaning yet is zero, whatever the checksum says; so are lengths that don't fit. */
static void test_reserved(void **state)
{
	static const unsigned at[] = {100, 103, 107, 14, 15};
	struct ceph_obj_attrs a;
	struct ceph_obj_info info;
	struct object o;
	struct rng rng;

	rng_init(&rng, unit_seed(4));
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		object_make(&o, &rng);
		o.head[at[i]] = 17;
		le32_put(o.head + 108, hash_crc32c(o.head, 108, 0));
		object_attrs(&o, &a);
		assert_int_equal(ceph_obj_check(&a, o.info.value_len, 0, &info), CEPH_OBJ_BAD);
	}
}

/* One of the two is gone, or cut, or a later version's. */
static void test_incomplete(void **state)
{
	struct ceph_obj_attrs a = {0};
	struct ceph_obj_info info;
	struct object o;
	struct rng rng;

	rng_init(&rng, unit_seed(3));
	object_make(&o, &rng);
	ceph_obj_attr(&a, CEPH_HEAD_ATTR, o.head, sizeof(o.head));
	assert_int_equal(ceph_obj_check(&a, o.info.value_len, 0, &info), CEPH_OBJ_BAD);
	ceph_obj_attr(&a, CEPH_SEALS_ATTR, o.seals, sizeof(o.seals) - 8);
	assert_int_equal(ceph_obj_check(&a, o.info.value_len, 0, &info), CEPH_OBJ_BAD);
	a = (struct ceph_obj_attrs){0};
	ceph_obj_attr(&a, CEPH_SEALS_ATTR, o.seals, sizeof(o.seals));
	assert_int_equal(ceph_obj_check(&a, o.info.value_len, 0, &info), CEPH_OBJ_BAD);
	ceph_obj_attr(&a, CEPH_HEAD_ATTR, o.head, sizeof(o.head) - 1);
	assert_int_equal(ceph_obj_check(&a, o.info.value_len, 0, &info), CEPH_OBJ_BAD);
	a = (struct ceph_obj_attrs){0};
	ceph_obj_attr(&a, "peal.head2", o.head, sizeof(o.head));
	assert_int_equal(ceph_obj_check(&a, o.info.value_len, 0, &info), CEPH_OBJ_BAD);
}

static void test_empty(void **state)
{
	struct ceph_obj_attrs a = {0};
	struct ceph_obj_info info = {0}, back;
	uint8_t head[CEPH_HEAD_BYTES];

	ceph_obj_head(&info, NULL, head);
	ceph_obj_attr(&a, CEPH_HEAD_ATTR, head, sizeof(head));
	assert_int_equal(ceph_obj_check(&a, 0, 0, &back), CEPH_OBJ_SEALED);
	ceph_obj_attr(&a, CEPH_SEALS_ATTR, "", 0);
	assert_int_equal(ceph_obj_check(&a, 0, 0, &back), CEPH_OBJ_SEALED);
	assert_int_equal(back.value_len, 0);
}

/* Little-endian seconds, of a raw object alone. */
static void test_raw(void **state)
{
	static const uint8_t ten[8] = {10}, none[4] = {0};
	struct ceph_obj_attrs a = {0};
	struct ceph_obj_info info;

	assert_int_equal(ceph_obj_check(&a, 77, 1000000, &info), CEPH_OBJ_RAW);
	assert_int_equal(info.value_len, 77);
	assert_int_equal(ceph_obj_check(&a, 1ull << 32, 0, &info), CEPH_OBJ_BAD);
	ceph_obj_attr(&a, CEPH_TTL_ATTR, ten, 4);
	assert_int_equal(ceph_obj_check(&a, 77, 9, &info), CEPH_OBJ_RAW);
	assert_int_equal(ceph_obj_check(&a, 77, -5, &info), CEPH_OBJ_RAW); /* clocks differ */
	assert_int_equal(ceph_obj_check(&a, 77, 10, &info), CEPH_OBJ_EXPIRED);
	ceph_obj_attr(&a, CEPH_TTL_ATTR, ten, 8);
	assert_int_equal(ceph_obj_check(&a, 77, 9, &info), CEPH_OBJ_RAW);
	assert_int_equal(ceph_obj_check(&a, 77, 10, &info), CEPH_OBJ_EXPIRED);
	ceph_obj_attr(&a, CEPH_TTL_ATTR, none, 4);
	assert_int_equal(ceph_obj_check(&a, 77, 1000000, &info), CEPH_OBJ_RAW);
	ceph_obj_attr(&a, CEPH_TTL_ATTR, ten, 3);
	assert_int_equal(ceph_obj_check(&a, 77, 0, &info), CEPH_OBJ_EXPIRED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_name),	 cmocka_unit_test(test_no_name),
		cmocka_unit_test(test_sealed),	 cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_reserved), cmocka_unit_test(test_incomplete),
		cmocka_unit_test(test_empty),	 cmocka_unit_test(test_raw),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
