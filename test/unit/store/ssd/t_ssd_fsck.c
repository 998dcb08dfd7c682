/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssd_fsck.c and its parts: what it says of an image is what the tier then does with it. Each kind
 * of damage is named; of images with damage anywhere, a key is served exactly when the checker
 * said that its value is live.
 */
#include "ssd_world.h"

#include <sys/mman.h>
#include <unistd.h>

#include "store/ssd/ssd_fsck.h"
#include "store/ssd/ssd_recover_int.h"

#define NR_KEYS 160u
#define IMAGE_BYTES ((6u << 20) + 4096)

struct seen {
	struct ssd_fsck_total t;
	uint64_t nr_live_of[NR_KEYS];
	uint64_t small_at[64]; /* by segment: a live record's address */
	unsigned nr_supers, nr_segs, nr_entries;
	uint32_t tombs;
	char text[8192]; /* what was wrong, a line each */
};

static uint32_t len_of(uint32_t no)
{
	return no % 16 == 5 ? 70000 : 300 + no * 7;
}

static void seen_super(void *arg, const struct ssd_fsck_super *s)
{
	((struct seen *)arg)->nr_supers++;
}

static void seen_seg(void *arg, const struct ssd_fsck_seg *s)
{
	struct seen *se = arg;

	assert_int_equal(s->no, se->nr_segs);
	se->nr_segs++;
}

static void seen_entry(void *arg, const struct ssd_fsck_entry *e)
{
	struct seen *se = arg;

	se->nr_entries++;
	se->tombs += e->fate == SSD_FSCK_TOMB;
	if (e->fate == SSD_FSCK_LIVE && e->value_bytes < 65536 && e->seg < 64)
		se->small_at[e->seg] = e->addr;
	for (uint32_t no = 0; no < NR_KEYS; no++) {
		struct store_key k = world_key(no);

		if (e->fate == SSD_FSCK_LIVE && k.len == e->key_len && !memcmp(k.b, e->key, 16))
			se->nr_live_of[no]++;
	}
}

static void seen_problem(void *arg, const struct ssd_fsck_problem *p)
{
	struct seen *se = arg;
	size_t n = strlen(se->text);

	snprintf(se->text + n, sizeof(se->text) - n, "%s\n", p->text);
}

static int image_fd(const uint8_t *image, uint64_t bytes)
{
	int fd = memfd_create("t_ssd_fsck", MFD_CLOEXEC);

	assert_true(fd >= 0 && write(fd, image, bytes) == (ssize_t)bytes);
	return fd;
}

static int look_fd(struct seen *se, int fd, uint32_t max_keys)
{
	static const struct ssd_fsck_ops ops = {
		.super = seen_super,
		.segment = seen_seg,
		.entry = seen_entry,
		.problem = seen_problem,
	};
	struct ssd_fsck_opts o = {.ops = &ops, .arg = se, .has_data = true, .max_keys = max_keys};

	memset(se, 0, sizeof(*se));
	return ssd_fsck(fd, &o, &se->t);
}

static int look(struct seen *se, const uint8_t *image, uint64_t bytes, uint32_t max_keys)
{
	int fd = image_fd(image, bytes), err = look_fd(se, fd, max_keys);

	close(fd);
	return err;
}

/* Keys put, some put over, some deleted; segments sealed, two open. */
static struct ssd_world *filled(uint8_t *image)
{
	struct ssd_world *sw = ssd_world_create(IMAGE_BYTES, 256 << 10);

	for (uint32_t no = 0; no < NR_KEYS; no++)
		assert_int_equal(world_put(&sw->w, no, 1, len_of(no)), 0);
	for (uint32_t no = 0; no < NR_KEYS; no += 9)
		assert_int_equal(world_put(&sw->w, no, 2, len_of(no)), 0);
	for (uint32_t no = 3; no < NR_KEYS; no += 11)
		assert_int_equal(world_op(&sw->w, STORE_DEL, no), 0);
	assert_int_equal(world_op(&sw->w, STORE_FLUSH, 0), 0);
	memcpy(image, ssd_world_disk(sw)->now, IMAGE_BYTES);
	return sw;
}

/* Is the key served, in any of its generations? Anything else that is served is wrong. */
static bool is_served(struct ssd_world *sw, uint32_t no)
{
	struct world_io wi = {.io = {.op = STORE_GET, .key = world_key(no), .len = UINT32_MAX}};
	bool fits;

	if (world_run(&sw->w, 0, &wi))
		return false;
	fits = world_seals_fit(&wi.io.view, &wi.io.key) &&
	       (world_is_gen(&wi.io.view, &wi.io.key, 1) ||
		world_is_gen(&wi.io.view, &wi.io.key, 2));
	store_release(&wi.io.view, sw->w.r[0], NULL);
	world_settle(&sw->w);
	assert_true(fits);
	return true;
}

static void agree(struct ssd_world *sw, const struct seen *se)
{
	for (uint32_t no = 0; no < NR_KEYS; no++) {
		assert_true(se->nr_live_of[no] <= 1);
		if (is_served(sw, no) != se->nr_live_of[no])
			fail_msg("key %u: served %u, live %u; the checker said: %s", no,
				 is_served(sw, no), (unsigned)se->nr_live_of[no], se->text);
	}
}

static void clean(void **state)
{
	uint8_t *image = malloc(IMAGE_BYTES);
	struct ssd_world *sw = filled(image);
	struct seen *se = malloc(2 * sizeof(*se));

	/* As a kill leaves it, then as an end does. */
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(look(se, image, IMAGE_BYTES, 0), 0);
		assert_string_equal(se->text, "");
		assert_int_equal(se->nr_supers, 2);
		assert_int_equal(se->nr_segs, sw->s->nr_segs);
		assert_string_equal(se->t.super.name, "test");
		assert_int_equal(se->t.nr[SSD_FSCK_LIVE], ssd_world_stats(sw).nr_keys);
		assert_int_equal(se->t.bytes[SSD_FSCK_LIVE], ssd_world_stats(sw).value_bytes);
		assert_true(se->tombs > 0 && se->t.nr[SSD_FSCK_DELETED] > 0);
		agree(sw, se);
		/* A table that is much too small, so in many parts: the same. */
		assert_int_equal(look(se + 1, image, IMAGE_BYTES, 1), 0);
		assert_memory_equal(&se[0].t, &se[1].t, sizeof(se->t));
		assert_memory_equal(se[0].nr_live_of, se[1].nr_live_of, sizeof(se->nr_live_of));
		assert_int_equal(se[0].nr_entries, se[1].nr_entries);
		ssd_world_again(sw);
		memcpy(image, ssd_world_disk(sw)->now, IMAGE_BYTES);
	}
	ssd_world_destroy(sw);
	free(se);
	free(image);
}

/* ---- one damage at a time -------------------------------------------------------------------- */

/* The fullest segment in this state. */
static uint64_t seg_of_state(const struct ssd_world *sw, enum ssd_seg_state state)
{
	const struct ssd_seg *best = NULL;

	for (uint32_t i = 0; i < sw->s->nr_segs; i++)
		if (sw->s->segs[i].state == state &&
		    (!best || sw->s->segs[i].nr_entries > best->nr_entries))
			best = &sw->s->segs[i];
	assert_true(best && best->nr_entries > 0);
	return ssd_seg_addr(sw->s, (uint32_t)(best - sw->s->segs));
}

/* One bit of the byte at `at` turned over, and back. */
static void expect(int fd, uint64_t at, const char *says)
{
	struct seen *se = malloc(sizeof(*se));
	uint8_t byte;

	assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
	byte ^= 0x10;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
	assert_int_equal(look_fd(se, fd, 0), 0);
	if (!strstr(se->text, says))
		fail_msg("said '%s', expected '%s'", se->text, says);
	assert_true(se->t.nr_damages + se->t.nr_torn > 0);
	byte ^= 0x10;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
	free(se);
}

static void damages(void **state)
{
	uint8_t *image = malloc(IMAGE_BYTES);
	struct ssd_world *sw = filled(image);
	uint64_t sealed_at, open_at, sealed = seg_of_state(sw, SSD_SEALED),
				     open = seg_of_state(sw, SSD_OPEN);
	uint64_t seg_bytes = sw->s->super.seg_bytes, end = sealed + seg_bytes;
	struct seen *se = malloc(sizeof(*se));
	int fd = image_fd(image, IMAGE_BYTES);

	assert_int_equal(look_fd(se, fd, 0), 0);
	sealed_at = se->small_at[(sealed - SSD_HEAD_BYTES) / seg_bytes];
	open_at = se->small_at[(open - SSD_HEAD_BYTES) / seg_bytes];

	expect(fd, 200, "superblock A is damaged");
	expect(fd, IMAGE_BYTES - 5, "superblock B is damaged");
	expect(fd, sealed + 33, "the segment's head is damaged");
	expect(fd, open + 33, "the segment's head is damaged");
	for (uint32_t i = 0; i < 64; i++)
		expect(fd, end - SSD_BLOCK + i, "the footer is damaged");
	expect(fd, sealed_at + 70, "its record's head is damaged");
	expect(fd, sealed_at + 300, "its bytes don't fit their seal");
	expect(fd, open_at + 300, "its bytes don't fit their seal");
	close(fd);
	ssd_world_destroy(sw);
	free(se);
	free(image);
}

static void refused(void **state)
{
	uint8_t *image = calloc(1, IMAGE_BYTES);
	struct seen *se = malloc(sizeof(*se));
	struct ssd_world *sw;

	assert_int_equal(look(se, image, IMAGE_BYTES, 0), -ENODATA);
	assert_int_equal(look(se, image, 0, 0), -ENODATA);
	memset(image, 'x', IMAGE_BYTES);
	assert_int_equal(look(se, image, IMAGE_BYTES, 0), -EUCLEAN);
	assert_int_equal(se->t.nr_damages, 2);
	assert_int_equal(look(se, image, 700, 0), -EUCLEAN);
	sw = filled(image);
	image[8] = SSD_VERSION + 1;
	assert_int_equal(look(se, image, IMAGE_BYTES, 0), -EPROTONOSUPPORT);
	ssd_world_destroy(sw);
	free(se);
	free(image);
}

/* ---- the checker and the tier say the same --------------------------------------------------- */

static void damage(uint8_t *image, struct rng *rng)
{
	uint64_t nr = 1 + rng_below(rng, 6), at, other;

	for (uint64_t i = 0; i < nr; i++) {
		at = rng_below(rng, IMAGE_BYTES / SSD_BLOCK) * SSD_BLOCK;
		other = rng_below(rng, IMAGE_BYTES / SSD_BLOCK) * SSD_BLOCK;
		switch (rng_below(rng, 3)) {
		case 0:
			image[at + rng_below(rng, SSD_BLOCK)] ^= (uint8_t)(1 << rng_below(rng, 8));
			break;
		case 1:
			memcpy(image + at, image + other, SSD_BLOCK);
			break;
		default:
			memset(image + at, 0, FAKE_SECTOR * (1 + rng_below(rng, 8)));
		}
	}
}

/*
 * All footers are cleaned of what is dead, and a power cut tears one of a segment that was closed
 * before: so that it is whole with its copies and not without.
 */
static void being_closed(struct ssd_world *sw, uint8_t *image)
{
	struct fake_disk *d = ssd_world_disk(sw);

	for (uint32_t n = 0;; n++) {
		ssd_world_crash(sw, FAKE_KILL);
		for (uint32_t no = n % 5; no < NR_KEYS; no += 13)
			world_op(&sw->w, STORE_DEL, no);
		fake_disk_crash(d, FAKE_KILL);
		ssd_world_end(sw);
		fake_disk_revive(d);
		sw->is_early = true;
		assert_int_equal(ssd_world_begin(sw), 0);
		sw->is_early = false;
		sw->s->recover->has_refused = true;
		while (ssd_recover_is_reading(sw->s) &&
		       !(sw->s->recover->at == SSD_AT_PLACE && sw->s->recover->is_busy))
			world_step(&sw->w);
		fake_disk_crash(d, FAKE_CRASH_SECTOR);
		memcpy(image, d->now, IMAGE_BYTES);
		ssd_world_end(sw);
		fake_disk_revive(d);
		assert_int_equal(ssd_world_begin(sw), 0);
		if (sw->s->nr_copied)
			return;
		assert_true(n < 100);
	}
}

/*
 * 150 images with damage. `is_closed`: all footers are such of closed segments, some were being
 * written again when all ended.
 */
static void same_as(bool is_closed)
{
	uint8_t *image = malloc(IMAGE_BYTES), *copy = malloc(IMAGE_BYTES);
	struct ssd_world *sw = filled(image);
	struct seen *se = malloc(sizeof(*se));
	unsigned nr_refused = 0;
	struct rng rng;

	rng_init(&rng, unit_seed(5));
	if (is_closed)
		being_closed(sw, image);
	ssd_world_end(sw);
	for (unsigned n = 0; n < 150; n++) {
		memcpy(copy, image, IMAGE_BYTES);
		damage(copy, &rng);
		look(se, copy, IMAGE_BYTES, 1 + (uint32_t)rng_below(&rng, 300));
		memcpy(ssd_world_disk(sw)->now, copy, IMAGE_BYTES);
		if (ssd_world_begin(sw)) {
			nr_refused++;
			assert_true(se->t.nr_damages > 0);
			continue;
		}
		agree(sw, se);
		ssd_world_end(sw);
	}
	print_message("150 images, %u refused\n", nr_refused);
	fake_disk_fini(ssd_world_disk(sw));
	free(sw);
	free(se);
	free(copy);
	free(image);
}

static void same_as_tier(void **state)
{
	same_as(false);
	same_as(true);
}

/* ---- footers that are written again ---------------------------------------------------------- */

/*
 * Of a footer that a crash has torn whole blocks count, and the copies of the others; with these
 * damaged, too, its tombstones are left.
 */
static void copies(void **state)
{
	uint8_t *image = malloc(IMAGE_BYTES);
	struct ssd_world *sw = filled(image);
	struct seen *se = malloc(2 * sizeof(*se));
	struct fake_disk *d = ssd_world_disk(sw);

	being_closed(sw, image);
	ssd_world_end(sw);
	assert_int_equal(look(&se[0], image, IMAGE_BYTES, 0), 0);
	if (!strstr(se[0].text, "it is whole with the copies of its blocks"))
		fail_msg("said '%s'", se[0].text);
	assert_int_equal(se[0].t.nr_damages, 0);
	memcpy(d->now, image, IMAGE_BYTES);
	assert_int_equal(ssd_world_begin(sw), 0);
	assert_true(sw->s->nr_copied > 0);
	agree(sw, &se[0]);
	ssd_world_end(sw);
	memset(image + SSD_FOOT_COPY_ADDR, 0, (size_t)SSD_FOOT_COPIES * SSD_BLOCK);
	assert_int_equal(look(&se[1], image, IMAGE_BYTES, 0), 0);
	assert_non_null(strstr(se[1].text, "the values that it named are lost"));
	assert_true(se[1].t.nr[SSD_FSCK_LIVE] < se[0].t.nr[SSD_FSCK_LIVE]);
	assert_int_equal(se[1].t.nr[SSD_FSCK_TOMB] + se[1].t.nr[SSD_FSCK_TOMB_SPENT],
			 se[0].t.nr[SSD_FSCK_TOMB] + se[0].t.nr[SSD_FSCK_TOMB_SPENT]);
	memcpy(d->now, image, IMAGE_BYTES);
	assert_int_equal(ssd_world_begin(sw), 0);
	agree(sw, &se[1]);
	ssd_world_destroy(sw);
	free(se);
	free(image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clean),   cmocka_unit_test(damages),
		cmocka_unit_test(refused), cmocka_unit_test(same_as_tier),
		cmocka_unit_test(copies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
