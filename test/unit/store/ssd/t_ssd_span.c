/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssd_span.c, ssd_span_verb.c: several devices are one tier. Values are where they were placed and
 * are found; what is asked of all is asked of all; one that is added takes its share.
 */
#include "span_rig.h"

/* ---- placed and found ------------------------------------------------------------------------ */

static void spread(void **state)
{
	struct rig *g = rig_new(3, true);
	struct store_stats sum;
	uint64_t keys = 0;

	put_all(g);
	below(g);
	assert_int_equal(nr_there(g), NR);
	assert_int_equal(store_set_stats(g->w.set, 1, &sum), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_true(part(g, i).st.nr_keys > NR / 6);
		assert_int_equal(part(g, i).state, STORE_PART_IN);
		keys += part(g, i).st.nr_keys;
	}
	assert_int_equal(keys, NR);
	assert_int_equal(sum.nr_keys, NR);
	assert_true(sum.capacity_bytes > 3 * DISK_BYTES / 2);
	assert_null(store_set_tier_name(g->w.set, 2)); /* one tier */
	again(g);
	assert_int_equal(nr_there(g), NR);
	rig_old(g);
}

/* What belongs together lies together. */
static void groups(void **state)
{
	struct store_meta m = {.group_len = 4};
	struct rig *g = rig_new(3, true);
	unsigned nr_used[3] = {0};

	for (uint32_t grp = 0; grp < 12; grp++) {
		struct ssd_span_dev *d, *first = NULL;

		memcpy(m.group, &grp, 4);
		for (uint32_t i = 0; i < 8; i++) {
			struct store_key k = world_key(grp * 8 + i);
			struct world_io wi = {
				.io = {.op = STORE_BUF, .key = k, .len = 900, .meta = &m}};

			assert_int_equal(world_run(&g->w, 0, &wi), 0);
			world_fill(&wi.io.view, &k, 1);
			wi.io.op = STORE_PUT;
			assert_int_equal(world_run(&g->w, 0, &wi), 0);
		}
		below(g);
		for (uint32_t i = 0; i < 8; i++) {
			struct store_key k = world_key(grp * 8 + i);

			d = ssd_span_verb_find(span(g), &k, 0);
			assert_non_null(d);
			first = first ? first : d;
			assert_ptr_equal(d, first);
		}
		nr_used[first - span(g)->dev]++;
	}
	for (unsigned i = 0; i < 3; i++)
		assert_true(nr_used[i] > 0);
	rig_old(g);
}

/* Look-ups ask all: a page of List has each key once, in order; MATCH and EXIST know them. */
static void looks(void **state)
{
	struct rig *g = rig_new(3, true);
	struct store_key keys[NR];
	struct world_io wi = {.io = {.op = STORE_LIST, .list = {.keys = keys, .max = NR}}};
	uint8_t found[NR];

	put_all(g);
	below(g);
	assert_int_equal(world_run(&g->w, 0, &wi), 0);
	assert_int_equal(wi.io.list.nr, NR);
	for (uint32_t i = 1; i < NR; i++)
		assert_true(store_key_cmp(&keys[i - 1], &keys[i]) < 0);
	wi = (struct world_io){
		.io = {.op = STORE_MATCH, .match = {.keys = keys, .nr = NR, .found = found}}};
	assert_int_equal(world_run(&g->w, 0, &wi), 0);
	for (uint32_t i = 0; i < NR; i++) {
		assert_true(found[i] == STORE_LOWER || found[i] == STORE_MEMORY);
		assert_int_equal(world_op(&g->w, STORE_EXIST, i), 0);
	}
	for (uint32_t i = 0; i < NR; i += 2) {
		assert_int_equal(del(g, i), 0);
		assert_int_equal(del(g, i), -ENOENT);
	}
	assert_int_equal(nr_there(g), NR / 2);
	crash(g, FAKE_CRASH_LOSE);
	for (uint32_t i = 0; i < NR; i += 2)
		assert_false(has(g, i));
	rig_old(g);
}

/* ---- added ----------------------------------------------------------------------------------- */

static void added(void **state)
{
	for (unsigned is_immutable = 0; is_immutable < 2; is_immutable++) {
		struct rig *g = rig_new(1, is_immutable);

		for (uint32_t i = 0; i < NR / 2; i++)
			assert_int_equal(put(g, i), 0);
		end(g);
		g->nr = 2;
		begin_well(g);
		assert_int_equal(nr_there(g), NR / 2);
		assert_int_equal(part(g, 1).st.nr_keys, 0);
		for (uint32_t i = NR / 2; i < NR; i++)
			assert_int_equal(put(g, i), 0);
		below(g);
		assert_true(part(g, 1).st.nr_keys > NR / 6);
		assert_int_equal(nr_there(g), NR);
		end(g);
		g->nr = 3;
		begin_well(g);
		assert_int_equal(nr_there(g), NR);
		rig_old(g);
	}
}

/*
 * Memory gives all of them one row of versions: a life's have to be above those that an earlier one
 * has left on any, so a file that was made later, or opened less often, isn't behind.
 */
static void generations(void **state)
{
	struct rig *g = rig_new(1, false);
	uint64_t last = 0;

	for (unsigned i = 0; i < 6; i++)
		again(g);
	for (g->nr = 2; g->nr <= 3; g->nr++) {
		for (unsigned i = 0; i < 2; i++) {
			again(g);
			for (unsigned d = 1; d < g->nr; d++)
				assert_int_equal(span(g)->dev[d].s->super.generation,
						 span(g)->dev[0].s->super.generation);
			assert_true(span(g)->dev[0].s->super.generation > last);
			last = span(g)->dev[0].s->super.generation;
			put_all(g);
		}
	}
	assert_true(last > 10);
	rig_old(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spread),      cmocka_unit_test(groups), cmocka_unit_test(looks),
		cmocka_unit_test(generations), cmocka_unit_test(added),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
