/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store that holds what concerns one key, on its way down and on its way up, until the test lets
 * it go: the choice that m_stale makes in every order. Everything else passes. It can also fail
 * what it holds before the store below has seen it.
 */
#pragma once

#include "world.h"

#define HOLD_MAX 16

struct held {
	struct store_io *io;
	bool is_up; /* the store below has answered */
	int res;
};

struct hold {
	struct store st;
	struct store_key key;
	bool holds_up; /* the way up as well */
	struct held held[HOLD_MAX];
	unsigned nr_held;
};

static inline void hold_push(struct hold *h, struct store_io *io, bool is_up, int res)
{
	must(h->nr_held < HOLD_MAX);
	h->held[h->nr_held++] = (struct held){io, is_up, res};
}

static inline void hold_up(struct store_io *io, int res)
{
	struct hold *h = container_of(io->at, struct hold, st);

	if (h->holds_up)
		hold_push(h, io, true, res);
	else
		store_done(io, res);
}

static inline void hold_verb(struct store *s, struct store_io *io)
{
	struct hold *h = container_of(s, struct hold, st);

	if (io->op == STORE_FLUSH || store_key_equal(&io->key, &h->key))
		hold_push(h, io, false, 0);
	else
		store_down(io, NULL);
}

/* Lets the i-th go on; `fail`: with -EIO instead of down. */
static inline void hold_go(struct hold *h, unsigned i, bool fail)
{
	struct held one = h->held[i];

	must(i < h->nr_held);
	h->nr_held--;
	memmove(&h->held[i], &h->held[i + 1], (h->nr_held - i) * sizeof(one));
	if (one.is_up)
		store_done(one.io, one.res);
	else if (fail)
		store_done(one.io, -EIO);
	else
		store_down(one.io, hold_up);
}

static inline void hold_destroy(struct store *s)
{
	struct hold *h = container_of(s, struct hold, st);

	must(h->nr_held == 0);
	free(h);
}

static const struct store_ops hold_ops = {
	.name = "hold",
	.verb =
		{
			[STORE_PUT] = hold_verb,
			[STORE_GET] = hold_verb,
			[STORE_FILL] = hold_verb,
			[STORE_INVAL] = hold_verb,
			[STORE_DEL] = hold_verb,
			[STORE_EXIST] = hold_verb,
			[STORE_FLUSH] = hold_verb,
		},
	.destroy = hold_destroy,
};

static inline struct hold *hold_create(const struct store_key *key, bool holds_up)
{
	struct hold *h = calloc(1, sizeof(*h));

	must(h);
	h->st.ops = &hold_ops;
	h->key = *key;
	h->holds_up = holds_up;
	return h;
}
