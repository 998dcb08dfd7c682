/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_health.c: sums over the shards, the worst of the states, and a word that every tier that
 * listens hears once, on its owner.
 */
#include "world.h"

#include "store/store_health.h"
#include "store/store_make.h"

#define SHARDS 3u

struct sick {
	struct store st;
	uint64_t nr;
	unsigned heard;
	uint64_t arg;
};

static void sick_health(const struct store *s, struct store_health *h)
{
	uint64_t n = ((const struct sick *)s)->nr;

	h->wrote[STORE_WROTE_AGAIN] = n;
	h->refused[STORE_REFUSED_ROOM] = 10 * n;
	h->errors[STORE_ERROR_WRONG] = 100 * n;
	h->nr_segments = 8;
	h->nr_dead = n;
	h->nr_bad = 2 * n;
	h->given_back_bytes = 3 * n;
	h->budget_day_bytes = 4 * n;
	h->state = n == 2 ? TRIP_OFF : TRIP_RW;
}

static void sick_control(struct store *s, struct store_control *c)
{
	struct sick *k = (struct sick *)s;

	k->heard++;
	k->arg = c->arg;
	c->nr += (uint32_t)k->nr;
}

static void sick_destroy(struct store *s)
{
}

static const struct store_ops sick_ops = {
	.name = "sick", .health = sick_health, .control = sick_control, .destroy = sick_destroy};

struct word {
	struct store_control c;
	bool is_over;
};

static void word_done(struct store_control *c)
{
	container_of(c, struct word, c)->is_over = true;
}

static void sums(void **state)
{
	struct sick sick[SHARDS];
	struct store_health h;
	struct word word;
	struct world w;

	world_init(&w, 2, 1);
	world_set(&w, SHARDS, 1 << 20);
	for (unsigned i = 0; i < SHARDS; i++) {
		sick[i] = (struct sick){.st.ops = &sick_ops, .nr = i + 1};
		store_set_push(w.set, i, store_null_create());
		store_set_push(w.set, i, &sick[i].st);
	}
	assert_int_equal(store_health_get(w.set, 0, &h), 0);
	assert_int_equal(h.nr_shards, 0);
	assert_int_equal(store_health_get(w.set, 2, &h), -ENOENT);
	assert_int_equal(store_health_get(w.set, 1, &h), 0);
	assert_int_equal(h.nr_shards, SHARDS);
	assert_int_equal(h.wrote[STORE_WROTE_AGAIN], 6);
	assert_int_equal(h.refused[STORE_REFUSED_ROOM], 60);
	assert_int_equal(h.errors[STORE_ERROR_WRONG], 600);
	assert_int_equal(h.nr_segments, 24);
	assert_int_equal(h.nr_dead, 6);
	assert_int_equal(h.nr_bad, 12);
	assert_int_equal(h.given_back_bytes, 18);
	assert_int_equal(h.budget_day_bytes, 24);
	assert_int_equal(h.state, TRIP_OFF);
	word = (struct word){
		.c = {.set = w.set, .home = w.r[1], .verb = STORE_CONTROL_BAD_CLEAR, .arg = 77}};
	word.c.done = word_done;
	store_health_control(&word.c);
	world_until(&w, &word.is_over);
	assert_int_equal(word.c.res, 0);
	assert_int_equal(word.c.nr, 6);
	for (unsigned i = 0; i < SHARDS; i++) {
		assert_int_equal(sick[i].heard, 1);
		assert_int_equal(sick[i].arg, 77);
	}
	world_fini(&w);
}

static void nobody(void **state)
{
	struct word word = {.c = {.verb = STORE_CONTROL_STATE, .done = word_done}};
	struct world w;

	world_init(&w, 1, 1);
	world_set(&w, 2, 1 << 20);
	for (unsigned i = 0; i < 2; i++)
		store_set_push(w.set, i, store_null_create());
	word.c.set = w.set;
	word.c.home = w.r[0];
	store_health_control(&word.c);
	world_until(&w, &word.is_over);
	assert_int_equal(word.c.res, -EOPNOTSUPP);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(sums), cmocka_unit_test(nobody)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
