/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssd_ahead.c, dram_ahead.c, store_ahead.c: neighbours in the log. Conversations that take turns,
 * each reading all that it has and adding to it: what is brought before it is asked for is mostly
 * asked for. And what must not be named: others' values, dead ones, what can't be read.
 */
#include "ssd_world.h"

#include "store/dram/dram_int.h"
#include "store/store_ahead.h"

#define KIB 1024ul
#define MIB (1024ul * KIB)
#define MS 1000000ull
#define CHAT 1000u /* keys of one */

static struct store_stats dram_stats(struct ssd_world *sw)
{
	struct store_stats st = {0};

	assert_int_equal(store_set_stats(sw->w.set, 0, &st), 0);
	return st;
}

static struct store_meta group_of(uint32_t chat)
{
	struct store_meta m = {.group_len = 5};

	memcpy(m.group, &(uint64_t){0x1234567800000000ull + chat}, 8);
	m.group[4] = (uint8_t)chat;
	return m;
}

static void put(struct ssd_world *sw, uint32_t chat, uint32_t no, uint64_t len)
{
	struct store_meta m = group_of(chat);
	struct store_key k = world_key(chat * CHAT + no);
	struct world_io wi = {.io = {.op = STORE_BUF, .key = k, .len = len, .meta = &m}};

	assert_int_equal(world_run(&sw->w, 0, &wi), 0);
	world_fill(&wi.io.view, &k, 1);
	wi.io.op = STORE_PUT;
	assert_int_equal(world_run(&sw->w, 0, &wi), 0);
}

/* What nobody waits for goes on for a while. */
static void compute(struct ssd_world *sw)
{
	uint64_t until = sw->w.clock_ns + 2 * MS;

	for (uint32_t i = 0; i < 200 && sw->w.clock_ns < until; i++)
		world_step(&sw->w);
}

static struct ssd_world *chats_begin(uint64_t dram_bytes)
{
	struct ssd_world *sw = ssd_world_create(288 * MIB, 32 * MIB);

	sw->dram_bytes = dram_bytes;
	ssd_world_again(sw);
	return sw;
}

/* A turn: all that the chat has is read, in order, and `more` values are added. */
static void turn(struct ssd_world *sw, uint32_t chat, uint32_t has, uint32_t more, uint64_t len)
{
	for (uint32_t i = 0; i < has; i++) {
		assert_int_equal(world_get(&sw->w, chat * CHAT + i, 1, len), 0);
		compute(sw);
	}
	for (uint32_t i = has; i < has + more; i++)
		put(sw, chat, i, len);
}

static void chats_in_turn(void **state)
{
	static const uint64_t lens[] = {4 * KIB, 48 * KIB, 300 * KIB};
	static const uint32_t more[] = {60, 12, 3};
	struct store_stats st;
	struct ssd_world *sw;

	for (uint32_t i = 0; i < ARRAY_SIZE(lens); i++) {
		uint64_t all = 16ull * 4 * more[i] * lens[i];

		sw = chats_begin(max_t(uint64_t, all / 3, 6 * MIB));
		for (uint32_t t = 0; t < 4; t++)
			for (uint32_t chat = 0; chat < 16; chat++)
				turn(sw, chat, t * more[i], more[i], lens[i]);
		st = dram_stats(sw);
		print_message("%lu KiB: read ahead %lu KiB, used %lu, wasted %lu; misses %lu\n",
			      lens[i] / KIB, st.ahead_bytes / KIB, st.ahead_used / KIB,
			      st.ahead_wasted / KIB, st.misses);
		assert_true(st.ahead_used * 100 >= 70 * st.ahead_bytes);
		assert_true(st.ahead_bytes * 2 >= st.misses * lens[i]);
		ssd_world_destroy(sw);
	}
}

/* ---- what is named --------------------------------------------------------------------------- */

struct ask {
	struct store_ahead a;
	unsigned nr_ends;
};

static void ask_end(struct store_ahead *a)
{
	container_of(a, struct ask, a)->nr_ends++;
}

static void ask_start(struct ssd_world *sw, struct ask *q, uint32_t chat, uint32_t no,
		      uint64_t bytes)
{
	struct store_meta m = group_of(chat);

	*q = (struct ask){.a = {.key = world_key(chat * CHAT + no),
				.group_len = m.group_len,
				.bytes = bytes,
				.end = ask_end}};
	memcpy(q->a.group, m.group, sizeof(q->a.group));
	store_ahead_below(sw->top, &q->a);
}

static void ask(struct ssd_world *sw, struct ask *q, uint32_t chat, uint32_t no, uint64_t bytes)
{
	ask_start(sw, q, chat, no, bytes);
	while (!q->nr_ends)
		world_step(&sw->w);
	assert_int_equal(q->nr_ends, 1);
}

static void names(const struct ask *q, uint32_t chat, const uint32_t *no, uint32_t nr)
{
	struct store_key k;

	assert_int_equal(q->a.nr, nr);
	for (uint32_t i = 0; i < nr; i++) {
		k = world_key(chat * CHAT + no[i]);
		assert_true(store_key_equal(&q->a.keys[i], &k));
	}
}

/* Two chats, a value each in turn; all on the disk and none in memory. */
static struct ssd_world *two_chats(uint32_t nr, uint64_t len)
{
	struct ssd_world *sw = chats_begin(64 * MIB);

	for (uint32_t i = 0; i < nr; i++)
		for (uint32_t chat = 0; chat < 2; chat++) {
			put(sw, chat, i, len);
			assert_int_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
		}
	ssd_world_again(sw);
	return sw;
}

static void ours_alone(void **state)
{
	static const uint64_t lens[] = {0, 100, 5000, 65536, 65537, MIB + 1};
	struct ask q;

	for (uint32_t i = 0; i < ARRAY_SIZE(lens); i++) {
		struct ssd_world *sw = two_chats(8, lens[i]);

		ask(sw, &q, 0, 2, UINT64_MAX);
		names(&q, 0, (uint32_t[]){3, 4, 5, 6, 7}, 5);
		ask(sw, &q, 1, 7, UINT64_MAX);
		names(&q, 1, NULL, 0);
		/* Enough is enough. */
		if (lens[i]) {
			ask(sw, &q, 1, 0, 2 * lens[i]);
			names(&q, 1, (uint32_t[]){1, 2}, 2);
		}
		/* What is dead isn't named, nor what lies elsewhere by now. */
		assert_int_equal(world_op(&sw->w, STORE_DEL, 3), 0);
		put(sw, 0, 5, lens[i]);
		ask(sw, &q, 0, 2, UINT64_MAX);
		names(&q, 0, (uint32_t[]){4, 6, 7}, 3);
		/* The key itself must be there, and its group need not. */
		ask(sw, &q, 0, 3, UINT64_MAX);
		names(&q, 0, NULL, 0);
		ssd_world_destroy(sw);
	}
}

/* A device that fails ends the walk; nobody calls that a fault. */
static void unreadable(void **state)
{
	struct ssd_world *sw = two_chats(8, 5000);
	struct ask q;

	ssd_world_disk(sw)->faults.chance[FAKE_READ_EIO] = 65536;
	ask(sw, &q, 0, 0, UINT64_MAX);
	assert_int_equal(q.a.nr, 0);
	ssd_world_disk(sw)->faults.chance[FAKE_READ_EIO] = 0;
	ask(sw, &q, 0, 0, UINT64_MAX);
	assert_int_equal(q.a.nr, 7);
	assert_int_equal(ssd_world_stats(sw).bad_seals, 0);
	ssd_world_destroy(sw);
}

/* Whoever is under way when the set goes is told before that. */
static void closing(void **state)
{
	for (uint32_t steps = 0; steps < 4; steps++) {
		struct ssd_world *sw = two_chats(8, 100000);
		struct ask q[4];

		for (uint32_t i = 0; i < 4; i++)
			ask_start(sw, &q[i], 0, i, UINT64_MAX);
		for (uint32_t i = 0; i < steps; i++)
			world_step(&sw->w);
		ssd_world_destroy(sw);
		for (uint32_t i = 0; i < 4; i++)
			assert_int_equal(q[i].nr_ends, 1);
	}
}

/* Somebody who reads a group here and there: the guess is wrong, and after a while not made. */
static void wrong_guesses(void **state)
{
	struct ssd_world *sw = chats_begin(16 * MIB);
	struct store_stats st;
	uint64_t bytes;

	for (uint32_t i = 0; i < 900; i++)
		put(sw, 0, i, 200 * KIB);
	for (uint32_t n = 0; n < 3; n++) {
		bytes = dram_stats(sw).ahead_bytes;
		for (uint32_t i = 0; i < 400; i++) {
			world_get(&sw->w, (i * 7919 + n) % 900, 1, 200 * KIB);
			compute(sw);
		}
	}
	st = dram_stats(sw);
	assert_true(st.ahead_wasted > 16 * MIB);
	/* One in PREFETCH_TRY. */
	assert_true(st.ahead_bytes - bytes < 400 * 200 * KIB / 4);
	ssd_world_destroy(sw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chats_in_turn), cmocka_unit_test(ours_alone),
		cmocka_unit_test(unreadable),	 cmocka_unit_test(closing),
		cmocka_unit_test(wrong_guesses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
