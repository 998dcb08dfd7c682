/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How tiers that lie on devices are, and an operator's word to them: what was written and why, what
 * was refused and why, what failed. Figures are counters that any thread sums; a word goes from
 * owner to owner by message, as a resize does, and its end comes home.
 */
#ifndef STORE_STORE_HEALTH_H
#define STORE_STORE_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/trip.h"
#include "store/store.h"

/* Why bytes were written to a device. */
enum store_wrote {
	STORE_WROTE_BACK,    /* memory let go of them */
	STORE_WROTE_THROUGH, /* they came, and this namespace writes at once */
	STORE_WROTE_AGAIN,   /* eviction kept them */
	STORE_WROTE_TABLES,  /* superblocks, heads, footers, tombstones, lists */
	STORE_WROTE_FIRST,   /* zeros, before the first use */
	STORE_NR_WROTE,
};

/* Why a value was not written. */
enum store_refused {
	STORE_REFUSED_STATE,  /* the tier is read-only or off */
	STORE_REFUSED_WEAR,   /* the device is worn */
	STORE_REFUSED_BUDGET, /* more than its bytes a day */
	STORE_REFUSED_POLICY, /* not worth it */
	STORE_REFUSED_BAD,    /* its key could not be read back before */
	STORE_REFUSED_ROOM,   /* too little is free on the file system */
	STORE_NR_REFUSED,
};

enum store_error {
	STORE_ERROR_READ,
	STORE_ERROR_WRITE,
	STORE_ERROR_SYNC,
	STORE_ERROR_WRONG, /* it was read, and is not what was written */
	STORE_NR_ERRORS,
};

struct store_health {
	unsigned nr_shards; /* that have such a tier; 0: it lies on no device */
	uint64_t wrote[STORE_NR_WROTE];
	uint64_t refused[STORE_NR_REFUSED];
	uint64_t errors[STORE_NR_ERRORS];
	uint64_t nr_segments, nr_dead; /* the latter are never used again */
	uint64_t nr_bad;	       /* keys on the list of the bad */
	uint64_t budget_day_bytes;     /* 0: no limit */
	uint64_t given_back_bytes;     /* to a file system that had too little */
	enum trip_state state;	       /* the worst */
	/* Of the recovery of what was there when the tier was made: */
	unsigned nr_recovering;	     /* shards in which it goes on */
	uint64_t recover_segments;   /* with something in them, as far as that is known, */
	uint64_t recovered_segments; /* and those of them that are known */
	uint64_t recover_bytes;	     /* read */
	uint64_t recover_ms;	     /* that it took, where it took longest */
};

/*
 * One device of a tier that lies on several. In the order of what an operator has to know: of all
 * shards the last one counts.
 */
enum store_part_state {
	STORE_PART_IN,
	STORE_PART_DRAINED, /* out: what it held lies on others */
	STORE_PART_DRAINING,
	STORE_PART_LOST,    /* out: it failed */
	STORE_PART_MISSING, /* it wasn't there when the tier was made */
};

struct store_part {
	char folder[512];
	enum store_part_state state;
	uint64_t moved, moved_bytes; /* values that a drain has moved away */
	struct store_stats st;
	struct store_health health;
};
const char *store_health_part_name(enum store_part_state state);
/* The i-th device of a tier, summed over the shards. -ENOENT: no more. Any thread. */
int store_health_part(const struct store_set *set, unsigned tier, unsigned i,
		      struct store_part *out);

extern const char *const store_health_wrote[STORE_NR_WROTE + 1]; /* names, ended by NULL */
extern const char *const store_health_refused[STORE_NR_REFUSED + 1];
extern const char *const store_health_errors[STORE_NR_ERRORS + 1];

/* Sums over the shards. -ENOENT: there is no such tier. Any thread. */
int store_health_get(const struct store_set *set, unsigned tier, struct store_health *h);

enum store_control_verb {
	STORE_CONTROL_STATE,	 /* arg: enum trip_state */
	STORE_CONTROL_BUDGET,	 /* arg: bytes a day, of all shards together; 0: no limit */
	STORE_CONTROL_BAD_LIST,	 /* -> keys */
	STORE_CONTROL_BAD_CLEAR, /* -> nr: how many there were */
	STORE_CONTROL_DRAIN,	 /* arg: begin, or 0: leave off; of one device */
};

/* Every tier of the set that listens is told. The struct lives until done(c) has run on home. */
struct store_control {
	/* Set by the caller. */
	struct store_set *set;
	struct reactor *home;
	enum store_control_verb verb;
	uint64_t arg;
	uint64_t rate_bytes;	/* of DRAIN: a second, of the whole namespace; 0: no limit */
	const char *folder;	/* the device that is meant; NULL: all of them */
	struct store_key *keys; /* room for max, of BAD_LIST */
	uint32_t max;
	void (*done)(struct store_control *c);
	/* Out. */
	uint32_t nr;
	int res; /* 0, -EOPNOTSUPP: no tier listens, -ECANCELED */
	int err; /* a tier's: -ENOENT no such device; -ENODEV it is lost; -EINVAL, -EBUSY */
	/* Its own. */
	struct mbox_msg msg;
	unsigned shard;
};
void store_health_control(struct store_control *c);

/* Of an ssd tier: who looks after its device, and how much is asked of it. Zero: the defaults. */
struct ssd_watch_dev;
struct store_ssd_care {
	struct ssd_watch_dev *watch; /* NULL: nobody does */
	uint64_t day_bytes;	     /* of this shard; 0: no limit */
	uint64_t rate_bytes;	     /* likewise a second, of what is written for values */
	uint64_t min_free_bytes;     /* that making the file has to leave to others */
	uint64_t cap_bytes;	     /* that all files of its folder may have with it; 0: no cap */
	/* That make it read-only, four times as many off, when they come faster than one a minute.
	 * 0: 16; UINT32_MAX: never */
	uint32_t errors_max;
	/* Of one segment, that retire it; 0: 2; UINT32_MAX: never */
	uint32_t faults_max;
	bool is_through; /* what comes has not been let go by memory: it is written at once */
};

#endif
