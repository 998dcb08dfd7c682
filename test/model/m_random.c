/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random verbs over stacks of stores, against the history of every key: what is acknowledged and
 * neither evicted nor hit by a fault must be found; everything else is found exactly or missed. Up
 * to 48 verbs are under way at a time, one to four shards lie on one to four reactors, all stepped
 * by one thread in an order that the seed decides.
 *
 *     m_random [OPERATIONS [ROW]]     10^6 by default, shared by the rows; PEAL_SEED sets the seed
 */
#include "m_random_int.h"

static const struct m_stack stacks[] = {
	{.name = "mem", .layers = {M_MEM}, .is_sure = true, .is_roomy = true},
	{.name = "fault(late)/mem",
	 .layers = {M_FAULT, M_MEM},
	 .fault = {.delay_1024 = 200, .stale_1024 = 100},
	 .is_sure = true},
	{.name = "fault(all)/mem",
	 .layers = {M_FAULT, M_MEM},
	 .fault = {.fail_1024 = 60, .delay_1024 = 200, .flip_1024 = 60, .stale_1024 = 100},
	 .flips = true,
	 .fails = true},
	{.name = "slice/fault(late)/mem",
	 .layers = {M_SLICE, M_FAULT, M_MEM},
	 .has_slice = true,
	 .fault = {.delay_1024 = 200, .stale_1024 = 100},
	 .is_sure = true},
	{.name = "dram(roomy)",
	 .layers = {M_DRAM},
	 .dram_bytes = 64 << 20,
	 .is_sure = true,
	 .is_roomy = true},
	{.name = "dram", .layers = {M_DRAM}, .dram_bytes = 768 << 10},
	{.name = "dram/mem", .layers = {M_DRAM, M_MEM}, .dram_bytes = 768 << 10, .is_sure = true},
	{.name = "dram/null", .layers = {M_DRAM, M_NULL}, .dram_bytes = 768 << 10},
	{.name = "dram/fault(late)/mem",
	 .layers = {M_DRAM, M_FAULT, M_MEM},
	 .fault = {.delay_1024 = 200, .stale_1024 = 100},
	 .dram_bytes = 768 << 10,
	 .is_sure = true},
	{.name = "dram/slice/fault(late)/mem",
	 .layers = {M_DRAM, M_SLICE, M_FAULT, M_MEM},
	 .has_slice = true,
	 .fault = {.delay_1024 = 200, .stale_1024 = 100},
	 .dram_bytes = 8 << 20,
	 .is_sure = true},
	{.name = "dram/fault(all)/mem",
	 .layers = {M_DRAM, M_FAULT, M_MEM},
	 .fault = {.fail_1024 = 60, .delay_1024 = 200, .flip_1024 = 60, .stale_1024 = 100},
	 .dram_bytes = 768 << 10,
	 .flips = true,
	 .fails = true},
};

#define M_EPOCHS 4 /* each with its own number of shards and reactors */

static void model_init(struct model *m, const struct m_stack *st, uint64_t seed)
{
	unsigned nr_shards;

	m_actors_init(m, st, seed);
	world_init(&m->w, 1 + (unsigned)rng_below(&m->rng, 4), seed);
	nr_shards = 1 + (unsigned)rng_below(&m->rng, 4);
	world_set(&m->w, nr_shards, M_VALUE_MAX);
	m_stack_push(&m->w, nr_shards, st);
}

bool m_is_sure(struct model *m)
{
	return m->st->is_sure;
}

static void check_end(struct model *m)
{
	struct store_door_stats door;
	struct store_stats st;

	store_set_door_stats(m->w.set, &door);
	must(m->st->fails || door.unexpected == 0);
	must(m->st->flips || m->w.nr_alerts == 0);
	must(store_set_stats(m->w.set, 0, &st) == 0);
	must(!m->st->is_roomy || st.evictions == 0);
	must(!m->st->dram_bytes || st.used_bytes <= st.capacity_bytes);
}

static uint64_t run(const struct m_stack *st, uint64_t seed, uint64_t nr_ops)
{
	struct model *m = malloc(sizeof(*m));
	struct store_stats top = {0};
	uint64_t n;

	must(m);
	model_init(m, st, seed);
	while (m->nr_ops < nr_ops)
		m_turn(m, true);
	for (n = 0; !m_is_quiet(m); n++) {
		must(n < 10000000); /* else a verb never ends */
		m_turn(m, false);
	}
	check_end(m);
	store_set_stats(m->w.set, 0, &top);
	printf("  %-26s %u shards on %u: %llu ops, %llu hits, %llu misses, %llu puts, "
	       "%llu stale fills, %llu bad, %llu evictions\n",
	       st->name, store_set_nr_shards(m->w.set), m->w.nr_reactors,
	       (unsigned long long)m->nr_ops, (unsigned long long)m->nr_hits,
	       (unsigned long long)m->nr_misses, (unsigned long long)m->nr_puts,
	       (unsigned long long)m->nr_stale, (unsigned long long)m->nr_bad,
	       (unsigned long long)top.evictions);
	n = m->nr_ops;
	world_fini(&m->w);
	m_actors_fini(m);
	free(m);
	return n;
}

int main(int argc, char **argv)
{
	uint64_t nr_ops = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000000;
	uint64_t seed = unit_seed(20261129), nr_done = 0;
	uint64_t each = nr_ops / (ARRAY_SIZE(stacks) * M_EPOCHS) + 1;
	const char *only = argc > 2 ? argv[2] : NULL;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned e = 0; e < M_EPOCHS; e++)
		for (unsigned i = 0; i < ARRAY_SIZE(stacks); i++)
			if (!only || strcmp(only, stacks[i].name) == 0)
				nr_done += run(&stacks[i], seed + 1000 * e + i, each);
	printf("%llu operations, nothing wrong\n", (unsigned long long)nr_done);
	return 0;
}
