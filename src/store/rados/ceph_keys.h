/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which keys a shard of the pool is known to have, in the order of List: those that this machine
 * has put, and those that a scan of the pool has found. Bounded; what finds no place is counted,
 * and isn't told.
 *
 *     bucket[position of the hash in the shard] -> entry -> entry     sorted, so are the chains
 *
 * A scan takes time, and things change meanwhile. What is put while it runs stays at its end; what
 * is deleted leaves a grave, so that the scan, which has seen it before, doesn't bring it back.
 *
 * Pure, one thread.
 */
#ifndef STORE_RADOS_CEPH_KEYS_H
#define STORE_RADOS_CEPH_KEYS_H

#include <stdbool.h>
#include <stdint.h>
#include "store/store.h"

struct ceph_key {
	uint64_t w[2];
	uint64_t hash;
	uint32_t next; /* 0: none */
	uint8_t len;
	uint8_t round; /* of the last scan that has seen it, or in which it was put */
	bool is_grave;
};
_Static_assert(sizeof(struct ceph_key) == 32, "half a line");

struct ceph_keys {
	uint32_t *bucket;
	struct ceph_key *slab; /* [0] isn't used */
	size_t bucket_bytes, slab_bytes;
	uint32_t nr_buckets;
	uint32_t max_keys;
	uint32_t nr_keys; /* without graves */
	uint32_t nr_used; /* of the slab, ever */
	uint32_t free;	  /* chain of those that aren't used any more */
	uint32_t shard, nr_shards;
	uint64_t nr_left_out; /* since the last scan began */
	uint8_t round;
	bool is_scanning;
	bool is_void;	/* a grave found no place: what the scan says isn't to be trusted */
	uint32_t sweep; /* the next bucket */
};

/* Of which shard. 0 or -ENOMEM. */
int ceph_keys_init(struct ceph_keys *k, uint32_t max_keys, uint32_t shard, uint32_t nr_shards);
void ceph_keys_fini(struct ceph_keys *k);

bool ceph_keys_has(const struct ceph_keys *k, const struct store_key *key);
void ceph_keys_put(struct ceph_keys *k, const struct store_key *key);
void ceph_keys_del(struct ceph_keys *k, const struct store_key *key);
/* Its part of a page. */
void ceph_keys_list(const struct ceph_keys *k, struct store_list *l);

void ceph_keys_scan_begin(struct ceph_keys *k);
void ceph_keys_scan_seen(struct ceph_keys *k, const struct store_key *key);
/*
 * It is over: what it hasn't seen goes, some of it each time, until false. is_whole: it has seen
 * all that there is; else nothing goes but graves.
 */
bool ceph_keys_scan_end(struct ceph_keys *k, bool is_whole);

#endif
