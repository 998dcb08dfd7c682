/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the ssd store share. One struct ssd is one shard's tier over one file; all here
 * runs on the shard's owner unless said otherwise.
 *   ssd.c          create, counters, the ops table    ssd_log.c      streams: append, seal
 *   ssd_look.c     exist, match, list                 ssd_unit.c     one write, sync, read back
 *   ssd_put.c      buf, put, fill, inval, del         ssd_evict.c    reclaiming a segment
 *   ssd_kill.c     tombstones                         ssd_recover.c  format, recovery, clean end
 *   ssd_recover_seg.c, _scan.c, _clean.c, _key.c, _trim.c     one segment of it, what is found
 *   ssd_value.c    staging of values                  ssd_seg.c      segments, entries in them
 *   ssd_read.c     gets                               ssd_super.c    superblocks
 *   ssd_slot.c     buffers of reads                   ssd_dev.c      the file
 *   ssd_head.c     records' heads that were read      ssd_health.c   errors, wear, writing allowed
 *   ssd_check.c    is it what was asked for?          ssd_bad.c      keys that failed
 *   ssd_ahead.c     neighbours of a value             ssd_room.c     how much of the file is used
 *
 * The invariant that everything hangs on. For every key: whatever record of it the medium may hold
 * that a recovery would serve, either the index has an entry of the key, live or a ghost, or a
 * durable tombstone of a higher version is kept as long as the record may exist. So a key that
 * isn't in the index needs no tombstone, and one that is in it needs one before a newer value is
 * acknowledged anywhere. (While a recovery reads, any key may be one that the index should have.)
 * Nothing leaves the index but by a tombstone that is durable, by a record that takes its place, or
 * with its segment, once that one's head says durably that it is free, and then only if no other
 * may hold a record of the key (`has_twins`: a failed write, a copy that eviction saved, one put
 * over the same): else it stays as a ghost in the last of these.
 */
#ifndef STORE_SSD_SSD_INT_H
#define STORE_SSD_SSD_INT_H

#include "base/list.h"
#include "base/rng.h"
#include "core/counter.h"
#include "policy/pace.h"
#include "policy/reinsert.h"
#include "store/ssd/ssd_dev.h"
#include "store/ssd/ssd_format.h"
#include "store/ssd/ssd_health.h"
#include "store/ssd/ssd_index.h"
#include "store/ssd/ssd_room.h"
#include "store/ssd/ssd_unit.h"
#include "store/store.h"
#include "store/store_make.h"

#define SSD_PACKS 4u /* pack buffers of a stream */
#define SSD_PACK_BYTES (1u << 20)
#define SSD_DEPTH 2u	      /* writes under way in a stream, of two by turns together */
#define SSD_SMALLS 128u	      /* values of at most 64 KiB on their way */
#define SSD_LARGES_MIN 16u    /* 1 MiB pieces on their way */
#define SSD_SAVE_LARGES 4u    /* and those for the one value that eviction saves */
#define SSD_SMALL_READ 73728u /* a packed record and the blocks that it begins and ends in */
#define SSD_PART_READ (SSD_BLOCK + STORE_PART_BYTES)
#define SSD_LARGE_READ (SSD_BLOCK + STORE_PIECE_BYTES)
#define SSD_STRAIGHT_READ (2 * SSD_BLOCK) /* a head, and the end of a value */
#define SSD_READS 196u			  /* of all kinds together */
#define SSD_HEADS 128u
#define SSD_KILLS 64u	    /* tombstones on their way */
#define SSD_WAITS_MAX 256u  /* BUFs or GETs that wait for a buffer */
#define SSD_LINE_MEAN 1024u /* bytes of a segment per line that there is room for */
#define SSD_FREE_WANTED 4u  /* segments; below that eviction begins */
#define SSD_SEGS_MIN 8u

struct ssd;

enum ssd_seg_state {
	SSD_FREE,
	SSD_OPENING,
	SSD_OPEN,
	SSD_SEALING,
	SSD_SEALED,
	SSD_EVICTING,
	SSD_LOST,     /* its records may be read, but it isn't used before the next recovery */
	SSD_DEAD,     /* on the superblock's list */
	SSD_HOLLOW,   /* free, and a hole in the file: given back (ssd_room.c) */
	SSD_FOUND,    /* by a recovery, and not yet read */
	SSD_UNPROVEN, /* likewise free, and its head not yet durable */
};

struct ssd_seg {
	uint64_t epoch;
	uint64_t salt;
	uint64_t low; /* the lowest epoch of those that were open when it was opened; 0: unknown */
	uint64_t twin_epoch;	      /* of has_twins: and younger ones up to this */
	uint32_t nr_entries, nr_live; /* of the index, that point into it; and no ghosts */
	uint32_t nr_blocks;	      /* of its footer */
	uint16_t nr_reads;	      /* under way */
	uint8_t state;
	uint8_t nr_faults;
	/* Others may hold records, not dead, of a key that the index has here: older ones do, */
	bool has_twins;
	bool is_scanned;   /* after a crash: it may end with what was never written whole */
	bool is_closed;	   /* its head says so */
	bool is_condemned; /* to be emptied, and then never used again */
	bool is_doomed;	   /* of a recovery: something with it has failed */
};

enum {
	SSD_DATA, /* what comes from above, and first copies of tombstones, saved ones too */
	SSD_COLD, /* values that eviction saves, and second copies of tombstones */
	SSD_COPIES,
	SSD_DATA_TOO = SSD_COPIES, /* by turns with the first: one is filled, one is sealed */
	SSD_STREAMS,
};

struct ssd_value;

/* Something on its way into a stream. */
struct ssd_append {
	struct list node; /* in the stream's queue, then in its pack */
	void (*done)(struct ssd_append *a, int res);
	struct ssd_rec_info ri;
	struct ssd_value *val; /* NULL: a tombstone */
	uint64_t epoch;	       /* of the segment where it was put; 0: it wasn't */
	uint32_t seg;
	uint32_t off; /* granules */
	uint32_t line;
	uint32_t nr_left; /* writes to wait for */
	int res;
	uint8_t stream;
	bool wants_proof; /* durable and read back before it is done */
	bool is_saved;	  /* eviction's own: goes before others, and may have the last segment */
	uint8_t slot;	  /* of tombstones: which one it is */
};

/* A piece of a large value: one write, head and payload in one buffer. */
struct ssd_piece {
	struct ssd_unit unit;
	struct ssd_append *app;
	uint32_t no;  /* which piece it is */
	uint8_t *mem; /* SSD_BLOCK for the head, then the payload */
};

struct ssd_value {
	struct list node; /* while free */
	struct ssd *s;
	struct store_io *io;
	uint64_t *seals;
	struct ssd_append app;
	struct store_meta meta;
	struct store_into from; /* st: it is written from there, and the buffers stay empty */
	uint32_t len;
	uint16_t nr_pieces; /* 0: it is small, */
	uint16_t small;	    /* in this buffer */
	uint16_t piece[128];
};

struct ssd_pack {
	struct ssd_unit unit;
	struct ssd_stream *st;
	struct list appends;
	uint8_t *mem;
	uint32_t fill;
	uint64_t start;	 /* in the segment */
	uint8_t nr_idle; /* turns since the last append */
	bool is_used;
};

enum ssd_stream_state {
	SSD_STREAM_CLOSED,
	SSD_STREAM_OPENING,
	SSD_STREAM_OPEN,
	SSD_STREAM_SEALING,
	SSD_STREAM_FOOTER,
};

struct ssd_stream {
	struct ssd *s;
	uint8_t no;
	uint8_t state;
	bool is_lost; /* the segment is, once what is under way has ended */
	uint8_t nr_tries;
	uint32_t seg;
	uint64_t pos; /* in the segment */
	uint8_t *pack_mem;
	struct ssd_pack packs[SSD_PACKS];
	struct ssd_pack *pack;	  /* is being filled */
	struct ssd_footer *lines; /* blocks, as they will lie */
	uint32_t nr_lines, max_lines;
	struct list waiting; /* appends without a place */
	struct list queue;   /* units to be written */
	uint32_t nr_writing;
	uint32_t nr_units;	   /* of this segment, not yet ended */
	struct ssd_unit block;	   /* head and footer */
	struct ssd_sync_wait sync; /* before the footer */
	uint8_t *block_mem;
	uint32_t foot_at; /* footer blocks written */
};

/*
 * When is memory above used that lies right? In small pages a read of 256 KiB is 64 segments: a
 * virtual disk takes four times as long, and the way by our own huge pages is shorter, copy too.
 */
enum ssd_straight {
	SSD_STRAIGHT_HUGE, /* when it has huge pages */
	SSD_STRAIGHT_NEVER,
	SSD_STRAIGHT_ALWAYS,
};

/* By what their buffers hold. */
enum ssd_read_kind {
	SSD_READ_SMALL, /* a packed record */
	SSD_READ_PART,	/* up to STORE_PART_BYTES of a piece */
	SSD_READ_LARGE, /* a whole piece */
	SSD_READ_STRAIGHT,
	SSD_READ_KINDS,
};

/*
 * The head of a piece's record: read by one get, used by all that come for parts of that piece. By
 * place; one that is being read stays until it has come.
 */
struct ssd_head {
	uint64_t epoch; /* of the segment; 0: nothing here */
	uint32_t seg;
	uint32_t off;
	uint32_t piece;
	bool is_read;		/* here, and it belongs to that place */
	struct list waiting;	/* reads, while it isn't */
	struct ssd_rec_info ri; /* no meta in it */
	struct store_meta meta;
	uint64_t seals[SSD_PIECE_SEALS];
};

struct ssd_read {
	struct list node; /* while free */
	struct list busy; /* from its start on, until it is over or late */
	struct list wait; /* for a head */
	struct ssd *s;
	struct store_io *io; /* NULL: nobody waits any more */
	struct io_req req, head_req;
	struct iovec iov, head_iov;
	struct iovec iovs[3]; /* straight: head, payload, end */
	uint8_t *mem;
	uint8_t *payload; /* once it is here */
	struct ssd_rec_info ri;
	struct store_meta meta;
	uint64_t seals[SSD_PIECE_SEALS]; /* of the piece */
	struct store_key key;
	struct store_into into; /* straight: taken over */
	struct ssd_head *head;	/* that it reads for others, too */
	uint64_t since_ns;
	uint64_t ver;
	uint32_t seg;
	uint32_t off; /* granules */
	uint32_t value_len;
	uint32_t piece;
	uint32_t first; /* chunk of the piece with which it begins */
	uint32_t skip;	/* bytes of mem before the record */
	uint32_t want;	/* bytes of payload that were asked for, whole chunks */
	uint32_t tail;	/* of them, those that came elsewhere than the others */
	uint32_t bytes; /* of req */
	int err;
	uint8_t kind;
	uint8_t nr_left; /* requests under way */
	bool has_head;
	bool is_joint; /* head and payload come by one request */
	bool is_small;
	bool is_late;
	bool is_background;
};

struct ssd_kill {
	struct list node;
	struct ssd *s;
	struct store_io *io;
	struct ssd_append app[SSD_COPIES];
	uint64_t ver;
	uint8_t nr_left, nr_good, nr_tries;
	int res;
	/* Of a copy, a proven one if there is one, while a recovery reads. */
	uint32_t seg, off;
	bool is_placed;
	bool is_reserved; /* an entry is, for what it leaves in the index */
};

enum ssd_evict_state {
	SSD_EVICT_IDLE,
	SSD_EVICT_READ,	  /* blocks of the footer are being read */
	SSD_EVICT_LINES,  /* first pass: save what is to be saved; second: entries go */
	SSD_EVICT_RETIRE, /* the head is being written */
	SSD_EVICT_WALK,	  /* what the lines did not tell */
};

struct ssd_gets {
	struct store_io *head, *tail;
};

#define SSD_TOMBS 64u
#define SSD_EVICT_BLOCKS 64u /* of a footer, read at a time */

struct ssd_evict {
	uint8_t state;
	bool is_second;	   /* pass */
	bool is_wanted;	   /* whatever is free: the index is full */
	uint8_t nr_failed; /* in a row */
	uint32_t nr_vain;  /* freed since anything but what it saves found a place */
	uint32_t seg;
	uint32_t block, nr_loaded; /* of the footer, in buf */
	uint32_t line;		   /* the next one, counted from block on */
	uint32_t walk;
	int older;	 /* second pass: a segment that may hold equal records; -1: none */
	uint32_t nr_out; /* tombstones on their way */
	int err;
	struct ssd_footer *buf;
	uint8_t *small; /* a packed record and its blocks */
	struct io_req req;
	struct iovec iov;
	struct ssd_unit head;
	uint8_t *head_mem;
	struct ssd_append tombs[SSD_TOMBS];
	bool is_tomb[SSD_TOMBS];
	/* The value that is being saved, and where it was. */
	struct ssd_value *val;
	struct ssd_read read;
};

struct ssd_counters {
	struct counter capacity, used, value, keys, index;
	struct counter hits, misses, puts, evictions, evicted_bytes, bad_seals, full, torn;
	struct counter read_bytes, straight_bytes, staged_bytes, late;
	struct counter recover_all, recover_done; /* segments */
	struct counter recovering, recover_bytes, recover_ms;
};

struct ssd_ahead;

struct ssd {
	struct store st;
	struct ssd_dev *dev;
	struct ssd_super_info super;
	struct store_ssd_opts opts;
	struct rng rng;
	struct ssd_index ix;
	struct ssd_seg *segs;
	uint32_t nr_segs;
	uint32_t nr_free;
	uint32_t seg_next; /* where the search for a free one begins */
	uint64_t epoch;	   /* the highest ever given */
	/* The same, when this life began; UINT64_MAX while a recovery doesn't know it. */
	uint64_t epoch_begin;
	/* The highest of those that a recovery hasn't read; UINT64_MAX: it doesn't know; 0: none */
	uint64_t unread_epoch;
	bool has_clean_past; /* what tombstones of earlier lives kill is gone from the medium */
	struct ssd_recover *recover; /* NULL: it is over */
	uint64_t ver;		     /* the highest known */
	uint64_t floor; /* any key may have died at this version or below, unknown to the index */
	uint64_t value_bytes;
	uint64_t straight_written; /* bytes of values, from memory above */
	uint64_t nr_copied;	   /* blocks of footers that were found as copies only */
	struct ssd_stream stream[SSD_STREAMS];
	uint8_t data; /* the one that SSD_DATA is now */
	struct ssd_sync sync;
	struct ssd_verify verify;
	bool is_bound;
	bool has_lost;	  /* acknowledged values, since the last flush */
	uint32_t nr_busy; /* background work under way */
	/* staging */
	void *map;
	size_t map_bytes;
	struct mem_region *reg; /* all of map */
	uint8_t *smalls;
	uint32_t nr_larges;
	uint16_t *free_smalls, *free_larges;
	uint32_t nr_free_smalls, nr_free_larges, nr_free_values;
	struct ssd_piece *pieces;
	struct ssd_value *values;
	struct list free_values;
	uint64_t *seals;   /* of all values */
	uint8_t *read_mem; /* of all reads */
	struct mem_region *read_reg;
	struct ssd_read *reads;
	struct ssd_head *heads;
	struct list free_reads[SSD_READ_KINDS];
	struct list busy_reads; /* oldest first */
	uint8_t straight;	/* enum ssd_straight */
	bool is_told;		/* the reactor knows of the slots */
	struct timeout read_timeout;
	uint32_t nr_late;	/* reads that nobody waits for and that haven't ended */
	uint32_t nr_reads;	/* under way for somebody, */
	uint32_t nr_background; /* and for nobody in particular */
	struct ssd_kill *kills;
	struct list free_kills;
	struct store_io *buf_head, *buf_tail; /* BUFs that wait for staging */
	struct ssd_gets gets[SSD_READ_KINDS]; /* GETs that wait for a buffer */
	struct store_io *kill_head, *kill_tail;
	struct store_io *list_head, *list_tail; /* LISTs that go on in the next turn */
	uint32_t nr_waits;
	struct ssd_evict evict;
	struct ssd_ahead *ahead;
	struct reinsert reinsert;
	struct pace pace;	  /* of the device's writes */
	uint64_t nr_moves;	  /* of what is on its way to a stream */
	struct timeout pace_wake; /* somebody asleep goes on writing */
	struct ssd_counters count;
	struct ssd_health health;
	struct ssd_room room;
};

/* Across a store_down(), or while an io waits. */
struct ssd_frame {
	struct store_io *next;
	union {
		uint64_t ver;
		uint64_t since_ns; /* a GET waits */
		uint64_t bucket;   /* with which a LIST goes on */
	};
	void (*killed)(struct store_io *io, int res);
	struct ssd_sync_wait sync;
	bool was_here;
};
_Static_assert(sizeof(struct ssd_frame) <= STORE_FRAME_WORDS * sizeof(uint64_t), "frame fits");

static inline struct ssd *ssd_of(struct store *s)
{
	return (struct ssd *)s;
}

static inline struct ssd_frame *ssd_frame(struct store_io *io)
{
	return store_scratch(io);
}

static inline bool ssd_is_straight(const struct ssd *s, const struct store_into *in)
{
	return in->st && s->straight != SSD_STRAIGHT_NEVER &&
	       (in->is_huge || s->straight == SSD_STRAIGHT_ALWAYS);
}

/* ssd.c */
void ssd_count(struct ssd *s);

/* ---- ssd_seg.c ---- */

uint64_t ssd_seg_addr(const struct ssd *s, uint32_t seg);
struct ssd_bind ssd_seg_bind(const struct ssd *s, uint32_t seg, uint64_t off);
/* A free segment with nobody reading in it, if `keep` others stay free; -1: none. */
int ssd_seg_take(struct ssd *s, uint32_t keep);
void ssd_seg_set(struct ssd *s, uint32_t seg, enum ssd_seg_state state);
void ssd_seg_lose(struct ssd *s, uint32_t seg, const char *why); /* told, unless it is NULL */
int ssd_seg_oldest(const struct ssd *s); /* of the sealed; -1: there is none */
/* Of those that may hold another record of a key that it has, the last to go; -1: none may. */
int ssd_seg_last_twin(const struct ssd *s, uint32_t seg);
int ssd_seg_new_twin(const struct ssd *s, uint32_t seg);	/* that this life tried to write */
void ssd_seg_twin(struct ssd *s, uint32_t seg, uint64_t epoch); /* there is one in that, too */
/* Does a segment other than `but` live whose epoch is at most `epoch`? */
bool ssd_seg_has_older(const struct ssd *s, uint32_t but, uint64_t epoch);

/* Where an entry of the index lies. */
struct ssd_place {
	uint32_t seg;
	uint32_t off;
	uint64_t ver;
	uint32_t len;
	bool is_ghost;
	bool is_tomb;
};
/* Makes or changes the key's entry; there must be room for a new one. */
void ssd_seg_enter(struct ssd *s, const struct store_key *key, const struct ssd_place *p);
void ssd_seg_drop(struct ssd *s, struct ssd_entry *e);
void ssd_seg_forget(struct ssd *s, struct ssd_entry *e, int twin); /* twin: where one may be; -1 */
void ssd_seg_ghost(struct ssd *s, struct ssd_entry *e); /* it may not be served any more */
struct ssd_entry *ssd_seg_live(struct ssd *s, const struct store_key *key); /* NULL: none */
/* May the entry be served: is it live, and can nothing that wasn't read yet have killed it? */
bool ssd_seg_serves(const struct ssd *s, const struct ssd_entry *e);
bool ssd_seg_is_new(const struct ssd *s, uint32_t seg); /* of this life */

/* ---- ssd_stream.c, ssd_log.c ---- */

int ssd_stream_init(struct ssd *s);
void ssd_stream_fini(struct ssd *s);
/* The lowest epoch of those that are open together with this one: what recovery needs to know. */
uint64_t ssd_stream_low(const struct ssd *s, uint32_t seg);
/* It is being sealed: what waits goes to the other one of its kind, if there is one that can. */
void ssd_stream_turn(struct ssd_stream *st);
/* Writes under way that count against SSD_DEPTH. */
uint32_t ssd_stream_writing(const struct ssd_stream *st);
/* A sync has failed: the open segments are lost. */
void ssd_stream_lose(struct ssd *s);
/* Nothing can become free: what waits for a segment fails. */
void ssd_stream_fail(struct ssd *s, unsigned stream, int res);
/* a->done() comes later, never from inside. */
void ssd_log_append(struct ssd *s, struct ssd_append *a);
int ssd_log_step(struct ssd *s);
/* Is somebody waiting for a segment, who can't have one now? */
bool ssd_log_is_stuck(const struct ssd *s, unsigned stream);
/* The footer of an open stream, made at a clean end: its blocks and where they go. */
uint32_t ssd_log_footer(struct ssd_stream *st, uint64_t *off);

/* ---- ssd_value.c ---- */

int ssd_value_init(struct ssd *s);
void ssd_value_fini(struct ssd *s);
/* is_saved: eviction's, which has some that puts don't get. NULL: none is free. */
struct ssd_value *ssd_value_create(struct ssd *s, const struct store_key *key, uint32_t len,
				   bool is_saved);
void ssd_value_destroy(struct ssd_value *v);
void ssd_value_view(struct ssd_value *v, struct store_view *view);
/* len bytes from off on lie in one run. */
uint8_t *ssd_value_at(struct ssd_value *v, uint32_t off);
/* It is written from there if every piece lies right for the device: true, and *in is taken. */
bool ssd_value_take(struct ssd_value *v, struct store_into *in);
/* Of one that is written from memory above: does the piece fit its seals? */
bool ssd_value_is_good(const struct ssd_value *v, uint32_t piece);
/* Bytes from off on, in memory above: one run of them; NULL: they don't lie right. */
uint8_t *ssd_value_above(const struct ssd *s, const struct store_into *in, uint64_t off,
			 uint64_t len);
unsigned ssd_value_runs(const struct store_view *v, uint64_t off, struct mem_run *runs,
			unsigned nr);
uint64_t *ssd_value_seals(const struct store_view *v);
const struct store_meta *ssd_value_meta(const struct store_view *v);

/* ---- the verbs ---- */

void ssd_put_buf(struct store *s, struct store_io *io);
void ssd_put(struct store *s, struct store_io *io);
void ssd_put_fill(struct store *s, struct store_io *io);
void ssd_put_inval(struct store *s, struct store_io *io);
void ssd_put_del(struct store *s, struct store_io *io);
void ssd_put_waiting(struct ssd *s); /* staging has become free */
/*
 * A durable tombstone: versions of io->key below `ver` are dead; then the key leaves the index and
 * killed(io, 0) runs, or killed(io, -errno). Uses io's frame.
 */
void ssd_kill(struct ssd *s, struct store_io *io, uint64_t ver,
	      void (*killed)(struct store_io *io, int res));
void ssd_kill_waiting(struct ssd *s);
/* Is a tombstone of the key on its way? A copy made now would be behind its barrier. */
bool ssd_kill_is_on(const struct ssd *s, const struct store_key *key);

void ssd_read_get(struct store *s, struct store_io *io);
void ssd_read_release(struct ssd_read *r, bool is_bad);
int ssd_read_hint(struct store *s, const struct store_hint *h);
/* A read has failed with `err`, or its bytes have: told, unless a crash explains it; a ghost. */
void ssd_read_distrust(struct ssd_read *r, int err, const char *what);
bool ssd_read_is_torn(const struct ssd_read *r, int err); /* by a crash */
bool ssd_read_is(const struct ssd *s, const void *pin);
bool ssd_read_is_busy(const struct ssd *s);
void ssd_read_init(struct ssd *s);
void ssd_read_fini(struct ssd *s);

/* ---- ssd_slot.c ---- */

int ssd_slot_init(struct ssd *s);
void ssd_slot_fini(struct ssd *s);
struct ssd_read *ssd_slot_get(struct ssd *s, enum ssd_read_kind kind); /* NULL: none is free */
void ssd_slot_put(struct ssd_read *r);
void ssd_slot_wait(struct ssd *s, struct ssd_gets *q, struct store_io *io);
struct store_io *ssd_slot_unwait(struct ssd_gets *q);
/*
 * In the order in which they came, one queue for each kind of slot: of a reader's parts the first
 * never waits for a slot that a later one holds.
 */
void ssd_slot_wake(struct ssd *s, enum ssd_read_kind kind);
/* Some that were woken took no slot: the others go on. */
int ssd_slot_step(struct ssd *s);

/* ---- ssd_check.c: 0, or -errno ---- */

/* Record and payload of a read of all of it, by r->iov, that has ended with `res`. */
int ssd_check_whole(struct ssd_read *r, int res);
/* Is it the head that was asked for? The rest of r says what it must be. */
int ssd_check_head(struct ssd_read *r);
/* The same of the head at r->mem + r->skip, of which `room` bytes are here; r has it then. */
int ssd_check_parse(struct ssd_read *r, uint32_t room);
/* Of one whose requests have all ended, and whose head is here. */
int ssd_check_parts(struct ssd_read *r);

/* ---- ssd_evict.c ---- */

int ssd_evict_init(struct ssd *s);
void ssd_evict_fini(struct ssd *s);
void ssd_evict_kick(struct ssd *s);  /* is there too little free? */
void ssd_evict_force(struct ssd *s); /* whatever is free: the index is full */
int ssd_evict_step(struct ssd *s);
/* Is this key being saved now? Whoever wants to kill it waits. */
bool ssd_evict_is_saving(const struct ssd *s, const struct store_key *key);

/* ---- ssd_recover.c ---- */

/* Superblocks, and what comes next in steps; is_new: there is nothing to be found. Blocking. */
int ssd_recover_begin(struct ssd *s, bool is_new);
int ssd_recover_step(struct ssd *s);
/* Its tables, over or not. */
void ssd_recover_fini(struct ssd *s);
/* May a key that isn't in the index have a record? */
bool ssd_recover_is_blind(const struct ssd *s);
bool ssd_recover_is_reading(const struct ssd *s); /* then nothing is evicted */
void ssd_recover_close(struct ssd *s);		  /* footers of what is open */

/* ---- ssd_super.c ---- */

/*
 * s->super from the file, or made for a file of zeros (*is_new). -EPROTONOSUPPORT: a newer version
 * wrote it; -EXDEV: it is another namespace's, or of one cut in another number of shards; -EUCLEAN:
 * damaged; -EINVAL: too small.
 */
int ssd_super_open(struct ssd *s, bool *is_new);
int ssd_super_write(struct ssd *s); /* both */
uint64_t ssd_super_addr(const struct ssd *s, unsigned copy);

#endif
