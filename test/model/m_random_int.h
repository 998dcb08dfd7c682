/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random actors on a stack of stores, for m_random and m_ssd: what an actor is (m_actor.c), those
 * that write (m_random_write.c), those that read (m_random_read.c). One thread.
 */
#pragma once

#include "m_history.h"
#include "m_stack.h"
#include "store/store_read.h"

#define M_KEYS 1536
#define M_ACTORS 48
#define M_MATCH 16
#define M_PAGE 24
#define M_VALUE_MAX (3u << 20)

enum act_state {
	ACT_IDLE,
	ACT_BUSY,    /* something is under way; a callback goes on */
	ACT_HOLDING, /* has a view, and nothing is under way */
};

struct model;

struct actor {
	struct model *m;
	enum act_state state;
	unsigned home;
	struct history *h;
	uint64_t begin;
	uint64_t id, len; /* of a put */
	uint64_t want_ver;
	bool is_locked;	  /* we forbid mutations of the key */
	bool is_mutator;  /* from its BUF on */
	unsigned hold;	  /* turns to keep the view */
	uint64_t held_id; /* what the view held when it came; 0: bytes that don't fit their seals */
	struct store_io io;
	store_end_fn *end; /* where io ends, if the disks are still alive then */
	struct store_meta meta;
	struct store_read rd;
	uint64_t read_id; /* what the first piece was; UINT64_MAX: none yet */
	struct store_key keys[M_PAGE];
	uint8_t found[M_MATCH];
};

struct model {
	struct world w;
	const struct m_stack *st;
	struct rng rng;
	struct history h[M_KEYS];
	uint8_t nr_locks[M_KEYS]; /* fills that count on the key to stay */
	uint8_t nr_mutators[M_KEYS];
	struct store_key sorted[M_KEYS];
	struct actor actors[M_ACTORS];
	struct history *(*aim)(struct model *m); /* a key that is worth more now; NULL: none */
	struct history *spared;			 /* nobody picks it */
	uint64_t now;
	uint64_t next_id;
	bool is_dead;	     /* a crash: whatever is told from now on means nothing */
	uint64_t flushed_at; /* whatever had ended then is durable */
	uint64_t nr_ops, nr_hits, nr_misses, nr_puts, nr_stale, nr_bad, nr_waiting;
};

/* May a miss be wrong here? */
bool m_is_sure(struct model *m); /* the program's */
/* Has the stack less room than there are values? */
static inline bool m_is_bounded(const struct model *m)
{
	return m->st->dram_bytes || m->st->ssd_bytes || m->st->is_far;
}

/* A put's version is that of its value only until memory has written it further down. */
static inline bool m_has_versions(const struct model *m)
{
	const struct m_stack *st = m->st;

	return !st->is_immutable && !(st->is_far && st->dram_bytes && !st->is_acked_below);
}

/* Of the bytes that a put writes: in an immutable set a key's are always the same. */
static inline uint64_t m_gen(const struct model *m, uint64_t id)
{
	return m->st->is_immutable ? 1 : id;
}

/* Meta by which a reader knows the generation; values come in four groups, which are read ahead. */
static inline void m_meta(struct actor *a, uint64_t gen)
{
	memset(&a->meta, (int)(gen & 0x7f), sizeof(a->meta));
	a->meta.group_len = 1;
	a->meta.parent_len = sizeof(a->meta.parent); /* what a command may say */
	a->meta.group[0] &= 3;
}

/* m_actor.c */
void m_actors_init(struct model *m, const struct m_stack *st, uint64_t seed);
void m_actors_fini(struct model *m);
void m_turn(struct model *m, bool may_start);
bool m_is_quiet(const struct model *m);

struct history *m_pick(struct model *m);
struct history *m_history_of(struct model *m, const struct store_key *key);
unsigned m_no(const struct model *m, struct history *h);
/* Prints what is known of the key and ends the test. */
_Noreturn void m_wrong(const struct actor *a, const char *what, int res);
/* Releases what the io shows, then it is idle. */
void m_release(struct actor *a);
void m_submit(struct actor *a, enum store_op op, store_end_fn *end);
void m_idle(struct actor *a);

/* m_random_write.c */
void m_put_start(struct actor *a);
void m_del_start(struct actor *a);
void m_inval_start(struct actor *a);
void m_fill_start(struct actor *a);
void m_flush_start(struct actor *a);

/* m_random_read.c */
void m_get_start(struct actor *a);
void m_held_turn(struct actor *a); /* an actor that holds a view: looks at it again, or lets go */
void m_now_start(struct actor *a);
void m_read_start(struct actor *a);
void m_exist_start(struct actor *a);
void m_match_start(struct actor *a);
void m_list_start(struct actor *a);
