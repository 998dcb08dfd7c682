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

static const struct {
	unsigned weight;
	void (*start)(struct actor *a);
	bool is_mutation;
} acts[] = {
	{28, m_put_start, true},    {6, m_del_start, true},    {3, m_inval_start, true},
	{3, m_fill_start, false},   {28, m_get_start, false},  {8, m_read_start, false},
	{12, m_exist_start, false}, {4, m_match_start, false}, {4, m_list_start, false},
	{1, m_flush_start, false},  {10, m_now_start, false},
};

unsigned m_no(const struct model *m, struct history *h)
{
	return (unsigned)(h - m->h);
}

/* Some keys are hot, so that verbs meet. */
struct history *m_pick(struct model *m)
{
	if (rng_chance(&m->rng, 1, 3))
		return &m->h[rng_below(&m->rng, 8)];
	return &m->h[rng_below(&m->rng, M_KEYS)];
}

struct history *m_history_of(struct model *m, const struct store_key *key)
{
	uint32_t no;

	memcpy(&no, key->b, 4);
	must(no < M_KEYS && store_key_equal(&m->h[no].key, key));
	return &m->h[no];
}

_Noreturn void m_wrong(const struct actor *a, const char *what, int res)
{
	printf("%s: %s: res %d, key %u, home %u, began %llu, now %llu, view ver %llu len %u "
	       "tier %u\n",
	       a->m->st->name, what, res, m_no(a->m, a->h), a->home, (unsigned long long)a->begin,
	       (unsigned long long)a->m->now, (unsigned long long)a->io.view.ver,
	       a->io.view.value_len, a->io.view.tier);
	history_print(a->h, a->begin);
	fflush(stdout);
	abort();
}

void m_submit(struct actor *a, enum store_op op, store_end_fn *end)
{
	a->state = ACT_BUSY;
	a->io.op = (uint8_t)op;
	a->io.end = end;
	if (op != STORE_PUT && op != STORE_FILL)
		a->io.meta = NULL;
	store_submit(a->m->w.set, a->m->w.r[a->home], &a->io);
}

static uint64_t oldest_begin(const struct model *m)
{
	uint64_t t = m->now;

	for (unsigned i = 0; i < M_ACTORS; i++)
		if (m->actors[i].state != ACT_IDLE && m->actors[i].begin < t)
			t = m->actors[i].begin;
	return t;
}

void m_idle(struct actor *a)
{
	struct model *m = a->m;

	if (a->is_locked)
		m->nr_locks[m_no(m, a->h)]--;
	if (a->is_mutator)
		m->nr_mutators[m_no(m, a->h)]--;
	a->is_locked = a->is_mutator = false;
	a->state = ACT_IDLE;
	m->nr_ops++;
	if (a->h->muts.nr > 16)
		history_prune(a->h, oldest_begin(m));
}

static void act(struct actor *a)
{
	struct model *m = a->m;
	unsigned sum = 0, i = 0, r;

	for (unsigned k = 0; k < ARRAY_SIZE(acts); k++)
		sum += acts[k].weight;
	for (r = (unsigned)rng_below(&m->rng, sum); r >= acts[i].weight; i++)
		r -= acts[i].weight;
	a->h = m_pick(m);
	a->home = (unsigned)rng_below(&m->rng, m->w.nr_reactors);
	a->io.key = a->h->key;
	a->begin = m->now;
	if (acts[i].is_mutation && m->nr_locks[m_no(m, a->h)])
		return;
	a->state = ACT_BUSY;
	a->is_mutator = acts[i].is_mutation;
	if (a->is_mutator)
		m->nr_mutators[m_no(m, a->h)]++;
	acts[i].start(a);
}

static void turn(struct model *m, bool may_start)
{
	struct actor *a = &m->actors[rng_below(&m->rng, M_ACTORS)];

	if (a->state == ACT_HOLDING)
		m_held_turn(a);
	else if (a->state == ACT_IDLE && may_start)
		act(a);
	else
		m->nr_waiting++;
	if (rng_chance(&m->rng, 1, 2))
		world_step(&m->w);
}

static bool is_quiet(const struct model *m)
{
	for (unsigned i = 0; i < M_ACTORS; i++)
		if (m->actors[i].state != ACT_IDLE)
			return false;
	return true;
}

static int cmp_key(const void *a, const void *b)
{
	return store_key_cmp(a, b);
}

static void model_init(struct model *m, const struct m_stack *st, uint64_t seed)
{
	unsigned nr_shards;
	struct mut none = {.kind = MUT_DEL, .state = MUT_ACKED};

	memset(m, 0, sizeof(*m));
	m->st = st;
	m->now = 1;
	m->next_id = 1;
	rng_init(&m->rng, seed);
	world_init(&m->w, 1 + (unsigned)rng_below(&m->rng, 4), seed);
	nr_shards = 1 + (unsigned)rng_below(&m->rng, 4);
	world_set(&m->w, nr_shards, M_VALUE_MAX);
	m_stack_push(&m->w, nr_shards, st);
	for (uint32_t i = 0; i < M_KEYS; i++) {
		m->h[i].key = m->sorted[i] = world_key(i);
		must(vec_push(&m->h[i].muts, none));
	}
	qsort(m->sorted, M_KEYS, sizeof(m->sorted[0]), cmp_key);
	for (unsigned i = 0; i < M_ACTORS; i++) {
		m->actors[i].m = m;
		m->actors[i].h = &m->h[0];
	}
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
		turn(m, true);
	for (n = 0; !is_quiet(m); n++) {
		must(n < 10000000); /* else a verb never ends */
		turn(m, false);
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
	for (unsigned i = 0; i < M_KEYS; i++)
		vec_fini(&m->h[i].muts);
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
