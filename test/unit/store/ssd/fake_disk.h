/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk in memory that does what disks do to their owners, from a seed: errors, short and torn
 * transfers, bits that flip, writes that are acknowledged and go nowhere or elsewhere, reads of
 * another place or another time, syncs that fail, no space, and crashes that keep any subset of the
 * sectors that were not synced. Requests come through an env_sim; recovery's come directly.
 *
 *   now:   what a read finds        durable: what a crash leaves of it
 *   sector: 512 bytes, the unit that is written whole or not at all
 *
 * One thread.
 */
#pragma once

#include "base/rng.h"
#include "core/env_sim.h"
#include "store/ssd/ssd_dev.h"

#define FAKE_SECTOR 512u
#define FAKE_DISKS 4u
#define FAKE_FLIGHT 512u

enum fake_fault {
	FAKE_READ_EIO,
	FAKE_READ_SHORT,
	FAKE_READ_FLIP,
	FAKE_READ_ELSEWHERE,
	FAKE_READ_STALE,
	FAKE_WRITE_EIO, /* with nothing, some or all of it written */
	FAKE_WRITE_SHORT,
	FAKE_WRITE_FULL, /* -ENOSPC */
	FAKE_WRITE_LOST,
	FAKE_WRITE_ELSEWHERE,
	FAKE_WRITE_FLIP,
	FAKE_SYNC_EIO,
	FAKE_NR_FAULTS,
};

/* Chances in 65536. */
struct fake_faults {
	uint32_t chance[FAKE_NR_FAULTS];
};

enum fake_crash {
	FAKE_KILL,	   /* of the process: what was written is there */
	FAKE_CRASH_LOSE,   /* nothing that wasn't synced is */
	FAKE_CRASH_SECTOR, /* each sector decides for itself */
	FAKE_CRASH_BLOCK,  /* each 4 KiB */
	FAKE_NR_CRASHES,
};

struct fake_disk {
	struct ssd_dev dev;
	struct rng rng;
	struct fake_faults faults;
	uint8_t *now, *durable, *old;
	uint8_t *hole; /* per 4 KiB: it takes no room */
	uint64_t nr_holes;
	uint32_t *seq;	 /* per sector: when it was written last; 0: as in durable */
	uint32_t *dirty; /* sectors that have a seq */
	uint32_t nr_dirty;
	uint32_t clock;
	uint32_t nr_sectors;
	bool is_dead;	  /* crashed, and not yet revived */
	uint32_t fail_at; /* the n-th direct request from now on fails; 0: none */
	/* The n-th time from now on that a request could have this fault it has it; 0: none. */
	uint32_t nth_left;
	enum fake_fault nth_kind;
	struct {
		struct io_req *io;
		uint32_t at;
	} flight[FAKE_FLIGHT];
	uint32_t nr_flight;
	uint64_t nr_faults[FAKE_NR_FAULTS];
	uint64_t nr_reads, nr_writes, nr_syncs, read_bytes, written_bytes;
};

/* Disks 0 .. FAKE_DISKS - 1 of one world: an env_sim's io and submitted, with this as their arg. */
struct fake_disks {
	struct fake_disk disk[FAKE_DISKS];
};

void fake_disk_init(struct fake_disks *all, unsigned no, uint64_t bytes, uint64_t seed);
void fake_disk_fini(struct fake_disk *d);
void fake_disk_zero(struct fake_disk *d); /* as from the factory */
void fake_disk_crash(struct fake_disk *d, enum fake_crash how);
void fake_disk_revive(struct fake_disk *d);
void fake_disk_age(struct fake_disk *d); /* what a stale read finds from now on is this moment */
int fake_disk_io(void *arg, struct io_req *io);
void fake_disk_submitted(void *arg, struct io_req *io);
const char *fake_disk_fault_name(enum fake_fault f);
