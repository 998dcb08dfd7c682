/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a value in pieces. The first get pins the version and tells the length; then up to
 * STORE_READ_AHEAD gets of that version are under way while the reader has one piece. A view that
 * covers more than was asked for (dram: the whole value) is cut into further pieces without another
 * get.
 *
 *     slot[first]: given to the reader   slot[first + 1]: here   slot[first + 2]: asked for
 *
 * An eager read asks for its first parts all at once, of whatever version; one that came from
 * another version than the first ends the read as a change half way does.
 *
 * Promises: pieces come in order, one at a time; every view is released, bad ones marked; end()
 * runs once, after the last slot is free, so the struct is the reader's again. No recursion however
 * many pieces there are: whoever is inside store_read_run() loops for those who come in from below
 * it. Runs on home.
 */
#include <errno.h>

#include "base/must.h"
#include "store/store.h"
#include "store/store_read.h"

enum {
	SLOT_FREE,
	SLOT_ASKED,
	SLOT_HERE,
	SLOT_RELEASED, /* the owner has been told, and hasn't answered */
};

static void store_read_run(struct store_read *rd);

static uint64_t store_read_end_off(const struct store_read *rd)
{
	return rd->off + rd->len;
}

/*
 * The piece that begins at `pos` ends where a tier that keeps values in pieces ends one, or with
 * the read.
 */
static uint64_t store_read_piece_end(const struct store_read *rd, uint64_t pos)
{
	uint64_t end = align_down(pos, STORE_PIECE_BYTES) + STORE_PIECE_BYTES;

	return min_t(uint64_t, end, store_read_end_off(rd));
}

static void store_read_released(struct store_view *v)
{
	struct store_io *io = container_of(v, struct store_io, view);
	struct store_read_slot *sl = container_of(io, struct store_read_slot, io);

	sl->state = SLOT_FREE;
	store_read_run(sl->rd);
}

static void store_read_release(struct store_read_slot *sl)
{
	sl->state = SLOT_RELEASED;
	store_release(&sl->io.view, sl->rd->home, store_read_released);
}

static void store_read_got(struct store_io *io, int res)
{
	struct store_read_slot *sl = container_of(io, struct store_read_slot, io);

	sl->state = SLOT_HERE;
	sl->res = res;
	store_read_run(sl->rd);
}

/*
 * Where a get that begins at issued ends. The parts of a piece end with a short one: to check and
 * copy the last that comes is what no reading of others hides.
 */
static uint64_t store_read_ask_end(const struct store_read *rd)
{
	uint64_t piece, part, end;

	if (!rd->is_eager)
		return store_read_piece_end(rd, rd->issued);
	piece = align_down(rd->issued, STORE_PIECE_BYTES);
	part = (rd->issued - piece) / STORE_PART_BYTES;
	end = min_t(uint64_t, piece + (part + 1) * STORE_PART_BYTES, piece + STORE_PIECE_BYTES);
	if (end < store_read_end_off(rd))
		return end;
	/* The read's last chunk comes by itself, where that is no fifth request. */
	end = store_read_end_off(rd);
	if (part == STORE_PIECE_BYTES / STORE_PART_BYTES || end - rd->issued <= 2 * MEM_CHUNK_BYTES)
		return end;
	return align_down(end - 1, MEM_CHUNK_BYTES);
}

static void store_read_ask(struct store_read *rd)
{
	struct store_read_slot *sl = &rd->slot[(rd->first + rd->nr_used) % STORE_READ_AHEAD];

	must(sl->state == SLOT_FREE);
	sl->state = SLOT_ASKED;
	sl->io.op = STORE_GET;
	sl->io.flags = rd->flags | (rd->issued > rd->off ? STORE_CONTINUES : 0);
	sl->io.key = rd->key;
	sl->io.off = rd->issued;
	sl->io.len = store_read_ask_end(rd) - rd->issued;
	sl->io.ver = rd->is_pinned ? rd->ver : rd->want_ver;
	sl->io.meta = NULL;
	sl->io.end = store_read_got;
	rd->issued += sl->io.len;
	rd->nr_used++;
	store_submit(rd->set, rd->home, &sl->io);
}

static void store_read_over(struct store_read *rd, int res)
{
	rd->is_over = true;
	rd->res = res;
}

static void store_read_pin(struct store_read *rd, const struct store_view *v)
{
	rd->is_pinned = true;
	rd->ver = v->ver;
	rd->value_len = v->value_len;
	rd->tier = v->tier;
	if (rd->off >= v->value_len)
		rd->len = 0;
	else
		rd->len = min_t(uint64_t, rd->len, v->value_len - rd->off);
	rd->issued = min_t(uint64_t, rd->issued, store_read_end_off(rd));
}

/* Gets for what no view that is here or asked for covers. */
static void store_read_ahead(struct store_read *rd)
{
	const struct store_view *v = &rd->slot[rd->first].io.view;
	struct store_read_slot *sl;

	if (rd->nr_used == 1)
		rd->issued = max_t(uint64_t, rd->issued,
				   align_down(v->off + v->len, MEM_CHUNK_BYTES));
	while (rd->nr_used < STORE_READ_AHEAD && rd->issued < store_read_end_off(rd)) {
		if (rd->nr_used == 1 && v->off + v->len >= store_read_end_off(rd))
			return;
		sl = &rd->slot[(rd->first + rd->nr_used) % STORE_READ_AHEAD];
		if (sl->state != SLOT_FREE)
			return;
		store_read_ask(rd);
	}
}

static void store_read_next_slot(struct store_read *rd)
{
	struct store_read_slot *sl = &rd->slot[rd->first];

	must(rd->pos >=
	     sl->io.off + sl->io.len); /* else the tier gave less than it was asked for */
	rd->first = (rd->first + 1) % STORE_READ_AHEAD;
	rd->nr_used--;
	store_read_release(sl);
}

/* The slot at the front is here: gives its next piece, or moves on. */
static void store_read_front(struct store_read *rd)
{
	struct store_read_slot *sl = &rd->slot[rd->first];
	struct store_view *v = &sl->io.view;
	uint64_t end;

	if (sl->res < 0) {
		store_read_over(rd, sl->res);
		return;
	}
	if (!rd->is_pinned)
		store_read_pin(rd, v);
	if (v->ver != rd->ver) {
		store_read_over(rd, -ESTALE);
		return;
	}
	if (rd->pos >= store_read_end_off(rd)) {
		store_read_over(rd, 0);
		return;
	}
	if (rd->pos >= v->off + v->len) {
		store_read_next_slot(rd);
		return;
	}
	store_read_ahead(rd);
	end = store_read_piece_end(rd, rd->pos);
	must(rd->pos >= v->off);
	if (end > v->off + v->len)
		end = v->off + v->len;
	rd->given = end - rd->pos;
	rd->piece(rd, v, rd->pos, rd->given);
}

/* The first one didn't come back at once: the next ones go after it. */
static void store_read_eager(struct store_read *rd)
{
	while (!rd->is_over && rd->slot[rd->first].state == SLOT_ASKED &&
	       rd->nr_used < STORE_READ_AHEAD && rd->issued < store_read_end_off(rd))
		store_read_ask(rd);
}

/* True: all slots are free. */
static bool store_read_drain(struct store_read *rd)
{
	bool is_free = true;

	for (unsigned i = 0; i < STORE_READ_AHEAD; i++) {
		if (rd->slot[i].state == SLOT_HERE)
			store_read_release(&rd->slot[i]);
		is_free &= rd->slot[i].state == SLOT_FREE;
	}
	return is_free;
}

static bool store_read_is_stuck(const struct store_read *rd)
{
	return rd->given || (rd->nr_used && rd->slot[rd->first].state != SLOT_HERE);
}

static void store_read_run(struct store_read *rd)
{
	bool is_free;

	if (rd->is_running)
		return;
	rd->is_running = true;
	while (!rd->is_over && !store_read_is_stuck(rd)) {
		if (rd->nr_used) {
			store_read_front(rd);
		} else if (rd->slot[rd->first].state == SLOT_FREE) {
			store_read_ask(rd);
			if (rd->is_eager)
				store_read_eager(rd);
		} else {
			break;
		}
	}
	is_free = rd->is_over && !rd->given && store_read_drain(rd);
	rd->is_running = false;
	if (is_free)
		rd->end(rd, rd->res);
}

void store_read_start(struct store_read *rd)
{
	rd->len = min_t(uint64_t, rd->len, UINT32_MAX); /* off + len must not wrap */
	rd->pos = rd->off;
	rd->issued = rd->off;
	rd->given = 0;
	rd->nr_used = 0;
	rd->first = 0;
	rd->is_pinned = false;
	rd->is_over = false;
	rd->is_running = false;
	rd->res = 0;
	for (unsigned i = 0; i < STORE_READ_AHEAD; i++) {
		rd->slot[i].rd = rd;
		rd->slot[i].state = SLOT_FREE;
	}
	store_read_run(rd);
}

void store_read_next(struct store_read *rd, bool is_bad, int err)
{
	must(rd->given);
	rd->pos += rd->given;
	rd->given = 0;
	if (is_bad) {
		rd->slot[rd->first].io.view.is_bad = true;
		store_read_over(rd, -ENOENT);
	} else if (err < 0) {
		store_read_over(rd, err);
	}
	store_read_run(rd);
}
