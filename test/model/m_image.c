/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small image of an ssd tier with every one of its bits turned over, and ended at each of its
 * sectors. However it is damaged, it opens or is refused; what is served is the value that was
 * put, exactly; and a bit costs at most entries of the segment that it lies in.
 *
 *     m_image [STEP]     each STEP-th bit and sector, 997 by default; 1: all, half an hour
 */
#include "ssd/ssd_world.h"

#include "base/container.h"
#include "store/store_make.h"

#define NR_KEYS 40u
#define IMAGE_BYTES ((2u << 20) + 4096)

static struct ssd_world *sw;
static uint8_t *image;
static uint32_t seg_of[NR_KEYS];

static uint64_t len_of(uint32_t no)
{
	return no == 7 ? 70000 : 100 + no * 41;
}

static void make(void)
{
	sw = calloc(1, sizeof(*sw));
	image = malloc(IMAGE_BYTES);
	must(sw && image);
	fake_disk_init(&sw->disks, 0, IMAGE_BYTES, 1);
	sw->o = (struct store_ssd_opts){
		.name = "image",
		.segment_bytes = 128 << 10,
		.max_keys = 256,
		.value_max = 128 << 10,
		.nr_shards = 1,
		.seed = 1,
	};
	must(ssd_world_begin(sw) == 0);
	for (uint32_t no = 0; no < NR_KEYS; no++)
		must(world_put(&sw->w, no, 1, len_of(no)) == 0);
	must(world_op(&sw->w, STORE_FLUSH, 0) == 0);
	for (uint32_t no = 0; no < NR_KEYS; no++) {
		struct store_key k = world_key(no);
		struct ssd_entry *e = ssd_index_find(&sw->s->ix, &k);

		must(e);
		seg_of[no] = e->seg;
	}
	/* As a kill leaves it: one segment is sealed, others are open. */
	memcpy(image, ssd_world_disk(sw)->now, IMAGE_BYTES);
	ssd_world_end(sw);
}

static void restore(void)
{
	struct fake_disk *d = ssd_world_disk(sw);

	fake_disk_zero(d);
	memcpy(d->now, image, IMAGE_BYTES);
}

/* Keys that are there; each is read, and right. */
static uint64_t there(void)
{
	uint64_t mask = 0;

	for (uint32_t no = 0; no < NR_KEYS; no++) {
		struct world_io wi = {
			.io = {.op = STORE_GET, .key = world_key(no), .len = UINT32_MAX}};
		int res = world_run(&sw->w, 0, &wi);

		must(res == 0 || res == -ENOENT);
		if (res)
			continue;
		must(wi.io.view.value_len == len_of(no) &&
		     world_seals_fit(&wi.io.view, &wi.io.key) &&
		     world_is_gen(&wi.io.view, &wi.io.key, 1));
		store_release(&wi.io.view, sw->w.r[0], NULL);
		mask |= 1ull << no;
	}
	return mask;
}

/* The segment that holds a byte; UINT32_MAX: none does. */
static uint32_t segment(uint64_t at)
{
	uint64_t no = (at - SSD_HEAD_BYTES) / (128 << 10);

	return at < SSD_HEAD_BYTES || no >= (IMAGE_BYTES - SSD_HEAD_BYTES) / (128 << 10)
		       ? UINT32_MAX
		       : (uint32_t)no;
}

static uint32_t flip(uint64_t bit)
{
	uint64_t at = bit / 8, mask;
	uint32_t nr_lost = 0;

	restore();
	ssd_world_disk(sw)->now[at] ^= (uint8_t)(1u << bit % 8);
	must(ssd_world_begin(sw) == 0); /* one of two superblocks is whole */
	mask = there();
	ssd_world_end(sw);
	for (uint32_t no = 0; no < NR_KEYS; no++) {
		if (mask >> no & 1)
			continue;
		nr_lost++;
		if (seg_of[no] != segment(at)) {
			printf("bit %llu, in segment %u: key %u of segment %u is gone\n",
			       (unsigned long long)bit, segment(at), no, seg_of[no]);
			abort();
		}
	}
	return nr_lost;
}

/* Sectors that nobody has written say nothing, whatever is turned over in them. */
static bool is_blank(uint64_t at)
{
	static const uint8_t zeros[FAKE_SECTOR];

	return memcmp(image + align_down(at, FAKE_SECTOR), zeros, FAKE_SECTOR) == 0;
}

static bool cut(uint64_t bytes)
{
	struct fake_disk *d = ssd_world_disk(sw);
	int err;

	restore();
	d->dev.bytes = max_t(uint64_t, align_down(bytes, 4096), 4096);
	memset(d->now + bytes, 0, IMAGE_BYTES - bytes);
	err = ssd_world_begin(sw);
	if (!err) {
		there();
		ssd_world_end(sw);
	}
	d->dev.bytes = IMAGE_BYTES;
	return !err;
}

int main(int argc, char **argv)
{
	uint64_t step = argc > 1 ? strtoull(argv[1], NULL, 0) : 997, nr = 0, nr_lost = 0,
		 nr_cut = 0;
	uint64_t nr_opened = 0;

	must(step);
	make();
	for (uint64_t bit = 0; bit < IMAGE_BYTES * 8ull; bit += step) {
		if (is_blank(bit / 8)) {
			/* On to the first one of the next sector that is in step. */
			bit = div_round_up((bit / 8 / FAKE_SECTOR + 1) * FAKE_SECTOR * 8, step) *
				      step -
			      step;
			continue;
		}
		nr_lost += flip(bit);
		nr++;
	}
	for (uint64_t at = 0; at < IMAGE_BYTES; at += FAKE_SECTOR * div_round_up(step, 16)) {
		nr_opened += cut(at);
		nr_cut++;
	}
	printf("%llu bits turned over, %.2f entries lost for each; ended at %llu sectors, opened "
	       "%llu times; nothing wrong\n",
	       (unsigned long long)nr, nr ? (double)nr_lost / (double)nr : 0,
	       (unsigned long long)nr_cut, (unsigned long long)nr_opened);
	return 0;
}
