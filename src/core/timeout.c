/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hierarchical timing wheel (Varghese and Lauck, 1987), see timeout_int.h. Everything runs on the
 * reactor that owns the wheel.
 */
#include "core/timeout_int.h"

#include "base/must.h"
#include "core/reactor_int.h"

#define TIMEOUT_TICK_MASK ((1ull << TIMEOUT_TICK_SHIFT) - 1)

void timeout_init(struct timeout *t, void (*fn)(struct timeout *t))
{
	list_init(&t->node);
	t->at_ns = 0;
	t->fn = fn;
}

bool timeout_is_set(const struct timeout *t)
{
	return t->node.next && list_is_linked(&t->node);
}

void timeout_cancel(struct timeout *t)
{
	if (timeout_is_set(t))
		list_del(&t->node);
}

void timeout_wheel_init(struct timeout_wheel *w, uint64_t now_ns)
{
	w->tick = now_ns >> TIMEOUT_TICK_SHIFT;
	list_init(&w->due);
	for (unsigned level = 0; level < TIMEOUT_LEVELS; level++) {
		w->occupied[level] = 0;
		for (unsigned i = 0; i < TIMEOUT_SLOTS; i++)
			list_init(&w->slot[level][i]);
	}
}

static void timeout_unset_all(struct list *head)
{
	while (!list_is_empty(head))
		list_del(head->next);
}

void timeout_wheel_fini(struct timeout_wheel *w)
{
	timeout_unset_all(&w->due);
	for (unsigned level = 0; level < TIMEOUT_LEVELS; level++) {
		for (unsigned i = 0; i < TIMEOUT_SLOTS; i++)
			timeout_unset_all(&w->slot[level][i]);
	}
}

static bool timeout_insert(struct timeout_wheel *w, struct timeout *t)
{
	/* Rounded up: never early. */
	uint64_t tick = (t->at_ns >> TIMEOUT_TICK_SHIFT) + !!(t->at_ns & TIMEOUT_TICK_MASK);
	unsigned level, i;

	if (tick <= w->tick) {
		list_add_tail(&w->due, &t->node);
		return true;
	}
	level = (63u - (unsigned)__builtin_clzll(tick ^ w->tick)) / TIMEOUT_SLOT_BITS;
	i = (tick >> (level * TIMEOUT_SLOT_BITS)) % TIMEOUT_SLOTS;
	list_add_tail(&w->slot[level][i], &t->node);
	w->occupied[level] |= 1ull << i;
	return false;
}

bool timeout_wheel_set(struct timeout_wheel *w, struct timeout *t, uint64_t at_ns)
{
	must(t->fn);
	timeout_cancel(t);
	t->at_ns = at_ns;
	return timeout_insert(w, t);
}

/* The next slot that holds something: its level and index, and the tick at which it begins. */
static bool timeout_next_slot(struct timeout_wheel *w, unsigned *level, unsigned *i, uint64_t *tick)
{
	for (unsigned l = 0; l < TIMEOUT_LEVELS; l++) {
		unsigned shift = l * TIMEOUT_SLOT_BITS;
		unsigned pos = (w->tick >> shift) % TIMEOUT_SLOTS;
		/* Slots up to `pos` are empty: what was in them has been moved down or is due. */
		uint64_t ahead = w->occupied[l] & (~0ull << pos) & ~(1ull << pos);

		while (ahead) {
			unsigned s = (unsigned)__builtin_ctzll(ahead);

			if (!list_is_empty(&w->slot[l][s])) {
				*level = l;
				*i = s;
				*tick = ((w->tick >> shift) - pos + s) << shift;
				return true;
			}
			w->occupied[l] &= ~(1ull << s);
			ahead &= ahead - 1;
		}
	}
	return false;
}

static void timeout_advance(struct timeout_wheel *w, uint64_t now_tick)
{
	struct list moved;
	unsigned level, i;
	uint64_t tick;

	while (timeout_next_slot(w, &level, &i, &tick) && tick <= now_tick) {
		list_init(&moved);
		list_splice_tail(&moved, &w->slot[level][i]);
		w->occupied[level] &= ~(1ull << i);
		w->tick = tick;
		while (!list_is_empty(&moved)) {
			struct timeout *t = list_first_entry(&moved, struct timeout, node);

			list_del(&t->node);
			timeout_insert(w, t);
		}
	}
	if (now_tick > w->tick)
		w->tick = now_tick;
}

int timeout_wheel_run(struct timeout_wheel *w, uint64_t now_ns, int max)
{
	int nr = 0;

	timeout_advance(w, now_ns >> TIMEOUT_TICK_SHIFT);
	for (; nr < max && !list_is_empty(&w->due); nr++) {
		struct timeout *t = list_first_entry(&w->due, struct timeout, node);

		list_del(&t->node);
		t->fn(t);
	}
	return nr;
}

uint64_t timeout_wheel_next_ns(struct timeout_wheel *w)
{
	unsigned level, i;
	uint64_t tick;

	if (!list_is_empty(&w->due))
		return 0;
	if (!timeout_next_slot(w, &level, &i, &tick))
		return UINT64_MAX;
	/* Only ticks near the end of time, which never come, don't fit. */
	return tick > UINT64_MAX >> TIMEOUT_TICK_SHIFT ? UINT64_MAX : tick << TIMEOUT_TICK_SHIFT;
}

void timeout_set(struct reactor *r, struct timeout *t, uint64_t at_ns)
{
	if (timeout_wheel_set(&r->wheel, t, at_ns))
		reactor_clock_stale(r);
}
