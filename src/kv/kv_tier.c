/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tiers of a namespace below memory: where a shard's file lies, and with what it is opened.
 * Runs before the reactors do, or on the home, and blocks for a few requests of each file.
 * tidy: no-test: test/peer/t_ssd_daemon.c has it with the real daemon
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/container.h"
#include "base/log.h"
#include "base/parse.h"
#include "kv/kv_int.h"
#include "store/store_make.h"

/*
 * Of a segment's bytes, for what was used: with the records' heads, 1.6 % more is written than what
 * comes, at the most.
 */
#define TIER_REINSERT_1024 12u

/* A file name of the namespace's own, whatever it is called. */
static void tier_name(const struct kv_ns *kn, char *out, size_t size)
{
	static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789-_";

	snprintf(out, size, "%s", kn->ns.name);
	for (char *c = out; *c; c++)
		if (!strchr(good, *c))
			*c = '_';
}

#define TIER_PATH_BYTES 1024u

static int tier_path(const struct kv_ns *kn, unsigned device, unsigned shard,
		     char path[TIER_PATH_BYTES])
{
	char name[sizeof(kn->ns.name)];

	tier_name(kn, name, sizeof(name));
	return snprintf(path, TIER_PATH_BYTES, "%s/%s.%u.peal", kn->opts.ssd[device].folder, name,
			shard) < (int)TIER_PATH_BYTES
		       ? 0
		       : -ENAMETOOLONG;
}

/* One that is damaged or not ours says nothing: the next one may, and opening it says why not. */
unsigned kv_tier_shards(const struct kv_ns *kn)
{
	char path[TIER_PATH_BYTES];
	int nr = 0;

	for (unsigned d = 0; d < kn->opts.nr_ssd; d++)
		for (unsigned i = 0; i < STORE_SHARDS_MAX && nr <= 0; i++)
			if (!tier_path(kn, d, i, path))
				nr = store_ssd_shards(path);
	return nr > 0 ? (unsigned)nr : 0;
}

/* Below dram; a cache of the cluster is asked by its tier. */
static unsigned tier_ssd(const struct kv_ns *kn)
{
	return kn->link ? 2 : 1;
}

static void tier_known(const struct kv_ns *kn)
{
	struct store_health h = {0};
	struct store_stats st = {0};
	char size[16];

	store_health_get(kn->set, tier_ssd(kn), &h);
	store_set_stats(kn->set, tier_ssd(kn), &st);
	format_size(h.recover_bytes, size);
	log_info("namespace %s: all of its SSD tier is known, %llu keys; %s read in %llu ms",
		 kn->ns.name, (unsigned long long)st.nr_keys, size,
		 (unsigned long long)h.recover_ms);
}

/* On any owner. */
static void tier_recovered(void *arg)
{
	struct kv_ns *kn = arg;

	if (atomic_fetch_sub(&kn->nr_recovering, 1) == 1)
		tier_known(kn);
}

void kv_tier_open(struct kv_ns *kn)
{
	struct store_health h = {0};

	if (kn->opts.nr_ssd) {
		store_health_get(kn->set, tier_ssd(kn), &h);
		atomic_store(&kn->nr_recovering, h.nr_recovering);
		if (!h.nr_recovering)
			tier_known(kn);
	}
	if (kn->link)
		ceph_link_ready(kn->link);
	store_set_open(kn->set);
}

/* Shards are never quite alike: each has room for an eighth more than its part. 0: as there is. */
static uint32_t tier_max_keys(uint32_t all, unsigned nr_shards)
{
	return all && nr_shards > 1 ? all / nr_shards / 8 * 9 + 1024 : all;
}

/* What a device's part of the tier is opened with; limits of the namespace are cut evenly. */
static void tier_opts(struct kv_ns *kn, unsigned device, unsigned shard, struct store_ssd_opts *so,
		      struct store_ssd_care *care)
{
	const struct kv_ns_opts *o = &kn->opts;
	unsigned nr_shards = kn->nr_shards, nr_parts = nr_shards * o->nr_ssd;

	*care = o->ssd_care;
	care->watch = o->ssd[device].watch;
	care->is_through |= o->is_through || o->is_acked_ssd;
	care->day_bytes = div_round_up(care->day_bytes, nr_parts);
	care->rate_bytes = div_round_up(care->rate_bytes, nr_parts);
	*so = (struct store_ssd_opts){
		.care = care,
		.folder = o->ssd[device].folder,
		.name = kn->ns.name,
		.bytes = align_down(o->ssd[device].bytes / nr_shards, 4096),
		.value_max = o->value_max,
		.shard = shard,
		.nr_shards = nr_shards,
		.reinsert_1024 = TIER_REINSERT_1024,
		.is_durable = o->is_acked_ssd,
		.recovered = tier_recovered,
		.arg = kn,
		.max_keys = tier_max_keys(o->max_keys, nr_shards),
	};
}

/* On any thread. */
static void tier_told(void *arg, const char *what)
{
	struct kv_ns *kn = arg;

	log_warn("namespace %s: %s", kn->ns.name, what);
}

int kv_tier_link(struct kv_ns *kn)
{
	struct ceph_opts o;

	if (!kn->opts.rados)
		return 0;
	o = *kn->opts.rados;
	o.nr_shards = kn->nr_shards;
	o.value_max = kn->opts.value_max;
	o.told = tier_told;
	o.arg = kn;
	if (!o.ns)
		o.ns = kn->ns.name;
	return ceph_link_open(&o, &kn->link);
}

int kv_tier_rados(struct kv_ns *kn, unsigned shard)
{
	struct store *s;
	int err = ceph_create(kn->link, (uint16_t)shard, &s);

	if (!err)
		store_set_push(kn->set, shard, s);
	return err;
}

int kv_tier_ssd(struct kv_ns *kn, unsigned shard)
{
	const struct kv_ns_opts *o = &kn->opts;
	struct store_ssd_care care[KV_DEVICES_MAX];
	struct store_ssd_opts so[KV_DEVICES_MAX];
	char path[KV_DEVICES_MAX][TIER_PATH_BYTES];
	struct store *s;
	int err = 0;

	for (unsigned i = 0; i < o->nr_ssd && !err; i++) {
		tier_opts(kn, i, shard, &so[i], &care[i]);
		so[i].path = path[i];
		err = tier_path(kn, i, shard, path[i]);
		/* What can't be made shows when the file is opened, or isn't needed. */
		mkdir(o->ssd[i].folder, 0700);
	}
	if (!err)
		err = store_ssd_open(so, o->nr_ssd, o->is_immutable, &s);
	if (!err)
		store_set_push(kn->set, shard, s);
	return err;
}
