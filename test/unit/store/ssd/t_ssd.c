/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssd.c: the verbs one by one over a disk that does as it is told, what values cost in space, and
 * what is refused. All orders, faults and crashes: test/model/m_ssd.
 */
#include "ssd_world.h"
#include "store/store_read.h"

static void put_get_del(void **state)
{
	static const uint64_t lens[] = {1,	4095,	 4096,		65536,	 65537,
					100000, 1 << 20, (1 << 20) + 1, 3 << 20, 4 << 20};
	struct ssd_world *sw = ssd_world_create(96 << 20, 8 << 20);

	for (uint32_t i = 0; i < ARRAY_SIZE(lens); i++)
		assert_int_equal(world_put(&sw->w, i, 1, lens[i]), 0);
	for (uint32_t i = 0; i < ARRAY_SIZE(lens); i++) {
		assert_int_equal(world_op(&sw->w, STORE_EXIST, i), 0);
		if (lens[i] <= STORE_PIECE_BYTES)
			assert_int_equal(world_get(&sw->w, i, 1, lens[i]), 0);
	}
	assert_int_equal(world_put(&sw->w, 3, 2, 17), 0);
	assert_int_equal(world_get(&sw->w, 3, 2, 17), 0);
	assert_int_equal(world_op(&sw->w, STORE_DEL, 3), 0);
	assert_int_equal(world_get(&sw->w, 3, 2, 17), -ENOENT);
	assert_int_equal(world_op(&sw->w, STORE_DEL, 3), -ENOENT);
	assert_int_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
	assert_int_equal(ssd_world_stats(sw).nr_keys, ARRAY_SIZE(lens) - 1);
	assert_int_equal(sw->w.nr_alerts, 0);
	ssd_world_destroy(sw);
}

/* Piece by piece, as the target reads. */
struct reader {
	struct store_read rd;
	struct store_key key;
	uint64_t gen;
	uint64_t got;
	bool is_over;
	int res;
};

static void reader_piece(struct store_read *rd, const struct store_view *v, uint64_t off,
			 uint64_t len)
{
	struct reader *r = container_of(rd, struct reader, rd);

	assert_true(len <= STORE_PIECE_BYTES);
	assert_true(world_is_gen(v, &r->key, r->gen) && world_seals_fit(v, &r->key));
	r->got += len;
	store_read_next(rd, false, 0);
}

static void reader_end(struct store_read *rd, int res)
{
	struct reader *r = container_of(rd, struct reader, rd);

	r->is_over = true;
	r->res = res;
}

static void read_some(struct ssd_world *sw, uint32_t no, uint64_t off, uint64_t len,
		      uint64_t expected)
{
	struct reader r = {.key = world_key(no), .gen = 1};

	r.rd.set = sw->w.set;
	r.rd.home = sw->w.r[0];
	r.rd.key = r.key;
	r.rd.off = off;
	r.rd.len = len;
	r.rd.piece = reader_piece;
	r.rd.end = reader_end;
	store_read_start(&r.rd);
	world_until(&sw->w, &r.is_over);
	assert_int_equal(r.res, 0);
	assert_int_equal(r.got, expected);
}

static void in_pieces(void **state)
{
	struct ssd_world *sw = ssd_world_create(96 << 20, 8 << 20);

	assert_int_equal(world_put(&sw->w, 1, 1, (4 << 20) - 5), 0);
	read_some(sw, 1, 0, UINT64_MAX, (4 << 20) - 5);
	read_some(sw, 1, 70000, UINT64_MAX, (4 << 20) - 5 - 70000);
	read_some(sw, 1, 70000, 100, 100);
	read_some(sw, 1, (1 << 20) - 1, 2, 2);
	read_some(sw, 1, 3 << 20, 1 << 20, (1 << 20) - 5);
	read_some(sw, 1, 4 << 20, 10, 0);
	ssd_world_destroy(sw);
}

/* More readers than there are buffers: each gets its pieces, in order, and all end. */
#define NR_READERS 60

static void many_readers(void **state)
{
	struct ssd_world *sw = ssd_world_create(96 << 20, 8 << 20);
	struct reader *r = calloc(NR_READERS, sizeof(*r));

	assert_non_null(r);
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(world_put(&sw->w, i, 1, i % 2 ? 4 << 20 : 5000), 0);
	for (uint32_t i = 0; i < NR_READERS; i++) {
		r[i].key = world_key(i % 6);
		r[i].gen = 1;
		r[i].rd = (struct store_read){.set = sw->w.set,
					      .home = sw->w.r[0],
					      .key = r[i].key,
					      .len = UINT64_MAX,
					      .piece = reader_piece,
					      .end = reader_end};
		store_read_start(&r[i].rd);
	}
	for (uint32_t i = 0; i < NR_READERS; i++) {
		world_until(&sw->w, &r[i].is_over);
		assert_int_equal(r[i].res, 0);
		assert_int_equal(r[i].got, i % 2 ? 4 << 20 : 5000);
	}
	free(r);
	ssd_world_destroy(sw);
}

static void conditions(void **state)
{
	struct ssd_world *sw = ssd_world_create(16 << 20, 1 << 20);
	struct store_key k = world_key(1);
	struct world_io wi = {.io = {.op = STORE_BUF, .key = k, .len = 10}};

	wi.io.flags = STORE_IF_PRESENT;
	assert_int_equal(world_run(&sw->w, 0, &wi), -ENOENT);
	assert_int_equal(world_put(&sw->w, 1, 1, 10), 0);
	wi.io.flags = STORE_IF_ABSENT;
	assert_int_equal(world_run(&sw->w, 0, &wi), -EEXIST);
	wi.io.flags = 0;
	wi.io.len = 5 << 20;
	assert_int_equal(world_run(&sw->w, 0, &wi), -EFBIG);
	wi.io.len = 2 << 20; /* allowed, but no segment has the room */
	assert_int_equal(world_run(&sw->w, 0, &wi), -EFBIG);
	ssd_world_destroy(sw);
}

/* Many at a time, as write-backs come. Bytes written per byte of value. */
#define TOGETHER 32

static double overhead(uint64_t len, unsigned nr, unsigned together)
{
	struct ssd_world *sw = ssd_world_create(256 << 20, 16 << 20);
	static struct world_io wi[TOGETHER];
	uint64_t written;

	for (uint32_t at = 0; at < nr; at += together) {
		for (uint32_t i = 0; i < together; i++) {
			wi[i].io = (struct store_io){
				.op = STORE_BUF, .key = world_key(at + i), .len = len};
			assert_int_equal(world_run(&sw->w, 0, &wi[i]), 0);
			world_fill(&wi[i].io.view, &wi[i].io.key, 1);
			wi[i].io.op = STORE_PUT;
		}
		for (uint32_t i = 0; i < together; i++)
			world_start(&sw->w, 0, &wi[i]);
		for (uint32_t i = 0; i < together; i++) {
			world_until(&sw->w, &wi[i].is_over);
			assert_int_equal(wi[i].res, 0);
		}
	}
	world_settle(&sw->w);
	for (uint32_t i = 0; i < nr; i++)
		assert_int_equal(world_get(&sw->w, i, 1, len), 0);
	written = ssd_world_disk(sw)->written_bytes;
	ssd_world_destroy(sw);
	return (double)written / (double)(len * nr);
}

/* The figures that the design sets: 4 KiB values at most 15 % more, 1 MiB at most 2 %. */
static void space(void **state)
{
	double small = overhead(4096, 8192, TOGETHER), large = overhead(1 << 20, 32, 8);

	print_message("written per byte of value: 4 KiB %.3f, 1 MiB %.3f\n", small, large);
	assert_true(small <= 1.15);
	assert_true(large <= 1.02);
}

static void full_index(void **state)
{
	struct ssd_world *sw = ssd_world_create(16 << 20, 256 << 10);
	unsigned nr_ok = 0;

	sw->o.max_keys = 2000;
	fake_disk_zero(ssd_world_disk(sw));
	world_fini(&sw->w);
	fake_disk_zero(ssd_world_disk(sw));
	assert_int_equal(ssd_world_begin(sw), 0);
	/* More keys than entries: the oldest go, and some puts are refused meanwhile. */
	for (uint32_t i = 0; i < 5000; i++) {
		nr_ok += world_put(&sw->w, i, 1, 1000) == 0;
		assert_true(ssd_world_stats(sw).nr_keys <= 2000);
	}
	assert_true(nr_ok > 4500);
	ssd_world_destroy(sw);
}

/*
 * Same key, same bytes, put over a record that lies in a segment that outlives the new one's: both
 * stay, and a power cut after any number of turns finds one of them. Once the put is over the key
 * can be deleted for good, both records, though the new one's segment went before.
 */
static void put_over_outliving(void **state)
{
	struct store_key key = world_key(0);
	bool is_over = false;

	for (uint32_t n = 0; !is_over; n++) {
		struct ssd_world *sw = ssd_world_create(4 << 20, 128 << 10);
		struct world_io wi;

		sw->is_immutable = true;
		sw->o.is_durable = true;
		ssd_world_again(sw);
		for (uint32_t i = 0; i < 100; i++)
			assert_int_equal(world_put(&sw->w, i, 1, 3000), 0);
		ssd_seg_set(sw->s, ssd_index_find(&sw->s->ix, &key)->seg, SSD_LOST);
		ssd_world_put(sw, &wi, 0, 1, 3000);
		for (uint32_t i = 0; i < n && !wi.is_over; i++)
			world_step(&sw->w);
		is_over = wi.is_over;
		if (is_over) {
			assert_int_equal(wi.res, 0);
			for (uint32_t i = 100; i < 3000; i++)
				assert_int_equal(world_put(&sw->w, i, 1, 3000), 0);
			world_op(&sw->w, STORE_DEL, 0);
		}
		fake_disk_crash(ssd_world_disk(sw), FAKE_CRASH_LOSE);
		world_until(&sw->w, &wi.is_over);
		ssd_world_end(sw);
		fake_disk_revive(ssd_world_disk(sw));
		assert_int_equal(ssd_world_begin(sw), 0);
		assert_int_equal(world_get(&sw->w, 0, 1, 3000), is_over ? -ENOENT : 0);
		ssd_world_destroy(sw);
	}
}

/*
 * A flush, under way for n turns, and a value that it counts on is put again: what was acknowledged
 * before it is there after it, whenever the power goes.
 */
static void flush_put_over(void **state)
{
	bool is_late = false;

	for (uint32_t n = 0; !is_late; n++) {
		struct ssd_world *sw = ssd_world_create(4 << 20, 128 << 10);
		struct world_io flush = {.io = {.op = STORE_FLUSH}}, put;

		sw->is_immutable = true;
		sw->dram_bytes = 4 << 20;
		ssd_world_again(sw);
		for (uint32_t i = 0; i < 20; i++)
			assert_int_equal(world_put(&sw->w, i, 1, 3000), 0);
		world_start(&sw->w, 0, &flush);
		for (uint32_t i = 0; i < n && !flush.is_over; i++)
			world_step(&sw->w);
		is_late = flush.is_over;
		for (uint32_t i = 0; i < 20; i++) {
			ssd_world_put(sw, &put, i, 1, 3000);
			world_until(&sw->w, &put.is_over);
			assert_int_equal(put.res, 0);
		}
		world_until(&sw->w, &flush.is_over);
		assert_int_equal(flush.res, 0);
		ssd_world_crash(sw, FAKE_CRASH_LOSE);
		for (uint32_t i = 0; i < 20; i++)
			assert_int_equal(world_get(&sw->w, i, 1, 3000), 0);
		ssd_world_destroy(sw);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put_get_del),
		cmocka_unit_test(in_pieces),
		cmocka_unit_test(many_readers),
		cmocka_unit_test(conditions),
		cmocka_unit_test(space),
		cmocka_unit_test(full_index),
		cmocka_unit_test(put_over_outliving),
		cmocka_unit_test(flush_put_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
