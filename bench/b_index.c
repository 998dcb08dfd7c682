/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index-bytes: anonymous memory that the daemon's dram tier takes per resident entry (index, links,
 * seals of one chunk), read off the process itself (RssAnon) and not off a counter. waste: what a
 * user gives beyond the bytes that he can have back: capacity / bytes of values resident - 1, index
 * and fragmentation included, after random sizes have replaced the content 100 times over; the
 * worst of three ranges of sizes from 4 KiB up. In process, one shard, no daemon.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/container.h"
#include "base/hash.h"
#include "base/must.h"
#include "base/rng.h"
#include "bench.h"
#include "store/store.h"
#include "store/store_make.h"

#define KEYS 1000000u

struct ctx {
	struct reactor *r;
	struct store_set *set;
	struct store_io io;
	int res;
	bool is_over;
};

static int no_segment(void *arg, struct mem_region *reg)
{
	return 0;
}

static void ctx_end(struct store_io *io, int res)
{
	struct ctx *c = container_of(io, struct ctx, io);

	c->res = res;
	c->is_over = true;
}

static int ctx_run(struct ctx *c)
{
	c->is_over = false;
	c->io.end = ctx_end;
	store_submit(c->set, c->r, &c->io);
	while (!c->is_over)
		reactor_step(c->r);
	return c->res;
}

static void ctx_open(struct ctx *c, uint64_t bytes, uint32_t max_keys)
{
	struct reactor_opts ro = {.nr_peers = 1, .spin_ns = UINT64_MAX, .cpu = -1};
	struct store_dram_opts o = {
		.bytes = bytes, .max_keys = max_keys, .policy = "lru", .on_segment = no_segment};
	struct store_set_opts so = {
		.name = "bench", .nr_shards = 1, .is_immutable = true, .value_max = 128u << 20};
	struct store *s;

	memset(c, 0, sizeof(*c));
	bench_must(env_linux_create(64, &ro.env), "io_uring");
	c->r = reactor_create(&ro);
	must(c->r);
	so.reactors = &c->r;
	bench_must(store_set_create(&so, &c->set), "set");
	bench_must(store_dram_create(&o, &s), "dram");
	store_set_push(c->set, 0, s);
}

static void ctx_gone(void *arg, int res)
{
	((struct ctx *)arg)->is_over = true;
}

static void ctx_close(struct ctx *c)
{
	c->is_over = false;
	store_set_destroy(c->set, c->r, ctx_gone, c);
	while (!c->is_over)
		reactor_step(c->r);
	reactor_destroy(c->r);
}

static void put(struct ctx *c, uint64_t i, uint64_t bytes)
{
	memset(&c->io.key, 0, sizeof(c->io.key));
	c->io.key.w[0] = i;
	c->io.key.len = 16;
	c->io.key.hash = hash_key(c->io.key.b, 16);
	c->io.op = STORE_BUF;
	c->io.flags = 0;
	c->io.len = bytes;
	c->io.meta = NULL;
	bench_must(ctx_run(c), "buf");
	c->io.op = STORE_PUT;
	bench_must(ctx_run(c), "put");
}

static uint64_t rss_anon(void)
{
	auto_fclose FILE *f = fopen("/proc/self/status", "re");
	unsigned long long kib = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "RssAnon: %llu kB", &kib) == 1)
			return (uint64_t)kib << 10;
	bench_must(-5, "/proc/self/status: no RssAnon");
	return 0;
}

static bool figure_index(void)
{
	struct store_stats st;
	struct ctx c;
	uint64_t before, after;
	double bytes;

	before = rss_anon();
	ctx_open(&c, 5ull << 30, KEYS + 1000);
	for (uint64_t i = 0; i < KEYS; i++)
		put(&c, i, 64);
	after = rss_anon();
	store_set_stats(c.set, 0, &st);
	bench_must(st.nr_keys == KEYS ? 0 : -5, "keys were evicted");
	bytes = (double)(after - before) / KEYS;
	printf("  index-bytes: %u entries, RssAnon grew by %.1f MB, the tier counts %.1f MB\n",
	       KEYS, (double)(after - before) / 1e6, (double)st.index_bytes / 1e6);
	ctx_close(&c);
	return bench_report(&(struct bench_figure){
		.id = "index-bytes",
		.value = bytes,
		.unit = "bytes",
		.ratio = bytes,
		.goal = 96,
		.sense = BENCH_AT_MOST,
	});
}

/* Percent beyond the values after the content was replaced 100 times by sizes from lo to hi. */
static double waste(uint64_t capacity, uint64_t lo, uint64_t hi)
{
	struct store_stats st;
	struct rng rng;
	struct ctx c;
	uint64_t sum = 0, i = 0, len;
	double percent;

	rng_init(&rng, lo + hi);
	ctx_open(&c, capacity, 0);
	while (sum < 100 * capacity) {
		len = lo + rng_below(&rng, hi - lo + 1);
		put(&c, i++, len);
		sum += len;
	}
	store_set_stats(c.set, 0, &st);
	percent = ((double)capacity / (double)st.value_bytes - 1) * 100;
	printf("  waste: sizes %llu..%llu: %llu keys, %.1f of %.1f MB are values: "
	       "%.2f %% beyond\n",
	       (unsigned long long)lo, (unsigned long long)hi, (unsigned long long)st.nr_keys,
	       (double)st.value_bytes / 1e6, (double)capacity / 1e6, percent);
	ctx_close(&c);
	return percent;
}

static bool figure_waste(void)
{
	double worst = waste(1ull << 30, 4096, 65536);

	worst = max_t(double, worst, waste(1ull << 30, 4096, 1u << 20));
	worst = max_t(double, worst, waste(4ull << 30, 1u << 20, 32u << 20));
	return bench_report(&(struct bench_figure){
		.id = "waste",
		.value = worst,
		.unit = "%",
		.ratio = worst,
		.goal = 12,
		.sense = BENCH_AT_MOST,
	});
}

int main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : "";
	bool holds = true;

	if (!*only || !strcmp(only, "index-bytes"))
		holds &= figure_index();
	if (!*only || !strcmp(only, "waste"))
		holds &= figure_waste();
	return holds ? 0 : 1;
}
