/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dram_back.c: flush, what it promises and what ends it, write-backs that fail, that are late, that
 * are overtaken.
 */
#include "dram_world.h"
#include "puppet.h"
#include "store/store_make.h"

static bool is_below(struct dworld *dw, uint32_t no)
{
	struct world_io wi = {.io = {.op = STORE_EXIST, .key = world_key(no)}};

	wi.io.end = world_io_end;
	store_submit_below(dw->st, &wi.io);
	world_until(&dw->w, &wi.is_over);
	return wi.res == 0;
}

static void t_flush(void **state)
{
	struct dworld dw;

	dworld_init_two(&dw, 4 << 20, NULL);
	for (uint32_t i = 0; i < 100; i++) {
		assert_int_equal(world_put(&dw.w, i, i, 100 + i * 300), 0);
		assert_false(is_below(&dw, i));
	}
	assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), 0);
	for (uint32_t i = 0; i < 100; i++)
		assert_true(is_below(&dw, i));
	assert_true(dram_bits_next(&dw.d->dirty, 0) == DRAM_BITS_END);
	/* The order of eviction is as it was. */
	assert_int_equal(dram_room_evict(dw.d), 0);
	assert_int_equal(dw.d->ix.nr_linked, 99);
	assert_null(dram_index_find(&dw.d->ix, &(struct store_key[]){world_key(0)}[0]));
	world_fini(&dw.w);
}

/* A large value goes a piece per turn; two flushes are answered in turn. */
static void t_large(void **state)
{
	struct world_io wi[2];
	struct dworld dw;

	dworld_init_two(&dw, 32 << 20, NULL);
	assert_int_equal(world_put(&dw.w, 1, 1, (9 << 20) + 5), 0);
	for (int i = 0; i < 2; i++) {
		wi[i] = (struct world_io){.io = {.op = STORE_FLUSH}};
		world_start(&dw.w, 0, &wi[i]);
	}
	for (int i = 0; i < 8; i++)
		world_step(&dw.w);
	assert_false(wi[0].is_over);
	world_until(&dw.w, &wi[1].is_over);
	assert_true(wi[0].is_over);
	assert_int_equal(wi[0].res, 0);
	assert_int_equal(wi[1].res, 0);
	assert_int_equal(dram_room_evict(dw.d), 0);
	assert_int_equal(world_get(&dw.w, 1, 1, (9 << 20) + 5), 0);
	world_fini(&dw.w);
}

/*
 * Nothing can be written below: a flush says so, a put still finds room, and what is lost is a
 * miss.
 */
static void t_failing(void **state)
{
	struct dworld dw;
	uint32_t nr_hits = 0;

	dworld_init(&dw, 1 << 20);
	store_set_push(dw.w.set, 0, store_fault_create(&(struct store_fault_opts){.seed = 1}));
	/* Below the fault there is no store: BUF ends with -ENOENT. */
	for (uint32_t i = 0; i < 20; i++)
		assert_int_equal(world_put(&dw.w, i, i, 10000), 0);
	assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), -ENOSPC);
	for (uint32_t i = 0; i < 20; i++)
		assert_int_equal(world_get(&dw.w, i, i, 10000), 0);
	for (uint32_t i = 20; i < 300; i++)
		assert_int_equal(world_put(&dw.w, i, i, 10000), 0);
	for (uint32_t i = 0; i < 300; i++) {
		int res = world_get(&dw.w, i, i, 10000);

		assert_true(res == 0 || res == -ENOENT);
		nr_hits += res == 0;
	}
	assert_true(nr_hits > 50);
	world_fini(&dw.w);
}

/*
 * A dirty value whose bytes went bad is found when it is written: told, dropped, and no older one
 * comes up instead.
 */
static void t_bad(void **state)
{
	struct store_view v;
	struct dworld dw;

	dworld_init_two(&dw, 4 << 20, NULL);
	assert_int_equal(world_put(&dw.w, 1, 1, 100000), 0);
	assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), 0);
	assert_int_equal(world_put(&dw.w, 1, 2, 100000), 0);
	assert_int_equal(dworld_pin(&dw, 1, &v), 0);
	dworld_flip(&v, 99999);
	dworld_unpin(&dw, &v);
	assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), -ENOSPC);
	assert_int_equal(dw.w.nr_alerts, 1);
	assert_int_equal(world_get(&dw.w, 1, 1, 100000), -ENOENT);
	/* The same when a reader finds it. */
	assert_int_equal(world_put(&dw.w, 1, 3, 100000), 0);
	assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), 0);
	assert_int_equal(world_put(&dw.w, 1, 4, 100000), 0);
	assert_int_equal(dworld_pin(&dw, 1, &v), 0);
	v.is_bad = true;
	dworld_unpin(&dw, &v);
	assert_int_equal(world_get(&dw.w, 1, 3, 100000), -ENOENT);
	/* A clean one is there again, from below. */
	assert_int_equal(world_put(&dw.w, 1, 5, 100000), 0);
	assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), 0);
	assert_int_equal(dworld_pin(&dw, 1, &v), 0);
	v.is_bad = true;
	dworld_unpin(&dw, &v);
	assert_int_equal(world_get(&dw.w, 1, 5, 100000), 0);
	world_fini(&dw.w);
}

/* Put and del while the write-back of the older value is at every possible step. */
static void t_overtaken(void **state)
{
	struct world_io wi;
	struct dworld dw;

	for (uint32_t steps = 0; steps < 12; steps++) {
		for (int is_del = 0; is_del < 2; is_del++) {
			dworld_init_two(&dw, 16 << 20, NULL);
			assert_int_equal(world_put(&dw.w, 1, 1, 5 << 20), 0);
			wi = (struct world_io){.io = {.op = STORE_FLUSH}};
			world_start(&dw.w, 0, &wi);
			for (uint32_t i = 0; i < steps; i++)
				world_step(&dw.w);
			if (is_del)
				assert_int_equal(world_op(&dw.w, STORE_DEL, 1), 0);
			else
				assert_int_equal(world_put(&dw.w, 1, 2, 100), 0);
			world_until(&dw.w, &wi.is_over);
			world_settle(&dw.w);
			assert_int_equal(dw.d->nr_backs, 0);
			assert_int_equal(world_get(&dw.w, 1, 2, 100), is_del ? -ENOENT : 0);
			if (!is_del) {
				assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), 0);
				assert_int_equal(dram_room_evict(dw.d), 0);
				assert_int_equal(world_get(&dw.w, 1, 2, 100), 0);
			} else {
				assert_false(is_below(&dw, 1));
			}
			world_fini(&dw.w);
		}
	}
}

/* The set goes away in the middle of one. */
static void t_ended(void **state)
{
	struct dworld dw;

	for (uint32_t steps = 0; steps < 8; steps++) {
		dworld_init_two(&dw, 16 << 20, NULL);
		assert_int_equal(world_put(&dw.w, 1, 1, 5 << 20), 0);
		assert_int_equal(
			dram_back_start(dw.d,
					dram_index_find(&dw.d->ix,
							&(struct store_key[]){world_key(1)}[0]),
					true),
			0);
		for (uint32_t i = 0; i < steps; i++)
			world_step(&dw.w);
		world_fini(&dw.w);
	}
}

static enum store_op held_op; /* that the puppet keeps; the others go down */

static void play(struct puppet *p, struct store_io *io)
{
	if (io->op == held_op)
		p->held[p->nr_held++] = io;
	else
		store_down(io, NULL);
}

static struct puppet *over_puppet(struct dworld *dw, bool is_immutable)
{
	struct puppet *p = puppet_create(play);

	held_op = STORE_NR_OPS;
	world_init(&dw->w, 1, 1);
	dw->w.is_immutable = is_immutable;
	world_set(&dw->w, 1, 1 << 20);
	assert_int_equal(store_dram_create(&(struct store_dram_opts){.bytes = 4 << 20}, &dw->st),
			 0);
	dw->d = (struct dram *)dw->st;
	store_set_push(dw->w.set, 0, dw->st);
	store_set_push(dw->w.set, 0, &p->st);
	store_set_push(dw->w.set, 0, store_mem_create());
	return p;
}

static void until_held(struct dworld *dw, const struct puppet *p, unsigned nr)
{
	for (unsigned i = 0; p->nr_held < nr; i++) {
		assert_true(i < 10000);
		world_step(&dw->w);
	}
}

/*
 * What a flush counts on is put over while it is being written, before that or behind its buffer:
 * when the flush is over one of the two is below.
 */
static void t_put_over(void **state)
{
	static const enum store_op ops[] = {STORE_BUF, STORE_FILL};

	for (unsigned n = 0; n < 8; n++) {
		struct world_io flush = {.io = {.op = STORE_FLUSH}}, put;
		bool is_immutable = n & 1, is_twice = n & 4;
		struct dworld dw;
		struct puppet *p = over_puppet(&dw, is_immutable);

		assert_int_equal(world_put(&dw.w, 1, 1, 5000), 0);
		held_op = ops[n >> 1 & 1];
		world_start(&dw.w, 0, &flush);
		until_held(&dw, p, 1);
		held_op = STORE_NR_OPS;
		for (unsigned k = 0; k < 1u + is_twice; k++) {
			assert_int_equal(dworld_buf(&dw, &put, 1, is_immutable ? 1 : 2 + k, 5000),
					 0);
			put.io.op = STORE_PUT;
			world_start(&dw.w, 0, &put);
			for (unsigned i = 0; i < 50; i++)
				world_step(&dw.w);
			assert_true(!p->nr_held || !flush.is_over);
			/* A FILL holds the key: the put waits for it. */
			if (p->nr_held && p->held[0]->op == STORE_FILL)
				puppet_down(p, puppet_take(p, 0));
			world_until(&dw.w, &put.is_over);
			assert_int_equal(put.res, 0);
		}
		while (p->nr_held)
			puppet_down(p, puppet_take(p, 0));
		world_until(&dw.w, &flush.is_over);
		assert_int_equal(flush.res, 0);
		/* What is below already dies with the put, as after any flush. */
		assert_true(is_below(&dw, 1) || (!is_immutable && n & 2));
		world_fini(&dw.w);
	}
}

/*
 * Put over all the time, and a flush ends all the same (where values change it may say that it
 * could not keep up); deleted after that it stays so.
 */
static void t_put_always(void **state)
{
	for (unsigned n = 0; n < 4; n++) {
		bool is_immutable = n & 1, is_deleted = n & 2;
		struct world_io flush = {.io = {.op = STORE_FLUSH}};
		struct dworld dw;
		unsigned i = 0;

		over_puppet(&dw, is_immutable);
		assert_int_equal(world_put(&dw.w, 1, 1, 300000), 0);
		world_start(&dw.w, 0, &flush);
		for (; !flush.is_over; i++) {
			assert_true(i < (is_immutable ? 100 : 2000));
			assert_int_equal(world_put(&dw.w, 1, is_immutable ? 1 : 2 + i, 300000), 0);
			world_step(&dw.w);
		}
		if (flush.res)
			assert_true(!is_immutable && flush.res == -EBUSY);
		if (is_deleted) {
			assert_int_equal(world_op(&dw.w, STORE_DEL, 1), 0);
			world_settle(&dw.w);
			assert_false(is_below(&dw, 1));
			assert_int_equal(world_get(&dw.w, 1, 1, 300000), -ENOENT);
		} else if (is_immutable) {
			assert_true(is_below(&dw, 1));
		}
		world_fini(&dw.w);
	}
}

/* Deleted and put again while the first one is being written: what is below then is the second. */
static void t_reborn(void **state)
{
	struct world_io flush = {.io = {.op = STORE_FLUSH}};
	struct dworld dw;
	struct puppet *p = over_puppet(&dw, true);

	assert_int_equal(world_put(&dw.w, 1, 1, 5000), 0);
	held_op = STORE_BUF;
	world_start(&dw.w, 0, &flush);
	until_held(&dw, p, 1);
	held_op = STORE_NR_OPS;
	assert_int_equal(world_op(&dw.w, STORE_DEL, 1), 0);
	assert_int_equal(world_put(&dw.w, 1, 1, 5000), 0);
	puppet_down(p, puppet_take(p, 0));
	world_until(&dw.w, &flush.is_over);
	assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), 0);
	assert_true(is_below(&dw, 1));
	assert_int_equal(world_op(&dw.w, STORE_DEL, 1), 0);
	assert_false(is_below(&dw, 1));
	world_fini(&dw.w);
}

/*
 * A write-back that began before the flush, a victim's or not, isn't worth it, says the tier below:
 * once more, what is here of the key now.
 */
static void not_worth_it(bool is_victim, bool is_over)
{
	struct world_io flush = {.io = {.op = STORE_FLUSH}};
	struct dworld dw;
	struct puppet *p = over_puppet(&dw, true);
	struct store_key key = world_key(1);

	assert_int_equal(world_put(&dw.w, 1, 1, 5000), 0);
	held_op = STORE_BUF;
	assert_int_equal(dram_back_start(dw.d, dram_index_find(&dw.d->ix, &key), is_victim), 0);
	until_held(&dw, p, 1);
	held_op = STORE_NR_OPS;
	world_start(&dw.w, 0, &flush);
	for (unsigned i = 0; i < 50; i++)
		world_step(&dw.w);
	assert_false(flush.is_over);
	if (is_over)
		assert_int_equal(world_put(&dw.w, 1, 1, 5000), 0);
	p->res = -EDQUOT;
	puppet_done(p, puppet_take(p, 0));
	world_until(&dw.w, &flush.is_over);
	assert_int_equal(flush.res, 0);
	assert_true(is_below(&dw, 1));
	world_fini(&dw.w);
}

static void t_not_worth_it(void **state)
{
	for (unsigned n = 0; n < 4; n++)
		not_worth_it(n & 1, n & 2);
}

/*
 * Deleted while it is written, which fails: what is dead is no loss, whatever became of it, also
 * where it was put over before. What is only put over is one.
 */
static void t_dead(void **state)
{
	static const int errors[] = {-ENOSPC, -EIO};

	for (unsigned n = 0; n < 16; n++) {
		struct world_io flush = {.io = {.op = STORE_FLUSH}};
		bool is_immutable = n & 1, is_over = n & 2, is_deleted = n & 4;
		struct dworld dw;
		struct puppet *p = over_puppet(&dw, is_immutable);

		assert_int_equal(world_put(&dw.w, 1, 1, 5000), 0);
		held_op = STORE_BUF;
		world_start(&dw.w, 0, &flush);
		until_held(&dw, p, 1);
		held_op = STORE_NR_OPS;
		if (is_over)
			assert_int_equal(world_put(&dw.w, 1, is_immutable ? 1 : 2, 5000), 0);
		if (is_deleted)
			assert_int_equal(world_op(&dw.w, STORE_DEL, 1), 0);
		p->res = errors[n >> 3];
		puppet_done(p, puppet_take(p, 0));
		world_until(&dw.w, &flush.is_over);
		/* Where values change what is put over leaves its place to what came. */
		assert_int_equal(flush.res, is_deleted || (is_over && !is_immutable) ? 0 : -ENOSPC);
		world_fini(&dw.w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_flush),     cmocka_unit_test(t_large),
		cmocka_unit_test(t_failing),   cmocka_unit_test(t_bad),
		cmocka_unit_test(t_overtaken), cmocka_unit_test(t_ended),
		cmocka_unit_test(t_put_over),  cmocka_unit_test(t_put_always),
		cmocka_unit_test(t_reborn),    cmocka_unit_test(t_not_worth_it),
		cmocka_unit_test(t_dead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
