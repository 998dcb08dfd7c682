/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dram.c: the tier as a whole. Waste after long use, the cost of a key, what counters say, and
 * random verbs against a model of what may be read, alone and over a tier that fails, delays and
 * lies.
 */
#include "dram_world.h"
#include "store/store_make.h"

#include <inttypes.h>

/* ---- waste ---- */

/* The content is replaced `times` times with values whose bytes nobody writes. */
static void waste(uint64_t bytes, uint64_t len_min, uint64_t len_max, uint32_t times)
{
	struct store_stats st;
	struct world_io wi;
	struct dworld dw;
	struct rng rng;
	uint64_t put = 0, len;
	uint32_t no = 0;

	rng_init(&rng, unit_seed(9));
	dworld_init(&dw, bytes);
	for (; put < bytes * times; put += len) {
		len = len_min + rng_below(&rng, len_max - len_min + 1);
		wi = (struct world_io){.io = {.op = STORE_BUF, .key = world_key(no++), .len = len}};
		assert_int_equal(world_run(&dw.w, 0, &wi), 0);
		dworld_check(&dw);
		wi.io.op = STORE_PUT;
		assert_int_equal(world_run(&dw.w, 0, &wi), 0);
		dworld_check(&dw);
	}
	st = dworld_stats(&dw);
	printf("%" PRIu64 " to %" PRIu64 " bytes: of used %.2f %%, of capacity %.2f %%\n", len_min,
	       len_max, 100.0 * (double)(st.used_bytes - st.value_bytes) / (double)st.used_bytes,
	       100.0 * (double)(st.capacity_bytes - st.value_bytes) / (double)st.capacity_bytes);
	/* Of what is taken, index and side heap included; with mixed sizes even of all there is. */
	assert_true((st.used_bytes - st.value_bytes) * 100 <= st.used_bytes * 12);
	if (len_min < len_max && len_max < bytes / 16)
		assert_true((st.capacity_bytes - st.value_bytes) * 100 <= st.capacity_bytes * 12);
	world_fini(&dw.w);
}

static void t_waste(void **state)
{
	waste(32 << 20, 4096, 262144, 100);
	waste(32 << 20, 4096, 4096, 20);
	waste(32 << 20, 4097, 4097, 20);
	waste(512 << 20, 4096, 32 << 20, 100);
}

/* Below 4 KiB: at most 64 bytes each, and the index. */
static void t_waste_small(void **state)
{
	struct dworld dw;
	struct rng rng;
	uint64_t value = 0, len;

	rng_init(&rng, unit_seed(10));
	dworld_init(&dw, 16 << 20);
	for (uint32_t i = 0; i < 3000; i++) {
		len = 1 + rng_below(&rng, 4095);
		assert_int_equal(world_put(&dw.w, i, 1, len), 0);
		value += len;
	}
	assert_true(dw.d->arena.used_bytes <= value + 3000 * 64);
	assert_int_equal(dram_heap_used_bytes(&dw.d->side), 0);
	world_fini(&dw.w);
}

static void t_index_bytes(void **state)
{
	struct store_dram_opts o = {.bytes = 64 << 20, .max_keys = 100000};
	struct dworld dw;

	dworld_init_opts(&dw, &o, 1);
	for (uint32_t i = 0; i < 25000; i++)
		assert_int_equal(world_put(&dw.w, i, 1, 1), 0);
	assert_true(dworld_stats(&dw).index_bytes <= 25000 * 96);
	for (uint32_t i = 25000; i < 100000; i++)
		assert_int_equal(world_put(&dw.w, i, 1, 1), 0);
	assert_true(dworld_stats(&dw).nr_keys == 100000);
	assert_true(dworld_stats(&dw).index_bytes <= 100000 * 72);
	/* One more: the oldest makes place. */
	assert_int_equal(world_put(&dw.w, 100000, 1, 1), 0);
	assert_true(dworld_stats(&dw).nr_keys == 100000);
	assert_int_equal(world_op(&dw.w, STORE_EXIST, 0), -ENOENT);
	world_fini(&dw.w);
}

/* ---- random verbs ---- */

#define NR_KEYS 48u
#define NR_RUNNING 12u

/* Generations of a key that may be read: from the last acknowledged change on. */
struct model_key {
	uint64_t len[4096];
	uint64_t oldest; /* what was acknowledged last; 0: nothing, a miss */
	uint64_t newest; /* begun last */
	bool is_busy;	 /* a change is under way */
	bool is_deleting;
};

struct running {
	struct world_io wi;
	uint32_t no;
	uint64_t gen;
	uint64_t oldest; /* at the start */
	bool is_used;
	bool is_put; /* BUF, then PUT */
};

struct model {
	struct dworld dw;
	struct model_key key[NR_KEYS];
	struct running run[NR_RUNNING];
	struct rng rng;
	bool is_exact; /* nothing below fails */
	uint64_t nr_hits;
};

/* Which generation this is; must be one that may be read. */
static void check_value(struct model *m, struct running *r)
{
	const struct store_view *v = &r->wi.io.view;
	struct model_key *k = &m->key[r->no];

	if (!world_seals_fit(v, &r->wi.io.key)) {
		r->wi.io.view.is_bad = true;
		return;
	}
	for (uint64_t gen = k->newest; gen && gen >= r->oldest; gen--) {
		if (k->len[gen] == v->value_len && world_is_gen(v, &r->wi.io.key, gen)) {
			m->nr_hits++;
			return;
		}
	}
	fail_msg("key %u: a value older than generation %u", r->no, (unsigned)r->oldest);
}

static void end_put(struct model *m, struct running *r)
{
	struct model_key *k = &m->key[r->no];

	if (r->is_put && !r->wi.res) {
		world_fill(&r->wi.io.view, &r->wi.io.key, r->gen);
		r->is_put = false;
		r->wi.io.op = STORE_PUT;
		world_start(&m->dw.w, 0, &r->wi);
		return;
	}
	k->is_busy = false;
	if (!r->wi.res)
		k->oldest = r->gen;
	r->is_used = false;
}

static void end_one(struct model *m, struct running *r)
{
	struct model_key *k = &m->key[r->no];

	switch (r->wi.io.op) {
	case STORE_GET:
		if (!r->wi.res) {
			check_value(m, r);
			dworld_unpin(&m->dw, &r->wi.io.view);
		}
		r->is_used = false;
		break;
	case STORE_DEL:
		k->is_busy = false;
		/* After a del that is acknowledged no generation may be read. */
		if (!r->wi.res || r->wi.res == -ENOENT)
			k->oldest = k->newest + 1;
		r->is_used = false;
		break;
	case STORE_FLUSH:
		r->is_used = false;
		break;
	default:
		end_put(m, r);
	}
}

static void start_one(struct model *m, struct running *r)
{
	uint64_t what = rng_below(&m->rng, 100);
	struct model_key *k;

	r->no = (uint32_t)rng_below(&m->rng, NR_KEYS);
	k = &m->key[r->no];
	r->oldest = k->oldest;
	r->is_put = false;
	r->wi = (struct world_io){.io = {.key = world_key(r->no), .len = UINT32_MAX}};
	r->is_used = true;
	if (what < 50 || k->is_busy || k->newest + 2 >= ARRAY_SIZE(k->len)) {
		r->wi.io.op = STORE_GET;
	} else if (what < 90) {
		r->wi.io.op = STORE_BUF;
		r->wi.io.len = rng_below(&m->rng, rng_chance(&m->rng, 1, 4) ? 200000 : 9000);
		r->gen = ++k->newest;
		k->len[r->gen] = r->wi.io.len;
		r->is_put = true;
		k->is_busy = true;
	} else if (what < 98) {
		r->wi.io.op = STORE_DEL;
		k->is_busy = true;
	} else {
		r->wi.io.op = STORE_FLUSH;
	}
	world_start(&m->dw.w, 0, &r->wi);
}

static bool model_step(struct model *m, bool is_starting)
{
	bool is_any = false;

	for (struct running *r = m->run; r < m->run + NR_RUNNING; r++) {
		if (!r->is_used && is_starting && rng_chance(&m->rng, 1, 4))
			start_one(m, r);
		while (r->is_used && r->wi.is_over)
			end_one(m, r);
		is_any |= r->is_used;
	}
	world_step(&m->dw.w);
	dworld_check(&m->dw);
	return is_any;
}

static void model_end(struct model *m)
{
	struct running *r = &m->run[0];
	uint32_t nr_hits = 0;

	for (uint32_t i = 0; model_step(m, false); i++)
		assert_true(i < WORLD_STEPS_MAX);
	for (uint32_t no = 0; no < NR_KEYS; no++) {
		struct model_key *k = &m->key[no];

		*r = (struct running){.no = no, .oldest = k->oldest};
		r->wi = (struct world_io){
			.io = {.op = STORE_GET, .key = world_key(no), .len = UINT32_MAX}};
		world_run(&m->dw.w, 0, &r->wi);
		nr_hits += r->wi.res == 0;
		if (m->is_exact)
			assert_int_equal(r->wi.res,
					 k->oldest && k->oldest <= k->newest ? 0 : -ENOENT);
		end_one(m, r);
	}
	assert_true(nr_hits > 0 && m->nr_hits > 1000);
	assert_int_equal(m->dw.d->nr_pinned, m->dw.d->nr_backs + m->dw.d->nr_rising);
	world_fini(&m->dw.w);
}

static void model_run(struct model *m, uint64_t seed, uint32_t steps)
{
	rng_init(&m->rng, seed);
	for (uint32_t i = 0; i < steps; i++)
		model_step(m, true);
	model_end(m);
	free(m);
}

static struct model *model_make(void)
{
	struct model *m = calloc(1, sizeof(*m));

	assert_non_null(m);
	return m;
}

static void t_random_alone(void **state)
{
	struct model *m = model_make();

	dworld_init(&m->dw, 1 << 20);
	model_run(m, unit_seed(20), 20000);
}

/* Every acknowledged value is found again, though dram holds a part of them. */
static void t_random_two(void **state)
{
	struct model *m = model_make();

	dworld_init_two(&m->dw, 1 << 20, NULL);
	m->is_exact = true;
	model_run(m, unit_seed(21), 20000);
}

static void t_random_late(void **state)
{
	struct store_fault_opts late = {.seed = 1, .delay_1024 = 300, .stale_1024 = 300};
	struct model *m = model_make();

	dworld_init_two(&m->dw, 1 << 20, &late);
	m->is_exact = true;
	model_run(m, unit_seed(22), 20000);
}

static void t_random_faulty(void **state)
{
	struct store_fault_opts all = {
		.seed = 1, .fail_1024 = 50, .delay_1024 = 200, .flip_1024 = 50, .stale_1024 = 100};
	struct model *m = model_make();

	dworld_init_two(&m->dw, 1 << 20, &all);
	model_run(m, unit_seed(23), 20000);
}

/* dram over dram: the lower one is a tier between. */
static void t_random_three(void **state)
{
	struct store_fault_opts late = {.seed = 1, .delay_1024 = 200, .stale_1024 = 200};
	struct store_dram_opts o = {.bytes = 2 << 20};
	struct model *m = model_make();
	struct store *lower;

	dworld_init(&m->dw, 1 << 20);
	assert_int_equal(store_dram_create(&o, &lower), 0);
	store_set_push(m->dw.w.set, 0, store_fault_create(&late));
	store_set_push(m->dw.w.set, 0, lower);
	store_set_push(m->dw.w.set, 0, store_mem_create());
	m->is_exact = true;
	model_run(m, unit_seed(24), 20000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_waste),	   cmocka_unit_test(t_waste_small),
		cmocka_unit_test(t_index_bytes),   cmocka_unit_test(t_random_alone),
		cmocka_unit_test(t_random_two),	   cmocka_unit_test(t_random_late),
		cmocka_unit_test(t_random_faulty), cmocka_unit_test(t_random_three),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
