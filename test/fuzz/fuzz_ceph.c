/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An object of a pool that somebody else may have written: its name, its length, its attributes,
 * one after the other, as ceph_obj.c takes them. A good object comes first; the bytes say which of
 * its attributes are there, what is changed in them, and what stands beside. Nothing goes out of
 * bounds; an object that passes as sealed has the length and the seals that its head was made with,
 * unless the edits included making its checksum right again; a name that is taken is the key's own.
 *
 *     first byte: chunks (0 to 7), the second and third what is added to the length of the data
 *     edit: what (1), where (1), length (1), then so many bytes
 */
#include <string.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/le.h"
#include "base/must.h"
#include "store/rados/ceph_obj.h"

#define SEALS_MAX 8u
#define KEPT_FROM 2u
#define KEPT_MAX 3u
#define CRC_AT (CEPH_HEAD_BYTES - 4)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct object {
	struct ceph_obj_info info;
	uint64_t seals[SEALS_MAX], was[SEALS_MAX];
	uint8_t head[CEPH_HEAD_BYTES];
	uint64_t kept[KEPT_MAX + 1];
	uint64_t bytes; /* of its data */
	bool is_forged;
};

static void make(struct object *o, const uint8_t *data)
{
	uint32_t nr = data[0] % SEALS_MAX;

	*o = (struct object){.info = {.ver = 7, .value_len = nr * MEM_CHUNK_BYTES}};
	o->info.meta.cls = 3;
	o->info.meta.parent_len = 16;
	for (uint32_t i = 0; i < nr; i++)
		o->seals[i] = o->was[i] = 0x123456789abcdefull * (i + 1);
	ceph_obj_head(&o->info, o->seals, o->head);
	o->bytes = o->info.value_len + (uint64_t)(int64_t)(int16_t)le16_get(data + 1);
}

static void edit(struct object *o, struct ceph_obj_attrs *a, const uint8_t *e, size_t n)
{
	static const char *const names[] = {
		CEPH_HEAD_ATTR, CEPH_SEALS_ATTR, CEPH_TTL_ATTR, "peal.", "peal.next", "user.x", ""};
	uint64_t copy[SEALS_MAX + 24] = {0}; /* as librados has it: of its own, and no longer */

	switch (e[0] % 6) {
	case 0:
		memcpy(o->head + e[1] % CEPH_HEAD_BYTES, e + 3,
		       min_t(size_t, n, CEPH_HEAD_BYTES - e[1] % CEPH_HEAD_BYTES));
		break;
	case 1:
		memcpy((uint8_t *)o->seals + e[1] % sizeof(o->seals), e + 3,
		       min_t(size_t, n, sizeof(o->seals) - e[1] % sizeof(o->seals)));
		break;
	case 2: /* as it is now, whole or cut */
		ceph_obj_attr(a, CEPH_HEAD_ATTR, o->head,
			      min_t(size_t, CEPH_HEAD_BYTES, 255u - e[1]));
		break;
	case 3:
		ceph_obj_attr(a, CEPH_SEALS_ATTR, o->seals,
			      e[1] ? e[1] % sizeof(o->seals)
				   : o->info.value_len / MEM_CHUNK_BYTES * sizeof(uint64_t));
		break;
	case 4:
		le32_put(o->head + CRC_AT, hash_crc32c(o->head, CRC_AT, 0));
		o->is_forged = true;
		break;
	default:
		memcpy(copy, e + 3, min_t(size_t, n, sizeof(copy)));
		ceph_obj_attr(a, names[e[1] % ARRAY_SIZE(names)], copy,
			      min_t(size_t, n, sizeof(copy)));
	}
}

/* What was found is what was made, or nothing. */
static void check(const struct object *o, const struct ceph_obj_attrs *a, int64_t age_s)
{
	struct ceph_obj_info info = {0};
	uint32_t nr = o->info.value_len / MEM_CHUNK_BYTES;

	switch (ceph_obj_check(a, o->bytes, age_s, &info)) {
	case CEPH_OBJ_SEALED:
		must(a->has_any && info.value_len == o->bytes);
		if (o->is_forged)
			break;
		must(info.value_len == o->info.value_len && info.ver == o->info.ver);
		must(memcmp(&info.meta, &o->info.meta, sizeof(info.meta)) == 0);
		for (uint32_t c = KEPT_FROM; c < nr && c < KEPT_FROM + KEPT_MAX; c++)
			must(o->kept[c - KEPT_FROM] == o->was[c]);
		break;
	case CEPH_OBJ_RAW:
		must(!a->has_any && info.value_len == o->bytes);
		break;
	case CEPH_OBJ_EXPIRED:
		must(!a->has_any && a->has_ttl);
		break;
	case CEPH_OBJ_BAD:
		break;
	}
	must(o->kept[KEPT_MAX] == 0); /* behind what there is room for */
}

static void check_name(const uint8_t *data, size_t size)
{
	char text[64] = "", back[CEPH_NAME_BYTES];
	struct store_key key;

	memcpy(text, data, min_t(size_t, size, sizeof(text) - 1));
	if (ceph_obj_key(text, &key))
		return;
	must(key.len >= 1 && key.len <= sizeof(key.b));
	must(key.hash == hash_key(key.b, key.len));
	ceph_obj_name(&key, back);
	must(strcmp(text, back) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ceph_obj_attrs a;
	struct object o;
	size_t at = 3, n;

	check_name(data, size);
	if (size < at)
		return 0;
	make(&o, data);
	a = (struct ceph_obj_attrs){.first = KEPT_FROM, .seals = o.kept, .max_seals = KEPT_MAX};
	for (; at + 3 <= size; at += 3 + n) {
		n = min_t(size_t, data[at + 2], size - at - 3);
		edit(&o, &a, data + at, n);
	}
	check(&o, &a, (int8_t)data[1]);
	return 0;
}
