/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads an image of the ssd tier off line and says what is in it and what is wrong with it:
 * superblocks, heads, footers, the heads of all records, and, if asked, the seals of all values.
 * Never writes. What it finds goes to the caller's functions as it is found.
 *
 * Memory is bounded whatever the image says: one window of the file, some words for each segment,
 * and a table of `max_keys` keys; an image with more of them is gone through in parts, by the hash
 * of the key.
 *
 * It stands on the format and nothing else of the store, so that peal(1) can have it. One thread.
 */
#ifndef STORE_SSD_SSD_FSCK_H
#define STORE_SSD_SSD_FSCK_H

#include <stdbool.h>
#include <stdint.h>

/* One superblock. */
struct ssd_fsck_super {
	char which; /* 'A' or 'B' */
	bool is_zero;
	int err; /* 0, -EUCLEAN damaged, -EPROTONOSUPPORT a newer version's; then no more is said */
	uint64_t generation;
	uint64_t file_bytes;
	uint64_t seg_bytes;
	uint32_t nr_segs;
	uint32_t nr_dead;
	uint16_t shard, nr_shards;
	char name[64];
	uint8_t uuid[16], owner[16];
	/* Of the devices that its shard lies on, as the last life that it knows of had them. */
	uint64_t life; /* 0: it has always been alone */
	unsigned device, nr_devices, nr_away;
};

enum ssd_fsck_state {
	SSD_FSCK_FREE,
	SSD_FSCK_OPEN,	 /* no footer: its records are gone through */
	SSD_FSCK_SEALED, /* open by its head, but its footer is whole */
	SSD_FSCK_CLOSED, /* by a recovery */
	SSD_FSCK_DEAD,	 /* on the superblock's list: not looked at */
	SSD_FSCK_BAD,	 /* nothing in it can be known */
	SSD_FSCK_STATES,
};

struct ssd_fsck_seg {
	uint32_t no;
	enum ssd_fsck_state state;
	uint64_t addr;
	uint64_t epoch;
	uint64_t value_bytes;
	uint32_t nr_values;
	uint32_t nr_tombs;
	uint32_t nr_void;
	uint32_t nr_bad; /* of its entries */
};

enum ssd_fsck_fate {
	SSD_FSCK_LIVE,
	SSD_FSCK_LOST,	  /* it is the one that counts, and it is damaged or torn: a miss */
	SSD_FSCK_OLD,	  /* a newer record of the key, or a later copy of the same, counts */
	SSD_FSCK_DELETED, /* by a tombstone */
	SSD_FSCK_TOMB,	  /* one that is needed as long as some older segment lives */
	SSD_FSCK_TOMB_SPENT,
	SSD_FSCK_FATES,
};

struct ssd_fsck_entry {
	uint8_t key[16];
	uint8_t key_len;
	enum ssd_fsck_fate fate;
	uint64_t ver;
	uint64_t addr; /* of its record in the file */
	uint32_t seg;
	uint32_t value_bytes;
};

enum ssd_fsck_gravity {
	SSD_FSCK_TORN,	 /* as a crash leaves it: the bytes of what had not become durable */
	SSD_FSCK_DAMAGE, /* no crash does that */
};

struct ssd_fsck_problem {
	enum ssd_fsck_gravity gravity;
	uint32_t seg; /* UINT32_MAX: not in a segment */
	uint64_t addr;
	const char *text;
};

struct ssd_fsck_total {
	struct ssd_fsck_super super; /* the one that counts */
	uint64_t nr_segs[SSD_FSCK_STATES];
	uint64_t nr[SSD_FSCK_FATES];
	uint64_t bytes[SSD_FSCK_FATES]; /* of values */
	uint64_t nr_void;
	uint64_t nr_torn, nr_damages;
};

/* All may be NULL. */
struct ssd_fsck_ops {
	void (*super)(void *arg, const struct ssd_fsck_super *s);
	void (*segment)(void *arg, const struct ssd_fsck_seg *seg);
	void (*entry)(void *arg, const struct ssd_fsck_entry *e);
	void (*problem)(void *arg, const struct ssd_fsck_problem *p);
};

struct ssd_fsck_opts {
	const struct ssd_fsck_ops *ops;
	void *arg;
	bool has_data;	   /* check the seals of all values: reads everything */
	uint32_t max_keys; /* of the table; 0: a million, 56 MiB */
};

/*
 * A descriptor for reading, past the page cache where the file system lets us. It holds a shared
 * lock, so that no daemon starts meanwhile. -EBUSY: a daemon has the file; `is_forced`: without
 * lock, whoever has it. Other -errno as the system said.
 */
int ssd_fsck_open(const char *path, bool is_forced);

/*
 * All of it, and what it came to in *total. 0, whatever was found; -EUCLEAN: no superblock says
 * what the file is (a damage, which was told); -ENODATA: both are zeros, nothing is there yet;
 * -EPROTONOSUPPORT: a newer version's; -ENOMEM; -errno when not even the size can be had.
 */
int ssd_fsck(int fd, const struct ssd_fsck_opts *o, struct ssd_fsck_total *total);

#endif
