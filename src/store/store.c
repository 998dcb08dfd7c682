/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door. A request enters by store_submit() on home, reaches the owner of its key's shard
 * (directly when that is home, by message otherwise), passes the gate when it is a mutation, goes
 * down the stack as far as it must, and comes back the same way:
 *
 *     store_submit -> store_enter -> [gate] -> verb -> ...
 *                          io->end <- [gate] <- store_finish <- store_done
 *
 * MATCH, LIST and FLUSH go from owner to owner, one shard after the other, and home from the last
 * one.
 *
 * Promises: end() runs exactly once, on home, with a result out of the closed set of store.h; a
 * view that a PUT or FILL brought is gone. Nothing is allocated. The direct path is lean: a look-up
 * in memory pays one compare, two counters and one indirect call here.
 */
#include <errno.h>
#include <string.h>

#include "base/must.h"
#include "store/store_int.h"

static const struct store_meta store_meta_none;

int store_key_cmp(const struct store_key *a, const struct store_key *b)
{
	int c;

	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	c = memcmp(a->b, b->b, sizeof(a->b));
	return c ? c : (int)a->len - (int)b->len;
}

/* ---- results --------------------------------------------------------------------------------- */

static unsigned store_res_bit(int res)
{
	switch (res) {
	case 0:
		return 1u << 0;
	case -ENOENT:
		return 1u << 1;
	case -EEXIST:
		return 1u << 2;
	case -ENOSPC:
		return 1u << 3;
	case -EFBIG:
		return 1u << 4;
	case -ESTALE:
		return 1u << 5;
	case -ECANCELED:
		return 1u << 6;
	case -EBUSY:
		return 1u << 7;
	default:
		return 0;
	}
}

/* Bits of store_res_bit() that a verb may tell its submitter, and what it tells instead of anything
 * else. */
static const struct {
	uint8_t allowed;
	int16_t otherwise;
} store_res_table[STORE_NR_OPS] = {
	[STORE_BUF] = {0xdf, -ENOSPC},	 [STORE_PUT] = {0xdf, -ENOSPC},
	[STORE_GET] = {0xe3, -ENOENT},	 [STORE_FILL] = {0xfb, -ENOSPC},
	[STORE_INVAL] = {0xe9, -ENOSPC}, [STORE_DEL] = {0xcb, -ENOSPC},
	[STORE_EXIST] = {0xc3, -ENOENT}, [STORE_MATCH] = {0xc1, 0},
	[STORE_LIST] = {0xc1, -EBUSY},	 [STORE_FLUSH] = {0xc9, -ENOSPC},
};

/* The submitter's result: doubt is a miss, or no room; see the closed set in store.h. */
static int store_res_tell(struct store_shard *sh, const struct store_io *io, int res)
{
	if (store_res_bit(res) & store_res_table[io->op].allowed)
		return res;
	if (res == -ENOENT && io->op == STORE_INVAL)
		return 0;
	counter_add(&sh->unexpected, 1);
	return store_res_table[io->op].otherwise;
}

/* What the verb means where there is no store left to ask. */
static int store_res_bottom(const struct store_io *io)
{
	switch ((enum store_op)io->op) {
	case STORE_INVAL:
	case STORE_MATCH:
	case STORE_LIST:
	case STORE_FLUSH:
		return 0;
	case STORE_BUF:
	case STORE_PUT:
	case STORE_GET:
	case STORE_FILL:
	case STORE_DEL:
	case STORE_EXIST:
	case STORE_NR_OPS:
		break;
	}
	return -ENOENT;
}

/* ---- through the stack ----------------------------------------------------------------------- */

static void store_finish(struct store_io *io, int res);

static void store_pop(struct store_io *io, int res)
{
	struct store_frame *f;

	if (io->depth == 0) {
		store_finish(io, res);
		return;
	}
	f = &io->frame[--io->depth];
	io->at = f->at;
	io->op = f->op;
	f->up(io, res);
}

#define STORE_LOOKS (1u << STORE_GET | 1u << STORE_EXIST | 1u << STORE_MATCH | 1u << STORE_LIST)

/* Does s answer this one at all? */
static inline bool store_serves(const struct store *s, const struct store_io *io)
{
	if (unlikely(io->flags & STORE_MEM_ONLY) && STORE_LOOKS >> io->op & 1 &&
	    !s->ops->is_memory &&
	    !(s->ops->has_index && (io->op == STORE_MATCH || io->op == STORE_EXIST)))
		return false;
	return s->ops->verb[io->op];
}

static inline void store_run(struct store *s, struct store_io *io)
{
	while (s && !store_serves(s, io))
		s = s->below;
	io->at = s;
	if (likely(s))
		s->ops->verb[io->op](s, io);
	else
		store_pop(io, store_res_bottom(io));
}

static void store_push(struct store_io *io, store_end_fn *up)
{
	struct store_frame *f = &io->frame[io->depth];

	must(io->depth < STORE_DEPTH_MAX);
	f->up = up;
	f->at = io->at;
	f->op = io->op;
	io->depth++;
}

void store_done(struct store_io *io, int res)
{
	must(io->at); /* else it was done before */
	store_pop(io, res);
}

void store_down(struct store_io *io, store_end_fn *up)
{
	struct store *s = io->at;

	must(s);
	if (up)
		store_push(io, up);
	store_run(s->below, io);
}

void store_down_as(struct store_io *io, enum store_op op, store_end_fn *up)
{
	struct store *s = io->at;

	must(s && up);
	store_push(io, up);
	io->op = (uint8_t)op;
	store_run(s->below, io);
}

void store_hand(struct store_io *io, struct store *part, store_end_fn *up)
{
	must(io->at);
	if (up)
		store_push(io, up);
	store_run(part, io);
}

void *store_scratch(struct store_io *io)
{
	return io->frame[io->depth].scratch;
}

void store_alert(struct store *s, const struct store_key *key, const char *what)
{
	if (s->set->alert)
		s->set->alert(s->set->alert_arg, key, what);
}

/* ---- in and out ------------------------------------------------------------------------------ */

static void store_view_drop(struct store_view *v)
{
	if (v->st)
		v->st->ops->release(v->st, v);
	v->st = NULL;
}

static void store_come_home(struct mbox_msg *m)
{
	struct store_io *io = container_of(m, struct store_io, msg);

	io->end(io, io->res);
}

static inline void store_reply(struct store_shard *sh, struct store_io *io, int res)
{
	if (likely(io->home == sh->owner)) {
		io->end(io, res);
		return;
	}
	io->res = res;
	io->msg.fn = store_come_home;
	reactor_send(sh->owner, io->home, &io->msg);
}

static void store_woken(struct mbox_msg *m)
{
	struct store_io *io = container_of(m, struct store_io, msg);

	store_run(io->at, io);
}

/* By message, not by a call: a thousand waiters of one key aren't a thousand stack frames. */
static void store_wake(struct store_shard *sh, struct store_io *io)
{
	io->msg.fn = store_woken;
	reactor_send(sh->owner, sh->owner, &io->msg);
}

static inline void store_start(struct store_shard *sh, struct store *s, struct store_io *io)
{
	counter_add(&sh->busy, 1);
	io->depth = 0;
	if (STORE_MUTATIONS >> io->op & 1 && !store_gate_enter(&sh->gate, io)) {
		io->at = s;
		return;
	}
	store_run(s, io);
}

static int store_poll(struct poller *p)
{
	struct store_shard *sh = container_of(p, struct store_shard, poller);
	int n = 0;

	for (unsigned i = 0; i < sh->nr_tiers; i++)
		if (sh->tier[i]->ops->step)
			n += sh->tier[i]->ops->step(sh->tier[i]);
	return n;
}

void store_shard_open(struct store_shard *sh)
{
	sh->state = STORE_SHARD_OPEN;
	for (unsigned i = 0; i < sh->nr_tiers; i++)
		sh->has_poller |= sh->tier[i]->ops->step != NULL;
	if (!sh->has_poller)
		return;
	sh->poller.name = "store";
	sh->poller.poll = store_poll;
	sh->poller.max_sleep_ns = UINT64_MAX;
	reactor_poller_add(sh->owner, &sh->poller);
}

static void store_list_restore(struct store_io *io)
{
	struct store_list *l = &io->list;

	l->keys -= l->nr_before;
	l->max += l->nr_before;
	l->nr += l->nr_before;
	l->nr_before = 0;
}

/* Refused before it began. */
static void store_refuse(struct store_shard *sh, struct store_io *io, int res)
{
	if (STORE_TAKES_VIEW >> io->op & 1)
		store_view_drop(&io->view);
	if (io->op == STORE_LIST)
		store_list_restore(io);
	store_reply(sh, io, res);
}

/* On the owner. */
static inline void store_enter(struct store_shard *sh, struct store_io *io)
{
	counter_add(&sh->ops[io->op], 1);
	if (unlikely(sh->state != STORE_SHARD_OPEN)) {
		if (sh->state == STORE_SHARD_CLOSING) {
			store_refuse(sh, io, -ECANCELED);
			return;
		}
		store_shard_open(sh);
	}
	if (unlikely(io->op == STORE_BUF && io->len > sh->set->value_max)) {
		store_refuse(sh, io, -EFBIG);
		return;
	}
	store_start(sh, sh->top, io);
}

static void store_arrive(struct mbox_msg *m)
{
	struct store_io *io = container_of(m, struct store_io, msg);

	store_enter(&io->set->shard[io->shard], io);
}

static inline void store_go(struct reactor *from, struct store_io *io)
{
	struct store_shard *sh = &io->set->shard[io->shard];

	if (likely(sh->owner == from)) {
		store_enter(sh, io);
		return;
	}
	io->msg.fn = store_arrive;
	reactor_send(from, sh->owner, &io->msg);
}

/* ---- MATCH, LIST, FLUSH: shard after shard --------------------------------------------------- */

/* False: there is nothing to visit. */
static bool store_visit_first(struct store_io *io)
{
	unsigned nr = io->set->nr_shards;

	io->shard = 0;
	io->res = 0;
	switch (io->op) {
	case STORE_MATCH:
		io->match.nr_shards = (uint16_t)nr;
		io->match.todo = nr == 1 && io->match.nr;
		if (io->match.nr) /* a MATCH of nothing may come without an array */
			memset(io->match.found, STORE_ABSENT, io->match.nr);
		for (uint32_t i = 0; nr > 1 && i < io->match.nr; i++)
			io->match.todo |= 1ull << store_shard_of(io->match.keys[i].hash, nr);
		if (!io->match.todo)
			return false;
		io->shard = (uint16_t)__builtin_ctzll(io->match.todo);
		io->match.todo &= io->match.todo - 1;
		return true;
	case STORE_LIST:
		io->list.nr = 0;
		io->list.nr_before = 0;
		io->list.more = false;
		io->shard = (uint16_t)store_shard_of(io->list.after.hash, nr);
		return true;
	default:
		return true;
	}
}

/* One shard has answered. True: io->shard is the next one. Otherwise *res is the whole result. */
static bool store_visit_next(struct store_io *io, int *res)
{
	struct store_list *l = &io->list;

	switch (io->op) {
	case STORE_MATCH:
		if (*res < 0 || !io->match.todo)
			return false;
		io->shard = (uint16_t)__builtin_ctzll(io->match.todo);
		io->match.todo &= io->match.todo - 1;
		return true;
	case STORE_LIST:
		l->nr_before += l->nr;
		l->keys += l->nr;
		l->max -= l->nr;
		l->nr = 0;
		/* A full page goes on with max 0, to know whether there are more. */
		if (*res == 0 && !l->more && io->shard + 1u < io->set->nr_shards) {
			io->shard++;
			return true;
		}
		store_list_restore(io);
		return false;
	default:
		if (*res < 0 && io->res == 0)
			io->res = *res;
		*res = io->res;
		io->shard++;
		return io->shard < io->set->nr_shards;
	}
}

static void store_finish(struct store_io *io, int res)
{
	struct store_shard *sh = &io->set->shard[io->shard];
	struct store_io *next = NULL;

	if (unlikely(res != 0)) {
		must(io->op != STORE_GET || !io->view.st);
		must(io->op != STORE_BUF || !io->view.st);
		if (!io->is_inner)
			res = store_res_tell(sh, io, res);
	}
	if (STORE_MUTATIONS >> io->op & 1) {
		if (STORE_TAKES_VIEW >> io->op & 1)
			store_view_drop(&io->view);
		next = store_gate_leave(&sh->gate, io);
		if (unlikely(next))
			store_wake(sh, next);
	}
	counter_add(&sh->busy, (uint64_t)-1);
	io->at = NULL;
	if (unlikely(STORE_VISITS_SHARDS >> io->op & 1) && !io->is_inner) {
		struct reactor *here = sh->owner;

		if (store_visit_next(io, &res)) {
			store_go(here, io);
			return;
		}
	}
	store_reply(sh, io, res);
}

/* ---- the door -------------------------------------------------------------------------------- */

void store_submit(struct store_set *set, struct reactor *home, struct store_io *io)
{
	io->set = set;
	io->home = home;
	io->is_inner = false;
	if (!(STORE_TAKES_VIEW >> io->op & 1))
		io->view.st = NULL;
	io->into.st = NULL;
	if (io->op == STORE_DEL)
		io->ver = 0;
	if (unlikely(STORE_VISITS_SHARDS >> io->op & 1)) {
		if (!store_visit_first(io)) {
			io->end(io, 0);
			return;
		}
	} else {
		io->shard = (uint16_t)store_shard_of(io->key.hash, set->nr_shards);
	}
	store_go(home, io);
}

/* `start` may be NULL: below the bottom. */
static void store_submit_inner(struct store *s, struct store *start, struct store_io *io)
{
	io->set = s->set;
	io->home = s->owner;
	io->is_inner = true;
	io->shard = s->shard;
	if (!(STORE_TAKES_VIEW >> io->op & 1))
		io->view.st = NULL;
	if (io->op != STORE_BUF)
		io->into.st = NULL;
	if (io->op == STORE_MATCH)
		io->match.nr_shards = (uint16_t)s->set->nr_shards;
	store_start(&s->set->shard[s->shard], start, io);
}

void store_submit_at(struct store *s, struct store_io *io)
{
	store_submit_inner(s, s, io);
}

void store_submit_below(struct store *s, struct store_io *io)
{
	store_submit_inner(s, s->below, io);
}

/* ---- views ----------------------------------------------------------------------------------- */

unsigned store_runs(const struct store_view *v, uint64_t off, struct mem_run *runs, unsigned nr)
{
	if (off < v->off || off - v->off >= v->len)
		return 0;
	return v->st->ops->runs(v, off, runs, nr);
}

uint64_t *store_seals(const struct store_view *v)
{
	return v->st->ops->seals(v);
}

const struct store_meta *store_meta(const struct store_view *v)
{
	const struct store_meta *m = v->st->ops->meta ? v->st->ops->meta(v) : NULL;

	return m ? m : &store_meta_none;
}

static void store_release_back(struct mbox_msg *m)
{
	struct store_view *v = container_of(m, struct store_view, msg);

	v->done(v);
}

static void store_release_arrive(struct mbox_msg *m)
{
	struct store_view *v = container_of(m, struct store_view, msg);
	struct reactor *owner = v->st->owner;

	store_view_drop(v);
	if (!v->done)
		return;
	v->msg.fn = store_release_back;
	reactor_send(owner, v->home, &v->msg);
}

void store_release(struct store_view *v, struct reactor *home, void (*done)(struct store_view *v))
{
	if (!v->st || v->st->owner == home) {
		store_view_drop(v);
		if (done)
			done(v);
		return;
	}
	v->home = home;
	v->done = done;
	v->msg.fn = store_release_arrive;
	reactor_send(home, v->st->owner, &v->msg);
}

static int store_view_iter_next(struct mem_iter *it, uint64_t max, struct mem_run *run)
{
	struct store_view_iter *vi = container_of(it, struct store_view_iter, it);

	if (vi->run.len == 0 && store_runs(vi->view, vi->pos, &vi->run, 1) == 0)
		return -ENODATA;
	*run = vi->run;
	if (run->len > max)
		run->len = max;
	vi->run.off += run->len;
	vi->run.len -= run->len;
	vi->pos += run->len;
	return 0;
}

void store_view_iter_init(struct store_view_iter *vi, const struct store_view *v, uint64_t off)
{
	must(off % MEM_CHUNK_BYTES == 0);
	vi->it = (struct mem_iter){.next = store_view_iter_next};
	vi->view = v;
	vi->pos = off;
	vi->run = (struct mem_run){0};
}
