/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which devices a shard's tier has lain on, and which of them may still be believed. Each file's
 * superblock carries the roster of the last life that it knows of: the files of all devices, and
 * which took part. From those that can be opened today it is decided what becomes of each:
 *
 *   KEEP     its values count
 *   DROP     they don't: it was away while they may have been changed. It begins empty
 *   MAKE     there is none yet, and none is missed there: it is made
 *   MISSING  it belongs to us and can't be had: the others go on, and nothing is made in its
 *            place: it may be the folder below a file system that isn't mounted
 *
 * The rule. A device that was drained is empty by its own word. Else, where a key's value never
 * changes (an immutable set) whatever is there is right. Where
 * it may, values count only if all who took part in the last life are here, no other file that is
 * here has gone on without them, and none is missing that might have: nothing else could tell that
 * no life came after that one. A device that the configuration doesn't name any more is not
 * missing: that is an operator's word that it has not gone on alone.
 *
 * Pure; on the thread that builds the store.
 */
#ifndef STORE_SSD_SSD_ROSTER_H
#define STORE_SSD_SSD_ROSTER_H

#include <stdbool.h>

#include "store/ssd/ssd_format.h"

enum ssd_roster_fate {
	SSD_ROSTER_KEEP,
	SSD_ROSTER_DROP,
	SSD_ROSTER_MAKE,
	SSD_ROSTER_MISSING,
};

/* What a file is opened with, besides what it holds: a decision's outcome. */
struct ssd_birth {
	struct ssd_roster roster; /* to be written */
	uint8_t uuid[16];	  /* its id, if it begins anew */
	bool is_dropped;	  /* whatever it holds */
	/*
	 * The highest of all devices. Memory gives one row of versions to all of them, and those of
	 * a life have to be above all that an earlier one has left on any.
	 */
	uint64_t generation;
};

struct ssd_roster_dev {
	/* In. */
	uint64_t folder; /* ssd_roster_folder() */
	uint64_t new_id; /* that its file gets if it begins anew */
	int err;	 /* 0: its superblock is known; -ENOENT: no file; else why it can't be */
	bool is_blank;	 /* a file of zeros: it is made in it, whatever was there before */
	uint64_t id;	 /* of the file, when err is 0 and it isn't blank */
	struct ssd_roster was;
	/* Out. */
	enum ssd_roster_fate fate;
};

uint64_t ssd_roster_folder(const char *name);
/* The first half of a file's id, by which a roster knows it. */
uint64_t ssd_roster_id(const uint8_t uuid[16]);
bool ssd_roster_has(const struct ssd_roster *r, uint64_t id); /* did it take part? */

/*
 * The fate of each, and the roster of the life that begins. 0; or the -errno of one that is no
 * missing device but a mistake: it is somebody else's, or could never be opened.
 */
int ssd_roster_decide(struct ssd_roster_dev *dev, unsigned nr, bool is_immutable,
		      struct ssd_roster *now);
/* `id` takes no part any more, from now on. */
void ssd_roster_leave(struct ssd_roster *r, uint64_t id);

#endif
