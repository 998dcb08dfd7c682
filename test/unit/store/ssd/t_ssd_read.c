/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssd_read.c, ssd_head.c, ssd_slot.c: what is asked of the device for a get, no chunk more; readers
 * with several parts under way; and devices that take their time.
 */
#include "ssd_world.h"
#include "store/store_read.h"

#define MIB (1u << 20)
#define CHUNK MEM_CHUNK_BYTES

struct reader {
	struct store_read rd;
	uint64_t gen;
	uint64_t pos;
	bool is_over;
	int res;
};

static void reader_piece(struct store_read *rd, const struct store_view *v, uint64_t off,
			 uint64_t len)
{
	struct reader *r = container_of(rd, struct reader, rd);

	assert_int_equal(off, r->pos);
	assert_true(world_is_gen(v, &rd->key, r->gen) && world_seals_fit(v, &rd->key));
	r->pos += len;
	store_read_next(rd, false, 0);
}

static void reader_end(struct store_read *rd, int res)
{
	struct reader *r = container_of(rd, struct reader, rd);

	r->is_over = true;
	r->res = res;
}

static void reader_start_gen(struct ssd_world *sw, struct reader *r, uint32_t no, bool is_eager,
			     uint64_t gen)
{
	*r = (struct reader){.gen = gen};
	r->rd.set = sw->w.set;
	r->rd.home = sw->w.r[0];
	r->rd.key = world_key(no);
	r->rd.len = 8 * MIB;
	r->rd.is_eager = is_eager;
	r->rd.piece = reader_piece;
	r->rd.end = reader_end;
	store_read_start(&r->rd);
}

static void reader_start(struct ssd_world *sw, struct reader *r, uint32_t no, bool is_eager)
{
	reader_start_gen(sw, r, no, is_eager, 1);
}

static uint64_t read_bytes(struct ssd_world *sw)
{
	return ssd_world_stats(sw).read_bytes;
}

static int get(struct ssd_world *sw, uint32_t no, uint64_t off, uint64_t len)
{
	struct world_io wi = {
		.io = {.op = STORE_GET, .key = world_key(no), .off = off, .len = len}};
	int res = world_run(&sw->w, 0, &wi);

	if (res)
		return res;
	assert_true(wi.io.view.off <= off && wi.io.view.off + wi.io.view.len >= off + len);
	assert_true(world_is_gen(&wi.io.view, &wi.io.key, 1));
	assert_true(world_seals_fit(&wi.io.view, &wi.io.key));
	store_release(&wi.io.view, sw->w.r[0], NULL);
	return 0;
}

/* A layer of a block: its chunks, and the head of its piece once. */
static void ranges(void **state)
{
	struct ssd_world *sw = ssd_world_create(96 * MIB, 8 * MIB);
	uint64_t before;

	assert_int_equal(world_put(&sw->w, 1, 1, 4 * MIB - 5), 0);
	before = read_bytes(sw);
	assert_int_equal(get(sw, 1, MIB + 5 * CHUNK, CHUNK), 0);
	assert_int_equal(read_bytes(sw) - before, SSD_BLOCK + CHUNK);
	before = read_bytes(sw);
	assert_int_equal(get(sw, 1, MIB + 7 * CHUNK + 100, 2 * CHUNK), 0);
	assert_int_equal(read_bytes(sw) - before, 3 * CHUNK);
	before = read_bytes(sw);
	assert_int_equal(get(sw, 1, 4 * MIB - 6, 1), 0);
	assert_int_equal(read_bytes(sw) - before, SSD_BLOCK + CHUNK);
	assert_int_equal(ssd_world_stats(sw).staged_bytes, 5 * CHUNK - 5);
	/* The disk agrees, segments' heads that were read back apart. */
	assert_true(ssd_world_disk(sw)->read_bytes <= read_bytes(sw) + 2 * MIB);
	ssd_world_destroy(sw);
}

/* A packed one: its sectors, not the blocks that they lie in. */
static void sectors(void **state)
{
	struct ssd_world *sw = ssd_world_create(96 * MIB, 8 * MIB);
	uint64_t before, most = align_up(4096 + SSD_SMALL_HEAD_MAX, 512) + 512;

	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(world_put(&sw->w, i, 1, 4096), 0);
	for (uint32_t i = 0; i < 100; i++) {
		before = read_bytes(sw);
		assert_int_equal(get(sw, i, 0, 4096), 0);
		assert_true(read_bytes(sw) - before <= most);
	}
	/* One that says nothing of sectors is read by blocks. */
	ssd_world_disk(sw)->dev.read_bytes = 0;
	assert_int_equal(get(sw, 50, 0, 4096), 0);
	ssd_world_disk(sw)->dev.read_bytes = SSD_BLOCK;
	assert_int_equal(get(sw, 51, 0, 4096), 0);
	ssd_world_destroy(sw);
}

/* Puts take all staging that is theirs: what eviction saves still finds some. */
static void staging(void **state)
{
	struct ssd_world *sw = ssd_world_create(96 * MIB, 8 * MIB);
	struct ssd_value *v[2 * SSD_SMALLS], *saved;
	uint32_t lens[] = {100, MIB}, nr;
	struct store_key key = world_key(1);

	for (uint32_t k = 0; k < ARRAY_SIZE(lens); k++) {
		for (nr = 0; nr < ARRAY_SIZE(v); nr++) {
			v[nr] = ssd_value_create(sw->s, &key, lens[k], false);
			if (!v[nr])
				break;
		}
		assert_int_equal(nr, k ? SSD_LARGES_MIN : SSD_SMALLS);
		saved = ssd_value_create(sw->s, &key, k ? 4 * MIB : 100, true);
		assert_non_null(saved);
		assert_null(ssd_value_create(sw->s, &key, lens[k], true));
		ssd_value_destroy(saved);
		while (nr)
			ssd_value_destroy(v[--nr]);
	}
	ssd_world_destroy(sw);
}

/* All parts at once: the bytes of the value and a block for each piece; one hit. */
static void eager(void **state)
{
	struct ssd_world *sw = ssd_world_create(96 * MIB, 8 * MIB);
	uint64_t lens[] = {1, 65537, STORE_PART_BYTES, STORE_PART_BYTES + 1, MIB, 3 * MIB - 77};
	uint64_t before, most;
	struct reader r;

	for (uint32_t i = 0; i < ARRAY_SIZE(lens); i++)
		assert_int_equal(world_put(&sw->w, i, 1, lens[i]), 0);
	for (uint32_t i = 0; i < ARRAY_SIZE(lens); i++) {
		before = read_bytes(sw);
		reader_start(sw, &r, i, true);
		world_until(&sw->w, &r.is_over);
		assert_int_equal(r.res, 0);
		assert_int_equal(r.pos, lens[i]);
		/* A short one may be asked for by each of the first gets. */
		most = lens[i] > SSD_PACKED_MAX ? align_up(lens[i], SSD_BLOCK) + 4 * SSD_BLOCK
						: STORE_READ_AHEAD * 2 * SSD_BLOCK;
		assert_true(read_bytes(sw) - before <= most);
		assert_int_equal(ssd_world_stats(sw).hits, i + 1);
	}
	reader_start(sw, &r, 99, true);
	world_until(&sw->w, &r.is_over);
	assert_int_equal(r.res, -ENOENT);
	assert_int_equal(ssd_world_stats(sw).misses, 1);
	ssd_world_destroy(sw);
}

/* One life of a value is never mixed with another. */
static void replaced(void **state)
{
	struct ssd_world *sw = ssd_world_create(96 * MIB, 8 * MIB);
	struct reader r;

	for (uint64_t gen = 1; gen < 40; gen++) {
		assert_int_equal(world_put(&sw->w, 1, gen, 2 * MIB + gen), 0);
		reader_start_gen(sw, &r, 1, true, gen);
		if (gen % 2)
			assert_int_equal(world_op(&sw->w, STORE_DEL, 1), 0);
		world_until(&sw->w, &r.is_over);
		assert_true(r.res == 0 || r.res == -ENOENT || r.res == -ESTALE);
	}
	ssd_world_destroy(sw);
}

/*
 * Reads that take up to 40 ms where 10 are allowed: exact bytes or a miss, memory that the device
 * may still write to is nobody else's, and what was missed is there when it is asked for again.
 */
#define NR_LATE 150

static void too_late(void **state)
{
	struct ssd_world *sw = ssd_world_create(96 * MIB, 8 * MIB);
	struct reader *r = calloc(NR_LATE, sizeof(*r));
	unsigned nr_hits = 0;

	assert_non_null(r);
	for (uint32_t i = 0; i < 30; i++)
		assert_int_equal(world_put(&sw->w, i, 1, i % 2 ? 1000 : MIB + i), 0);
	sw->delay_max_ns = 40000000;
	sw->o.read_max_ns = 10000000;
	ssd_world_again(sw);
	for (uint32_t i = 0; i < NR_LATE; i++)
		reader_start(sw, &r[i], i % 30, i % 3);
	for (uint32_t i = 0; i < NR_LATE; i++) {
		world_until(&sw->w, &r[i].is_over);
		assert_true(r[i].res == 0 || r[i].res == -ENOENT);
		nr_hits += r[i].res == 0;
		assert_true(sw->s->nr_late <= SSD_READS);
	}
	assert_true(nr_hits < NR_LATE);
	assert_true(ssd_world_stats(sw).late > 0);
	assert_int_equal(sw->w.nr_alerts, 0);
	while (sw->s->nr_late || sw->s->nr_reads)
		world_step(&sw->w);
	for (uint32_t k = 0, n = 0; k < SSD_READ_KINDS; k++) {
		struct ssd_read *free;

		list_for_each_entry(free, &sw->s->free_reads[k], node)
			n++;
		if (k + 1 == SSD_READ_KINDS)
			assert_int_equal(n, SSD_READS);
	}
	sw->delay_max_ns = 0;
	sw->o.read_max_ns = 0;
	ssd_world_again(sw);
	for (uint32_t i = 0; i < 30; i++) {
		reader_start(sw, &r[i], i, true);
		world_until(&sw->w, &r[i].is_over);
		assert_int_equal(r[i].res, 0);
	}
	free(r);
	ssd_world_destroy(sw);
}

static struct store_stats dram_stats(struct ssd_world *sw)
{
	struct store_stats st = {0};

	assert_int_equal(store_set_stats(sw->w.set, 0, &st), 0);
	return st;
}

static void until_above(struct ssd_world *sw, uint64_t nr_keys)
{
	for (uint32_t n = 0; dram_stats(sw).nr_keys < nr_keys; n++) {
		assert_true(n < 10000);
		world_step(&sw->w);
	}
}

/*
 * Straight into the dram tier, where they are found afterwards: all of a value, once, however many
 * readers there are. Each may ask for the same part: who is second gets it by a copy.
 */
static void straight(void **state)
{
	struct ssd_world *sw = ssd_world_create(96 * MIB, 8 * MIB);
	uint64_t lens[] = {70000, STORE_PART_BYTES + 5001, MIB, 3 * MIB - 77};
	struct reader r[3];
	uint64_t bytes;

	for (uint32_t i = 0; i < ARRAY_SIZE(lens); i++)
		assert_int_equal(world_put(&sw->w, i, 1, lens[i]), 0);
	sw->dram_bytes = 16 * MIB;
	for (uint32_t nr = 1; nr <= ARRAY_SIZE(r); nr++) {
		ssd_world_again(sw);
		for (uint32_t i = 0; i < ARRAY_SIZE(lens); i++) {
			bytes = ssd_world_stats(sw).straight_bytes;
			for (uint32_t k = 0; k < nr; k++)
				reader_start(sw, &r[k], i, k != 1);
			for (uint32_t k = 0; k < nr; k++) {
				world_until(&sw->w, &r[k].is_over);
				assert_int_equal(r[k].res, 0);
				assert_int_equal(r[k].pos, lens[i]);
			}
			until_above(sw, i + 1);
			bytes = ssd_world_stats(sw).straight_bytes - bytes;
			assert_int_equal(bytes, lens[i]);
		}
		/* All of them are above now, and the device isn't asked. */
		bytes = read_bytes(sw);
		for (uint32_t i = 0; i < ARRAY_SIZE(lens); i++)
			assert_int_equal(world_get(&sw->w, i, 1, lens[i]), 0);
		assert_int_equal(read_bytes(sw), bytes);
	}
	ssd_world_destroy(sw);
}

/*
 * Out of the dram tier's memory as it lies there, ends that no block holds whole included; and in a
 * tier where nothing lies right, by copies. The bytes are the same.
 */
static void straight_writes(void **state)
{
	struct ssd_world *sw = ssd_world_create(96 * MIB, 8 * MIB);
	uint64_t lens[] = {65537, 70000, STORE_PART_BYTES + 4097, MIB, MIB + 1, 3 * MIB - 77};
	uint64_t bytes;

	for (unsigned how = 0; how < 2; how++) {
		sw->dram_bytes = 16 * MIB;
		ssd_world_again(sw);
		sw->s->straight = how ? SSD_STRAIGHT_NEVER : SSD_STRAIGHT_ALWAYS;
		bytes = 0;
		for (uint32_t i = 0; i < ARRAY_SIZE(lens); i++) {
			assert_int_equal(world_put(&sw->w, 10 * how + i, 1, lens[i]), 0);
			bytes += lens[i];
		}
		assert_int_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
		assert_int_equal(sw->s->straight_written, how ? 0 : bytes);
		sw->dram_bytes = 0;
		ssd_world_again(sw);
		for (uint32_t i = 0; i < ARRAY_SIZE(lens); i++)
			assert_int_equal(world_get(&sw->w, 10 * how + i, 1, lens[i]), 0);
		assert_int_equal(sw->w.nr_alerts, 0);
	}
	ssd_world_destroy(sw);
}

/* Memory that has changed before it is written is memory's fault, and told: a miss. */
static void straight_writes_changed(void **state)
{
	struct ssd_world *sw = ssd_world_create(96 * MIB, 8 * MIB);
	struct store_health health = {0};
	struct world_io get;
	struct mem_run run;

	for (unsigned how = 0; how < 2; how++) {
		get = (struct world_io){.io = {.op = STORE_GET, .key = world_key(1), .len = 1}};
		sw->dram_bytes = 16 * MIB;
		ssd_world_again(sw);
		sw->s->straight = how ? SSD_STRAIGHT_NEVER : SSD_STRAIGHT_ALWAYS;
		for (uint32_t i = 0; i < 3; i++)
			assert_int_equal(world_put(&sw->w, i, 1, 2 * MIB), 0);
		assert_int_equal(world_run(&sw->w, 0, &get), 0);
		must(store_runs(&get.io.view, MIB + 70000, &run, 1) == 1);
		*(uint8_t *)world_run_ptr(&run) ^= 4;
		store_release(&get.io.view, get.io.view.st->owner, NULL);
		assert_int_equal(world_op(&sw->w, STORE_FLUSH, 0), -ENOSPC);
		assert_int_equal(sw->w.nr_alerts, 1);
		assert_int_equal(dram_stats(sw).bad_seals, 1);
		ssd_health_get(&sw->s->st, &health);
		for (unsigned i = 0; i < STORE_NR_ERRORS; i++)
			assert_int_equal(health.errors[i], 0);
		assert_int_equal(sw->s->health.bad.nr, 0);
		assert_int_equal(world_get(&sw->w, 1, 1, 2 * MIB), -ENOENT);
		assert_int_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
		sw->dram_bytes = 0;
		ssd_world_again(sw);
		assert_int_equal(world_get(&sw->w, 0, 1, 2 * MIB), 0);
		assert_int_equal(world_get(&sw->w, 1, 1, 2 * MIB), -ENOENT);
		assert_int_equal(world_get(&sw->w, 2, 1, 2 * MIB), 0);
		assert_int_equal(sw->w.nr_alerts, 0);
	}
	ssd_world_destroy(sw);
}

/* What is written next was looked at while the device is busy, so that it has it at once. */
static void straight_writes_ahead(void **state)
{
	struct ssd_world *sw = ssd_world_create(96 * MIB, 8 * MIB);
	struct world_io flush = {.io = {.op = STORE_FLUSH}};
	unsigned nr = 0;

	sw->dram_bytes = 16 * MIB;
	ssd_world_again(sw);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(world_put(&sw->w, i, 1, MIB), 0);
	world_start(&sw->w, 0, &flush);
	while (!flush.is_over) {
		world_step(&sw->w);
		for (unsigned i = 0; i < SSD_STREAMS; i++) {
			struct ssd_stream *st = &sw->s->stream[i];

			if (st->nr_writing < SSD_DEPTH || list_is_empty(&st->queue))
				continue;
			assert_true(
				list_first_entry(&st->queue, struct ssd_unit, node)->is_checked);
			nr++;
		}
	}
	assert_int_equal(flush.res, 0);
	assert_true(nr > 0);
	assert_int_equal(sw->s->straight_written, 10 * MIB);
	ssd_world_destroy(sw);
}

/* Puts and dels pass while values come straight: what is found is never older than they. */
static void straight_race(void **state)
{
	struct ssd_world *sw = ssd_world_create(96 * MIB, 8 * MIB);
	struct world_io put = {.is_over = true};
	struct reader r;
	uint64_t gen = 1;

	sw->dram_bytes = 2 * MIB;
	sw->delay_max_ns = 200000;
	ssd_world_again(sw);
	for (uint32_t i = 0; i < 60; i++) {
		gen++;
		assert_int_equal(world_put(&sw->w, 1, gen, 700000 + gen), 0);
		/* The other one pushes it out of memory. */
		assert_int_equal(world_put(&sw->w, 2, 1, 900000), 0);
		assert_int_equal(world_put(&sw->w, 3, 1, 900000), 0);
		reader_start_gen(sw, &r, 1, true, gen);
		put.io = (struct store_io){.op = STORE_DEL, .key = world_key(1)};
		world_start(&sw->w, 0, &put);
		world_until(&sw->w, &r.is_over);
		world_until(&sw->w, &put.is_over);
		assert_true(r.res == 0 || r.res == -ENOENT || r.res == -ESTALE);
		assert_int_equal(world_get(&sw->w, 1, gen, 700000 + gen), -ENOENT);
	}
	ssd_world_destroy(sw);
}

/* Memory above that a late read may still write to isn't given to others. */
static void straight_late(void **state)
{
	struct ssd_world *sw = ssd_world_create(96 * MIB, 8 * MIB);
	struct reader r[8];

	for (uint32_t i = 0; i < 40; i++)
		assert_int_equal(world_put(&sw->w, i, 1, MIB - i), 0);
	sw->dram_bytes = 8 * MIB;
	sw->delay_max_ns = 20000000;
	sw->o.read_max_ns = 10000000;
	ssd_world_again(sw);
	for (uint32_t i = 0; i < 200; i++) {
		for (uint32_t k = 0; k < ARRAY_SIZE(r); k++)
			reader_start(sw, &r[k], (i * 8 + k) % 40, true);
		for (uint32_t k = 0; k < ARRAY_SIZE(r); k++) {
			world_until(&sw->w, &r[k].is_over);
			assert_true(r[k].res == 0 || r[k].res == -ENOENT);
		}
	}
	assert_true(ssd_world_stats(sw).late > 0);
	assert_int_equal(sw->w.nr_alerts, 0);
	ssd_world_destroy(sw);
}

/* The end comes while reads that nobody waits for are under way. */
static void late_at_the_end(void **state)
{
	struct ssd_world *sw = ssd_world_create(96 * MIB, 8 * MIB);
	struct reader r;

	assert_int_equal(world_put(&sw->w, 1, 1, 2 * MIB), 0);
	sw->delay_max_ns = 200000000;
	sw->o.read_max_ns = 2000000;
	ssd_world_again(sw);
	reader_start(sw, &r, 1, true);
	world_until(&sw->w, &r.is_over);
	assert_int_equal(r.res, -ENOENT);
	assert_true(sw->s->nr_late > 0);
	ssd_world_destroy(sw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges),	   cmocka_unit_test(eager),
		cmocka_unit_test(replaced),	   cmocka_unit_test(too_late),
		cmocka_unit_test(late_at_the_end), cmocka_unit_test(straight),
		cmocka_unit_test(straight_race),   cmocka_unit_test(straight_late),
		cmocka_unit_test(straight_writes), cmocka_unit_test(straight_writes_ahead),
		cmocka_unit_test(sectors),	   cmocka_unit_test(straight_writes_changed),
		cmocka_unit_test(staging),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
