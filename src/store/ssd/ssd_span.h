/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several devices below one shard: one tier to the stack, a log (struct ssd) of its own on each.
 *
 *            +---------------- span ----------------+       ssd_span.c       made, figures
 *     dram ->| BUF: placed   INVAL, DEL, FLUSH: all  |      ssd_span_verb.c  verbs
 *            | GET: who has it     MATCH, LIST: all  |      ssd_span_out.c   one goes
 *            +---+--------------+--------------+-----+      ssd_span_move.c  values of one go on
 *                |              |              |
 *             ssd /a         ssd /b         ssd /c          each recovers, evicts, fails by itself
 *
 * A new value goes where policy/place says, by its group where it has one, so that a conversation
 * stays together. What kills an older version asks every device, whoever has it: the invariant of
 * ssd_int.h holds on each file by itself. So no key is ever served in two versions, and a value may
 * lie on two devices (it is being moved, or was when the daemon died): both are right.
 *
 * A device that is *out* is asked nothing any more. It goes out when it has failed (lost) or when
 * all that it had lies elsewhere (drained), once the others' superblocks say so durably: should it
 * come back in a later life, what it holds isn't believed (ssd_roster.h).
 *
 * Memory is always above: a PUT ends there, what comes here is BUF and FILL. Belongs to the shard's
 * owner; figures may be read by any thread.
 */
#ifndef STORE_SSD_SSD_SPAN_H
#define STORE_SSD_SSD_SPAN_H

#include "core/timeout.h"
#include "store/ssd/ssd_int.h"
#include "store/ssd/ssd_roster.h"
#include "store/store_health.h"

#define SSD_SPAN_MOVES 4u
#define SSD_SPAN_PAUSE_NS 1000000000ull /* before what failed is tried again */

struct ssd_span;

struct ssd_span_dev {
	struct ssd_span *sp;
	struct ssd *s; /* NULL: it is missing */
	char *folder;
	uint64_t folder_id;
	uint64_t file_id;
	uint32_t weight;
	uint32_t nr_values;   /* buffers, when none is used */
	struct counter state; /* enum store_part_state */
	struct counter moved, moved_bytes;
	bool is_fresh; /* what it held was dropped */
	bool is_said;  /* it is off by an operator's word, not by its errors */
	bool is_told;
	struct ssd_sync_wait sync; /* of what was moved to it */
};

/* One value on its way from a device that is being drained to another. */
struct ssd_span_move {
	struct ssd_span *sp;
	struct ssd_span_dev *from; /* NULL: nobody uses it */
	struct store_io get, put;
	struct store_meta meta;
	uint64_t ver;
	uint64_t pos;
	uint32_t len;
	uint32_t seg, off; /* where it lies */
};

struct ssd_span {
	struct store st;
	bool is_bound;
	unsigned nr;
	struct ssd_span_dev dev[SSD_ROSTER_MAX];
	struct ssd_roster roster;
	struct counter misses; /* of keys that no device has */
	/* Of the one that is about to go out. */
	struct ssd_span_dev *leaver;
	enum store_part_state leaves_as;
	bool is_writing; /* the others' superblocks */
	/* Draining: one device at a time. */
	struct ssd_span_move moves[SSD_SPAN_MOVES];
	unsigned nr_moves;
	uint32_t walk;	   /* of the index of the one that is drained */
	uint32_t nr_moved; /* in this round over it */
	struct pace pace;  /* of what is moved */
	unsigned nr_syncs;
	bool is_synced;
	bool is_refused; /* nobody takes more of them now */
	uint64_t wait_until_ns;
	struct timeout wake;
};

static inline struct ssd_span *ssd_span_of(struct store *st)
{
	return (struct ssd_span *)st;
}

static inline enum store_part_state ssd_span_state(const struct ssd_span_dev *d)
{
	return (enum store_part_state)counter_get(&d->state);
}

/* Is it asked? One that is out, or missing, isn't. */
static inline bool ssd_span_is_in(const struct ssd_span_dev *d)
{
	return d->s &&
	       (ssd_span_state(d) == STORE_PART_IN || ssd_span_state(d) == STORE_PART_DRAINING);
}

/* ---- ssd_super.c ---- */

/* What an open file says, before anybody has it: 0, -ENOENT: zeros; or as ssd_super_open(). */
int ssd_super_peek(const struct store_ssd_opts *o, struct ssd_dev *dev, struct ssd_super_info *si);

/* ---- ssd_put.c ---- */

/*
 * Of a DEL, before anything is written, at once for all devices: a version below which fills of the
 * key come too late; raised, because it was below one that is known.
 */
void ssd_put_dying(struct ssd *s, const struct store_io *io, bool is_raised);
/* A FILL in a set whose values may change, of what another device has; the key is held. */
void ssd_put_moved(struct ssd *s, struct store_io *io);

/* ---- ssd_span_verb.c ---- */

void ssd_span_verb_buf(struct store *st, struct store_io *io);
void ssd_span_verb_put(struct store *st, struct store_io *io);
void ssd_span_verb_get(struct store *st, struct store_io *io);
void ssd_span_verb_fill(struct store *st, struct store_io *io);
void ssd_span_verb_inval(struct store *st, struct store_io *io);
void ssd_span_verb_del(struct store *st, struct store_io *io);
void ssd_span_verb_exist(struct store *st, struct store_io *io);
void ssd_span_verb_all(struct store *st, struct store_io *io); /* match, list, flush */
/* Who serves the key, in version `ver` if it isn't 0 and somebody has that; NULL: nobody does. */
struct ssd_span_dev *ssd_span_verb_find(struct ssd_span *sp, const struct store_key *key,
					uint64_t ver);

/* ---- ssd_span_out.c ---- */

int ssd_span_out_step(struct ssd_span *sp);
/* 0; -EINVAL: there is no other that could take its values; -EBUSY: it is out. */
int ssd_span_out_drain(struct ssd_span *sp, struct ssd_span_dev *d, const struct store_control *c);

/* ---- ssd_span_move.c ---- */

/* Is the FILL one of these, and what its end is: it holds the key now. */
bool ssd_span_move_is(const struct ssd_span *sp, const struct store_io *io);
void ssd_span_move_fill(struct ssd_span *sp, struct store_io *io);
/* Goes on draining d; true: all that it had lies elsewhere, in this life of it. */
bool ssd_span_move_step(struct ssd_span *sp, struct ssd_span_dev *d, int *nr_done);

#endif
