/* SPDX-License-Identifier: Apache-2.0 */
/*
 * m_random's readers: every byte that they see must be what a put wrote that may be seen, under
 * seals that fit, for as long as the view is held; and a miss must be one.
 */
#include "m_random_int.h"
#include "store/store_read.h"

static void check_miss(struct actor *a, const char *what, int res)
{
	a->m->nr_misses++;
	if (res != -ENOENT && !(res == -EBUSY && !m_is_sure(a->m)))
		m_wrong(a, what, res);
	if (m_is_sure(a->m) && !(a->io.flags & STORE_MEM_ONLY) &&
	    !history_miss_is_right(a->h, a->begin))
		m_wrong(a, what, res);
}

/* The generation of what the view holds; 0 when it holds nothing, or damage that the seals show. */
static uint64_t check_view(struct actor *a, struct store_view *v)
{
	const struct mut *mu;

	if (v->off % MEM_CHUNK_BYTES || v->off + v->len > v->value_len + MEM_CHUNK_BYTES)
		m_wrong(a, "view: of a strange range", 0);
	if (!world_seals_fit(v, &a->h->key)) {
		if (!a->m->st->flips)
			m_wrong(a, "view: seals don't fit", 0);
		a->m->nr_bad++;
		v->is_bad = true;
		return 0;
	}
	mu = history_value(a->h, a->begin, v);
	if (!mu)
		m_wrong(a, "view: wrong bytes", 0);
	if (v->len == 0 && !mu->ver)
		return history_gen(mu); /* no byte and no version says which put it was */
	if (store_meta(v)->parent[3] != (history_gen(mu) & 0x7f) ||
	    store_meta(v)->tag[31] != (history_gen(mu) & 0x7f))
		m_wrong(a, "view: somebody else's meta", 0);
	return history_gen(mu);
}

static void get_end(struct store_io *io, int res)
{
	struct actor *a = container_of(io, struct actor, io);
	const struct mut *only;

	if (res == -ESTALE && a->want_ver) {
		only = history_current(a->h, a->begin);
		if (m_is_sure(a->m) && only && only->ver == a->want_ver)
			m_wrong(a, "get: not the wanted version, but it is", res);
		m_idle(a);
		return;
	}
	if (res < 0) {
		check_miss(a, "get: miss", res);
		m_idle(a);
		return;
	}
	a->m->nr_hits++;
	if (a->want_ver && io->ver != a->want_ver)
		m_wrong(a, "get: another version than the wanted one", res);
	if (io->ver != io->view.ver)
		m_wrong(a, "get: two versions", res);
	if (io->off < io->view.value_len && io->len &&
	    (io->view.off > io->off || io->view.off + io->view.len <= io->off))
		m_wrong(a, "get: not what was asked for", res);
	a->held_id = check_view(a, &io->view);
	a->hold = (unsigned)rng_below(&a->m->rng, 12);
	a->state = ACT_HOLDING;
}

/* Bytes under a view never change, whatever happens to the key. */
void m_held_turn(struct actor *a)
{
	struct store_view *v = &a->io.view;

	if (a->held_id && !a->m->is_dead &&
	    (!world_seals_fit(v, &a->h->key) || !world_is_gen(v, &a->h->key, a->held_id)))
		m_wrong(a, "view: bytes changed while it was held", 0);
	if (a->hold-- == 0)
		m_release(a);
}

void m_get_start(struct actor *a)
{
	struct model *m = a->m;
	const struct mut *mu = NULL;

	a->begin = ++m->now;
	a->io.off = rng_chance(&m->rng, 1, 2) ? 0 : rng_below(&m->rng, 100000);
	a->io.len = rng_chance(&m->rng, 1, 2) ? M_VALUE_MAX : rng_below(&m->rng, 70000);
	a->io.flags = 0;
	if (rng_chance(&m->rng, 1, 8))
		a->io.flags |= STORE_NO_TOUCH;
	if (rng_chance(&m->rng, 1, 16))
		a->io.flags |= STORE_MEM_ONLY;
	if (rng_chance(&m->rng, 1, 8) && a->h->muts.nr)
		mu = &a->h->muts.at[rng_below(&m->rng, a->h->muts.nr)];
	a->want_ver = mu && mu->kind == MUT_PUT ? mu->ver : 0;
	a->io.ver = a->want_ver;
	m_submit(a, STORE_GET, get_end);
}

/* The short way: what it answers is what the verb would. */
void m_now_start(struct actor *a)
{
	struct model *m = a->m;
	bool is_get = rng_chance(&m->rng, 1, 2);
	const struct store_key *key = &a->h->key;
	uint64_t here, ask;
	int res;

	a->begin = ++m->now;
	a->want_ver = 0;
	a->io.off = 0;
	a->io.len = 1;
	a->io.flags = 0;
	a->io.view.st = NULL;
	if (is_get) {
		res = store_now(m->w.set, m->w.r[a->home], key, 0, &a->io.view);
	} else {
		here = store_look(m->w.set, m->w.r[a->home], &key, 1, &ask);
		res = ask ? -EAGAIN : here ? 0 : -ENOENT;
	}
	if (res == -EAGAIN) {
		m_idle(a);
	} else if (is_get) {
		a->io.ver = a->io.view.ver;
		get_end(&a->io, res);
	} else {
		if (res < 0)
			check_miss(a, "now: absent", res);
		else if (!history_hit_is_right(a->h, a->begin, 0))
			m_wrong(a, "now: is there, but can't", res);
		m_idle(a);
	}
}

/* ---- in pieces ------------------------------------------------------------------------------- */

static void read_piece(struct store_read *rd, const struct store_view *v, uint64_t off,
		       uint64_t len)
{
	struct actor *a = container_of(rd, struct actor, rd);
	struct store_view copy = *v;
	uint64_t id;

	if (a->m->is_dead) {
		store_read_next(rd, false, -ECANCELED);
		return;
	}
	id = check_view(a, &copy);

	if (id && a->read_id != UINT64_MAX && a->read_id != id)
		m_wrong(a, "read: pieces of two versions", 0);
	if (id)
		a->read_id = id;
	store_read_next(rd, copy.is_bad, 0);
}

static void read_end(struct store_read *rd, int res)
{
	struct actor *a = container_of(rd, struct actor, rd);

	/* -ESTALE: changed, or evicted and promoted again, half way. */
	if (a->m->is_dead)
		;
	else if (res == 0)
		a->m->nr_hits++;
	else if (res != -ESTALE && !a->m->st->flips)
		check_miss(a, "read: miss", res);
	m_idle(a);
}

void m_read_start(struct actor *a)
{
	struct model *m = a->m;

	a->begin = ++m->now;
	a->read_id = UINT64_MAX;
	a->io.flags = 0;
	a->rd.set = m->w.set;
	a->rd.home = m->w.r[a->home];
	a->rd.key = a->h->key;
	a->rd.off = rng_chance(&m->rng, 1, 2) ? 0 : rng_below(&m->rng, 20000);
	a->rd.len = rng_chance(&m->rng, 1, 2) ? UINT64_MAX : rng_below(&m->rng, 200000);
	a->rd.want_ver = 0;
	a->rd.flags = 0;
	a->rd.piece = read_piece;
	a->rd.end = read_end;
	a->state = ACT_BUSY;
	store_read_start(&a->rd);
}

/* ---- looks ----------------------------------------------------------------------------------- */

static void exist_end(struct store_io *io, int res)
{
	struct actor *a = container_of(io, struct actor, io);

	if (res < 0)
		check_miss(a, "exist: absent", res);
	else if (!history_hit_is_right(a->h, a->begin, io->view.value_len))
		m_wrong(a, "exist: is there, but can't", res);
	m_idle(a);
}

void m_exist_start(struct actor *a)
{
	a->begin = ++a->m->now;
	a->io.flags = 0;
	m_submit(a, STORE_EXIST, exist_end);
}

static void match_end(struct store_io *io, int res)
{
	struct actor *a = container_of(io, struct actor, io);

	if (res < 0)
		m_wrong(a, "match: failed", res);
	for (unsigned i = 0; i < io->match.nr; i++) {
		a->h = m_history_of(a->m, &a->keys[i]);
		if (a->found[i] > STORE_MEMORY)
			m_wrong(a, "match: a strange answer", a->found[i]);
		if (a->found[i] == STORE_ABSENT && m_is_sure(a->m) &&
		    !history_miss_is_right(a->h, a->begin))
			m_wrong(a, "match: absent, but can't be", 0);
		if (a->found[i] != STORE_ABSENT && !history_hit_is_right(a->h, a->begin, 0))
			m_wrong(a, "match: is there, but can't", 0);
	}
	m_idle(a);
}

void m_match_start(struct actor *a)
{
	struct model *m = a->m;

	a->begin = ++m->now;
	a->io.flags = 0;
	a->io.match = (struct store_match){.keys = a->keys, .found = a->found};
	a->io.match.nr = (uint32_t)rng_below(&m->rng, M_MATCH + 1);
	for (unsigned i = 0; i < a->io.match.nr; i++)
		a->keys[i] = m_pick(m)->key;
	m_submit(a, STORE_MATCH, match_end);
}

/* All keys in (from, to] of the page that surely are there must be on it. */
static void list_check_whole(struct actor *a, const struct store_list *l)
{
	const struct store_key *last = l->nr ? &l->keys[l->nr - 1] : NULL;
	uint32_t at = 0;

	for (unsigned i = 0; i < M_KEYS; i++) {
		const struct store_key *k = &a->m->sorted[i];

		if (!store_list_wants(l, k))
			continue;
		if (l->more && (!last || store_key_cmp(k, last) > 0))
			break;
		a->h = m_history_of(a->m, k);
		if (at < l->nr && store_key_equal(&l->keys[at], k)) {
			at++;
			if (!history_hit_is_right(a->h, a->begin, 0))
				m_wrong(a, "list: a key that can't be there", 0);
		} else if (m_is_sure(a->m) && !history_miss_is_right(a->h, a->begin)) {
			m_wrong(a, "list: a key is missing", 0);
		}
	}
	if (at != l->nr)
		m_wrong(a, "list: out of order, twice, or of unknown keys", (int)at);
}

static void list_end(struct store_io *io, int res)
{
	struct actor *a = container_of(io, struct actor, io);

	if (res < 0 && !(res == -EBUSY && a->m->st->fails))
		m_wrong(a, "list: failed", res);
	if (res == 0)
		list_check_whole(a, &io->list);
	m_idle(a);
}

void m_list_start(struct actor *a)
{
	struct model *m = a->m;
	struct store_list *l = &a->io.list;

	a->begin = ++m->now;
	a->io.flags = 0;
	*l = (struct store_list){.keys = a->keys};
	l->max = (uint32_t)rng_below(&m->rng, M_PAGE + 1);
	l->has_after = rng_chance(&m->rng, 2, 3);
	l->is_inclusive = rng_chance(&m->rng, 1, 2);
	if (l->has_after)
		l->after = m_pick(m)->key;
	else if (rng_chance(&m->rng, 1, 2))
		l->after.hash = rng_u64(&m->rng);
	m_submit(a, STORE_LIST, list_end);
}
