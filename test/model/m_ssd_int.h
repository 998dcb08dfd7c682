/* SPDX-License-Identifier: Apache-2.0 */
/*
 * m_ssd's parts: its rows (m_ssd_rows.c), what the tier must know of its keys (m_ssd_known.c),
 * which are picked (m_ssd_aim.c), where lives end on purpose (m_ssd_end.c), the rest (m_ssd.c). One
 * thread.
 */
#pragma once

#include "m_random_int.h"

#include "ssd/fake_disk.h"
#include "store/ssd/ssd_recover_int.h"
#include "store/ssd/ssd_span.h"
#include "store/ssd/ssd_watch.h"

#define M_ENDS 16 /* steps at which lives end on purpose, at most */

struct row {
	struct m_stack st;
	struct fake_faults faults;
};

extern const struct row m_ssd_rows[];
extern const unsigned m_ssd_nr_rows;

/* Of a disk, when it was looked at last. */
struct m_ssd_live {
	const struct ssd *s;
	uint64_t nr, nr_full, nr_other;
	bool is_calm;
};

struct m_ssd {
	struct model m;
	const struct row *row;
	struct fake_disks disks;
	struct ssd_watch_dev watch;
	unsigned nr_shards;
	bool has_evicted;	       /* in an earlier life of these disks */
	bool is_early;		       /* this life still recovers */
	bool is_ended;		       /* it ends in a crash, here */
	bool is_unflushed;	       /* its last flush has failed */
	uint64_t begin;		       /* of this life */
	unsigned nr_devices, nr_disks; /* of a shard, of all: disk i is of shard i / nr_devices */
	bool is_first;		       /* life of these disks */
	struct ssd *tier[FAKE_DISKS];  /* by disk; NULL: it is away */
	struct ssd_span *span[FAKE_DISKS]; /* by shard, where there are several */
	/* Of each key, after a crash: was its value acknowledged, and must it be there? */
	enum { KEY_ANY, KEY_ACKED, KEY_KEPT } kept[M_KEYS];
	/* Of each disk and key: may it hold a record that a recovery would serve? */
	bool known[FAKE_DISKS][M_KEYS];
	bool is_noted[FAKE_DISKS];
	uint32_t nr_values[FAKE_DISKS]; /* buffers, when none is used */
	struct m_ssd_live live[FAKE_DISKS];
	unsigned watched; /* a disk, by m_ssd_end.c */
	int end_at;	  /* the step at which this life ends, of m_ssd_end.c; -1: none */
	uint64_t nr_lives, nr_crashes, nr_found, nr_early, nr_early_crashes, nr_early_ops;
	uint64_t nr_acked, nr_lost; /* at crashes */
	uint64_t nr_ends[M_ENDS], nr_left;
	uint64_t nr_faults[FAKE_NR_FAULTS];
};

/* m_ssd_known.c */
void m_ssd_known_new(struct m_ssd *ms);	  /* disks are */
void m_ssd_known_note(struct m_ssd *ms);  /* a life ends, nothing is under way */
void m_ssd_known_check(struct m_ssd *ms); /* the next one has read all there is */
/* After each turn: a put that failed has taken nothing that was there. */
void m_ssd_live_check(struct m_ssd *ms);

/* m_ssd_aim.c: a key whose record is about to go, or is being saved. */
struct history *m_ssd_aim(struct model *m);

/* m_ssd_end.c: steps at which a crash is worth more than elsewhere. */
void m_ssd_end_draw(struct m_ssd *ms);
bool m_ssd_end_is_here(struct m_ssd *ms);
void m_ssd_end_report(const struct m_ssd *ms);
