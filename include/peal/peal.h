/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libpeal: the client of peald in C. C11 and C++17 clean.
 *
 *	struct peal *p;
 *	if (peal_open("vfu:/run/peal/cntrl", NULL, &p) < 0)
 *		errx(1, "%s", peal_errmsg());
 *	struct peal_key k = peal_key_hex("0x00112233445566778899aabbccddeeff");
 *	peal_put(p, &k, value, value_bytes, NULL);
 *	ssize_t n = peal_get(p, &k, buf, sizeof(buf), NULL);	// -ENOENT: a miss, recompute
 *	peal_close(p);
 *
 * Every call returns 0 (or a count) or a negative errno; peal_errmsg() then says, for the calling
 * thread, which key and why.
 *   -ENOENT    a miss: absent, evicted, or its bytes failed their check - never wrong bytes
 *   -ETIMEDOUT the deadline
 *   -ENOTCONN  the daemon is gone; the library reconnects in the background, later calls work again
 *   -EMSGSIZE  the buffer is too small; the value's size is in the call's value_bytes
 *   -EFBIG     the value is larger than the namespace takes; -ENOSPC no room
 *   -EEXIST    IF_ABSENT and present; -EINVAL an argument; -EACCES not allowed
 *   -EAGAIN    a bound was hit: buffers, commands, leases, a queue's depth
 *   -EPERM     a handle from before fork(); -EOPNOTSUPP the daemon doesn't have that
 *   -EIO, -EPROTO  the daemon failed, or says what makes no sense
 *
 * Deadlines. Every call has one (opts->timeout_ms, 0 = the handle's default of 2000 ms). NVMe can't
 * take a command back, so calls with a deadline never name the caller's memory to the daemon: they
 * go through buffers of the library (a lease and a copy for reads where that is faster). After a
 * time-out those buffers stay in quarantine until the daemon has answered or is proven dead; the
 * caller's memory is his at once. The direct calls (peal_req with PEAL_DIRECT) name the caller's
 * registered memory and end only with the completion.
 *
 * Threads. A struct peal may be used by many threads; a struct peal_queue by one at a time. After
 * fork() the child must open its own (calls give -EPERM there).
 *
 * Ownership. What a call gives out by a ** (handle, lease, memory, queue) is the caller's to give
 * back by the call named beside it; peal_close() gives back all that is left. What is passed in is
 * read or filled during the call only; a peal_req and its buffer, from submit to reap.
 */
#ifndef PEAL_PEAL_H
#define PEAL_PEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct peal;
struct peal_queue;
struct peal_mem;

/* ---- opening ---- */

struct peal_opts {
	uint32_t timeout_ms; /* default deadline of a call; 0 = 2000 */
	uint32_t nsid;	     /* 0 = the lowest KV namespace */
	/*
	 * the library's own buffers, for calls with a deadline; 0 = 64 MiB; a larger value gets a
	 * buffer of its own for the call, at most two at a time
	 */
	uint32_t buffer_bytes;
	/* ask for Namespace Management (granted to root and to the daemon's own user) */
	bool is_operator;
	bool no_reconnect; /* a lost daemon stays lost */
};

/*
 * uri: "vfu:PATH"             PATH is the socket, e.g. /run/peal/cntrl, or its folder
 *      "spawn:DIR?dram=1G&ssd=100G&linger=600&reactors=1"
 *                             attach to the daemon of DIR, or start one there (under a lock in
 *                             DIR). It lives as long as a client is attached, plus `linger`
 *                             seconds. With ssd (which wants dram), what memory gives up goes to
 *                             DIR/ssd. Binary: $PEALD, else beside this program, else beside this
 *                             library, else PATH.
 * o may be NULL. Blocks at most timeout_ms (spawn: 10 s, or timeout_ms if that is more; with ssd a
 * second more for each 64 MiB of it, since a new file is made whole first).
 */
int peal_open(const char *uri, const struct peal_opts *o, struct peal **p);
void peal_close(struct peal *p); /* its queues and memory are gone too; NULL is fine */
const char *peal_errmsg(void);	 /* of this thread's last failed call; never NULL */

struct peal_info {
	uint32_t nsid;
	uint32_t key_max;   /* bytes */
	uint32_t value_max; /* bytes */
	uint64_t capacity_bytes;
	uint64_t used_bytes;
	uint32_t match_max; /* keys in one MATCH command; peal_match() takes any number */
	bool is_immutable;
	bool has_lease;	     /* the arena can be mapped */
	char subsystem[224]; /* NQN */
};
int peal_info(struct peal *p, struct peal_info *info); /* asks the daemon */

/* Text "0x..." (hex) or up to 16 bytes as they are; len 0 when it is neither. */
struct peal_key peal_key_text(const char *text);
struct peal_key peal_key_hex(const char *hex);
struct peal_key peal_key_bytes(const void *b, size_t len);

/* ---- calls with a deadline ---- */

struct peal_meta { /* what travels with a value: STORE_EX, see doc/vendor-commands.md */
	struct peal_key parent;	     /* the block before it in its chain; len 0 = none */
	struct peal_key group;	     /* the chain's root: a conversation, a document */
	uint8_t tag[PEAL_TAG_BYTES]; /* the rest of the engine's key, for want_tag */
	uint16_t cls;		     /* class; 0 = none */
	uint32_t cost_us;	     /* what recomputing it takes; 0 = unknown */
	uint32_t seq;		     /* its place in the chain, blocks */
};

struct peal_call {
	uint32_t timeout_ms; /* 0 = the handle's */
	uint32_t flags;	     /* put: PEAL_IF_*, not both; get: PEAL_RAW, PEAL_PART; else 0 */
	/*
	 * get: first byte, multiple of 4096 inside the value, else -EINVAL. All that is behind it
	 * must fit into the buffer, or PEAL_PART be given.
	 */
	uint64_t offset;
	struct peal_meta *meta; /* put: in; get, exist: out; NULL = none */
	/* get, exist: 32 bytes; another tag is a miss (-ENOENT), told apart in peal_errmsg() */
	const uint8_t *want_tag;
	uint64_t value_bytes; /* get, exist: out, the whole value's size */
	uint64_t version;     /* get, exist: out; grows with each put of the key */
};
#define PEAL_IF_ABSENT 1u
#define PEAL_IF_PRESENT 2u
#define PEAL_RAW 4u
#define PEAL_DIRECT 8u /* peal_req only */
#define PEAL_PART 16u  /* get: what fits in buf is enough, no -EMSGSIZE */

int peal_put(struct peal *p, const struct peal_key *k, const void *value, size_t bytes,
	     struct peal_call *c);
/* Bytes delivered; the value is larger than `bytes`: -EMSGSIZE. */
ssize_t peal_get(struct peal *p, const struct peal_key *k, void *buf, size_t bytes,
		 struct peal_call *c);
/* -ENOENT when absent */
int peal_del(struct peal *p, const struct peal_key *k, struct peal_call *c);
int peal_exist(struct peal *p, const struct peal_key *k, struct peal_call *c); /* 0 or -ENOENT */
/* Leading keys that are present; *in_memory (may be NULL): how many of them are in memory. */
ssize_t peal_match(struct peal *p, const struct peal_key *keys, size_t nr, size_t *in_memory,
		   struct peal_call *c);
/*
 * What the caller knows about a key. None waits for a device; each is done, noted or not taken, and
 * can only change where a value lies.
 */
enum peal_say {
	PEAL_SAY_PREFETCH = 1, /* into memory within ms (0 = whenever), by weight among equals */
	PEAL_SAY_CANCEL = 2,   /* no more of that: what the device hasn't begun isn't read */
	PEAL_SAY_DEMOTE = 3,   /* out of memory, to the tier below */
	PEAL_SAY_PIN = 4,      /* stays in memory, where it must be, for ms; within lease bounds */
	PEAL_SAY_UNPIN = 5,
	PEAL_SAY_SCORE = 6, /* weight: attention, 0 to 255, for whoever picks what is evicted */
};
struct peal_hint {
	struct peal_key key;
	enum peal_say say;
	uint32_t ms;
	uint16_t weight;
};
/* How many were taken. -EOPNOTSUPP: the daemon has no such command. */
ssize_t peal_hint(struct peal *p, const struct peal_hint *hints, size_t nr, struct peal_call *c);
/* Keys behind `after` (NULL = from the start) in the store's order; up to `max`; 0 at the end. */
ssize_t peal_list(struct peal *p, const struct peal_key *after, struct peal_key *keys, size_t max,
		  struct peal_call *c);
int peal_flush(struct peal *p, struct peal_call *c);

/* ---- leases: values read in place ---- */

struct peal_extent {
	const void *ptr; /* in a read-only mapping of the arena */
	size_t bytes;
};

struct peal_lease {
	uint64_t id;
	uint64_t version;
	uint64_t value_bytes;
	/*
	 * CLOCK_MONOTONIC: after this the bytes may change under the reader; peal_lease_read()
	 * checks
	 */
	uint64_t until_ns;
	struct peal_key key;
	uint32_t nr_ext;
	uint32_t nr_seals;
	const struct peal_extent *ext; /* the value's bytes, in order */
	const uint64_t *seals;	       /* one per 64 KiB chunk, seal.h */
};
/* For `ms` milliseconds: 0 = 2000, at most 60000. -EAGAIN: no lease to be had, use peal_get(). */
int peal_lease(struct peal *p, const struct peal_key *k, uint32_t ms, struct peal_lease **l);
/*
 * Copies and checks [off, off + bytes): bytes, or -EILSEQ (not these bytes any more),
 * -ETIMEDOUT.
 */
ssize_t peal_lease_read(struct peal *p, struct peal_lease *l, uint64_t off, void *buf,
			size_t bytes);
/*
 * Ends and frees it, also one that has run out; NULL is fine. The daemon is told, not waited for.
 */
int peal_release(struct peal *p, struct peal_lease *l);

/*
 * ---- registered memory ----
 *
 * It stays registered through restarts of the daemon, and can be registered while there is none.
 */

/* Memory of the library's making, shared with the daemon, 4 KiB aligned. */
int peal_mem_alloc(struct peal *p, size_t bytes, struct peal_mem **m);
/*
 * The caller's own: a mapping of fd at offset, `bytes` long, at addr (all multiples of 4 KiB; fd
 * is dup'ed).
 */
int peal_mem_register(struct peal *p, int fd, uint64_t offset, void *addr, size_t bytes,
		      struct peal_mem **m);
void *peal_mem_ptr(const struct peal_mem *m);
size_t peal_mem_bytes(const struct peal_mem *m);
/* Waits until no direct request uses it; the caller's own stays mapped. NULL is fine. */
int peal_mem_free(struct peal *p, struct peal_mem *m);

/* ---- queues: many requests under way ---- */

enum peal_req_op {
	PEAL_REQ_GET,
	PEAL_REQ_PUT,
	PEAL_REQ_DEL,
	PEAL_REQ_EXIST,
};

/*
 * One request, the caller's memory, from peal_submit() until it comes back from peal_reap(). With
 * PEAL_DIRECT, buf lies in registered memory and is read or written by the daemon itself; without
 * it the library copies (value <= 1 MiB there, larger ones are -EFBIG: use peal_get) and timeout_ms
 * applies.
 */
struct peal_req {
	enum peal_req_op op;
	uint32_t flags; /* PEAL_DIRECT; put: PEAL_IF_*, not both; get: PEAL_RAW, PEAL_PART */
	struct peal_key key;
	void *buf;	     /* del, exist: not looked at */
	size_t bytes;	     /* put: value; get: room */
	uint32_t timeout_ms; /* 0 = the handle's; with PEAL_DIRECT none */
	void *user;	     /* not touched */
	/* peal_run() only, without PEAL_DIRECT; peal_submit() refuses them: as in peal_call */
	struct peal_meta *meta;
	const uint8_t *want_tag;
	/* out */
	int res; /* 0 or -errno as above; unless 0, what is in a get's buf is undefined */
	uint64_t value_bytes; /* get: the value's size, also with -EMSGSIZE */
	/* the library's */
	uint64_t priv[6];
};

/* depth: requests under way at most, 1 to 4095. */
int peal_queue_open(struct peal *p, unsigned depth, struct peal_queue **q);
/* Waits for direct requests, without an end; others are dropped. NULL is fine. */
void peal_queue_close(struct peal_queue *q);
/*
 * Takes as many of the nr as fit, in order, rings once, and answers how many: -EAGAIN when none
 * does, -ENOTCONN while there is no daemon. What is wrong with a request is in its res.
 */
int peal_submit(struct peal_queue *q, struct peal_req *const *reqs, unsigned nr);
/*
 * Finished requests, up to max, in no order: the count; waits up to timeout_ms for the first (0:
 * just looks) unless none is under way.
 */
int peal_reap(struct peal_queue *q, struct peal_req **done, unsigned max, uint32_t timeout_ms);
/* Readable when there may be something to reap. The caller reads it (8 bytes) before he reaps. */
int peal_queue_fd(struct peal_queue *q);

/*
 * Runs all of them and comes back when they are over: how many have res 0. In no order, in a queue
 * that has none under way (-EBUSY). They have one deadline together, timeout_ms from now (0 = the
 * handle's), whatever they say themselves: what isn't over by then is -ETIMEDOUT. Those with
 * PEAL_DIRECT have none. Values of any size, with tags and metadata: many under way at once, and
 * only what that leaves - no lease to be had, a value that changes, a put of more than 16 MiB -
 * goes by peal_get() or peal_put(), one after the other.
 */
int peal_run(struct peal_queue *q, struct peal_req *reqs, unsigned nr, uint32_t timeout_ms);

/* ---- load or recompute ---- */

/*
 * What loading a chain would take, by this handle's own measurements. Rates are those of gets of
 * more than 64 KiB, newer ones counting more: by lease, which only memory gives, and otherwise.
 */
struct peal_estimate {
	uint32_t present;   /* leading keys, as peal_match() */
	uint32_t in_memory; /* of them */
	uint64_t memory_bytes_per_s;
	uint64_t below_bytes_per_s;
	bool is_measured;   /* false: a rate that counts here is a guess, 4 and 1 GB/s */
	uint64_t load_us;   /* for all that are present, one after the other */
	uint64_t memory_us; /* its part for those in memory */
};
/* value_bytes: of each value. c may be NULL. */
int peal_estimate(struct peal *p, const struct peal_key *keys, size_t nr, uint64_t value_bytes,
		  struct peal_estimate *e);

/* ---- namespaces and logs (operator) ---- */

/* The KV namespaces' ids, up to max of them; how many there are. No operator is needed. */
int peal_ns_list(struct peal *p, uint32_t *nsids, size_t max);
int peal_ns_create(struct peal *p, uint64_t capacity_bytes, uint32_t *nsid);
int peal_ns_resize(struct peal *p, uint32_t nsid, uint64_t capacity_bytes);
int peal_ns_delete(struct peal *p, uint32_t nsid);
/* A log page as the controller gives it: bytes from offset on, both multiples of 4. The count. */
ssize_t peal_log(struct peal *p, uint8_t lid, uint64_t offset, void *buf, size_t bytes);

/* Counters of this handle. */
struct peal_stats {
	uint64_t calls, hits, misses, timeouts, reconnects;
	uint64_t bytes_in, bytes_out; /* values */
	uint64_t bad_seals;	      /* caught by the client */
	uint64_t quarantined_bytes;   /* now */
	uint64_t bad_tags;	      /* values with another tag than wanted: misses */
};
void peal_stats(struct peal *p, struct peal_stats *st);

#ifdef __cplusplus
}
#endif

#endif
