/* SPDX-License-Identifier: Apache-2.0 */
/* store_where.c: every tier that has a key, from the top down, asked from any reactor. */
#include "slice.h"
#include "store/store_make.h"

static void done(struct store_where *w, int res)
{
	struct world_wait *wait = (struct world_wait *)(w + 1);

	world_done(wait, res);
}

struct ask {
	struct store_where w;
	struct world_wait wait;
};

static int where(struct world *w, struct ask *a, unsigned home, uint32_t no)
{
	*a = (struct ask){
		.w = {.set = w->set, .home = w->r[home], .key = world_key(no), .done = done}};
	store_where_start(&a->w);
	world_until(w, &a->wait.is_over);
	return a->wait.res;
}

static void t_tiers(void **state)
{
	struct world w;
	struct ask *a = malloc(sizeof(*a));
	struct store *below[2];

	world_init(&w, 2, unit_seed(3));
	world_set(&w, 2, 1 << 20);
	for (unsigned i = 0; i < 2; i++) {
		store_set_push(w.set, i, store_mem_create());
		below[i] = store_mem_create();
		store_set_push(w.set, i, below[i]);
	}
	/* Nobody has asked anything yet: the shards open by this. */
	for (unsigned home = 0; home < 2; home++)
		for (uint32_t no = 0; no < 8; no++)
			assert_int_equal(where(&w, a, home, no), -ENOENT);
	for (uint32_t no = 0; no < 8; no++)
		assert_int_equal(world_put(&w, no, 1, 1000 + no), 0);
	for (uint32_t no = 0; no < 8; no++) {
		assert_int_equal(where(&w, a, no % 2, no), 0);
		assert_true(a->w.nr >= 1);
		assert_string_equal(a->w.found[0].name, "mem");
		assert_int_equal(a->w.found[0].tier, 0);
		assert_int_equal(a->w.found[0].value_len, 1000 + no);
		assert_int_equal(a->w.found[0].meta.cls, 0);
	}
	assert_string_equal(store_set_tier_name(w.set, 1), "mem");
	assert_null(store_set_tier_name(w.set, 2));
	world_fini(&w);
	free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_tiers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
