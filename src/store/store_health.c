/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See store_health.h. Sums of counters on any thread; a word to the tiers goes round the owners.
 */
#include "store/store_health.h"

#include <errno.h>
#include <string.h>

#include "base/container.h"
#include "store/store_int.h"

const char *const store_health_wrote[] = {"back", "through", "again", "tables", "first", NULL};
const char *const store_health_refused[] = {"state", "wear", "budget", "policy",
					    "bad",   "room", NULL};
const char *const store_health_errors[] = {"read", "write", "sync", "wrong", NULL};
_Static_assert(ARRAY_SIZE(store_health_wrote) == STORE_NR_WROTE + 1, "a name each");
_Static_assert(ARRAY_SIZE(store_health_refused) == STORE_NR_REFUSED + 1, "a name each");
_Static_assert(ARRAY_SIZE(store_health_errors) == STORE_NR_ERRORS + 1, "a name each");

void store_health_add(struct store_health *sum, const struct store_health *h)
{
	sum->nr_shards++;
	for (unsigned i = 0; i < STORE_NR_WROTE; i++)
		sum->wrote[i] += h->wrote[i];
	for (unsigned i = 0; i < STORE_NR_REFUSED; i++)
		sum->refused[i] += h->refused[i];
	for (unsigned i = 0; i < STORE_NR_ERRORS; i++)
		sum->errors[i] += h->errors[i];
	sum->nr_segments += h->nr_segments;
	sum->nr_dead += h->nr_dead;
	sum->nr_bad += h->nr_bad;
	sum->budget_day_bytes += h->budget_day_bytes;
	sum->given_back_bytes += h->given_back_bytes;
	sum->nr_recovering += h->nr_recovering;
	sum->recover_segments += h->recover_segments;
	sum->recovered_segments += h->recovered_segments;
	sum->recover_bytes += h->recover_bytes;
	sum->recover_ms = max_t(uint64_t, sum->recover_ms, h->recover_ms);
	sum->state = max_t(enum trip_state, sum->state, h->state);
}

int store_health_get(const struct store_set *set, unsigned tier, struct store_health *out)
{
	struct store_health sum = {0}, one;
	const struct store *s;

	for (unsigned i = 0; i < set->nr_shards; i++) {
		if (tier >= set->shard[i].nr_tiers)
			return -ENOENT;
		s = set->shard[i].tier[tier];
		if (!s->ops->health)
			continue;
		one = (struct store_health){0};
		s->ops->health(s, &one);
		store_health_add(&sum, &one);
	}
	*out = sum;
	return 0;
}

int store_health_part(const struct store_set *set, unsigned tier, unsigned i,
		      struct store_part *out)
{
	struct store_part sum = {0}, one;
	const struct store *s;

	for (unsigned k = 0; k < set->nr_shards; k++) {
		if (tier >= set->shard[k].nr_tiers)
			return -ENOENT;
		s = set->shard[k].tier[tier];
		if (!s->ops->part || s->ops->part(s, i, &one))
			return -ENOENT;
		store_set_stats_add(&sum.st, &one.st);
		store_health_add(&sum.health, &one.health);
		sum.moved += one.moved;
		sum.moved_bytes += one.moved_bytes;
		sum.state = max_t(enum store_part_state, sum.state, one.state);
		memcpy(sum.folder, one.folder, sizeof(sum.folder));
	}
	*out = sum;
	return 0;
}

const char *store_health_part_name(enum store_part_state state)
{
	static const char *const names[] = {"in", "drained", "draining", "lost", "missing"};

	return names[state];
}

static void control_home(struct mbox_msg *m)
{
	struct store_control *c = container_of(m, struct store_control, msg);

	c->done(c);
}

static void control_arrive(struct mbox_msg *m)
{
	struct store_control *c = container_of(m, struct store_control, msg);
	struct store_shard *sh = &c->set->shard[c->shard];
	struct reactor *to = c->home;

	if (sh->state == STORE_SHARD_CLOSING) {
		c->res = -ECANCELED;
		c->shard = c->set->nr_shards - 1;
	} else if (sh->state == STORE_SHARD_NEW) {
		store_shard_open(sh);
	}
	for (unsigned i = 0; i < sh->nr_tiers && c->res != -ECANCELED; i++) {
		if (!sh->tier[i]->ops->control)
			continue;
		sh->tier[i]->ops->control(sh->tier[i], c);
		c->res = 0;
	}
	m->fn = control_home;
	if (++c->shard < c->set->nr_shards) {
		m->fn = control_arrive;
		to = c->set->shard[c->shard].owner;
	}
	reactor_send(sh->owner, to, m);
}

void store_health_control(struct store_control *c)
{
	c->nr = 0;
	c->err = 0;
	c->res = -EOPNOTSUPP;
	c->shard = 0;
	c->msg.fn = control_arrive;
	reactor_send(c->home, c->set->shard[0].owner, &c->msg);
}
