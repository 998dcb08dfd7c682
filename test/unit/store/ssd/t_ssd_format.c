/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssd_format.c: what goes in comes out; whatever bit is turned over, it doesn't.
 */
#include "unit.h"

#include "base/container.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/le.h"
#include "base/rng.h"
#include "store/ssd/ssd_format.h"

static const struct ssd_bind bind_here = {.epoch = 7, .salt = 0x1234567887654321, .addr = 1 << 20};
static const uint8_t uuid[16] = {1, 2, 3};

static struct ssd_super_info super_info(void)
{
	return (struct ssd_super_info){
		.uuid = {1, 2, 3},
		.owner = {4, 5},
		.generation = 9,
		.file_bytes = 64 << 20,
		.seg_bytes = 1 << 20,
		.nr_segs = 62,
		.nr_shards = 4,
		.shard = 3,
		.name = "kv",
		.nr_dead = 2,
		.dead = {5, 61},
	};
}

static void super_round(void **state)
{
	struct ssd_super_info in = super_info(), out;
	uint8_t image[SSD_BLOCK];

	ssd_format_super(&in, image);
	assert_int_equal(ssd_format_super_check(image, &out), 0);
	assert_memory_equal(&in, &out, sizeof(in));
	for (unsigned bit = 0; bit < SSD_BLOCK * 8; bit++) {
		image[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_true(ssd_format_super_check(image, &out) < 0);
		image[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

/* Whatever a newer version has changed but magic and version. */
static void super_newer(void **state)
{
	struct ssd_super_info in = super_info(), out;
	uint8_t image[SSD_BLOCK];

	ssd_format_super(&in, image);
	memset(image + 12, 0xee, SSD_BLOCK - 12);
	le32_put(image + 8, SSD_VERSION + 1);
	assert_int_equal(ssd_format_super_check(image, &out), -EPROTONOSUPPORT);
	le32_put(image + 8, SSD_VERSION);
	assert_int_equal(ssd_format_super_check(image, &out), -EINVAL);
}

static void super_bad_geometry(void **state)
{
	struct ssd_super_info in = super_info(), out;
	uint8_t image[SSD_BLOCK];

	in.nr_segs = 64;
	ssd_format_super(&in, image);
	assert_int_equal(ssd_format_super_check(image, &out), -EINVAL);
	in = super_info();
	in.shard = 4;
	ssd_format_super(&in, image);
	assert_int_equal(ssd_format_super_check(image, &out), -EINVAL);
}

static void seg_round(void **state)
{
	struct ssd_bind out = {.addr = bind_here.addr};
	enum ssd_seg_kind kind;
	uint8_t image[SSD_BLOCK];

	ssd_format_seg(uuid, 0, SSD_SEG_CLOSED, &bind_here, image);
	assert_int_equal(ssd_format_seg_check(image, uuid, &kind, &out), 0);
	assert_int_equal(kind, SSD_SEG_CLOSED);
	assert_memory_equal(&out, &bind_here, sizeof(out));
	out.addr += SSD_BLOCK;
	assert_true(ssd_format_seg_check(image, uuid, &kind, &out) < 0);
	out.addr = bind_here.addr;
	for (unsigned bit = 0; bit < sizeof(struct ssd_seg_head) * 8; bit++) {
		image[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_true(ssd_format_seg_check(image, uuid, &kind, &out) < 0);
		image[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

static struct ssd_rec_info rec_info(const struct store_meta *meta, uint32_t len)
{
	struct ssd_rec_info ri = {
		.kind = SSD_REC_VALUE,
		.key = {.b = {9, 8, 7}, .len = 3},
		.ver = 77,
		.value_len = len,
		.meta = meta,
	};

	ri.payload_len = ssd_format_piece_len(len, 0);
	ri.nr_seals = ssd_format_seals(ri.payload_len);
	ri.payload_off = len > SSD_PACKED_MAX ? SSD_BLOCK
					      : ssd_format_rec_bytes(meta != NULL, ri.nr_seals);
	return ri;
}

static void rec_check_all(const struct store_meta *meta, uint32_t len)
{
	struct ssd_rec_info in = rec_info(meta, len), out;
	uint64_t seals[SSD_PIECE_SEALS], back[SSD_PIECE_SEALS];
	uint8_t image[SSD_BLOCK] = {0};
	uint32_t bytes = ssd_format_rec_bytes(meta != NULL, in.nr_seals);
	struct store_meta m;
	struct ssd_bind other;

	for (unsigned i = 0; i < SSD_PIECE_SEALS; i++)
		seals[i] = i * 0x9E3779B97F4A7C15ull;
	ssd_format_rec(&in, seals, &bind_here, image);
	assert_int_equal(ssd_format_rec_check(image, SSD_BLOCK, &bind_here, &out), 0);
	assert_int_equal(out.ver, 77);
	assert_int_equal(out.value_len, len);
	assert_int_equal(out.payload_off, in.payload_off);
	ssd_format_rec_seals(image, &out, back);
	assert_memory_equal(seals, back, in.nr_seals * sizeof(seals[0]));
	ssd_format_rec_meta(image, &out, &m);
	if (meta)
		assert_memory_equal(&m, meta, sizeof(m));
	for (uint32_t room = 0; room < bytes; room++)
		assert_true(ssd_format_rec_check(image, room, &bind_here, &out) < 0);
	for (unsigned bit = 0; bit < bytes * 8; bit++) {
		image[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_true(ssd_format_rec_check(image, SSD_BLOCK, &bind_here, &out) < 0);
		image[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	for (unsigned i = 0; i < 3; i++) {
		other = bind_here;
		*(i == 0 ? &other.epoch : i == 1 ? &other.salt : &other.addr) += 64;
		assert_true(ssd_format_rec_check(image, SSD_BLOCK, &other, &out) < 0);
	}
}

static void rec_round(void **state)
{
	struct store_meta meta = {.parent = {1}, .parent_len = 1, .cls = 3, .seq = 5, .tag = {6}};

	rec_check_all(NULL, 1);
	rec_check_all(NULL, 65536);
	rec_check_all(&meta, 4096);
	rec_check_all(&meta, 65537);
	rec_check_all(&meta, 128 << 20);
}

/* Whole, with a checksum that fits, and yet nothing that we ever wrote. */
static void rec_insane(void **state)
{
	struct ssd_rec_info in = rec_info(NULL, 4096), out;
	uint64_t seals[SSD_PIECE_SEALS] = {0};
	uint8_t image[SSD_BLOCK];

	in.payload_off += 8;
	ssd_format_rec(&in, seals, &bind_here, image);
	assert_true(ssd_format_rec_check(image, SSD_BLOCK, &bind_here, &out) < 0);
	in = rec_info(NULL, 4096);
	in.key.len = 17;
	ssd_format_rec(&in, seals, &bind_here, image);
	assert_true(ssd_format_rec_check(image, SSD_BLOCK, &bind_here, &out) < 0);
	in = rec_info(NULL, 4096);
	in.piece = 1;
	ssd_format_rec(&in, seals, &bind_here, image);
	assert_true(ssd_format_rec_check(image, SSD_BLOCK, &bind_here, &out) < 0);
}

static void footer_round(void **state)
{
	struct ssd_rec_info in = rec_info(NULL, 4096), out;
	struct ssd_footer f;
	uint32_t index, nr, off;

	in.key.hash = hash_key(in.key.b, in.key.len);
	memset(&f, 0xaa, sizeof(f));
	ssd_format_line(&in, 123, &f.line[0]);
	ssd_format_footer(&f, 2, 5, 1, &bind_here);
	assert_int_equal(ssd_format_footer_check(&f, &bind_here, &index, &nr), 1);
	assert_int_equal(index, 2);
	assert_int_equal(nr, 5);
	assert_true(ssd_format_line_get(&f.line[0], &out, &off));
	assert_int_equal(off, 123);
	assert_true(store_key_equal(&out.key, &in.key));
	assert_int_equal(out.key.hash, in.key.hash);
	assert_false(ssd_format_line_get(&f.line[1], &out, &off));
	for (unsigned bit = 0; bit < SSD_BLOCK * 8; bit++) {
		((uint8_t *)&f)[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_true(ssd_format_footer_check(&f, &bind_here, &index, &nr) < 0);
		((uint8_t *)&f)[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	/* Whoever goes above what was found must find room there. */
	in.ver = SSD_VER_MAX;
	ssd_format_line(&in, 123, &f.line[0]);
	assert_true(ssd_format_line_get(&f.line[0], &out, &off));
	in.ver++;
	ssd_format_line(&in, 123, &f.line[0]);
	assert_false(ssd_format_line_get(&f.line[0], &out, &off));
}

/* Nothing that random bytes say may lead outside. */
static void garbage(void **state)
{
	struct ssd_super_info si;
	struct ssd_rec_info ri;
	uint8_t image[SSD_BLOCK];
	enum ssd_seg_kind kind;
	struct ssd_bind b;
	uint32_t index, nr;
	struct rng rng;

	rng_init(&rng, unit_seed(3));
	for (unsigned i = 0; i < 2000; i++) {
		rng_fill(&rng, image, sizeof(image));
		assert_true(ssd_format_super_check(image, &si) < 0);
		assert_true(ssd_format_seg_check(image, uuid, &kind, &b) < 0);
		assert_true(ssd_format_rec_check(image, SSD_BLOCK, &bind_here, &ri) < 0);
		assert_true(ssd_format_footer_check((struct ssd_footer *)image, &bind_here, &index,
						    &nr) < 0);
	}
}

static void sizes(void **state)
{
	assert_int_equal(ssd_format_pieces(65536), 1);
	assert_int_equal(ssd_format_pieces(65537), 1);
	assert_int_equal(ssd_format_pieces((1 << 20) + 1), 2);
	assert_int_equal(ssd_format_piece_len((1 << 20) + 1, 1), 1);
	assert_int_equal(ssd_format_piece_len((1 << 20) + 1, 2), 0);
	assert_int_equal(ssd_format_value_bytes(1 << 20, true), (1 << 20) + SSD_BLOCK);
	assert_int_equal(ssd_format_value_bytes((1 << 20) + 1, true), (1 << 20) + 3 * SSD_BLOCK);
	assert_int_equal(ssd_format_value_bytes(4096, false), 4096 + 192);
}

/* A file with company is of a version that those who don't know of such refuse. */
static void test_roster(void **state)
{
	struct ssd_super_info si = {.file_bytes = 64 << 20,
				    .seg_bytes = 1 << 20,
				    .nr_segs = 60,
				    .nr_shards = 1,
				    .roster = {.life = 7, .nr = 2, .present = 1}},
			      out;
	static const uint8_t bad[][2] = {{184, 9}, {184, 0}, {185, 4}};
	uint8_t image[SSD_BLOCK];

	si.roster.member[0].id = 11;
	si.roster.member[0].folder = 12;
	si.roster.member[1].id = 13;
	si.roster.member[1].folder = UINT64_MAX;
	ssd_format_super(&si, image);
	assert_int_equal(image[8], 2);
	assert_int_equal(ssd_format_super_check(image, &out), 0);
	assert_memory_equal(&out.roster, &si.roster, sizeof(si.roster));
	/* Whatever its checksum says, nothing in it leads outside. */
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		ssd_format_super(&si, image);
		image[bad[i][0]] = bad[i][1];
		memset(image + 12, 0, 4);
		le32_put(image + 12, hash_crc32c(image, SSD_BLOCK, 0));
		assert_int_equal(ssd_format_super_check(image, &out), -EINVAL);
	}
	si.roster = (struct ssd_roster){0};
	ssd_format_super(&si, image);
	assert_int_equal(image[8], 1);
	assert_int_equal(ssd_format_super_check(image, &out), 0);
	assert_int_equal(out.roster.life, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(super_round),	      cmocka_unit_test(super_newer),
		cmocka_unit_test(super_bad_geometry), cmocka_unit_test(seg_round),
		cmocka_unit_test(rec_round),	      cmocka_unit_test(rec_insane),
		cmocka_unit_test(footer_round),	      cmocka_unit_test(garbage),
		cmocka_unit_test(test_roster),	      cmocka_unit_test(sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
