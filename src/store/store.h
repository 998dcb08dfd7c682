/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store: the file to read first. A store_set is one namespace's key space, cut into shards; a
 * shard belongs to one reactor and is a stack of stores (tiers), each of which answers or asks the
 * one below:
 *
 *     store_submit(set, home, io)    the door: hash -> shard -> its owner (by message if not home)
 *            |
 *     +------v------+   store_down(io, up)   +-------------+            +------+  ops ==
 *     |    dram     | ---------------------> |  ssd, fault | -- ... --> | null |  NULL: ask
 *     +-------------+ <--------------------- +-------------+            +------+  below
 *            |           up(io, res)
 *     io->end(io, res)                     on home, exactly once
 *
 * Promises.
 *  - Every verb is void and completes exactly once. Handed an io, a store does exactly one of
 *    store_done(io, res) and store_down(io, up), now or later.
 *  - Who does what: the owner looks up, pins and returns a view (where the value's bytes lie and
 *    its seals). The submitter (the queue's own reactor) copies and checks, then lets go with
 *    store_release(), which goes back by message. Bytes and seals under a view never change and
 *    never move until it is released.
 *  - A value gets its bytes before it is visible: STORE_BUF gives an unpublished view to fill
 *    (bytes and seals), STORE_PUT publishes it. PUT and FILL consume the view whatever the outcome.
 *  - Versions grow per key. A put or del is acknowledged only after every tier below has dropped
 *    the older version (a durable tombstone where the tier persists); in an `immutable` set a put
 *    needs no such thing. A fill whose key was put or deleted after it began is dropped (-ESTALE).
 *    A failed read of a dirty entry is a miss and never falls through to an older value.
 *  - Doubt is a miss. Results: 0; -ENOENT miss, absent (or its bytes could not be trusted);
 *    -EEXIST; -ENOSPC no room even after eviction; -EFBIG value larger than the set allows; -ESTALE
 *    want_ver or if_ver is not the current one; -ECANCELED the set is being destroyed; -EBUSY a
 *    bound was hit, try later. Nothing else reaches the submitter.
 *  - Mutations of one key are taken one after the other (store_gate.c); reads never wait for them.
 *  - Capacity is hard: bytes of arenas, index and side tables together never exceed what the set
 *    was given.
 *
 * No thread-local state, no clock of its own, no lock: everything runs in reactor_step() of the
 * owner or of home.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/counter.h"
#include "core/mbox.h"
#include "core/reactor.h"
#include "mem/mem.h"

#define STORE_DEPTH_MAX 6
#define STORE_PIECE_BYTES (1u << 20)
#define STORE_PART_BYTES (5u << 16) /* what an eager reader asks for at a time, within a piece */
#define STORE_FRAME_WORDS 8
#define STORE_SHARDS_MAX 64u /* of a set: bits of store_match.todo */

struct store;
struct store_class;
struct store_set;
struct store_health;
struct store_control;
struct store_part;
struct store_ahead;
struct store_ssd_care;

/*
 * Made once where the key enters; hash = hash_key(b, len) (base/hash.h): shard, list order and
 * seals come from it.
 */
struct store_key {
	union {
		uint8_t b[16]; /* zero behind len */
		uint64_t w[2];
	};
	uint64_t hash;
	uint8_t len; /* 1..16 */
};

/* Which shard: monotone in the hash, so that list order is shard order. */
static inline unsigned store_shard_of(uint64_t hash, unsigned nr_shards)
{
	return (unsigned)(((hash >> 32) * nr_shards) >> 32);
}

static inline bool store_key_equal(const struct store_key *a, const struct store_key *b)
{
	return a->w[0] == b->w[0] && a->w[1] == b->w[1] && a->len == b->len;
}

/*
 * What a value carries beside its bytes (STORE_EX); stored apart, returned with it. All zero =
 * none.
 */
struct store_meta {
	uint8_t parent[16];
	uint8_t group[16];
	uint8_t tag[32];
	uint8_t parent_len;
	uint8_t group_len;
	uint16_t cls;
	uint32_t cost_us;
	uint32_t seq;
};

enum store_op {
	/*
	 * key, len (bytes), flags -> view, unpublished and writable, seals zero. Between tiers it
	 * may bring memory to be written from, see store_into
	 */
	STORE_BUF,
	STORE_PUT, /* key, view, meta, flags -> ver; consumes the view: st == NULL afterwards */
	/*
	 * key, off, len, ver (wanted, 0 = any) -> view, ver; off past the end is fine: nothing
	 * in the view. It may end at the next multiple of STORE_PIECE_BYTES. Between tiers it may
	 * bring memory to be read into, see store_into
	 */
	STORE_GET,
	/*
	 * key, view, meta, ver: put of an older tier's value, only if nothing newer is known;
	 * between tiers
	 */
	STORE_FILL,
	/*
	 * key, ver: versions < ver are dead in this tier and below, durably; between tiers. -ESTALE
	 * when a higher version or death than ver is known, which io->ver then is: a put goes above
	 * it
	 */
	STORE_INVAL,
	/*
	 * key -> -ENOENT when absent; below the top also ver: versions < ver are dead (0: the
	 * tier's own)
	 */
	STORE_DEL,
	STORE_EXIST, /* key -> 0 or -ENOENT; view.value_len and ver are set, nothing is pinned */
	STORE_MATCH, /* match: an array of keys */
	STORE_LIST,  /* list */
	STORE_FLUSH, /* everything acknowledged is durable in the lowest persistent tier */
	STORE_NR_OPS,
};

enum {
	STORE_IF_ABSENT = 1u << 0,  /* BUF, PUT: -EEXIST when the key is there */
	STORE_IF_PRESENT = 1u << 1, /* BUF, PUT: -ENOENT when it is not */
	STORE_NO_TOUCH = 1u << 2,   /* a look, not a use: eviction order stays */
	/* answer from tiers in memory, never wait for a device or a cluster */
	STORE_MEM_ONLY = 1u << 3,
	/*
	 * GET: nobody waits for it. Devices serve others first, and it is neither hit nor miss.
	 * BUF, between devices of a tier: it is moved, whatever policy would say to something new
	 */
	STORE_BACKGROUND = 1u << 4,
	/*
	 * GET: more of a value whose first bytes another GET has asked for: a use, a hit or a miss
	 * are that one's
	 */
	STORE_CONTINUES = 1u << 5,
	/* BUF: a flush counts on it; whether it is worth keeping is not asked */
	STORE_WANTED = 1u << 6,
};
/* Neither hit nor miss. */
#define STORE_UNCOUNTED (STORE_BACKGROUND | STORE_CONTINUES)

/*
 * A pinned value, or an unpublished buffer. Plain data: may be moved while it is not being
 * released. [off, off + len) is what the runs cover: at least the chunks around what was asked for,
 * whole chunks, often the whole value (dram). off is a multiple of the chunk.
 */
struct store_view {
	struct store *st; /* NULL = empty */
	void *pin;
	uint64_t off;
	uint64_t len;
	uint64_t ver;
	uint32_t value_len;
	uint8_t tier; /* index in the stack; 0 = top */
	/*
	 * set before release when its bytes did not fit their seals: the entry is dropped, an
	 * alert raised
	 */
	bool is_bad;
	bool is_use; /* the tier's: to be counted as a use when it is released */
	/* The door's, while it is being released. */
	struct mbox_msg msg;
	struct reactor *home;
	void (*done)(struct store_view *v);
};

#define STORE_ABSENT 0
#define STORE_LOWER 1  /* present in a tier below memory */
#define STORE_MEMORY 2 /* present in memory */

struct store_match {
	const struct store_key *keys;
	uint8_t *found; /* one per key: STORE_ABSENT, _LOWER, _MEMORY */
	uint32_t nr;
	/* The door's. */
	uint16_t nr_shards;
	uint64_t todo; /* shards still to visit */
};

/* Keys in order of (hash, key), each once. A page starts behind `after` when has_after, at hash
 * `after.hash` (0: at the first key) otherwise. A tier fills keys[0..max) from its own shard;
 * max may be 0: only `more` is wanted. */
struct store_list {
	struct store_key after;
	bool has_after;
	bool is_inclusive; /* `after` itself comes first if it exists */
	bool more;	   /* out: there are keys behind the last one given */
	uint32_t max;
	uint32_t nr;		/* out */
	struct store_key *keys; /* out, room for max */
	uint32_t nr_before;	/* the door's: keys that earlier shards gave */
};

/*
 * Memory of the tier above for a value that is on its way up: unpublished, pinned once for this
 * GET, whole or not. A tier whose value it is (version and length say so) may read the range asked
 * for straight into it, with the seals; it then clears st here, and its view is one of that memory
 * (view.st is this st). It has taken the pin: the view carries it, or, when the GET failed, it is
 * let go by ops->release as soon as nothing is written there any more. Who can't leaves st as it
 * is.
 *
 * With a BUF of a tier above, the other way: the value lies there, whole and sealed, and stays
 * until the buffer is let go or the FILL that brings it has ended. Who takes it (clears st) has
 * the seals from there and writes the bytes from where they lie: nobody fills the buffer.
 */
struct store_into {
	struct store *st; /* NULL: none */
	void *pin;
	uint64_t ver;
	uint32_t value_len;
	bool is_huge;		 /* it lies in huge pages */
	uint64_t *seals;	 /* of the whole value */
	struct store_meta *meta; /* NULL: it is known to be none */
};

struct store_io;
typedef void store_end_fn(struct store_io *io, int res);

struct store_frame {
	store_end_fn *up;
	struct store *at; /* whose frame it is */
	uint8_t op;	  /* of the io while it was here: store_down_as() */
	/* the store's own, across a store_down(); static_assert that it fits */
	uint64_t scratch[STORE_FRAME_WORDS];
};

/* What a look-up touches comes first. */
struct store_io {
	/* Set by the submitter; constant until end(). */
	uint8_t op; /* enum store_op */
	uint8_t flags;
	/* The door's. */
	uint8_t depth;
	bool is_inner; /* a tier's own: not counted, its result not translated */
	uint16_t shard;
	/* The submitter's. */
	struct store_key key;
	store_end_fn *end;
	/* The door's. */
	struct store_set *set;
	struct reactor *home;
	struct store *at;
	/* The submitter's. */
	uint64_t ver; /* in: wanted / if_ver; out: the value's version */
	uint64_t off;
	uint64_t len;
	const struct store_meta *meta; /* NULL = none */
	/* In and out, see the verbs. */
	struct store_view view;
	struct store_into into; /* of a GET or BUF between tiers; the door clears it */
	union {
		struct store_match match;
		struct store_list list;
	};
	/* The door's. */
	int res;
	struct mbox_msg msg;
	struct list gate; /* store_gate.c: waiting for, or holding, its key */
	struct store_frame frame[STORE_DEPTH_MAX];
};

/* Submits to the key's shard (MATCH, LIST and FLUSH visit every shard they must). end() may run
 * inside, when home owns the shard and the answer is in memory. */
void store_submit(struct store_set *set, struct reactor *home, struct store_io *io);

/*
 * A GET that can be answered at once, without an io: 0, and *view is a pinned view over the whole
 * value, to be let go with store_release(); -ENOENT; or -EAGAIN: home doesn't own the shard, or the
 * answer lies further down: store_submit() tells. This is the short way of a hit in memory; what it
 * answers is what the verb would.
 */
int store_now(struct store_set *set, struct reactor *home, const struct store_key *key,
	      unsigned flags, struct store_view *view);

/*
 * EXIST of many keys at once, without ios, in passes whose cache misses overlap. Bit i of the
 * answer: key i is there. Bit i of *ask: only store_submit() can tell, as above. Touches nothing.
 */
#define STORE_LOOK_MAX 64
uint64_t store_look(struct store_set *set, struct reactor *home,
		    const struct store_key *const *keys, unsigned nr, uint64_t *ask);

/*
 * store_now() of a key that another reactor owns, batched with what else goes to that owner in this
 * turn (store_far.c). False: home owns it, or no batch is free: store_submit() is the way.
 * Otherwise end(far, res) runs once, on home, in a later turn; res as of store_now(). With 0 the
 * value is pinned: view tells all of it, run is where its first bytes lie, seals are all of its
 * seals; then exactly one of store_far_put() and store_far_drop() follows, now or later, and only
 * the former ends the struct's use at once: what waits for the pin is the batch.
 */
struct store_far {
	void (*end)(struct store_far *far, int res);
	/* Its copy takes more than a turn: it has a batch of its own, or others stay pinned. */
	bool is_long;
	/* Out. */
	struct store_view view;
	struct mem_run run;
	uint64_t *seals;
	/* The door's. */
	uint32_t slot;
	struct store_far_batch *batch;
	void (*dropped)(struct store_far *far);
};
bool store_far_get(struct store_set *set, struct reactor *home, const struct store_key *key,
		   struct store_far *far);
void store_far_put(struct store_far *far);
/* Its bytes don't fit their seals: dropped(far) when the owner has dropped it and told. */
void store_far_drop(struct store_far *far, void (*dropped)(struct store_far *far));

/*
 * What somebody says about a key, on the owner's reactor, done or noted at once: 0; -ENOENT it
 * isn't where the hint is about; -EBUSY a bound was hit, or it is in use; -EOPNOTSUPP no tier takes
 * such.
 */
enum store_hint_verb {
	STORE_HINT_PREFETCH, /* into memory until until_ns, if it can be done by then */
	STORE_HINT_CANCEL,   /* no more of that: what hasn't begun isn't read */
	STORE_HINT_DEMOTE,   /* out of memory, to the tier below */
	STORE_HINT_SCORE,    /* weight: attention, for whoever picks victims */
};
struct store_hint {
	struct store_key key;
	uint64_t until_ns; /* of the owner's clock; UINT64_MAX: whenever */
	uint16_t weight;
	uint8_t verb;
};
struct reactor *store_set_owner(const struct store_set *set, const struct store_key *key);
int store_hint(struct store_set *set, const struct store_hint *h);

/*
 * For the passes over a burst: pulls what a get of key will touch into the cache. Stage 0: bucket,
 * stage 1: entry, stage 2 (while the command before it is executed): the first 4 KiB of the value
 * and its neighbours in the eviction order. Nothing when home isn't the owner.
 */
void store_prefetch(struct store_set *set, struct reactor *home, const struct store_key *key,
		    int stage);

/*
 * Runs of the view from byte `off` of the value on: fills up to nr, returns how many (0 at the
 * end). Any reactor.
 */
unsigned store_runs(const struct store_view *v, uint64_t off, struct mem_run *runs, unsigned nr);
/*
 * Seals of the view; [0] is that of chunk view.off / MEM_CHUNK_BYTES. Writable while
 * unpublished.
 */
uint64_t *store_seals(const struct store_view *v);
/* Never NULL: all zero when the value carries none. Valid until release. */
const struct store_meta *store_meta(const struct store_view *v);
/* Unpins (or frees an unpublished buffer), at once when home owns the shard, by message
 * otherwise: *v must stay where it is until done(v) has run on home (possibly inside). done may
 * be NULL when home owns the shard or *v lives as long as the set. v->st is NULL afterwards; an
 * empty view is fine. */
void store_release(struct store_view *v, struct reactor *home, void (*done)(struct store_view *v));

/* A mem_iter over the bytes of a view, from chunk-aligned `off` on. */
struct store_view_iter {
	struct mem_iter it;
	const struct store_view *view;
	uint64_t pos;
	struct mem_run run;
};
void store_view_iter_init(struct store_view_iter *vi, const struct store_view *v, uint64_t off);

/* ---- what a tier implements ---- */

struct store_stats {
	uint64_t capacity_bytes; /* hard bound, everything included */
	uint64_t used_bytes;	 /* counted against it now */
	uint64_t value_bytes;	 /* logical bytes stored */
	uint64_t nr_keys;
	uint64_t index_bytes;
	uint64_t hits;
	uint64_t misses;
	uint64_t puts;
	uint64_t evictions;
	uint64_t evicted_bytes;
	uint64_t bad_seals; /* alerts */
	uint64_t full;	    /* -ENOSPC given */
	uint64_t lost;	    /* acknowledged, needed their memory, and could not be written below */
	uint64_t dirty_bytes; /* of values that lie here and not yet below: what a crash takes */
	uint64_t torn;	      /* records that a crash had cut off, found and refused: no fault */
	/* Of a tier in memory, bytes of values: */
	uint64_t fetched_bytes;	 /* brought before anybody asked */
	uint64_t fetched_used;	 /* of them, asked for later */
	uint64_t fetched_wasted; /* evicted without a use */
	uint64_t ahead_bytes;	 /* of those that were fetched as neighbours of one that was read */
	uint64_t ahead_used;
	uint64_t ahead_wasted;
	uint64_t fetches;	  /* values brought */
	uint64_t fetches_dropped; /* wishes that were cancelled, came too late or found no room */
	/* Of a tier on a device: */
	uint64_t read_bytes;	 /* asked of it by gets, heads and padding included */
	uint64_t straight_bytes; /* of values, read to where the tier above wants them */
	uint64_t staged_bytes;	 /* likewise into buffers of its own */
	uint64_t late;		 /* reads that were answered as a miss before they had ended */
};

struct store_ops {
	const char *name;
	bool is_memory; /* MATCH says STORE_MEMORY */
	/* no memory, but MATCH and EXIST look in an index: also one that mustn't wait asks it */
	bool has_index;
	/*
	 * of other machines, too: a FILL takes conditions and replaces what is there in one step,
	 * a put's needs no EXIST and INVAL; a write-back's is -ESTALE if another has put since
	 */
	bool is_far;
	/* NULL: ask below; LIST and MATCH merge below */
	void (*verb[STORE_NR_OPS])(struct store *s, struct store_io *io);
	unsigned (*runs)(const struct store_view *v, uint64_t off, struct mem_run *runs,
			 unsigned nr);
	uint64_t *(*seals)(const struct store_view *v);
	const struct store_meta *(*meta)(const struct store_view *v);
	void (*release)(struct store *s, struct store_view *v); /* owner */
	void (*prefetch)(struct store *s, const struct store_key *key, int stage);
	/* store_now() of the top store; NULL: always -EAGAIN */
	int (*now)(struct store *s, const struct store_key *key, unsigned flags,
		   struct store_view *view);
	/* store_look() of the top store, of keys in its shard; NULL: has to be asked for all */
	uint64_t (*look)(struct store *s, const struct store_key *const *keys, unsigned nr,
			 uint64_t *ask);
	/* store_hint(); NULL: the tier below is asked */
	int (*hint)(struct store *s, const struct store_hint *h);
	/* store_ahead.h; NULL: the tier below is asked */
	void (*ahead)(struct store *s, struct store_ahead *a);
	/* any thread: counters only */
	void (*stats)(const struct store *s, struct store_stats *st);
	/* any thread: store_class.h; NULL: not counted */
	unsigned (*classes)(const struct store *s, struct store_class *to, unsigned max);
	/* any thread: counters only; NULL: it lies on no device (store_health.h) */
	void (*health)(const struct store *s, struct store_health *h);
	void (*control)(struct store *s, struct store_control *c); /* owner */
	/* any thread: the i-th of the devices that it lies on; -ENOENT: no more; NULL: it isn't
	 * made of several */
	int (*part)(const struct store *s, unsigned i, struct store_part *p);
	/* bounded background work; > 0 when some was done; NULL = none */
	int (*step)(struct store *s);
	/* 0, -EAGAIN while it shrinks (asked again next turn), -EINVAL below the tier's least */
	int (*resize)(struct store *s, uint64_t bytes);
	/* is background work under way? Then a set waits with destroying it. NULL = never */
	bool (*is_busy)(const struct store *s);
	void (*destroy)(struct store *s); /* nothing in flight, nothing pinned */
};

/* Head of every store's own struct. Belongs to the shard's owner. */
struct store {
	const struct store_ops *ops;
	/* NULL: the bottom; store_down() there ends with -ENOENT; FLUSH, INVAL, MATCH, LIST: 0 */
	struct store *below;
	struct store_set *set;
	struct reactor *owner;
	uint16_t shard;
	uint8_t tier;
};

/*
 * The io of a PUT or FILL carries the view: a tier that takes it clears view.st; if it is still
 * there at the end (the tier failed before it took it) the door releases it.
 */
void store_done(struct store_io *io, int res);
/* up may be NULL: the result is passed on as it is */
void store_down(struct store_io *io, store_end_fn *up);
/* Asks below another verb about the same key (a PUT asks for an INVAL, with io->ver set): io->op
 * is the old one again when up() runs. The io goes on holding its key. */
void store_down_as(struct store_io *io, enum store_op op, store_end_fn *up);
/* A store made of others: one of them answers, up() as in store_down(). */
void store_hand(struct store_io *io, struct store *part, store_end_fn *up);
void *store_scratch(struct store_io *io); /* this store's frame */
/*
 * A tier's own request (write-back, promotion) to the store below it, or to s itself and what is
 * below: io->end on this reactor, with the tiers' results untranslated. PUT, DEL, FILL and INVAL
 * wait for the key like anybody's: never wait for one from inside a mutation of the same key, use
 * store_down_as() there.
 */
void store_submit_below(struct store *s, struct store_io *io);
void store_submit_at(struct store *s, struct store_io *io);

/* No work of a tier's own begins any more: the set is about to go. */
bool store_set_is_closing(const struct store *s);
/* Is it about to be: is what comes now the last, and is it waited for? */
bool store_set_is_ending(const struct store *s);

/* Order of LIST: (hash, key bytes, len). */
int store_key_cmp(const struct store_key *a, const struct store_key *b);
/* Does the page begin at or before k? */
bool store_list_wants(const struct store_list *l, const struct store_key *k);
/*
 * Merges one wanted key into keys[0..nr), which stays sorted, each once; when there are more than
 * max the last falls out and `more` is set. False: neither k nor anything behind it is on this
 * page. A tier adds its own in order until told so and then calls store_down(io, NULL): the door
 * has emptied the page, tiers only add.
 */
bool store_list_add(struct store_list *l, const struct store_key *k);
/* Has this tier to look key i up? Not when it lies in another shard or a tier above has it. */
static inline bool store_match_wants(const struct store_io *io, uint32_t i)
{
	return io->match.found[i] == STORE_ABSENT &&
	       store_shard_of(io->match.keys[i].hash, io->match.nr_shards) == io->shard;
}

/* ---- sets ---- */

struct store_set_opts {
	const char *name;
	struct reactor *const *reactors;
	unsigned nr_shards;	      /* reactors[i] owns shard i; one may own several */
	struct reactor *const *peers; /* those that submit, owners or not; NULL: the owners */
	unsigned nr_peers;
	bool is_immutable;
	uint32_t value_max; /* bytes, <= 128 MiB */
	/* any owner; key NULL: it is about a tier, not about a value */
	void (*alert)(void *arg, const struct store_key *key, const char *what);
	void *alert_arg;
};

struct store_set;
int store_set_create(const struct store_set_opts *o, struct store_set **set);
/*
 * Puts s (made for `shard`) under what the shard has so far: the first one is the top. Before
 * the set is used.
 */
void store_set_push(struct store_set *set, unsigned shard, struct store *s);
/* Once, after the last push: tiers' own work begins now, not with the first command. Any thread. */
void store_set_open(struct store_set *set);
/* Before the last flush: nothing is worth slowing down for any more. Any thread. */
void store_set_ending(struct store_set *set);
unsigned store_set_nr_shards(const struct store_set *set);
bool store_set_is_immutable(const struct store_set *set);
uint32_t store_set_value_max(const struct store_set *set);
/* Sums over the shards; tier 0 is the top. -ENOENT when there is no such tier. Any thread. */
int store_set_stats(const struct store_set *set, unsigned tier, struct store_stats *st);
/* What the door has seen, summed over the shards. Any thread. */
struct store_door_stats {
	uint64_t ops[STORE_NR_OPS];
	uint64_t waits;	     /* mutations that waited for their key */
	uint64_t unexpected; /* results outside the closed set, told as a miss or -ENOSPC */
	uint64_t busy;	     /* operations under way, and batches of far look-ups with pins */
};
void store_set_door_stats(const struct store_set *set, struct store_door_stats *st);
/* "dram"; NULL when there is no such tier. Any thread. */
const char *store_set_tier_name(const struct store_set *set, unsigned tier);

/*
 * Which tiers hold a key, from the top down: an operator's question, not the data path's. done(w,
 * res) on home: 0 or -ENOENT, -ECANCELED. The struct lives until then.
 */
struct store_where_tier {
	const char *name;
	uint64_t ver;
	struct store_meta meta;
	uint32_t value_len;
	uint8_t tier;
};
struct store_where {
	/* Set by the submitter. */
	struct store_set *set;
	struct reactor *home;
	struct store_key key;
	void (*done)(struct store_where *w, int res);
	/* Out. */
	unsigned nr;
	struct store_where_tier found[STORE_DEPTH_MAX];
	/* Its own. */
	int res;
	struct mbox_msg msg;
	struct store_io io;
};
void store_where_start(struct store_where *w);
/*
 * Each async: done(arg, res) on home. destroy: the submitter has stopped submitting and released
 * its views.
 */
void store_set_resize(struct store_set *set, struct reactor *home, uint64_t bytes,
		      void (*done)(void *arg, int res), void *arg);
void store_set_destroy(struct store_set *set, struct reactor *home,
		       void (*done)(void *arg, int res), void *arg);
void store_alert(struct store *s, const struct store_key *key, const char *what);

#endif
