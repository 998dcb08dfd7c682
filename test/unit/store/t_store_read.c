/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_read.c: reads of any range, from whole views and from slices that come late and out of
 * order, at home and from another reactor, with readers that answer at once and readers that take
 * their time; and every way to end early.
 */
#include "puppet.h"
#include "slice.h"
#include "store/store_read.h"
#include "store/store_make.h"

#define MIB (1u << 20)

struct reader {
	struct store_read rd;
	struct world *w;
	uint64_t gen;
	uint64_t value_len;
	uint64_t pos;
	unsigned nr_pieces;
	bool is_slow;	 /* answers from the test's loop */
	bool is_waiting; /* ... and has a piece now */
	bool is_over;
	int res;
	unsigned bad_at; /* piece number from 1 on; 0 = none */
	unsigned err_at;
	int err;
	void (*at_piece)(struct reader *r);
};

static void reader_answer(struct reader *r)
{
	bool is_bad = r->nr_pieces == r->bad_at;

	r->is_waiting = false;
	store_read_next(&r->rd, is_bad, r->nr_pieces == r->err_at ? r->err : 0);
}

static void reader_piece(struct store_read *rd, const struct store_view *v, uint64_t off,
			 uint64_t len)
{
	struct reader *r = container_of(rd, struct reader, rd);
	uint8_t *is, *should = malloc(len);

	must(should);
	assert_false(r->is_waiting || r->is_over);
	assert_int_equal(off, r->pos);
	assert_true(len > 0 && len <= STORE_PIECE_BYTES);
	assert_true(v->off <= off && off + len <= v->off + v->len);
	assert_int_equal(rd->value_len, r->value_len);
	assert_int_equal(v->ver, rd->ver);
	is = world_view_copy(v, off, len);
	world_bytes(&rd->key, r->gen, off, should, len);
	assert_memory_equal(is, should, len);
	if (len < 2 * MEM_CHUNK_BYTES)
		assert_true(world_seals_fit(v, &rd->key));
	free(is);
	free(should);
	r->pos += len;
	r->nr_pieces++;
	if (r->at_piece)
		r->at_piece(r);
	r->is_waiting = true;
	if (!r->is_slow)
		reader_answer(r);
}

static void reader_end(struct store_read *rd, int res)
{
	struct reader *r = container_of(rd, struct reader, rd);

	assert_false(r->is_over || r->is_waiting);
	r->is_over = true;
	r->res = res;
}

static int reader_run(struct reader *r, struct world *w, unsigned home)
{
	r->w = w;
	r->rd.set = w->set;
	r->rd.home = w->r[home];
	r->rd.piece = reader_piece;
	r->rd.end = reader_end;
	r->pos = r->rd.off;
	r->nr_pieces = 0;
	r->is_over = false;
	store_read_start(&r->rd);
	for (unsigned i = 0; !r->is_over; i++) {
		must(i < WORLD_STEPS_MAX);
		world_step(w);
		if (r->is_waiting && rng_chance(&w->rng, 1, 4))
			reader_answer(r);
	}
	return r->res;
}

static uint64_t nr_gets(const struct world *w)
{
	struct store_door_stats st;

	store_set_door_stats(w->set, &st);
	return st.ops[STORE_GET];
}

/* A view of the whole value is asked for once. */
static void t_whole(void **state)
{
	struct world w;
	struct reader r = {.gen = 1, .value_len = 5 * MIB + 77};
	uint64_t before;

	world_init(&w, 1, unit_seed(1));
	world_set(&w, 1, 8 * MIB);
	store_set_push(w.set, 0, store_mem_create());
	assert_int_equal(world_put(&w, 1, 1, r.value_len), 0);
	r.rd.key = world_key(1);
	for (int slow = 0; slow < 2; slow++) {
		r.is_slow = slow;
		before = nr_gets(&w);
		r.rd.off = 0;
		r.rd.len = UINT64_MAX;
		assert_int_equal(reader_run(&r, &w, 0), 0);
		assert_int_equal(r.nr_pieces, 6);
		assert_int_equal(r.pos, r.value_len);
		assert_int_equal(r.rd.len, r.value_len);
		assert_int_equal(nr_gets(&w) - before, 1);
	}
	world_fini(&w);
}

static void t_ranges(void **state)
{
	static const uint64_t lens[] = {1,   65535,   65536,   65537,
					MIB, MIB + 1, 4 * MIB, 6 * MIB + 12345};
	struct store_fault_opts late = {.seed = 4, .delay_1024 = 300};
	struct world w;
	struct slice *s;
	uint64_t want;

	world_init(&w, 2, unit_seed(6));
	world_set(&w, 1, 8 * MIB);
	s = slice_create();
	store_set_push(w.set, 0, &s->st);
	store_set_push(w.set, 0, store_fault_create(&late));
	store_set_push(w.set, 0, store_mem_create());
	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
		assert_int_equal(world_put(&w, i, i, lens[i]), 0);
		for (unsigned n = 0; n < 24; n++) {
			struct reader r = {.gen = i, .value_len = lens[i], .rd.key = world_key(i)};

			r.is_slow = n & 1;
			r.rd.off = rng_below(&w.rng, lens[i] + 2);
			r.rd.len = n < 4 ? UINT64_MAX : rng_below(&w.rng, lens[i] + 2);
			if (n % 3 == 0)
				r.rd.off = align_down(r.rd.off, 4096);
			want = r.rd.off >= lens[i] ? 0
						   : min_t(uint64_t, r.rd.len, lens[i] - r.rd.off);
			s->nr_gets = 0;
			assert_int_equal(reader_run(&r, &w, n / 2 % 2), 0);
			assert_int_equal(r.pos - r.rd.off, want);
			assert_int_equal(r.rd.len, want);
			assert_true(s->nr_gets <= 1 + (want + MIB - 1) / MIB + 1);
			assert_int_equal(r.rd.value_len, lens[i]);
			world_settle(&w);
			assert_int_equal(s->nr_out, 0);
		}
	}
	world_fini(&w);
}

static void t_absent(void **state)
{
	struct world w;
	struct reader r = {.rd = {.key = world_key(1), .len = 10}};

	world_init(&w, 2, 1);
	world_set(&w, 1, 8 * MIB);
	store_set_push(w.set, 0, store_mem_create());
	assert_int_equal(reader_run(&r, &w, 0), -ENOENT);
	assert_int_equal(reader_run(&r, &w, 1), -ENOENT);
	assert_int_equal(world_put(&w, 1, 1, 10), 0);
	r.rd.want_ver = 12345;
	assert_int_equal(reader_run(&r, &w, 1), -ESTALE);
	assert_int_equal(r.nr_pieces, 0);
	world_fini(&w);
}

/* ---- ends before the end --------------------------------------------------------------------- */

static struct slice *sliced(struct world *w, unsigned nr_reactors)
{
	struct slice *s = slice_create();

	world_init(w, nr_reactors, unit_seed(8));
	world_set(w, 1, 8 * MIB);
	store_set_push(w->set, 0, &s->st);
	store_set_push(w->set, 0, store_mem_create());
	assert_int_equal(world_put(w, 1, 1, 6 * MIB), 0);
	return s;
}

static void t_reader_errors(void **state)
{
	for (unsigned at = 1; at <= 6; at++) {
		for (unsigned home = 0; home < 2; home++) {
			struct world w;
			struct slice *s = sliced(&w, 2);
			struct reader r = {
				.gen = 1, .value_len = 6 * MIB, .rd = {.key = world_key(1)}};

			r.is_slow = at % 2;
			r.err_at = at;
			r.err = -EFAULT;
			r.rd.len = 6 * MIB;
			assert_int_equal(reader_run(&r, &w, home), -EFAULT);
			assert_int_equal(r.nr_pieces, at);
			world_settle(&w);
			assert_int_equal(s->nr_out, 0);
			assert_int_equal(s->nr_bad, 0);
			r.err_at = 0;
			r.bad_at = at;
			assert_int_equal(reader_run(&r, &w, home), -ENOENT);
			assert_int_equal(r.nr_pieces, at);
			world_settle(&w);
			assert_int_equal(s->nr_bad, 1);
			assert_int_equal(w.nr_alerts, 1);
			/* The entry is gone: the next one misses. */
			assert_int_equal(reader_run(&r, &w, home), -ENOENT);
			assert_int_equal(r.nr_pieces, 0);
			world_fini(&w);
		}
	}
}

static void overwrite(struct reader *r)
{
	struct store_key k = r->rd.key;

	if (r->nr_pieces == 1)
		assert_int_equal(world_put_from(r->w, 0, &k, 2, 6 * MIB), 0);
}

static void del(struct reader *r)
{
	if (r->nr_pieces == 1)
		assert_int_equal(world_op(r->w, STORE_DEL, 1), 0);
}

static int run_change(void (*change)(struct reader *r), bool is_slow)
{
	struct world w;
	struct slice *s = sliced(&w, 1);
	struct reader r = {
		.gen = 1, .value_len = 6 * MIB, .rd = {.key = world_key(1), .len = 6 * MIB}};
	int res;

	r.is_slow = is_slow;
	r.at_piece = change;
	res = reader_run(&r, &w, 0);
	/* What had been asked for was still the old version, all of it right. */
	assert_true(r.nr_pieces >= 1 && r.nr_pieces <= STORE_READ_AHEAD);
	assert_int_equal(s->nr_out, 0);
	world_fini(&w);
	return res;
}

static void t_changes(void **state)
{
	assert_int_equal(run_change(overwrite, false), -ESTALE);
	assert_int_equal(run_change(overwrite, true), -ESTALE);
	assert_int_equal(run_change(del, false), -ENOENT);
	assert_int_equal(run_change(del, true), -ENOENT);
}

/* A thousand reads under way over a store that fails, flips and delays: each ends once, nothing
 * stays pinned. */
static void t_storm(void **state)
{
	enum { NR = 64 };
	static struct reader r[NR];
	struct store_fault_opts bad = {
		.seed = 5, .fail_1024 = 60, .delay_1024 = 300, .stale_1024 = 100};
	struct world w;
	unsigned nr_over = 0;

	world_init(&w, 2, unit_seed(21));
	world_set(&w, 2, 8 * MIB);
	for (unsigned i = 0; i < 2; i++) {
		store_set_push(w.set, i, &slice_create()->st);
		store_set_push(w.set, i, store_fault_create(&bad));
		store_set_push(w.set, i, store_mem_create());
	}
	for (uint32_t i = 0; i < 8; i++)
		while (world_put(&w, i, i, 4 * MIB + i))
			;
	for (unsigned i = 0; i < NR; i++) {
		r[i] = (struct reader){
			.gen = i % 8, .value_len = 4 * MIB + i % 8, .w = &w, .is_slow = i % 3 == 0};
		r[i].rd = (struct store_read){
			.set = w.set, .home = w.r[i % 2], .key = world_key(i % 8)};
		r[i].rd.len = r[i].value_len;
		r[i].rd.piece = reader_piece;
		r[i].rd.end = reader_end;
		store_read_start(&r[i].rd);
	}
	for (unsigned n = 0; nr_over < NR; n++) {
		must(n < WORLD_STEPS_MAX);
		world_step(&w);
		nr_over = 0;
		for (unsigned i = 0; i < NR; i++) {
			if (r[i].is_waiting && rng_chance(&w.rng, 1, 8))
				reader_answer(&r[i]);
			nr_over += r[i].is_over;
		}
	}
	for (unsigned i = 0; i < NR; i++)
		assert_true(r[i].res == 0 ? r[i].pos == r[i].value_len : r[i].res == -ENOENT);
	world_fini(&w);
}

/* Four requests for a piece at most, all at once, and what comes last is short. */
static void t_parts(void **state)
{
	uint64_t seed = unit_seed(3);
	uint64_t lens[] = {MIB, 5 * MEM_CHUNK_BYTES, 300000, 600000, 9 * MEM_CHUNK_BYTES + 1, 0, 0};
	struct rng rng;

	rng_init(&rng, seed);
	for (unsigned n = 0; n < ARRAY_SIZE(lens); n++) {
		uint64_t len = lens[n] ? lens[n] : 300000 + rng_below(&rng, MIB - 300000), at = 0;
		struct reader r = {.rd = {.key = world_key(1), .len = len, .is_eager = true}};
		struct puppet *p = puppet_create(NULL);
		struct store_io *io;
		struct world w;

		world_init(&w, 1, seed);
		world_set(&w, 1, MIB);
		store_set_push(w.set, 0, &p->st);
		r.rd.set = w.set;
		r.rd.home = w.r[0];
		r.rd.piece = reader_piece;
		r.rd.end = reader_end;
		store_read_start(&r.rd);
		world_settle(&w);
		assert_true(p->nr_held <= 4);
		for (unsigned i = 0; i < p->nr_held; i++, at += io->len) {
			io = p->held[i];
			assert_int_equal(io->off, at);
			assert_true(io->len <= STORE_PART_BYTES);
		}
		assert_int_equal(at, len);
		assert_true(p->held[p->nr_held - 1]->len <= 2 * MEM_CHUNK_BYTES);
		p->res = -ENOENT;
		while (p->nr_held)
			puppet_done(p, puppet_take(p, 0));
		world_until(&w, &r.is_over);
		assert_int_equal(r.res, -ENOENT);
		world_fini(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_whole),   cmocka_unit_test(t_ranges),
		cmocka_unit_test(t_absent),  cmocka_unit_test(t_reader_errors),
		cmocka_unit_test(t_changes), cmocka_unit_test(t_storm),
		cmocka_unit_test(t_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
