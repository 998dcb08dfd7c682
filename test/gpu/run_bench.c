/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measuring: what is asked for is put there first, by a queue pair of this process's own, then one
 * kernel asks over and over and notes its own clock. Prints all samples. One thread.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peal/peal.h"
#include "run_int.h"

#define WAVE 1023u
#define VALUE 4096u

static const struct peal_lane one = {0, 1, NULL, NULL};

static void put_wave(const struct peal_pair_info *info, struct peal_device_queue *q,
		     struct peal_result *res, uint32_t from, uint32_t nr)
{
	struct peal_sqe s;
	struct peal_key k;

	if (!peal_wave_begin(q, nr))
		errx(1, "no wave of %u", nr);
	for (uint32_t i = 0; i < nr; i++) {
		uint64_t *p = (uint64_t *)((uint8_t *)info->data + (size_t)i * VALUE);

		for (uint32_t w = 0; w < VALUE / 8; w++)
			p[w] = bench_word(from + i, w);
		bench_key(&k, from + i);
		peal_sqe_store(&s, info->nsid, &k, 0);
		peal_sqe_sgl(&s, info->data_iova + (uint64_t)i * VALUE, VALUE);
		peal_wave_put(q, i, &s, res);
	}
	peal_wave_ring(q, &one);
	while (peal_wave_reap(q, &one, res, peal_port_ns() + 1000000000) == PEAL_WAVE_LATE)
		;
	for (uint32_t i = 0; i < nr; i++)
		if (res[i].status)
			errx(1, "Store of key %u: status %#x", from + i, res[i].status);
}

static void put_all(struct run *r, uint32_t keys)
{
	struct peal_pair_opts o = {.data_bytes = (uint64_t)WAVE * VALUE, .timeout_ms = 20000};
	struct peal_result *res = calloc(WAVE, sizeof(*res));
	struct peal_pair_info info;
	struct peal_pair *pair;

	if (!res || peal_pair_open(r->uri, &o, &pair))
		errx(1, "%s", peal_errmsg());
	peal_pair_info(pair, &info);
	for (uint32_t at = 0; at < keys; at += WAVE)
		put_wave(&info, &info.q, res, at, keys - at < WAVE ? keys - at : WAVE);
	peal_pair_close(pair);
	free(res);
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static int measure(struct run *r, const char *name, struct bench_job *j, unsigned threads)
{
	uint32_t *took = calloc(j->count, sizeof(*took)), bad = 0;
	uint64_t dst = run_alloc(r, VALUE), out = run_alloc(r, (j->count + 1) * sizeof(*took));
	struct peal_gpu_side *side = peal_gpu_side(r->g);
	void *args[] = {&side, j};

	if (!took)
		errx(1, "no memory");
	j->dst = (uint8_t *)(uintptr_t)dst;
	j->bad = (uint32_t *)(uintptr_t)out;
	j->took_ns = (uint32_t *)(uintptr_t)(out + sizeof(*took));
	run_fill(r, out, 0, (j->count + 1) * sizeof(*took));
	run_launch(r, name, threads, args);
	run_ok(r->cu.stream_wait(r->stream), name);
	run_ok(r->cu.to_host(&bad, out, sizeof(bad)), "from the GPU");
	run_ok(r->cu.to_host(took, out + sizeof(*took), j->count * sizeof(*took)), "from the GPU");
	printf("{\"what\": \"%s\", \"threads\": %u, \"keys\": %u, \"wrong\": %u, \"ns\": [", name,
	       threads, j->nr_keys, bad);
	for (uint32_t i = 0; i < j->count; i++)
		printf("%s%u", i ? "," : "", took[i]);
	printf("]}\n");
	qsort(took, j->count, sizeof(*took), by_size);
	fprintf(stderr, "%s, %u threads: median %u ns, p99 %u ns, least %u ns, wrong %u\n", name,
		threads, took[j->count / 2], took[j->count * 99 / 100], took[0], bad);
	free(took);
	run_ok(r->cu.mem_free(dst), "freeing");
	run_ok(r->cu.mem_free(out), "freeing");
	return bad != 0;
}

int run_pull(struct run *r, uint32_t keys, uint32_t count)
{
	struct bench_job j = {.nr_keys = keys, .count = count, .bytes = VALUE, .seed = 1};
	int rc;

	put_all(r, keys);
	rc = measure(r, "bench_pull", &j, 128);
	rc |= measure(r, "bench_pull", &j, 256);
	return rc | measure(r, "bench_pull", &j, 512);
}

int run_exist(struct run *r, uint32_t keys, uint32_t waves)
{
	struct bench_job j = {.nr_keys = keys, .count = waves, .bytes = VALUE, .seed = 1};
	int rc;

	put_all(r, keys);
	rc = measure(r, "bench_exist", &j, 1024);
	return rc | measure(r, "bench_exist", &j, 512);
}
