/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store that takes everything and has nothing: the bottom of a stack whose lower tier doesn't
 * matter, and the floor of a measurement. Synchronous; runs on the shard's owner.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/must.h"
#include "store/heap_int.h"
#include "store/store_make.h"

struct null {
	struct store st;
	uint64_t ver;
};

static void null_buf(struct store *s, struct store_io *io)
{
	struct heap_value *v;

	if (io->flags & STORE_IF_PRESENT) {
		store_done(io, -ENOENT);
		return;
	}
	v = heap_value_create(io->len);
	if (!v) {
		store_done(io, -ENOSPC);
		return;
	}
	heap_view(s, v, &io->view);
	store_done(io, 0);
}

static void null_take(struct store_io *io)
{
	must(io->view.st == io->at);
	heap_value_put(io->view.pin);
	io->view.st = NULL;
}

static void null_put(struct store *s, struct store_io *io)
{
	struct null *n = container_of(s, struct null, st);

	if (io->flags & STORE_IF_PRESENT) {
		store_done(io, -ENOENT);
		return;
	}
	null_take(io);
	io->ver = ++n->ver;
	store_done(io, 0);
}

static void null_fill(struct store *s, struct store_io *io)
{
	null_take(io);
	store_done(io, 0);
}

static void null_absent(struct store *s, struct store_io *io)
{
	store_done(io, -ENOENT);
}

static void null_well(struct store *s, struct store_io *io)
{
	store_done(io, 0);
}

static void null_release(struct store *s, struct store_view *v)
{
	heap_value_put(v->pin);
}

static void null_destroy(struct store *s)
{
	free(container_of(s, struct null, st));
}

static const struct store_ops null_ops = {
	.name = "null",
	.verb =
		{
			[STORE_BUF] = null_buf,
			[STORE_PUT] = null_put,
			[STORE_GET] = null_absent,
			[STORE_FILL] = null_fill,
			[STORE_INVAL] = null_well,
			[STORE_DEL] = null_absent,
			[STORE_EXIST] = null_absent,
			[STORE_MATCH] = null_well,
			[STORE_LIST] = null_well,
			[STORE_FLUSH] = null_well,
		},
	.runs = heap_runs,
	.seals = heap_seals,
	.meta = heap_meta,
	.release = null_release,
	.destroy = null_destroy,
};

/* tidy: named by store.h, where every maker of a store is */
struct store *store_null_create(void)
{
	struct null *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->st.ops = &null_ops;
	return &n->st;
}
