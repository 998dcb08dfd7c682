/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rados tier, alone and under dram, against the history of every key, with `fault` in the
 * stack: what m_random does to stacks of memory, on a real cluster. Each row has a RADOS namespace
 * of its own. The reactors have a simulated clock and one thread; what librados' threads post comes
 * when it comes, so the seed doesn't decide everything here.
 *
 *     m_rados [OPERATIONS [ROW]]     60000 by default, shared by the rows; PEAL_SEED sets the seed
 *
 * Wants CEPH_CONF, and a pool, `kv` or PEAL_POOL, where client.admin may do everything.
 */
#include "m_random_int.h"

#include <unistd.h>

#include "store/rados/ceph_int.h"

#define M_TURNS 32 /* between two naps, in which the cluster has the processor */
#define M_NAP_US 20
#define M_SCANS 2

static const struct m_stack stacks[] = {
	{.name = "rados", .layers = {M_RADOS}, .is_far = true, .is_sure = true},
	{.name = "fault(late)/rados",
	 .layers = {M_FAULT, M_RADOS},
	 .fault = {.delay_1024 = 200, .stale_1024 = 100},
	 .is_far = true,
	 .is_sure = true},
	{.name = "fault(all)/rados",
	 .layers = {M_FAULT, M_RADOS},
	 .fault = {.fail_1024 = 60, .delay_1024 = 200, .flip_1024 = 60, .stale_1024 = 100},
	 .is_far = true,
	 .flips = true,
	 .fails = true},
	{.name = "dram/rados",
	 .layers = {M_DRAM, M_RADOS},
	 .dram_bytes = 768 << 10,
	 .is_far = true,
	 .is_sure = true},
	{.name = "dram/rados(through)",
	 .layers = {M_DRAM, M_RADOS},
	 .dram_bytes = 768 << 10,
	 .is_through = true,
	 .is_far = true,
	 .is_sure = true},
	{.name = "dram/rados(acked)",
	 .layers = {M_DRAM, M_RADOS},
	 .dram_bytes = 8 << 20,
	 .is_acked_below = true,
	 .is_far = true,
	 .is_sure = true},
	{.name = "dram/rados(immutable)",
	 .layers = {M_DRAM, M_RADOS},
	 .dram_bytes = 768 << 10,
	 .is_immutable = true,
	 .is_far = true,
	 .is_sure = true},
	{.name = "dram/rados/cache",
	 .layers = {M_DRAM, M_RADOS, M_MEM},
	 .dram_bytes = 768 << 10,
	 .is_far = true,
	 .is_sure = true},
	{.name = "dram/rados(acked)/cache",
	 .layers = {M_DRAM, M_RADOS, M_FAULT, M_MEM},
	 .fault = {.delay_1024 = 200, .stale_1024 = 100},
	 .dram_bytes = 1 << 20,
	 .is_acked_below = true,
	 .is_far = true,
	 .is_sure = true},
	{.name = "dram/rados/cache(all)",
	 .layers = {M_DRAM, M_RADOS, M_FAULT, M_MEM},
	 .fault = {.fail_1024 = 60, .delay_1024 = 200, .flip_1024 = 60, .stale_1024 = 100},
	 .dram_bytes = 768 << 10,
	 .is_far = true,
	 .flips = true,
	 .fails = true},
	{.name = "dram/fault(all)/rados",
	 .layers = {M_DRAM, M_FAULT, M_RADOS},
	 .fault = {.fail_1024 = 60, .delay_1024 = 200, .flip_1024 = 60, .stale_1024 = 100},
	 .dram_bytes = 768 << 10,
	 .is_far = true,
	 .flips = true,
	 .fails = true},
};

bool m_is_sure(struct model *m)
{
	return m->st->is_sure;
}

static void told(void *arg, const char *what)
{
	printf("  %s\n", what);
}

static struct ceph_link *link_open(const struct m_stack *st, unsigned nr_shards, uint64_t seed)
{
	struct ceph_link *link;
	char ns[64];
	struct ceph_opts o = {
		.conf = getenv("CEPH_CONF"),
		.pool = getenv("PEAL_POOL") ? getenv("PEAL_POOL") : "kv",
		.ns = ns,
		/* Nothing is late here: the clock isn't the cluster's. */
		.read_max_ns = UINT64_MAX / 2,
		.value_max = M_VALUE_MAX,
		.nr_shards = nr_shards,
		.timeout_s = 30,
		.list_every_ns = 20000000, /* again and again */
		.told = told,
	};

	snprintf(ns, sizeof(ns), "model-%d-%s-%llx", getpid(), st->name, (unsigned long long)seed);
	must(ceph_link_open(&o, &link) == 0);
	for (unsigned i = 0; !ceph_link_is_up(link); i++) {
		must(i < 60000); /* no cluster */
		usleep(1000);
	}
	return link;
}

static void push(struct model *m, struct ceph_link *link, unsigned nr_shards)
{
	const struct m_stack *st = m->st;
	struct store *s;

	for (unsigned i = 0; i < nr_shards; i++) {
		for (unsigned l = 0; st->layers[l] != M_END; l++) {
			if (st->layers[l] == M_RADOS)
				must(ceph_create(link, (uint16_t)i, &s) == 0);
			else
				s = m_layer_create(st, st->layers[l], rng_u64(&m->rng));
			store_set_push(m->w.set, i, s);
		}
	}
}

static void turn(struct model *m, bool may_start, uint64_t n)
{
	m_turn(m, may_start);
	if (n % M_TURNS == 0)
		usleep(M_NAP_US);
}

static uint64_t run(const struct m_stack *st, uint64_t seed, uint64_t nr_ops)
{
	struct model *m = malloc(sizeof(*m));
	struct ceph_link *link;
	struct store_stats low = {0};
	unsigned nr_shards, tier = 0;
	uint64_t n;

	must(m);
	m_actors_init(m, st, seed);
	world_init(&m->w, 1 + (unsigned)rng_below(&m->rng, 4), seed);
	m->w.is_immutable = st->is_immutable;
	nr_shards = 1 + (unsigned)rng_below(&m->rng, 4);
	world_set(&m->w, nr_shards, M_VALUE_MAX);
	link = link_open(st, nr_shards, seed);
	push(m, link, nr_shards);
	ceph_link_ready(link);
	/* The pool's list is read while things change, not only once, unless the run is short. */
	for (n = 0; m->nr_ops < nr_ops || link->nr_scans < (nr_ops < 5000 ? 1 : M_SCANS); n++)
		turn(m, true, n);
	for (n = 0; !m_is_quiet(m); n++) {
		must(n < 100000000); /* else a verb never ends */
		turn(m, false, n);
	}
	must(st->flips || m->w.nr_alerts == 0);
	while (st->layers[tier] != M_RADOS)
		tier++;
	must(store_set_stats(m->w.set, tier, &low) == 0);
	printf("  %-22s %u shards on %u: %llu ops, %llu hits, %llu misses, %llu puts, %llu bad; of "
	       "the pool %llu hits, %llu puts, %u lists\n",
	       st->name, nr_shards, m->w.nr_reactors, (unsigned long long)m->nr_ops,
	       (unsigned long long)m->nr_hits, (unsigned long long)m->nr_misses,
	       (unsigned long long)m->nr_puts, (unsigned long long)m->nr_bad,
	       (unsigned long long)low.hits, (unsigned long long)low.puts, link->nr_scans);
	/* A cache below answers nearly all; its misses are the pool's to answer. */
	must(low.puts && (low.hits || nr_ops < 5000));
	n = m->nr_ops;
	for (unsigned i = 0; i < 2000; i++) /* what waits for the cluster, in its time */
		turn(m, false, i);
	world_fini(&m->w);
	ceph_link_close(link);
	m_actors_fini(m);
	free(m);
	return n;
}

int main(int argc, char **argv)
{
	uint64_t nr_ops = argc > 1 ? strtoull(argv[1], NULL, 0) : 60000;
	uint64_t seed = unit_seed(20261130), nr_done = 0;
	const char *only = argc > 2 ? argv[2] : NULL;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(stacks); i++)
		if (!only || strcmp(only, stacks[i].name) == 0)
			nr_done += run(&stacks[i], seed + i, nr_ops / ARRAY_SIZE(stacks) + 1);
	printf("%llu operations, nothing wrong\n", (unsigned long long)nr_done);
	return 0;
}
