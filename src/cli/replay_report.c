/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table fits 80 columns. GB is 10^9 bytes where it is a rate, GiB is 2^30 where it is an
 * amount of memory. One thread.
 */
#include "cli/replay_report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/container.h"
#include "base/parse.h"
#include "sim/sim_lru.h"

/* KV bytes a token = layers x 2 x KV heads x head size x 2 bytes (bf16). */
const struct replay_model replay_report_models[] = {
	{"8b", "an 8B model (32 layers, 8 KV heads of 128, bf16)", 131072, 25000},
	{"70b", "a 70B model (80 layers, 8 KV heads of 128, bf16)", 327680, 22900},
	{NULL, NULL, 0, 0},
};

const struct replay_model *replay_report_model(const char *name)
{
	for (const struct replay_model *m = replay_report_models; m->name; m++)
		if (strcmp(m->name, name) == 0)
			return m;
	return NULL;
}

const char *replay_report_count(uint64_t v, char buf[32])
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%" PRIu64, v);
	char *p = buf;

	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			*p++ = ',';
		*p++ = digits[i];
	}
	*p = 0;
	return buf;
}

static double report_percent(uint64_t part, uint64_t all)
{
	return all ? 100.0 * (double)part / (double)all : 0.0;
}

double replay_report_hit_percent(const struct replay_report *r)
{
	return report_percent(r->st->hits, r->st->blocks);
}

bool replay_report_is_caught(const struct replay_plant *p)
{
	return (p->is_miss || p->is_below) && p->media_errors_after > p->media_errors_before &&
	       (p->is_logged || !p->has_log);
}

int replay_report_yardsticks(struct replay_report *r)
{
	struct sim_lru_stats st;
	int err = sim_lru_run(r->reqs, SIM_LRU_UNBOUNDED, &st);

	if (err)
		return err;
	r->uniques = st.residents;
	r->infinite_percent = sim_lru_percent(&st);
	if (r->residents == 0)
		return 0;
	err = sim_lru_run(r->reqs, r->residents, &st);
	if (!err)
		r->lru_percent = sim_lru_percent(&st);
	return err;
}

static double report_gb_per_s(const struct replay_op *op)
{
	return op->ns ? (double)op->bytes / (double)op->ns : 0.0;
}

/* "871 ns", "12.3 us", "4.56 ms", "1.23 s" */
static const char *report_time(uint64_t ns, char buf[32])
{
	static const char *const units[] = {"ns", "us", "ms", "s"};
	double v = (double)ns;
	unsigned unit = 0;

	while (v >= 999.5 && unit < 3) {
		v /= 1000;
		unit++;
	}
	snprintf(buf, 32, "%.*f %s", unit == 0 || v >= 99.95 ? 0 : 1, v, units[unit]);
	return buf;
}

static void report_op(const char *name, const struct replay_op *op, FILE *out)
{
	char count[32], size[16] = "-", rate[16] = "-", p50[32], p99[32], p999[32];

	if (op->bytes) {
		format_size(op->bytes, size);
		snprintf(rate, sizeof(rate), "%.2f", report_gb_per_s(op));
	}
	fprintf(out, "  %-10s %11s %11s %7s %10s %10s %10s\n", name,
		replay_report_count(op->nr, count), size, rate,
		report_time(replay_hist_ns(&op->lat, 500), p50),
		report_time(replay_hist_ns(&op->lat, 990), p99),
		report_time(replay_hist_ns(&op->lat, 999), p999));
}

static void report_head(const struct replay_report *r, FILE *out)
{
	uint64_t block_bytes = r->model->token_bytes * SIM_BLOCK_TOKENS;
	const struct replay_tier *ssd = replay_tiers_find(&r->tiers, "ssd");
	char a[32], b[32], value[16], block[16], dram[16], unique[16], size[16];

	format_size(r->value_bytes, value);
	format_size(block_bytes, block);
	format_size(r->capacity_bytes, dram);
	format_size(r->uniques * r->value_bytes, unique);
	fprintf(out, "  trace      %s\n", r->trace);
	fprintf(out, "             %s requests, %s references to blocks of %u tokens\n",
		replay_report_count(r->st->requests, a), replay_report_count(r->st->blocks, b),
		SIM_BLOCK_TOKENS);
	fprintf(out, "  values     %s each, 1/%.0f of a block of %s of\n             %s\n", value,
		(double)block_bytes / r->value_bytes, block, r->model->text);
	fprintf(out, "  daemon     %s of DRAM", dram);
	if (ssd) {
		format_size(ssd->capacity_bytes, size);
		fprintf(out, " and %s of SSD", size);
	}
	fprintf(out, " held %s of %s unique blocks", replay_report_count(r->residents, a),
		replay_report_count(r->uniques, b));
	fprintf(out, "%s(%s)\n\n", ssd ? "\n             " : " ", unique);
}

/* Of the blocks that were hits: from memory. The rest came from below, so the tiers add up. */
static uint64_t report_memory_hits(const struct replay_report *r)
{
	const struct replay_tier *dram = replay_tiers_find(&r->tiers, "dram");

	return dram ? min_t(uint64_t, dram->hits, r->st->hits) : r->st->hits;
}

static void report_tiers(const struct replay_report *r, FILE *out)
{
	uint64_t memory = report_memory_hits(r), below = r->st->hits - memory;
	char a[32];

	if (!replay_tiers_find(&r->tiers, "ssd"))
		return;
	fprintf(out, "    from memory            %5.1f %%   %s blocks\n",
		report_percent(memory, r->st->blocks), replay_report_count(memory, a));
	fprintf(out, "    from the SSD           %5.1f %%   %s blocks\n",
		report_percent(below, r->st->blocks), replay_report_count(below, a));
	fprintf(out, "  misses                   %5.1f %%   %s blocks\n",
		report_percent(r->st->blocks - r->st->hits, r->st->blocks),
		replay_report_count(r->st->blocks - r->st->hits, a));
}

static void report_hits(const struct replay_report *r, FILE *out)
{
	char a[32], b[32];

	fprintf(out, "  prefix hit rate          %5.1f %%   %s of %s blocks\n",
		replay_report_hit_percent(r), replay_report_count(r->st->hits, a),
		replay_report_count(r->st->blocks, b));
	report_tiers(r, out);
	fprintf(out, "    exact LRU of that size %5.1f %%   %s blocks, computed\n", r->lru_percent,
		replay_report_count(r->residents, a));
	fprintf(out, "    infinite cache         %5.1f %%   computed\n\n", r->infinite_percent);
}

static void report_ops(const struct replay_report *r, FILE *out)
{
	fprintf(out, "  %-10s %11s %11s %7s %10s %10s %10s\n", "", "count", "bytes", "GB/s", "p50",
		"p99", "p99.9");
	report_op("match", &r->st->match, out);
	report_op("get", &r->st->get, out);
	report_op("put", &r->st->put, out);
	fprintf(out, "  one client thread, %u under way; %.0f %% of the time is its own work, ",
		r->depth, report_percent(r->st->get.work_ns + r->st->put.work_ns, r->wall_ns));
	fprintf(out, "making\n  values and comparing bytes; GB/s and times include it\n\n");
}

static void report_outcome(const struct replay_report *r, FILE *out)
{
	char a[32], b[32], size[16];

	fprintf(out, "  wrong bytes: %s of %s", replay_report_count(r->st->wrong_bytes, a),
		replay_report_count(r->st->bytes_checked, b));
	fprintf(out, " (every byte of every hit compared)\n");
	format_size(r->evictions * r->value_bytes, size);
	fprintf(out, "  evictions:   %s blocks, %s\n", replay_report_count(r->evictions, a), size);
	if (r->st->late_misses)
		fprintf(out, "  evicted between match and get: %s\n",
			replay_report_count(r->st->late_misses, a));
	if (r->st->already_there)
		fprintf(out, "  not put again, still there behind a miss: %s\n",
			replay_report_count(r->st->already_there, a));
	if (r->st->refused)
		fprintf(out, "  puts refused, no room: %s\n",
			replay_report_count(r->st->refused, a));
}

/* Of the value bytes that went to the SSD: how many device bytes for each; 0: not known. */
static double report_amplification(const struct replay_report *r)
{
	const struct replay_tier *ssd = replay_tiers_find(&r->tiers, "ssd");
	uint64_t accepted = ssd ? ssd->puts * r->value_bytes : 0;

	return r->tiers.has_written && accepted ? (double)r->tiers.written_bytes / (double)accepted
						: 0.0;
}

static void report_written(const struct replay_report *r, FILE *out)
{
	const struct replay_tier *ssd = replay_tiers_find(&r->tiers, "ssd");
	char accepted[16], written[16], a[32];

	if (!ssd)
		return;
	format_size(ssd->puts * r->value_bytes, accepted);
	fprintf(out, "  SSD:         %s blocks given up by memory, %s",
		replay_report_count(ssd->puts, a), accepted);
	if (r->tiers.has_written) {
		format_size(r->tiers.written_bytes, written);
		fprintf(out, "; %s written,\n               write amplification %.3f", written,
			report_amplification(r));
	}
	fprintf(out, "\n");
}

static void report_half(const struct replay_half *h, FILE *out)
{
	char a[32], b[32], down[32], first[32];

	fprintf(out, "  killed:      after %s requests, and started again: it served after %s",
		replay_report_count(h->after_requests, a), report_time(h->down_ns, down));
	if (h->first_hit_ns)
		fprintf(out, ",\n               the first hit came after %s",
			report_time(h->first_hit_ns, first));
	fprintf(out, "; %s of %s blocks\n               were there again, %.1f %%\n",
		replay_report_count(h->nr_after, a), replay_report_count(h->nr_before, b),
		report_percent(h->nr_after, h->nr_before));
}

/* Seconds that loading the same prefixes would take if the values were whole blocks. */
static double report_full_load_s(const struct replay_report *r)
{
	double rate = report_gb_per_s(&r->st->get);

	return rate > 0 ? (double)r->st->hit_tokens * (double)r->model->token_bytes / rate / 1e9
			: 0.0;
}

static double report_recompute_s(const struct replay_report *r)
{
	return (double)r->st->hit_tokens / r->prefill_tokens_per_s;
}

static void report_cost(const struct replay_report *r, FILE *out)
{
	double wins = (double)r->model->token_bytes * r->prefill_tokens_per_s / 1e9;
	char a[32], b[32], block[16];

	format_size(r->model->token_bytes * SIM_BLOCK_TOKENS, block);
	fprintf(out, "  recompute:   %.1f s of prefill for the %s tokens that were hits,\n",
		report_recompute_s(r), replay_report_count(r->st->hit_tokens, a));
	fprintf(out, "               at %s tokens/s (%s)\n",
		replay_report_count(r->prefill_tokens_per_s, b), r->model->name);
	fprintf(out, "  loading:     %.1f s as replayed, every byte compared; whole blocks of %s\n",
		(double)r->st->get.ns / 1e9, block);
	fprintf(out, "               at that GB/s: %.1f s (loading wins above %.2f GB/s)\n",
		report_full_load_s(r), wins);
}

static void report_plant(const struct replay_plant *p, FILE *out)
{
	char key[PARSE_KEY_TEXT_BYTES];

	format_key(p->key.b, p->key.len, key);
	fprintf(out, "\n  corruption planted: key %s,\n    caught: %s (", key,
		replay_report_is_caught(p) ? "yes" : "NO");
	fprintf(out, "%s",
		p->is_miss    ? "miss"
		: p->is_below ? "right bytes from the SSD"
			      : "NO MISS");
	if (p->has_log)
		fprintf(out, ", %s in the daemon's log", p->is_logged ? "alert" : "NO ALERT");
	fprintf(out, ")\n    media errors in the SMART log: %" PRIu64 " -> %" PRIu64 "%s\n",
		p->media_errors_before, p->media_errors_after,
		p->is_healed ? "; put again, it is served" : "");
}

void replay_report_print(const struct replay_report *r, FILE *out)
{
	report_head(r, out);
	report_hits(r, out);
	report_ops(r, out);
	report_outcome(r, out);
	report_written(r, out);
	if (r->half.is_done)
		report_half(&r->half, out);
	report_cost(r, out);
	if (r->plant.is_done)
		report_plant(&r->plant, out);
}

static json_t *report_json_op(const struct replay_op *op)
{
	return json_pack("{s:I,s:I,s:f,s:f,s:f,s:I,s:I,s:I,s:I}", "count", (json_int_t)op->nr,
			 "bytes", (json_int_t)op->bytes, "seconds", (double)op->ns / 1e9,
			 "client_seconds", (double)op->work_ns / 1e9, "gb_per_s",
			 report_gb_per_s(op), "p50_ns", (json_int_t)replay_hist_ns(&op->lat, 500),
			 "p99_ns", (json_int_t)replay_hist_ns(&op->lat, 990), "p999_ns",
			 (json_int_t)replay_hist_ns(&op->lat, 999), "max_ns",
			 (json_int_t)op->lat.max_ns);
}

static json_t *report_json_plant(const struct replay_plant *p)
{
	char key[PARSE_KEY_TEXT_BYTES];

	if (!p->is_done)
		return json_null();
	format_key(p->key.b, p->key.len, key);
	return json_pack("{s:s,s:b,s:b,s:b,s:b,s:b,s:I,s:I}", "key", key, "is_caught",
			 replay_report_is_caught(p), "is_miss", p->is_miss, "is_below", p->is_below,
			 "is_logged", p->is_logged, "is_healed", p->is_healed,
			 "media_errors_before", (json_int_t)p->media_errors_before,
			 "media_errors_after", (json_int_t)p->media_errors_after);
}

static json_t *report_json_tiers(const struct replay_report *r)
{
	uint64_t memory = report_memory_hits(r);
	json_t *a = json_array();

	for (unsigned i = 0; i < r->tiers.nr; i++) {
		const struct replay_tier *t = &r->tiers.t[i];
		uint64_t hits = i == 0 ? memory : i == 1 ? r->st->hits - memory : 0;

		json_array_append_new(a,
				      json_pack("{s:s,s:I,s:I,s:I,s:f,s:I,s:I}", "name", t->name,
						"capacity_bytes", (json_int_t)t->capacity_bytes,
						"keys", (json_int_t)t->nr_keys, "hit_blocks",
						(json_int_t)hits, "hit_percent",
						report_percent(hits, r->st->blocks), "hits_told",
						(json_int_t)t->hits, "puts", (json_int_t)t->puts));
	}
	return a;
}

static json_t *report_json_half(const struct replay_half *h)
{
	if (!h->is_done)
		return json_null();
	return json_pack("{s:I,s:f,s:f,s:I,s:I}", "after_requests", (json_int_t)h->after_requests,
			 "down_s", (double)h->down_ns / 1e9, "first_hit_s",
			 (double)h->first_hit_ns / 1e9, "blocks_before", (json_int_t)h->nr_before,
			 "blocks_after", (json_int_t)h->nr_after);
}

static void report_json_int(json_t *o, const char *name, uint64_t v)
{
	json_object_set_new(o, name, json_integer((json_int_t)v));
}

static void report_json_real(json_t *o, const char *name, double v)
{
	json_object_set_new(o, name, json_real(v));
}

static json_t *report_json_object(const struct replay_report *r)
{
	const struct {
		const char *name;
		uint64_t v;
	} ints[] = {
		{"requests", r->st->requests},
		{"blocks", r->st->blocks},
		{"unique_blocks", r->uniques},
		{"value_bytes", r->value_bytes},
		{"dram_bytes", r->capacity_bytes},
		{"resident_blocks", r->residents},
		{"hit_blocks", r->st->hits},
		{"hit_tokens", r->st->hit_tokens},
		{"bytes_checked", r->st->bytes_checked},
		{"wrong_bytes", r->st->wrong_bytes},
		{"evictions", r->evictions},
		{"evicted_bytes", r->evictions * r->value_bytes},
		{"late_misses", r->st->late_misses},
		{"already_there", r->st->already_there},
		{"refused_puts", r->st->refused},
		{"depth", r->depth},
		{"prefill_tokens_per_s", r->prefill_tokens_per_s},
	};
	json_t *o = json_object();

	json_object_set_new(o, "trace", json_string(r->trace));
	json_object_set_new(o, "model", json_string(r->model->name));
	for (size_t i = 0; i < ARRAY_SIZE(ints); i++)
		report_json_int(o, ints[i].name, ints[i].v);
	report_json_real(o, "hit_percent", replay_report_hit_percent(r));
	report_json_real(o, "lru_percent", r->lru_percent);
	report_json_real(o, "infinite_percent", r->infinite_percent);
	report_json_real(o, "wall_s", (double)r->wall_ns / 1e9);
	report_json_real(o, "recompute_s", report_recompute_s(r));
	report_json_real(o, "load_s", (double)r->st->get.ns / 1e9);
	report_json_real(o, "load_whole_blocks_s", report_full_load_s(r));
	json_object_set_new(o, "match", report_json_op(&r->st->match));
	json_object_set_new(o, "get", report_json_op(&r->st->get));
	json_object_set_new(o, "put", report_json_op(&r->st->put));
	json_object_set_new(o, "plant", report_json_plant(&r->plant));
	json_object_set_new(o, "tiers", report_json_tiers(r));
	json_object_set_new(o, "half", report_json_half(&r->half));
	if (r->tiers.has_written)
		report_json_int(o, "written_bytes", r->tiers.written_bytes);
	report_json_real(o, "write_amplification", report_amplification(r));
	return o;
}

int replay_report_json(const struct replay_report *r, const char *path)
{
	json_t *o = report_json_object(r);
	int err;

	errno = 0;
	err = json_dump_file(o, path, JSON_INDENT(2));
	json_decref(o);
	if (!err)
		return 0;
	return errno ? -errno : -EIO;
}
