/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See ssd_format.h and doc/format.md. Pure functions.
 */
#include "store/ssd/ssd_format.h"

#include <errno.h>
#include <string.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/le.h"
#include "base/must.h"

static const uint8_t super_magic[8] = "PealSSD";
static const uint8_t seg_magic[8] = "PealSeg";
static const uint8_t rec_magic[4] = {'P', 'R', 'e', 'c'};
static const uint8_t footer_magic[4] = {'P', 'F', 'o', 'o'};

/* CRC of n bytes in which the four at `at` count as zero. */
static uint32_t format_crc(const uint8_t *p, uint32_t n, uint32_t at)
{
	static const uint8_t zero[4];
	uint32_t crc = hash_crc32c(p, at, 0);

	crc = hash_crc32c(zero, 4, crc);
	return hash_crc32c(p + at + 4, n - at - 4, crc);
}

/* ---- superblock ------------------------------------------------------------------------------ */

static void roster_put(struct ssd_super *s, const struct ssd_roster *r)
{
	le64_put(s->roster.life, r->life);
	s->roster.nr = r->nr;
	s->roster.present = r->present;
	for (unsigned i = 0; i < r->nr; i++) {
		le64_put(s->roster.member[i][0], r->member[i].id);
		le64_put(s->roster.member[i][1], r->member[i].folder);
	}
}

static bool roster_get(const struct ssd_super *s, struct ssd_roster *r)
{
	r->life = le64_get(s->roster.life);
	r->nr = s->roster.nr;
	r->present = s->roster.present;
	if (r->nr > SSD_ROSTER_MAX || (r->nr > 0) != (r->life > 0) || r->present >> r->nr)
		return false;
	for (unsigned i = 0; i < r->nr; i++) {
		r->member[i].id = le64_get(s->roster.member[i][0]);
		r->member[i].folder = le64_get(s->roster.member[i][1]);
	}
	return true;
}

void ssd_format_super(const struct ssd_super_info *si, uint8_t image[SSD_BLOCK])
{
	struct ssd_super *s = (struct ssd_super *)image;

	memset(s, 0, sizeof(*s));
	memcpy(s->magic, super_magic, 8);
	le32_put(s->version, si->roster.life ? SSD_VERSION : SSD_VERSION_ALONE);
	memcpy(s->uuid, si->uuid, 16);
	memcpy(s->owner, si->owner, 16);
	le64_put(s->generation, si->generation);
	le64_put(s->file_bytes, si->file_bytes);
	le64_put(s->seg_bytes, si->seg_bytes);
	le64_put(s->seg_first, SSD_HEAD_BYTES);
	le32_put(s->nr_segs, si->nr_segs);
	le16_put(s->nr_shards, si->nr_shards);
	le16_put(s->shard, si->shard);
	memcpy(s->name, si->name, sizeof(s->name));
	roster_put(s, &si->roster);
	le16_put(s->nr_dead, (uint16_t)si->nr_dead);
	for (uint32_t i = 0; i < si->nr_dead; i++)
		le32_put(s->dead[i], si->dead[i]);
	le32_put(s->crc, format_crc(image, SSD_BLOCK, offsetof(struct ssd_super, crc)));
}

static bool super_geometry_is_good(const struct ssd_super_info *si)
{
	return si->seg_bytes >= SSD_SEG_BYTES_MIN && si->seg_bytes <= SSD_SEG_BYTES_MAX &&
	       si->seg_bytes % SSD_BLOCK == 0 && si->nr_segs > 0 && si->nr_segs < 1u << 20 &&
	       si->file_bytes <= INT64_MAX &&
	       SSD_HEAD_BYTES + si->nr_segs * si->seg_bytes + SSD_BLOCK <= si->file_bytes &&
	       si->nr_dead <= SSD_DEAD_MAX && si->shard < si->nr_shards;
}

int ssd_format_super_check(const uint8_t image[SSD_BLOCK], struct ssd_super_info *si)
{
	const struct ssd_super *s = (const struct ssd_super *)image;
	struct ssd_super_info out = {0};

	if (memcmp(s->magic, super_magic, 8))
		return -EINVAL;
	/* Magic and version keep their place for ever, so that an older daemon knows to refuse. */
	if (le32_get(s->version) > SSD_VERSION)
		return -EPROTONOSUPPORT;
	if (le32_get(s->crc) != format_crc(image, SSD_BLOCK, offsetof(struct ssd_super, crc)))
		return -EINVAL;
	if (le16_get(s->cipher))
		return -EPROTONOSUPPORT;
	memcpy(out.uuid, s->uuid, 16);
	memcpy(out.owner, s->owner, 16);
	out.generation = le64_get(s->generation);
	out.file_bytes = le64_get(s->file_bytes);
	out.seg_bytes = le64_get(s->seg_bytes);
	out.nr_segs = le32_get(s->nr_segs);
	out.nr_shards = le16_get(s->nr_shards);
	out.shard = le16_get(s->shard);
	out.nr_dead = le16_get(s->nr_dead);
	memcpy(out.name, s->name, sizeof(out.name));
	out.name[sizeof(out.name) - 1] = 0;
	if (le64_get(s->seg_first) != SSD_HEAD_BYTES || !super_geometry_is_good(&out) ||
	    !roster_get(s, &out.roster))
		return -EINVAL;
	for (uint32_t i = 0; i < out.nr_dead; i++)
		out.dead[i] = le32_get(s->dead[i]);
	*si = out;
	return 0;
}

/* ---- segment head ---------------------------------------------------------------------------- */

void ssd_format_seg(const uint8_t uuid[16], uint32_t seg, enum ssd_seg_kind kind,
		    const struct ssd_bind *b, uint8_t image[SSD_BLOCK])
{
	struct ssd_seg_head *h = (struct ssd_seg_head *)image;

	memset(image, 0, SSD_BLOCK);
	memcpy(h->magic, seg_magic, 8);
	le32_put(h->version, SSD_VERSION_ALONE);
	memcpy(h->uuid, uuid, 16);
	le64_put(h->epoch, b->epoch);
	le64_put(h->salt, b->salt);
	le64_put(h->addr, b->addr);
	le64_put(h->low, b->low);
	le32_put(h->seg, seg);
	h->kind = (uint8_t)kind;
	le32_put(h->crc, format_crc(image, sizeof(*h), offsetof(struct ssd_seg_head, crc)));
}

int ssd_format_seg_check(const uint8_t image[SSD_BLOCK], const uint8_t uuid[16],
			 enum ssd_seg_kind *kind, struct ssd_bind *b)
{
	const struct ssd_seg_head *h = (const struct ssd_seg_head *)image;

	if (memcmp(h->magic, seg_magic, 8) || memcmp(h->uuid, uuid, 16) ||
	    le64_get(h->addr) != b->addr || h->kind < SSD_SEG_FREE || h->kind > SSD_SEG_CLOSED ||
	    le16_get(h->cipher) || le32_get(h->version) > SSD_VERSION_ALONE)
		return -EINVAL;
	if (le32_get(h->crc) != format_crc(image, sizeof(*h), offsetof(struct ssd_seg_head, crc)))
		return -EINVAL;
	*kind = h->kind;
	b->epoch = le64_get(h->epoch);
	b->salt = le64_get(h->salt);
	b->low = min_t(uint64_t, le64_get(h->low), b->epoch);
	return 0;
}

/* ---- records --------------------------------------------------------------------------------- */

uint32_t ssd_format_rec_bytes(bool has_meta, uint32_t nr_seals)
{
	return (uint32_t)sizeof(struct ssd_rec) + (has_meta ? SSD_META_BYTES : 0) + nr_seals * 8;
}

/* As they lie: parent, group, tag, parent_len, group_len, cls, cost_us, seq; four bytes spare. */
static void meta_put(uint8_t *p, const struct store_meta *m)
{
	memset(p, 0, SSD_META_BYTES);
	memcpy(p, m->parent, 16);
	memcpy(p + 16, m->group, 16);
	memcpy(p + 32, m->tag, 32);
	p[64] = m->parent_len;
	p[65] = m->group_len;
	le16_put(p + 66, m->cls);
	le32_put(p + 68, m->cost_us);
	le32_put(p + 72, m->seq);
}

void ssd_format_rec(const struct ssd_rec_info *ri, const uint64_t *seals, const struct ssd_bind *b,
		    uint8_t *image)
{
	struct ssd_rec *r = (struct ssd_rec *)image;
	bool has_meta = ri->meta != NULL;
	uint32_t len = ssd_format_rec_bytes(has_meta, ri->nr_seals), at = sizeof(*r);

	memset(image, 0, len);
	memcpy(r->magic, rec_magic, 4);
	le16_put(r->head_len, (uint16_t)len);
	r->kind = (uint8_t)ri->kind;
	r->key_len = ri->key.len;
	le32_put(r->flags,
		 (has_meta ? SSD_REC_HAS_META : 0) | (uint32_t)ri->copy << SSD_REC_COPY_SHIFT);
	le64_put(r->epoch, b->epoch);
	le64_put(r->salt, b->salt);
	le64_put(r->addr, b->addr);
	memcpy(r->key, ri->key.b, 16);
	le64_put(r->ver, ri->ver);
	le32_put(r->value_len, ri->value_len);
	le16_put(r->piece, (uint16_t)ri->piece);
	le32_put(r->payload_off, ri->payload_off);
	le32_put(r->payload_len, ri->payload_len);
	le64_put(r->barrier, ri->barrier);
	le16_put(r->nr_seals, (uint16_t)ri->nr_seals);
	if (has_meta) {
		meta_put(image + at, ri->meta);
		at += SSD_META_BYTES;
	}
	for (uint32_t i = 0; i < ri->nr_seals; i++)
		le64_put(image + at + i * 8ull, seals[i]);
	le32_put(r->crc, format_crc(image, len, offsetof(struct ssd_rec, crc)));
}

static bool rec_is_bound(const struct ssd_rec *r, const struct ssd_bind *b)
{
	return memcmp(r->magic, rec_magic, 4) == 0 && le64_get(r->addr) == b->addr &&
	       le64_get(r->epoch) == b->epoch && le64_get(r->salt) == b->salt;
}

/* Everything that later code counts on, whatever the CRC says. */
static bool rec_is_sane(const struct ssd_rec *r, const struct ssd_rec_info *ri)
{
	uint32_t head = ssd_format_rec_bytes(ri->has_meta, ri->nr_seals);

	if (ri->key.len < 1 || ri->key.len > 16 || le16_get(r->head_len) != head ||
	    le16_get(r->cipher) || le16_get(r->codec))
		return false;
	if (ri->kind == SSD_REC_TOMB)
		return ri->nr_seals == 0 && ri->payload_len == 0;
	if (ri->kind != SSD_REC_VALUE || ri->value_len > 128u << 20 ||
	    ri->piece >= ssd_format_pieces(ri->value_len))
		return false;
	return ri->payload_len == ssd_format_piece_len(ri->value_len, ri->piece) &&
	       ri->nr_seals == ssd_format_seals(ri->payload_len) &&
	       ri->payload_off == (ri->value_len > SSD_PACKED_MAX ? SSD_BLOCK : head);
}

int ssd_format_rec_check(const uint8_t *image, uint32_t room, const struct ssd_bind *b,
			 struct ssd_rec_info *out)
{
	const struct ssd_rec *r = (const struct ssd_rec *)image;
	struct ssd_rec_info ri = {0};
	uint32_t head;

	if (room < sizeof(*r) || !rec_is_bound(r, b))
		return -EINVAL;
	head = le16_get(r->head_len);
	if (head < sizeof(*r) || head > SSD_REC_HEAD_MAX || head > room ||
	    le32_get(r->crc) != format_crc(image, head, offsetof(struct ssd_rec, crc)))
		return -EINVAL;
	ri.kind = r->kind;
	ri.key.len = r->key_len;
	memcpy(ri.key.b, r->key, 16);
	ri.ver = le64_get(r->ver);
	ri.barrier = le64_get(r->barrier);
	ri.value_len = le32_get(r->value_len);
	ri.piece = le16_get(r->piece);
	ri.payload_off = le32_get(r->payload_off);
	ri.payload_len = le32_get(r->payload_len);
	ri.nr_seals = le16_get(r->nr_seals);
	ri.has_meta = le32_get(r->flags) & SSD_REC_HAS_META;
	if (ri.kind == SSD_REC_TOMB)
		ri.copy = le32_get(r->flags) >> SSD_REC_COPY_SHIFT & SSD_REC_COPY_MASK;
	if (!rec_is_sane(r, &ri))
		return -EINVAL;
	*out = ri;
	return 0;
}

void ssd_format_rec_seals(const uint8_t *image, const struct ssd_rec_info *ri, uint64_t *seals)
{
	uint32_t at = ssd_format_rec_bytes(ri->has_meta, 0);

	for (uint32_t i = 0; i < ri->nr_seals; i++)
		seals[i] = le64_get(image + at + i * 8ull);
}

void ssd_format_rec_meta(const uint8_t *image, const struct ssd_rec_info *ri, struct store_meta *m)
{
	const uint8_t *p = image + sizeof(struct ssd_rec);

	*m = (struct store_meta){0};
	if (!ri->has_meta)
		return;
	memcpy(m->parent, p, 16);
	memcpy(m->group, p + 16, 16);
	memcpy(m->tag, p + 32, 32);
	m->parent_len = p[64];
	m->group_len = p[65];
	m->cls = le16_get(p + 66);
	m->cost_us = le32_get(p + 68);
	m->seq = le32_get(p + 72);
}

/* ---- values ---------------------------------------------------------------------------------- */

uint32_t ssd_format_pieces(uint32_t value_len)
{
	return value_len <= SSD_PACKED_MAX ? 1
					   : (uint32_t)div_round_up(value_len, STORE_PIECE_BYTES);
}

uint32_t ssd_format_piece_len(uint32_t value_len, uint32_t piece)
{
	uint64_t at = (uint64_t)piece * STORE_PIECE_BYTES;

	return at >= value_len ? 0 : (uint32_t)min_t(uint64_t, value_len - at, STORE_PIECE_BYTES);
}

uint64_t ssd_format_value_bytes(uint32_t value_len, bool has_meta)
{
	uint32_t nr = ssd_format_pieces(value_len);

	if (value_len <= SSD_PACKED_MAX)
		return align_up(ssd_format_rec_bytes(has_meta, ssd_format_seals(value_len)) +
					value_len,
				SSD_GRANULE);
	return (uint64_t)nr * SSD_BLOCK + align_up(value_len, SSD_BLOCK);
}

/* ---- footer ---------------------------------------------------------------------------------- */

void ssd_format_line(const struct ssd_rec_info *ri, uint32_t off, struct ssd_line *line)
{
	memset(line, 0, sizeof(*line));
	memcpy(line->key, ri->key.b, 16);
	le64_put(line->ver, ri->ver);
	le64_put(line->barrier, ri->barrier);
	le32_put(line->off, off);
	le32_put(line->value_len, ri->value_len);
	line->kind = (uint8_t)ri->kind;
	line->key_len = ri->key.len;
	line->copy = ri->copy;
	if (ri->meta)
		le16_put(line->cls, ri->meta->cls);
}

bool ssd_format_line_get(const struct ssd_line *line, struct ssd_rec_info *ri, uint32_t *off)
{
	*ri = (struct ssd_rec_info){.kind = line->kind};
	if (line->kind != SSD_REC_VALUE && line->kind != SSD_REC_TOMB)
		return false;
	ri->key.len = line->key_len;
	if (ri->key.len < 1 || ri->key.len > 16)
		return false;
	memcpy(ri->key.b, line->key, 16);
	ri->key.hash = hash_key(ri->key.b, ri->key.len);
	ri->ver = le64_get(line->ver);
	ri->barrier = le64_get(line->barrier);
	ri->value_len = le32_get(line->value_len);
	ri->copy = line->copy & SSD_REC_COPY_MASK;
	*off = le32_get(line->off);
	return ri->value_len <= 128u << 20 && ri->ver <= SSD_VER_MAX;
}

void ssd_format_footer(struct ssd_footer *f, uint32_t index, uint32_t nr, uint32_t nr_lines,
		       const struct ssd_bind *b)
{
	must(nr_lines <= SSD_LINES);
	memset(f, 0, offsetof(struct ssd_footer, line));
	memset(&f->line[nr_lines], 0, (SSD_LINES - nr_lines) * sizeof(f->line[0]));
	memcpy(f->magic, footer_magic, 4);
	le64_put(f->epoch, b->epoch);
	le64_put(f->salt, b->salt);
	le64_put(f->addr, b->addr);
	le32_put(f->index, index);
	le32_put(f->nr_blocks, nr);
	le32_put(f->nr_lines, nr_lines);
	f->how = b->how;
	le32_put(f->crc, format_crc((uint8_t *)f, sizeof(*f), offsetof(struct ssd_footer, crc)));
}

int ssd_format_footer_check(const struct ssd_footer *f, const struct ssd_bind *b, uint32_t *index,
			    uint32_t *nr)
{
	if (memcmp(f->magic, footer_magic, 4) || le64_get(f->addr) != b->addr ||
	    le64_get(f->epoch) != b->epoch || le64_get(f->salt) != b->salt ||
	    le32_get(f->nr_lines) > SSD_LINES || le32_get(f->index) >= le32_get(f->nr_blocks))
		return -EINVAL;
	if (le32_get(f->crc) !=
	    format_crc((const uint8_t *)f, sizeof(*f), offsetof(struct ssd_footer, crc)))
		return -EINVAL;
	*index = le32_get(f->index);
	*nr = le32_get(f->nr_blocks);
	return (int)le32_get(f->nr_lines);
}
