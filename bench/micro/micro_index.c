/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many keys a second one core looks up in the dram index, and what a key costs.
 *
 *     micro_index [entries]      1 Mi by default
 *
 * Keys are random and distinct, half of those asked for are absent, asked in bursts of 64 as a poll
 * takes them. Lines: the index alone, without and with its two prefetch stages; the same through
 * the door (store_submit of EXIST, key hashes made before); GET and release, which touch the
 * LRU. Each the best of 9 rounds, ns of processor time per look-up and millions a second. One
 * thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/mono.h"
#include "base/must.h"
#include "base/rng.h"
#include "core/env_sim.h"
#include "core/reactor.h"
#include "store/dram/dram_int.h"
#include "store/store.h"
#include "store/store_make.h"

#define BURST 64u
#define ROUNDS 9
#define ASKED (1u << 18)

static struct store_set *set;
static struct reactor *reactor;
static struct dram *dram;
static struct store_key *asked;
static uint64_t nr_found;
static int last_res;

static struct store_key make_key(uint64_t no)
{
	struct store_key k = {.len = 16};
	uint64_t x = no;

	k.w[0] = rng_splitmix(&x);
	k.w[1] = rng_splitmix(&x);
	k.hash = hash_key(k.b, k.len);
	return k;
}

static void ended(struct store_io *io, int res)
{
	last_res = res;
}

static void put_all(uint32_t nr)
{
	static struct store_io io;

	for (uint32_t i = 0; i < nr; i++) {
		io.op = STORE_BUF;
		io.key = make_key(i);
		io.len = 1;
		io.end = ended;
		store_submit(set, reactor, &io);
		must(last_res == 0);
		io.op = STORE_PUT;
		store_submit(set, reactor, &io);
		must(last_res == 0);
	}
}

static void find_plain(const struct store_key *k)
{
	for (uint32_t i = 0; i < BURST; i++)
		nr_found += dram_index_find(&dram->ix, &k[i]) != NULL;
}

static void find_prefetched(const struct store_key *k)
{
	for (int stage = 0; stage < 2; stage++)
		for (uint32_t i = 0; i < BURST; i++)
			dram_index_prefetch(&dram->ix, &k[i], stage);
	find_plain(k);
}

static void prefetch_door(const struct store_key *k)
{
	for (int stage = 0; stage < 2; stage++)
		for (uint32_t i = 0; i < BURST; i++)
			store_prefetch(set, reactor, &k[i], stage);
}

/* Processor time of this thread: the answer is per core, and the machine may be shared. */
static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * MONO_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* As a queue has them: an io per slot, used again and again. */
static struct store_io ios[BURST];

static void exist_door(const struct store_key *k)
{
	prefetch_door(k);
	for (uint32_t i = 0; i < BURST; i++) {
		ios[i].op = STORE_EXIST;
		ios[i].key = k[i];
		ios[i].end = ended;
		store_submit(set, reactor, &ios[i]);
		nr_found += last_res == 0;
	}
}

static void get_door(const struct store_key *k)
{
	prefetch_door(k);
	for (uint32_t i = 0; i < BURST; i++) {
		ios[i].op = STORE_GET;
		ios[i].key = k[i];
		ios[i].off = 0;
		ios[i].len = 1;
		ios[i].ver = 0;
		ios[i].end = ended;
		store_submit(set, reactor, &ios[i]);
		nr_found += last_res == 0;
		if (!last_res)
			store_release(&ios[i].view, reactor, NULL);
	}
}

static void measure(const char *what, void (*burst)(const struct store_key *k))
{
	uint64_t best = UINT64_MAX, t;

	for (int r = 0; r < ROUNDS; r++) {
		nr_found = 0;
		t = cpu_ns();
		for (uint32_t i = 0; i < ASKED; i += BURST)
			burst(asked + i);
		t = cpu_ns() - t;
		best = min_t(uint64_t, best, t);
	}
	printf("%-28s %7.1f ns %7.1f M/s  found %.3f\n", what, (double)best / ASKED,
	       ASKED * 1e3 / (double)best, (double)nr_found / ASKED);
}

static void make_set(uint32_t nr)
{
	struct store_dram_opts o = {.bytes = 1ull << 30, .max_keys = nr};
	struct store_set_opts so = {
		.name = "bench",
		.reactors = &reactor,
		.nr_shards = 1,
		.value_max = 1 << 20,
	};
	struct store *s;

	o.bytes = max_t(uint64_t, o.bytes, nr * 1024ull);
	reactor = reactor_create(&(struct reactor_opts){
		.nr_peers = 1,
		.env = env_sim_create(&(struct env_sim_opts){.seed = 1}),
		.spin_ns = UINT64_MAX,
		.cpu = -1,
	});
	must(reactor);
	must(store_set_create(&so, &set) == 0);
	must(store_dram_create(&o, &s) == 0);
	dram = (struct dram *)s;
	store_set_push(set, 0, s);
}

int main(int argc, char **argv)
{
	uint32_t nr = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : 1u << 20;
	struct store_stats st;
	struct rng rng;

	rng_init(&rng, 1);
	make_set(nr);
	put_all(nr);
	asked = malloc(ASKED * sizeof(*asked));
	must(asked);
	for (uint32_t i = 0; i < ASKED; i++)
		asked[i] = make_key(rng_below(&rng, 2ull * nr));
	must(store_set_stats(set, 0, &st) == 0);
	printf("%u entries, %.1f index bytes each\n", nr,
	       (double)st.index_bytes / (double)st.nr_keys);
	measure("find", find_plain);
	measure("find, prefetched", find_prefetched);
	measure("EXIST through the door", exist_door);
	measure("GET and release", get_door);
	return 0;
}
