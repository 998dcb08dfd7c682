/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write-back: dirty entries go to the tier below before their memory is used again, and on a flush.
 *
 *   BUF below -> copy, chunk by chunk, checked -> FILL with the entry's version -> clean
 *
 * Nothing is copied when the tier below can write from our memory (store_into); then it has checked
 * what it wrote, and says -EBADMSG when our bytes don't fit.
 *
 * The FILL passes the gate at this tier, so it never overtakes or is overtaken by a put or del of
 * the same key; when it holds the key and the entry is no longer the current one, nor is there
 * another of the same bytes, it ends there. The entry is pinned meanwhile.
 *
 * A flush counts on what was acknowledged before it, and is over when that is below or dead. What
 * is put over such a value meanwhile takes its place, for that may never be below: else a key that
 * was acknowledged before the flush could be gone after it, in either version. Where values never
 * change, and the older one is being written already, that goes on instead, with a version right
 * below what replaced it: no flush waits for a key that is put all the time. Otherwise the number
 * is bounded.
 *
 * No flush waits for a put that isn't acknowledged yet, not even for one that has killed what was
 * below and hasn't been published (put_inval()). It comes after the flush then, as if it had been
 * submitted there: a crash on its way may leave neither value (doc/format.md), and once it is
 * acknowledged it is for the next flush.
 *
 * A value that can't be written below is lost when its memory is needed: a miss, since nothing
 * older exists there. A flush says -ENOSPC then. The copies are budgeted: one piece per turn. Runs
 * on the shard's owner.
 */
#include "store/dram/dram_back_int.h"

#include <errno.h>

#include "base/container.h"
#include "base/must.h"

#define FLUSH_HEIRS 1024u /* that have heirs: a flush says -EBUSY if there are more */

static void back_set(struct dram_back *b, enum dram_back_state state)
{
	b->d->nr_copying -= b->state == DRAM_BACK_COPY;
	b->d->nr_copying += state == DRAM_BACK_COPY;
	b->state = state;
}

void dram_back_free(struct dram_back *b)
{
	back_set(b, DRAM_BACK_FREE);
	b->d->nr_backs--;
}

static bool back_is_immutable(const struct dram *d)
{
	return store_set_is_immutable(d->st.set);
}

static bool flush_wants(const struct dram *d, const struct dram_entry *e)
{
	return e->ver <= d->flush_ver || e->is_owed;
}

/* No farther back than needed, or what is put all the time keeps a flush from what lies behind. */
static void flush_back_to(struct dram *d, const struct dram_entry *e)
{
	d->flush_at = min_t(uint64_t, d->flush_at, dram_index_no(&d->ix, e));
}

/*
 * One that began before the flush was not worth keeping, said the tier below, which doesn't say
 * that to a flush: once more, what is here of the key now.
 */
static void back_again(struct dram_back *b)
{
	struct dram *d = b->d;
	struct dram_entry *e = b->e;
	struct store_key key;

	if (!e->is_linked && back_is_immutable(d)) {
		dram_index_key(e, &key);
		e = dram_index_find(&d->ix, &key);
		if (!e || !e->is_dirty)
			return;
		e->is_owed = true;
	}
	flush_back_to(d, e);
}

static void back_end(struct dram_back *b, int res)
{
	struct dram *d = b->d;
	struct dram_entry *e = b->e;
	bool is_again = res == -EDQUOT && d->flush_head && !b->is_wanted;

	if (b->put) {
		dram_through_end(b, res);
		return;
	}
	dram_back_free(b);
	e->is_back = false;
	/*
	 * One that was put or deleted over meanwhile is no loss, nor one that is dead below: what
	 * killed it came after it, nor one that the tier below doesn't think worth keeping.
	 */
	if (res && res != -ESTALE && res != -EDQUOT && d->flush_head && !b->is_dead &&
	    (e->is_linked || res == -EILSEQ || back_is_immutable(d)))
		d->flush_res = -ENOSPC;
	if (is_again)
		back_again(b);
	/*
	 * -ESTALE: a del that failed half way has killed it below. Otherwise it is a victim that
	 * can't be saved.
	 */
	if (e->is_linked && res && res != -ESTALE && res != -EDQUOT && b->is_victim)
		counter_add(&d->count.lost, 1);
	if (e->is_linked && (res == -ESTALE || (res && b->is_victim && !is_again)))
		dram_value_drop(d, e);
	else if (e->is_linked && !res)
		dram_value_set_dirty(d, e, false);
	/* Others hold it: it stays. */
	if (e->is_linked && !res && b->is_demoted && e->pins == 1)
		dram_value_drop(d, e);
	dram_value_unpin(d, e);
}

static void back_filled(struct store_io *io, int res)
{
	struct dram_back *b = container_of(io, struct dram_back, io);

	if (res == -EBADMSG) {
		counter_add(&b->d->count.lost, 1);
		dram_value_drop_bad(b->d, b->e);
		res = -EILSEQ;
	}
	/* What is below may give it another one: until then it was provisional. */
	if (!res && b->e->is_linked) {
		b->e->ver = io->ver;
		dram_fresh_seen(b->d, b->e, b->at_ns);
		b->d->ver = max_t(uint64_t, b->d->ver, io->ver);
	}
	back_end(b, res);
}

static uint64_t back_chunks(const struct dram_back *b)
{
	return div_round_up(b->e->len, MEM_CHUNK_BYTES);
}

static void back_buffed(struct store_io *io, int res)
{
	struct dram_back *b = container_of(io, struct dram_back, io);

	if (res) {
		back_end(b, res);
		return;
	}
	back_set(b, DRAM_BACK_COPY);
	b->chunk = io->into.st ? 0 : back_chunks(b); /* taken: it is written from here */
	io->into.st = NULL;
}

static void back_io(struct dram_back *b, enum store_op op, store_end_fn *end)
{
	struct dram_entry *e = b->e;

	b->io.op = (uint8_t)op;
	b->io.flags = 0;
	dram_index_key(e, &b->io.key);
	b->io.len = e->len;
	b->io.ver = b->put ? dram_frame(b->put)->ver : e->ver;
	b->io.meta = NULL;
	if (e->ext.has_meta) {
		struct store_view v;

		dram_value_view(b->d, e, &v);
		b->io.meta = dram_value_meta(&v);
	}
	b->io.end = end;
}

/* With the value, for who can write it from where it lies. */
static void back_buf(struct dram_back *b)
{
	struct store_view v;

	back_io(b, STORE_BUF, back_buffed);
	b->io.flags = b->d->flush_head ? STORE_WANTED : 0;
	dram_value_view(b->d, b->e, &v);
	b->io.into = (struct store_into){
		.st = &b->d->st,
		.pin = b->e,
		.ver = b->io.ver,
		.value_len = (uint32_t)b->e->len,
		.is_huge = dram_value_is_huge(b->d, b->e),
		.seals = dram_value_seals(&v),
	};
	store_submit_below(&b->d->st, &b->io);
}

static struct dram_back *back_take(struct dram *d, struct dram_entry *e)
{
	struct dram_back *b = d->backs;

	while (b->state != DRAM_BACK_FREE)
		b++;
	d->nr_backs++;
	b->d = d;
	back_set(b, DRAM_BACK_WAIT);
	b->e = e;
	b->is_victim = b->is_demoted = b->is_dead = false;
	b->is_wanted = d->flush_head && flush_wants(d, e);
	b->put = NULL;
	return b;
}

void dram_back_put(struct dram *d, struct dram_entry *e, struct store_io *put)
{
	struct dram_back *b = back_take(d, e);

	b->put = put;
	back_buf(b);
}

/* end() may run inside, when the tier below refuses at once: look at is_back. */
int dram_back_start(struct dram *d, struct dram_entry *e, bool is_victim)
{
	struct dram_back *b;

	must(e->is_linked && e->is_dirty && !e->is_back && d->st.below);
	if (d->nr_backs == DRAM_BACKS)
		return -EBUSY;
	b = back_take(d, e);
	dram_value_pin(d, e);
	e->is_back = true;
	if (is_victim && !e->is_parked) {
		evict_remove(&d->evict, dram_index_no(&d->ix, e));
		e->is_parked = true;
	}
	b->is_victim = is_victim;
	back_buf(b);
	return 0;
}

int dram_back_demote(struct dram *d, struct dram_entry *e)
{
	int err = e->is_back ? -EBUSY : dram_back_start(d, e, false);

	for (struct dram_back *b = d->backs; !err && b < d->backs + DRAM_BACKS; b++)
		if (b->state != DRAM_BACK_FREE && b->e == e)
			b->is_demoted = true;
	return err;
}

void dram_back_fill(struct dram *d, struct store_io *io)
{
	struct dram_back *b = container_of(io, struct dram_back, io);
	const struct dram_entry *e = NULL;

	must(io->end == back_filled && b->d == d);
	/* The same bytes: above whatever has died in between, and below what is here. */
	if (!b->e->is_linked && back_is_immutable(d)) {
		e = dram_index_find(&d->ix, &io->key);
		io->ver = e ? e->ver - 1 : 0;
	}
	if (b->e->is_linked || (e && e->len == b->e->len))
		store_down(io, NULL);
	else
		store_done(io, -ESTALE);
}

/* At most one piece. */
static void back_copy(struct dram_back *b)
{
	struct dram *d = b->d;
	uint64_t nr = back_chunks(b), end;
	struct store_view from;

	dram_value_view(d, b->e, &from);
	end = min_t(uint64_t, nr, b->chunk + STORE_PIECE_BYTES / MEM_CHUNK_BYTES);
	for (; b->chunk < end; b->chunk++) {
		if (dram_copy_chunk(d, &from, &b->io.view, &b->io.key, b->chunk)) {
			store_release(&b->io.view, d->st.owner, NULL);
			if (!b->put)
				counter_add(&d->count.lost, 1);
			dram_value_drop_bad(d, b->e);
			back_end(b, -EILSEQ);
			return;
		}
	}
	if (b->chunk < nr)
		return;
	back_set(b, DRAM_BACK_WAIT);
	if (b->put) {
		dram_through_fill(b);
		return;
	}
	back_io(b, STORE_FILL, back_filled);
	b->at_ns = d->fresh_ns ? reactor_now_ns(d->st.owner) : 0;
	store_submit_at(&d->st, &b->io);
}

void dram_back_forget(struct dram *d, const struct store_key *key)
{
	struct store_key k;

	for (uint32_t i = 0; d->nr_backs && i < DRAM_BACKS; i++) {
		if (d->backs[i].state == DRAM_BACK_FREE)
			continue;
		dram_index_key(d->backs[i].e, &k);
		d->backs[i].is_dead |= store_key_equal(&k, key);
	}
}

/* ---- flush ---- */

static void flush_begin(struct dram *d)
{
	d->flush_ver = d->ver;
	d->flush_at = 0;
	d->flush_heirs = 0;
	d->flush_res = 0;
}

void dram_back_inherit(struct dram *d, const struct dram_entry *old, struct dram_entry *e)
{
	if (!d->flush_head || !flush_wants(d, old))
		return;
	/* It is below, or will be, and stays alive there. */
	if (back_is_immutable(d) && (!old->is_dirty || (old->is_back && old->len == e->len)))
		return;
	if (old->is_owed && ++d->flush_heirs > FLUSH_HEIRS) {
		d->flush_res = -EBUSY;
		return;
	}
	e->is_owed = true;
	flush_back_to(d, e);
}

void dram_back_flush(struct store *s, struct store_io *io)
{
	struct dram *d = dram_enter(s);

	if (!s->below) {
		store_done(io, 0);
		return;
	}
	dram_frame(io)->next = NULL;
	if (d->flush_tail) {
		dram_frame(d->flush_tail)->next = io;
	} else {
		d->flush_head = io;
		flush_begin(d);
	}
	d->flush_tail = io;
}

static bool flush_is_waiting(const struct dram *d)
{
	for (uint32_t i = 0; i < DRAM_BACKS; i++)
		if (d->backs[i].state != DRAM_BACK_FREE && !d->backs[i].put &&
		    (d->backs[i].is_wanted || flush_wants(d, d->backs[i].e)))
			return true;
	return false;
}

static void flush_end(struct dram *d)
{
	struct store_io *io = d->flush_head;
	int res = d->flush_res;

	d->flush_head = dram_frame(io)->next;
	if (d->flush_head)
		flush_begin(d);
	else
		d->flush_tail = NULL;
	if (res)
		store_done(io, res);
	else
		store_down(io, NULL);
}

/* Starts what it can of the dirty entries that were there when the flush began. */
static int flush_step(struct dram *d)
{
	struct dram_entry *e;
	uint64_t no;

	for (uint32_t i = 0; i < DRAM_EVICT_TURN; i++) {
		no = dram_bits_next(&d->dirty, d->flush_at);
		if (no == DRAM_BITS_END) {
			d->flush_at = no;
			if (flush_is_waiting(d))
				return 0;
			flush_end(d);
			return 1;
		}
		e = &d->ix.slab[no];
		if (!e->is_back && flush_wants(d, e)) {
			if (e->pins == DRAM_PINS_MAX || dram_back_start(d, e, false))
				return 0;
		}
		d->flush_at = no + 1;
	}
	return 1;
}

int dram_back_step(struct dram *d)
{
	struct dram_back *b;
	int n = d->flush_head ? flush_step(d) : 0;

	n += dram_through_step(d);
	for (uint32_t i = 0; d->nr_copying && i < DRAM_BACKS; i++) {
		b = &d->backs[(d->back_next + i) % DRAM_BACKS];
		if (b->state != DRAM_BACK_COPY)
			continue;
		d->back_next = (d->back_next + i + 1) % DRAM_BACKS;
		back_copy(b);
		return n + 1;
	}
	return n;
}

/* Nothing is in flight: what is left are buffers below that wait to be filled. */
void dram_back_fini(struct dram *d)
{
	for (struct dram_back *b = d->backs; b < d->backs + DRAM_BACKS; b++) {
		if (b->state == DRAM_BACK_FREE)
			continue;
		must(b->state == DRAM_BACK_COPY);
		b->io.view.st->ops->release(b->io.view.st, &b->io.view);
		back_end(b, -ECANCELED);
	}
}
