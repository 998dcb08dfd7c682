/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a value looks like as an object: its name, its two attributes, and whether one that was
 * found is what it says. doc/format.md has the bytes. Pure functions, any thread.
 *
 *     name         lower-case hex of the key
 *     data         the value
 *     peal.head    CEPH_HEAD_BYTES: length, meta, CRC32C of peal.seals, of itself
 *     peal.seals   8 bytes for each chunk of 64 KiB
 *
 * An object without any peal.* attribute is raw: somebody else has put it there, and it is believed
 * as it is; its seals are made when it is read. So is one in the public rados-nkv layout; with
 * kv_ttl it expires.
 */
#ifndef STORE_RADOS_CEPH_OBJ_H
#define STORE_RADOS_CEPH_OBJ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "store/store.h"

#define CEPH_NAME_BYTES 33u
#define CEPH_HEAD_BYTES 112u
#define CEPH_HEAD_ATTR "peal.head"
#define CEPH_SEALS_ATTR "peal.seals"
#define CEPH_TTL_ATTR "kv_ttl"

void ceph_obj_name(const struct store_key *key, char name[CEPH_NAME_BYTES]);
/* 0, or -EINVAL: it isn't the name of a key. */
int ceph_obj_key(const char *name, struct store_key *key);

struct ceph_obj_info {
	uint64_t ver; /* that it had where it was put: for who looks, no more */
	uint32_t value_len;
	struct store_meta meta;
};

/* seals: of a value of info's length, in the machine's order, which is the object's. */
void ceph_obj_head(const struct ceph_obj_info *info, const uint64_t *seals,
		   uint8_t head[CEPH_HEAD_BYTES]);

/*
 * The attributes of an object, as they are found one by one: librados shows each for a moment only.
 * Of the seals those from chunk `first` on are kept, as many as there are and there is room for.
 */
struct ceph_obj_attrs {
	uint64_t first;
	uint64_t *seals; /* room for max_seals; NULL: none is wanted */
	uint32_t max_seals;
	uint32_t seals_crc;
	size_t head_bytes, seals_bytes, ttl_bytes;
	uint8_t head[CEPH_HEAD_BYTES];
	uint8_t ttl[8];
	bool has_any; /* of ours, known or not */
	bool has_ttl;
};
void ceph_obj_attr(struct ceph_obj_attrs *a, const char *name, const void *val, size_t bytes);

enum ceph_obj_kind {
	CEPH_OBJ_SEALED,  /* info is what it says, a->seals are seals of it */
	CEPH_OBJ_RAW,	  /* info: its length */
	CEPH_OBJ_EXPIRED, /* raw, and no more */
	CEPH_OBJ_BAD,
};
/* bytes: of its data; age_s: since it was written. */
enum ceph_obj_kind ceph_obj_check(const struct ceph_obj_attrs *a, uint64_t bytes, int64_t age_s,
				  struct ceph_obj_info *info);

#endif
