/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.c: the way of a verb through the door and the stack, the closed set of results, shards on
 * other reactors, views and what is left when things fail.
 */
#include "puppet.h"
#include "store/store_make.h"

static struct puppet *one(struct world *w, puppet_fn *play)
{
	struct puppet *p = puppet_create(play);

	world_init(w, 1, 1);
	world_set(w, 1, 1 << 20);
	store_set_push(w->set, 0, &p->st);
	return p;
}

static void give_view(struct puppet *p, struct store_io *io)
{
	io->view.st = &p->st;
	io->view.tier = p->st.tier;
	store_done(io, 0);
}

static void t_closed_set(void **state)
{
	static const int odd[] = {-EIO, -ENOMEM, -EINVAL, -ENODEV, 1, -4096};
	static const int told[STORE_NR_OPS] = {
		[STORE_BUF] = -ENOSPC,	 [STORE_PUT] = -ENOSPC,	  [STORE_GET] = -ENOENT,
		[STORE_FILL] = -ENOSPC,	 [STORE_INVAL] = -ENOSPC, [STORE_DEL] = -ENOSPC,
		[STORE_EXIST] = -ENOENT, [STORE_MATCH] = 0,	  [STORE_LIST] = -EBUSY,
		[STORE_FLUSH] = -ENOSPC,
	};
	struct world w;
	struct puppet *p = one(&w, puppet_done);
	struct store_key key = world_key(1);
	struct store_door_stats st;
	uint8_t found;
	unsigned nr = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(odd); i++) {
		for (unsigned op = 0; op < STORE_NR_OPS; op++, nr++) {
			struct world_io wi = {.io = {.op = (uint8_t)op, .key = key}};

			p->res = odd[i];
			wi.io.view.st = &p->st;
			if (op == STORE_MATCH)
				wi.io.match = (struct store_match){
					.keys = &key, .found = &found, .nr = 1};
			assert_int_equal(world_run(&w, 0, &wi), told[op]);
		}
	}
	assert_int_equal(p->nr_released, 2 * ARRAY_SIZE(odd)); /* what PUT and FILL brought */
	store_set_door_stats(w.set, &st);
	assert_int_equal(st.unexpected, nr);
	assert_int_equal(st.busy, 0);
	for (unsigned op = 0; op < STORE_NR_OPS; op++)
		assert_int_equal(st.ops[op], ARRAY_SIZE(odd));
	world_fini(&w);
}

static void t_known_results(void **state)
{
	static const struct {
		enum store_op op;
		int res;
	} known[] = {
		{STORE_BUF, -EEXIST},	{STORE_BUF, -ENOENT},	{STORE_BUF, -EFBIG},
		{STORE_BUF, -EBUSY},	{STORE_PUT, -EEXIST},	{STORE_PUT, -ENOSPC},
		{STORE_GET, -ESTALE},	{STORE_GET, -EBUSY},	{STORE_FILL, -ESTALE},
		{STORE_DEL, -ENOENT},	{STORE_DEL, -ENOSPC},	{STORE_EXIST, -ENOENT},
		{STORE_INVAL, -ESTALE}, {STORE_FLUSH, -ENOSPC}, {STORE_LIST, -EBUSY},
	};
	struct world w;
	struct puppet *p = one(&w, puppet_done);
	struct store_door_stats st;

	for (unsigned i = 0; i < ARRAY_SIZE(known); i++) {
		struct world_io wi = {.io = {.op = (uint8_t)known[i].op, .key = world_key(1)}};

		p->res = known[i].res;
		wi.io.view.st = &p->st;
		assert_int_equal(world_run(&w, 0, &wi), known[i].res);
	}
	store_set_door_stats(w.set, &st);
	assert_int_equal(st.unexpected, 0);
	world_fini(&w);
}

/* ---- frames ---------------------------------------------------------------------------------- */

struct trace {
	char text[64];
};

static void trace_add(struct puppet *p, char c)
{
	struct trace *t = p->arg;
	size_t n = strlen(t->text);

	must(n + 1 < sizeof(t->text));
	t->text[n] = c;
}

static void top_up(struct store_io *io, int res)
{
	struct puppet *p = puppet_of(io->at);
	uint64_t *scratch = store_scratch(io);

	assert_int_equal(io->op, STORE_PUT);
	assert_int_equal(scratch[0], 0xa0);
	assert_int_equal(scratch[STORE_FRAME_WORDS - 1], 0xa1);
	trace_add(p, 'A');
	store_done(io, res);
}

static void top_play(struct puppet *p, struct store_io *io)
{
	uint64_t *scratch = store_scratch(io);

	trace_add(p, 'a');
	scratch[0] = 0xa0;
	scratch[STORE_FRAME_WORDS - 1] = 0xa1;
	store_down_as(io, STORE_INVAL, top_up);
}

static void mid_up2(struct store_io *io, int res)
{
	trace_add(puppet_of(io->at), 'C');
	assert_int_equal(io->op, STORE_INVAL);
	assert_int_equal(*(uint64_t *)store_scratch(io), 0xb0);
	store_done(io, -ENOSPC);
}

static void mid_up(struct store_io *io, int res)
{
	trace_add(puppet_of(io->at), 'B');
	assert_int_equal(res, 0);
	assert_int_equal(io->op, STORE_INVAL);
	store_down_as(io, STORE_EXIST, mid_up2);
}

static void mid_play(struct puppet *p, struct store_io *io)
{
	trace_add(p, 'b');
	assert_int_equal(io->op, STORE_INVAL);
	*(uint64_t *)store_scratch(io) = 0xb0;
	store_down(io, mid_up);
}

static void low_play(struct puppet *p, struct store_io *io)
{
	trace_add(p, io->op == STORE_INVAL ? 'i' : 'e');
	memset(store_scratch(io), 0xff, STORE_FRAME_WORDS * 8);
	store_done(io, 0);
}

static void t_frames(void **state)
{
	struct world w;
	struct trace t = {""};
	struct puppet *top = one(&w, top_play), *mid = puppet_create(mid_play),
		      *low = puppet_create(low_play);
	struct world_io wi = {.io = {.op = STORE_PUT, .key = world_key(1)}};

	store_set_push(w.set, 0, &mid->st);
	store_set_push(w.set, 0, &low->st);
	assert_int_equal(low->st.tier, 2);
	top->arg = mid->arg = low->arg = &t;
	wi.io.view.st = &top->st;
	assert_int_equal(world_run(&w, 0, &wi), -ENOSPC);
	assert_string_equal(t.text, "abiBeCA");
	assert_int_equal(top->nr_released, 1);
	assert_null(wi.io.view.st);
	world_fini(&w);
}

/* NULL in an ops table asks below; below the bottom there is a fixed answer. */
static void t_null_verbs(void **state)
{
	static const int want[STORE_NR_OPS] = {
		[STORE_BUF] = -ENOENT,	[STORE_PUT] = -ENOENT, [STORE_GET] = -ENOENT,
		[STORE_FILL] = -ENOENT, [STORE_DEL] = -ENOENT, [STORE_EXIST] = -ENOENT,
	};
	struct store_ops none = puppet_ops, some = puppet_ops;
	struct world w;
	struct puppet *a = one(&w, NULL), *b = puppet_create(puppet_down), *c = puppet_create(NULL);
	struct world_io wi = {.io = {.key = world_key(1)}};

	memset(none.verb, 0, sizeof(none.verb));
	some.verb[STORE_GET] = NULL;
	a->st.ops = &none;
	b->st.ops = &some;
	c->st.ops = &none;
	store_set_push(w.set, 0, &b->st);
	store_set_push(w.set, 0, &c->st);
	for (unsigned op = 0; op < STORE_NR_OPS; op++) {
		if (op == STORE_MATCH)
			wi.io.match = (struct store_match){0};
		wi.io.op = (uint8_t)op;
		wi.io.view.st = &b->st;
		assert_int_equal(world_run(&w, 0, &wi), want[op]);
	}
	assert_int_equal(b->nr_seen[STORE_GET], 0);
	assert_int_equal(b->nr_seen[STORE_DEL], 1);
	assert_int_equal(b->nr_released, 2);
	world_fini(&w);
}

/* A look that mustn't wait passes by what isn't memory; a mutation never does. */
static void t_mem_only(void **state)
{
	struct store_ops memory = puppet_ops;
	struct world w;
	struct puppet *slow = one(&w, NULL), *fast = puppet_create(puppet_done);
	struct world_io wi = {
		.io = {.op = STORE_GET, .flags = STORE_MEM_ONLY, .key = world_key(1)}};

	memory.is_memory = true;
	fast->st.ops = &memory;
	store_set_push(w.set, 0, &fast->st);
	assert_int_equal(world_run(&w, 0, &wi), 0);
	wi.io.op = STORE_EXIST;
	assert_int_equal(world_run(&w, 0, &wi), 0);
	assert_int_equal(slow->nr_held, 0);
	wi.io.op = STORE_DEL;
	world_start(&w, 0, &wi);
	assert_int_equal(slow->nr_held, 1);
	store_done(puppet_take(slow, 0), 0);
	world_fini(&w);
}

/* A tier that has its keys in memory makes no MATCH wait. */
static void t_mem_only_match(void **state)
{
	struct store_ops indexed = puppet_ops;
	struct store_key keys[1] = {world_key(1)};
	struct world w;
	struct puppet *slow = one(&w, NULL);
	uint8_t found[1];
	struct world_io wi = {.io = {.op = STORE_MATCH,
				     .flags = STORE_MEM_ONLY,
				     .match = {.keys = keys, .found = found, .nr = 1}}};

	assert_int_equal(world_run(&w, 0, &wi), 0);
	assert_int_equal(slow->nr_seen[STORE_MATCH], 0);
	indexed.has_index = true;
	slow->st.ops = &indexed;
	world_start(&w, 0, &wi);
	assert_int_equal(slow->nr_seen[STORE_MATCH], 1);
	store_done(puppet_take(slow, 0), 0);
	world_until(&w, &wi.is_over);
	world_fini(&w);
}

/* ---- a tier's own ---------------------------------------------------------------------------- */

static void t_inner(void **state)
{
	struct world w;
	struct puppet *top = one(&w, NULL), *low = puppet_create(puppet_done);
	struct world_io put = {.io = {.op = STORE_PUT, .key = world_key(1)}};
	struct world_io fill = {.io = {.op = STORE_FILL, .key = world_key(1), .end = world_io_end}};
	struct world_io get = {.io = {.op = STORE_GET, .key = world_key(1), .end = world_io_end}};
	struct store_door_stats st;

	store_set_push(w.set, 0, &low->st);
	put.io.view.st = &top->st;
	world_start(&w, 0, &put);
	assert_int_equal(top->nr_held, 1);
	/* A read below doesn't wait, a fill of the same key does. */
	low->res = -EIO;
	store_submit_below(&top->st, &get.io);
	assert_true(get.is_over);
	assert_int_equal(get.res, -EIO);
	fill.io.view.st = &low->st;
	low->res = 0;
	store_submit_below(&top->st, &fill.io);
	world_settle(&w);
	assert_false(fill.is_over);
	store_set_door_stats(w.set, &st);
	assert_int_equal(st.waits, 1);
	assert_int_equal(st.busy, 2);
	store_done(puppet_take(top, 0), 0);
	assert_true(put.is_over);
	world_settle(&w);
	assert_true(fill.is_over);
	assert_int_equal(low->nr_released, 1);
	/* To itself, and below the bottom. */
	fill.is_over = get.is_over = false;
	fill.io.view.st = &low->st;
	store_submit_at(&low->st, &fill.io);
	assert_true(fill.is_over);
	store_submit_below(&low->st, &get.io);
	assert_int_equal(get.res, -ENOENT);
	store_set_door_stats(w.set, &st);
	assert_int_equal(st.busy, 0);
	assert_int_equal(st.unexpected, 0);
	assert_int_equal(st.ops[STORE_FILL], 0);
	world_fini(&w);
}

/* ---- shards ---------------------------------------------------------------------------------- */

#define NR_SHARDS 4

static void many(struct world *w, struct puppet **p, puppet_fn *play, unsigned nr_reactors)
{
	world_init(w, nr_reactors, unit_seed(7));
	world_set(w, NR_SHARDS, 1 << 20);
	for (unsigned i = 0; i < NR_SHARDS; i++) {
		p[i] = puppet_create(play);
		store_set_push(w->set, i, &p[i]->st);
	}
}

static void on_owner(struct puppet *p, struct store_io *io)
{
	assert_int_equal(store_shard_of(io->key.hash, NR_SHARDS), p->st.shard);
	assert_true(reactor_is_current(p->st.owner) || p->st.owner == io->home);
	store_done(io, p->res);
}

static void t_routing(void **state)
{
	struct world w;
	struct puppet *p[NR_SHARDS];
	unsigned nr = 0;

	many(&w, p, on_owner, 4);
	for (uint32_t i = 0; i < 400; i++) {
		struct world_io wi = {.io = {.op = STORE_EXIST, .key = world_key(i)}};

		assert_int_equal(world_run(&w, i % 4, &wi), 0);
	}
	for (unsigned i = 0; i < NR_SHARDS; i++) {
		assert_true(p[i]->nr_seen[STORE_EXIST] > 50);
		nr += p[i]->nr_seen[STORE_EXIST];
	}
	assert_int_equal(nr, 400);
	world_fini(&w);
}

static void match_play(struct puppet *p, struct store_io *io)
{
	for (uint32_t i = 0; i < io->match.nr; i++)
		if (store_match_wants(io, i))
			io->match.found[i] = (uint8_t)(STORE_LOWER + p->st.shard % 2);
	store_done(io, p->res);
}

static void t_match_shards(void **state)
{
	struct world w;
	struct puppet *p[NR_SHARDS];
	struct store_key keys[64];
	uint8_t found[64];
	struct world_io wi = {.io = {.op = STORE_MATCH}};

	many(&w, p, match_play, 3);
	for (uint32_t i = 0; i < 64; i++)
		keys[i] = world_key(i);
	for (unsigned home = 0; home < 3; home++) {
		memset(found, 0xee, sizeof(found));
		wi.io.match = (struct store_match){.keys = keys, .found = found, .nr = 64};
		assert_int_equal(world_run(&w, home, &wi), 0);
		for (unsigned i = 0; i < 64; i++)
			assert_int_equal(found[i],
					 STORE_LOWER + store_shard_of(keys[i].hash, NR_SHARDS) % 2);
	}
	/* Only the shards of its keys are asked; none for none. */
	wi.io.match.nr = 1;
	assert_int_equal(world_run(&w, 0, &wi), 0);
	wi.io.match.nr = 0;
	assert_int_equal(world_run(&w, 0, &wi), 0);
	for (unsigned i = 0; i < NR_SHARDS; i++)
		assert_int_equal(p[i]->nr_seen[STORE_MATCH],
				 3 + (store_shard_of(keys[0].hash, NR_SHARDS) == i));
	/* A shard that fails has nothing; the others are still asked. */
	p[1]->res = -EIO;
	p[1]->play = puppet_done;
	wi.io.match.nr = 64;
	assert_int_equal(world_run(&w, 1, &wi), 0);
	for (unsigned i = 0; i < 64; i++)
		if (store_shard_of(keys[i].hash, NR_SHARDS) == 1)
			assert_int_equal(found[i], STORE_ABSENT);
		else
			assert_int_not_equal(found[i], STORE_ABSENT);
	world_fini(&w);
}

static void t_flush_shards(void **state)
{
	struct world w;
	struct puppet *p[NR_SHARDS];
	struct world_io wi = {.io = {.op = STORE_FLUSH}};

	many(&w, p, puppet_done, 2);
	assert_int_equal(world_run(&w, 1, &wi), 0);
	p[2]->res = -EIO;
	assert_int_equal(world_run(&w, 0, &wi), -ENOSPC);
	for (unsigned i = 0; i < NR_SHARDS; i++)
		assert_int_equal(p[i]->nr_seen[STORE_FLUSH], 2);
	world_fini(&w);
}

static void list_play(struct puppet *p, struct store_io *io)
{
	struct store_key k;

	for (uint32_t i = 0; i < 40; i++) {
		k = world_key(i);
		if (store_shard_of(k.hash, NR_SHARDS) == p->st.shard &&
		    store_list_wants(&io->list, &k))
			store_list_add(&io->list, &k);
	}
	store_done(io, p->res);
}

static void t_list_shards(void **state)
{
	struct world w;
	struct puppet *p[NR_SHARDS];
	struct store_key keys[41];
	struct world_io wi = {.io = {.op = STORE_LIST}};
	struct store_list *l = &wi.io.list;

	many(&w, p, list_play, 3);
	for (uint32_t max = 0; max <= 41; max++) {
		*l = (struct store_list){.keys = keys, .max = max};
		assert_int_equal(world_run(&w, max % 3, &wi), 0);
		assert_int_equal(l->nr, max < 40 ? max : 40);
		assert_int_equal(l->more, max < 40);
		assert_ptr_equal(l->keys, keys);
		assert_int_equal(l->max, max);
		for (uint32_t i = 1; i < l->nr; i++)
			assert_true(store_key_cmp(&keys[i - 1], &keys[i]) < 0);
	}
	/* From a hash on, and no shard before it is asked. */
	for (unsigned i = 0; i < NR_SHARDS; i++)
		p[i]->nr_seen[STORE_LIST] = 0;
	*l = (struct store_list){.keys = keys, .max = 41, .after.hash = 3ull << 62};
	assert_int_equal(world_run(&w, 0, &wi), 0);
	assert_int_equal(p[2]->nr_seen[STORE_LIST], 0);
	assert_int_equal(p[3]->nr_seen[STORE_LIST], 1);
	for (uint32_t i = 0; i < l->nr; i++)
		assert_true(keys[i].hash >= 3ull << 62);
	/* A page that isn't whole says so. */
	p[1]->res = -EIO;
	*l = (struct store_list){.keys = keys, .max = 41};
	assert_int_equal(world_run(&w, 0, &wi), -EBUSY);
	assert_ptr_equal(l->keys, keys);
	assert_int_equal(l->max, 41);
	world_fini(&w);
}

/* ---- views ----------------------------------------------------------------------------------- */

static bool is_back;

static void came_back(struct store_view *v)
{
	assert_null(v->st);
	is_back = true;
}

static void t_release(void **state)
{
	struct world w;
	struct puppet *p[NR_SHARDS];
	struct world_io wi = {.io = {.op = STORE_GET}};
	struct store_view v = {0};
	unsigned shard;

	many(&w, p, give_view, 4);
	for (uint32_t i = 0; i < 40; i++) {
		wi.io.key = world_key(i);
		shard = store_shard_of(wi.io.key.hash, NR_SHARDS);
		assert_int_equal(world_run(&w, 1, &wi), 0);
		is_back = false;
		store_release(&wi.io.view, w.r[1], came_back);
		assert_int_equal(is_back, shard == 1);
		world_until(&w, &is_back);
		assert_int_equal(--p[shard]->nr_released, 0);
	}
	is_back = false;
	store_release(&v, w.r[0], came_back);
	assert_true(is_back);
	store_release(&v, w.r[0], NULL);
	world_fini(&w);
}

static void t_prefetch(void **state)
{
	struct world w;
	struct puppet *p[NR_SHARDS];
	struct store_key k;

	many(&w, p, give_view, 4);
	for (uint32_t i = 0; i < 40; i++) {
		k = world_key(i);
		store_prefetch(w.set, w.r[2], &k, 0);
	}
	assert_true(p[2]->nr_prefetched > 0);
	assert_int_equal(p[0]->nr_prefetched + p[1]->nr_prefetched + p[3]->nr_prefetched, 0);
	world_fini(&w);
}

static void t_iter(void **state)
{
	struct world w;
	struct world_io wi = {.io = {.op = STORE_GET, .key = world_key(1), .len = 1}};
	struct store_view_iter vi;
	struct mem_run run;
	uint64_t pos, max;
	uint8_t *is, *should = malloc(300001);

	world_init(&w, 1, unit_seed(5));
	world_set(&w, 1, 1 << 20);
	store_set_push(w.set, 0, store_mem_create());
	assert_int_equal(world_put(&w, 1, 1, 300001), 0);
	assert_int_equal(world_run(&w, 0, &wi), 0);
	assert_int_equal(store_meta(&wi.io.view)->cls, 0);
	for (uint64_t off = 0; off < 300001; off += 65536) {
		store_view_iter_init(&vi, &wi.io.view, off);
		for (pos = off; pos < 300001; pos += run.len) {
			max = 1 + rng_below(&w.rng, 90000);
			assert_int_equal(vi.it.next(&vi.it, max, &run), 0);
			assert_true(run.len > 0 && run.len <= max);
			is = world_run_ptr(&run);
			world_bytes(&wi.io.key, 1, pos, should, run.len);
			assert_memory_equal(is, should, run.len);
		}
		assert_int_equal(pos, 300001);
		assert_int_equal(vi.it.next(&vi.it, 1, &run), -ENODATA);
	}
	assert_int_equal(store_runs(&wi.io.view, 300001, &run, 1), 0);
	store_release(&wi.io.view, w.r[0], NULL);
	free(should);
	world_fini(&w);
}

/* The buffer fails, or the put does, at every point: no view is left anywhere (mem_destroy() counts
 * them). */
static void t_nothing_leaks(void **state)
{
	for (unsigned point = 0; point < 4; point++) {
		struct world w;
		struct puppet *p = one(&w, puppet_down);
		struct world_io wi = {.io = {.op = STORE_BUF, .key = world_key(1), .len = 100}};

		store_set_push(w.set, 0, store_mem_create());
		p->res = point == 3 ? -EBUSY : -ENOSPC;
		if (point == 0)
			p->play = puppet_done;
		assert_int_equal(world_run(&w, 0, &wi), point == 0 ? -ENOSPC : 0);
		if (point == 1)
			store_release(&wi.io.view, w.r[0], NULL);
		wi.io.op = STORE_PUT;
		p->play = puppet_done;
		if (point >= 2)
			assert_int_equal(world_run(&w, 0, &wi), p->res);
		assert_null(wi.io.view.st);
		world_fini(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_closed_set),	    cmocka_unit_test(t_known_results),
		cmocka_unit_test(t_frames),	    cmocka_unit_test(t_null_verbs),
		cmocka_unit_test(t_inner),	    cmocka_unit_test(t_routing),
		cmocka_unit_test(t_match_shards),   cmocka_unit_test(t_flush_shards),
		cmocka_unit_test(t_list_shards),    cmocka_unit_test(t_release),
		cmocka_unit_test(t_prefetch),	    cmocka_unit_test(t_iter),
		cmocka_unit_test(t_nothing_leaks),  cmocka_unit_test(t_mem_only),
		cmocka_unit_test(t_mem_only_match),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
