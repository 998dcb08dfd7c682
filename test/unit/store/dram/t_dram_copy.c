/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dram_copy.c: chunks between whole and scattered values, in every combination, and a wrong seal.
 */
#include "dram_world.h"

#define LEN 100001u
#define HOLE 12000u

/* A value in one piece, or in pieces that are no larger than a hole. */
static struct dram_entry *make(struct dworld *dw, bool is_scattered)
{
	struct store_key k = world_key(1), h = world_key(9999);
	struct dram_entry *wall[400], *e;
	uint32_t nr = 0;

	while (is_scattered && (wall[nr] = dram_value_create(dw->d, &h, HOLE, false)))
		must(++nr < 400);
	for (uint32_t i = 0; i < nr; i += 2)
		dram_value_destroy(dw->d, wall[i]);
	e = dram_value_create(dw->d, &k, LEN, false);
	assert_non_null(e);
	assert_int_equal(e->ext.nr_more > 0, is_scattered);
	for (uint32_t i = 1; i < nr; i += 2)
		dram_value_destroy(dw->d, wall[i]);
	return e;
}

static void copy_all(bool is_from_scattered, bool is_to_scattered)
{
	struct store_key k = world_key(1);
	struct store_view from, to;
	struct dram_entry *a, *b;
	struct dworld dw;

	dworld_init(&dw, 2 << 20);
	/* No verb has come yet, so the values are nobody's but ours. */
	a = make(&dw, is_from_scattered);
	b = make(&dw, is_to_scattered);
	dram_value_view(dw.d, a, &from);
	dram_value_view(dw.d, b, &to);
	world_fill(&from, &k, 7);
	for (uint64_t c = 0; c < peal_seal_count(LEN); c++)
		assert_int_equal(dram_copy_chunk(dw.d, &from, &to, &k, c), 0);
	assert_true(world_is_gen(&to, &k, 7) && world_seals_fit(&to, &k));
	for (uint64_t c = 0; c < peal_seal_count(LEN); c++) {
		dworld_flip(&from, c * MEM_CHUNK_BYTES + 100);
		assert_int_equal(dram_copy_chunk(dw.d, &from, &to, &k, c), -EILSEQ);
	}
	dram_value_destroy(dw.d, a);
	dram_value_destroy(dw.d, b);
	world_fini(&dw.w);
}

static void t_copy(void **state)
{
	for (int i = 0; i < 4; i++)
		copy_all(i & 1, i & 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_copy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
