/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images of an ssd tier: a good one (values long and short, some put over, some deleted, segments
 * sealed and not) is edited as the bytes say, opened, and read. Whatever was done to it, nothing
 * goes out of bounds, and a value that is served is one that was put under that key - unless the
 * edits included making checksums right again, which is more than any fault does: then only the
 * first holds.
 *
 *     edit: what (1), block (2), offset in it or other block (2), byte (1)
 */
#include "ssd_world.h"

#include "base/le.h"
#include "store/store_make.h"

#define NR_KEYS 48u
#define NR_GENS 3u
#define IMAGE_BYTES (3u << 20)
#define EDIT_BYTES 6u
#define EDITS_MAX 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct ssd_world *sw;
static uint8_t *image;

static uint64_t len_of(uint32_t no, uint64_t gen)
{
	return no % 16 == 5 ? 66000 + gen * 1000 : 100 + no * 37 + gen * 11;
}

static void put_all(void)
{
	for (uint64_t gen = 1; gen <= NR_GENS; gen++)
		for (uint32_t no = 0; no < NR_KEYS; no++)
			if (no % NR_GENS + gen <= NR_GENS)
				must(world_put(&sw->w, no, gen, len_of(no, gen)) == 0);
	for (uint32_t no = 0; no < NR_KEYS; no += 7)
		world_op(&sw->w, STORE_DEL, no);
}

static void make(void)
{
	sw = calloc(1, sizeof(*sw));
	image = malloc(IMAGE_BYTES);
	must(sw && image);
	fake_disk_init(&sw->disks, 0, IMAGE_BYTES, 1);
	sw->o = (struct store_ssd_opts){
		.name = "fuzz",
		.segment_bytes = 128 << 10,
		.max_keys = 1024,
		.value_max = 1 << 20,
		.nr_shards = 1,
		.seed = 1,
	};
	must(ssd_world_begin(sw) == 0);
	put_all();
	/* As a kill leaves it: open segments have no footer. */
	memcpy(image, ssd_world_disk(sw)->now, IMAGE_BYTES);
	ssd_world_end(sw);
}

/* ---- edits ----------------------------------------------------------------------------------- */

static void fix_crc(uint8_t *p, uint32_t bytes, uint32_t at)
{
	le32_put(p + at, 0);
	le32_put(p + at, hash_crc32c(p, bytes, 0));
}

/* Whatever the block seems to be, its checksum fits again. */
static void fix(uint8_t *block)
{
	if (memcmp(block, "PealSSD", 8) == 0)
		fix_crc(block, SSD_BLOCK, offsetof(struct ssd_super, crc));
	else if (memcmp(block, "PealSeg", 8) == 0)
		fix_crc(block, sizeof(struct ssd_seg_head), offsetof(struct ssd_seg_head, crc));
	else if (memcmp(block, "PFoo", 4) == 0)
		fix_crc(block, SSD_BLOCK, offsetof(struct ssd_footer, crc));
	else if (memcmp(block, "PRec", 4) == 0)
		fix_crc(block, min_t(uint32_t, le16_get(block + 8), SSD_BLOCK),
			offsetof(struct ssd_rec, crc));
}

/* True: a checksum was made right. */
static bool edit(uint8_t *now, const uint8_t *e)
{
	uint32_t nr = IMAGE_BYTES / SSD_BLOCK;
	uint8_t *block = now + (uint64_t)(le16_get(e + 1) % nr) * SSD_BLOCK;
	const uint8_t *other = now + (uint64_t)(le16_get(e + 3) % nr) * SSD_BLOCK;

	switch (e[0] % 6) {
	case 0:
		block[le16_get(e + 3) % SSD_BLOCK] = e[5];
		return false;
	case 1:
		block[le16_get(e + 3) % SSD_BLOCK] ^= (uint8_t)(1u << e[5] % 8);
		return false;
	case 2:
		memmove(block, other, SSD_BLOCK);
		return false;
	case 3:
		memset(block, 0, SSD_BLOCK);
		return false;
	case 4:
		memcpy(block + (e[5] % 8) * FAKE_SECTOR, other + (e[5] % 8) * FAKE_SECTOR,
		       FAKE_SECTOR);
		return false;
	default:
		fix(block);
		return true;
	}
}

/* ---- reading --------------------------------------------------------------------------------- */

static void check(const struct store_view *v, const struct store_key *k, uint32_t no)
{
	must(v->off + v->len <= v->value_len && world_seals_fit(v, k));
	for (uint64_t gen = 1; gen <= NR_GENS; gen++)
		if (v->value_len == len_of(no, gen) && world_is_gen(v, k, gen))
			return;
	must_not_reach(); /* never put under this key */
}

static void read_all(bool is_forged)
{
	for (uint32_t no = 0; no < NR_KEYS; no++) {
		struct world_io wi = {
			.io = {.op = STORE_GET, .key = world_key(no), .len = UINT32_MAX}};

		if (world_run(&sw->w, 0, &wi))
			continue;
		if (!is_forged)
			check(&wi.io.view, &wi.io.key, no);
		store_release(&wi.io.view, sw->w.r[0], NULL);
	}
	/* It goes on working, too. */
	world_put(&sw->w, 1, 1, 500);
	world_op(&sw->w, STORE_DEL, 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool is_forged = false;
	struct fake_disk *d;

	if (!sw)
		make();
	d = ssd_world_disk(sw);
	memcpy(d->now, image, IMAGE_BYTES);
	for (size_t i = 0; i < EDITS_MAX && (i + 1) * EDIT_BYTES <= size; i++)
		is_forged |= edit(d->now, data + i * EDIT_BYTES);
	if (ssd_world_begin(sw))
		return 0;
	read_all(is_forged);
	ssd_world_end(sw);
	return 0;
}
