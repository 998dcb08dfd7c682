/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and attributes of objects; see ceph_obj.h. Whatever is not exactly as it should be is
 * CEPH_OBJ_BAD: somebody with access to the pool may write what he likes there.
 */
#include "store/rados/ceph_obj.h"

#include <errno.h>
#include <string.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/le.h"

static const uint8_t obj_magic[8] = "PEALOBJ1";

/* Offsets in peal.head. */
enum {
	HEAD_MAGIC = 0,
	HEAD_LEN = 8,
	HEAD_CLASS = 12,
	HEAD_PARENT_LEN = 14,
	HEAD_GROUP_LEN = 15,
	HEAD_PARENT = 16,
	HEAD_GROUP = 32,
	HEAD_TAG = 48,
	HEAD_COST = 80,
	HEAD_SEQ = 84,
	HEAD_VER = 88,
	HEAD_SEALS_CRC = 96,
	HEAD_ZERO = 100,
	HEAD_CRC = 108,
};
_Static_assert(HEAD_CRC + 4 == CEPH_HEAD_BYTES, "the checksum is the end");

/* Seals go to the object and back as they lie in memory. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "objects are little-endian");

void ceph_obj_name(const struct store_key *key, char name[CEPH_NAME_BYTES])
{
	static const char digits[] = "0123456789abcdef";

	for (unsigned i = 0; i < key->len; i++) {
		name[2 * i] = digits[key->b[i] >> 4];
		name[2 * i + 1] = digits[key->b[i] & 15];
	}
	name[2 * key->len] = 0;
}

static int obj_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int ceph_obj_key(const char *name, struct store_key *key)
{
	size_t n = strlen(name);
	struct store_key k = {.len = (uint8_t)(n / 2)};
	int hi, lo;

	if (n < 2 || n % 2 || n > 2 * sizeof(k.b))
		return -EINVAL;
	for (size_t i = 0; i < n / 2; i++) {
		hi = obj_digit(name[2 * i]);
		lo = obj_digit(name[2 * i + 1]);
		if (hi < 0 || lo < 0)
			return -EINVAL;
		k.b[i] = (uint8_t)(hi << 4 | lo);
	}
	k.hash = hash_key(k.b, k.len);
	*key = k;
	return 0;
}

static size_t obj_seals_bytes(uint32_t value_len)
{
	return div_round_up((uint64_t)value_len, MEM_CHUNK_BYTES) * sizeof(uint64_t);
}

void ceph_obj_head(const struct ceph_obj_info *info, const uint64_t *seals,
		   uint8_t head[CEPH_HEAD_BYTES])
{
	const struct store_meta *m = &info->meta;

	memset(head, 0, CEPH_HEAD_BYTES);
	memcpy(head + HEAD_MAGIC, obj_magic, sizeof(obj_magic));
	le32_put(head + HEAD_LEN, info->value_len);
	le16_put(head + HEAD_CLASS, m->cls);
	head[HEAD_PARENT_LEN] = m->parent_len;
	head[HEAD_GROUP_LEN] = m->group_len;
	memcpy(head + HEAD_PARENT, m->parent, sizeof(m->parent));
	memcpy(head + HEAD_GROUP, m->group, sizeof(m->group));
	memcpy(head + HEAD_TAG, m->tag, sizeof(m->tag));
	le32_put(head + HEAD_COST, m->cost_us);
	le32_put(head + HEAD_SEQ, m->seq);
	le64_put(head + HEAD_VER, info->ver);
	le32_put(head + HEAD_SEALS_CRC, hash_crc32c(seals, obj_seals_bytes(info->value_len), 0));
	le32_put(head + HEAD_CRC, hash_crc32c(head, HEAD_CRC, 0));
}

static void obj_seals(struct ceph_obj_attrs *a, const void *val, size_t bytes)
{
	size_t nr = bytes / sizeof(uint64_t);

	a->seals_bytes = bytes;
	a->seals_crc = hash_crc32c(val, bytes, 0);
	if (a->seals && a->first < nr)
		memcpy(a->seals, (const uint8_t *)val + a->first * sizeof(uint64_t),
		       min_t(uint64_t, nr - a->first, a->max_seals) * sizeof(uint64_t));
}

void ceph_obj_attr(struct ceph_obj_attrs *a, const char *name, const void *val, size_t bytes)
{
	a->has_any |= strncmp(name, "peal.", 5) == 0;
	if (strcmp(name, CEPH_HEAD_ATTR) == 0) {
		a->head_bytes = bytes;
		memcpy(a->head, val, min_t(size_t, bytes, sizeof(a->head)));
	} else if (strcmp(name, CEPH_SEALS_ATTR) == 0) {
		obj_seals(a, val, bytes);
	} else if (strcmp(name, CEPH_TTL_ATTR) == 0) {
		a->has_ttl = true;
		a->ttl_bytes = bytes;
		memcpy(a->ttl, val, min_t(size_t, bytes, sizeof(a->ttl)));
	}
}

static void obj_read_meta(const uint8_t *head, struct store_meta *m)
{
	*m = (struct store_meta){
		.cls = le16_get(head + HEAD_CLASS),
		.parent_len = head[HEAD_PARENT_LEN],
		.group_len = head[HEAD_GROUP_LEN],
		.cost_us = le32_get(head + HEAD_COST),
		.seq = le32_get(head + HEAD_SEQ),
	};
	memcpy(m->parent, head + HEAD_PARENT, sizeof(m->parent));
	memcpy(m->group, head + HEAD_GROUP, sizeof(m->group));
	memcpy(m->tag, head + HEAD_TAG, sizeof(m->tag));
}

static enum ceph_obj_kind obj_check_ours(const struct ceph_obj_attrs *a, uint64_t bytes,
					 struct ceph_obj_info *info)
{
	const uint8_t *h = a->head;

	if (a->head_bytes != CEPH_HEAD_BYTES || memcmp(h, obj_magic, sizeof(obj_magic)))
		return CEPH_OBJ_BAD;
	if (le32_get(h + HEAD_CRC) != hash_crc32c(h, HEAD_CRC, 0) ||
	    le32_get(h + HEAD_LEN) != bytes)
		return CEPH_OBJ_BAD;
	/* No attribute and an empty one are the same to whom there is no chunk. */
	if (a->seals_bytes != obj_seals_bytes((uint32_t)bytes) ||
	    le32_get(h + HEAD_SEALS_CRC) != a->seals_crc)
		return CEPH_OBJ_BAD;
	if (le64_get(h + HEAD_ZERO))
		return CEPH_OBJ_BAD; /* of somebody who knows more than we do */
	if (h[HEAD_PARENT_LEN] > sizeof(info->meta.parent) ||
	    h[HEAD_GROUP_LEN] > sizeof(info->meta.group))
		return CEPH_OBJ_BAD;
	info->value_len = (uint32_t)bytes;
	info->ver = le64_get(h + HEAD_VER);
	obj_read_meta(h, &info->meta);
	return CEPH_OBJ_SEALED;
}

/*
 * Seconds to live from its last writing on, as 4 or 8 bytes; 0: for ever. Of a form that isn't
 * known nobody can say that it hasn't expired.
 */
static bool obj_is_expired(const struct ceph_obj_attrs *a, int64_t age_s)
{
	uint64_t ttl;

	if (!a->has_ttl)
		return false;
	if (a->ttl_bytes == sizeof(uint32_t))
		ttl = le32_get(a->ttl);
	else if (a->ttl_bytes == sizeof(uint64_t))
		ttl = le64_get(a->ttl);
	else
		return true;
	return ttl && (age_s < 0 ? 0 : (uint64_t)age_s) >= ttl;
}

enum ceph_obj_kind ceph_obj_check(const struct ceph_obj_attrs *a, uint64_t bytes, int64_t age_s,
				  struct ceph_obj_info *info)
{
	if (bytes > UINT32_MAX)
		return CEPH_OBJ_BAD;
	if (a->has_any)
		return obj_check_ours(a, bytes, info);
	if (obj_is_expired(a, age_s))
		return CEPH_OBJ_EXPIRED;
	*info = (struct ceph_obj_info){.value_len = (uint32_t)bytes};
	return CEPH_OBJ_RAW;
}
