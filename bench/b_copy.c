/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy-1m, copy-32m: Retrieve and Store of large values beside the same loop without a daemon:
 * memcpy + XXH3 in one pass (goal 0.95) and plain memcpy (goal 0.85). The worse of Retrieve and
 * Store counts. lease-1m: lease, copy and check by the client, beside memcpy + XXH3 by the client.
 * fair: p99 of 4 KiB reads at depth 1 alone and beside a stream of 32 MiB reads on another queue of
 * the same thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/container.h"
#include "base/mono.h"
#include "base/must.h"
#include "base/rng.h"
#include "bench.h"
#include "bench_ring.h"

#define SMALL 4096u
#define SMALL_KEYS 100000u
#define SMALL_FIRST (1ull << 32) /* key numbers: apart from the large ones */

struct ctx {
	struct bench_daemon d;
	struct peal *p;
	uint8_t *arena; /* of the loops without a daemon */
	uint64_t arena_bytes;
	struct rng rng;
};

struct stream {
	struct peal_queue *q;
	struct peal_mem *mem;
	struct peal_req req[4];
	unsigned depth;
	size_t bytes;
	uint64_t first, nr_keys;
};

static void stream_open(struct ctx *c, struct stream *s, unsigned depth, size_t bytes,
			uint64_t first)
{
	memset(s, 0, sizeof(*s));
	s->depth = depth;
	s->bytes = bytes;
	s->first = first;
	bench_must(peal_queue_open(c->p, 8, &s->q), "queue");
	bench_must(peal_mem_alloc(c->p, bytes * depth, &s->mem), "memory");
	for (unsigned i = 0; i < depth; i++)
		s->req[i].buf = (uint8_t *)peal_mem_ptr(s->mem) + i * bytes;
}

static void stream_close(struct ctx *c, struct stream *s)
{
	peal_queue_close(s->q);
	peal_mem_free(c->p, s->mem);
}

static void stream_send(struct ctx *c, struct stream *s, struct peal_req *r, enum peal_req_op op)
{
	uint64_t key = s->first + rng_below(&c->rng, s->nr_keys);

	r->op = op;
	r->flags = PEAL_DIRECT;
	r->key = bench_key(key);
	r->bytes = s->bytes;
	r->user = (void *)(uintptr_t)key;
	bench_must(peal_submit(s->q, &r, 1), "submit");
}

/*
 * A put writes the bytes that are in its buffer under a key of another range, so that what is read
 * stays right.
 */
static void stream_take(const struct stream *s, const struct peal_req *r)
{
	bench_must(r->res, r->op == PEAL_REQ_GET ? "get" : "put");
	if (r->op == PEAL_REQ_GET && !bench_value_ok((uintptr_t)r->user, r->buf, s->bytes)) {
		fprintf(stderr, "bench: WRONG BYTES of key %lu\n",
			(unsigned long)(uintptr_t)r->user);
		exit(1);
	}
}

static uint64_t stream_run(struct ctx *c, struct stream *s, enum peal_req_op op, uint64_t nr)
{
	struct peal_req *done[4];
	uint64_t start = mono_ns(), end, sent = 0, got = 0;
	int n;

	for (; sent < s->depth; sent++)
		stream_send(c, s, &s->req[sent], op);
	while (got < nr) {
		n = peal_reap(s->q, done, 4, 10000);
		bench_must(n ? n : -110, "reap");
		for (int i = 0; i < n; i++, got++) {
			bench_must(done[i]->res, "transfer");
			if (sent < nr) {
				stream_send(c, s, done[i], op);
				sent++;
			}
		}
	}
	end = mono_ns();
	for (unsigned i = 0; i < s->depth; i++)
		stream_take(s, &s->req[i]);
	return end - start;
}

/* Two goals, one line: the ratio is the smaller of the two shares of their goals. */
static bool report_copy(const char *id, double *rate, double *sealed, double *plain)
{
	double r1 = bench_median(sealed, BENCH_ROUNDS), r2 = bench_median(plain, BENCH_ROUNDS);

	printf("  %s: %.3f of memcpy + XXH3 (goal 0.95), %.3f of memcpy (goal 0.85)\n", id, r1, r2);
	return bench_report(&(struct bench_figure){
		.id = id,
		.value = bench_median(rate, BENCH_ROUNDS),
		.unit = "GB/s",
		.ratio = min_t(double, r1 / 0.95, r2 / 0.85),
		.goal = 1,
		.sense = BENCH_AT_LEAST,
	});
}

static bool figure_copy(struct ctx *c, size_t bytes, const char *id)
{
	const uint64_t nr = (4ull << 30) / bytes, keys = (2ull << 30) / bytes;
	double rate[BENCH_ROUNDS], sealed[BENCH_ROUNDS], plain[BENCH_ROUNDS];
	struct stream s;
	double gb = (double)nr * (double)bytes;

	bench_fill(c->p, 0, keys, bytes);
	stream_open(c, &s, 2, bytes, 0);
	for (unsigned i = 0; i < BENCH_ROUNDS; i++) {
		double a, b, get, put;

		a = gb / (double)bench_copy_run(c->arena, c->arena_bytes, bytes, nr, 1);
		b = gb / (double)bench_copy_run(c->arena, c->arena_bytes, bytes, nr, 0);
		s.first = 0;
		s.nr_keys = keys;
		get = gb / (double)stream_run(c, &s, PEAL_REQ_GET, nr);
		s.first = 1u << 30;
		s.nr_keys = keys / 2;
		put = gb / (double)stream_run(c, &s, PEAL_REQ_PUT, nr);
		rate[i] = min_t(double, get, put);
		sealed[i] = rate[i] / a;
		plain[i] = rate[i] / b;
		printf("  %s round %u: get %.2f, put %.2f, memcpy + XXH3 %.2f, memcpy %.2f GB/s\n",
		       id, i, get, put, a, b);
		bench_fill(c->p, 0, keys, bytes); /* what the puts may have evicted */
	}
	stream_close(c, &s);
	return report_copy(id, rate, sealed, plain);
}

static uint64_t lease_run(struct ctx *c, uint64_t nr, uint64_t keys, size_t bytes, uint8_t *dst)
{
	uint64_t start = mono_ns(), key, to;
	struct peal_lease *l;
	struct peal_key k;

	for (uint64_t i = 0; i < nr; i++) {
		key = rng_below(&c->rng, keys);
		to = rng_below(&c->rng, 64) * bytes;
		k = bench_key(key);
		bench_must(peal_lease(c->p, &k, 1000, &l), "lease");
		bench_must((int)peal_lease_read(c->p, l, 0, dst + to, bytes), "lease_read");
		bench_must(peal_release(c->p, l), "release");
	}
	key = mono_ns() - start;
	return key;
}

static bool figure_lease(struct ctx *c)
{
	const size_t bytes = 1u << 20;
	const uint64_t nr = 4096, keys = 2048;
	double rate[BENCH_ROUNDS], ratio[BENCH_ROUNDS], limit;
	uint8_t *dst = mmap(NULL, 64 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);

	must(dst != MAP_FAILED);
	madvise(dst, 64 * bytes, MADV_HUGEPAGE); /* as the limit's */
	memset(dst, 1, 64 * bytes);
	bench_fill(c->p, 0, keys, bytes);
	for (unsigned i = 0; i < BENCH_ROUNDS; i++) {
		limit = (double)nr * (double)bytes /
			(double)bench_copy_run(c->arena, c->arena_bytes, bytes, nr, 1);
		rate[i] = (double)nr * (double)bytes / (double)lease_run(c, nr, keys, bytes, dst);
		ratio[i] = rate[i] / limit;
		printf("  lease-1m round %u: %.2f GB/s, memcpy + XXH3 %.2f GB/s\n", i, rate[i],
		       limit);
	}
	munmap(dst, 64 * bytes);
	return bench_report(&(struct bench_figure){
		.id = "lease-1m",
		.value = bench_median(rate, BENCH_ROUNDS),
		.unit = "GB/s",
		.ratio = bench_median(ratio, BENCH_ROUNDS),
		.goal = 0.95,
		.sense = BENCH_AT_LEAST,
	});
}

/*
 * p99 of nr small reads, one at a time; `big` (may be NULL) is kept full from the same thread
 * meanwhile.
 */
static uint64_t fair_run(struct ctx *c, struct stream *small, struct stream *big, size_t nr,
			 uint64_t *lat)
{
	struct peal_req *done[4];
	uint64_t start;
	int n;

	for (unsigned i = 0; big && i < big->depth; i++)
		stream_send(c, big, &big->req[i], PEAL_REQ_GET);
	for (size_t i = 0; i < nr; i++) {
		start = mono_ns();
		stream_send(c, small, &small->req[0], PEAL_REQ_GET);
		do {
			n = peal_reap(small->q, done, 1, 0);
		} while (n == 0);
		bench_must(n, "reap");
		lat[i] = mono_ns() - start;
		stream_take(small, done[0]);
		n = big ? peal_reap(big->q, done, 4, 0) : 0;
		bench_must(n, "reap");
		for (int k = 0; k < n; k++) {
			bench_must(done[k]->res, "get");
			stream_send(c, big, done[k], PEAL_REQ_GET);
		}
	}
	for (unsigned left = big ? big->depth : 0; left; left -= (unsigned)n) {
		n = peal_reap(big->q, done, 4, 10000);
		bench_must(n ? n : -110, "reap");
	}
	return bench_percentile(lat, nr, 99);
}

static bool figure_fair(struct ctx *c)
{
	const size_t nr = 20000, big_bytes = 32u << 20;
	double ours[BENCH_ROUNDS], ratio[BENCH_ROUNDS];
	uint64_t *lat = calloc(nr, sizeof(*lat)), alone, beside;
	struct stream small, big;

	bench_fill(c->p, SMALL_FIRST, SMALL_KEYS, SMALL);
	bench_fill(c->p, 0, 64, big_bytes);
	stream_open(c, &small, 1, SMALL, SMALL_FIRST);
	stream_open(c, &big, 2, big_bytes, 0);
	small.nr_keys = SMALL_KEYS;
	big.nr_keys = 64;
	for (unsigned i = 0; i < BENCH_ROUNDS; i++) {
		alone = fair_run(c, &small, NULL, nr, lat);
		beside = fair_run(c, &small, &big, nr, lat);
		ours[i] = (double)beside / 1e3;
		ratio[i] = (double)beside / (double)alone;
		printf("  fair round %u: p99 alone %.2f us, beside 32 MiB reads %.2f us\n", i,
		       (double)alone / 1e3, ours[i]);
	}
	stream_close(c, &small);
	stream_close(c, &big);
	free(lat);
	return bench_report(&(struct bench_figure){
		.id = "fair",
		.value = bench_median(ours, BENCH_ROUNDS),
		.unit = "us",
		.ratio = bench_median(ratio, BENCH_ROUNDS),
		.goal = 3,
		.sense = BENCH_AT_MOST,
	});
}

int main(int argc, char **argv)
{
	const char *args[] = {"--dram", "6G", NULL};
	const char *only = argc > 1 ? argv[1] : "";
	struct ctx c = {.arena_bytes = 2ull << 30};
	bool holds = true;

	bench_daemon_start(&c.d, 0, args);
	bench_pin(1);
	rng_init(&c.rng, 1);
	c.p = bench_open(&c.d);
	c.arena = mmap(NULL, c.arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		       0);
	must(c.arena != MAP_FAILED);
	madvise(c.arena, c.arena_bytes, MADV_HUGEPAGE);
	memset(c.arena, 7, c.arena_bytes);
	if (!*only || !strcmp(only, "copy-1m"))
		holds &= figure_copy(&c, 1u << 20, "copy-1m");
	if (!*only || !strcmp(only, "copy-32m"))
		holds &= figure_copy(&c, 32u << 20, "copy-32m");
	if (!*only || !strcmp(only, "lease-1m"))
		holds &= figure_lease(&c);
	if (!*only || !strcmp(only, "fair"))
		holds &= figure_fair(&c);
	peal_close(c.p);
	bench_daemon_stop(&c.d);
	return holds ? 0 : 1;
}
