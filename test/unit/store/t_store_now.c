/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_now.c: which shards are answered at once and which keys have to be asked for; that the
 * answers of a shard's own keys come back to their places.
 */
#include "puppet.h"

/* Knows the keys of even number of bytes; those that end in an odd byte lie deeper. */
static uint64_t look(struct store *s, const struct store_key *const *keys, unsigned nr,
		     uint64_t *ask)
{
	uint64_t here = 0;

	*ask = 0;
	puppet_of(s)->nr_seen[STORE_EXIST] += nr;
	for (unsigned i = 0; i < nr; i++) {
		assert_int_equal(store_shard_of(keys[i]->hash, store_set_nr_shards(s->set)),
				 s->shard);
		if (keys[i]->len % 2 == 0)
			here |= 1ull << i;
		else if (keys[i]->b[0] % 2)
			*ask |= 1ull << i;
	}
	return here;
}

static int now(struct store *s, const struct store_key *key, unsigned flags,
	       struct store_view *view)
{
	return key->len % 2 ? -ENOENT : 0;
}

static struct store_ops ops;

static void make(struct world *w, unsigned nr_shards)
{
	struct puppet *p;

	ops = puppet_ops;
	ops.look = look;
	ops.now = now;
	world_init(w, 3, 1);
	world_set(w, nr_shards, 1 << 20);
	for (unsigned i = 0; i < nr_shards; i++) {
		p = puppet_create(puppet_done);
		p->st.ops = &ops;
		store_set_push(w->set, i, &p->st);
	}
	/* A shard opens with its first verb. */
	for (uint32_t i = 0; i < 64; i++)
		assert_int_equal(world_op(w, STORE_DEL, i), 0);
}

/* Shard i belongs to reactor i modulo 3. */
static void look_of(unsigned nr_shards)
{
	struct store_key key[STORE_LOOK_MAX];
	const struct store_key *ptr[STORE_LOOK_MAX];
	struct store_door_stats st;
	uint64_t here, ask, nr_told = 0;
	struct world w;

	make(&w, nr_shards);
	for (uint32_t i = 0; i < STORE_LOOK_MAX; i++) {
		key[i] = world_key(i);
		ptr[i] = &key[i];
	}
	for (unsigned r = 0; r < 3; r++) {
		for (unsigned nr = 0; nr <= STORE_LOOK_MAX; nr++) {
			here = store_look(w.set, w.r[r], ptr, nr, &ask);
			for (uint32_t i = 0; i < nr; i++) {
				bool is_own = store_shard_of(key[i].hash, nr_shards) % 3 == r;
				bool is_even = key[i].len % 2 == 0;

				assert_int_equal(here >> i & 1, is_own && is_even);
				assert_int_equal(ask >> i & 1,
						 !is_own || (!is_even && key[i].b[0] % 2));
			}
			if (nr < 64)
				assert_int_equal((here | ask) >> nr, 0);
			nr_told += nr - (unsigned)__builtin_popcountll(ask);
		}
	}
	store_set_door_stats(w.set, &st);
	assert_int_equal(st.ops[STORE_EXIST], nr_told);
	world_fini(&w);
}

static void t_look(void **state)
{
	look_of(3);
}

static void t_look_several(void **state)
{
	look_of(7);
	look_of(STORE_SHARDS_MAX);
}

/* A reactor that owns no shard of this set asks for everything. */
static void t_no_shard(void **state)
{
	struct store_key key = world_key(1);
	const struct store_key *ptr = &key;
	struct store_view v;
	struct world w;
	uint64_t ask;

	make(&w, 2);
	assert_int_equal(store_look(w.set, w.r[2], &ptr, 1, &ask), 0);
	assert_int_equal(ask, 1);
	assert_int_equal(store_now(w.set, w.r[2], &key, 0, &v), -EAGAIN);
	world_fini(&w);
}

static void t_now(void **state)
{
	struct store_view v;
	struct world w;

	make(&w, 5);
	for (uint32_t i = 0; i < 50; i++) {
		struct store_key key = world_key(i);

		for (unsigned r = 0; r < 3; r++)
			assert_int_equal(store_now(w.set, w.r[r], &key, 0, &v),
					 store_shard_of(key.hash, 5) % 3 != r ? -EAGAIN
					 : key.len % 2			      ? -ENOENT
									      : 0);
	}
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_look),
		cmocka_unit_test(t_look_several),
		cmocka_unit_test(t_no_shard),
		cmocka_unit_test(t_now),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
