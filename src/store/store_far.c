/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Look-ups on other reactors' shards, a batch at a time. What a reactor asks one owner for in one
 * turn goes in one batch, an array of lines, which makes two round trips:
 *
 *     home: store_far_get() x n   --keys-->      owner: prefetch all, look up and pin all
 *     home: end() x n, copies    <--where they lie--
 *     home: the last one is let go  --------->   owner: unpin all
 *     home: the batch is free    <---------
 *
 * so a look-up costs its line there and back, and a command is over when its bytes are copied,
 * whatever its pin's way home takes. The owner writes into the line what a copy needs (first run,
 * only seal), so that home touches no line of the index.
 *
 * Promises: end() runs once, on home, never inside store_far_get(). A batch's values stay pinned
 * until the last of them is copied: pins are bounded by STORE_FAR_BATCHES batches per reactor and
 * set, and what takes long goes in a batch of its own. Without a free batch store_far_get() says no
 * and the verb is the way. Nothing is allocated after store_far_create().
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "store/store_int.h"

#define STORE_FAR_BATCHES 64u
#define STORE_FAR_SLOTS 32u
#define STORE_FAR_WARM_BYTES 4096u

/* One look-up, there and back: one line. Home's, except while its batch is with the owner. */
struct store_far_slot {
	struct store_far *far;
	union {
		struct store_key key; /* there */
		struct {	      /* back, when res is 0 */
			void *pin;
			uint64_t ver;
			uint64_t seal; /* the only chunk's, when there is one only */
			struct mem_region *reg;
			uint64_t off;
		} got;
	};
	uint32_t run_len;
	uint32_t value_len;
	int16_t res;
	uint8_t tier;
	bool is_use;
	bool is_bad; /* home's word, on the way to be let go */
};
_Static_assert(sizeof(struct store_far_slot) == 64, "a look-up is a cache line");

struct store_far_batch {
	alignas(64) struct mbox_msg msg;
	struct store_shard *sh; /* whom it asks */
	struct store_far_pool *pool;
	uint64_t flushes; /* of home, when it was sent: it may be added to until that moves */
	uint32_t nr;
	uint32_t nr_left; /* home's: values not let go, and one while end()s run */
	bool is_pinned;	  /* some are */
	bool has_bad;
	alignas(64) struct store_far_slot slot[STORE_FAR_SLOTS];
};

struct store_far_pool {
	struct reactor *home;
	uint32_t nr_free;
	struct store_far_batch *free[STORE_FAR_BATCHES];
	struct store_far_batch *open[REACTORS_MAX]; /* by shard: the last one begun */
	struct store_far_batch *batch;
};

struct store_far_pool *store_far_create(struct reactor *home)
{
	size_t bytes = STORE_FAR_BATCHES * sizeof(struct store_far_batch);
	struct store_far_pool *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->batch = aligned_alloc(alignof(struct store_far_batch), bytes);
	if (!p->batch) {
		free(p);
		return NULL;
	}
	memset(p->batch, 0, bytes);
	p->home = home;
	for (uint32_t i = 0; i < STORE_FAR_BATCHES; i++) {
		p->batch[i].pool = p;
		p->free[p->nr_free++] = &p->batch[i];
	}
	return p;
}

void store_far_destroy(struct store_far_pool *p)
{
	if (!p)
		return;
	must(!store_far_is_busy(p));
	free(p->batch);
	free(p);
}

bool store_far_is_busy(const struct store_far_pool *p)
{
	return p->nr_free < STORE_FAR_BATCHES;
}

struct reactor *store_far_home(const struct store_far_pool *p)
{
	return p->home;
}

/* ---- letting go ---- */

/* On home: it has come back from its last way. */
static void far_free(struct mbox_msg *m)
{
	struct store_far_batch *b = container_of(m, struct store_far_batch, msg);
	struct store_far_pool *p = b->pool;
	bool has_bad = b->has_bad;

	for (uint32_t i = 0; has_bad && i < b->nr; i++)
		if (b->slot[i].is_bad)
			b->slot[i].far->dropped(b->slot[i].far);
	p->free[p->nr_free++] = b;
}

static struct store_view far_view(const struct store_far_batch *b, const struct store_far_slot *s)
{
	return (struct store_view){
		.st = b->sh->top,
		.pin = s->got.pin,
		.len = s->value_len,
		.ver = s->got.ver,
		.value_len = s->value_len,
		.tier = s->tier,
	};
}

/* On the owner. */
static void far_unpin(struct mbox_msg *m)
{
	struct store_far_batch *b = container_of(m, struct store_far_batch, msg);
	struct store_shard *sh = b->sh;

	for (uint32_t i = 0; i < b->nr; i++)
		if (b->slot[i].res == 0)
			__builtin_prefetch(b->slot[i].got.pin, 1);
	for (uint32_t i = 0; i < b->nr; i++) {
		struct store_view v;

		if (b->slot[i].res)
			continue;
		v = far_view(b, &b->slot[i]);
		v.is_bad = b->slot[i].is_bad;
		v.is_use = b->slot[i].is_use;
		v.st->ops->release(v.st, &v);
	}
	counter_add(&sh->busy, (uint64_t)-1);
	b->msg.fn = far_free;
	reactor_send(sh->owner, b->pool->home, &b->msg);
}

static void far_drop(struct store_far_batch *b)
{
	must(b->nr_left > 0);
	if (--b->nr_left)
		return;
	if (!b->is_pinned) {
		far_free(&b->msg);
		return;
	}
	b->msg.fn = far_unpin;
	reactor_send(b->pool->home, b->sh->owner, &b->msg);
}

void store_far_put(struct store_far *far)
{
	far->view.st = NULL;
	far_drop(far->batch);
}

void store_far_drop(struct store_far *far, void (*dropped)(struct store_far *far))
{
	struct store_far_batch *b = far->batch;

	far->view.st = NULL;
	far->dropped = dropped;
	b->slot[far->slot].is_bad = true;
	b->has_bad = true;
	far_drop(b);
}

/* ---- the answer ---- */

/* The value's first bytes are on the way while the one before it is copied. */
static void far_warm(const struct store_far_slot *s)
{
	const uint8_t *at;
	uint64_t len;

	if (s->res || !s->run_len || s->got.reg->domain != MEM_HOST)
		return;
	at = s->got.reg->base + s->got.off;
	len = min_t(uint64_t, s->run_len, STORE_FAR_WARM_BYTES);
	for (uint64_t i = 0; i < len; i += 64)
		__builtin_prefetch(at + i);
}

static void far_give(struct store_far_batch *b, struct store_far_slot *s)
{
	struct store_far *far = s->far;

	if (s->res) {
		b->nr_left--; /* nothing is pinned; far_back() holds one more */
		far->end(far, s->res);
		return;
	}
	far->view = far_view(b, s);
	far->run = (struct mem_run){s->got.reg, s->got.off, s->run_len};
	far->seals = s->value_len <= MEM_CHUNK_BYTES ? &s->got.seal : store_seals(&far->view);
	far->end(far, 0);
}

/* On home. */
static void far_back(struct mbox_msg *m)
{
	struct store_far_batch *b = container_of(m, struct store_far_batch, msg);

	for (uint32_t i = 0; i < b->nr; i++)
		__builtin_prefetch(&b->slot[i]);
	b->nr_left = b->nr + 1;
	far_warm(&b->slot[0]);
	for (uint32_t i = 0; i < b->nr; i++) {
		if (i + 1 < b->nr)
			far_warm(&b->slot[i + 1]);
		far_give(b, &b->slot[i]);
	}
	far_drop(b);
}

/* ---- the question ---- */

static void far_look(struct store_shard *sh, struct store_far_batch *b, struct store_far_slot *s)
{
	struct store_key key = s->key;
	struct mem_run run = {0};
	struct store_view v;

	s->res = (int16_t)store_now(sh->set, sh->owner, &key, 0, &v);
	if (s->res)
		return;
	must(v.st == sh->top && v.off == 0 && v.len == v.value_len);
	s->got.pin = v.pin;
	s->got.ver = v.ver;
	s->value_len = v.value_len;
	s->tier = v.tier;
	s->is_use = v.is_use;
	if (v.len) {
		must(store_runs(&v, 0, &run, 1) == 1);
		s->got.seal = *store_seals(&v);
	}
	s->got.reg = run.reg;
	s->got.off = run.off;
	s->run_len = (uint32_t)run.len;
	if (b->is_pinned)
		return;
	b->is_pinned = true;
	counter_add(&sh->busy, 1); /* the shard stays until they are let go */
}

/* On the owner. */
static void far_arrive(struct mbox_msg *m)
{
	struct store_far_batch *b = container_of(m, struct store_far_batch, msg);
	struct store_shard *sh = b->sh;

	for (uint32_t i = 0; i < b->nr; i++)
		__builtin_prefetch(&b->slot[i], 1);
	for (int stage = 0; stage < 2; stage++)
		for (uint32_t i = 0; i < b->nr; i++)
			store_prefetch(sh->set, sh->owner, &b->slot[i].key, stage);
	for (uint32_t i = 0; i < b->nr; i++)
		far_look(sh, b, &b->slot[i]);
	b->msg.fn = far_back;
	reactor_send(sh->owner, b->pool->home, &b->msg);
}

static struct store_far_batch *far_begin(struct store_far_pool *p, struct store_shard *sh)
{
	struct store_far_batch *b;

	if (p->nr_free == 0)
		return NULL;
	b = p->free[--p->nr_free];
	b->sh = sh;
	b->nr = 0;
	b->is_pinned = false;
	b->has_bad = false;
	b->flushes = reactor_nr_flushes(p->home);
	b->msg.fn = far_arrive;
	reactor_send(p->home, sh->owner, &b->msg);
	return b;
}

/* The batch that still waits for the end of this turn, if it has room. */
static struct store_far_batch *far_open(struct store_far_pool *p, const struct store_shard *sh,
					unsigned shard)
{
	struct store_far_batch *b = p->open[shard];

	if (b && b->sh == sh && b->flushes == reactor_nr_flushes(p->home) &&
	    b->nr < STORE_FAR_SLOTS)
		return b;
	return NULL;
}

bool store_far_get(struct store_set *set, struct reactor *home, const struct store_key *key,
		   struct store_far *far)
{
	struct store_far_pool *p = set->far[reactor_id(home)];
	unsigned shard = store_shard_of(key->hash, set->nr_shards);
	struct store_shard *sh = &set->shard[shard];
	struct store_far_batch *b;
	struct store_far_slot *s;

	if (!p || sh->owner == home)
		return false;
	must(p->home == home);
	b = far->is_long ? NULL : far_open(p, sh, shard);
	if (!b) {
		b = far_begin(p, sh);
		if (!b)
			return false;
		if (!far->is_long)
			p->open[shard] = b;
	}
	far->batch = b;
	far->slot = b->nr;
	far->view.st = NULL;
	s = &b->slot[b->nr++];
	s->far = far;
	s->key = *key;
	s->is_bad = false;
	return true;
}
