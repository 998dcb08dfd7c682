/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal bench: one operation over random keys for some seconds, with many under way, on one queue
 * and one thread. Keys and values come from sim/ alone: nothing but the key says what is right, and
 * every byte that comes back is compared. Times are from submit to reap.
 */
/* tidy: no-test: test/unit/cli/t_cli.c runs it */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mono.h"
#include "base/rng.h"
#include "cli/cli.h"
#include "cli/replay_hist.h"
#include "sim/sim_value.h"

#define BENCH_REAP 64

enum bench_op { BENCH_GET, BENCH_PUT, BENCH_EXIST, BENCH_MATCH };
static const char *const bench_ops[] = {"get", "put", "exist", "match"};

struct bench {
	struct cli *c;
	enum bench_op op;
	uint64_t value_bytes, depth, nr_keys, seconds, seed;
	/* running */
	struct peal_queue *q;
	struct peal_mem *mem;
	struct peal_req *reqs, **free;
	uint64_t *started_ns; /* by request */
	unsigned nr_free;
	struct rng rng;
	struct replay_hist lat;
	uint64_t nr_ops, nr_misses, nr_errors, wrong_bytes, wall_ns;
	int last_error;
};

static const struct argp_option bench_options[] = {
	{"op", 'o', "OP", 0, "get (default), put, exist or match", 0},
	{"size", 's', "BYTES", 0, "Of each value, 1 to 128M (default 64K)", 0},
	{"depth", 'd', "N", 0, "Requests under way, or keys in a match, 1 to 4095 (default 16)", 0},
	{"keys", 'k', "N", 0, "So many different keys (default 1000)", 0},
	{"seconds", 'S', "N", 0, "How long, 1 to 86400 (default 5)", 0},
	{"seed", 'e', "N", 0, "Of keys and order (default 1)", 0},
	{0},
};

static error_t bench_parse_opt(int key, char *arg, struct argp_state *state)
{
	struct bench *b = state->input;

	switch (key) {
	case 'o':
		for (unsigned i = 0; i < 4; i++)
			if (strcmp(arg, bench_ops[i]) == 0) {
				b->op = (enum bench_op)i;
				return 0;
			}
		argp_error(state, "--op is '%s', expected get, put, exist or match", arg);
		return 0;
	case 's':
		b->value_bytes = cli_size("--size", arg, 1, PEAL_VALUE_MAX);
		return 0;
	case 'd':
		b->depth = cli_number("--depth", arg, 1, 4095);
		return 0;
	case 'k':
		b->nr_keys = cli_number("--keys", arg, 1, UINT32_MAX);
		return 0;
	case 'S':
		b->seconds = cli_number("--seconds", arg, 1, 86400);
		return 0;
	case 'e':
		b->seed = cli_number("--seed", arg, 0, UINT64_MAX);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is too much, expected options only", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static struct peal_key bench_key(const struct bench *b, uint64_t id)
{
	struct peal_key k = {.len = SIM_KEY_BYTES};

	sim_value_key(k.b, b->seed, id);
	return k;
}

static int bench_open(struct bench *b)
{
	size_t slot = (b->value_bytes + 4095) & ~4095ull;
	uint8_t *mem;
	int err = peal_queue_open(b->c->p, (unsigned)b->depth, &b->q);

	if (!err)
		err = peal_mem_alloc(b->c->p, slot * b->depth, &b->mem);
	if (err)
		return err;
	b->reqs = calloc(b->depth, sizeof(*b->reqs));
	b->free = calloc(b->depth, sizeof(*b->free));
	b->started_ns = calloc(b->depth, sizeof(*b->started_ns));
	if (!b->reqs || !b->free || !b->started_ns)
		return -ENOMEM;
	mem = peal_mem_ptr(b->mem);
	for (uint64_t i = 0; i < b->depth; i++) {
		b->reqs[i].buf = mem + i * slot;
		b->free[b->nr_free++] = &b->reqs[i];
	}
	return 0;
}

static void bench_close(struct bench *b)
{
	peal_queue_close(b->q);
	peal_mem_free(b->c->p, b->mem);
	free(b->reqs);
	free(b->free);
	free(b->started_ns);
}

static void bench_prepare(struct bench *b, struct peal_req *req, enum bench_op op, uint64_t id)
{
	req->key = bench_key(b, id);
	req->bytes = b->value_bytes;
	req->flags = PEAL_DIRECT;
	req->op = op == BENCH_GET ? PEAL_REQ_GET : op == BENCH_PUT ? PEAL_REQ_PUT : PEAL_REQ_EXIST;
	if (op == BENCH_PUT)
		sim_value_fill(req->key.b, 0, req->buf, b->value_bytes);
	else if (op == BENCH_GET)
		for (size_t at = 0; at < b->value_bytes; at += 4096) /* undelivered bytes show */
			((uint8_t *)req->buf)[at] ^= 0xff;
}

static void bench_check(struct bench *b, const struct peal_req *req, enum bench_op op)
{
	if (req->res == -ENOENT) {
		b->nr_misses++;
	} else if (req->res) {
		b->nr_errors++;
		b->last_error = req->res;
	} else if (op == BENCH_GET) {
		if (req->value_bytes != b->value_bytes ||
		    sim_value_check(req->key.b, 0, req->buf, b->value_bytes) >= 0)
			b->wrong_bytes++;
	}
}

/* A fill (nr given) takes ids in turn, else random ones; ends when `until_ns` has come or `nr` are
 * done. */
static int bench_run(struct bench *b, enum bench_op op, uint64_t nr, uint64_t until_ns)
{
	struct peal_req *done[BENCH_REAP];
	uint64_t sent = 0, back = 0;
	bool is_fill = nr != UINT64_MAX;

	while (back < sent || (sent < nr && mono_ns() < until_ns)) {
		int n;

		while (b->nr_free && sent < nr && mono_ns() < until_ns) {
			struct peal_req *req = b->free[b->nr_free - 1];
			uint64_t id = is_fill ? sent : rng_below(&b->rng, b->nr_keys);

			bench_prepare(b, req, op, id);
			b->started_ns[req - b->reqs] = mono_ns();
			n = peal_submit(b->q, &req, 1);
			if (n == -EAGAIN)
				break;
			if (n < 0)
				return n;
			b->nr_free--;
			sent++;
		}
		n = peal_reap(b->q, done, BENCH_REAP, 1000);
		if (n < 0)
			return n;
		for (int i = 0; i < n; i++) {
			uint64_t now = mono_ns();

			if (!is_fill)
				replay_hist_add(&b->lat, now - b->started_ns[done[i] - b->reqs]);
			bench_check(b, done[i], op);
			b->free[b->nr_free++] = done[i];
		}
		back += (uint64_t)n;
	}
	b->nr_ops = back;
	return 0;
}

static int bench_match(struct bench *b, uint64_t until_ns)
{
	auto_free struct peal_key *keys = calloc(b->depth, sizeof(*keys));

	if (!keys)
		return -ENOMEM;
	while (mono_ns() < until_ns) {
		uint64_t first = rng_below(&b->rng, b->nr_keys), start;
		ssize_t n;

		for (uint64_t i = 0; i < b->depth; i++)
			keys[i] = bench_key(b, (first + i) % b->nr_keys);
		start = mono_ns();
		n = peal_match(b->c->p, keys, b->depth, NULL, NULL);
		if (n < 0)
			return (int)n;
		replay_hist_add(&b->lat, mono_ns() - start);
		b->nr_misses += (uint64_t)n < b->depth;
		b->nr_ops++;
	}
	return 0;
}

static void bench_report(const struct bench *b)
{
	double s = (double)b->wall_ns / 1e9, ops = (double)b->nr_ops / s;
	bool has_data = b->op == BENCH_GET || b->op == BENCH_PUT;
	uint64_t good = b->nr_ops - (b->op == BENCH_GET ? b->nr_misses : 0);
	double gbs = has_data ? (double)good * (double)b->value_bytes / s / 1e9 : 0;
	double us[4];

	for (unsigned i = 0; i < 3; i++)
		us[i] = (double)replay_hist_ns(&b->lat, (const unsigned[]){500, 990, 999}[i]) / 1e3;
	us[3] = (double)b->lat.max_ns / 1e3;
	if (b->c->is_json) {
		printf("{\"op\":\"%s\",\"size\":%llu,\"depth\":%llu,\"keys\":%llu,\"seconds\":%.3f,"
		       "\"ops\":%llu,\"ops_per_s\":%.0f,\"gb_per_s\":%.3f,\"p50_us\":%.1f,"
		       "\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f,\"misses\":%llu,"
		       "\"errors\":%llu,\"wrong_values\":%llu}\n",
		       bench_ops[b->op], (unsigned long long)b->value_bytes,
		       (unsigned long long)b->depth, (unsigned long long)b->nr_keys, s,
		       (unsigned long long)b->nr_ops, ops, gbs, us[0], us[1], us[2], us[3],
		       (unsigned long long)b->nr_misses, (unsigned long long)b->nr_errors,
		       (unsigned long long)b->wrong_bytes);
		return;
	}
	printf("%s  %llu bytes  depth %llu  %llu keys\n", bench_ops[b->op],
	       (unsigned long long)b->value_bytes, (unsigned long long)b->depth,
	       (unsigned long long)b->nr_keys);
	printf("  %.0f ops/s", ops);
	if (has_data)
		printf("  %.2f GB/s", gbs);
	printf("  (%llu in %.2f s)\n", (unsigned long long)b->nr_ops, s);
	printf("  p50 %.1f us  p99 %.1f us  p99.9 %.1f us  max %.1f us\n", us[0], us[1], us[2],
	       us[3]);
	printf("  misses %llu  errors %llu  wrong values %llu\n", (unsigned long long)b->nr_misses,
	       (unsigned long long)b->nr_errors, (unsigned long long)b->wrong_bytes);
	if (b->nr_errors)
		printf("  last error: %s\n", strerror(-b->last_error));
}

static int bench_all(struct bench *b)
{
	uint64_t start;
	int err = bench_open(b);

	if (!err && b->op != BENCH_PUT)
		err = bench_run(b, BENCH_PUT, b->nr_keys, UINT64_MAX);
	if (err || b->nr_errors)
		return err ? err : b->last_error;
	b->nr_misses = b->nr_ops = 0;
	start = mono_ns();
	if (b->op == BENCH_MATCH)
		err = bench_match(b, start + b->seconds * MONO_NS_PER_S);
	else
		err = bench_run(b, b->op, UINT64_MAX, start + b->seconds * MONO_NS_PER_S);
	b->wall_ns = mono_ns() - start;
	return err;
}

static int bench_cmd(struct cli *c, int argc, char **argv)
{
	static const struct argp argp = {
		.options = bench_options,
		.parser = bench_parse_opt,
		.doc = "Measures one operation. Puts the keys first, so that get finds what fits; "
		       "every byte that comes back is compared.",
	};
	struct bench *b = calloc(1, sizeof(*b));
	int rc, err;

	if (!b)
		return CLI_ERROR;
	*b = (struct bench){.c = c,
			    .value_bytes = 65536,
			    .depth = 16,
			    .nr_keys = 1000,
			    .seconds = 5,
			    .seed = 1};
	cli_parse(&argp, c, argc, argv, b);
	rng_init(&b->rng, b->seed);
	rc = cli_open(c);
	if (rc) {
		free(b);
		return rc;
	}
	err = bench_all(b);
	if (err) {
		/* A request's failure has no message, only its result. */
		fprintf(stderr, "peal: bench: %s\n", b->nr_errors ? strerror(-err) : peal_errmsg());
		rc = CLI_ERROR;
	} else {
		bench_report(b);
		rc = b->wrong_bytes || b->nr_errors ? CLI_ERROR : CLI_OK;
	}
	bench_close(b);
	free(b);
	return rc;
}

const struct cli_cmd cmd_bench = {"bench", "", "measure one operation", bench_cmd};
