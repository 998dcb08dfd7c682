/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures of ctl_stat.h as JSON. Bytes, counts and seconds; counters since the start. Control
 * thread.
 * tidy: no-test: test/peer/ctl_rpc.py asks a daemon
 */
#include <errno.h>

#include "base/container.h"
#include "ctl/ctl_rpc.h"
#include "ctl/ctl_stat.h"

struct stats_call {
	struct ctl_stat_wait wait;
	struct rpc_req *req;
};

static void put(json_t *to, const char *key, uint64_t v)
{
	json_object_set_new(to, key, json_integer((json_int_t)v));
}

static json_t *stats_tier(const struct ctl_stat_tier *t)
{
	const struct store_stats *s = &t->st;
	json_t *to = json_pack("{s:s}", "name", t->name);

	put(to, "capacity_bytes", s->capacity_bytes);
	put(to, "used_bytes", s->used_bytes);
	put(to, "value_bytes", s->value_bytes);
	put(to, "index_bytes", s->index_bytes);
	put(to, "keys", s->nr_keys);
	put(to, "hits", s->hits);
	put(to, "misses", s->misses);
	put(to, "puts", s->puts);
	put(to, "evictions", s->evictions);
	put(to, "evicted_bytes", s->evicted_bytes);
	put(to, "bad_seals", s->bad_seals);
	put(to, "full", s->full);
	put(to, "lost", s->lost);
	put(to, "dirty_bytes", s->dirty_bytes);
	put(to, "torn", s->torn);
	put(to, "fetched_bytes", s->fetched_bytes);
	put(to, "fetched_used", s->fetched_used);
	put(to, "fetched_wasted", s->fetched_wasted);
	put(to, "ahead_bytes", s->ahead_bytes);
	put(to, "ahead_used", s->ahead_used);
	put(to, "ahead_wasted", s->ahead_wasted);
	put(to, "fetches", s->fetches);
	put(to, "fetches_dropped", s->fetches_dropped);
	put(to, "read_bytes", s->read_bytes);
	put(to, "straight_bytes", s->straight_bytes);
	put(to, "staged_bytes", s->staged_bytes);
	put(to, "late", s->late);
	if (t->health.nr_shards)
		json_object_set_new(to, "health", rpc_ssd_tier(&t->health));
	return to;
}

static json_t *stats_classes(const struct ctl_stat *st, unsigned ns)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < st->nr_classes; i++) {
		const struct ctl_stat_class *c = &st->classes[i];

		if (c->ns == ns)
			json_array_append_new(
				list, json_pack("{s:i, s:s, s:b, s:I, s:I}", "class", (int)c->cls,
						"name", c->name, "registered", c->is_registered,
						"memory_keys", (json_int_t)c->nr_keys,
						"memory_bytes", (json_int_t)c->value_bytes));
	}
	return list;
}

/* What takes long shows in seconds / samples and in the quantiles; buckets are for differences. */
static json_t *stats_times(const struct ctl_stat_ns *s)
{
	json_t *list = json_array();

	for (unsigned v = 0; v < TGT_TIME_VERBS; v++) {
		const struct tgt_time_sum *t = &s->time[v];
		int opc = tgt_time_opcode(s->csi, v);
		json_t *one, *buckets = json_array();

		for (unsigned i = 0; i < TGT_TIME_BUCKETS; i++)
			json_array_append_new(buckets, json_integer((json_int_t)t->bucket[i]));
		one = json_pack("{s:s, s:I, s:f, s:o}", "name",
				opc < 0 ? "others" : ctl_stat_opcode(s->csi & 1, (unsigned)opc),
				"samples", (json_int_t)t->nr, "seconds", (double)t->ns / 1e9,
				"buckets", buckets);
		put(one, "p50_ns", tgt_time_quantile(t->bucket, 500));
		put(one, "p99_ns", tgt_time_quantile(t->bucket, 990));
		if (t->nr)
			json_array_append_new(list, one);
		else
			json_decref(one);
	}
	return list;
}

/* Where there are several. */
static void stats_parts(const struct ctl_stat *st, unsigned ns, unsigned tier, json_t *to)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < st->nr_parts; i++)
		if (st->parts[i].ns == ns && st->parts[i].tier == tier)
			json_array_append_new(list, rpc_ssd_part(&st->parts[i].part));
	if (json_array_size(list))
		json_object_set(to, "devices", list);
	json_decref(list);
}

static json_t *stats_ns(const struct ctl_stat *st, unsigned ns)
{
	const struct ctl_stat_ns *s = &st->ns[ns];
	json_t *to = json_pack("{s:s, s:s}", "name", s->name, "command_set",
			       s->csi == 1 ? "kv" : "nvm"),
	       *tiers = json_array();

	put(to, "nsid", s->nsid);
	put(to, "capacity_bytes", s->capacity_bytes);
	put(to, "used_bytes", s->used_bytes);
	put(to, "inflight", s->inflight);
	put(to, "reads", s->reads);
	put(to, "writes", s->writes);
	put(to, "read_bytes", s->read_bytes);
	put(to, "write_bytes", s->write_bytes);
	for (unsigned t = 0; t < s->nr_tiers; t++) {
		json_t *tier = stats_tier(&s->tiers[t]);

		stats_parts(st, ns, t, tier);
		json_array_append_new(tiers, tier);
	}
	json_object_set_new(to, "times", stats_times(s));
	if (s->is_kv) {
		put(to, "leases", s->info.nr_leases);
		put(to, "key_waits", s->door.waits);
		put(to, "store_inflight", s->door.busy);
		json_object_set_new(to, "classes", stats_classes(st, ns));
	}
	json_object_set_new(to, "tiers", tiers);
	return to;
}

static json_t *stats_worker(const struct tgt_node *node, unsigned id,
			    const struct ctl_stat_worker *w)
{
	char name[TGT_WORKER_NAME_BYTES];
	json_t *to = json_object();

	tgt_node_name(node, id, name);
	json_object_set_new(to, "name", json_string(name));
	put(to, "turns", w->turns);
	put(to, "messages", w->mails);
	put(to, "sleeps", w->sleeps);
	put(to, "mailbox_full", w->mbox_full);
	put(to, "requests_max", w->reqs_max);
	put(to, "requests_free", w->reqs_free);
	put(to, "requests_low", w->reqs_low);
	put(to, "requests_empty", w->reqs_empty);
	json_object_set_new(to, "busy_seconds", json_real((double)w->busy_ns / 1e9));
	return to;
}

static json_t *stats_commands(const struct ctl_stat *st)
{
	json_t *list = json_array();

	for (unsigned k = 0; k < TGT_NR_KINDS; k++) {
		for (unsigned opc = 0; opc < 256; opc++) {
			const uint64_t *n = st->cmds[k][opc];
			char code[8];

			if (!n[TGT_DONE] && !n[TGT_MISSED] && !n[TGT_FAILED])
				continue;
			snprintf(code, sizeof(code), "%02xh", opc);
			json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:I, s:I, s:I}",
							      "kind", ctl_stat_kind(k), "opcode",
							      code, "name", ctl_stat_opcode(k, opc),
							      "done", (json_int_t)n[TGT_DONE],
							      "missed", (json_int_t)n[TGT_MISSED],
							      "failed", (json_int_t)n[TGT_FAILED]));
		}
	}
	return list;
}

static json_t *stats_all(const struct ctl *c, const struct ctl_stat *st)
{
	json_t *to = json_object(), *list = json_array();

	json_object_set_new(to, "uptime_seconds",
			    json_real((double)(st->at_ns - c->born_ns) / 1e9));
	put(to, "clients", st->nr_clients);
	put(to, "clients_refused", st->refused.nr_told + st->refused.nr_silent);
	put(to, "clients_refused_silently", st->refused.nr_silent);
	put(to, "controllers", st->subsys.nr_ctrls);
	put(to, "queues", st->subsys.nr_queues);
	put(to, "media_errors", st->subsys.media_errors);
	json_object_set_new(to, "commands", stats_commands(st));
	for (unsigned i = 0; i < st->nr_workers; i++)
		json_array_append_new(list, stats_worker(c->node, i, &st->workers[i]));
	json_object_set_new(to, "reactors", list);
	list = json_array();
	for (unsigned i = 0; i < st->nr_ns; i++)
		json_array_append_new(list, stats_ns(st, i));
	json_object_set_new(to, "namespaces", list);
	json_object_set_new(to, "devices", rpc_ssd_devices(c));
	return to;
}

static void stats_done(struct ctl_stat_wait *wait, const struct ctl_stat *st)
{
	struct stats_call *s = container_of(wait, struct stats_call, wait);
	struct rpc_req *req = s->req;

	free(s);
	rpc_req_done(req, st ? stats_all(ctl_of(req), st) : NULL);
}

static void stats_run(struct rpc_req *req)
{
	struct stats_call *s = calloc(1, sizeof(*s));

	if (!s) {
		rpc_req_fail(req, -ENOMEM, "no memory");
		return;
	}
	s->req = req;
	s->wait.done = stats_done;
	ctl_stat_get(ctl_of(req), &s->wait);
}

const struct rpc_method rpc_stats_get = {
	.name = "stats",
	.help = "All figures: of the daemon, its reactors, its namespaces and their tiers",
	.result = "{uptime_seconds, clients, clients_refused, clients_refused_silently, "
		  "controllers, queues, media_errors, commands: [{kind, "
		  "opcode, name, done, missed, failed}], reactors: [{name, "
		  "...}], namespaces: [{..., "
		  "times: [{name, samples, seconds, p50_ns, p99_ns, buckets}], "
		  "classes: [{class, name, registered, memory_keys, memory_bytes}], tiers: "
		  "[{..., health: {state, written_bytes, refused, errors, segments, dead_segments, "
		  "bad_keys, budget_day_bytes, given_back_bytes, recovering, recovered_percent, "
		  "recover_bytes, recover_ms}, devices, where there are several: [{folder, state "
		  "(in, draining, drained, lost, missing), capacity_bytes, used_bytes, "
		  "value_bytes, keys, hits, puts, evictions, moved, moved_bytes, health}]}]}], "
		  "devices: as ssd.devices}; "
		  "times are of a sample, from the fetch to the end: bucket i has those below 256 "
		  "<< i ns, the last one the rest, p50 and p99 are upper bounds",
	.run = stats_run,
};
