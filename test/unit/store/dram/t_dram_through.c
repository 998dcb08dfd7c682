/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dram_through.c: a put that is acknowledged below is told and seen when the tier below has it, and
 * not before; one that fails there is told and seen nowhere. A set that writes through has nothing
 * dirty once it has come to rest, and what could not be written waits for a flush.
 */
#include "dram_world.h"
#include "puppet.h"
#include "store/store_make.h"

#define LEN 5000u

static enum store_op held_op; /* that the puppet keeps; the others go down */
static int refused;	      /* what it says to each BUF instead; 0: nothing */

static void play(struct puppet *p, struct store_io *io)
{
	if (io->op == STORE_BUF && refused)
		store_done(io, refused);
	else if (io->op == held_op)
		p->held[p->nr_held++] = io;
	else
		store_down(io, NULL);
}

static struct puppet *world_of(struct dworld *dw, const struct store_dram_opts *o)
{
	struct puppet *p = puppet_create(play);

	held_op = STORE_NR_OPS;
	refused = 0;
	dworld_init_opts(dw, o, 1);
	store_set_push(dw->w.set, 0, &p->st);
	store_set_push(dw->w.set, 0, store_mem_create());
	return p;
}

static struct puppet *acked(struct dworld *dw)
{
	return world_of(dw, &(struct store_dram_opts){
				    .bytes = 4 << 20, .is_through = true, .is_acked_below = true});
}

static bool is_clean(const struct dworld *dw)
{
	return dram_bits_next(&dw->d->dirty, 0) == DRAM_BITS_END;
}

static void told_when_below(void **state)
{
	struct dworld dw;
	struct puppet *p = acked(&dw);
	struct world_io wi;

	assert_int_equal(dworld_buf(&dw, &wi, 1, 1, LEN), 0);
	held_op = STORE_FILL;
	wi.io.op = STORE_PUT;
	world_start(&dw.w, 0, &wi);
	while (!p->nr_held)
		world_step(&dw.w);
	for (int i = 0; i < 100; i++)
		world_step(&dw.w);
	assert_false(wi.is_over);
	assert_int_equal(world_get(&dw.w, 1, 1, LEN), -ENOENT);
	puppet_down(p, puppet_take(p, 0));
	world_until(&dw.w, &wi.is_over);
	assert_int_equal(wi.res, 0);
	assert_true(is_clean(&dw));
	assert_int_equal(world_get(&dw.w, 1, 1, LEN), 0);
	/* Memory lets go of it: it is below. */
	assert_int_equal(dram_room_evict(dw.d), 0);
	assert_int_equal(world_get(&dw.w, 1, 1, LEN), 0);
	world_fini(&dw.w);
}

static void fails_below(void **state)
{
	struct dworld dw;
	struct puppet *p = acked(&dw);

	refused = -ENOSPC;
	assert_int_equal(world_put(&dw.w, 1, 1, LEN), -ENOSPC);
	assert_int_equal(world_get(&dw.w, 1, 1, LEN), -ENOENT);
	refused = 0;
	assert_int_equal(world_put(&dw.w, 1, 2, LEN), 0);
	refused = -EIO;
	assert_true(world_put(&dw.w, 1, 3, LEN) < 0);
	refused = 0;
	/* What was there before, and never the one that failed. */
	assert_int_equal(world_get(&dw.w, 1, 2, LEN), 0);
	assert_int_equal(world_put(&dw.w, 1, 4, LEN), 0);
	assert_int_equal(world_get(&dw.w, 1, 4, LEN), 0);
	assert_true(is_clean(&dw));
	assert_int_equal(p->nr_held, 0);
	world_fini(&dw.w);
}

/* More at once than there are places for. */
static void many(void **state)
{
	struct dworld dw;
	struct puppet *p = acked(&dw);
	struct world_io wi[3 * DRAM_BACKS];

	for (uint32_t i = 0; i < ARRAY_SIZE(wi); i++)
		assert_int_equal(dworld_buf(&dw, &wi[i], i, i, LEN), 0);
	held_op = STORE_FILL;
	for (uint32_t i = 0; i < ARRAY_SIZE(wi); i++) {
		wi[i].io.op = STORE_PUT;
		world_start(&dw.w, 0, &wi[i]);
	}
	for (uint32_t nr = 0; nr < ARRAY_SIZE(wi); nr++) {
		while (!p->nr_held)
			world_step(&dw.w);
		puppet_down(p, puppet_take(p, 0));
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(wi); i++) {
		world_until(&dw.w, &wi[i].is_over);
		assert_int_equal(wi[i].res, 0);
		assert_int_equal(world_get(&dw.w, i, i, LEN), 0);
	}
	assert_int_equal(dw.d->nr_throughs, 0);
	world_fini(&dw.w);
}

static void settle(struct dworld *dw)
{
	for (int i = 0; i < 3000; i++)
		world_step(&dw->w);
}

static void sweep(void **state)
{
	struct dworld dw;
	struct puppet *p =
		world_of(&dw, &(struct store_dram_opts){.bytes = 4 << 20, .is_through = true});

	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(world_put(&dw.w, i, i, LEN), 0);
	settle(&dw);
	assert_true(is_clean(&dw));
	assert_int_equal(p->nr_seen[STORE_FILL], 100);
	/* What can't be written stays dirty, and isn't tried for ever. */
	refused = -ENOSPC;
	assert_int_equal(world_put(&dw.w, 1, 200, LEN), 0);
	settle(&dw);
	assert_false(is_clean(&dw));
	assert_int_equal(p->nr_seen[STORE_BUF], 101);
	assert_int_equal(world_get(&dw.w, 1, 200, LEN), 0);
	assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), -ENOSPC);
	refused = 0;
	assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), 0);
	assert_true(is_clean(&dw));
	world_fini(&dw.w);
}

/* What the tier below doesn't think worth keeping has not failed. */
static void not_worth_it(void **state)
{
	struct dworld dw;

	world_of(&dw, &(struct store_dram_opts){.bytes = 4 << 20});
	assert_int_equal(world_put(&dw.w, 1, 1, LEN), 0);
	refused = -EDQUOT;
	assert_int_equal(world_op(&dw.w, STORE_FLUSH, 0), 0);
	assert_int_equal(world_get(&dw.w, 1, 1, LEN), 0);
	for (uint32_t i = 2; i < 2000; i++)
		assert_int_equal(world_put(&dw.w, i, i, LEN), 0);
	assert_int_equal(dworld_stats(&dw).lost, 0);
	world_fini(&dw.w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(told_when_below),
		cmocka_unit_test(fails_below),
		cmocka_unit_test(many),
		cmocka_unit_test(sweep),
		cmocka_unit_test(not_worth_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
