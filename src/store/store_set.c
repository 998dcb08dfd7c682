/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets: one namespace's key space, cut into shards, each with its stack. Created and pushed by one
 * thread before it is used; counters may be read by any thread; resize and destroy go from owner to
 * owner by message, one shard after the other, and end on home.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "store/store_class.h"
#include "store/store_int.h"

struct store_tour {
	struct mbox_msg msg;
	struct store_set *set;
	struct reactor *home;
	void (*done)(void *arg, int res);
	void *arg;
	unsigned shard;
	unsigned far; /* of the pools of batches, when all shards are closed */
	int res;
	uint64_t bytes; /* per shard */
};

static void store_set_free(struct store_set *set, unsigned nr_gates)
{
	for (unsigned i = 0; i < nr_gates; i++)
		store_gate_fini(&set->shard[i].gate);
	for (unsigned i = 0; i < REACTORS_MAX; i++)
		store_far_destroy(set->far[i]);
	free(set->end);
	free(set->name);
	free(set);
}

/* Batches for each reactor that has others to ask. */
static int store_set_far(struct store_set *set, const struct store_set_opts *o)
{
	struct reactor *const *peers = o->peers ? o->peers : o->reactors;
	unsigned nr_peers = o->peers ? o->nr_peers : o->nr_shards;
	uint64_t all = UINT64_MAX >> (STORE_SHARDS_MAX - o->nr_shards);

	for (unsigned i = 0; i < nr_peers; i++) {
		unsigned id = reactor_id(peers[i]);

		if (set->far[id] || set->owned[id] == all)
			continue;
		set->far[id] = store_far_create(peers[i]);
		if (!set->far[id])
			return -ENOMEM;
	}
	return 0;
}

int store_set_create(const struct store_set_opts *o, struct store_set **out)
{
	struct store_set *set;
	size_t bytes = sizeof(*set) + o->nr_shards * sizeof(set->shard[0]);

	must(o->nr_shards >= 1 && o->nr_shards <= STORE_SHARDS_MAX);
	set = aligned_alloc(alignof(struct store_set), align_up(bytes, alignof(struct store_set)));
	if (!set)
		return -ENOMEM;
	memset(set, 0, bytes);
	set->nr_shards = o->nr_shards;
	set->is_immutable = o->is_immutable;
	set->value_max = o->value_max;
	set->alert = o->alert;
	set->alert_arg = o->alert_arg;
	set->end = calloc(1, sizeof(*set->end));
	set->name = strdup(o->name ? o->name : "");
	if (!set->end || !set->name)
		goto free_set;
	for (unsigned i = 0; i < o->nr_shards; i++) {
		set->shard[i].set = set;
		set->shard[i].owner = o->reactors[i];
		set->owned[reactor_id(o->reactors[i])] |= 1ull << i;
		if (store_gate_init(&set->shard[i].gate) < 0) {
			store_set_free(set, i);
			return -ENOMEM;
		}
	}
	if (store_set_far(set, o)) {
		store_set_free(set, o->nr_shards);
		return -ENOMEM;
	}
	*out = set;
	return 0;

free_set:
	store_set_free(set, 0);
	return -ENOMEM;
}

void store_set_push(struct store_set *set, unsigned shard, struct store *s)
{
	struct store_shard *sh = &set->shard[shard];

	must(shard < set->nr_shards && sh->state == STORE_SHARD_NEW &&
	     sh->nr_tiers < STORE_DEPTH_MAX);
	s->below = NULL;
	s->set = set;
	s->owner = sh->owner;
	s->shard = (uint16_t)shard;
	s->tier = sh->nr_tiers;
	if (sh->nr_tiers)
		sh->tier[sh->nr_tiers - 1]->below = s;
	else
		sh->top = s;
	sh->tier[sh->nr_tiers++] = s;
}

static void store_set_opened(struct mbox_msg *m)
{
	struct store_set *set = container_of(m, struct store_set, open);
	struct store_shard *sh = &set->shard[set->open_shard];

	if (sh->state == STORE_SHARD_NEW)
		store_shard_open(sh);
	if (++set->open_shard < set->nr_shards)
		mbox_post(set->shard[set->open_shard].owner, m);
}

/* Who destroys it comes by the same way, and behind. */
void store_set_open(struct store_set *set)
{
	set->open.fn = store_set_opened;
	mbox_post(set->shard[0].owner, &set->open);
}

unsigned store_set_nr_shards(const struct store_set *set)
{
	return set->nr_shards;
}

struct reactor *store_set_owner(const struct store_set *set, const struct store_key *key)
{
	return set->shard[store_shard_of(key->hash, set->nr_shards)].owner;
}

bool store_set_is_closing(const struct store *s)
{
	return s->set->shard[s->shard].state == STORE_SHARD_CLOSING;
}

bool store_set_is_ending(const struct store *s)
{
	return store_set_is_closing(s) ||
	       atomic_load_explicit(&s->set->is_ending, memory_order_relaxed);
}

void store_set_ending(struct store_set *set)
{
	atomic_store_explicit(&set->is_ending, true, memory_order_relaxed);
}

bool store_set_is_immutable(const struct store_set *set)
{
	return set->is_immutable;
}

uint32_t store_set_value_max(const struct store_set *set)
{
	return set->value_max;
}

void store_set_stats_add(struct store_stats *sum, const struct store_stats *st)
{
	sum->capacity_bytes += st->capacity_bytes;
	sum->used_bytes += st->used_bytes;
	sum->value_bytes += st->value_bytes;
	sum->nr_keys += st->nr_keys;
	sum->index_bytes += st->index_bytes;
	sum->hits += st->hits;
	sum->misses += st->misses;
	sum->puts += st->puts;
	sum->evictions += st->evictions;
	sum->evicted_bytes += st->evicted_bytes;
	sum->bad_seals += st->bad_seals;
	sum->full += st->full;
	sum->lost += st->lost;
	sum->dirty_bytes += st->dirty_bytes;
	sum->torn += st->torn;
	sum->fetched_bytes += st->fetched_bytes;
	sum->fetched_used += st->fetched_used;
	sum->fetched_wasted += st->fetched_wasted;
	sum->ahead_bytes += st->ahead_bytes;
	sum->ahead_used += st->ahead_used;
	sum->ahead_wasted += st->ahead_wasted;
	sum->fetches += st->fetches;
	sum->fetches_dropped += st->fetches_dropped;
	sum->read_bytes += st->read_bytes;
	sum->straight_bytes += st->straight_bytes;
	sum->staged_bytes += st->staged_bytes;
	sum->late += st->late;
}

int store_set_stats(const struct store_set *set, unsigned tier, struct store_stats *st)
{
	struct store_stats sum = {0}, one;
	const struct store *s;

	for (unsigned i = 0; i < set->nr_shards; i++) {
		if (tier >= set->shard[i].nr_tiers)
			return -ENOENT;
		s = set->shard[i].tier[tier];
		if (!s->ops->stats)
			continue;
		one = (struct store_stats){0};
		s->ops->stats(s, &one);
		store_set_stats_add(&sum, &one);
	}
	*st = sum;
	return 0;
}

unsigned store_set_classes(const struct store_set *set, unsigned shard, unsigned tier,
			   struct store_class *to, unsigned max)
{
	const struct store *s;

	if (shard >= set->nr_shards || tier >= set->shard[shard].nr_tiers)
		return 0;
	s = set->shard[shard].tier[tier];
	return s->ops->classes ? s->ops->classes(s, to, max) : 0;
}

const char *store_set_tier_name(const struct store_set *set, unsigned tier)
{
	const struct store_shard *sh = &set->shard[0];

	return tier < sh->nr_tiers ? sh->tier[tier]->ops->name : NULL;
}

void store_set_door_stats(const struct store_set *set, struct store_door_stats *st)
{
	const struct store_shard *sh;

	*st = (struct store_door_stats){0};
	for (unsigned i = 0; i < set->nr_shards; i++) {
		sh = &set->shard[i];
		for (unsigned op = 0; op < STORE_NR_OPS; op++)
			st->ops[op] += counter_get(&sh->ops[op]);
		st->waits += counter_get(&sh->gate.waits);
		st->unexpected += counter_get(&sh->unexpected);
		st->busy += counter_get(&sh->busy);
	}
}

/* ---- from owner to owner --------------------------------------------------------------------- */

static void store_tour_home(struct mbox_msg *m)
{
	struct store_tour *t = container_of(m, struct store_tour, msg);
	void (*done)(void *arg, int res) = t->done;
	void *arg = t->arg;
	int res = t->res;

	free(t);
	done(arg, res);
}

static void store_tour_destroyed(struct mbox_msg *m)
{
	struct store_tour *t = container_of(m, struct store_tour, msg);

	store_set_free(t->set, t->set->nr_shards);
	store_tour_home(m);
}

static void store_tour_go(struct store_tour *t, struct reactor *from, struct reactor *to,
			  void (*fn)(struct mbox_msg *m))
{
	t->msg.fn = fn;
	reactor_send(from, to, &t->msg);
}

/* The first tier that has a size of its own is the one that is meant. */
static int store_shard_resize(struct store_shard *sh, uint64_t bytes)
{
	for (unsigned i = 0; i < sh->nr_tiers; i++)
		if (sh->tier[i]->ops->resize)
			return sh->tier[i]->ops->resize(sh->tier[i], bytes);
	return -EINVAL;
}

static void store_tour_resize(struct mbox_msg *m)
{
	struct store_tour *t = container_of(m, struct store_tour, msg);
	struct store_shard *sh = &t->set->shard[t->shard];

	t->res = store_shard_resize(sh, t->bytes);
	if (t->res == -EAGAIN) {
		store_tour_go(t, sh->owner, sh->owner, store_tour_resize);
		return;
	}
	if (t->res < 0 || ++t->shard == t->set->nr_shards) {
		store_tour_go(t, sh->owner, t->home, store_tour_home);
		return;
	}
	store_tour_go(t, sh->owner, t->set->shard[t->shard].owner, store_tour_resize);
}

void store_set_resize(struct store_set *set, struct reactor *home, uint64_t bytes,
		      void (*done)(void *arg, int res), void *arg)
{
	struct store_tour *t = malloc(sizeof(*t));

	if (!t) {
		done(arg, -ENOMEM);
		return;
	}
	*t = (struct store_tour){.set = set,
				 .home = home,
				 .done = done,
				 .arg = arg,
				 .bytes = bytes / set->nr_shards};
	store_tour_go(t, home, set->shard[0].owner, store_tour_resize);
}

static void store_shard_close(struct store_shard *sh)
{
	if (sh->has_poller)
		reactor_poller_del(sh->owner, &sh->poller);
	for (unsigned i = 0; i < sh->nr_tiers; i++)
		sh->tier[i]->ops->destroy(sh->tier[i]);
	sh->nr_tiers = 0;
	sh->top = NULL;
}

static bool store_shard_is_busy(const struct store_shard *sh)
{
	if (counter_get(&sh->busy))
		return true;
	for (unsigned i = 0; i < sh->nr_tiers; i++)
		if (sh->tier[i]->ops->is_busy && sh->tier[i]->ops->is_busy(sh->tier[i]))
			return true;
	return false;
}

/* Reactors that own no shard have batches, too. */
static void store_tour_far(struct mbox_msg *m);

static void store_tour_far_next(struct store_tour *t, struct reactor *from)
{
	struct store_set *set = t->set;

	while (t->far < REACTORS_MAX && !set->far[t->far])
		t->far++;
	if (t->far == REACTORS_MAX)
		store_tour_go(t, from, t->home, store_tour_destroyed);
	else
		store_tour_go(t, from, store_far_home(set->far[t->far]), store_tour_far);
}

static void store_tour_far(struct mbox_msg *m)
{
	struct store_tour *t = container_of(m, struct store_tour, msg);
	const struct store_far_pool *far = t->set->far[t->far];

	t->far += !store_far_is_busy(far);
	store_tour_far_next(t, store_far_home(far));
}

static void store_tour_close(struct mbox_msg *m)
{
	struct store_tour *t = container_of(m, struct store_tour, msg);
	struct store_shard *sh = &t->set->shard[t->shard];
	const struct store_far_pool *far = t->set->far[reactor_id(sh->owner)];

	sh->state = STORE_SHARD_CLOSING;
	/* Busy, or a batch of this reactor isn't home from where it let go its last pins. */
	if (store_shard_is_busy(sh) || (far && store_far_is_busy(far))) {
		store_tour_go(t, sh->owner, sh->owner, store_tour_close);
		return;
	}
	store_shard_close(sh);
	if (++t->shard == t->set->nr_shards)
		store_tour_far_next(t, sh->owner);
	else
		store_tour_go(t, sh->owner, t->set->shard[t->shard].owner, store_tour_close);
}

void store_set_destroy(struct store_set *set, struct reactor *home,
		       void (*done)(void *arg, int res), void *arg)
{
	struct store_tour *t = set->end;

	set->end = NULL;
	*t = (struct store_tour){.set = set, .home = home, .done = done, .arg = arg};
	store_tour_go(t, home, set->shard[0].owner, store_tour_close);
}
