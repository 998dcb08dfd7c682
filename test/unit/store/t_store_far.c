/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_far.c: look-ups on another reactor's shard. What is asked in one turn travels together,
 * every end() runs once, pins are let go with the last of their batch, a bad one is told before
 * its command is over, batches are bounded, and a set isn't destroyed before the last is home.
 */
#include "puppet.h"

#define KEYS 400
#define CHUNK MEM_CHUNK_BYTES

/* A shard whose answers at once are made up: key i is there unless i % 5 is 0 or 1. */
struct shelf {
	struct puppet p;
	struct store_ops ops;
	uint64_t seal[KEYS];
	unsigned pins[KEYS];
	unsigned nr_pins, nr_bad, nr_use;
	struct mem_region *reg;
	uint8_t bytes[KEYS];
};

struct ask {
	struct store_far far;
	uint32_t no;
	unsigned nr_ends, nr_dropped;
	int res;
	bool is_slow;
};

struct far_world {
	struct world w;
	struct shelf *shelf[4];
	struct ask ask[KEYS];
	unsigned nr_ends;
};

static uint32_t key_no(const struct store_key *key)
{
	uint32_t no;

	memcpy(&no, key->b, 4);
	return no;
}

static int shelf_res(uint32_t no)
{
	return no % 5 == 0 ? -ENOENT : no % 5 == 1 ? -EAGAIN : 0;
}

static int shelf_now(struct store *s, const struct store_key *key, unsigned flags,
		     struct store_view *v)
{
	struct shelf *sh = (struct shelf *)s;
	uint32_t no = key_no(key);

	assert_true(no < KEYS);
	if (shelf_res(no))
		return shelf_res(no);
	sh->pins[no]++;
	sh->nr_pins++;
	*v = (struct store_view){
		.st = s,
		.pin = &sh->seal[no],
		.len = 1 + no % 3 * CHUNK,
		.value_len = 1 + no % 3 * CHUNK,
		.ver = 1000 + no,
		.is_use = no % 2,
	};
	return 0;
}

static unsigned shelf_runs(const struct store_view *v, uint64_t off, struct mem_run *runs,
			   unsigned nr)
{
	struct shelf *sh = (struct shelf *)v->st;

	must(off == 0 && nr == 1);
	*runs = (struct mem_run){sh->reg, (uint64_t)((uint64_t *)v->pin - sh->seal), 1};
	return 1;
}

static uint64_t *shelf_seals(const struct store_view *v)
{
	return v->pin;
}

static void shelf_release(struct store *s, struct store_view *v)
{
	struct shelf *sh = (struct shelf *)s;
	size_t no = (size_t)((uint64_t *)v->pin - sh->seal);

	must(no < KEYS && sh->pins[no] > 0 && v->ver == 1000 + no);
	must(v->value_len == 1 + no % 3 * CHUNK && v->len == v->value_len);
	sh->pins[no]--;
	sh->nr_pins--;
	sh->nr_bad += v->is_bad;
	sh->nr_use += v->is_use;
}

static void shelf_destroy(struct store *s)
{
	struct shelf *sh = (struct shelf *)s;

	must(sh->nr_pins == 0);
	mem_region_put(sh->reg);
	free(sh);
}

static struct shelf *shelf_create(void)
{
	struct shelf *sh = calloc(1, sizeof(*sh));

	must(sh);
	sh->ops = puppet_ops;
	sh->ops.now = shelf_now;
	sh->ops.runs = shelf_runs;
	sh->ops.seals = shelf_seals;
	sh->ops.release = shelf_release;
	sh->ops.destroy = shelf_destroy;
	sh->p.st.ops = &sh->ops;
	sh->p.play = puppet_done;
	for (unsigned i = 0; i < KEYS; i++) {
		sh->seal[i] = i * 77;
		sh->bytes[i] = (uint8_t)i;
	}
	sh->reg = mem_host_wrap(sh->bytes, sizeof(sh->bytes), MEM_READABLE);
	must(sh->reg);
	return sh;
}

static void far_init(struct far_world *f, unsigned nr_reactors, unsigned nr_shards)
{
	memset(f, 0, sizeof(*f));
	world_init(&f->w, nr_reactors, unit_seed(7));
	world_set(&f->w, nr_shards, 1u << 20);
	for (unsigned i = 0; i < nr_shards; i++) {
		f->shelf[i] = shelf_create();
		store_set_push(f->w.set, i, &f->shelf[i]->p.st);
	}
}

/* The first verb opens a shard. */
static void far_open_all(struct far_world *f)
{
	for (uint32_t i = 0; i < 64; i++)
		world_op(&f->w, STORE_EXIST, i);
}

static unsigned far_pins(const struct far_world *f)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(f->shelf) && f->shelf[i]; i++)
		n += f->shelf[i]->nr_pins;
	return n;
}

static struct far_world *far_of(struct ask *a)
{
	return container_of(a - a->no, struct far_world, ask[0]);
}

static void ask_end(struct store_far *far, int res)
{
	struct ask *a = container_of(far, struct ask, far);
	const struct store_view *v = &far->view;

	assert_int_equal(a->nr_ends++, 0);
	far_of(a)->nr_ends++;
	a->res = res;
	if (res)
		return;
	assert_int_equal(v->ver, 1000 + a->no);
	assert_int_equal(v->value_len, 1 + a->no % 3 * CHUNK);
	assert_int_equal(v->len, v->value_len);
	assert_int_equal(far->run.len, 1);
	assert_int_equal(*(uint8_t *)mem_own_ptr(&far->run), (uint8_t)a->no);
	assert_int_equal(far->seals[0], a->no * 77);
	if (!a->is_slow)
		store_far_put(far);
}

static bool ask_start(struct far_world *f, unsigned home, uint32_t no)
{
	struct store_key key = world_key(no);
	struct ask *a = &f->ask[no];

	a->no = no;
	a->nr_ends = 0;
	a->far.end = ask_end;
	return store_far_get(f->w.set, f->w.r[home], &key, &a->far);
}

static bool is_far(const struct far_world *f, unsigned home, uint32_t no)
{
	unsigned nr = store_set_nr_shards(f->w.set);

	return store_shard_of(world_key(no).hash, nr) % f->w.nr_reactors != home;
}

static uint64_t mails(const struct far_world *f, unsigned i)
{
	return counter_get(&reactor_stats(f->w.r[i])->mails);
}

/* All keys from every reactor: who owns them says no, the others answer as the shelf does. */
static void t_answers(void **state)
{
	struct far_world *f = malloc(sizeof(*f));
	unsigned nr;

	for (unsigned nr_reactors = 2; nr_reactors <= 4; nr_reactors++) {
		far_init(f, nr_reactors, 4);
		far_open_all(f);
		for (unsigned home = 0; home < nr_reactors; home++) {
			nr = 0;
			f->nr_ends = 0;
			for (uint32_t i = 0; i < KEYS; i++) {
				assert_int_equal(ask_start(f, home, i), is_far(f, home, i));
				nr += is_far(f, home, i);
				if (rng_chance(&f->w.rng, 1, 8))
					world_step(&f->w);
			}
			world_settle(&f->w);
			assert_int_equal(f->nr_ends, nr);
			assert_int_equal(far_pins(f), 0);
			for (uint32_t i = 0; i < KEYS; i++)
				if (is_far(f, home, i))
					assert_int_equal(f->ask[i].res, shelf_res(i));
		}
		world_fini(&f->w);
	}
	free(f);
}

/* What is asked for in one turn is one message for 32, and one more to let go. */
static void t_batch(void **state)
{
	struct far_world *f = malloc(sizeof(*f));
	unsigned nr = 0, nr_use = 0;
	uint64_t before;

	far_init(f, 2, 2);
	far_open_all(f);
	world_settle(&f->w);
	before = mails(f, 0);
	for (uint32_t i = 0; nr < 64; i++) {
		if (shelf_res(i) || !is_far(f, 1, i))
			continue;
		assert_true(ask_start(f, 1, i));
		nr_use += i % 2;
		nr++;
	}
	assert_int_equal(f->nr_ends, 0);
	world_settle(&f->w);
	assert_int_equal(f->nr_ends, 64);
	assert_int_equal(mails(f, 0) - before, 4);
	assert_int_equal(f->shelf[0]->nr_use, nr_use);
	/* Of misses nothing is to be let go. */
	before = mails(f, 0);
	nr = 0;
	for (uint32_t i = 0; i < KEYS; i++) {
		if (!shelf_res(i) || !is_far(f, 1, i))
			continue;
		assert_true(ask_start(f, 1, i));
		nr++;
	}
	world_settle(&f->w);
	assert_int_equal(mails(f, 0) - before, div_round_up(nr, 32));
	world_fini(&f->w);
	free(f);
}

static uint32_t far_hit(const struct far_world *f, uint32_t no)
{
	while (shelf_res(no) || !is_far(f, 1, no))
		no++;
	return no;
}

/* The batch's pins go with its last value; one that takes long has a batch of its own. */
static void t_last(void **state)
{
	struct far_world *f = malloc(sizeof(*f));
	uint32_t a, b, c;

	far_init(f, 2, 2);
	far_open_all(f);
	a = far_hit(f, 0);
	b = far_hit(f, a + 1);
	c = far_hit(f, b + 1);
	for (int is_long = 0; is_long < 2; is_long++) {
		f->nr_ends = 0;
		f->ask[a].is_slow = true;
		f->ask[a].far.is_long = is_long;
		assert_true(ask_start(f, 1, b));
		assert_true(ask_start(f, 1, a));
		assert_true(ask_start(f, 1, c));
		world_settle(&f->w);
		assert_int_equal(f->nr_ends, 3);
		assert_int_equal(far_pins(f), is_long ? 1 : 3);
		store_far_put(&f->ask[a].far);
		world_settle(&f->w);
		assert_int_equal(far_pins(f), 0);
	}
	world_fini(&f->w);
	free(f);
}

static void ask_dropped(struct store_far *far)
{
	struct ask *a = container_of(far, struct ask, far);

	assert_int_equal(far_of(a)->shelf[0]->nr_bad, 1);
	a->nr_dropped++;
}

/* Its owner knows of the bad one when dropped() runs; the one beside it is over at once. */
static void t_bad(void **state)
{
	struct far_world *f = malloc(sizeof(*f));
	uint32_t a, b;

	far_init(f, 2, 2);
	far_open_all(f);
	a = far_hit(f, 0);
	b = far_hit(f, a + 1);
	f->ask[a].is_slow = true;
	assert_true(ask_start(f, 1, a));
	assert_true(ask_start(f, 1, b));
	world_settle(&f->w);
	assert_int_equal(f->nr_ends, 2);
	store_far_drop(&f->ask[a].far, ask_dropped);
	assert_int_equal(f->ask[a].nr_dropped, 0);
	world_settle(&f->w);
	assert_int_equal(f->ask[a].nr_dropped, 1);
	assert_int_equal(f->shelf[0]->nr_bad, 1);
	assert_int_equal(far_pins(f), 0);
	world_fini(&f->w);
	free(f);
}

/* Batches are bounded; who gets none is told so, and gets one when one has come home. */
static void t_bound(void **state)
{
	struct far_world *f = malloc(sizeof(*f));
	uint32_t first = 0, no = 0, nr = 0;

	far_init(f, 2, 2);
	far_open_all(f);
	for (uint32_t i = 0; i < KEYS; i++)
		f->ask[i].is_slow = f->ask[i].far.is_long = true;
	for (no = far_hit(f, 0); ask_start(f, 1, no); no = far_hit(f, no + 1)) {
		first = nr++ ? first : no;
		assert_true(nr < 100);
	}
	assert_int_equal(nr, 64);
	world_settle(&f->w);
	assert_int_equal(f->nr_ends, nr);
	assert_false(ask_start(f, 1, no));
	store_far_put(&f->ask[first].far);
	world_settle(&f->w);
	assert_true(ask_start(f, 1, no));
	assert_false(ask_start(f, 1, first));
	world_settle(&f->w);
	for (uint32_t i = 0; i < KEYS; i++)
		if (f->ask[i].far.view.st)
			store_far_put(&f->ask[i].far);
	world_settle(&f->w);
	assert_int_equal(far_pins(f), 0);
	world_fini(&f->w);
	free(f);
}

/* A shard that nothing has opened yet, and an owner of all shards: the verb is the way. */
static void t_no(void **state)
{
	struct far_world *f = malloc(sizeof(*f));
	uint32_t no;

	far_init(f, 2, 2);
	no = far_hit(f, 0);
	assert_true(ask_start(f, 1, no));
	world_settle(&f->w);
	assert_int_equal(f->ask[no].res, -EAGAIN);
	world_fini(&f->w);
	far_init(f, 2, 1);
	far_open_all(f);
	for (uint32_t i = 0; i < KEYS; i++)
		assert_false(ask_start(f, 0, i));
	world_fini(&f->w);
	free(f);
}

/* Who owns no shard asks in batches, too. */
static void t_no_owner(void **state)
{
	struct far_world *f = malloc(sizeof(*f));
	uint32_t no;

	far_init(f, 2, 1);
	far_open_all(f);
	no = far_hit(f, 0);
	f->ask[no].is_slow = true;
	assert_true(ask_start(f, 1, no));
	world_settle(&f->w);
	assert_int_equal(f->nr_ends, 1);
	assert_non_null(f->ask[no].far.view.st);
	store_far_put(&f->ask[no].far);
	world_settle(&f->w);
	assert_int_equal(far_pins(f), 0);
	world_fini(&f->w);
	free(f);
}

static void t_destroy_waits(void **state)
{
	struct far_world *f = malloc(sizeof(*f));
	struct world_wait wait = {0};
	uint32_t no;

	far_init(f, 2, 2);
	far_open_all(f);
	no = far_hit(f, 0);
	f->ask[no].is_slow = true;
	assert_true(ask_start(f, 1, no));
	world_settle(&f->w);
	store_set_destroy(f->w.set, f->w.r[0], world_done, &wait);
	world_settle(&f->w);
	assert_false(wait.is_over);
	store_far_put(&f->ask[no].far);
	world_until(&f->w, &wait.is_over);
	f->w.set = NULL;
	world_fini(&f->w);
	free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_answers),  cmocka_unit_test(t_batch),
		cmocka_unit_test(t_last),     cmocka_unit_test(t_bad),
		cmocka_unit_test(t_bound),    cmocka_unit_test(t_no),
		cmocka_unit_test(t_no_owner), cmocka_unit_test(t_destroy_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
