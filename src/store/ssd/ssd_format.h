/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies on the medium, byte by byte; doc/format.md says the same in words and why it is so.
 *
 *   file:     | super A | ... | segment 0 | segment 1 | ... | super B, its last 4 KiB |
 *   segment:  | head 4 KiB | records, forward -> ...          ... | footer blocks, 4 KiB each |
 *   record:   | 128 bytes | meta, 80 bytes, if any | seals, 8 each | payload |
 *
 * Numbers are little-endian byte arrays, so that nothing depends on the machine or on alignment.
 * Every structure carries a CRC32C that covers what it is, where it lies (its address in the file)
 * and when it was written (its segment's epoch and salt), so that what is stale, torn or elsewhere
 * does not pass. The salt is drawn at random each time a segment is opened and never leaves the
 * file: whoever chooses a value's bytes can't make a record of them.
 *
 * Pure functions over images, any thread. Encoders fill a zeroed image; checkers trust no byte.
 */
#ifndef STORE_SSD_SSD_FORMAT_H
#define STORE_SSD_SSD_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

#define SSD_VERSION 2u		  /* the highest that is understood; */
#define SSD_VERSION_ALONE 1u	  /* of a superblock without a roster, and of all else */
#define SSD_ROSTER_MAX 8u	  /* devices of a shard */
#define SSD_BLOCK 4096u		  /* unit of I/O and of writing in place */
#define SSD_GRANULE 64u		  /* records begin on one */
#define SSD_HEAD_BYTES (1u << 20) /* before segment 0 */
#define SSD_PACKED_MAX 65536u	  /* longer values have blocks of their own */
#define SSD_PIECE_SEALS 16u	  /* chunks of a piece */
#define SSD_DEAD_MAX 944u	  /* segments that a superblock can declare dead */
#define SSD_SEG_BYTES_MIN (1u << 17)
#define SSD_SEG_BYTES_MAX (1u << 30)

struct ssd_super {
	uint8_t magic[8];
	uint8_t version[4];
	uint8_t crc[4]; /* of all 4096 bytes, itself zero */
	uint8_t uuid[16];
	uint8_t owner[16]; /* of the process that opened it last */
	uint8_t generation[8];
	uint8_t file_bytes[8];
	uint8_t seg_bytes[8];
	uint8_t seg_first[8]; /* where segment 0 begins */
	uint8_t nr_segs[4];
	uint8_t nr_shards[2];
	uint8_t shard[2];
	uint8_t flags[4];
	uint8_t cipher[2]; /* 0: none */
	uint8_t nr_dead[2];
	uint8_t key_id[16]; /* of the cipher's key; zero */
	uint8_t name[64];   /* of the namespace */
	struct {
		uint8_t life[8]; /* 0: there is none, and zeros follow */
		uint8_t nr;
		uint8_t present; /* bit i: member i took part in that life */
		uint8_t reserved[6];
		uint8_t member[SSD_ROSTER_MAX][2][8]; /* id of its file, hash of its folder */
	} roster;
	uint8_t dead[SSD_DEAD_MAX][4]; /* segments never to be read or written again */
};
_Static_assert(sizeof(struct ssd_super) == SSD_BLOCK, "a superblock is a block");
_Static_assert(offsetof(struct ssd_super, dead) == 320, "dead list");
_Static_assert(offsetof(struct ssd_super, roster) == 176, "roster");

enum ssd_seg_kind {
	SSD_SEG_FREE = 1,   /* nothing in it counts */
	SSD_SEG_OPEN = 2,   /* its footer counts, or its records where there is none */
	SSD_SEG_CLOSED = 3, /* its footer counts and nothing else */
};

struct ssd_seg_head {
	uint8_t magic[8];
	uint8_t version[4];
	uint8_t crc[4]; /* of 128 bytes, itself zero */
	uint8_t uuid[16];
	uint8_t epoch[8];
	uint8_t salt[8];
	uint8_t addr[8];
	uint8_t seg[4];
	uint8_t kind;
	uint8_t pad;
	uint8_t cipher[2];
	/* lowest epoch of the segments that were open when this one was opened; 0: not told */
	uint8_t low[8];
	uint8_t reserved[56];
};
_Static_assert(sizeof(struct ssd_seg_head) == 128, "size of a segment's head");

enum ssd_rec_kind {
	SSD_REC_VOID = 0,
	SSD_REC_VALUE = 1,
	SSD_REC_TOMB = 2, /* versions below `ver` are dead */
};

struct ssd_rec {
	uint8_t magic[4];
	uint8_t crc[4];	     /* of head_len bytes, itself zero */
	uint8_t head_len[2]; /* this, meta and seals */
	uint8_t kind;
	uint8_t key_len;
	uint8_t flags[4]; /* SSD_REC_HAS_META; of a tombstone: SSD_REC_COPY */
	uint8_t epoch[8];
	uint8_t salt[8];
	uint8_t addr[8]; /* of this record in the file */
	uint8_t key[16];
	uint8_t ver[8];
	uint8_t value_len[4];
	uint8_t piece[2];	/* number of this piece; 1 MiB each but the last */
	uint8_t codec[2];	/* 0: as it is */
	uint8_t payload_off[4]; /* from the record's first byte */
	uint8_t payload_len[4];
	uint8_t barrier[8]; /* tombstone: needed while a segment of this or an older epoch lives */
	uint8_t cipher[2];
	uint8_t nr_seals[2];
	uint8_t key_id[4]; /* low half of the superblock's, where there is a cipher */
	uint8_t nonce[16]; /* likewise */
	uint8_t reserved[16];
};
_Static_assert(sizeof(struct ssd_rec) == 128, "size of a record's head");
#define SSD_REC_HAS_META 1u
#define SSD_REC_COPY_SHIFT 1u /* two bits: which copy, 1 or 2; 0: not told (an older daemon) */
#define SSD_REC_COPY_MASK 3u
#define SSD_VER_MAX (UINT64_MAX >> 1) /* of a line that counts: higher ones can be given after it */
#define SSD_META_BYTES 80u
#define SSD_REC_HEAD_MAX (sizeof(struct ssd_rec) + SSD_META_BYTES + SSD_PIECE_SEALS * 8)

#define SSD_SMALL_HEAD_MAX (sizeof(struct ssd_rec) + SSD_META_BYTES + 8) /* of a packed one */

/* A line of a footer: all of a record that finding it needs. */
struct ssd_line {
	uint8_t key[16];
	uint8_t ver[8];
	uint8_t barrier[8]; /* as in the record */
	uint8_t off[4];	    /* in granules, from the segment's first byte */
	uint8_t value_len[4];
	uint8_t kind; /* SSD_REC_VOID: was never written whole */
	uint8_t key_len;
	uint8_t cls[2];
	uint8_t copy; /* of a tombstone, as in the record */
	uint8_t reserved[3];
};
_Static_assert(sizeof(struct ssd_line) == 48, "size of a line");
#define SSD_LINES 84u /* of one block */

enum ssd_foot_how {
	SSD_FOOT_UNTOLD = 0,  /* by an older daemon */
	SSD_FOOT_WRITTEN = 1, /* by who wrote the records, once they were durable */
	SSD_FOOT_SCANNED = 2, /* after a crash, of what was found by going through the segment */
};

struct ssd_footer {
	uint8_t magic[4];
	uint8_t crc[4]; /* of the block, itself zero */
	uint8_t epoch[8];
	uint8_t salt[8];
	uint8_t addr[8];
	uint8_t index[4];     /* which block this is, */
	uint8_t nr_blocks[4]; /* of how many; the last one ends with the segment */
	uint8_t nr_lines[4];  /* in this block */
	uint8_t how;	      /* enum ssd_foot_how */
	uint8_t reserved[19];
	struct ssd_line line[SSD_LINES];
};
_Static_assert(sizeof(struct ssd_footer) == SSD_BLOCK, "a footer is made of blocks");
_Static_assert(offsetof(struct ssd_footer, how) == 44, "how a footer came about");

/*
 * Where blocks of a footer are kept while they are written again in place: block i at i modulo
 * SSD_FOOT_COPIES, with the address that it has in its footer.
 */
#define SSD_FOOT_COPY_ADDR (640u << 10)
#define SSD_FOOT_COPIES 16u

/* ---- in memory ---- */

/* The devices of a shard, as one life of them knew it: ssd_roster.h. */
struct ssd_roster {
	uint64_t life; /* grows; 0: this file has always been alone */
	uint8_t nr;
	uint8_t present;
	struct {
		uint64_t id;
		uint64_t folder;
	} member[SSD_ROSTER_MAX];
};

struct ssd_super_info {
	uint8_t uuid[16];
	uint8_t owner[16];
	uint64_t generation;
	uint64_t file_bytes;
	uint64_t seg_bytes;
	uint32_t nr_segs;
	uint16_t nr_shards;
	uint16_t shard;
	char name[64];
	struct ssd_roster roster;
	uint32_t nr_dead;
	uint32_t dead[SSD_DEAD_MAX];
};

/* What a segment's structures are bound to. */
struct ssd_bind {
	uint64_t epoch;
	uint64_t salt;
	uint64_t addr; /* of the segment's first byte, or of the structure's own */
	uint64_t low;  /* of a segment's head alone */
	uint8_t how;   /* of a footer alone: enum ssd_foot_how */
};

struct ssd_rec_info {
	enum ssd_rec_kind kind;
	struct store_key key; /* hash not set by a decode */
	uint64_t ver;
	uint64_t barrier;
	uint32_t value_len;
	uint32_t piece;
	uint32_t payload_off;
	uint32_t payload_len;
	uint32_t nr_seals;
	const struct store_meta *meta; /* encode: NULL = none. decode: see ssd_format_rec_meta() */
	bool has_meta;
	uint8_t copy; /* of a tombstone */
};

void ssd_format_super(const struct ssd_super_info *si, uint8_t image[SSD_BLOCK]);
/* 0, -EINVAL (none of ours, or damaged), -EPROTONOSUPPORT (a newer version, or a cipher). */
int ssd_format_super_check(const uint8_t image[SSD_BLOCK], struct ssd_super_info *si);

void ssd_format_seg(const uint8_t uuid[16], uint32_t seg, enum ssd_seg_kind kind,
		    const struct ssd_bind *b, uint8_t image[SSD_BLOCK]);
/* b->addr is given, the rest of *b and *kind come out. 0 or -EINVAL. */
int ssd_format_seg_check(const uint8_t image[SSD_BLOCK], const uint8_t uuid[16],
			 enum ssd_seg_kind *kind, struct ssd_bind *b);

/* Bytes of a record's head; a piece of `len` bytes has ssd_format_seals(len) seals. */
uint32_t ssd_format_rec_bytes(bool has_meta, uint32_t nr_seals);
static inline uint32_t ssd_format_seals(uint32_t len)
{
	return (len + MEM_CHUNK_BYTES - 1) / MEM_CHUNK_BYTES;
}
/* The head into `image`, which has room for ssd_format_rec_bytes(); b->addr is the record's own. */
void ssd_format_rec(const struct ssd_rec_info *ri, const uint64_t *seals, const struct ssd_bind *b,
		    uint8_t *image);
/*
 * Is there a record at `image`, of `room` bytes, that belongs to *b? Everything in *ri is then
 * within bounds: the payload may still reach beyond `room`. 0 or -EINVAL.
 */
int ssd_format_rec_check(const uint8_t *image, uint32_t room, const struct ssd_bind *b,
			 struct ssd_rec_info *ri);
/* Of a record that was checked. */
void ssd_format_rec_seals(const uint8_t *image, const struct ssd_rec_info *ri, uint64_t *seals);
void ssd_format_rec_meta(const uint8_t *image, const struct ssd_rec_info *ri,
			 struct store_meta *meta);

/* Bytes that a value takes in a segment, all its pieces and their padding. */
uint64_t ssd_format_value_bytes(uint32_t value_len, bool has_meta);
/* A value's pieces: how many, how long one is, and how far apart they begin. */
uint32_t ssd_format_pieces(uint32_t value_len);
uint32_t ssd_format_piece_len(uint32_t value_len, uint32_t piece);
#define SSD_PIECE_STRIDE (SSD_BLOCK + STORE_PIECE_BYTES)

void ssd_format_line(const struct ssd_rec_info *ri, uint32_t off, struct ssd_line *line);
/* false: void. The hash of the key is set. */
bool ssd_format_line_get(const struct ssd_line *line, struct ssd_rec_info *ri, uint32_t *off);
/* Completes block `index` of `nr`, whose lines are there already; b->addr is the block's own. */
void ssd_format_footer(struct ssd_footer *f, uint32_t index, uint32_t nr, uint32_t nr_lines,
		       const struct ssd_bind *b);
/* How many lines; -EINVAL. index and nr come out. */
int ssd_format_footer_check(const struct ssd_footer *f, const struct ssd_bind *b, uint32_t *index,
			    uint32_t *nr);

#endif
