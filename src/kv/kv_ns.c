/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A KV namespace: its store set, one dram per shard under it unless a test builds another stack,
 * its leases, its making and its end. Made and ended on the home reactor (or before the reactors
 * run).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/container.h"
#include "base/log.h"
#include "base/must.h"
#include "base/parse.h"
#include "kv/kv_int.h"
#include "store/store_make.h"

#define KV_SHARD_BYTES_MIN (1u << 20)
#define NS_FRESH_NS 1000000000ull

static void ns_sizes(struct tgt_ns *ns, uint64_t *capacity, uint64_t *used)
{
	struct kv_ns *kn = container_of(ns, struct kv_ns, ns);
	struct store_stats st = {0};

	store_set_stats(kn->set, 0, &st);
	*capacity = st.capacity_bytes ? st.capacity_bytes : kn->opts.dram_bytes;
	*used = st.used_bytes;
}

/* Of keys the first ten of a namespace, then every thousandth; of a tier's state each. */
static void ns_alert(void *arg, const struct store_key *key, const char *what)
{
	struct kv_ns *kn = arg;
	uint32_t nr;
	char text[64];

	if (!key) {
		log_warn("namespace %u: %s", kn->ns.nsid, what);
		return;
	}
	nr = atomic_fetch_add(&kn->nr_alerts, 1) + 1;
	tgt_subsys_media_error(kn->ns.subsys);
	if (nr > 10 && nr % 1000)
		return;
	format_key(key->b, key->len, text);
	log_warn("namespace %u: key %s: %s; dropped, answered as a miss (alert %u)", kn->ns.nsid,
		 text, what, nr);
}

static int ns_segment(void *arg, struct mem_region *reg)
{
	struct kv_ns *kn = arg;
	int idx;

	if (kn->nr_segments == KV_SEGMENTS_MAX)
		return -ENOSPC;
	idx = tgt_subsys_segment_add(kn->ns.subsys, reg);
	if (idx < 0)
		return idx;
	kn->segments[kn->nr_segments++] = (uint32_t)idx;
	return 0;
}

/* The subsystem holds it as well: its memory would stay with us, and its place. */
static void ns_segment_gone(void *arg, struct mem_region *reg)
{
	struct kv_ns *kn = arg;
	uint32_t i = 0;

	while (kn->segments[i] != reg->id)
		must(++i < kn->nr_segments);
	kn->segments[i] = kn->segments[--kn->nr_segments];
	tgt_subsys_segment_del(kn->ns.subsys, reg->id);
}

/* Do other machines change its values? */
static bool ns_is_fresh(const struct kv_ns *kn)
{
	return kn->link && !kn->opts.is_immutable;
}

static int ns_build(struct kv_ns *kn, unsigned shard)
{
	unsigned nr_shards = kn->nr_shards;
	struct store_dram_opts o = {
		.bytes = kn->opts.dram_bytes / nr_shards,
		.segment_bytes = kn->opts.segment_bytes,
		.max_keys = kn->max_keys / nr_shards,
		.policy = "lru",
		.on_segment = ns_segment,
		.on_segment_gone = ns_segment_gone,
		.arg = kn,
		/* What others may change is theirs to see at once, and not ours to remember. */
		.is_through = kn->opts.is_through || ns_is_fresh(kn),
		.fresh_ns = ns_is_fresh(kn) ? NS_FRESH_NS : 0,
		.is_acked_below = kn->opts.is_acked_ssd || kn->opts.is_acked_rados,
	};
	struct store *s;
	int err = store_dram_create(&o, &s);

	if (err)
		return err;
	store_set_push(kn->set, shard, s);
	if (kn->link)
		err = kv_tier_rados(kn, shard);
	return !err && kn->opts.nr_ssd ? kv_tier_ssd(kn, shard) : err;
}

struct ns_round {
	struct reactor_round round;
	struct kv_ns *kn;
	struct reactor *home;
	void (*done)(void *arg, uint16_t st);
	void *arg;
	struct store_io flush;
	struct ceph_closing closing;
};

static struct kv_lease_table *round_leases(struct ns_round *nr, struct reactor *r)
{
	return nr->kn->leases[reactor_id(r)];
}

static void ns_round_start(struct ns_round *nr,
			   void (*fn)(struct reactor_round *, struct reactor *),
			   void (*done)(struct reactor_round *))
{
	const struct tgt_node *node = tgt_subsys_node(nr->kn->ns.subsys);

	nr->round.fn = fn;
	nr->round.done = done;
	reactor_round_start(&nr->round, nr->home, node->reactors, tgt_node_nr_io(node));
}

static void ns_ctrl_gone(struct tgt_ns *ns, struct tgt_worker *w, uint16_t ctrl)
{
	kv_lease_drop_ctrl(container_of(ns, struct kv_ns, ns)->leases[w->id], ctrl);
}

static void ns_free(struct kv_ns *kn)
{
	for (unsigned i = 0; i < REACTORS_MAX; i++)
		kv_lease_table_destroy(kn->leases[i]);
	ceph_link_close(kn->link);
	free(kn->classes);
	free(kn->end);
	free(kn);
}

static void ns_over(struct ns_round *nr)
{
	void (*done)(void *, uint16_t) = nr->done;
	void *done_arg = nr->arg;

	ns_free(nr->kn);
	done(done_arg, NVME_ST_OK);
}

static void ns_link_closed(struct ceph_closing *c)
{
	struct ns_round *nr = container_of(c, struct ns_round, closing);

	nr->kn->link = NULL;
	ns_over(nr);
}

/* A cluster that is silent is waited for, and nobody here waits for that. */
static void ns_set_destroyed(void *arg, int res)
{
	struct ns_round *nr = arg;

	if (!nr->kn->link) {
		ns_over(nr);
		return;
	}
	nr->closing.home = nr->home;
	nr->closing.closed = ns_link_closed;
	ceph_link_close_from(nr->kn->link, &nr->closing);
}

/* What a tier below would keep is there, or can't be. */
static void ns_flushed(struct store_io *io, int res)
{
	struct ns_round *nr = container_of(io, struct ns_round, flush);
	struct kv_ns *kn = nr->kn;

	if (res)
		log_warn("namespace %u: not everything could be written below memory: %s",
			 kn->ns.nsid, strerror(-res));
	store_set_destroy(kn->set, nr->home, ns_set_destroyed, nr);
}

static void ns_drop_all(struct reactor_round *rd, struct reactor *r)
{
	kv_lease_drop_all(round_leases(container_of(rd, struct ns_round, round), r));
}

/* Round after round until the pins of all leases are back at their shards. */
static void ns_leases_dropped(struct reactor_round *rd)
{
	struct ns_round *nr = container_of(rd, struct ns_round, round);
	struct kv_ns *kn = nr->kn;
	const struct tgt_node *node = tgt_subsys_node(kn->ns.subsys);
	unsigned busy = 0;

	for (unsigned i = 0; i < tgt_node_nr_io(node); i++)
		busy += kv_lease_count(kn->leases[i]);
	if (busy) {
		ns_round_start(nr, ns_drop_all, ns_leases_dropped);
		return;
	}
	for (unsigned i = 0; i < kn->nr_segments; i++)
		tgt_subsys_segment_del(kn->ns.subsys, kn->segments[i]);
	store_set_ending(kn->set);
	nr->flush.op = STORE_FLUSH;
	nr->flush.end = ns_flushed;
	store_submit(kn->set, nr->home, &nr->flush);
}

static void ns_destroy(struct tgt_ns *ns, struct reactor *home,
		       void (*done)(void *arg, uint16_t st), void *arg)
{
	struct kv_ns *kn = container_of(ns, struct kv_ns, ns);
	struct ns_round *nr = kn->end;

	nr->kn = kn;
	nr->home = home;
	nr->done = done;
	nr->arg = arg;
	ns_round_start(nr, ns_drop_all, ns_leases_dropped);
}

struct ns_resize {
	void (*done)(void *arg, uint16_t st);
	void *arg;
};

static void ns_resized(void *arg, int res)
{
	struct ns_resize *rs = arg;

	rs->done(rs->arg, res == -EINVAL ? NVME_ST_INVALID_FIELD : kv_cmd_status(res));
	free(rs);
}

static void ns_resize(struct tgt_ns *ns, struct reactor *home, uint64_t bytes,
		      void (*done)(void *arg, uint16_t st), void *arg)
{
	struct kv_ns *kn = container_of(ns, struct kv_ns, ns);
	struct ns_resize *rs = calloc(1, sizeof(*rs));

	if (!rs || bytes / store_set_nr_shards(kn->set) < KV_SHARD_BYTES_MIN) {
		free(rs);
		done(arg, rs ? NVME_ST_INVALID_FIELD : NVME_ST_INTERNAL);
		return;
	}
	rs->done = done;
	rs->arg = arg;
	store_set_resize(kn->set, home, bytes, ns_resized, rs);
}

static const struct tgt_ns_ops kv_ns_ops = {
	.csi = 1,
	.prepare = kv_cmd_prepare,
	.prefetch = kv_cmd_prefetch,
	.warm = kv_cmd_warm,
	.look = kv_cmd_look,
	.execute = kv_cmd_execute,
	.identify = kv_identify,
	.sizes = ns_sizes,
	.resize = ns_resize,
	.ctrl_gone = ns_ctrl_gone,
	.destroy = ns_destroy,
};

static void ns_defaults(struct kv_ns *kn, const struct kv_ns_opts *o)
{
	kn->opts = *o;
	kn->opts.name = NULL;
	kn->opts.build = NULL;
	if (!kn->opts.value_max || kn->opts.value_max > NVME_KV_VALUE_MAX)
		kn->opts.value_max = NVME_KV_VALUE_MAX;
	if (o->rados && kn->opts.value_max > CEPH_VALUE_MAX)
		kn->opts.value_max = CEPH_VALUE_MAX;
	kn->max_keys = o->max_keys ? o->max_keys
				   : (uint32_t)min_t(uint64_t, o->dram_bytes / 4096, UINT32_MAX);
	snprintf(kn->ns.name, sizeof(kn->ns.name), "%s", o->name ? o->name : "kv");
	atomic_store(&kn->ns.kv_config, 1);
}

static void ns_create_failed(void *arg, int res)
{
}

/*
 * As many shards as reactors, or as many as the files have that are there: then a reactor owns
 * several of them, or some own none.
 */
static int ns_set_create(struct kv_ns *kn)
{
	const struct tgt_node *node = tgt_subsys_node(kn->ns.subsys);
	unsigned nr_io = tgt_node_nr_io(node);
	struct reactor *owner[STORE_SHARDS_MAX];
	struct store_set_opts so = {
		.name = kn->ns.name,
		.reactors = owner,
		.peers = node->reactors,
		.nr_peers = nr_io,
		.is_immutable = kn->opts.is_immutable,
		.value_max = kn->opts.value_max,
		.alert = ns_alert,
		.alert_arg = kn,
	};

	kn->nr_shards = kn->opts.nr_ssd ? kv_tier_shards(kn) : 0;
	if (kn->nr_shards > STORE_SHARDS_MAX)
		return -EXDEV;
	if (kn->nr_shards && kn->nr_shards != nr_io)
		log_info("namespace %s: its SSD files are cut in %u shards, for %u reactors",
			 kn->ns.name, kn->nr_shards, nr_io);
	if (!kn->nr_shards)
		kn->nr_shards = nr_io;
	so.nr_shards = kn->nr_shards;
	for (unsigned i = 0; i < so.nr_shards; i++)
		owner[i] = node->reactors[i * nr_io / so.nr_shards];
	return store_set_create(&so, &kn->set);
}

int kv_ns_create(struct tgt_subsys *ss, const struct kv_ns_opts *o, struct tgt_ns **ns)
{
	const struct tgt_node *node = tgt_subsys_node(ss);
	unsigned nr_io = tgt_node_nr_io(node);
	struct kv_ns *kn = aligned_alloc(_Alignof(struct kv_ns), sizeof(*kn));
	int err = -ENOMEM;

	if (!kn)
		return -ENOMEM;
	memset(kn, 0, sizeof(*kn));
	kn->ns.ops = &kv_ns_ops;
	kn->ns.subsys = ss;
	ns_defaults(kn, o);
	tgt_subsys_ns_ids(ss, &kn->ns, kn->ns.name);
	kn->end = calloc(1, sizeof(*kn->end));
	if (!kn->end)
		goto free_ns;
	for (unsigned i = 0; i < nr_io; i++) {
		kn->leases[i] = kv_lease_table_create(ss, node->workers[i]);
		if (!kn->leases[i])
			goto free_ns;
	}
	err = ns_set_create(kn);
	if (err)
		goto free_ns;
	err = kv_tier_link(kn);
	for (unsigned i = 0; i < kn->nr_shards && !err; i++)
		err = o->build ? o->build(o->build_arg, kn->set, i) : ns_build(kn, i);
	if (err)
		goto destroy_set;
	if (kn->opts.nr_ssd || kn->link)
		kv_tier_open(kn);
	kn->opts.nr_ssd = 0;
	kn->opts.rados = NULL;
	*ns = &kn->ns;
	return 0;
destroy_set:
	for (unsigned i = 0; i < kn->nr_segments; i++)
		tgt_subsys_segment_del(ss, kn->segments[i]);
	store_set_destroy(kn->set, tgt_node_home(node)->reactor, ns_create_failed, NULL);
free_ns:
	ns_free(kn);
	return err;
}

struct store_set *kv_ns_store(struct tgt_ns *ns)
{
	return container_of(ns, struct kv_ns, ns)->set;
}

bool kv_ns_is(const struct tgt_ns *ns)
{
	return ns->ops == &kv_ns_ops;
}

int kv_ns_key(const uint8_t b[16], uint8_t len, struct store_key *key)
{
	return kv_cmd_key_make(key, b, len) == NVME_ST_OK ? 0 : -EINVAL;
}

void kv_ns_info(const struct tgt_ns *ns, struct kv_ns_info *info)
{
	const struct kv_ns *kn = container_of(ns, struct kv_ns, ns);
	const struct tgt_node *node = tgt_subsys_node(ns->subsys);

	*info = (struct kv_ns_info){
		.value_max = kn->opts.value_max,
		.max_keys = kn->max_keys,
		.nr_segments = kn->nr_segments,
		.nr_alerts = atomic_load_explicit(&kn->nr_alerts, memory_order_relaxed),
		.is_immutable = kn->opts.is_immutable,
		.is_read_only = kn->opts.is_read_only,
		.is_acked_ssd = kn->opts.is_acked_ssd,
		.is_acked_rados = kn->opts.is_acked_rados,
		.is_through = kn->opts.is_through || kn->opts.is_acked_ssd ||
			      kn->opts.is_acked_rados,
	};
	for (unsigned i = 0; i < tgt_node_nr_io(node); i++)
		info->nr_leases += kv_lease_count(kn->leases[i]);
}

void kv_ns_leases_of(const struct tgt_ns *ns, uint16_t ctrl, uint64_t *nr, uint64_t *bytes)
{
	const struct kv_ns *kn = container_of(ns, struct kv_ns, ns);
	const struct tgt_node *node = tgt_subsys_node(ns->subsys);

	for (unsigned i = 0; i < tgt_node_nr_io(node); i++)
		kv_lease_of(kn->leases[i], ctrl, nr, bytes);
}
