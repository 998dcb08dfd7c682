/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every actor does: picks a verb and a key, submits it, notes what came of it. See
 * m_random_int.h.
 */
#include "m_random_int.h"

static const struct {
	unsigned weight;
	void (*start)(struct actor *a);
	bool is_mutation;
} acts[] = {
	{28, m_put_start, true},    {6, m_del_start, true},    {3, m_inval_start, true},
	{3, m_fill_start, false},   {28, m_get_start, false},  {8, m_read_start, false},
	{12, m_exist_start, false}, {4, m_match_start, false}, {4, m_list_start, false},
	{1, m_flush_start, false},  {10, m_now_start, false},
};

unsigned m_no(const struct model *m, struct history *h)
{
	return (unsigned)(h - m->h);
}

/* Some keys are hot, so that verbs meet. */
struct history *m_pick(struct model *m)
{
	struct history *h = m->aim ? m->aim(m) : NULL;

	if (!h && rng_chance(&m->rng, 1, 3))
		h = &m->h[rng_below(&m->rng, 8)];
	else if (!h)
		h = &m->h[rng_below(&m->rng, m->st->nr_keys ? m->st->nr_keys : M_KEYS)];
	return h == m->spared ? &m->h[m_no(m, h) ^ 1] : h;
}

struct history *m_history_of(struct model *m, const struct store_key *key)
{
	uint32_t no;

	memcpy(&no, key->b, 4);
	must(no < M_KEYS && store_key_equal(&m->h[no].key, key));
	return &m->h[no];
}

_Noreturn void m_wrong(const struct actor *a, const char *what, int res)
{
	printf("%s: %s: res %d, key %u, home %u, began %llu, now %llu, view ver %llu len %u "
	       "tier %u\n",
	       a->m->st->name, what, res, m_no(a->m, a->h), a->home, (unsigned long long)a->begin,
	       (unsigned long long)a->m->now, (unsigned long long)a->io.view.ver,
	       a->io.view.value_len, a->io.view.tier);
	history_print(a->h, a->begin);
	fflush(stdout);
	abort();
}

static void released(struct store_view *v)
{
	struct store_io *io = container_of(v, struct store_io, view);

	m_idle(container_of(io, struct actor, io));
}

static void submit_end(struct store_io *io, int res)
{
	struct actor *a = container_of(io, struct actor, io);

	if (a->m->is_dead)
		m_release(a);
	else
		a->end(io, res);
}

void m_submit(struct actor *a, enum store_op op, store_end_fn *end)
{
	a->state = ACT_BUSY;
	a->io.op = (uint8_t)op;
	a->io.end = submit_end;
	a->end = end;
	if (op != STORE_PUT && op != STORE_FILL)
		a->io.meta = NULL;
	store_submit(a->m->w.set, a->m->w.r[a->home], &a->io);
}

static uint64_t oldest_begin(const struct model *m)
{
	uint64_t t = m->now;

	for (unsigned i = 0; i < M_ACTORS; i++)
		if (m->actors[i].state != ACT_IDLE && m->actors[i].begin < t)
			t = m->actors[i].begin;
	return t;
}

void m_idle(struct actor *a)
{
	struct model *m = a->m;

	if (a->is_locked)
		m->nr_locks[m_no(m, a->h)]--;
	if (a->is_mutator)
		m->nr_mutators[m_no(m, a->h)]--;
	a->is_locked = a->is_mutator = false;
	a->state = ACT_IDLE;
	m->nr_ops++;
	if (a->h->muts.nr > 16)
		history_prune(a->h, oldest_begin(m));
}

static void act(struct actor *a)
{
	struct model *m = a->m;
	unsigned sum = 0, i = 0, r;

	for (unsigned k = 0; k < ARRAY_SIZE(acts); k++)
		sum += acts[k].weight;
	for (r = (unsigned)rng_below(&m->rng, sum); r >= acts[i].weight; i++)
		r -= acts[i].weight;
	a->h = m_pick(m);
	a->home = (unsigned)rng_below(&m->rng, m->w.nr_reactors);
	a->io.key = a->h->key;
	a->begin = m->now;
	if (acts[i].is_mutation && m->nr_locks[m_no(m, a->h)])
		return;
	a->state = ACT_BUSY;
	a->is_mutator = acts[i].is_mutation;
	if (a->is_mutator)
		m->nr_mutators[m_no(m, a->h)]++;
	acts[i].start(a);
}

void m_turn(struct model *m, bool may_start)
{
	struct actor *a = &m->actors[rng_below(&m->rng, M_ACTORS)];

	if (a->state == ACT_HOLDING)
		m_held_turn(a);
	else if (a->state == ACT_IDLE && may_start)
		act(a);
	else
		m->nr_waiting++;
	if (rng_chance(&m->rng, 1, 2))
		world_step(&m->w);
}

bool m_is_quiet(const struct model *m)
{
	for (unsigned i = 0; i < M_ACTORS; i++)
		if (m->actors[i].state != ACT_IDLE)
			return false;
	return true;
}

static int cmp_key(const void *a, const void *b)
{
	return store_key_cmp(a, b);
}

void m_release(struct actor *a)
{
	a->state = ACT_BUSY;
	store_release(&a->io.view, a->m->w.r[a->home], released);
}

void m_actors_init(struct model *m, const struct m_stack *st, uint64_t seed)
{
	struct mut none = {.kind = MUT_DEL, .state = MUT_ACKED};

	memset(m, 0, sizeof(*m));
	m->st = st;
	m->now = 1;
	m->next_id = 1;
	rng_init(&m->rng, seed);
	for (uint32_t i = 0; i < M_KEYS; i++) {
		m->h[i].key = m->sorted[i] = world_key(i);
		must(vec_push(&m->h[i].muts, none));
	}
	qsort(m->sorted, M_KEYS, sizeof(m->sorted[0]), cmp_key);
	for (unsigned i = 0; i < M_ACTORS; i++) {
		m->actors[i].m = m;
		m->actors[i].h = &m->h[0];
	}
}

void m_actors_fini(struct model *m)
{
	for (unsigned i = 0; i < M_KEYS; i++)
		vec_fini(&m->h[i].muts);
}
