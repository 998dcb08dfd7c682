/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store that does what a test tells it: every verb is kept, in order of arrival, until the test
 * passes it down or answers it, unless `play` decides at once. Everything that comes is counted.
 */
#pragma once

#include "world.h"

#define PUPPET_HELD_MAX 64

struct puppet;
typedef void puppet_fn(struct puppet *p, struct store_io *io);

struct puppet {
	struct store st;
	puppet_fn *play; /* NULL: hold */
	struct store_io *held[PUPPET_HELD_MAX];
	unsigned nr_held;
	unsigned nr_seen[STORE_NR_OPS];
	unsigned nr_released;
	unsigned nr_prefetched;
	int resize_left; /* answers -EAGAIN that many times */
	uint64_t resize_bytes;
	int res;
	void *arg;
};

static inline struct puppet *puppet_of(struct store *s)
{
	return container_of(s, struct puppet, st);
}

static inline void puppet_verb(struct store *s, struct store_io *io)
{
	struct puppet *p = puppet_of(s);

	p->nr_seen[io->op]++;
	if (p->play) {
		p->play(p, io);
		return;
	}
	must(p->nr_held < PUPPET_HELD_MAX);
	p->held[p->nr_held++] = io;
}

static inline struct store_io *puppet_take(struct puppet *p, unsigned i)
{
	struct store_io *io = p->held[i];

	must(i < p->nr_held);
	p->nr_held--;
	memmove(&p->held[i], &p->held[i + 1], (p->nr_held - i) * sizeof(p->held[0]));
	return io;
}

static inline void puppet_done(struct puppet *p, struct store_io *io)
{
	store_done(io, p->res);
}

static inline void puppet_down(struct puppet *p, struct store_io *io)
{
	store_down(io, NULL);
}

static inline void puppet_release(struct store *s, struct store_view *v)
{
	puppet_of(s)->nr_released++;
}

static inline void puppet_prefetch(struct store *s, const struct store_key *key, int stage)
{
	puppet_of(s)->nr_prefetched++;
}

static inline void puppet_stats(const struct store *s, struct store_stats *st)
{
	st->hits = s->tier + 1u;
	st->capacity_bytes = 100;
}

static inline int puppet_resize(struct store *s, uint64_t bytes)
{
	struct puppet *p = puppet_of(s);

	p->resize_bytes = bytes;
	if (p->resize_left-- > 0)
		return -EAGAIN;
	return p->res;
}

static inline void puppet_destroy(struct store *s)
{
	must(puppet_of(s)->nr_held == 0);
	free(puppet_of(s));
}

static const struct store_ops puppet_ops = {
	.name = "puppet",
	.verb =
		{
			[STORE_BUF] = puppet_verb,
			[STORE_PUT] = puppet_verb,
			[STORE_GET] = puppet_verb,
			[STORE_FILL] = puppet_verb,
			[STORE_INVAL] = puppet_verb,
			[STORE_DEL] = puppet_verb,
			[STORE_EXIST] = puppet_verb,
			[STORE_MATCH] = puppet_verb,
			[STORE_LIST] = puppet_verb,
			[STORE_FLUSH] = puppet_verb,
		},
	.release = puppet_release,
	.prefetch = puppet_prefetch,
	.stats = puppet_stats,
	.resize = puppet_resize,
	.destroy = puppet_destroy,
};

static inline struct puppet *puppet_create(puppet_fn *play)
{
	struct puppet *p = calloc(1, sizeof(*p));

	must(p);
	p->st.ops = &puppet_ops;
	p->play = play;
	return p;
}
