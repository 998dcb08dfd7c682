/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tiers of a namespace below memory: where a shard's file lies, and with what it is opened.
 * Runs before the reactors do, or on worker 0's, and blocks for a few requests of each file.
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

#define TIER_SSD 1u /* below dram */

static void tier_known(const struct kv_ns *kn)
{
	struct store_health h = {0};
	struct store_stats st = {0};
	char size[16];

	store_health_get(kn->set, TIER_SSD, &h);
	store_set_stats(kn->set, TIER_SSD, &st);
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

	store_health_get(kn->set, TIER_SSD, &h);
	atomic_store(&kn->nr_recovering, h.nr_recovering);
	if (!h.nr_recovering)
		tier_known(kn);
	store_set_open(kn->set);
}

int kv_tier_ssd(struct kv_ns *kn, unsigned shard, unsigned nr_shards)
{
	const struct kv_ns_opts *o = &kn->opts;
	char path[1024], name[sizeof(kn->ns.name)];
	struct store_ssd_care care = o->ssd_care;
	struct store_ssd_opts so = {
		.care = &care,
		.path = path,
		.name = kn->ns.name,
		.bytes = align_down(o->ssd_bytes / nr_shards, 4096),
		.value_max = o->value_max,
		.shard = shard,
		.nr_shards = nr_shards,
		.reinsert_1024 = TIER_REINSERT_1024,
		.is_durable = o->is_acked_ssd,
		.recovered = tier_recovered,
		.arg = kn,
		/* Shards are never quite alike. */
		.max_keys = o->max_keys ? o->max_keys / nr_shards / 8 * 9 + 1024 : 0,
	};
	struct store *s;
	int err;

	care.is_through |= o->is_through || o->is_acked_ssd;
	care.day_bytes = div_round_up(care.day_bytes, nr_shards);
	care.rate_bytes = div_round_up(care.rate_bytes, nr_shards);
	tier_name(kn, name, sizeof(name));
	if (snprintf(path, sizeof(path), "%s/%s.%u.peal", o->ssd_path, name, shard) >=
	    (int)sizeof(path))
		return -ENAMETOOLONG;
	if (mkdir(o->ssd_path, 0700) && errno != EEXIST)
		return -errno;
	err = store_ssd_create(&so, &s);
	if (!err)
		store_set_push(kn->set, shard, s);
	return err;
}
