/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Known keys, in order; see ceph_keys.h. Memory is taken from the system as it is used.
 */
#include "store/rados/ceph_keys.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/container.h"
#include "base/must.h"

#define KEYS_SWEEP 4096u /* buckets at a time */

static void *keys_map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

int ceph_keys_init(struct ceph_keys *k, uint32_t max_keys, uint32_t shard, uint32_t nr_shards)
{
	memset(k, 0, sizeof(*k));
	k->max_keys = max_keys;
	k->shard = shard;
	k->nr_shards = nr_shards;
	k->nr_buckets = max_keys / 2 + 1;
	k->bucket_bytes = k->nr_buckets * sizeof(*k->bucket);
	k->slab_bytes = ((size_t)max_keys + 1) * sizeof(*k->slab);
	k->bucket = keys_map(k->bucket_bytes);
	k->slab = keys_map(k->slab_bytes);
	if (k->bucket && k->slab)
		return 0;
	ceph_keys_fini(k);
	return -ENOMEM;
}

void ceph_keys_fini(struct ceph_keys *k)
{
	if (k->bucket)
		munmap(k->bucket, k->bucket_bytes);
	if (k->slab)
		munmap(k->slab, k->slab_bytes);
	k->bucket = NULL;
	k->slab = NULL;
}

/* Monotone in the hash within a shard: store_shard_of() takes the upper half of this product. */
static uint32_t keys_bucket(const struct ceph_keys *k, uint64_t hash)
{
	uint32_t pos = (uint32_t)((hash >> 32) * k->nr_shards);

	return (uint32_t)((uint64_t)pos * k->nr_buckets >> 32);
}

static struct store_key keys_key(const struct ceph_key *e)
{
	return (struct store_key){.w = {e->w[0], e->w[1]}, .hash = e->hash, .len = e->len};
}

/* Where its number is, or would be: the link that leads there. *is_there says which. */
static uint32_t *keys_find(const struct ceph_keys *k, const struct store_key *key, bool *is_there)
{
	uint32_t *at = &k->bucket[keys_bucket(k, key->hash)];
	struct store_key is;
	int c;

	*is_there = false;
	for (; *at; at = &k->slab[*at].next) {
		is = keys_key(&k->slab[*at]);
		c = store_key_cmp(&is, key);
		*is_there = c == 0;
		if (c >= 0)
			break;
	}
	return at;
}

/* NULL: no place. */
static struct ceph_key *keys_insert(struct ceph_keys *k, uint32_t *at, const struct store_key *key)
{
	uint32_t no = k->free;
	struct ceph_key *e;

	if (no)
		k->free = k->slab[no].next;
	else if (k->nr_used < k->max_keys)
		no = ++k->nr_used;
	else
		return NULL;
	e = &k->slab[no];
	*e = (struct ceph_key){.w = {key->w[0], key->w[1]},
			       .hash = key->hash,
			       .len = key->len,
			       .round = k->round,
			       .next = *at};
	*at = no;
	return e;
}

static void keys_remove(struct ceph_keys *k, uint32_t *at)
{
	uint32_t no = *at;

	k->nr_keys -= !k->slab[no].is_grave;
	*at = k->slab[no].next;
	k->slab[no].next = k->free;
	k->free = no;
}

bool ceph_keys_has(const struct ceph_keys *k, const struct store_key *key)
{
	bool is_there;
	const uint32_t *at = keys_find(k, key, &is_there);

	return is_there && !k->slab[*at].is_grave;
}

static void keys_add(struct ceph_keys *k, const struct store_key *key, bool is_seen)
{
	bool is_there;
	uint32_t *at = keys_find(k, key, &is_there);
	struct ceph_key *e;

	if (!is_there) {
		e = keys_insert(k, at, key);
		k->nr_keys += e != NULL;
		k->nr_left_out += !e;
		return;
	}
	e = &k->slab[*at];
	if (e->is_grave && is_seen)
		return;
	k->nr_keys += e->is_grave;
	e->is_grave = false;
	e->round = k->round;
}

void ceph_keys_put(struct ceph_keys *k, const struct store_key *key)
{
	keys_add(k, key, false);
}

void ceph_keys_del(struct ceph_keys *k, const struct store_key *key)
{
	bool is_there;
	uint32_t *at = keys_find(k, key, &is_there);
	struct ceph_key *e;

	if (!k->is_scanning) {
		if (is_there)
			keys_remove(k, at);
		return;
	}
	if (is_there) {
		e = &k->slab[*at];
		k->nr_keys -= !e->is_grave;
	} else {
		e = keys_insert(k, at, key);
	}
	if (e)
		e->is_grave = true;
	else
		k->is_void = true;
}

void ceph_keys_list(const struct ceph_keys *k, struct store_list *l)
{
	const struct ceph_key *e;
	struct store_key key;

	/* Where the page begins, or, when that is in an earlier shard, at the first one. */
	bool is_here = store_shard_of(l->after.hash, k->nr_shards) == k->shard;

	for (uint32_t b = is_here ? keys_bucket(k, l->after.hash) : 0; b < k->nr_buckets; b++) {
		for (uint32_t no = k->bucket[b]; no; no = e->next) {
			e = &k->slab[no];
			key = keys_key(e);
			if (e->is_grave || !store_list_wants(l, &key))
				continue;
			if (!store_list_add(l, &key))
				return;
		}
	}
}

/* ---- scans ----------------------------------------------------------------------------------- */

void ceph_keys_scan_begin(struct ceph_keys *k)
{
	must(!k->is_scanning);
	k->is_scanning = true;
	k->is_void = false;
	k->round++;
	k->sweep = 0;
	k->nr_left_out = 0;
}

void ceph_keys_scan_seen(struct ceph_keys *k, const struct store_key *key)
{
	if (!k->is_void)
		keys_add(k, key, true);
}

static void keys_sweep(struct ceph_keys *k, uint32_t *at, bool is_whole)
{
	const struct ceph_key *e;

	while (*at) {
		e = &k->slab[*at];
		if (e->is_grave || (is_whole && e->round != k->round))
			keys_remove(k, at);
		else
			at = &k->slab[*at].next;
	}
}

bool ceph_keys_scan_end(struct ceph_keys *k, bool is_whole)
{
	uint32_t end = (uint32_t)min_t(uint64_t, (uint64_t)k->sweep + KEYS_SWEEP, k->nr_buckets);

	for (; k->sweep < end; k->sweep++)
		keys_sweep(k, &k->bucket[k->sweep], is_whole && !k->is_void);
	k->is_scanning = k->sweep < k->nr_buckets;
	return k->is_scanning;
}
