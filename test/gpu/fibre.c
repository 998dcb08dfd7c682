/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See fibre.h: ucontext, a stack for each, and a scheduler that is whoever yields. One thread.
 */
#include "fibre.h"

#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "base/must.h"
#include "fibre_asan.h"

#define FIBRES_MAX 2048u
#define STACK_BYTES (128u << 10)

struct fibre {
	ucontext_t at;
	void (*fn)(void *arg);
	void *arg;
	struct fibre_group *group;
	struct fibre *next_free;
	void *fake; /* AddressSanitizer's */
	bool is_over;
	char *stack;
};

struct fibres {
	struct rng *rng;
	struct fibre *server;
	struct fibre *ready[FIBRES_MAX];
	unsigned nr_ready;
	struct fibre *all[FIBRES_MAX];
	unsigned nr;
	struct fibre *now;
	struct fibre main;
	const void *main_stack;
	size_t main_bytes;
};

static struct fibres *present;
/* Stacks are mapped once: thousands of worlds come one after the other. */
static char *stacks[FIBRES_MAX];
static unsigned nr_stacks;

static char *stack_get(void)
{
	char *s = nr_stacks ? stacks[--nr_stacks] : malloc(STACK_BYTES);

	must(s);
	return s;
}

static void go(struct fibre *from, struct fibre *to)
{
	struct fibres *f = present;
	const void *stack = to->stack ? to->stack : f->main_stack;
	size_t bytes = to->stack ? STACK_BYTES : f->main_bytes;

	f->now = to;
	fibre_leave(from->is_over ? NULL : &from->fake, stack, bytes);
	must(!swapcontext(&from->at, &to->at));
	fibre_enter(from->fake, NULL, NULL);
}

static struct fibre *pick(struct fibres *f)
{
	if (!f->nr_ready)
		return f->server && !f->server->is_over ? f->server : &f->main;
	if (f->server && !f->server->is_over && rng_chance(f->rng, 1, 2))
		return f->server;
	return f->ready[rng_below(f->rng, f->nr_ready)];
}

static void unready(struct fibres *f, struct fibre *fb)
{
	for (unsigned i = 0; i < f->nr_ready; i++) {
		if (f->ready[i] == fb) {
			f->ready[i] = f->ready[--f->nr_ready];
			return;
		}
	}
}

static void start(void)
{
	struct fibres *f = present;
	struct fibre *fb = f->now;

	if (!f->main_stack)
		fibre_enter(NULL, &f->main_stack, &f->main_bytes);
	else
		fibre_enter(NULL, NULL, NULL);
	fb->fn(fb->arg);
	fb->is_over = true;
	unready(f, fb);
	go(fb, pick(f));
	must_not_reach();
}

static struct fibre *add(struct fibres *f, void (*fn)(void *arg), void *arg)
{
	struct fibre *fb = calloc(1, sizeof(*fb));

	must(fb && f->nr < FIBRES_MAX);
	fb->fn = fn;
	fb->arg = arg;
	fb->stack = stack_get();
	must(!getcontext(&fb->at));
	fb->at.uc_stack.ss_sp = fb->stack;
	fb->at.uc_stack.ss_size = STACK_BYTES;
	fb->at.uc_link = NULL;
	makecontext(&fb->at, start, 0);
	f->all[f->nr++] = fb;
	return fb;
}

void fibre_add(struct fibres *f, void (*fn)(void *arg), void *arg)
{
	f->ready[f->nr_ready++] = add(f, fn, arg);
}

void fibre_serve(struct fibres *f, void (*fn)(void *arg), void *arg)
{
	f->server = add(f, fn, arg);
}

bool fibre_is_over(const struct fibres *f)
{
	for (unsigned i = 0; i < f->nr; i++)
		if (f->all[i] != f->server && !f->all[i]->is_over)
			return false;
	return true;
}

void fibre_run(struct fibres *f)
{
	present = f;
	go(&f->main, pick(f));
	present = NULL;
	for (unsigned i = 0; i < f->nr; i++)
		must(f->all[i]->is_over);
}

struct fibres *fibre_create(struct rng *rng)
{
	struct fibres *f = calloc(1, sizeof(*f));

	must(f);
	f->rng = rng;
	return f;
}

void fibre_destroy(struct fibres *f)
{
	for (unsigned i = 0; i < f->nr; i++) {
		stacks[nr_stacks++] = f->all[i]->stack;
		free(f->all[i]);
	}
	free(f);
}

/* ---- inside a fibre ---- */

/* Some of what is pending comes out, in any order but each place's own. */
static void some_out(struct fibre_group *g, bool all)
{
	while (g->nr_pending && (all || rng_chance(g->rng, 1, 3))) {
		unsigned i = (unsigned)rng_below(g->rng, g->nr_pending);

		for (unsigned j = 0; j < i; j++)
			if (g->pending[j].to == g->pending[i].to)
				i = j;
		memcpy(g->pending[i].to, g->pending[i].v, g->pending[i].bytes);
		g->pending[i] = g->pending[--g->nr_pending];
	}
}

void fibre_yield(void)
{
	struct fibres *f = present;
	struct fibre *me;

	if (!f)
		return;
	me = f->now;
	if (me->group)
		some_out(me->group, false);
	me = f->now;
	struct fibre *next = pick(f);

	if (next != me)
		go(me, next);
}

struct fibre_group *fibre_group(void)
{
	return present->now->group;
}

void fibre_join(struct fibre_group *g)
{
	present->now->group = g;
}

int fibre_meet(struct fibre_group *g, int ok)
{
	struct fibres *f = present;
	struct fibre *me = f->now;
	uint64_t nr = g->nr_barriers;

	fibre_yield();
	g->ok = g->nr_met ? g->ok && ok : ok;
	if (++g->nr_met == g->nr) {
		g->nr_met = 0;
		g->last_ok = g->ok;
		g->nr_barriers++;
		for (unsigned i = 0; i < f->nr; i++) {
			struct fibre *fb = f->all[i];

			if (fb != me && fb->group == g && !fb->is_over)
				f->ready[f->nr_ready++] = fb;
		}
		fibre_yield();
		return g->last_ok;
	}
	unready(f, me);
	while (g->nr_barriers == nr)
		go(me, pick(f));
	return g->last_ok;
}

void fibre_store(struct fibre_group *g, void *to, const uint64_t *v, uint32_t bytes)
{
	fibre_yield();
	if (g->nr_pending == FIBRE_PENDING)
		some_out(g, true);
	g->pending[g->nr_pending].to = to;
	g->pending[g->nr_pending].bytes = bytes;
	memcpy(g->pending[g->nr_pending].v, v, bytes);
	g->nr_pending++;
}

void fibre_release(struct fibre_group *g)
{
	some_out(g, true);
	fibre_yield();
}
