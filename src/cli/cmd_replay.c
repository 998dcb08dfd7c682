/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal replay: a trace of LLM conversations against a daemon, every byte of every hit compared
 * with what only this client can know, and one table at the end. --plant also turns over a bit in
 * the daemon's memory and shows that it is caught.
 *
 * Exit status: 0; 1 when a byte was wrong or what was planted wasn't caught; 2 for a wrong option;
 * 3 when something failed. One thread.
 */
/* tidy: no-test: test/peer/replay.py runs it; its parts are tested by themselves */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/le.h"
#include "base/mono.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/replay_bar.h"
#include "cli/replay_plant.h"
#include "cli/replay_report.h"
#include "cli/replay_run.h"
#include "sim/sim_gen.h"
#include "sim/sim_lru.h"
#include "sim/sim_value.h"

#define REPLAY_LOG_WAIT_NS 5000000000ull
#define REPLAY_VALUE_BYTES (1u << 20)
#define REPLAY_DEPTH 8u
#define REPLAY_LIST_KEYS 1024u
#define SMART_LID 0x02
#define SMART_BYTES 512u
#define SMART_MEDIA_ERRORS 160u

enum {
	OPT_SEED = 256,
	OPT_REQUESTS,
	OPT_SCALE,
	OPT_TRACE,
	OPT_VALUE_BYTES,
	OPT_DEPTH,
	OPT_MODEL,
	OPT_PREFILL,
	OPT_JSON_FILE,
	OPT_PLANT,
	OPT_PLANT_LOG,
	OPT_COUNT,
	OPT_HALF_WAY,
};

static const struct argp_option options[] = {
	{"trace", OPT_TRACE, "FILE", 0,
	 "Replay this trace (Mooncake JSON lines) instead of a generated one", 0},
	{"seed", OPT_SEED, "N", 0, "Of the generated trace and of keys and values (default 1)", 0},
	{"requests", OPT_REQUESTS, "N", 0, "How many (default: 12031 x scale, or the whole file)",
	 0},
	{"scale", OPT_SCALE, "X", 0,
	 "People in the generated trace against the original: 0.001 to 100 (default 1)", 0},
	{"value-bytes", OPT_VALUE_BYTES, "SIZE", 0,
	 "Size of a block's value, 1 to 128M (default 1M)", 0},
	{"depth", OPT_DEPTH, "N", 0, "Reads or writes under way, 1 to 256 (default 8)", 0},
	{"model", OPT_MODEL, "8b|70b", 0, "Model whose blocks these stand for (default 8b)", 0},
	{"prefill-tokens-per-s", OPT_PREFILL, "N", 0,
	 "What recomputing would do (default: 25000 for 8b, 22900 for 70b)", 0},
	{"json-file", OPT_JSON_FILE, "FILE", 0, "Write the figures there too", 0},
	{"plant", OPT_PLANT, "PID|auto", 0,
	 "At the end turn over one bit in the memory of the daemon PID, which its control plane "
	 "tells if it is auto, and see it caught",
	 0},
	{"count", OPT_COUNT, 0, 0,
	 "Only say how many requests, block references and unique blocks the trace has", 0},
	{"half-way", OPT_HALF_WAY, "COMMAND", 0,
	 "After half of the requests run this, which ends the daemon and starts it again", 0},
	{"plant-log", OPT_PLANT_LOG, "FILE", 0, "That daemon's log, to look for the alert", 0},
	{0},
};

struct replay_cmd {
	struct sim_gen_opt gen;
	struct replay_opts run;
	const char *trace_path;
	const char *json_path;
	const char *plant_log;
	const char *half_way;
	const struct replay_model *model;
	uint32_t nr_reqs;
	uint32_t prefill;
	bool is_count;
	bool is_plant;
	pid_t plant_pid; /* 0: the control plane tells */
	/* While it runs. */
	struct sim_trace trace;
	struct cli *cli;
	struct peal *p;
	char trace_text[160];
};

static double replay_scale(const char *arg)
{
	char *end;
	double v = strtod(arg, &end);

	if (end == arg || *end || !(v >= 0.001 && v <= 100))
		exit(cli_usage("--scale is '%s', expected a number from 0.001 to 100", arg));
	return v;
}

static error_t replay_opt(int key, char *arg, struct argp_state *st)
{
	struct replay_cmd *c = st->input;

	switch (key) {
	case OPT_TRACE:
		c->trace_path = arg;
		return 0;
	case OPT_SEED:
		c->run.seed = cli_number("--seed", arg, 0, UINT64_MAX);
		return 0;
	case OPT_REQUESTS:
		c->nr_reqs = (uint32_t)cli_number("--requests", arg, 1, SIM_TRACE_REQS_MAX);
		return 0;
	case OPT_SCALE:
		c->gen.scale = replay_scale(arg);
		return 0;
	case OPT_VALUE_BYTES:
		c->run.value_bytes = (uint32_t)cli_size("--value-bytes", arg, 1, PEAL_VALUE_MAX);
		return 0;
	case OPT_DEPTH:
		c->run.depth = (uint32_t)cli_number("--depth", arg, 1, 256);
		return 0;
	case OPT_MODEL:
		c->model = replay_report_model(arg);
		if (!c->model)
			exit(cli_usage("--model is '%s', expected 8b or 70b", arg));
		return 0;
	case OPT_PREFILL:
		c->prefill = (uint32_t)cli_number("--prefill-tokens-per-s", arg, 1, 100000000);
		return 0;
	case OPT_JSON_FILE:
		c->json_path = arg;
		return 0;
	case OPT_PLANT:
		c->is_plant = true;
		if (strcmp(arg, "auto") != 0)
			c->plant_pid = (pid_t)cli_number("--plant", arg, 1, INT32_MAX);
		return 0;
	case OPT_PLANT_LOG:
		c->plant_log = arg;
		return 0;
	case OPT_COUNT:
		c->is_count = true;
		return 0;
	case OPT_HALF_WAY:
		c->half_way = arg;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(st, "'%s': no arguments are taken, only options", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int replay_fail(const char *what, int err)
{
	fprintf(stderr, "peal replay: %s: %s\n", what, strerror(-err));
	return CLI_ERROR;
}

/* What the library has a message for. */
static int replay_fail_peal(const char *what)
{
	fprintf(stderr, "peal replay: %s: %s\n", what, peal_errmsg());
	return CLI_ERROR;
}

static int replay_load(struct replay_cmd *c)
{
	struct sim_trace_err err;
	char a[32];
	int rc;

	if (c->trace_path) {
		if (sim_trace_load(&c->trace, c->trace_path, &err)) {
			fprintf(stderr, "peal replay: %s\n", err.text);
			return CLI_ERROR;
		}
		if (c->nr_reqs && c->nr_reqs < c->trace.nr_reqs)
			c->trace.nr_reqs = c->nr_reqs;
		snprintf(c->trace_text, sizeof(c->trace_text), "%s", c->trace_path);
	} else {
		c->gen.seed = c->run.seed;
		c->gen.nr_reqs = c->nr_reqs;
		rc = sim_gen(&c->trace, &c->gen);
		if (rc)
			return replay_fail("generating a trace", rc);
		snprintf(c->trace_text, sizeof(c->trace_text),
			 "generated: multi-turn conversations, seed %s",
			 replay_report_count(c->run.seed, a));
	}
	if (c->trace.nr_reqs)
		return 0;
	fprintf(stderr, "peal replay: %s: no requests in it\n", c->trace_text);
	return CLI_ERROR;
}

/* How many keys the daemon holds, or -errno. */
static int64_t replay_residents(struct peal *p)
{
	auto_free struct peal_key *keys = calloc(REPLAY_LIST_KEYS, sizeof(*keys));
	struct peal_key after;
	int64_t nr = 0;
	ssize_t n;

	if (!keys)
		return -ENOMEM;
	n = peal_list(p, NULL, keys, REPLAY_LIST_KEYS, NULL);
	while (n > 0) {
		nr += n;
		after = keys[n - 1];
		n = peal_list(p, &after, keys, REPLAY_LIST_KEYS, NULL);
	}
	return n < 0 ? n : nr;
}

static void replay_draw(struct replay_bar *bar, const struct replay_stats *st, uint64_t total)
{
	struct replay_bar_at at = {.done = st->requests, .total = total, .now_ns = mono_ns()};
	char text[48];

	if (!replay_bar_is_due(bar, at.done, total, at.now_ns))
		return;
	snprintf(text, sizeof(text), "hits %.1f %%, %.1f GB, wrong bytes %llu",
		 st->blocks ? 100.0 * (double)st->hits / (double)st->blocks : 0.0,
		 (double)(st->get.bytes + st->put.bytes) / 1e9,
		 (unsigned long long)st->wrong_bytes);
	at.text = text;
	replay_bar_draw(bar, &at);
}

/* Without a connection meanwhile, and with another one afterwards. */
static int replay_half(struct replay_cmd *c, struct replay_run **run, struct replay_report *r)
{
	struct replay_half *h = &r->half;
	uint64_t start_ns;
	int64_t nr = replay_residents(c->p);

	if (nr < 0 || replay_tiers_add(c->cli, r->nsid, &r->tiers))
		return replay_fail_peal("asking the daemon, half way");
	h->nr_before = (uint64_t)nr;
	h->after_requests = replay_run_stats(*run)->requests;
	*r->st = *replay_run_stats(*run);
	replay_run_destroy(*run);
	*run = NULL;
	peal_close(c->p);
	c->p = c->cli->p = NULL;
	start_ns = mono_ns();
	if (system(c->half_way)) {
		fprintf(stderr, "peal replay: --half-way '%s' failed\n", c->half_way);
		return CLI_ERROR;
	}
	if (cli_open(c->cli))
		return CLI_ERROR;
	c->p = c->cli->p;
	h->down_ns = mono_ns() - start_ns;
	replay_tiers_again(&r->tiers);
	/* It serves while it recovers: what is there is known behind that. */
	if (r->tiers.nr && replay_tiers_recovered(c->cli, r->nsid))
		return replay_fail_peal("waiting for what was there, half way");
	nr = replay_residents(c->p);
	if (nr < 0 || replay_run_create(c->p, &c->run, run))
		return replay_fail_peal("beginning again, half way");
	replay_run_resume(*run, r->st);
	h->nr_after = (uint64_t)nr;
	h->since_ns = start_ns;
	h->is_done = true;
	return CLI_OK;
}

static int replay_all(struct replay_cmd *c, struct replay_run **run, struct replay_report *r)
{
	struct replay_half *h = &r->half;
	struct replay_bar bar;
	int err = 0;

	replay_bar_init(&bar, stderr, isatty(STDERR_FILENO), mono_ns());
	for (size_t i = 0; i < c->trace.nr_reqs && !err; i++) {
		if (c->half_way && i == c->trace.nr_reqs / 2)
			err = replay_half(c, run, r);
		if (err)
			break;
		err = replay_run_request(*run, &c->trace.reqs[i]);
		if (err) {
			err = replay_fail("a request of the trace", err);
			break;
		}
		if (h->is_done && !h->first_hit_ns && replay_run_stats(*run)->hits > r->st->hits)
			h->first_hit_ns = mono_ns() - h->since_ns;
		replay_draw(&bar, replay_run_stats(*run), c->trace.nr_reqs);
	}
	replay_bar_end(&bar);
	return err;
}

static int replay_media_errors(struct peal *p, uint64_t *nr)
{
	uint8_t page[SMART_BYTES];
	ssize_t n = peal_log(p, SMART_LID, 0, page, sizeof(page));

	if (n < (ssize_t)sizeof(page))
		return n < 0 ? (int)n : -EIO;
	*nr = le64_get(page + SMART_MEDIA_ERRORS);
	return 0;
}

/* A block of the last request that is still there; -ENOENT when none is. */
static int replay_plant_where(struct replay_cmd *c, uint64_t *id)
{
	const struct sim_req *req = &c->trace.reqs[c->trace.nr_reqs - 1];

	for (uint32_t i = 0; i < req->nr_blocks; i++) {
		struct peal_key k = replay_run_key(&c->run, req->ids[i]);

		*id = req->ids[i];
		if (peal_exist(c->p, &k, NULL) == 0)
			return 0;
	}
	return -ENOENT;
}

static bool replay_plant_is_in_log(const struct replay_cmd *c, const struct peal_key *k)
{
	auto_fclose FILE *f = fopen(c->plant_log, "re");
	char line[1024], key[PARSE_KEY_TEXT_BYTES];

	format_key(k->b, k->len, key);
	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, key) && strstr(line, "alert"))
			return true;
	return false;
}

/* The daemon's log has a thread of its own: its line may come after the answer. */
static bool replay_plant_is_logged(const struct replay_cmd *c, const struct peal_key *k)
{
	for (uint64_t end_ns = mono_ns() + REPLAY_LOG_WAIT_NS; mono_ns() < end_ns; usleep(10000))
		if (replay_plant_is_in_log(c, k))
			return true;
	return false;
}

static int replay_plant_on(struct replay_cmd *c, struct replay_run *run, uint64_t id,
			   struct replay_report *r)
{
	struct replay_plant *plant = &r->plant;
	uint8_t head[REPLAY_PLANT_BYTES];
	int err;

	if (c->run.value_bytes < REPLAY_PLANT_BYTES)
		return -EINVAL;
	plant->key = replay_run_key(&c->run, id);
	sim_value_fill(plant->key.b, 0, head, sizeof(head));
	err = replay_media_errors(c->p, &plant->media_errors_before);
	if (err)
		return err;
	err = replay_plant(c->plant_pid ? c->plant_pid : r->tiers.pid, head);
	if (err < 0)
		return err;
	err = replay_run_get(run, id);
	if (err && err != -ENOENT && err != -EILSEQ)
		return err;
	plant->is_miss = err == -ENOENT;
	plant->is_below = err == 0 && replay_tiers_find(&r->tiers, "ssd");
	err = replay_media_errors(c->p, &plant->media_errors_after);
	if (err)
		return err;
	plant->has_log = c->plant_log != NULL;
	plant->is_logged = plant->has_log && replay_plant_is_logged(c, &plant->key);
	plant->is_healed = replay_run_put(run, id) == 0 && replay_run_get(run, id) == 0;
	plant->is_done = true;
	return 0;
}

/* With buffers of its own, so that the value is nowhere but in the daemon's arena. */
static int replay_plant_one(struct replay_cmd *c, struct replay_report *r)
{
	struct replay_opts o = c->run;
	struct replay_run *run;
	uint64_t id;
	int err = replay_plant_where(c, &id);

	if (err)
		return err;
	o.depth = 1;
	err = replay_run_create(c->p, &o, &run);
	if (err)
		return err;
	err = replay_plant_on(c, run, id, r);
	replay_run_destroy(run);
	return err;
}

/* The queue and the buffers live as long as the trace is replayed, no longer. */
static int replay_run_all(struct replay_cmd *c, struct replay_report *r)
{
	uint64_t start_ns = mono_ns();
	int64_t before = replay_residents(c->p), after;
	struct replay_run *run;
	int err;

	if (before < 0)
		return replay_fail_peal("listing keys");
	/* Without a control plane the report has no tiers; with one it has them all. */
	err = replay_tiers_begin(c->cli, r->nsid, &r->tiers);
	if (err == -ENOMEM || err == -EIO || err == -EPROTO)
		return replay_fail("the daemon's figures", err);
	if (replay_run_create(c->p, &c->run, &run))
		return replay_fail_peal("queue and buffers");
	err = replay_all(c, &run, r);
	if (run)
		*r->st = *replay_run_stats(run);
	replay_run_destroy(run);
	if (err)
		return err;
	if (replay_tiers_add(c->cli, r->nsid, &r->tiers))
		return replay_fail("the daemon's figures", -EPROTO);
	r->wall_ns = mono_ns() - start_ns;
	after = replay_residents(c->p);
	if (after < 0)
		return replay_fail_peal("listing keys");
	r->residents = (uint64_t)after;
	/* Nobody deletes, nothing is put twice: what isn't there any more was evicted or lost. */
	r->evictions = (uint64_t)before + r->st->put.nr - (uint64_t)after -
		       (r->half.nr_before - r->half.nr_after);
	return 0;
}

static int replay_cmd_run(struct replay_cmd *c, struct replay_stats *st)
{
	struct replay_report r = {
		.trace = c->trace_text,
		.reqs = &c->trace,
		.st = st,
		.model = c->model,
		.prefill_tokens_per_s = c->prefill ? c->prefill : c->model->prefill_tokens_per_s,
		.value_bytes = c->run.value_bytes,
		.depth = c->run.depth,
	};
	struct peal_info info;
	int err;

	if (peal_info(c->p, &info))
		return replay_fail_peal("asking the daemon");
	r.capacity_bytes = info.capacity_bytes;
	r.nsid = info.nsid;
	if (replay_run_all(c, &r))
		return CLI_ERROR;
	err = replay_report_yardsticks(&r);
	if (err)
		return replay_fail("computing the yardsticks", err);
	if (c->is_plant) {
		err = replay_plant_one(c, &r);
		if (err)
			return replay_fail("planting a corruption", err);
	}
	err = c->cli->is_json ? replay_report_json(&r, "/dev/stdout") : 0;
	if (!err && c->json_path)
		err = replay_report_json(&r, c->json_path);
	if (err)
		return replay_fail("writing the figures", err);
	if (!c->cli->is_json)
		replay_report_print(&r, stdout);
	return st->wrong_bytes || (r.plant.is_done && !replay_report_is_caught(&r.plant));
}

static int replay_count(const struct sim_trace *trace)
{
	struct sim_lru_stats st;
	int err = sim_lru_run(trace, SIM_LRU_UNBOUNDED, &st);

	if (err)
		return replay_fail("counting blocks", err);
	printf("%zu %llu %llu\n", trace->nr_reqs, (unsigned long long)st.refs,
	       (unsigned long long)st.residents);
	return 0;
}

static int replay_main(struct cli *cli, int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = replay_opt,
		.doc = "Replays a trace of LLM conversations and compares every byte of every hit.",
	};
	struct replay_cmd c = {
		.run = {.seed = 1, .value_bytes = REPLAY_VALUE_BYTES, .depth = REPLAY_DEPTH},
		.model = replay_report_model("8b"),
		.cli = cli,
	};
	auto_free struct replay_stats *st = calloc(1, sizeof(*st));
	int rc;

	cli_parse(&argp, cli, argc, argv, &c);
	if (!st)
		return replay_fail("memory", -ENOMEM);
	rc = replay_load(&c);
	if (!rc && c.is_count)
		rc = replay_count(&c.trace);
	else if (!rc)
		rc = cli_open(cli);
	if (!rc && !c.is_count) {
		c.p = cli->p;
		rc = replay_cmd_run(&c, st);
	}
	sim_trace_fini(&c.trace);
	return rc;
}

const struct cli_cmd cmd_replay = {"replay", "", "a trace of conversations, every byte compared",
				   replay_main};
