/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the rados store share. One struct ceph is one shard's tier and belongs to its
 * owner; one struct ceph_link is the namespace's connection, which any thread may ask.
 *
 *   ceph.c       create, counters, the ops table     ceph_link.c   connecting, being down
 *                                                    ceph_conn.c   a handle of librados
 *   ceph_get.c   get, exist, what a view shows       ceph_puts.c   the thread of large values
 *   ceph_put.c   buf, put, fill, inval, del          ceph_obj.c    names, attributes
 *   ceph_write.c what is on its way to the cluster   ceph_list.c   list, match
 *   ceph_keys.c  keys that are known, in order       ceph_scan.c   reading the pool's list
 *   ceph_cache.c the tier below
 */
#ifndef STORE_RADOS_CEPH_INT_H
#define STORE_RADOS_CEPH_INT_H

#include <pthread.h>
#include <rados/librados.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#include "base/list.h"
#include "core/counter.h"
#include "core/timeout.h"
#include "store/rados/ceph.h"
#include "store/rados/ceph_keys.h"
#include "store/rados/ceph_obj.h"

#define CEPH_LOOKS 64u	    /* EXISTs under way */
#define CEPH_SMALLS 64u	    /* reads of at most a chunk */
#define CEPH_LARGES 24u	    /* and of at most a piece: fewer where there are many shards */
#define CEPH_WRITES 64u	    /* of all kinds */
#define CEPH_STAGED_MAX 4u  /* values of more than a chunk that don't lie in memory above */
#define CEPH_WAITS_MAX 256u /* of each kind */
#define CEPH_PIECE_SEALS (STORE_PIECE_BYTES / MEM_CHUNK_BYTES)
#define CEPH_BADS 64u
#define CEPH_POOLS_MAX 16u /* a pool deleted and made anew: ioctxs that may still be in use */

/* From the link's thread to the owner of a shard, one at a time: ceph_scan.c */
#define CEPH_SCAN_PAGE 512u
enum ceph_scan_what {
	CEPH_SCAN_BEGIN,
	CEPH_SCAN_KEYS,
	CEPH_SCAN_END,
	CEPH_SCAN_STOP,
	CEPH_SCAN_QUIET, /* is anything under way? */
};
enum ceph_scan_state {
	CEPH_SCAN_IDLE,
	CEPH_SCAN_POSTED,
	CEPH_SCAN_GONE,
};
struct ceph_scan {
	struct mbox_msg msg;
	struct ceph *s;
	_Atomic int state; /* enum ceph_scan_state; whose the following is */
	uint8_t what;
	bool is_more; /* out, of END and QUIET: ask again */
	uint32_t nr;
	const struct store_key *keys;
	uint64_t nr_left_out; /* out */
	/* The thread's. */
	struct store_key *page; /* is being filled */
	uint32_t nr_page;
	struct store_key pages[2][CEPH_SCAN_PAGE];
};

struct ceph_link {
	struct ceph_opts o; /* strings are ours */
	rados_t cluster;
	_Atomic(rados_ioctx_t) io; /* NULL: not connected, or no such pool */
	rados_ioctx_t pools[CEPH_POOLS_MAX];
	unsigned nr_pools;
	_Atomic bool is_down;	  /* operations aren't answered */
	_Atomic uint32_t nr_late; /* since one was */
	_Atomic bool is_suspect;  /* is it still that pool? */
	_Atomic int refused;	  /* -EPERM or -ESHUTDOWN: what an operation was answered */
	_Atomic bool is_stopping;
	_Atomic bool is_over; /* the thread, or who has waited for it: the second one frees */
	int told;	      /* the last error that was said; 0: that it is up */
	int silence;	      /* what is said while nobody answers: why no new handle is */
	uint64_t look_at_ns, anew_at_ns, anew_ns;
	uint32_t nr_probes;
	pthread_t thread, puts_thread;
	struct ceph_closing *closing; /* who is told that it is closed */
	sem_t wake, puts_wake;
	struct mbox puts;
	uint8_t *gather; /* of the thread of large values: one in one piece */
	size_t gather_bytes;
	struct ceph_scan *scan; /* of each shard */
	sem_t scan_wake;
	uint64_t scan_at_ns;	   /* the next one */
	_Atomic uint32_t nr_scans; /* that have read all of it */
	uint64_t nr_left_out;	   /* of the last one */
	_Atomic bool is_ready;	   /* all shards have their place */
};

/* NULL: no operation may be begun now. */
rados_ioctx_t ceph_link_io(struct ceph_link *link);
/* An operation has ended; res says whether the cluster has answered it, well or not. */
void ceph_link_ended(struct ceph_link *link, int res);
/* One is late, whatever will come of it. */
void ceph_link_late(struct ceph_link *link);
/* -ENOENT, for what needs no object: the pool has gone? */
void ceph_link_suspect(struct ceph_link *link);
/* The last thing that the thread of large values does: the link may be gone behind it. */
void ceph_link_puts_over(struct ceph_link *link);

/* ---- ceph_conn.c ---- */

/* With the configuration read, and our limits; not connected. */
int ceph_conn_handle(const struct ceph_link *link, rados_t *out);
int ceph_conn_open(const struct ceph_link *link, rados_t *out);
bool ceph_conn_has_mon(rados_t cl);
bool ceph_conn_knows(const struct ceph_link *link, rados_t cl);
/* -ETIMEDOUT: nobody can say whether there is such a pool. */
int ceph_conn_pool(const struct ceph_link *link, rados_t cl, rados_ioctx_t *io);
/* 0: who asks may read and write there. name: of an object that is never there. */
int ceph_conn_may(rados_ioctx_t io, const char *name);

enum ceph_read_kind {
	CEPH_READ_LOOK,
	CEPH_READ_SMALL,
	CEPH_READ_LARGE,
	CEPH_READ_KINDS,
};

struct ceph;

struct ceph_read {
	struct mbox_msg msg;
	struct list node; /* free; or under way and not late, oldest first */
	struct ceph *s;
	struct store_io *io; /* NULL: nobody waits any more */
	rados_completion_t comp;
	rados_read_op_t op;
	rados_xattrs_iter_t attrs;
	uint64_t size; /* of the object */
	time_t mtime;
	size_t nr_read;
	int res_stat, res_attrs, res_read;
	uint64_t off, len; /* asked for: whole chunks */
	uint64_t want_ver;
	uint64_t since_ns; /* it was asked, and may have waited for this slot until */
	uint64_t start_ns;
	struct store_key key;
	uint64_t ver;
	struct ceph_obj_info info;
	uint64_t seals[CEPH_PIECE_SEALS];
	uint8_t *mem;
	uint8_t kind;
	char name[CEPH_NAME_BYTES];
};

/* A value, or a removal, on its way to the cluster. */
struct ceph_write {
	struct mbox_msg msg;
	struct list node; /* free; or waits for its turn */
	struct ceph *s;
	struct store_io *io;
	void (*came)(struct ceph_write *w, int res); /* owner; destroys it */
	rados_completion_t comp;
	struct store_into from; /* st: it lies there */
	uint8_t *mem;		/* or here */
	uint64_t *seals;	/* of mem, ours */
	struct store_key key;
	struct ceph_obj_info info;
	uint64_t ver; /* that it got */
	int res;
	uint64_t copied; /* chunks, to the cache below */
	bool is_value;	 /* else a removal */
	bool is_absent;	 /* only if the object isn't there, */
	bool is_there;	 /* only if it is */
	int8_t staged;	 /* which of the large buffers; -1: none */
	char name[CEPH_NAME_BYTES];
};

struct ceph_counters {
	struct counter hits, misses, puts, bad_seals, full, read_bytes, staged, late;
	struct counter keys; /* that are known */
};

/* FIFO of ios, linked through their frames. */
struct ceph_waits {
	struct store_io *head, *tail;
	uint32_t nr;
};

struct ceph {
	struct store st;
	struct ceph_link *link;
	uint64_t ver; /* the highest known */
	void *map;
	size_t map_bytes;
	struct mem_region *reg; /* all of map */
	struct ceph_read *reads;
	uint32_t nr_of[CEPH_READ_KINDS], nr_all;
	struct list free_reads[CEPH_READ_KINDS];
	struct list busy_reads;
	struct ceph_waits read_waits[CEPH_READ_KINDS];
	struct timeout read_timeout;
	bool is_serving; /* who waits for a read: get_free() */
	struct ceph_write *writes;
	uint64_t *seals; /* of all writes */
	struct list free_writes;
	struct list write_queue; /* for bytes */
	struct ceph_waits write_waits;
	uint8_t *staged[CEPH_STAGED_MAX]; /* whole pages each: ceph_write_staged_bytes() */
	uint32_t staged_used;
	struct ceph_waits copies; /* puts on their way to the cache below */
	uint32_t nr_writes;	  /* under way */
	uint64_t write_bytes, max_write_bytes;
	uint32_t nr_reads; /* likewise */
	struct {
		uint64_t hash, ver;
	} bad[CEPH_BADS];
	uint32_t bad_next;
	struct ceph_keys keys;
	struct ceph_counters count;
};

struct ceph_frame {
	struct store_io *next;
	uint64_t since_ns;
	uint64_t ver;
	void (*start)(struct ceph *s, struct store_io *io);
	struct ceph_write *w;
	int res;
	uint8_t flags;
};
_Static_assert(sizeof(struct ceph_frame) <= STORE_FRAME_WORDS * sizeof(uint64_t), "frame fits");

static inline struct ceph *ceph_of(struct store *s)
{
	return (struct ceph *)s;
}

static inline struct ceph_frame *ceph_frame(struct store_io *io)
{
	return store_scratch(io);
}

void ceph_wait(struct ceph_waits *w, struct store_io *io);
struct store_io *ceph_wait_pop(struct ceph_waits *w); /* NULL: nobody waits */

/* ---- ceph_get.c ---- */

int ceph_get_init(struct ceph *s); /* reads of s->map are made by ceph.c */
void ceph_get(struct store *st, struct store_io *io);
void ceph_get_exist(struct store *st, struct store_io *io);
void ceph_get_release(struct ceph_read *r, bool is_bad);
bool ceph_get_is(const struct ceph *s, const void *pin);

/* ---- ceph_put.c ---- */

void ceph_put(struct store *st, struct store_io *io);
void ceph_put_buf(struct store *st, struct store_io *io);
void ceph_put_fill(struct store *st, struct store_io *io);
void ceph_put_inval(struct store *st, struct store_io *io);
void ceph_put_del(struct store *st, struct store_io *io);

/* ---- ceph_cache.c ---- */

/* The cluster has it: below, then the put is answered, and w is free again. */
void ceph_cache_put(struct ceph_write *w);
int ceph_cache_step(struct store *st);

/* ---- ceph_write.c ---- */

size_t ceph_write_staged_bytes(const struct ceph *s);
int ceph_write_init(struct ceph *s);
/* NULL: all are under way, or no memory for a value of len that lies nowhere else. */
struct ceph_write *ceph_write_create(struct ceph *s, uint64_t len, bool is_elsewhere);
void ceph_write_destroy(struct ceph_write *w); /* not under way; who waits for one is served */
/* w->came() runs later, or inside. */
void ceph_write_submit(struct ceph_write *w);
/*
 * Checks, builds and hands over: on the owner for what is small, else on the thread of large
 * values. gather: room for the whole value.
 */
void ceph_write_run(struct ceph_write *w, uint8_t *gather);
/* Where it lies, from off on; any thread. */
unsigned ceph_write_runs(const struct ceph_write *w, uint64_t off, struct mem_run *runs);
const uint64_t *ceph_write_seals(const struct ceph_write *w);

/* ---- ceph_list.c, ceph_scan.c ---- */

void ceph_list(struct store *st, struct store_io *io);
void ceph_list_match(struct store *st, struct store_io *io);
void ceph_list_scanned(struct mbox_msg *m);

int ceph_scan_init(struct ceph_link *link);
void ceph_scan_fini(struct ceph_link *link);
/* The link's thread: reads the list if it is time. */
void ceph_scan_turn(struct ceph_link *link);
/* Likewise, when no operation may begin: back when none is under way; false: it is stopping. */
bool ceph_scan_quiet(struct ceph_link *link);

/* ---- ceph_puts.c ---- */

int ceph_puts_start(struct ceph_link *link);
void ceph_puts_stop(struct ceph_link *link);
void ceph_puts_push(struct ceph_link *link, struct ceph_write *w);

#endif
