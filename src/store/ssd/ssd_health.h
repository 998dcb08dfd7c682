/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a shard's tier knows of its device's health, and what it does about it:
 *
 *   who writes        ssd_health_admits()   -> may this value be written at all?
 *                     ssd_health_wrote()    counts, and takes it out of the budget
 *   who reads         ssd_health_may_read() off: everything is a miss
 *   whatever fails    ssd_health_error()    counts; too many too fast: read-only, then off
 *                     ssd_health_fault()    of a segment: the second one condemns it
 *
 * A read that failed puts its key on the list of the bad (ssd_bad.h): what fails once with a key
 * may do so again, and memory serves it as well. A condemned segment is emptied first, its values
 * are written elsewhere, and then it goes on the superblock's list of the dead.
 *
 * Tombstones are written whatever the state: they are what keeps dead values dead. Runs on the
 * shard's owner; counters may be read by any thread.
 */
#ifndef STORE_SSD_SSD_HEALTH_H
#define STORE_SSD_SSD_HEALTH_H

#include "core/counter.h"
#include "policy/admit.h"
#include "policy/trip.h"
#include "policy/wear.h"
#include "store/ssd/ssd_bad.h"
#include "store/ssd/ssd_unit.h"
#include "store/store_health.h"
#include "store/store_make.h"

struct ssd;
struct ssd_read;

struct ssd_health {
	struct store_ssd_care care;
	struct admit admit;
	struct wear_budget budget;
	bool has_budget; /* it has begun */
	struct trip trip;
	struct ssd_bad bad;
	struct counter wrote[STORE_NR_WROTE];
	struct counter refused[STORE_NR_REFUSED];
	struct counter errors[STORE_NR_ERRORS];
	struct counter state, nr_dead, nr_bad, day_bytes, given_back;
	uint32_t nr_condemned; /* sealed, to be emptied */
	/* The superblocks, being written again. */
	struct ssd_unit super;
	uint8_t *super_mem;
	uint32_t super_copy;
	bool is_super_busy, is_super_due;
	uint8_t nr_super_good; /* copies of the last change */
};

/* Does a new file of that size leave enough to others? 0, -ENOSPC or -errno. */
int ssd_health_room(const struct store_ssd_opts *o);
int ssd_health_init(struct ssd *s); /* and what an earlier life left; blocking */
void ssd_health_fini(struct ssd *s);

/* Of a BUF: 0; -ENOSPC; -EDQUOT, to a tier above: it isn't worth it, and that is no failure. */
int ssd_health_admits(struct ssd *s, const struct store_io *io);
/* A value of the class is evicted. */
void ssd_health_gone(struct ssd *s, uint16_t cls, bool was_used);
bool ssd_health_may_read(const struct ssd *s);
/* May eviction write values again? */
bool ssd_health_may_save(struct ssd *s);
void ssd_health_wrote(struct ssd *s, enum store_wrote why, uint64_t bytes);
void ssd_health_error(struct ssd *s, enum store_error what);
void ssd_health_fault(struct ssd *s, uint32_t seg);
/* A read of a value has failed with `err`: the device's fault, unless a crash explains it. */
void ssd_health_read_failed(struct ssd *s, const struct ssd_read *r, int err);

/* The sealed segment that has to go first; -1: none. */
int ssd_health_condemned(const struct ssd *s);
/* A segment is empty, its head says so: what becomes of it. True: it is not to be used again. */
bool ssd_health_bury(struct ssd *s, uint32_t seg);
/* s->super has changed: both copies are written again. */
void ssd_health_super(struct ssd *s);
/* Are they? 0, -EAGAIN: not yet; -EIO: neither could be. */
int ssd_health_super_is(const struct ssd *s);

void ssd_health_get(const struct store *st, struct store_health *h);
void ssd_health_control(struct store *st, struct store_control *c);

#endif
