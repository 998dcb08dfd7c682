/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the segments together say about each key: of several records the highest version counts, of
 * equal ones the one written later, and tombstones take what they kill; as a recovery does it. See
 * ssd_fsck.h.
 * tidy: no-test: t_ssd_fsck.c has it
 *
 * One part of the keys at a time, by hash, as many as the table holds. If a part turns out too
 * large, all parts are cut in two; the part that was next is then the first of its two.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/parse.h"
#include "store/ssd/ssd_fsck_int.h"

struct fsck_slot {
	uint8_t key[16];
	uint64_t ver; /* of the value that counts; seg UINT32_MAX: only tombstones were seen */
	uint64_t tomb_ver;
	uint32_t seg;
	uint32_t off;
	uint32_t len;
	uint8_t key_len; /* 0: free */
	bool has_tomb;
};

static bool key_is_ours(const struct fsck *f, const struct ssd_rec_info *ri)
{
	if (ri->kind == SSD_REC_VOID || !ri->key.len)
		return false;
	return (uint64_t)((__uint128_t)ri->key.hash * f->nr_parts >> 64) == f->part;
}

static struct fsck_slot *key_slot(const struct fsck *f, const struct ssd_rec_info *ri)
{
	uint32_t i = (uint32_t)ri->key.hash & (f->nr_slots - 1);
	struct fsck_slot *s;

	for (;; i = (i + 1) & (f->nr_slots - 1)) {
		s = &f->slots[i];
		if (!s->key_len || (s->key_len == ri->key.len && !memcmp(s->key, ri->key.b, 16)))
			return s;
	}
}

static void key_put(struct fsck *f, uint32_t seg, const struct ssd_rec_info *ri, uint32_t off)
{
	struct fsck_slot *s;

	if (f->is_full || !key_is_ours(f, ri))
		return;
	s = key_slot(f, ri);
	if (!s->key_len) {
		if (f->nr_keys == f->nr_slots / 4 * 3) {
			f->is_full = true;
			return;
		}
		f->nr_keys++;
		memcpy(s->key, ri->key.b, 16);
		s->key_len = ri->key.len;
		s->seg = FSCK_NO_SEG;
	}
	if (ri->kind == SSD_REC_TOMB) {
		s->has_tomb = true;
		s->tomb_ver = max_t(uint64_t, s->tomb_ver, ri->ver);
		return;
	}
	if (s->seg != FSCK_NO_SEG) {
		uint64_t mine = f->segs[seg].epoch, its = f->segs[s->seg].epoch;

		if (ri->ver != s->ver ? ri->ver < s->ver : mine != its ? mine < its : off < s->off)
			return;
	}
	s->ver = ri->ver;
	s->seg = seg;
	s->off = off;
	s->len = ri->value_len;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static bool key_is_bad(const struct fsck *f, uint32_t seg, uint32_t off)
{
	uint64_t place = fsck_place(seg, off);

	return f->bad.nr && bsearch(&place, f->bad.at, f->bad.nr, sizeof(place), compare_u64);
}

static enum ssd_fsck_fate key_fate(struct fsck *f, uint32_t seg, const struct ssd_rec_info *ri,
				   uint32_t off)
{
	const struct fsck_slot *s = key_slot(f, ri);
	uint64_t oldest = seg == f->min_seg ? f->min_epoch2 : f->min_epoch;

	if (ri->kind == SSD_REC_TOMB)
		return oldest <= ri->barrier ? SSD_FSCK_TOMB : SSD_FSCK_TOMB_SPENT;
	if (s->has_tomb && ri->ver < s->tomb_ver)
		return SSD_FSCK_DELETED;
	if (s->seg != seg || s->off != off)
		return SSD_FSCK_OLD;
	return key_is_bad(f, seg, off) ? SSD_FSCK_LOST : SSD_FSCK_LIVE;
}

/* Two records of one key and version are copies of each other. */
static void key_same(struct fsck *f, uint32_t seg, const struct ssd_rec_info *ri, uint32_t off)
{
	const struct fsck_slot *s = key_slot(f, ri);
	char key[PARSE_KEY_TEXT_BYTES];

	if (ri->kind != SSD_REC_VALUE || ri->ver != s->ver || ri->value_len == s->len)
		return;
	format_key(ri->key.b, ri->key.len, key);
	ssd_fsck_say(f, SSD_FSCK_DAMAGE, seg, fsck_addr(f, seg) + (uint64_t)off * SSD_GRANULE,
		     "key %s, version %llu: two values of one version", key,
		     (unsigned long long)ri->ver);
}

static void key_tell(struct fsck *f, uint32_t seg, const struct ssd_rec_info *ri, uint32_t off)
{
	struct ssd_fsck_entry e = {
		.key_len = ri->key.len,
		.ver = ri->ver,
		.addr = fsck_addr(f, seg) + (uint64_t)off * SSD_GRANULE,
		.seg = seg,
		.value_bytes = ri->kind == SSD_REC_VALUE ? ri->value_len : 0,
	};

	if (!key_is_ours(f, ri))
		return;
	key_same(f, seg, ri, off);
	e.fate = key_fate(f, seg, ri, off);
	memcpy(e.key, ri->key.b, 16);
	f->t->nr[e.fate]++;
	f->t->bytes[e.fate] += e.value_bytes;
	if (f->o->ops && f->o->ops->entry)
		f->o->ops->entry(f->o->arg, &e);
}

static void key_lines(struct fsck *f, fsck_line_fn *fn)
{
	for (uint32_t i = 0; i < f->super.nr_segs; i++)
		if (f->segs[i].state == SSD_FSCK_OPEN || f->segs[i].state == SSD_FSCK_SEALED ||
		    f->segs[i].state == SSD_FSCK_CLOSED)
			ssd_fsck_seg_lines(f, i, fn);
}

int ssd_fsck_key_all(struct fsck *f)
{
	uint32_t want = f->o->max_keys ? f->o->max_keys : FSCK_KEYS_DFLT;

	for (f->nr_slots = 64; f->nr_slots < want; f->nr_slots *= 2)
		;
	f->slots = calloc(f->nr_slots, sizeof(*f->slots));
	if (!f->slots)
		return -ENOMEM;
	for (f->part = 0, f->nr_parts = 1; f->part < f->nr_parts;) {
		memset(f->slots, 0, f->nr_slots * sizeof(*f->slots));
		f->nr_keys = 0;
		f->is_full = false;
		key_lines(f, key_put);
		if (!f->is_full) {
			key_lines(f, key_tell);
			f->part++;
		} else if (f->nr_parts > UINT32_MAX / 2) {
			break; /* that many keys of one hash don't exist */
		} else {
			f->part *= 2;
			f->nr_parts *= 2;
		}
	}
	free(f->slots);
	return 0;
}
