/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a recovery carries about, from the opening of a file that was there until all of it is
 * known. Belongs to the shard's owner.
 *
 *   ssd_recover.c        the order of things, heads      ssd_recover_seg.c   one segment
 *   ssd_recover_scan.c   its records, one by one         ssd_recover_key.c   into the index
 *   ssd_recover_clean.c  lines that go from its footer
 *   ssd_recover_trim.c   values that are too many
 */
#ifndef STORE_SSD_SSD_RECOVER_INT_H
#define STORE_SSD_SSD_RECOVER_INT_H

#include "store/ssd/ssd_int.h"

#define SSD_RECOVER_SLOTS 16u	       /* heads on their way */
#define SSD_RECOVER_TRIES 3u	       /* of what fails, before a segment is given up for it */
#define SSD_RECOVER_SCAN (128u * 1024) /* looked through at a time, */
#define SSD_RECOVER_MEM (SSD_PIECE_STRIDE + SSD_BLOCK) /* or one piece, wherever it begins */
#define SSD_RECOVER_TAIL 4u /* blocks of a footer that are read at first */

enum ssd_recover_state {
	SSD_RECOVER_HEADS, /* are read */
	SSD_RECOVER_WRITE, /* those that say "free" are written again, */
	SSD_RECOVER_SYNC,
	SSD_RECOVER_PROVE, /* and read back */
	SSD_RECOVER_REST,  /* those of them that failed, one by one */
	SSD_RECOVER_SEGS,  /* newest first */
	SSD_RECOVER_TRIM,  /* more live than the index may have */
	SSD_RECOVER_CLEAN, /* there is no room to begin with: ssd_recover.c */
	SSD_RECOVER_FORGET,
	SSD_RECOVER_SUPER, /* the list of the dead has to be durable */
	/* From here on all is known, and evicted as ever. */
	SSD_RECOVER_WALK,  /* entries that nobody needs go */
	SSD_RECOVER_STUCK, /* what couldn't be told to be free may come back: as if never over */
};

/* What is done with a segment. */
enum ssd_recover_why {
	SSD_RECOVER_READ,
	SSD_RECOVER_FREE, /* its head is written */
	SSD_RECOVER_TIDY, /* of values only what the index knows stays a line */
	SSD_RECOVER_DROP, /* free, and its entries go */
};

enum ssd_recover_at {
	SSD_AT_OVER,
	SSD_AT_TAIL,	/* the footer's last blocks are being read, */
	SSD_AT_BLOCKS,	/* all of them, */
	SSD_AT_CHECK,	/* looked at, */
	SSD_AT_LINES,	/* and done what the purpose is */
	SSD_AT_WINDOW,	/* there is no footer: some of the segment is being read, */
	SSD_AT_SPLIT,	/* block by block because it failed, */
	SSD_AT_RECORDS, /* and gone through */
	SSD_AT_FOOT,	/* a footer is being written, */
	SSD_AT_CLOSE,	/* then the head: closed */
	SSD_AT_FREE,	/* the head: free */
	SSD_AT_COPY,	/* blocks of a footer are written where they can be found if, */
	SSD_AT_PLACE,	/* while they are written where they belong, all ends */
	SSD_AT_COPIES,	/* what such an end has left is being read */
	SSD_AT_WALK,	/* the index, for entries of a segment that is free */
};

struct ssd_recover_slot {
	struct ssd_recover *r;
	struct io_req req;
	struct iovec iov;
	struct ssd_unit unit;
	uint8_t *mem;
	uint32_t seg;
	uint8_t nr_tries, nr_read;
	bool is_busy;
	/* What the head said when it was read last; 0: nothing that is one. */
	uint8_t kind;
	struct ssd_bind bind;
};

struct ssd_recover {
	struct ssd *s;
	uint8_t state;
	uint8_t why;
	uint8_t at;
	bool is_busy;		     /* a request of the segment's is under way */
	bool is_full;		     /* the index is: what it hasn't got must not stay a line */
	bool has_refused;	     /* it was, or one of its buckets; or something was trimmed */
	bool is_short;		     /* nothing was free for eviction to begin with */
	bool is_trimming;	     /* what follows is known */
	bool is_stuck;		     /* see there */
	bool has_dead;		     /* on the superblock's list since this life began */
	bool is_again;		     /* a footer that was just written is being read back */
	bool is_window_sure;	     /* two reads agree, or enough were made */
	uint8_t nr_windows;	     /* reads */
	bool gives_up;		     /* it can't be closed, and stays as it is */
	bool has_copies;	     /* r->scan are those of an earlier life, */
	bool is_patched;	     /* and the footer is whole with them */
	bool is_tombs_only;	     /* of what is found by going through, they alone count */
	uint8_t nr_reads, nr_closes; /* tries, of the segment */
	int res;		     /* of the request */
	uint64_t begin_ns;
	uint32_t next;
	uint32_t nr_slots; /* busy */
	struct ssd_recover_slot slot[SSD_RECOVER_SLOTS];
	uint8_t *slot_mem;
	struct ssd_sync_wait sync;
	/* One segment. */
	uint32_t seg;
	struct io_req req;
	struct iovec iov;
	struct ssd_unit unit;
	uint8_t *block;
	uint8_t *scan; /* a window of it, or copies of footers' blocks */
	uint64_t scan_pos, scan_start;
	uint32_t scan_len, scan_split;
	uint64_t scan_hash; /* of the window as it came last */
	/* Of a value whose head was found: is the rest of it whole? */
	bool is_value;
	struct ssd_rec_info value;
	struct ssd_read check;
	struct ssd_footer *lines;
	size_t lines_bytes;
	uint32_t max_blocks;
	uint32_t nr_blocks, block_at;
	uint32_t nr_lines, line_at;
	uint8_t *is_changed; /* of each block: a line of it has gone */
	uint64_t *stuffed;   /* a bit for each bucket of the index that had no room */
	uint32_t walk;
	/* Values go of segments below this epoch, and nr_trim_last of the one that has it. */
	uint64_t trim_epoch;
	uint64_t nr_trim, nr_trim_last;
};

/* ---- ssd_recover_seg.c ---- */

void ssd_recover_seg_start(struct ssd_recover *r, uint32_t seg, enum ssd_recover_why why);
/* One bounded piece of work; 0: it waits for a request. r->at is SSD_AT_OVER at the end. */
int ssd_recover_seg_step(struct ssd_recover *r);

/* For the other files: requests, after which the state is `at`, with r->res. */
void ssd_recover_seg_read(struct ssd_recover *r, enum ssd_recover_at at, void *mem, uint64_t addr,
			  uint64_t len);
/* r->unit.buf, len and what is wanted are set. */
void ssd_recover_seg_write(struct ssd_recover *r, enum ssd_recover_at at, uint64_t addr);
/* r->nr_lines of r->lines were found, and become its footer; 0: it is free. */
void ssd_recover_seg_found(struct ssd_recover *r);
void ssd_recover_seg_head(struct ssd_recover *r, enum ssd_recover_at at, enum ssd_seg_kind kind);
void ssd_recover_seg_fail(struct ssd_recover *r);
/* It was closed, and its footer is damaged: only tombstones count. */
void ssd_recover_seg_tombs(struct ssd_recover *r);
void ssd_recover_seg_blocks(struct ssd_recover *r); /* r->nr_blocks are known: all are read */
void ssd_recover_seg_whole(struct ssd_recover *r);  /* they are here, and durable */

/* ---- ssd_recover_scan.c ---- */

void ssd_recover_scan_start(struct ssd_recover *r);
void ssd_recover_scan_came(struct ssd_recover *r);
void ssd_recover_scan_split_came(struct ssd_recover *r);
void ssd_recover_scan_run(struct ssd_recover *r);

/* ---- ssd_recover_clean.c ---- */

/* Those of r->lines that are r->is_changed go where they belong. */
void ssd_recover_clean_start(struct ssd_recover *r);
void ssd_recover_clean_copied(struct ssd_recover *r);
void ssd_recover_clean_placed(struct ssd_recover *r);
/* Of a closed segment whose footer isn't whole: has a crash left copies of what is missing? */
void ssd_recover_clean_look(struct ssd_recover *r);
void ssd_recover_clean_came(struct ssd_recover *r);
/* Block i of r->lines, which isn't whole, from a copy: false: there is none. */
bool ssd_recover_clean_patch(struct ssd_recover *r, uint32_t i);

/* ---- ssd_recover_key.c ---- */

void ssd_recover_key_line(struct ssd_recover *r, const struct ssd_line *line);
/* Does the line stay, as the purpose is? */
bool ssd_recover_key_stays(struct ssd_recover *r, const struct ssd_line *line);
/* Of r->seg, which is free: true when none is left. */
bool ssd_recover_key_drop(struct ssd_recover *r);
/* What was kept of tombstones without a record that they kill: true when none is left. */
bool ssd_recover_key_end(struct ssd_recover *r);

/* ---- ssd_recover_trim.c ---- */

/* A turn of it, when all is read: true: there are no more live entries than there may be. */
bool ssd_recover_trim(struct ssd_recover *r);

#endif
