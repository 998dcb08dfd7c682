/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store that gives of a value only the chunks that were asked for, as a tier on a device does:
 * between a reader and a store below that gives whole values.
 */
#pragma once

#include "world.h"

struct slice {
	struct store st;
	unsigned nr_gets;
	unsigned nr_out; /* views not yet released */
	unsigned nr_bad;
};

static inline void slice_up(struct store_io *io, int res)
{
	struct slice *s = container_of(io->at, struct slice, st);
	struct store_view *whole, *v = &io->view;
	uint64_t end;

	if (res < 0) {
		store_done(io, res);
		return;
	}
	whole = malloc(sizeof(*whole));
	must(whole);
	*whole = *v;
	v->st = &s->st;
	v->pin = whole;
	v->off = min_t(uint64_t, align_down(io->off, MEM_CHUNK_BYTES),
		       align_up(v->value_len, MEM_CHUNK_BYTES));
	end = min_t(uint64_t, align_up(io->off + io->len, MEM_CHUNK_BYTES), v->value_len);
	v->len = end > v->off ? end - v->off : 0;
	v->tier = s->st.tier;
	s->nr_out++;
	store_done(io, 0);
}

static inline void slice_get(struct store *st, struct store_io *io)
{
	container_of(st, struct slice, st)->nr_gets++;
	store_down(io, slice_up);
}

static inline unsigned slice_runs(const struct store_view *v, uint64_t off, struct mem_run *runs,
				  unsigned nr)
{
	unsigned n = store_runs(v->pin, off, runs, nr ? 1 : 0);

	if (n)
		runs[0].len = min_t(uint64_t, runs[0].len, v->off + v->len - off);
	return n;
}

static inline uint64_t *slice_seals(const struct store_view *v)
{
	return store_seals(v->pin) + v->off / MEM_CHUNK_BYTES;
}

static inline const struct store_meta *slice_meta(const struct store_view *v)
{
	return store_meta(v->pin);
}

static inline void slice_release(struct store *st, struct store_view *v)
{
	struct slice *s = container_of(st, struct slice, st);
	struct store_view *whole = v->pin;

	whole->is_bad = v->is_bad;
	s->nr_bad += v->is_bad;
	store_release(whole, st->owner, NULL);
	free(whole);
	s->nr_out--;
}

static inline void slice_destroy(struct store *st)
{
	struct slice *s = container_of(st, struct slice, st);

	must(s->nr_out == 0);
	free(s);
}

static const struct store_ops slice_ops = {
	.name = "slice",
	.verb[STORE_GET] = slice_get,
	.runs = slice_runs,
	.seals = slice_seals,
	.meta = slice_meta,
	.release = slice_release,
	.destroy = slice_destroy,
};

static inline struct slice *slice_create(void)
{
	struct slice *s = calloc(1, sizeof(*s));

	must(s);
	s->st.ops = &slice_ops;
	return s;
}
