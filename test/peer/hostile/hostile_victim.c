/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client that must not notice. It puts and gets values that are made from their key and the
 * number of the put, so every byte of every answer is known, and nothing may be missing: its
 * namespace has room for all of it. A call that fails, or a request that isn't answered within a
 * minute, ends the test. One thread.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/must.h"
#include "base/mono.h"
#include "hostile.h"
#include "peal/peal.h"

#define LARGE_BYTES (256u << 10)
#define SMALL_BYTES 4096u
#define NR_WAVE 32u
#define NR_TIMES (1u << 20)

struct victim {
	struct peal *p;
	struct peal_queue *q;
	struct peal_mem *m;
	struct rng rng;
	uint32_t put[VICTIM_KEYS]; /* times it was put */
	uint8_t want[LARGE_BYTES], got[LARGE_BYTES];
	uint32_t *ns; /* of gets of 4 KiB */
	uint32_t nr_ns;
	uint64_t steps;
};

__attribute__((noreturn, format(printf, 2, 3))) static void lost(uint32_t i, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "victim: key %u: ", i);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, ": %s\n", peal_errmsg());
	exit(1);
}

void victim_key(uint32_t i, uint8_t key[16])
{
	uint64_t x = i;

	for (unsigned n = 0; n < 2; n++) {
		uint64_t half = rng_splitmix(&x);

		memcpy(key + 8 * n, &half, 8);
	}
}

static uint32_t bytes_of(uint32_t i)
{
	return i % 16 ? SMALL_BYTES : LARGE_BYTES;
}

static struct peal_key key_of(uint32_t i)
{
	uint8_t key[16];

	victim_key(i, key);
	return peal_key_bytes(key, sizeof(key));
}

/* Each line of 64 bytes begins with the mark and says which value and which place it is of. */
static void fill(uint8_t *to, uint32_t i, uint32_t put)
{
	uint64_t *line = (void *)to, x = (uint64_t)i << 32 | put;

	for (uint32_t n = 0; n < bytes_of(i) / 64; n++, line += 8) {
		line[0] = VICTIM_MARK;
		for (unsigned w = 1; w < 8; w++)
			line[w] = rng_splitmix(&x);
	}
}

static void check(struct victim *v, uint32_t i, const uint8_t *got, int64_t n)
{
	if (n != bytes_of(i))
		lost(i, "%lld bytes, expected %u", (long long)n, bytes_of(i));
	fill(v->want, i, v->put[i]);
	if (memcmp(v->want, got, bytes_of(i)))
		lost(i, "WRONG BYTES");
}

static void put(struct victim *v, uint32_t i)
{
	struct peal_key k = key_of(i);

	v->put[i]++;
	fill(v->want, i, v->put[i]);
	if (peal_put(v->p, &k, v->want, bytes_of(i), NULL))
		lost(i, "put");
}

static void get(struct victim *v, uint32_t i)
{
	struct peal_key k = key_of(i);
	uint64_t began = mono_ns();
	ssize_t n = peal_get(v->p, &k, v->got, sizeof(v->got), NULL);
	uint64_t took = mono_ns() - began;

	if (bytes_of(i) == SMALL_BYTES && v->nr_ns < NR_TIMES)
		v->ns[v->nr_ns++] = took > UINT32_MAX ? UINT32_MAX : (uint32_t)took;
	check(v, i, v->got, n);
}

/* Direct gets into registered memory: each comes back once, with its own bytes. */
static void wave(struct victim *v)
{
	struct peal_req req[NR_WAVE] = {0}, *reqs[NR_WAVE], *done[NR_WAVE];
	uint32_t first = (uint32_t)rng_below(&v->rng, VICTIM_KEYS), i;
	uint8_t *mem = peal_mem_ptr(v->m);
	int nr = 0, sent, n;

	for (i = 0; i < NR_WAVE; i++) {
		reqs[i] = &req[i];
		req[i] = (struct peal_req){.op = PEAL_REQ_GET,
					   .flags = PEAL_DIRECT,
					   .key = key_of((first + i) % VICTIM_KEYS),
					   .buf = mem + (size_t)i * LARGE_BYTES,
					   .bytes = LARGE_BYTES,
					   .user = &reqs[i]};
	}
	sent = peal_submit(v->q, reqs, NR_WAVE);
	if (sent != (int)NR_WAVE)
		lost(first, "a wave of %u: %d", NR_WAVE, sent);
	while (nr < sent) {
		n = peal_reap(v->q, done, NR_WAVE, 60000);
		if (n <= 0)
			lost(first, "a wave: %d of %d answered within a minute", nr, sent);
		for (int d = 0; d < n; d++) {
			i = (first + (uint32_t)(done[d] - req)) % VICTIM_KEYS;
			if (!done[d]->user)
				lost(i, "answered twice");
			done[d]->user = NULL;
			check(v, i, done[d]->buf,
			      done[d]->res ? done[d]->res : (int64_t)done[d]->value_bytes);
		}
		nr += n;
	}
}

struct victim *victim_open(const char *folder)
{
	struct victim *v = calloc(1, sizeof(*v));
	char uri[128];

	must(v);
	v->ns = malloc(NR_TIMES * sizeof(*v->ns));
	must(v->ns);
	rng_init(&v->rng, 1);
	snprintf(uri, sizeof(uri), "vfu:%s", folder);
	if (peal_open(uri, &(struct peal_opts){.timeout_ms = 60000, .nsid = 1}, &v->p) ||
	    peal_queue_open(v->p, NR_WAVE, &v->q) ||
	    peal_mem_alloc(v->p, NR_WAVE * (size_t)LARGE_BYTES, &v->m))
		lost(0, "open");
	for (uint32_t i = 0; i < VICTIM_KEYS; i++)
		put(v, i);
	return v;
}

void victim_close(struct victim *v)
{
	for (uint32_t i = 0; i < VICTIM_KEYS; i++)
		get(v, i);
	peal_queue_close(v->q);
	peal_mem_free(v->p, v->m);
	peal_close(v->p);
	free(v->ns);
	free(v);
}

void victim_step(struct victim *v)
{
	uint64_t dice = rng_below(&v->rng, 64);
	uint32_t i = (uint32_t)rng_below(&v->rng, VICTIM_KEYS);

	if (dice == 0)
		wave(v);
	else if (dice < 8)
		put(v, i);
	else
		get(v, i);
	v->steps++;
}

uint64_t victim_steps(const struct victim *v)
{
	return v->steps;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

uint64_t victim_quantile(const struct victim *v, double q, uint64_t *nr)
{
	*nr = v->nr_ns;
	if (!v->nr_ns)
		return 0;
	qsort(v->ns, v->nr_ns, sizeof(*v->ns), by_value);
	return v->ns[(uint32_t)(q * (v->nr_ns - 1))];
}

void victim_reset(struct victim *v)
{
	v->nr_ns = 0;
}
