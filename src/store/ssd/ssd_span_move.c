/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draining: the values of one device go on to the others, a few at a time, behind everybody else.
 *
 *     walk of its index -> GET, a piece at a time, checked -> BUF where it is placed, copied and
 *     checked -> FILL, which holds the key -> the old entry is a ghost
 *
 * A ghost, not nothing: what lies on the device is still there, so who changes the key leaves a
 * tombstone as ever, and after a crash the value is there again. When nothing in its index is live,
 * and nobody has a buffer of it, the device is empty.
 *
 * The copy has the version of the old one: whoever wants that one finds it. Nothing where it goes
 * can kill it, unless a change of the key has failed half way: what kills a version asks all,
 * and the old entry would be dead. While the FILL holds the key the old entry is looked at again:
 * what was put or deleted meanwhile is not copied over. Where values never change versions say
 * nothing, and the copy gets one as a FILL from above does. Budgets of the devices that take the
 * values hold; when they refuse, the next round comes later.
 *
 * Its writes wait for their time as those of all values do where the tier has a rate (ssd_pace.c);
 * beside that, or without one, a drain may have a rate of its own: what is read counts, and each
 * value begins when there is something in its bucket.
 *
 * Runs on the shard's owner.
 * tidy: no-test: t_ssd_span.c has it
 */
#include <errno.h>
#include <string.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/must.h"
#include "peal/seal.h"
#include "store/ssd/ssd_span.h"

#define MOVE_WALK 512u /* entries looked at in a turn */

static void move_over(struct ssd_span_move *m)
{
	must(!m->get.view.st && !m->put.view.st);
	m->from = NULL;
	m->sp->nr_moves--;
}

static void move_drop(struct ssd_span_move *m)
{
	store_release(&m->get.view, m->sp->st.owner, NULL);
	store_release(&m->put.view, m->sp->st.owner, NULL);
	move_over(m);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* The entry, if it is still the one whose value this is. */
static struct ssd_entry *move_entry(const struct ssd_span_move *m)
{
	struct ssd_entry *e = ssd_seg_live(m->from->s, &m->put.key);

	return e && e->ver == m->ver && e->seg == m->seg && e->off == m->off ? e : NULL;
}

static void move_filled(struct store_io *io, int res)
{
	struct ssd_span_move *m = container_of(io, struct ssd_span_move, put);
	struct ssd_entry *e = res ? NULL : move_entry(m);

	m->sp->is_refused |= res && res != -ESTALE;
	if (e) {
		ssd_seg_ghost(m->from->s, e);
		counter_add(&m->from->moved, 1);
		counter_add(&m->from->moved_bytes, m->len);
		m->sp->nr_moved++;
	}
	move_over(m);
}

bool ssd_span_move_is(const struct ssd_span *sp, const struct store_io *io)
{
	return io->end == move_filled;
}

/*
 * As it was, once more if it is there already. Where a change of the key that failed half way has
 * left something newer, a tombstone may be among it that kills the copy: doubt is a miss.
 */
static void move_put(struct ssd_span_move *m, struct ssd_span_dev *to)
{
	struct store_io *io = &m->put;
	const struct ssd_entry *e = ssd_index_find(&to->s->ix, &io->key);

	if (e && e->ver > io->ver) {
		ssd_seg_ghost(m->from->s, move_entry(m));
		store_done(io, -ESTALE);
		return;
	}
	io->at = &to->s->st;
	ssd_put_moved(to->s, io);
}

void ssd_span_move_fill(struct ssd_span *sp, struct store_io *io)
{
	struct ssd_span_move *m = container_of(io, struct ssd_span_move, put);

	for (unsigned i = 0; i < sp->nr && move_entry(m); i++) {
		struct ssd_span_dev *d = &sp->dev[i];

		if (!d->s || d == m->from || io->view.st != &d->s->st || !ssd_span_is_in(d))
			continue;
		if (store_set_is_immutable(sp->st.set))
			store_hand(io, &d->s->st, NULL);
		else
			move_put(m, d);
		return;
	}
	store_done(io, -ESTALE);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static void move_get(struct ssd_span_move *m);

/* The chunk that begins at pos, checked where it has arrived. */
static bool move_chunk(struct ssd_span_move *m, uint64_t pos)
{
	struct ssd_value *v = m->put.view.pin;
	uint64_t chunk = pos / MEM_CHUNK_BYTES, left = peal_seal_chunk_len(m->len, chunk), n;
	uint8_t *to = ssd_value_at(v, (uint32_t)pos);
	uint64_t seal = store_seals(&m->get.view)[chunk - m->get.view.off / MEM_CHUNK_BYTES];
	struct mem_run run;

	for (uint64_t at = pos; left; at += n, left -= n) {
		must(store_runs(&m->get.view, at, &run, 1) == 1);
		n = min_t(uint64_t, run.len, left);
		memcpy(to + (at - pos), mem_own_ptr(&run), n);
	}
	v->seals[chunk] = seal;
	return hash_xxh3(to, peal_seal_chunk_len(m->len, chunk),
			 peal_seal_seed_at(m->put.key.hash, chunk)) == seal;
}

/* At most a piece, as it came; true: it is whole and right. */
static bool move_copy(struct ssd_span_move *m)
{
	const struct store_view *v = &m->get.view;
	uint64_t end = v->off + v->len;

	if (v->off != m->pos || (m->len && !v->len) || (end % MEM_CHUNK_BYTES && end != m->len))
		return false;
	for (; m->pos < end; m->pos += MEM_CHUNK_BYTES)
		if (!move_chunk(m, m->pos))
			return false;
	m->pos = end;
	store_release(&m->get.view, m->sp->st.owner, NULL);
	return true;
}

static void move_fill(struct ssd_span_move *m)
{
	m->put.op = STORE_FILL;
	m->put.flags = 0;
	m->put.ver = m->ver;
	m->put.end = move_filled;
	store_submit_at(&m->sp->st, &m->put);
}

static void move_go_on(struct ssd_span_move *m)
{
	if (!move_copy(m) || store_set_is_closing(&m->sp->st))
		move_drop(m);
	else if (m->pos < m->len)
		move_get(m);
	else
		move_fill(m);
}

static void move_buffed(struct store_io *io, int res)
{
	struct ssd_span_move *m = container_of(io, struct ssd_span_move, put);

	m->sp->is_refused |= res < 0;
	/* Only where it lies already may it be its own target, and then there is nothing to do. */
	if (res || m->put.view.st == &m->from->s->st)
		move_drop(m);
	else
		move_go_on(m);
}

static void move_got(struct store_io *io, int res)
{
	struct ssd_span_move *m = container_of(io, struct ssd_span_move, get);

	if (res || m->get.view.value_len != m->len) {
		move_drop(m);
		return;
	}
	if (m->pos) {
		move_go_on(m);
		return;
	}
	m->meta = *store_meta(&m->get.view);
	m->put.op = STORE_BUF;
	m->put.flags = STORE_BACKGROUND;
	m->put.len = m->len;
	m->put.meta = &m->meta;
	m->put.into.st = NULL;
	m->put.end = move_buffed;
	store_submit_at(&m->sp->st, &m->put);
}

static void move_get(struct ssd_span_move *m)
{
	m->get.op = STORE_GET;
	m->get.flags = STORE_NO_TOUCH | STORE_BACKGROUND;
	m->get.off = m->pos;
	m->get.len = min_t(uint64_t, STORE_PIECE_BYTES, m->len - m->pos);
	m->get.ver = m->ver;
	m->get.end = move_got;
	store_submit_at(&m->from->s->st, &m->get);
}

/* ---- the walk -------------------------------------------------------------------------------- */

static bool move_start(struct ssd_span *sp, struct ssd_span_dev *d, const struct ssd_entry *e)
{
	struct ssd_span_move *m = sp->moves;

	while (m < sp->moves + SSD_SPAN_MOVES && m->from)
		m++;
	if (m == sp->moves + SSD_SPAN_MOVES)
		return false;
	memset(m, 0, sizeof(*m));
	m->sp = sp;
	m->from = d;
	m->ver = e->ver;
	m->seg = e->seg;
	m->off = e->off;
	m->len = e->len;
	ssd_index_key(e, &m->get.key);
	m->put.key = m->get.key;
	sp->nr_moves++;
	pace_spend(&sp->pace, m->len);
	move_get(m);
	return true;
}

/* Nothing is live, and nobody has a buffer that may become so. */
static bool move_is_empty(const struct ssd_span_dev *d)
{
	return d->s->ix.nr_used == d->s->ix.nr_ghosts && d->s->nr_free_values == d->nr_values &&
	       !d->s->buf_head;
}

/* When there is nothing in the bucket the shard sleeps until there is. */
static bool move_must_wait(struct ssd_span *sp)
{
	uint64_t now = reactor_turn_ns(sp->st.owner), wait;

	if (pace_may(&sp->pace, now, &wait))
		return false;
	sp->wait_until_ns = now + wait;
	timeout_set(sp->st.owner, &sp->wake, sp->wait_until_ns);
	return true;
}

bool ssd_span_move_step(struct ssd_span *sp, struct ssd_span_dev *d, int *nr_done)
{
	struct ssd_entry *e;

	*nr_done = 0;
	if (sp->is_refused) {
		sp->is_refused = sp->nr_moves > 0;
		return false;
	}
	if (move_must_wait(sp))
		return false;
	for (uint32_t n = 0; n < MOVE_WALK; n++) {
		e = ssd_index_walk(&d->s->ix, &sp->walk);
		if (e && ssd_seg_serves(d->s, e)) {
			if (!move_start(sp, d, e))
				return false;
			*nr_done = 1;
		}
		if (e) {
			sp->walk++;
			continue;
		}
		if (sp->nr_moves)
			return false;
		if (move_is_empty(d))
			return true;
		*nr_done = sp->nr_moved > 0;
		sp->walk = 0;
		sp->nr_moved = 0;
		return false;
	}
	*nr_done = 1;
	return false;
}
