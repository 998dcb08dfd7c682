/* SPDX-License-Identifier: Apache-2.0 */
/* evict.c: LRU order, exactly, against an array that is searched and shifted. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/rng.h"
#include "policy/evict.h"

#define NR 64u

struct thing {
	uint64_t other;
	struct evict_link link;
};

struct model {
	uint32_t at[NR]; /* oldest first */
	uint32_t nr;
};

static void model_remove(struct model *m, uint32_t i)
{
	for (uint32_t k = 0; k < m->nr; k++) {
		if (m->at[k] != i)
			continue;
		memmove(&m->at[k], &m->at[k + 1], (m->nr - k - 1) * sizeof(m->at[0]));
		m->nr--;
		return;
	}
	fail();
}

static bool model_has(const struct model *m, uint32_t i)
{
	for (uint32_t k = 0; k < m->nr; k++)
		if (m->at[k] == i)
			return true;
	return false;
}

static void step(struct evict *e, struct model *m, struct rng *rng)
{
	uint32_t i = 1 + (uint32_t)rng_below(rng, NR - 1);

	if (!model_has(m, i)) {
		if (rng_chance(rng, 1, 4)) {
			evict_insert_cold(e, i);
			memmove(&m->at[1], &m->at[0], m->nr++ * sizeof(m->at[0]));
			m->at[0] = i;
		} else {
			evict_insert(e, i);
			m->at[m->nr++] = i;
		}
	} else if (rng_chance(rng, 1, 3)) {
		evict_remove(e, i);
		model_remove(m, i);
	} else {
		evict_touch(e, i);
		model_remove(m, i);
		m->at[m->nr++] = i;
	}
}

static void t_order(void **state)
{
	static struct thing things[NR];
	struct model m = {.nr = 0};
	struct evict e;
	struct rng rng;

	rng_init(&rng, unit_seed(1));
	assert_int_equal(evict_init(&e, "lru"), 0);
	evict_set_base(&e, things, sizeof(things[0]), offsetof(struct thing, link));
	for (int i = 0; i < 200000; i++) {
		step(&e, &m, &rng);
		assert_int_equal(e.nr, m.nr);
		assert_int_equal(evict_victim(&e), m.nr ? m.at[0] : 0);
	}
	/* The whole order, by taking all victims. */
	for (uint32_t k = 0, nr = m.nr; k < nr; k++) {
		assert_int_equal(evict_victim(&e), m.at[k]);
		evict_remove(&e, m.at[k]);
	}
	assert_int_equal(evict_victim(&e), 0);
	for (uint32_t i = 0; i < NR; i++)
		assert_int_equal(things[i].other, 0);
}

static void t_names(void **state)
{
	struct evict e = {.nr = 7};

	assert_int_equal(evict_init(&e, "no such policy"), -EINVAL);
	assert_int_equal(e.nr, 7);
	assert_int_equal(evict_init(&e, NULL), 0);
	assert_string_equal(e.ops->name, "lru");
	assert_int_equal(e.nr, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_order),
		cmocka_unit_test(t_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
