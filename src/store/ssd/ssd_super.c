/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two superblocks: what the file is, who opened it last, which of its segments are dead. Of two
 * that are whole the higher generation counts; each change is written to both, one after the other,
 * so that one is always whole. Blocking, on the thread that builds the store.
 * tidy: no-test: t_ssd_recover.c has it
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/container.h"
#include "store/ssd/ssd_span.h"

#define SUPER_JUMP 1023u

/* As far apart as can be: one write that goes astray does not hit both. */
uint64_t ssd_super_addr(const struct ssd *s, unsigned i)
{
	return i ? align_down(s->dev->bytes, SSD_BLOCK) - SSD_BLOCK : 0;
}

static bool super_is_zero(const uint8_t *block)
{
	return block[0] == 0 && memcmp(block, block + 1, SSD_BLOCK - 1) == 0;
}

/* 0, or why there is none: -ENOENT both are zero, -EPROTONOSUPPORT, -EUCLEAN. */
static int super_read(struct ssd *s, uint8_t *block)
{
	struct ssd_super_info si;
	unsigned nr_zero = 0, nr_newer = 0, nr_good = 0;
	bool is_there = false;
	int err;

	for (unsigned i = 0; i < 2; i++) {
		err = s->dev->ops->read(s->dev, block, SSD_BLOCK, ssd_super_addr(s, i));
		if (err)
			continue;
		nr_zero += super_is_zero(block);
		err = ssd_format_super_check(block, &si);
		nr_newer += err == -EPROTONOSUPPORT;
		nr_good += !err;
		if (err || (is_there && si.generation < s->super.generation))
			continue;
		s->super = si;
		is_there = true;
	}
	/* One that is newer may be the one that counts. */
	if (nr_newer)
		return -EPROTONOSUPPORT;
	/* The other may have been ahead, and versions hang on the generation. */
	if (nr_good == 1)
		s->super.generation += SUPER_JUMP;
	return is_there ? 0 : nr_zero == 2 ? -ENOENT : -EUCLEAN;
}

int ssd_super_write(struct ssd *s)
{
	uint8_t *block = aligned_alloc(SSD_BLOCK, SSD_BLOCK);
	unsigned nr_good = 0;
	int err = -ENOMEM;

	if (!block)
		return err;
	s->super.generation++;
	ssd_format_super(&s->super, block);
	for (unsigned i = 0; i < 2; i++) {
		err = s->dev->ops->write(s->dev, block, SSD_BLOCK, ssd_super_addr(s, i));
		if (!err)
			err = s->dev->ops->sync(s->dev);
		nr_good += !err;
		ssd_health_wrote(s, STORE_WROTE_TABLES, SSD_BLOCK);
	}
	free(block);
	return nr_good ? 0 : err;
}

static void super_random(struct ssd *s, uint8_t id[16])
{
	uint64_t w[2] = {rng_u64(&s->rng), rng_u64(&s->rng)};

	memcpy(id, w, 16);
}

static uint64_t super_seg_bytes(const struct ssd *s)
{
	uint64_t bytes = s->opts.segment_bytes;

	if (!bytes)
		bytes = max_t(uint64_t, s->dev->bytes / 32, 1u << 20);
	/* The largest value shall fit, if the file has room for a few of them at all. */
	if (!s->opts.segment_bytes)
		bytes = max_t(
			uint64_t, bytes,
			min_t(uint64_t, s->dev->bytes / (SSD_SEGS_MIN + 2),
			      ssd_format_value_bytes(s->opts.value_max, true) + 8 * SSD_BLOCK));
	bytes = min_t(uint64_t, bytes, 256u << 20);
	return max_t(uint64_t, align_down(bytes, SSD_BLOCK), SSD_SEG_BYTES_MIN);
}

static int super_make(struct ssd *s)
{
	struct ssd_super_info *si = &s->super;
	uint64_t nr = 0;

	*si = (struct ssd_super_info){.file_bytes = s->dev->bytes};
	si->seg_bytes = super_seg_bytes(s);
	if (s->dev->bytes > SSD_HEAD_BYTES + SSD_BLOCK)
		nr = (s->dev->bytes - SSD_HEAD_BYTES - SSD_BLOCK) / si->seg_bytes;
	if (nr < SSD_SEGS_MIN)
		return -EINVAL;
	si->nr_segs = (uint32_t)min_t(uint64_t, nr, (1u << 20) - 1);
	si->nr_shards = (uint16_t)s->opts.nr_shards;
	si->shard = (uint16_t)s->opts.shard;
	strncpy(si->name, s->opts.name ? s->opts.name : "", sizeof(si->name) - 1);
	super_random(s, si->uuid);
	return 0;
}

/* Is it ours? Another namespace's, or one cut in other shards, is left alone. */
static int super_check(const struct ssd *s)
{
	const struct ssd_super_info *si = &s->super;

	if (si->file_bytes > s->dev->bytes)
		return -EUCLEAN;
	if (si->nr_shards != s->opts.nr_shards || si->shard != s->opts.shard ||
	    strncmp(si->name, s->opts.name ? s->opts.name : "", sizeof(si->name) - 1) ||
	    si->nr_segs < SSD_SEGS_MIN)
		return -EXDEV;
	return 0;
}

int ssd_super_peek(const struct store_ssd_opts *o, struct ssd_dev *dev, struct ssd_super_info *si)
{
	struct ssd *s = calloc(1, sizeof(*s));
	uint8_t *block = aligned_alloc(SSD_BLOCK, SSD_BLOCK);
	int err = -ENOMEM;

	if (s && block) {
		s->opts = *o;
		s->dev = dev;
		err = super_read(s, block);
		if (!err)
			err = super_check(s);
		*si = s->super;
	}
	free(block);
	free(s);
	return err;
}

/* What the roster has decided for it. Dropped means: under another id nothing in it counts. */
static void super_born(struct ssd *s, bool *is_new)
{
	const struct ssd_birth *b = s->opts.birth;

	if (!b)
		return;
	*is_new |= b->is_dropped;
	s->super.roster = b->roster;
	s->super.generation = max_t(uint64_t, s->super.generation, b->generation);
	if (*is_new)
		memcpy(s->super.uuid, b->uuid, sizeof(s->super.uuid));
}

int ssd_super_open(struct ssd *s, bool *is_new)
{
	uint8_t *block = aligned_alloc(SSD_BLOCK, SSD_BLOCK);
	int err = -ENOMEM;

	if (!block)
		return err;
	err = super_read(s, block);
	free(block);
	*is_new = err == -ENOENT;
	if (*is_new)
		err = super_make(s);
	else if (!err)
		err = super_check(s);
	if (err)
		return err;
	super_born(s, is_new);
	super_random(s, s->super.owner);
	s->opts.birth = NULL;
	return 0;
}

/* tidy: name: of store_make.h. Without the lock, before anybody has it: a look, and no more. */
int store_ssd_shards(const char *path)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct ssd_super_info si, best = {0};
	uint8_t block[SSD_BLOCK];
	off_t end, at[2] = {0};

	end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	if (end < 0)
		return -errno;
	at[1] = (off_t)align_down((uint64_t)end, SSD_BLOCK) - (off_t)SSD_BLOCK;
	for (unsigned i = 0; i < 2 && at[1] > 0; i++)
		if (pread(fd, block, sizeof(block), at[i]) == (ssize_t)sizeof(block) &&
		    !ssd_format_super_check(block, &si) && si.generation >= best.generation)
			best = si;
	return best.nr_shards ? best.nr_shards : -EINVAL;
}
