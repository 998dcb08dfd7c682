/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one pass of copy and seal costs beside its parts: memcpy, XXH3, hash_copy_xxh3() and a whole
 * mem_xfer in both directions, with the peer's memory in one piece and in pages of 4 KiB, guarded
 * as a peer's is; and what an idle turn of a reactor costs.
 *
 * GB/s of CPU time of this thread (a machine with neighbours takes turns with us); medians of
 * rounds in which every variant runs once. Only ratios within one run mean anything. Working set:
 * 256 MiB on each side, or argv[1] MiB, used round and round, so that by default nothing is in the
 * cache beforehand.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/must.h"
#include "core/reactor.h"
#include "mem/mem_iter.h"

#define SPACE_MIB 256
#define ROUND_BYTES (128ull << 20)
#define NR_ROUNDS 7
#define PAGE_BYTES 4096u

struct bench {
	uint64_t space_bytes;
	struct reactor *r;
	struct mem_engine *e;
	struct mem_region *own, *peer;
	uint64_t *seals;
	struct mem_run *pages;
	uint64_t at; /* where the next value lies */
	uint64_t sum;
	bool is_ended;
	int res;
	struct mem_xfer x;
};

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void do_memcpy(struct bench *b, uint64_t len)
{
	memcpy(b->peer->base + b->at, b->own->base + b->at, len);
}

static void do_xxh3(struct bench *b, uint64_t len)
{
	for (uint64_t at = 0; at < len; at += MEM_CHUNK_BYTES)
		b->sum += hash_xxh3(b->own->base + b->at + at,
				    min_t(uint64_t, MEM_CHUNK_BYTES, len - at), 1);
}

static void do_hash_copy(struct bench *b, uint64_t len)
{
	for (uint64_t at = 0; at < len; at += MEM_CHUNK_BYTES)
		b->sum += hash_copy_xxh3(b->peer->base + b->at + at, b->own->base + b->at + at,
					 min_t(uint64_t, MEM_CHUNK_BYTES, len - at), 1);
}

static void bench_end(struct mem_xfer *x, int res)
{
	struct bench *b = container_of(x, struct bench, x);

	b->is_ended = true;
	b->res = res;
}

static void xfer(struct bench *b, enum mem_xfer_dir dir, uint64_t len, bool is_paged)
{
	struct mem_run own = {b->own, b->at, len}, whole = {b->peer, b->at, len};
	struct mem_iter_runs value, peer;

	mem_iter_runs_init(&value, &own, 1);
	mem_iter_runs_init(&peer, &whole, 1);
	if (is_paged)
		mem_iter_runs_init(&peer, b->pages + b->at / PAGE_BYTES,
				   (uint32_t)(len / PAGE_BYTES));
	b->x = (struct mem_xfer){
		.dir = dir,
		.check = true,
		.len = len,
		.value_len = len,
		.value = &value.it,
		.peer = &peer.it,
		.seals = b->seals,
		.end = bench_end,
	};
	b->is_ended = false;
	mem_xfer_submit(b->e, &b->x);
	do
		reactor_step(b->r);
	while (!b->is_ended);
	must(b->res == 0);
}

static void do_store(struct bench *b, uint64_t len)
{
	xfer(b, MEM_FROM_PEER, len, false);
}

static void do_store_pages(struct bench *b, uint64_t len)
{
	xfer(b, MEM_FROM_PEER, len, true);
}

/* The value is the same everywhere, so that one list of seals serves. */
static void do_retrieve(struct bench *b, uint64_t len)
{
	xfer(b, MEM_TO_PEER, len, false);
}

static void do_retrieve_pages(struct bench *b, uint64_t len)
{
	xfer(b, MEM_TO_PEER, len, true);
}

static const struct {
	const char *name;
	void (*fn)(struct bench *b, uint64_t len);
} variants[] = {
	{"memcpy", do_memcpy},
	{"xxh3", do_xxh3},
	{"hash_copy", do_hash_copy},
	{"store", do_store},
	{"retrieve", do_retrieve},
	{"store 4K pages", do_store_pages},
	{"retr. 4K pages", do_retrieve_pages},
};

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double one_round(struct bench *b, unsigned v, uint64_t len)
{
	uint64_t nr = ROUND_BYTES / len, t = cpu_ns();

	for (uint64_t i = 0; i < nr; i++) {
		variants[v].fn(b, len);
		b->at = b->at + 2 * len <= b->space_bytes ? b->at + len : 0;
	}
	return (double)(nr * len) / (double)(cpu_ns() - t);
}

static void bench_size(struct bench *b, uint64_t len)
{
	double gbs[ARRAY_SIZE(variants)][NR_ROUNDS];

	b->at = 0;
	for (uint64_t at = 0; at < b->space_bytes; at += 8)
		memcpy(b->own->base + at, &(uint64_t){at % len * 0x9E3779B97F4A7C15ull}, 8);
	memcpy(b->peer->base, b->own->base, b->space_bytes);
	do_store(b, len);
	b->at = 0;
	for (unsigned k = 0; k < NR_ROUNDS; k++) {
		for (unsigned v = 0; v < ARRAY_SIZE(variants); v++)
			gbs[v][k] = one_round(b, v, len);
	}
	for (unsigned v = 0; v < ARRAY_SIZE(variants); v++) {
		qsort(gbs[v], NR_ROUNDS, sizeof(double), compare);
		printf("%8llu KiB  %-16s %6.2f GB/s  %5.2f of memcpy\n",
		       (unsigned long long)len >> 10, variants[v].name, gbs[v][NR_ROUNDS / 2],
		       gbs[v][NR_ROUNDS / 2] / gbs[0][NR_ROUNDS / 2]);
	}
}

static struct mem_region *map_peer(uint64_t len)
{
	int fd = memfd_create("micro_copy", MFD_CLOEXEC);
	struct mem_region *reg;

	must(fd >= 0 && ftruncate(fd, len) == 0);
	must(mem_host_map(fd, 0, len, MEM_PEER | MEM_READABLE | MEM_WRITABLE, &reg) == 0);
	(void)madvise(reg->base, len, MADV_HUGEPAGE);
	close(fd);
	return reg;
}

static int idle_poll(struct poller *p)
{
	return 0;
}

static void bench_turn(struct bench *b)
{
	struct poller p = {.poll = idle_poll};
	uint64_t t, nr = 5000000;

	reactor_poller_add(b->r, &p);
	t = cpu_ns();
	for (uint64_t i = 0; i < nr; i++)
		reactor_step(b->r);
	printf("idle turn, engine and one poller: %.1f ns\n", (double)(cpu_ns() - t) / (double)nr);
	reactor_poller_del(b->r, &p);
}

int main(int argc, char **argv)
{
	static const uint64_t lens[] = {4 << 10, 64 << 10, 1 << 20, 32 << 20};
	struct reactor_opts o = {.nr_peers = 1, .cpu = -1};
	struct bench b = {0};

	b.space_bytes = (argc > 1 ? strtoull(argv[1], NULL, 0) : SPACE_MIB) << 20;
	must(b.space_bytes > 0);
	must(env_linux_create(64, &o.env) == 0);
	b.r = reactor_create(&o);
	b.e = mem_engine_create(b.r);
	must(mem_host_memfd("micro_copy", b.space_bytes, &b.own) == 0);
	b.peer = map_peer(b.space_bytes);
	b.seals = calloc(b.space_bytes / MEM_CHUNK_BYTES + 1, sizeof(*b.seals));
	b.pages = calloc(b.space_bytes / PAGE_BYTES, sizeof(*b.pages));
	must(b.seals && b.pages);
	for (uint64_t i = 0; i < b.space_bytes / PAGE_BYTES; i++)
		b.pages[i] = (struct mem_run){b.peer, i * PAGE_BYTES, PAGE_BYTES};
	printf("XXH3 with %s\n", hash_isa_name());
	for (unsigned i = 0; i < ARRAY_SIZE(lens) && lens[i] <= b.space_bytes; i++)
		bench_size(&b, lens[i]);
	bench_turn(&b);
	mem_engine_destroy(b.e);
	reactor_destroy(b.r);
	mem_region_put(b.own);
	mem_region_put(b.peer);
	free(b.seals);
	free(b.pages);
	return (int)(b.sum & 0);
}
