/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vfu-4k-qd1, vfu-4k-qd32: Retrieve of 4 KiB over the vfio-user queue, one reactor, one client
 * core, beside a bare shared-memory ring with the same checked copy. vfu-exist-1023: one wave of
 * Exist, half of the keys absent. 10^6 keys of 4 KiB, random and distinct within a wave; every 64th
 * value is checked by the client as well. `b_vfu rounds DEPTH`: gets without the ring, a round for
 * each line of the input, for bench/spdk, which alternates them with those of another target.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/mono.h"
#include "base/parse.h"
#include "base/rng.h"
#include "bench.h"
#include "bench_ring.h"

#define KEYS 1000000u
#define BYTES 4096u
#define WAVE 1023u
#define REAP 8u /* answers taken at once: new requests go out while others are served */
#define ARENA_BYTES (2ull << 30)
#define BUFS 64u /* of BYTES: the deepest that gets go */

struct ctx {
	struct peal *p;
	struct peal_queue *q;
	struct peal_mem *mem;
	struct peal_req *req;
	struct peal_req **ptr, **done;
	uint8_t *buf;
	struct rng rng;
	uint64_t nr_checked;
};

static void ctx_req(struct ctx *c, struct peal_req *r, uint64_t key)
{
	r->op = PEAL_REQ_GET;
	r->flags = PEAL_DIRECT;
	r->key = bench_key(key);
	r->bytes = BYTES;
	r->user = (void *)(uintptr_t)key;
}

static void ctx_check(struct ctx *c, const struct peal_req *r, uint64_t n)
{
	bench_must(r->res, "get");
	if (n % 64)
		return;
	c->nr_checked++;
	if (!bench_value_ok((uintptr_t)r->user, r->buf, BYTES)) {
		fprintf(stderr, "bench: WRONG BYTES of key %lu\n",
			(unsigned long)(uintptr_t)r->user);
		exit(1);
	}
}

/* nr gets with `depth` under way; ns. */
static uint64_t run_get(struct ctx *c, unsigned depth, uint64_t nr)
{
	uint64_t start = mono_ns(), sent = 0, got = 0;
	unsigned i;
	int n;

	for (i = 0; i < depth; i++, sent++) {
		ctx_req(c, &c->req[i], rng_below(&c->rng, KEYS));
		c->ptr[i] = &c->req[i];
	}
	bench_must(peal_submit(c->q, c->ptr, depth), "submit");
	while (got < nr) {
		n = peal_reap(c->q, c->done, min_t(unsigned, depth, REAP), 10000);
		bench_must(n ? n : -110, "reap");
		for (i = 0; i < (unsigned)n; i++)
			ctx_check(c, c->done[i], got++);
		for (i = 0; i < (unsigned)n && sent < nr; i++, sent++)
			ctx_req(c, c->done[i], rng_below(&c->rng, KEYS));
		if (i)
			bench_must(peal_submit(c->q, c->done, i), "submit");
	}
	return mono_ns() - start;
}

/*
 * One wave of Exist after another, from the doorbell to the last answer taken: what the reactor
 * does, and not how fast one core writes 1023 commands. Absent keys are those from KEYS on.
 */
static uint64_t run_exist(struct ctx *c, unsigned waves)
{
	uint64_t ns = 0, start, key;
	unsigned got;
	int n;

	while (waves--) {
		for (unsigned i = 0; i < WAVE; i++) {
			struct peal_req *r = &c->req[i];

			key = rng_below(&c->rng, KEYS) + (i % 2 ? KEYS : 0);
			r->op = PEAL_REQ_EXIST;
			r->flags = PEAL_DIRECT;
			r->key = bench_key(key);
			r->user = (void *)(uintptr_t)key;
			c->ptr[i] = r;
		}
		bench_must(peal_submit(c->q, c->ptr, WAVE), "submit");
		start = mono_ns();
		for (got = 0; got < WAVE; got += (unsigned)n) {
			n = peal_reap(c->q, c->done, WAVE - got, 10000);
			bench_must(n ? n : -110, "reap");
		}
		ns += mono_ns() - start;
		for (unsigned i = 0; i < WAVE; i++)
			if (c->req[i].res != ((uintptr_t)c->req[i].user < KEYS ? 0 : -2))
				bench_must(-5, "exist: a wrong answer");
	}
	return ns;
}

static void ctx_open(struct ctx *c, const struct bench_daemon *d)
{
	memset(c, 0, sizeof(*c));
	rng_init(&c->rng, 1);
	c->p = bench_open(d);
	bench_fill(c->p, 0, KEYS, BYTES);
	bench_must(peal_queue_open(c->p, WAVE, &c->q), "queue");
	bench_must(peal_mem_alloc(c->p, BUFS * BYTES, &c->mem), "memory");
	c->buf = peal_mem_ptr(c->mem);
	c->req = calloc(WAVE, sizeof(*c->req));
	c->ptr = calloc(WAVE, sizeof(*c->ptr));
	c->done = calloc(WAVE, sizeof(*c->done));
	for (unsigned i = 0; i < BUFS; i++)
		c->req[i].buf = c->buf + i * BYTES;
}

static bool figure_get(struct ctx *c, struct bench_ring *ring, unsigned depth, const char *id)
{
	const uint64_t nr = depth == 1 ? 100000 : 300000;
	double ours[BENCH_ROUNDS], ratio[BENCH_ROUNDS], limit;

	for (unsigned i = 0; i < BENCH_ROUNDS; i++) {
		limit = (double)nr * 1e3 / (double)bench_ring_run(ring, depth, nr, NULL);
		ours[i] = (double)nr * 1e3 / (double)run_get(c, depth, nr);
		ratio[i] = ours[i] / limit;
		printf("  %s round %u: peal %.3f M/s, bare ring %.3f M/s, ratio %.3f\n", id, i,
		       ours[i], limit, ratio[i]);
	}
	return bench_report(&(struct bench_figure){
		.id = id,
		.value = bench_median(ours, BENCH_ROUNDS),
		.unit = "Mops/s",
		.ratio = bench_median(ratio, BENCH_ROUNDS),
		.goal = 0.7,
		.sense = BENCH_AT_LEAST,
	});
}

static bool figure_exist(struct ctx *c)
{
	const unsigned waves = 200;
	double rate[BENCH_ROUNDS];

	for (unsigned i = 0; i < BENCH_ROUNDS; i++) {
		rate[i] = (double)waves * WAVE * 1e3 / (double)run_exist(c, waves);
		printf("  vfu-exist-1023 round %u: %.2f M/s\n", i, rate[i]);
	}
	rate[0] = bench_median(rate, BENCH_ROUNDS);
	return bench_report(&(struct bench_figure){
		.id = "vfu-exist-1023",
		.value = rate[0],
		.unit = "Mops/s",
		.ratio = rate[0],
		.goal = 20,
		.sense = BENCH_AT_LEAST,
	});
}

/* A round for each line of the input: million gets a second. */
static void run_rounds(struct ctx *c, unsigned depth)
{
	const uint64_t nr = depth == 1 ? 400000 : 1000000;
	char line[16];

	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		printf("%.6f\n", (double)nr * 1e3 / (double)run_get(c, depth, nr));
		fflush(stdout);
	}
}

static unsigned rounds_depth(const char *text)
{
	char expected[PARSE_EXPECTED_BYTES];
	uint64_t depth;

	if (!parse_u64_within(text, 1, BUFS, &depth, expected))
		return (unsigned)depth;
	fprintf(stderr, "b_vfu: rounds: '%s' is not good, expected %s\n", text, expected);
	exit(2);
}

int main(int argc, char **argv)
{
	const char *args[] = {"--dram", "6G", "--max-keys", "1200000", NULL};
	const char *only = argc > 1 ? argv[1] : "";
	struct bench_daemon d;
	struct bench_ring *ring;
	unsigned depth = 0;
	struct ctx c;
	bool holds = true;

	if (!strcmp(only, "rounds"))
		depth = rounds_depth(argc > 2 ? argv[2] : "");
	bench_daemon_start(&d, 0, args);
	bench_pin(1);
	ctx_open(&c, &d);
	if (depth) {
		run_rounds(&c, depth);
	} else if (strcmp(only, "vfu-exist-1023")) {
		ring = bench_ring_create(0, ARENA_BYTES, BYTES);
		if (strcmp(only, "vfu-4k-qd32"))
			holds &= figure_get(&c, ring, 1, "vfu-4k-qd1");
		if (strcmp(only, "vfu-4k-qd1"))
			holds &= figure_get(&c, ring, 32, "vfu-4k-qd32");
		bench_ring_destroy(ring);
	}
	if (!*only || !strcmp(only, "vfu-exist-1023"))
		holds &= figure_exist(&c);
	peal_close(c.p);
	bench_daemon_stop(&d);
	return holds ? 0 : 1;
}
