/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the dram store share. One struct dram is one shard's tier; everything here runs
 * on the shard's owner unless said otherwise.
 *
 *   dram.c          create, counters, the ops table   dram_room.c     eviction, BUFs that wait
 *   dram_value.c    a value's memory, views, pins     dram_back.c     write-back, flush
 *   dram_get.c      get, exist, match, list           dram_promote.c  copies from the tier below
 *   dram_put.c      buf, put, fill, inval, del        dram_through.c  writing through
 *   dram_fetch.c    before it is asked for            dram_hint.c     hints
 *   dram_resize.c   capacity                          dram_copy.c     a chunk, checked
 *   dram_fresh.c    what others may have changed
 *   dram_arena.c, dram_heap.c, dram_index.c           dram_class.c    of each class
 *
 * How versions hold together when there is a tier below. A put sends INVAL(key, ver) down first and
 * publishes when that has come back; a del sends itself down first and unlinks when that has come
 * back. Until then reads see the older value, which is right because nothing has been acknowledged.
 * So nothing older than a dirty entry exists below, a dirty entry that is lost is a miss by itself,
 * and this tier needs no tombstones. Copies upward are held off by fences: a counter per key class
 * which every mutation bumps when it starts and when it ends; a copy is published only if it hasn't
 * moved since the get below began. A version is provisional until the tier below has taken it:
 * INVAL may answer -ESTALE with a higher one, and the put then goes above that.
 */
#ifndef STORE_DRAM_INT_H
#define STORE_DRAM_INT_H

#include "core/counter.h"
#include "policy/evict.h"
#include "policy/prefetch.h"
#include "store/dram/dram_arena.h"
#include "store/dram/dram_class.h"
#include "store/dram/dram_heap.h"
#include "store/dram/dram_index.h"
#include "store/store.h"

#define DRAM_FENCES 4096u    /* counters, a power of two */
#define DRAM_EVICT_TURN 256u /* victims per turn */
#define DRAM_WAITS_MAX 256u  /* BUFs that wait for room */
#define DRAM_WAIT_TURNS \
	4096u /* turns without a BUF served and nothing being written after which all fail */
#define DRAM_BACKS 32u	  /* write-backs under way */
#define DRAM_PROMOTES 32u /* values on their way up */
/*
 * Versions that are made up here, above a tier that gives its own, begin far above what that gives
 * (to an object, for each write to its group): else another machine's value could have the same
 * one, and a reader would take pieces of both.
 */
#define DRAM_VER_FAR (1ull << 31)

struct dram_back;
struct dram_promote;
struct dram_fetch_set;
struct dram_ahead_set;

/* Of an entry, by its number: what is looked at seldom. */
struct dram_note {
	uint8_t source; /* of is_fetched: enum prefetch_source */
	uint8_t score;	/* attention, as hints said; 0: unknown */
};

struct dram_wish {
	struct store_key key;
	uint64_t until_ns; /* after that it isn't wanted; UINT64_MAX: whenever */
	uint16_t weight;
	uint8_t source; /* enum prefetch_source */
};

struct dram_counters {
	struct counter capacity, used, value, keys, index;
	struct counter hits, misses, puts, evictions, evicted_bytes, bad_seals, full, lost, dirty;
	struct counter fetches, fetches_dropped, fetched_bytes, fetched_used, fetched_wasted;
	struct counter ahead_bytes, ahead_used, ahead_wasted;
};

struct dram {
	struct store st;
	struct dram_index ix;
	struct dram_arena arena;
	struct dram_heap side;
	struct evict evict;
	struct dram_bits dirty; /* by entry number */
	void *map;		/* dirty and fences */
	size_t map_bytes;
	uint32_t *fences;
	uint64_t bytes;	      /* capacity */
	uint64_t fixed_bytes; /* of it, what doesn't depend on the content */
	uint64_t seg_bytes;
	uint64_t value_bytes;
	uint64_t ver;	    /* the highest known */
	uint32_t nr_pinned; /* entries with pins */
	uint32_t nr_bufs;   /* unpublished */
	bool is_bound;
	/* dram_room.c */
	struct store_io *wait_head, *wait_tail;
	uint32_t nr_waits;
	uint32_t wait_turns;
	/* dram_back.c */
	struct dram_back *backs;
	uint32_t nr_backs;
	uint32_t nr_copying; /* of them, those whose turn comes in dram_back_step() */
	uint32_t back_next;  /* whose turn to copy */
	struct store_io *flush_head, *flush_tail;
	uint64_t flush_ver;
	uint64_t flush_at;
	uint32_t flush_heirs;
	int flush_res;
	/* dram_through.c */
	bool is_through;     /* what is dirty is written below without being a victim */
	bool is_acked_below; /* a put ends when the tier below has it */
	bool has_new;	     /* dirty entries, since the sweep began */
	uint64_t through_at; /* of the sweep; 0: none is under way */
	struct store_io *through_head, *through_tail; /* puts that wait for a place */
	uint32_t nr_throughs;			      /* puts on their way below */
	uint64_t dirty_bytes;
	/* dram_fresh.c */
	uint64_t fresh_ns;
	uint32_t *fresh_ms; /* by entry number: until when it may be answered */
	/* dram_fetch.c, dram_hint.c */
	struct dram_fetch_set *fetch;
	struct dram_ahead_set *ahead; /* dram_ahead.c */
	struct prefetch prefetch;
	struct dram_note *notes;
	bool has_scores;
	/* dram_promote.c */
	struct dram_promote *promotes;
	uint64_t promote_clock;
	uint32_t nr_rising; /* slots in use */
	uint32_t resize_at; /* dram_resize.c: the sweep's place */
	struct dram_counters count;
	struct dram_classes classes;
	uint8_t *bounce; /* one chunk */
};

/* Across a store_down(), or while a BUF waits. */
struct dram_frame {
	struct store_io *next;
	uint64_t ver;
	struct dram_entry *rising; /* a GET: whose memory it brought; pinned until it is taken */
	uint32_t fence;
	bool was_here;
	uint8_t flags;	/* a GET: its own, while another question is asked */
	uint64_t at_ns; /* when it went down, in a set with fresh_ns */
	struct dram_entry *e;
};
_Static_assert(sizeof(struct dram_frame) <= STORE_FRAME_WORDS * sizeof(uint64_t), "frame fits");

static inline struct dram *dram_of(struct store *s)
{
	return (struct dram *)s;
}

static inline struct dram_frame *dram_frame(struct store_io *io)
{
	return store_scratch(io);
}

/* Below are other machines: store_ops.is_far */
static inline bool dram_is_far(const struct dram *d)
{
	return d->st.below && d->st.below->ops->is_far;
}

/* The first verb after the set was built: which share of the hashes is ours. */
void dram_bind(struct dram *d);

static inline struct dram *dram_enter(struct store *s)
{
	struct dram *d = dram_of(s);

	if (__builtin_expect(!d->is_bound, 0))
		dram_bind(d);
	return d;
}

static inline uint32_t *dram_fence(struct dram *d, const struct store_key *key)
{
	return &d->fences[key->hash & (DRAM_FENCES - 1)];
}

void dram_count(struct dram *d); /* used, value, keys, index */

/* ---- dram_value.c ---- */

/* Unpublished value of len bytes, seals zero; NULL: no room (nothing taken). */
struct dram_entry *dram_value_create(struct dram *d, const struct store_key *key, uint64_t len,
				     bool has_meta);
void dram_value_destroy(struct dram *d, struct dram_entry *e); /* not linked, no pins */
int dram_value_set_meta(struct dram *d, struct dram_entry *e,
			const struct store_meta *meta); /* 0, -ENOSPC */
/* Into the index and the policy, and into the books of its class. */
void dram_value_link(struct dram *d, struct dram_entry *e, uint64_t hash);
/* Out of the index and the policy; its memory goes with the last pin. */
void dram_value_drop(struct dram *d, struct dram_entry *e);
/* Its bytes don't fit their seals: counted, told, dropped if it is what the index has. */
void dram_value_drop_bad(struct dram *d, struct dram_entry *e);
/* Does some of it lie in a segment that is to go? */
bool dram_value_is_retiring(const struct dram *d, const struct dram_entry *e);
bool dram_value_is_huge(const struct dram *d, const struct dram_entry *e);
void dram_value_pin(struct dram *d, struct dram_entry *e);
void dram_value_unpin(struct dram *d, struct dram_entry *e);
void dram_value_set_dirty(struct dram *d, struct dram_entry *e, bool is_dirty);
void dram_value_view(struct dram *d, struct dram_entry *e,
		     struct store_view *v); /* whole value; no pin */
/* The first `bytes` are on their way into the cache. */
void dram_value_prefetch(const struct dram *d, const struct dram_entry *e, uint64_t bytes);
unsigned dram_value_runs(const struct store_view *v, uint64_t off, struct mem_run *runs,
			 unsigned nr);
uint64_t *dram_value_seals(const struct store_view *v);
const struct store_meta *dram_value_meta(const struct store_view *v);
void dram_value_release(struct store *s, struct store_view *v);

/* ---- dram_get.c, dram_put.c ---- */

void dram_get(struct store *s, struct store_io *io);
void dram_get_exist(struct store *s, struct store_io *io);
void dram_get_match(struct store *s, struct store_io *io);
void dram_get_list(struct store *s, struct store_io *io);
void dram_get_prefetch(struct store *s, const struct store_key *key, int stage);
int dram_get_now(struct store *s, const struct store_key *key, unsigned flags,
		 struct store_view *view);
uint64_t dram_get_look(struct store *s, const struct store_key *const *keys, unsigned nr,
		       uint64_t *ask);

void dram_put(struct store *s, struct store_io *io);
void dram_put_buf(struct store *s, struct store_io *io);
void dram_put_fill(struct store *s, struct store_io *io);
void dram_put_inval(struct store *s, struct store_io *io);
void dram_put_del(struct store *s, struct store_io *io);
/* Makes e what the index has under its key. 0, -EBUSY (bucket full), with nothing changed. */
int dram_put_publish(struct dram *d, struct dram_entry *e, const struct store_key *key,
		     uint64_t ver);

/* ---- dram_room.c ---- */

/* Frees one entry: 0; -EBUSY all write-backs are in use; -ENOENT there is none that could go. */
int dram_room_evict(struct dram *d);
/* The same, but none that is on its way up: -ENOENT rather. */
int dram_room_evict_value(struct dram *d);
/* Answers a BUF, now or when there is room. */
void dram_room_buf(struct dram *d, struct store_io *io);
int dram_room_step(struct dram *d);

/* ---- dram_back.c ---- */

/*
 * Begins to write a dirty entry below. A victim is taken from the policy meanwhile, and is dropped
 * when it can't be written. -EBUSY: all slots are in use.
 */
int dram_back_start(struct dram *d, struct dram_entry *e, bool is_victim);
/* The same of one that is to be dropped once it is below. */
int dram_back_demote(struct dram *d, struct dram_entry *e);
void dram_back_fill(struct dram *d, struct store_io *io); /* the FILL of one, holding its key */
void dram_back_flush(struct store *s, struct store_io *io);
/* e is put over `old`: if a flush counts on that it counts on e from now on. */
void dram_back_inherit(struct dram *d, const struct dram_entry *old, struct dram_entry *e);
/* The key was deleted: what is still being written of it is no loss. */
void dram_back_forget(struct dram *d, const struct store_key *key);
int dram_back_step(struct dram *d);
void dram_back_fini(struct dram *d);

/* ---- dram_through.c ---- */

/* A put, holding its key: its buffer goes below before it is published and answered. */
void dram_through_put(struct dram *d, struct store_io *io, uint64_t ver);
int dram_through_step(struct dram *d);

/* ---- dram_promote.c ---- */

/*
 * A get is about to go down, its fence noted in its frame: it brings memory of a value that is on
 * its way up already. False: how long is the value? dram_promote_sized() then.
 */
bool dram_promote_before(struct dram *d, struct store_io *io);
void dram_promote_sized(struct dram *d, struct store_io *io, uint64_t len, uint64_t ver);
/* It has come back: what it brought is kept. */
void dram_promote_after(struct dram *d, struct store_io *io, int res);
/* e, if it is one of ours, isn't to be trusted. */
void dram_promote_forget(struct dram *d, const struct dram_entry *e);
bool dram_promote_is_rising(struct dram *d, const struct store_key *key);
bool dram_promote_cancel_one(struct dram *d); /* false: none was under way */

/* ---- dram_fetch.c ---- */

/* 0: it comes, is coming or is here; -ENOENT: from nowhere; -EBUSY: too many wishes. */
int dram_fetch_wish(struct dram *d, const struct dram_wish *w);
/* 0; -ENOENT: nobody wished for it. What the device has begun ends. */
int dram_fetch_cancel(struct dram *d, const struct store_key *key);
int dram_fetch_step(struct dram *d);
/* Of an entry that is_fetched, which it is no more. */
void dram_fetch_used(struct dram *d, struct dram_entry *e);
void dram_fetch_wasted(struct dram *d, struct dram_entry *e);
bool dram_fetch_is_busy(const struct dram *d);
/* Was it wished for, and hasn't come? */
bool dram_fetch_is_wished(struct dram *d, const struct store_key *key);

/* ---- dram_ahead.c ---- */

int dram_ahead_init(struct dram *d);
void dram_ahead_fini(struct dram *d);
uint64_t dram_ahead_cost(void); /* bytes */
/* A get that somebody waits for has come up with a value. */
void dram_ahead_read(struct dram *d, const struct store_io *io);
/* One that was fetched as a neighbour is used. */
void dram_ahead_used(struct dram *d, const struct dram_entry *e);
bool dram_ahead_is_busy(const struct dram *d);

/* ---- dram_hint.c ---- */

int dram_hint(struct store *s, const struct store_hint *h);
uint8_t dram_hint_score(const struct dram *d, const struct dram_entry *e);

/* ---- dram_fresh.c ---- */

int dram_fresh_init(struct dram *d, uint64_t fresh_ns, uint32_t max_keys);
void dram_fresh_fini(struct dram *d);
uint64_t dram_fresh_cost(const struct dram *d, uint32_t max_keys);
/* What it is was so at that time. */
void dram_fresh_seen(struct dram *d, const struct dram_entry *e, uint64_t at_ns);
/* May others have changed it since? Then it is dropped, if it is below. */
bool dram_fresh_drop(struct dram *d, struct dram_entry *e);

/* Of the index what may be answered. */
static inline struct dram_entry *dram_fresh_find(struct dram *d, const struct store_key *key)
{
	struct dram_entry *e = dram_index_find(&d->ix, key);

	if (__builtin_expect(d->fresh_ns != 0, 0) && e && dram_fresh_drop(d, e))
		return NULL;
	return e;
}

/* ---- dram_copy.c ---- */

/*
 * Copies chunk no. `chunk` from one view to another of the same key and length, checked against
 * from's seal, which becomes to's. -EILSEQ: from's bytes are wrong.
 */
int dram_copy_chunk(const struct dram *d, const struct store_view *from,
		    const struct store_view *to, const struct store_key *key, uint64_t chunk);

/* ---- dram_resize.c ---- */

/* Most entries for `bytes` of capacity, and what everything but segments takes. */
uint32_t dram_resize_max_keys(uint64_t bytes, uint32_t wanted);
/* Segments as the budget allows: 0, or what dram_arena_add() said. */
int dram_resize_grow(struct dram *d);
int dram_resize(struct store *s, uint64_t bytes);

#endif
