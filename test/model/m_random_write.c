/* SPDX-License-Identifier: Apache-2.0 */
/*
 * m_random's writers: each notes in the key's history what it begins and how it ended, and checks
 * that the result could be.
 */
#include "m_random_int.h"

static uint64_t some_len(const struct actor *a, struct rng *rng)
{
	struct model *m = a->m;
	uint64_t r = rng_below(rng, 1000);

	/* One hot key whose reads take several pieces, where that is what is tested. */
	if (m->st->has_slice && a->h == &m->h[0] && r < 200)
		return STORE_PIECE_BYTES + rng_below(rng, M_VALUE_MAX - STORE_PIECE_BYTES);
	if (r < 600)
		return 1 + rng_below(rng, 300);
	if (r < 930)
		return 1 + rng_below(rng, 5000);
	if (r < 990)
		return 1 + rng_below(rng, 20000);
	if (r < 997 || (m->st->ssd_bytes && rng_chance(rng, 7, 8)))
		return 60000 + rng_below(rng, 150000);
	return 1 + rng_below(rng, M_VALUE_MAX);
}

/* What memory takes and no segment below has room for could never be flushed. */
static uint64_t any_len(const struct actor *a)
{
	const struct m_stack *st = a->m->st;
	struct rng own, *rng = &a->m->rng;
	uint64_t len;

	if (st->is_immutable) {
		rng_init(&own, a->h->key.hash);
		rng = &own;
	}
	len = some_len(a, rng);

	return st->dram_bytes && st->ssd_bytes ? min_t(uint64_t, len, st->ssd_seg_bytes / 2) : len;
}

static struct mut *mut_begin(struct actor *a, enum mut_kind kind)
{
	struct mut mu = {.kind = kind, .state = MUT_PENDING, .end = UINT64_MAX};

	a->begin = ++a->m->now;
	if (kind != MUT_PUT)
		a->id = ++a->m->next_id;
	mu.id = a->id;
	mu.gen = kind == MUT_PUT ? m_gen(a->m, a->id) : 0;
	mu.len = a->len;
	mu.begin = a->begin;
	must(vec_push(&a->h->muts, mu));
	return &vec_last(&a->h->muts);
}

static struct mut *mut_end(struct actor *a, enum mut_state state)
{
	struct mut *mu = history_find(a->h, a->id);

	must(mu && mu->state == MUT_PENDING);
	mu->state = state;
	mu->end = ++a->m->now;
	return mu;
}

/* As if it had never begun. */
static void mut_undo(struct actor *a)
{
	struct mut *mu = mut_end(a, MUT_ACKED);

	*mu = vec_last(&a->h->muts);
	a->h->muts.nr--;
}

/* A condition was refused: then it must have been possible that it doesn't hold. */
static void put_refused(struct actor *a, int res)
{
	mut_undo(a);
	if (res == -EEXIST && !history_hit_is_right(a->h, a->begin, 0))
		m_wrong(a, "put: exists, but can't", res);
	if (res == -ENOENT && m_is_sure(a->m) && !history_miss_is_right(a->h, a->begin))
		m_wrong(a, "put: is absent, but can't be", res);
}

static void put_check_fail(struct actor *a, int res)
{
	if (res == -ENOSPC && (a->m->st->fails || m_is_bounded(a->m)))
		return;
	if (res == -EBUSY && m_is_bounded(a->m))
		return;
	if (res == -EFBIG && a->m->st->dram_bytes && a->len > a->m->st->dram_bytes / 2)
		return;
	if (res == -EFBIG && a->m->st->ssd_bytes && a->len > a->m->st->ssd_seg_bytes / 2)
		return;
	m_wrong(a, "put: failed", res);
}

static void put_end(struct store_io *io, int res)
{
	struct actor *a = container_of(io, struct actor, io);
	struct mut *mu;

	if (io->view.st)
		m_wrong(a, "put: left its view", res);
	if (res == 0) {
		mu = mut_end(a, MUT_ACKED);
		/* Of equal bytes any version may be the one that is found. */
		mu->ver = m_has_versions(a->m) ? io->ver : 0;
		a->m->nr_puts++;
	} else if ((res == -EEXIST && io->flags & STORE_IF_ABSENT) ||
		   (res == -ENOENT && io->flags & STORE_IF_PRESENT)) {
		put_refused(a, res);
	} else {
		put_check_fail(a, res);
		mut_end(a, MUT_FAILED);
	}
	m_idle(a);
}

static void put_given_back(struct store_view *v)
{
	struct store_io *io = container_of(v, struct store_io, view);

	m_idle(container_of(io, struct actor, io));
}

static void put_buffed(struct store_io *io, int res)
{
	struct actor *a = container_of(io, struct actor, io);
	struct model *m = a->m;

	if (res == 0) {
		world_fill(&io->view, &io->key, m_gen(m, a->id));
		if (rng_chance(&m->rng, 1, 20)) {
			store_release(&io->view, m->w.r[a->home], put_given_back);
			return;
		}
		m_meta(a, m_gen(m, a->id));
		io->meta = &a->meta;
		mut_begin(a, MUT_PUT);
		m_submit(a, STORE_PUT, put_end);
		return;
	}
	if (res == -EEXIST && io->flags & STORE_IF_ABSENT) {
		if (!history_hit_is_right(a->h, a->begin, 0))
			m_wrong(a, "buf: exists, but can't", res);
	} else if (res == -ENOENT && io->flags & STORE_IF_PRESENT) {
		if (m_is_sure(m) && !history_miss_is_right(a->h, a->begin))
			m_wrong(a, "buf: is absent, but can't be", res);
	} else {
		put_check_fail(a, res);
	}
	m_idle(a);
}

void m_put_start(struct actor *a)
{
	struct model *m = a->m;
	uint64_t r = rng_below(&m->rng, 10);

	a->id = ++m->next_id;
	a->len = any_len(a);
	a->io.flags = r == 0 ? STORE_IF_ABSENT : r == 1 ? STORE_IF_PRESENT : 0;
	a->io.len = a->len;
	a->begin = ++m->now;
	m_submit(a, STORE_BUF, put_buffed);
}

static void del_end(struct store_io *io, int res)
{
	struct actor *a = container_of(io, struct actor, io);
	struct mut done = {.kind = MUT_DEL, .state = MUT_ACKED, .id = a->id, .begin = a->begin};

	if (res != 0 && res != -ENOENT) {
		if (!a->m->st->fails)
			m_wrong(a, "del: failed", res);
		mut_end(a, MUT_FAILED);
		m_idle(a);
		return;
	}
	/* Its own record must not excuse what it says. */
	mut_undo(a);
	if (res == -ENOENT && m_is_sure(a->m) && !history_miss_is_right(a->h, a->begin))
		m_wrong(a, "del: is absent, but can't be", res);
	done.end = ++a->m->now;
	must(vec_push(&a->h->muts, done));
	m_idle(a);
}

void m_del_start(struct actor *a)
{
	a->io.flags = 0;
	a->io.ver = rng_u64(&a->m->rng); /* means nothing at the door */
	mut_begin(a, MUT_DEL);
	m_submit(a, STORE_DEL, del_end);
}

static const struct mut *newest_put(struct history *h)
{
	const struct mut *newest = NULL;

	vec_for_each(&h->muts, m)
		if (m->kind == MUT_PUT && m->state == MUT_ACKED &&
		    (!newest || m->ver > newest->ver))
			newest = m;
	return newest;
}

static void inval_end(struct store_io *io, int res)
{
	struct actor *a = container_of(io, struct actor, io);

	if (res == 0) {
		mut_end(a, MUT_ACKED);
	} else if (res == -ESTALE) {
		mut_undo(a); /* something newer is known: nothing has happened */
	} else {
		if (!a->m->st->fails)
			m_wrong(a, "inval: failed", res);
		mut_end(a, MUT_FAILED);
	}
	m_idle(a);
}

void m_inval_start(struct actor *a)
{
	const struct mut *newest = newest_put(a->h);
	bool is_kill = rng_chance(&a->m->rng, 1, 2);
	uint64_t ver;
	struct mut *mu;

	if (!newest || a->m->st->is_immutable) {
		m_idle(a);
		return;
	}
	ver = newest->ver + is_kill;
	a->io.flags = 0;
	a->io.ver = ver;
	mu = mut_begin(a, MUT_INVAL);
	mu->ver = ver;
	mu->is_kill = is_kill;
	m_submit(a, STORE_INVAL, inval_end);
}

static void fill_end(struct store_io *io, int res)
{
	struct actor *a = container_of(io, struct actor, io);

	if (io->view.st)
		m_wrong(a, "fill: left its view", res);
	if (res != 0 && res != -ESTALE && !(a->m->st->fails || m_is_bounded(a->m)))
		m_wrong(a, "fill: failed", res);
	a->m->nr_stale += res == -ESTALE;
	m_idle(a);
}

static void fill_buffed(struct store_io *io, int res)
{
	struct actor *a = container_of(io, struct actor, io);

	if (res < 0) {
		put_check_fail(a, res);
		m_idle(a);
		return;
	}
	world_fill(&io->view, &io->key, a->id);
	m_meta(a, a->id);
	io->meta = &a->meta;
	io->ver = a->want_ver;
	m_submit(a, STORE_FILL, fill_end);
}

/*
 * The bytes of an acknowledged version again, some time later. A store that knows every death (mem)
 * is given them whatever has happened since; one that leaves that to whoever fills it (dram, which
 * fences its own copies) only while nothing happens to the key.
 */
void m_fill_start(struct actor *a)
{
	struct model *m = a->m;
	const struct mut *mu = newest_put(a->h);
	unsigned no = m_no(m, a->h);
	struct mut *same;

	if (m_is_bounded(m)) {
		mu = m->nr_mutators[no] ? NULL : history_current(a->h, m->now);
		if (mu) {
			a->is_locked = true;
			m->nr_locks[no]++;
		}
	}
	if (!mu || !mu->ver) {
		m_idle(a);
		return;
	}
	a->id = mu->id;
	a->len = mu->len;
	a->want_ver = mu->ver;
	/* The same bytes are about to get another version. */
	same = history_find(a->h, mu->id);
	if (m->st->is_far)
		same->ver = 0;
	a->io.flags = 0;
	a->io.len = a->len;
	a->begin = ++m->now;
	m_submit(a, STORE_BUF, fill_buffed);
}

static void flush_end(struct store_io *io, int res)
{
	struct actor *a = container_of(io, struct actor, io);

	if (res != 0 && !a->m->st->fails && m_is_sure(a->m))
		m_wrong(a, "flush: failed", res);
	if (res == 0 && a->begin > a->m->flushed_at)
		a->m->flushed_at = a->begin;
	m_idle(a);
}

void m_flush_start(struct actor *a)
{
	a->begin = ++a->m->now;
	a->io.flags = 0;
	m_submit(a, STORE_FLUSH, flush_end);
}
