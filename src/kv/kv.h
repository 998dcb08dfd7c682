/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The KV command set over a store set: the only place that knows both NVMe and stores. A kv_ns is a
 * tgt_ns whose commands become store verbs; statuses are translated here, once (kv_cmd.c).
 *
 *   Retrieve:  prepare: key check, hash, prefetch --> store_read --> mem_xfer (copy, check)
 *              --> CQE, then release
 *   Store:     STORE_BUF --> mem_xfer (copy, seal) --> STORE_PUT --> CQE
 *
 * Runs on the worker of the request's queue; state lives in the request's scratch.
 */
#ifndef KV_KV_H
#define KV_KV_H

#include "store/rados/ceph.h"
#include "store/store.h"
#include "store/store_health.h"
#include "target/tgt.h"

#define KV_DEVICES_MAX 8u
/* A file per shard in this folder, of `bytes` together. */
struct kv_device {
	const char *folder;
	uint64_t bytes;
	struct ssd_watch_dev *watch;
};

struct kv_ns_opts {
	const char *name;
	uint64_t dram_bytes;	/* whole namespace; cut evenly over the shards */
	uint64_t segment_bytes; /* 0 = what the tier picks, at most 1 GiB */
	uint32_t max_keys;	/* 0 = dram_bytes / 4 KiB */
	uint32_t value_max;	/* bytes, 0 = 128 MiB */
	bool is_immutable;	/* default of peald: true */
	/* An ssd tier below, on so many devices. */
	unsigned nr_ssd;
	struct kv_device ssd[KV_DEVICES_MAX];
	struct store_ssd_care ssd_care; /* day_bytes, rate_bytes of the whole namespace; no watch */
	/* A Store is answered when its value is durable on the ssd tier; includes is_through. */
	bool is_acked_ssd;
	/*
	 * A rados tier, of which an ssd tier is a cache; copied. NULL: none. Its shards, its
	 * value_max and whom it tells are the namespace's.
	 */
	const struct ceph_opts *rados;
	/* Likewise: when it is in the cluster. */
	bool is_acked_rados;
	bool is_through; /* what memory takes is written to the tier below at once */
	bool is_read_only;
	/* Tests put their own stack: called per shard, pushes stores; NULL = dram alone. */
	int (*build)(void *arg, struct store_set *set, unsigned shard);
	void *build_arg;
};

/* Not yet added to the subsystem. -errno. Before the reactors run, or on the home reactor. */
int kv_ns_create(struct tgt_subsys *ss, const struct kv_ns_opts *o, struct tgt_ns **ns);
struct store_set *kv_ns_store(struct tgt_ns *ns);
bool kv_ns_is(const struct tgt_ns *ns); /* is it one of ours? */
/* A key as commands make it. 0 or -EINVAL. */
int kv_ns_key(const uint8_t b[16], uint8_t len, struct store_key *key);

/*
 * What the 16 bits of a value's class mean (kv_class.c): STORE_EX of a class that isn't registered
 * is refused in a namespace that has any. Changed and listed on the home, or before the reactors
 * run.
 */
#define KV_CLASSES_MAX 256u /* of a namespace */
struct kv_class {
	uint16_t id; /* not 0, which is none */
	char name[64];
	char model[128];
	char layout[128];
	char dtype[32];
	char codec[32];
};
/* 0, -EINVAL no id, -EEXIST, -ENOSPC there are KV_CLASSES_MAX, -ENOMEM. Copied. */
int kv_class_add(struct tgt_ns *ns, const struct kv_class *k);
/* 0 or -ENOENT. Its values stay. */
int kv_class_del(struct tgt_ns *ns, uint16_t id);
/* By id; until the next change, and within one turn. */
unsigned kv_class_list(const struct tgt_ns *ns, const struct kv_class **all);

/* Values of each class in memory. */
struct kv_class_stat {
	uint16_t id;
	uint64_t nr_keys;
	uint64_t value_bytes;
};
struct kv_class_stats {
	unsigned nr; /* those of kv_class_list() in its order, then others that are there */
	struct kv_class_stat of[2 * KV_CLASSES_MAX];
	struct kv_class_stat others; /* more than are counted apart */
};
void kv_class_stats(const struct tgt_ns *ns, struct kv_class_stats *st);

/* What an operator wants to know beside the store's figures. Any worker, within one turn. */
struct kv_ns_info {
	uint32_t value_max;
	uint32_t max_keys;
	uint32_t nr_segments;
	uint32_t nr_leases;
	uint32_t nr_alerts; /* values that did not fit their seals */
	bool is_immutable;
	bool is_read_only;
	bool is_acked_ssd;
	bool is_acked_rados;
	bool is_through;
};
void kv_ns_info(const struct tgt_ns *ns, struct kv_ns_info *info);
/* Adds the leases that a controller holds here. Any worker, within one turn. */
void kv_ns_leases_of(const struct tgt_ns *ns, uint16_t ctrl, uint64_t *nr, uint64_t *bytes);

/*
 * For tgt_subsys_csi_add(): CSI 1; namespaces made by Namespace Management take `defaults`
 * (copied) with their own capacity.
 */
const struct tgt_csi_ops *kv_csi_create(struct tgt_subsys *ss, const struct kv_ns_opts *defaults);

void kv_csi_destroy(const struct tgt_csi_ops *csi); /* after the subsystem */

#endif
