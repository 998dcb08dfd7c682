/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures as text for Prometheus; see metrics.h. Families of one value per namespace, tier or
 * reactor are rows of a table; the few others have a function. Control thread.
 */
#include "ctl/metrics_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/container.h"
#include "nvme/nvme_str.h"

struct metrics_row {
	const char *name;
	const char *help;
	enum metrics_type type;
	uint32_t at; /* of a uint64_t */
};

#define NS(member) offsetof(struct ctl_stat_ns, member)
static const struct metrics_row ns_rows[] = {
	{"namespace_capacity_bytes", "What it may take, everything included.", METRICS_GAUGE,
	 NS(capacity_bytes)},
	{"namespace_used_bytes", "What it takes now.", METRICS_GAUGE, NS(used_bytes)},
	{"namespace_inflight_commands", "Commands under way.", METRICS_GAUGE, NS(inflight)},
	{"namespace_reads_total", "Commands that read or look.", METRICS_COUNTER, NS(reads)},
	{"namespace_writes_total", "Commands that store or delete.", METRICS_COUNTER, NS(writes)},
	{"namespace_read_bytes_total", "Value bytes out.", METRICS_COUNTER, NS(read_bytes)},
	{"namespace_written_bytes_total", "Value bytes in.", METRICS_COUNTER, NS(write_bytes)},
};
static const struct metrics_row kv_rows[] = {
	{"namespace_key_waits_total", "Changes that waited for another one of the same key.",
	 METRICS_COUNTER, NS(door.waits)},
	{"namespace_store_inflight", "Operations under way in the store.", METRICS_GAUGE,
	 NS(door.busy)},
	{"namespace_store_unexpected_total",
	 "Failures of a tier that were told as a miss or as full.", METRICS_COUNTER,
	 NS(door.unexpected)},
};

#define TIER(member) offsetof(struct store_stats, member)
static const struct metrics_row tier_rows[] = {
	{"tier_capacity_bytes", "Hard bound, index and tables included.", METRICS_GAUGE,
	 TIER(capacity_bytes)},
	{"tier_used_bytes", "Counted against the bound now.", METRICS_GAUGE, TIER(used_bytes)},
	{"tier_value_bytes", "Bytes of values alone.", METRICS_GAUGE, TIER(value_bytes)},
	{"tier_index_bytes", "Bytes of the index.", METRICS_GAUGE, TIER(index_bytes)},
	{"tier_keys", "Values.", METRICS_GAUGE, TIER(nr_keys)},
	{"tier_hits_total", "Reads that this tier answered.", METRICS_COUNTER, TIER(hits)},
	{"tier_misses_total", "Reads that this tier passed on or, the lowest one, missed.",
	 METRICS_COUNTER, TIER(misses)},
	{"tier_puts_total", "Values that came in.", METRICS_COUNTER, TIER(puts)},
	{"tier_evictions_total", "Values that went for room.", METRICS_COUNTER, TIER(evictions)},
	{"tier_evicted_bytes_total", "Bytes of values that went for room.", METRICS_COUNTER,
	 TIER(evicted_bytes)},
	{"tier_bad_seals_total",
	 "Values that did not fit their checksums: dropped, told as a miss.", METRICS_COUNTER,
	 TIER(bad_seals)},
	{"tier_full_total", "Values refused because there was no room even after eviction.",
	 METRICS_COUNTER, TIER(full)},
	{"tier_lost_total",
	 "Acknowledged values whose memory was needed and that could not be written below.",
	 METRICS_COUNTER, TIER(lost)},
	{"tier_dirty_bytes", "Values that lie here and not yet below: what a crash would take.",
	 METRICS_GAUGE, TIER(dirty_bytes)},
	{"tier_torn_total",
	 "Records that a crash had cut off, found by recovery and refused: no fault of the medium.",
	 METRICS_COUNTER, TIER(torn)},
	{"tier_fetched_bytes_total", "Bytes of values brought up before anybody asked for them.",
	 METRICS_COUNTER, TIER(fetched_bytes)},
	{"tier_fetched_used_bytes_total", "Of them, bytes of values that were asked for later.",
	 METRICS_COUNTER, TIER(fetched_used)},
	{"tier_fetched_wasted_bytes_total", "Of them, bytes of values evicted without a use.",
	 METRICS_COUNTER, TIER(fetched_wasted)},
	{"tier_ahead_bytes_total",
	 "Of what was fetched, neighbours in the log of a value that was read.", METRICS_COUNTER,
	 TIER(ahead_bytes)},
	{"tier_ahead_used_bytes_total", "Of them, bytes of values that were asked for later.",
	 METRICS_COUNTER, TIER(ahead_used)},
	{"tier_ahead_wasted_bytes_total", "Of them, bytes of values evicted without a use.",
	 METRICS_COUNTER, TIER(ahead_wasted)},
	{"tier_fetches_total", "Values brought up before anybody asked.", METRICS_COUNTER,
	 TIER(fetches)},
	{"tier_fetches_dropped_total",
	 "Wishes to bring a value up that were cancelled, came too late or found no room.",
	 METRICS_COUNTER, TIER(fetches_dropped)},
	{"tier_read_bytes_total", "Bytes asked of the tier's device to answer reads.",
	 METRICS_COUNTER, TIER(read_bytes)},
	{"tier_straight_bytes_total",
	 "Bytes of values that the device put where the tier above wants them.", METRICS_COUNTER,
	 TIER(straight_bytes)},
	{"tier_staged_bytes_total", "Bytes of values that came by the tier's own buffers.",
	 METRICS_COUNTER, TIER(staged_bytes)},
	{"tier_late_total", "Reads that took too long and were answered as a miss.",
	 METRICS_COUNTER, TIER(late)},
};

#define WORKER(member) offsetof(struct ctl_stat_worker, member)
static const struct metrics_row worker_rows[] = {
	{"reactor_turns_total", "Turns of the loop.", METRICS_COUNTER, WORKER(turns)},
	{"reactor_messages_total", "Messages run.", METRICS_COUNTER, WORKER(mails)},
	{"reactor_sleeps_total", "Times it went to sleep.", METRICS_COUNTER, WORKER(sleeps)},
	{"reactor_mailbox_full_total", "Turns that left messages for the next one.",
	 METRICS_COUNTER, WORKER(mbox_full)},
	{"reactor_requests", "Requests of the pool.", METRICS_GAUGE, WORKER(reqs_max)},
	{"reactor_requests_free", "Requests of the pool that are free.", METRICS_GAUGE,
	 WORKER(reqs_free)},
	{"reactor_requests_free_low", "The least that were ever free.", METRICS_GAUGE,
	 WORKER(reqs_low)},
	{"reactor_requests_empty_total", "Times the pool was empty.", METRICS_COUNTER,
	 WORKER(reqs_empty)},
};

static uint64_t field(const void *base, const struct metrics_row *row)
{
	return *(const uint64_t *)((const char *)base + row->at);
}

void metrics_family(FILE *f, const char *name, const char *help, enum metrics_type type)
{
	static const char *const types[] = {"counter", "gauge", "histogram"};

	fprintf(f, "# HELP peal_%s %s\n# TYPE peal_%s %s\n", name, help, name, types[type]);
}

void metrics_label(FILE *f, const char *text)
{
	for (; *text; text++) {
		if (*text == '\\' || *text == '"')
			fputc('\\', f);
		if (*text == '\n')
			fputs("\\n", f);
		else
			fputc(*text, f);
	}
}

/* Names are for people and needn't be unique: the number is with them. */
void metrics_ns_labels(FILE *f, const char *family_name, const struct ctl_stat_ns *s)
{
	fprintf(f, "peal_%s{namespace=\"", family_name);
	metrics_label(f, s->name);
	fprintf(f, "\",nsid=\"%u\"", s->nsid);
}

static void put_ns_rows(FILE *f, const struct ctl_stat *st, const struct metrics_row *rows,
			unsigned nr, bool is_kv)
{
	for (unsigned r = 0; r < nr; r++) {
		metrics_family(f, rows[r].name, rows[r].help, rows[r].type);
		for (unsigned i = 0; i < st->nr_ns; i++) {
			if (is_kv && !st->ns[i].is_kv)
				continue;
			metrics_ns_labels(f, rows[r].name, &st->ns[i]);
			fprintf(f, "} %" PRIu64 "\n", field(&st->ns[i], &rows[r]));
		}
	}
}

/*
 * One denominator: a read is a hit of one tier or a miss of the lowest one, so that the hits of the
 * tiers and the namespace's misses add up to its reads of values.
 */
static void put_hits(FILE *f, const struct ctl_stat *st)
{
	metrics_family(f, "namespace_hits_total", "Reads of values that some tier answered.",
		       METRICS_COUNTER);
	for (unsigned i = 0; i < st->nr_ns; i++) {
		uint64_t hits = 0;

		for (unsigned t = 0; t < st->ns[i].nr_tiers; t++)
			hits += st->ns[i].tiers[t].st.hits;
		if (!st->ns[i].is_kv)
			continue;
		metrics_ns_labels(f, "namespace_hits_total", &st->ns[i]);
		fprintf(f, "} %" PRIu64 "\n", hits);
	}
	metrics_family(f, "namespace_misses_total", "Reads of values that no tier answered.",
		       METRICS_COUNTER);
	for (unsigned i = 0; i < st->nr_ns; i++) {
		const struct ctl_stat_ns *s = &st->ns[i];

		if (!s->nr_tiers)
			continue;
		metrics_ns_labels(f, "namespace_misses_total", s);
		fprintf(f, "} %" PRIu64 "\n", s->tiers[s->nr_tiers - 1].st.misses);
	}
	metrics_family(f, "namespace_leases", "Values that clients hold pinned.", METRICS_GAUGE);
	for (unsigned i = 0; i < st->nr_ns; i++) {
		if (!st->ns[i].is_kv)
			continue;
		metrics_ns_labels(f, "namespace_leases", &st->ns[i]);
		fprintf(f, "} %u\n", st->ns[i].info.nr_leases);
	}
}

static void put_verbs(FILE *f, const struct ctl_stat *st)
{
	static const char *const verbs[STORE_NR_OPS] = {
		[STORE_BUF] = "buf",	 [STORE_PUT] = "put",	  [STORE_GET] = "get",
		[STORE_FILL] = "fill",	 [STORE_INVAL] = "inval", [STORE_DEL] = "del",
		[STORE_EXIST] = "exist", [STORE_MATCH] = "match", [STORE_LIST] = "list",
		[STORE_FLUSH] = "flush",
	};

	metrics_family(f, "namespace_store_operations_total",
		       "Operations that the store was asked for.", METRICS_COUNTER);
	for (unsigned i = 0; i < st->nr_ns; i++) {
		for (unsigned op = 0; st->ns[i].is_kv && op < STORE_NR_OPS; op++) {
			metrics_ns_labels(f, "namespace_store_operations_total", &st->ns[i]);
			fprintf(f, ",verb=\"%s\"} %" PRIu64 "\n", verbs[op] ? verbs[op] : "other",
				st->ns[i].door.ops[op]);
		}
	}
}

static void put_tiers(FILE *f, const struct ctl_stat *st)
{
	for (unsigned r = 0; r < ARRAY_SIZE(tier_rows); r++) {
		metrics_family(f, tier_rows[r].name, tier_rows[r].help, tier_rows[r].type);
		for (unsigned i = 0; i < st->nr_ns; i++) {
			for (unsigned t = 0; t < st->ns[i].nr_tiers; t++) {
				const struct ctl_stat_tier *tier = &st->ns[i].tiers[t];

				metrics_ns_labels(f, tier_rows[r].name, &st->ns[i]);
				fprintf(f, ",tier=\"%u-%s\"} %" PRIu64 "\n", t, tier->name,
					field(&tier->st, &tier_rows[r]));
			}
		}
	}
}

#define CLASS(member) offsetof(struct ctl_stat_class, member)
static const struct metrics_row class_rows[] = {
	{"class_keys", "Values of a class in memory.", METRICS_GAUGE, CLASS(nr_keys)},
	{"class_value_bytes", "Bytes of values of a class in memory.", METRICS_GAUGE,
	 CLASS(value_bytes)},
};

static void put_classes(FILE *f, const struct ctl_stat *st)
{
	for (unsigned r = 0; r < ARRAY_SIZE(class_rows); r++) {
		metrics_family(f, class_rows[r].name, class_rows[r].help, class_rows[r].type);
		for (unsigned i = 0; i < st->nr_classes; i++) {
			const struct ctl_stat_class *c = &st->classes[i];

			metrics_ns_labels(f, class_rows[r].name, &st->ns[c->ns]);
			if (c->cls)
				fprintf(f, ",class=\"%u\",name=\"", c->cls);
			else
				fputs(",class=\"others\",name=\"", f);
			metrics_label(f, c->name);
			fprintf(f, "\"} %" PRIu64 "\n", field(c, &class_rows[r]));
		}
	}
}

static void time_labels(FILE *f, const struct ctl_stat_ns *s, unsigned verb, const char *what)
{
	char name[48];
	int opc = tgt_time_opcode(s->csi, verb);

	snprintf(name, sizeof(name), "command_seconds%s", what);
	metrics_ns_labels(f, name, s);
	fprintf(f, ",name=\"%s\"", opc < 0 ? "others" : ctl_stat_opcode(s->csi & 1, (unsigned)opc));
}

static void put_time(FILE *f, const struct ctl_stat_ns *s, unsigned verb)
{
	const struct tgt_time_sum *t = &s->time[verb];
	uint64_t nr = 0;

	for (unsigned i = 0; i + 1 < TGT_TIME_BUCKETS; i++) {
		nr += t->bucket[i];
		time_labels(f, s, verb, "_bucket");
		fprintf(f, ",le=\"%.9g\"} %" PRIu64 "\n",
			(double)((uint64_t)TGT_TIME_LEAST_NS << i) / 1e9, nr);
	}
	time_labels(f, s, verb, "_bucket");
	fprintf(f, ",le=\"+Inf\"} %" PRIu64 "\n", t->nr);
	time_labels(f, s, verb, "_sum");
	fprintf(f, "} %.9f\n", (double)t->ns / 1e9);
	time_labels(f, s, verb, "_count");
	fprintf(f, "} %" PRIu64 "\n", t->nr);
}

static void put_times(FILE *f, const struct ctl_stat *st)
{
	metrics_family(
		f, "command_seconds",
		"From the fetch to the end, of a sample: about every 61st command, and the first "
		"after a rest. How many there were is commands_total.",
		METRICS_HISTOGRAM);
	for (unsigned i = 0; i < st->nr_ns; i++)
		for (unsigned v = 0; v < TGT_TIME_VERBS; v++)
			if (st->ns[i].time[v].nr)
				put_time(f, &st->ns[i], v);
}

/* Its number, or "home". */
static void put_worker(FILE *f, const struct ctl *c, const char *name, unsigned id)
{
	char reactor[TGT_WORKER_NAME_BYTES];

	tgt_node_name(c->node, id, reactor);
	fprintf(f, "peal_%s{reactor=\"%s\"} ", name, reactor + strlen("peal-"));
}

static void put_workers(FILE *f, const struct ctl *c, const struct ctl_stat *st)
{
	for (unsigned r = 0; r < ARRAY_SIZE(worker_rows); r++) {
		metrics_family(f, worker_rows[r].name, worker_rows[r].help, worker_rows[r].type);
		for (unsigned i = 0; i < st->nr_workers; i++) {
			put_worker(f, c, worker_rows[r].name, i);
			fprintf(f, "%" PRIu64 "\n", field(&st->workers[i], &worker_rows[r]));
		}
	}
	metrics_family(f, "reactor_busy_seconds_total", "Time with I/O commands under way.",
		       METRICS_COUNTER);
	for (unsigned i = 0; i < st->nr_workers; i++) {
		put_worker(f, c, "reactor_busy_seconds_total", i);
		fprintf(f, "%.6f\n", (double)st->workers[i].busy_ns / 1e9);
	}
}

static void put_commands(FILE *f, const struct ctl_stat *st)
{
	static const char *const outcomes[] = {"done", "missed", "failed"};

	metrics_family(f, "commands_total", "Commands that ended, by command set, opcode and how.",
		       METRICS_COUNTER);
	for (unsigned k = 0; k < TGT_NR_KINDS; k++)
		for (unsigned opc = 0; opc < 256; opc++)
			for (unsigned o = 0; o < TGT_NR_OUTCOMES; o++)
				if (st->cmds[k][opc][o])
					fprintf(f,
						"peal_commands_total{set=\"%s\",opcode=\"%02xh\","
						"name=\"%s\",outcome=\"%s\"} %" PRIu64 "\n",
						ctl_stat_kind(k), opc, ctl_stat_opcode(k, opc),
						outcomes[o], st->cmds[k][opc][o]);
	metrics_family(f, "command_statuses_total",
		       "Commands that did not end well, by NVMe status.", METRICS_COUNTER);
	for (unsigned sct = 0; sct < 8; sct++)
		for (unsigned sc = 0; sc < 256; sc++)
			if (st->bad[sct][sc])
				fprintf(f,
					"peal_command_statuses_total{status=\"%03xh\",name=\"%s\"} "
					"%" PRIu64 "\n",
					sct << 8 | sc, nvme_str_status((uint16_t)(sct << 8 | sc)),
					st->bad[sct][sc]);
}

static void put_daemon(FILE *f, const struct ctl *c, const struct ctl_stat *st)
{
	metrics_family(f, "build_info", "The version that runs.", METRICS_GAUGE);
	fprintf(f, "peal_build_info{version=\"%s\"} 1\n", PEAL_VERSION);
	metrics_family(f, "start_time_seconds", "When it started, since the epoch.", METRICS_GAUGE);
	fprintf(f, "peal_start_time_seconds %.0f\n", c->born_s);
	metrics_family(f, "clients", "Clients that are attached.", METRICS_GAUGE);
	fprintf(f, "peal_clients %u\n", st->nr_clients);
	metrics_family(f, "clients_refused_total", "Connections that weren't taken.",
		       METRICS_COUNTER);
	fprintf(f, "peal_clients_refused_total{how=\"told\"} %" PRIu64 "\n", st->refused.nr_told);
	fprintf(f, "peal_clients_refused_total{how=\"silent\"} %" PRIu64 "\n",
		st->refused.nr_silent);
	metrics_family(f, "controllers", "Controllers of the subsystem.", METRICS_GAUGE);
	fprintf(f, "peal_controllers %u\n", st->subsys.nr_ctrls);
	metrics_family(f, "queues", "I/O queue pairs that are live.", METRICS_GAUGE);
	fprintf(f, "peal_queues %u\n", st->subsys.nr_queues);
	metrics_family(f, "media_errors_total", "Values that were found wrong, wherever it was.",
		       METRICS_COUNTER);
	fprintf(f, "peal_media_errors_total %" PRIu64 "\n", st->subsys.media_errors);
	metrics_family(f, "memory_limit_bytes", "What all namespaces together may take.",
		       METRICS_GAUGE);
	fprintf(f, "peal_memory_limit_bytes %" PRIu64 "\n", c->conf->dram_bytes);
}

char *metrics_text(const struct ctl *c, const struct ctl_stat *st, size_t *bytes)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, bytes);
	bool is_bad;

	if (!f)
		return NULL;
	put_daemon(f, c, st);
	put_commands(f, st);
	put_times(f, st);
	put_workers(f, c, st);
	put_ns_rows(f, st, ns_rows, ARRAY_SIZE(ns_rows), false);
	put_ns_rows(f, st, kv_rows, ARRAY_SIZE(kv_rows), true);
	put_hits(f, st);
	put_verbs(f, st);
	put_tiers(f, st);
	metrics_ssd_put(f, c, st);
	put_classes(f, st);
	is_bad = ferror(f);
	if (fclose(f) || is_bad) {
		free(text);
		return NULL;
	}
	return text;
}
