/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load that bench/ssd and bench/ceph measure: values of one size through one queue, `depth` of
 * them under way, straight from and to registered memory.
 *
 *	b_ssd URI NSID put FIRST NR BYTES DEPTH MB_S     keys from FIRST on, in order; 0: no pace
 *	b_ssd URI NSID get FIRST NR BYTES DEPTH SECONDS SEED   random ones of them
 *	b_ssd URI NSID scan ...    as get, but in order, round and round: an LRU above has none
 *	b_ssd URI NSID hint ...    as get, but DEPTH prefetch hints at a time, and nothing is read
 *
 * Says on one line: requests, misses, bytes, seconds, then p50, p99, p99.9, the longest and the
 * shortest in microseconds. Every 16th value that is read is compared, while the next ones are
 * under way; wrong bytes end it with status 1. Not pinned, as fio isn't: two loads on one core
 * would measure each other's slices. The main thread's.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/container.h"
#include "base/mono.h"
#include "base/rng.h"
#include "bench.h"

#define LATS_MAX (1u << 22)
#define CHECK_EVERY 16u

struct op {
	struct peal_req req;
	uint64_t key;
	uint64_t start_ns;
};

struct run {
	struct peal *p;
	struct peal_queue *q;
	struct peal_mem *m;
	struct op *ops;
	struct rng rng;
	bool is_put, is_hint, is_scan;
	uint64_t first, nr, bytes, stride, next;
	unsigned depth, nr_busy;
	struct op *checked;		      /* to be compared */
	uint64_t start_ns, until_ns, ns_each; /* of a put, when it is paced */
	uint64_t nr_done, nr_missed, bytes_hinted;
	uint64_t *lats;
};

/* Of 0 seconds: after one. */
static bool is_over(const struct run *r)
{
	return r->is_put ? r->next == r->nr : r->next && mono_ns() >= r->until_ns;
}

/* Puts at a rate wait for their time. */
static bool is_due(const struct run *r)
{
	return !r->ns_each || mono_ns() >= r->start_ns + r->next * r->ns_each;
}

static void start(struct run *r, struct op *o)
{
	struct peal_req *req = &o->req;

	o->key = r->first + (r->is_put || r->is_scan ? r->next % r->nr : rng_below(&r->rng, r->nr));
	r->next++;
	memset(req, 0, sizeof(*req));
	req->op = r->is_put ? PEAL_REQ_PUT : PEAL_REQ_GET;
	req->flags = PEAL_DIRECT;
	req->key = bench_key(o->key);
	req->buf = (char *)peal_mem_ptr(r->m) + (size_t)(o - r->ops) * r->stride;
	req->bytes = r->bytes;
	req->user = o;
	if (r->is_put)
		bench_value(o->key, req->buf, r->bytes);
	o->start_ns = mono_ns();
	bench_must(peal_submit(r->q, &req, 1) == 1 ? 0 : -EIO, "submit");
	r->nr_busy++;
}

static void check(const struct run *r, const struct op *o)
{
	if (bench_value_ok(o->key, o->req.buf, r->bytes))
		return;
	fprintf(stderr, "bench: WRONG BYTES of key %lu\n", (unsigned long)o->key);
	exit(1);
}

/* True: it may be used again; else it is r->checked. */
static bool end(struct run *r, struct op *o, uint64_t now)
{
	bool is_checked = false;

	r->nr_busy--;
	if (o->req.res == -ENOENT && !r->is_put) {
		r->nr_missed++;
	} else {
		bench_must(o->req.res, r->is_put ? "put" : "get");
		is_checked = !r->is_put && r->nr_done % CHECK_EVERY == 0;
	}
	if (is_checked && r->checked)
		check(r, r->checked);
	if (r->nr_done < LATS_MAX)
		r->lats[r->nr_done] = now - o->start_ns;
	r->nr_done++;
	return !is_checked;
}

static void run(struct run *r)
{
	struct peal_req *done[256];
	struct op *idle[257];
	unsigned nr_idle = 0;
	int n;

	for (unsigned i = 0; i <= r->depth; i++)
		idle[nr_idle++] = &r->ops[i];
	while (!is_over(r) || r->nr_busy) {
		while (r->nr_busy < r->depth && !is_over(r) && is_due(r))
			start(r, idle[--nr_idle]);
		if (r->checked) {
			check(r, r->checked);
			idle[nr_idle++] = r->checked;
			r->checked = NULL;
		}
		n = peal_reap(r->q, done, 256, r->nr_busy < r->depth && !is_over(r) ? 0 : 10000);
		bench_must(n, "reap");
		for (int i = 0; i < n; i++) {
			struct op *o = done[i]->user, *was = r->checked;

			if (end(r, o, mono_ns())) {
				idle[nr_idle++] = o;
				continue;
			}
			if (was)
				idle[nr_idle++] = was;
			r->checked = o;
		}
	}
	if (r->checked)
		check(r, r->checked);
}

/* Misses are hints that weren't taken. */
static void hint(struct run *r)
{
	struct peal_hint h[256];
	uint64_t start_ns;
	ssize_t n;

	while (mono_ns() < r->until_ns) {
		for (unsigned i = 0; i < r->depth; i++)
			h[i] = (struct peal_hint){
				.key = bench_key(r->first + rng_below(&r->rng, r->nr)),
				.say = PEAL_SAY_PREFETCH,
			};
		start_ns = mono_ns();
		n = peal_hint(r->p, h, r->depth, NULL);
		bench_must(n < 0 ? (int)n : 0, "hint");
		if (r->nr_done < LATS_MAX)
			r->lats[r->nr_done] = mono_ns() - start_ns;
		r->nr_done++;
		r->nr_missed += r->depth - (uint64_t)n;
		r->bytes_hinted += (uint64_t)n * r->bytes;
	}
}

static void say(struct run *r)
{
	double s = (double)(mono_ns() - r->start_ns) / 1e9;
	size_t n = min_t(size_t, r->nr_done, LATS_MAX);

	if (!n)
		bench_must(-EIO, "nothing was done");
	printf("%lu %lu %lu %.4f", (unsigned long)r->nr_done, (unsigned long)r->nr_missed,
	       (unsigned long)(r->is_hint ? r->bytes_hinted
					  : (r->nr_done - r->nr_missed) * r->bytes),
	       s);
	for (unsigned i = 0; i < 4; i++)
		printf(" %.1f",
		       (double)bench_percentile(r->lats, n, (double[]){50, 99, 99.9, 100}[i]) /
			       1e3);
	printf(" %.1f\n", (double)r->lats[0] / 1e3); /* they are sorted: the shortest */
}

int main(int argc, char **argv)
{
	struct peal_opts o = {.timeout_ms = 20000};
	struct run *r = calloc(1, sizeof(*r));
	uint64_t v[6] = {0};

	if (argc < 9 || argc > 10) {
		fprintf(stderr, "usage: see the head of b_ssd.c\n");
		return 2;
	}
	for (int i = 4; i < argc; i++)
		v[i - 4] = strtoull(argv[i], NULL, 0);
	o.nsid = (uint32_t)strtoul(argv[2], NULL, 0);
	r->is_put = strcmp(argv[3], "put") == 0;
	r->is_hint = strcmp(argv[3], "hint") == 0;
	r->is_scan = strcmp(argv[3], "scan") == 0;
	r->first = v[0];
	r->nr = v[1];
	r->bytes = v[2];
	r->depth = (unsigned)min_t(uint64_t, v[3], 256);
	r->stride = align_up(r->bytes, (uint64_t)4096);
	r->ops = calloc(r->depth + 1, sizeof(*r->ops));
	r->lats = calloc(LATS_MAX, sizeof(*r->lats));
	rng_init(&r->rng, v[5] + 1);
	bench_must(peal_open(argv[1], &o, &r->p), argv[1]);
	bench_must(peal_queue_open(r->p, r->depth, &r->q), "queue");
	bench_must(peal_mem_alloc(r->p, r->stride * (r->depth + 1), &r->m), "memory");
	r->start_ns = mono_ns();
	r->until_ns = r->start_ns + v[4] * 1000000000u;
	if (r->is_put && v[4])
		r->ns_each = r->bytes * 1000 / v[4];
	if (r->is_hint)
		hint(r);
	else
		run(r);
	say(r);
	peal_queue_close(r->q);
	peal_mem_free(r->p, r->m);
	peal_close(r->p);
	return 0;
}
