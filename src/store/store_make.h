/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tiers that there are, and how one is made: for whoever puts a stack together (kv/, tests),
 * not for those who only use one. On the thread that builds the set, before anything runs there.
 */
#ifndef STORE_STORE_MAKE_H
#define STORE_STORE_MAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

struct store *store_mem_create(void);  /* the oracle: exact, unbounded, synchronous, malloc */
struct store *store_null_create(void); /* takes everything, has nothing */
struct store_fault_opts {
	uint64_t seed;
	/* chance in 1024 that a verb fails with -EIO: a put is told as -ENOSPC, a get as a miss */
	uint32_t fail_1024;
	uint32_t delay_1024; /* ... that it completes in a later turn, in any order */
	uint32_t flip_1024;  /* ... that one bit of what a get returns is wrong */
	/*
	 * ... that the answer to a get is held back until a put, inval or del of the key has passed
	 * (or some turns have)
	 */
	uint32_t stale_1024;
};
struct store *store_fault_create(const struct store_fault_opts *o);

/* dram: `bytes` of hard capacity for this shard, at most max_keys entries (0: bytes / 4 KiB, at
 * least 1024). segment_bytes <= 1 GiB (0: about bytes / 8). on_segment tells the namespace of
 * each arena segment made, before the first view names it. */
struct store_dram_opts {
	uint64_t bytes;
	uint64_t segment_bytes;
	uint32_t max_keys;
	const char *policy;				      /* "lru" */
	int (*on_segment)(void *arg, struct mem_region *reg); /* sets reg->id */
	/* May be NULL: a shrinking tier drops it, no view names it any more. */
	void (*on_segment_gone)(void *arg, struct mem_region *reg);
	void *arg;
	/* What is put is written below at once, not when its memory is needed. */
	bool is_through;
	/* A put is answered when the tier below has taken it; includes the former. */
	bool is_acked_below;
	/* What is below others may change: it isn't answered from here for longer. 0: nobody */
	uint64_t fresh_ns;
};
int store_dram_create(const struct store_dram_opts *o, struct store **s);

/*
 * ssd: one file per shard, a log of segments; see doc/format.md. The file is made if it isn't
 * there, and recovered if it is. -EBUSY: somebody else has it open; -EPROTONOSUPPORT: a newer
 * version wrote it; -EXDEV: it belongs to another namespace, or to one cut in another number of
 * shards; -EUCLEAN: damaged; -EINVAL: too small; -EDQUOT, -ENOSPC: a new one would be beyond the
 * folder's cap, or leave too little to others. Blocks for a few requests; what is in the file is
 * found while the tier serves (store_health.h says how far it is): what isn't found yet is a miss.
 */
struct ssd_dev;
struct ssd_birth;
struct store_ssd_opts {
	const char *path;
	const char *folder;  /* what its device is called; NULL: nothing */
	struct ssd_dev *dev; /* instead of path; taken over when it succeeds */
	const char *name;    /* of the namespace */
	/* of the file, when it is made */
	uint64_t bytes;
	/* 0: a 32nd of it, at most 256 MiB */
	uint64_t segment_bytes;
	/* 0: bytes / 16 KiB, at least 1024 */
	uint32_t max_keys;
	uint32_t value_max;
	uint32_t shard;
	uint32_t nr_shards;
	/* share of a segment that may be written again when it goes */
	uint32_t reinsert_1024;
	/* a value is acknowledged when it is synced, not when it is written */
	bool is_durable;
	const struct store_ssd_care *care; /* copied; NULL: the defaults (store_health.h) */
	/* store_ssd_open()'s */
	const struct ssd_birth *birth;
	bool is_part;  /* of several */
	uint64_t seed; /* 0: from the system */
	/* a read that takes longer is answered as a miss; 0: 2 s */
	uint64_t read_max_ns;
	/* On the owner, once, when all that was in the file is known; not of a new one. May be
	 * NULL. */
	void (*recovered)(void *arg);
	void *arg;
};
int store_ssd_create(const struct store_ssd_opts *o, struct store **s);
/*
 * The same over `nr` devices, at most 8, which to the stack are one tier (store/ssd/ssd_span.h);
 * what differs between their options is path or dev, folder, bytes and care. Memory is above. A
 * device that took part before and isn't there, or can't be read, is missing: the others go on.
 * Where values may change, what isn't surely the last word of a key is dropped
 * (store/ssd/ssd_roster.h).
 */
int store_ssd_open(const struct store_ssd_opts *o, unsigned nr, bool is_immutable,
		   struct store **s);
/*
 * In how many shards the namespace is cut whose file this is: a number that is the file's, whatever
 * the number of reactors. -EINVAL: none of ours, or damaged; or -errno. Blocks for two reads.
 */
int store_ssd_shards(const char *path);

#endif
