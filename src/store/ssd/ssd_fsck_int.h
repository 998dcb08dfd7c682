/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the checker share:
 *
 *   ssd_fsck.c       superblocks, heads, the order of it all
 *   ssd_fsck_seg.c   one segment: its footer, its records, their values
 *   ssd_fsck_key.c   what the segments together say about each key
 */
#ifndef STORE_SSD_SSD_FSCK_INT_H
#define STORE_SSD_SSD_FSCK_INT_H

#include "base/vec.h"
#include "store/ssd/ssd_format.h"
#include "store/ssd/ssd_fsck.h"

#define FSCK_WINDOW_BYTES (SSD_BLOCK + STORE_PIECE_BYTES + 2 * SSD_BLOCK)
#define FSCK_AHEAD_BYTES (128u << 10) /* where neighbours are wanted soon */
#define FSCK_BAD_MAX (1u << 20)	      /* entries that are remembered as damaged */
#define FSCK_KEYS_DFLT (1u << 20)
#define FSCK_NO_SEG UINT32_MAX

/* Of a segment, from the first pass on. */
struct fsck_seg {
	uint64_t epoch;
	uint64_t salt;
	uint32_t nr_blocks; /* of its footer; 0: it is gone through */
	uint8_t state;	    /* enum ssd_fsck_state */
	uint8_t how;	    /* enum ssd_foot_how */
	bool is_closed;	    /* by its head */
};

struct fsck_slot;

struct fsck {
	int fd;
	uint64_t bytes; /* of the file, as it is */
	const struct ssd_fsck_opts *o;
	struct ssd_fsck_total *t;
	struct ssd_super_info super;
	struct fsck_seg *segs;
	uint8_t *win; /* of the file */
	uint64_t win_addr;
	uint32_t win_len;
	struct ssd_footer *foot;
	struct ssd_footer *copies; /* of blocks that were being written again */
	bool has_copied;	   /* one of them was needed, of this segment */
	uint32_t eio_seg;	   /* the segment of which it was said last that it can't be read */
	bool is_told;		   /* the first pass is over: what can't be read was told */
	struct ssd_fsck_seg *out;  /* of the segment that the first pass is at */
	uint64_t min_epoch;	   /* of the segments that hold something, */
	uint32_t min_seg;
	uint64_t min_epoch2; /* and of the others but that */
	VEC(uint64_t)
	bad; /* entries that can't be read: fsck_place(), sorted after the first pass */
	/* the table of keys */
	struct fsck_slot *slots;
	uint32_t nr_slots, nr_keys;
	uint32_t part, nr_parts;
	bool is_full;
	bool has_no_memory; /* for a bad entry: what is lost would be counted wrong */
};

static inline uint64_t fsck_place(uint32_t seg, uint32_t off)
{
	return (uint64_t)seg << 32 | off;
}

static inline uint64_t fsck_addr(const struct fsck *f, uint32_t seg)
{
	return SSD_HEAD_BYTES + seg * f->super.seg_bytes;
}

/* ---- ssd_fsck.c ---- */

/*
 * `len` bytes at `addr`, which may be followed by up to `ahead` more of its segment. Valid until
 * the next call. What can't be read, or lies behind the file's end, is zeros, and was told.
 */
const uint8_t *ssd_fsck_at(struct fsck *f, uint64_t addr, uint32_t len, uint32_t ahead);
__attribute__((format(printf, 5, 6))) void ssd_fsck_say(struct fsck *f, enum ssd_fsck_gravity g,
							uint32_t seg, uint64_t addr,
							const char *fmt, ...);

/* ---- ssd_fsck_seg.c ---- */

/* Line by line, from the footer or by going through; `off` in granules. */
typedef void fsck_line_fn(struct fsck *f, uint32_t seg, const struct ssd_rec_info *ri,
			  uint32_t off);
void ssd_fsck_seg_lines(struct fsck *f, uint32_t seg, fsck_line_fn *fn);
/* The first pass over a segment that holds something; its head was good. */
void ssd_fsck_seg_check(struct fsck *f, uint32_t seg, bool is_closed, struct ssd_fsck_seg *out);

/* ---- ssd_fsck_key.c ---- */

int ssd_fsck_key_all(struct fsck *f); /* the second pass. 0 or -ENOMEM */

#endif
