/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Correctness: batches of Store, Retrieve, Exist and MATCH by the launchers, values of 1 byte to
 * 2 MiB in the GPU's memory, against a model of which key has which version. One thread.
 */
#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "run_int.h"

#define KEYS 4000u
#define BATCH_MAX 600u
#define AREA_BYTES (96ull << 20) /* of a batch, in the GPU's memory */
#define LARGE (2u << 20)
#define POISON 0xee

struct model {
	uint32_t version; /* 0 = not there */
	uint32_t bytes;
};

struct check {
	struct run *r;
	struct rng rng;
	struct model *keys; /* KEYS */
	uint32_t *order;
	struct peal_gpu_req *reqs;
	uint32_t nr[BATCH_MAX]; /* which key is request i's */
	uint32_t nr_reqs;
	uint64_t area;
	uint64_t used;
	uint8_t *host; /* AREA_BYTES */
	uint64_t ops, bytes;
};

static void fill(uint8_t *p, uint32_t key, uint32_t version, uint32_t bytes)
{
	for (uint32_t at = 0; at < bytes; at += 8) {
		uint64_t w = bench_word(key * 65536u + version, at / 8);

		memcpy(p + at, &w, bytes - at < 8 ? bytes - at : 8);
	}
}

static void compare(const uint8_t *p, uint32_t key, uint32_t version, uint32_t bytes)
{
	for (uint32_t at = 0; at < bytes; at += 8) {
		uint64_t w = bench_word(key * 65536u + version, at / 8);

		if (memcmp(p + at, &w, bytes - at < 8 ? bytes - at : 8))
			errx(1, "key %u: wrong at byte %u of %u", key, at, bytes);
	}
}

static uint32_t any_bytes(struct check *c)
{
	switch (rng_below(&c->rng, 16)) {
	case 0:
		return 1 + (uint32_t)rng_below(&c->rng, LARGE);
	case 1:
	case 2:
		return 1 + (uint32_t)rng_below(&c->rng, 70000);
	default:
		return 1 + (uint32_t)rng_below(&c->rng, 9000);
	}
}

/* The next key, each once in a batch, and its room; 0: the batch is full. */
static int add(struct check *c, uint32_t bytes)
{
	uint32_t i = c->nr_reqs, j = i + (uint32_t)rng_below(&c->rng, KEYS - i);
	uint32_t key = c->order[j];
	struct peal_gpu_req *q = &c->reqs[i];

	if (i == BATCH_MAX || c->used + bytes + 64 > AREA_BYTES)
		return 0;
	c->order[j] = c->order[i];
	c->order[i] = key;
	c->nr[i] = key;
	memset(q, 0, sizeof(*q));
	bench_key(&q->key, key);
	q->bytes = bytes;
	/* Mostly aligned; never against its neighbour. */
	c->used += rng_chance(&c->rng, 1, 4) ? 1 + rng_below(&c->rng, 15) : 0;
	q->buf = (void *)(uintptr_t)(c->area + c->used);
	c->used = (c->used + bytes + 31) & ~15ull;
	c->nr_reqs++;
	return 1;
}

static void begin(struct check *c)
{
	c->nr_reqs = 0;
	c->used = 0;
}

static uint8_t *host_of(struct check *c, uint32_t i)
{
	return c->host + ((uint64_t)(uintptr_t)c->reqs[i].buf - c->area);
}

static void wait_for(struct check *c, int res)
{
	if (res)
		errx(1, "launch: %s", peal_gpu_errmsg());
	run_ok(c->r->cu.stream_wait(c->r->stream), "the stream");
	c->ops += c->nr_reqs;
}

static void store(struct check *c, uint32_t most, int is_small)
{
	begin(c);
	while (c->nr_reqs < most) {
		uint32_t bytes = is_small ? 4096 : any_bytes(c);
		struct model *m;

		if (!add(c, bytes))
			break;
		m = &c->keys[c->nr[c->nr_reqs - 1]];
		m->version++;
		m->bytes = bytes;
		fill(host_of(c, c->nr_reqs - 1), c->nr[c->nr_reqs - 1], m->version, bytes);
		c->bytes += bytes;
	}
	run_to_device(c->r, c->area, c->host, c->used);
	wait_for(c, peal_gpu_store_async(c->r->g, c->reqs, c->nr_reqs, 0, c->r->stream));
	for (uint32_t i = 0; i < c->nr_reqs; i++)
		if (c->reqs[i].status)
			errx(1, "Store of key %u: status %#x", c->nr[i], c->reqs[i].status);
}

static void check_one(struct check *c, uint32_t i)
{
	const struct peal_gpu_req *q = &c->reqs[i];
	const struct model *m = &c->keys[c->nr[i]];
	const uint8_t *p = host_of(c, i);
	uint32_t n = m->bytes < q->bytes ? m->bytes : q->bytes;

	if (q->status != (m->version ? PEAL_ST_OK : PEAL_ST_NOT_FOUND))
		errx(1, "Retrieve of key %u: status %#x", c->nr[i], q->status);
	if (!m->version)
		n = 0;
	else if (q->value_bytes != m->bytes)
		errx(1, "Retrieve of key %u: %u bytes, expected %u", c->nr[i], q->value_bytes,
		     m->bytes);
	compare(p, c->nr[i], m->version, n);
	for (uint32_t b = n; b < q->bytes + 8; b++)
		if (p[b] != POISON)
			errx(1, "Retrieve of key %u: byte %u behind its %u was written", c->nr[i],
			     b, n);
	c->bytes += n;
}

static void retrieve(struct check *c, uint32_t most, int is_small)
{
	begin(c);
	while (c->nr_reqs < most) {
		/* The key isn't known before it is added: room for most, sometimes too little. */
		uint32_t room = is_small ? 9000 : rng_chance(&c->rng, 1, 2) ? LARGE : 70000;

		if (!add(c, room))
			break;
	}
	run_fill(c->r, c->area, POISON, AREA_BYTES);
	wait_for(c, peal_gpu_retrieve_async(c->r->g, c->reqs, c->nr_reqs, c->r->stream));
	run_ok(c->r->cu.to_host(c->host, c->area, c->used), "from the GPU");
	for (uint32_t i = 0; i < c->nr_reqs; i++)
		check_one(c, i);
}

static void exist(struct check *c, uint32_t most)
{
	begin(c);
	while (c->nr_reqs < most && add(c, 16))
		;
	wait_for(c, peal_gpu_exist_async(c->r->g, c->reqs, c->nr_reqs, c->r->stream));
	for (uint32_t i = 0; i < c->nr_reqs; i++)
		if (c->reqs[i].status !=
		    (c->keys[c->nr[i]].version ? PEAL_ST_OK : PEAL_ST_NOT_FOUND))
			errx(1, "Exist of key %u: status %#x", c->nr[i], c->reqs[i].status);
}

static void match(struct check *c, uint32_t most)
{
	uint32_t want = 0;

	begin(c);
	while (c->nr_reqs < most && add(c, 16))
		;
	while (want < c->nr_reqs && c->keys[c->nr[want]].version)
		want++;
	wait_for(c, peal_gpu_match_async(c->r->g, c->reqs, c->nr_reqs, c->r->stream));
	if (c->reqs[0].status || c->reqs[0].value_bytes != want)
		errx(1, "MATCH: status %#x, %u keys, expected %u", c->reqs[0].status,
		     c->reqs[0].value_bytes, want);
}

static void init(struct check *c, struct run *r, uint64_t seed)
{
	*c = (struct check){.r = r};
	rng_init(&c->rng, seed);
	c->keys = calloc(KEYS, sizeof(*c->keys));
	c->order = calloc(KEYS, sizeof(*c->order));
	c->host = malloc(AREA_BYTES);
	c->reqs = peal_gpu_reqs(r->g, BATCH_MAX);
	c->area = run_alloc(r, AREA_BYTES);
	if (!c->keys || !c->order || !c->host || !c->reqs)
		errx(1, "no memory");
	for (uint32_t i = 0; i < KEYS; i++)
		c->order[i] = i;
}

static void fini(struct check *c)
{
	run_ok(c->r->cu.mem_free(c->area), "freeing");
	free(c->keys);
	free(c->order);
	free(c->host);
}

int run_check(struct run *r, uint64_t seed, uint32_t ops)
{
	struct check c;

	init(&c, r, seed);
	while (c.ops < ops) {
		uint32_t most = 1 + (uint32_t)rng_below(&c.rng, BATCH_MAX);

		switch (rng_below(&c.rng, 8)) {
		case 0:
		case 1:
			store(&c, most, 0);
			break;
		case 2:
			exist(&c, most);
			break;
		case 3:
			match(&c, most);
			break;
		case 4:
			retrieve(&c, 1 + most / 16, 0);
			break;
		default:
			retrieve(&c, most, 1);
			break;
		}
	}
	printf("{\"what\": \"check\", \"seed\": %llu, \"operations\": %llu, \"value_bytes\": %llu, "
	       "\"wrong\": 0}\n",
	       (unsigned long long)seed, (unsigned long long)c.ops, (unsigned long long)c.bytes);
	fini(&c);
	return 0;
}

/* The kernels run, and what the daemon serves arrives, while this process stands still. */
int run_stop(struct run *r, uint32_t nr)
{
	uint64_t ns = 500000000;
	void *args[] = {&ns};
	struct check c;

	init(&c, r, 1);
	nr = nr < BATCH_MAX ? nr : BATCH_MAX;
	store(&c, nr, 1);
	for (uint32_t i = 0; i < nr; i++) /* the same keys again */
		c.reqs[i].bytes = c.keys[c.nr[i]].bytes;
	run_fill(r, c.area, POISON, AREA_BYTES);
	printf("{\"what\": \"stopping\", \"commands\": %u}\n", nr);
	fflush(stdout);
	run_launch(r, "bench_wait", 32, args);
	if (peal_gpu_retrieve_async(r->g, c.reqs, nr, r->stream))
		errx(1, "launch: %s", peal_gpu_errmsg());
	raise(SIGSTOP);
	run_ok(r->cu.stream_wait(r->stream), "the stream");
	run_ok(r->cu.to_host(c.host, c.area, c.used), "from the GPU");
	for (uint32_t i = 0; i < nr; i++)
		check_one(&c, i);
	printf("{\"what\": \"stop\", \"commands\": %u, \"wrong\": 0}\n", nr);
	fini(&c);
	return 0;
}
