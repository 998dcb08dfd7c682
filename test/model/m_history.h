/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may a read see? The history of the mutations of one key, each with the moments at which it
 * began and ended, and from it the answer for a read that began at `t` and ends now:
 *
 *  - a value is right if its put began before now and no acknowledged mutation lies wholly between
 *    the end of that put and t; otherwise it is stale, or was never written;
 *  - a miss is right if a delete, an invalidation, or a mutation that failed is right in that
 *    sense, or any mutation overlaps the read; otherwise an acknowledged value has been lost.
 *
 * Time is a counter of events. Pure test code, one thread.
 */
#pragma once

#include "world.h"

#include "base/vec.h"

enum mut_kind {
	MUT_PUT,
	MUT_DEL,
	MUT_INVAL,
};

enum mut_state {
	MUT_PENDING,
	MUT_ACKED,
	MUT_FAILED, /* nobody knows whether it happened */
};

struct mut {
	enum mut_kind kind;
	enum mut_state state;
	uint64_t id;
	uint64_t gen; /* of a put: of its bytes; 0: as id */
	uint64_t len;
	uint64_t ver; /* of a put, once acknowledged; of an inval */
	bool is_kill; /* inval: of the newest version that was known */
	uint64_t begin;
	uint64_t end; /* UINT64_MAX: not yet */
};

struct history {
	struct store_key key;
	VEC(struct mut)
	muts;
};

static inline struct mut *history_find(struct history *h, uint64_t id)
{
	vec_for_each(&h->muts, m)
		if (m->id == id)
			return m;
	return NULL;
}

static inline uint64_t history_gen(const struct mut *m)
{
	return m->gen ? m->gen : m->id;
}

/* Is everything that m did over before t, by an acknowledged mutation that came after it? */
static inline bool history_is_over(struct history *h, const struct mut *m, uint64_t t)
{
	vec_for_each(&h->muts, n) {
		if (n == m || n->state != MUT_ACKED || n->begin < m->end || n->end > t)
			continue;
		if (n->kind != MUT_INVAL || (m->kind == MUT_PUT && m->ver && m->ver < n->ver))
			return true;
	}
	return false;
}

/* May a read that began at t, and now ends, see what m left? */
static inline bool history_is_right(struct history *h, const struct mut *m, uint64_t t)
{
	return !history_is_over(h, m, t);
}

static inline bool history_miss_is_right(struct history *h, uint64_t t)
{
	vec_for_each(&h->muts, m) {
		if (!history_is_right(h, m, t))
			continue;
		if (m->state == MUT_FAILED || m->end > t)
			return true;
		if (m->kind == MUT_DEL || (m->kind == MUT_INVAL && m->is_kill))
			return true;
	}
	return false;
}

/* Could the key be there with a value of that length (any when len is 0)? */
static inline bool history_hit_is_right(struct history *h, uint64_t t, uint64_t len)
{
	vec_for_each(&h->muts, m)
		if (m->kind == MUT_PUT && (!len || m->len == len) && history_is_right(h, m, t))
			return true;
	return false;
}

/*
 * The put whose bytes the view holds, among those that may be seen; NULL: the bytes are wrong. One
 * whose version is known to be the view's comes first: a view of no bytes (asked for behind the
 * end) looks like any put of that length.
 */
static inline const struct mut *history_value(struct history *h, uint64_t t,
					      const struct store_view *v)
{
	const struct mut *unknown = NULL;

	vec_for_each(&h->muts, m) {
		if (m->kind != MUT_PUT || m->len != v->value_len || (m->ver && m->ver != v->ver) ||
		    !history_is_right(h, m, t) || !world_is_gen(v, &h->key, history_gen(m)))
			continue;
		if (m->ver)
			return m;
		unknown = unknown ? unknown : m;
	}
	return unknown;
}

/* The newest acknowledged put, if nothing else has happened or is happening to the key since. */
static inline const struct mut *history_current(struct history *h, uint64_t t)
{
	const struct mut *only = NULL;

	vec_for_each(&h->muts, m) {
		if (!history_is_right(h, m, t) ||
		    (m->kind == MUT_INVAL && !m->is_kill && m->end <= t))
			continue;
		if (only || m->kind != MUT_PUT || m->state != MUT_ACKED)
			return NULL;
		only = m;
	}
	return only;
}

/* Forgets what no read that began at t or later may see. */
static inline void history_prune(struct history *h, uint64_t t)
{
	size_t nr = 0;

	for (size_t i = 0; i < h->muts.nr; i++)
		h->muts.at[i].ver |= history_is_over(h, &h->muts.at[i], t) ? 1ull << 63 : 0;
	for (size_t i = 0; i < h->muts.nr; i++)
		if (!(h->muts.at[i].ver >> 63))
			h->muts.at[nr++] = h->muts.at[i];
	h->muts.nr = nr;
}

static inline void history_print(struct history *h, uint64_t t)
{
	static const char *const kinds[] = {"put", "del", "inval"}, *const states[] = {"pending",
										       "acked",
										       "failed"};

	vec_for_each(&h->muts, m)
		printf("  %s %s id %llu len %llu ver %llu [%llu, %llu]%s\n", kinds[m->kind],
		       states[m->state], (unsigned long long)m->id, (unsigned long long)m->len,
		       (unsigned long long)m->ver, (unsigned long long)m->begin,
		       (unsigned long long)m->end, history_is_right(h, m, t) ? "" : " (over)");
}
