/* SPDX-License-Identifier: Apache-2.0 */
/*
 * m_stale's actors: each verb notes in the key's history what it begins and how it ended, and
 * checks that what it was told could be.
 */
#include "m_stale_int.h"

_Noreturn void m_stale_wrong(struct run *r, const struct actor *a, const char *what, int res)
{
	printf("%s: %s: res %d, key %u\n", r->row->name, what, res, KEY_NO);
	for (unsigned i = 0; i < r->at; i++)
		printf("  %2u. %s\n", i, r->trace[i]);
	history_print(&r->h, a ? a->begin : r->now);
	fflush(stdout);
	abort();
}

/* ---- the verbs ------------------------------------------------------------------------------- */

static bool is_sure(const struct run *r)
{
	return !r->row->fails;
}

static struct mut *begin(struct actor *a, enum mut_kind kind)
{
	struct run *r = a->r;
	struct mut mu = {
		.kind = kind, .state = MUT_PENDING, .end = UINT64_MAX, .len = r->value_bytes};

	a->id = mu.id = ++r->next_id;
	a->begin = mu.begin = ++r->now;
	must(vec_push(&r->h.muts, mu));
	return &vec_last(&r->h.muts);
}

static void end(struct actor *a, enum mut_state state)
{
	struct mut *mu = history_find(&a->r->h, a->id);

	mu->state = state;
	mu->end = ++a->r->now;
	mu->ver = mu->kind == MUT_PUT && state == MUT_ACKED ? a->io.ver : 0;
	a->is_busy = false;
}

static void undo(struct actor *a)
{
	*history_find(&a->r->h, a->id) = vec_last(&a->r->h.muts);
	a->r->h.muts.nr--;
	a->is_busy = false;
}

static void check_miss(struct actor *a, const char *what, int res)
{
	if (res != -ENOENT)
		m_stale_wrong(a->r, a, what, res);
	if (is_sure(a->r) && !history_miss_is_right(&a->r->h, a->begin))
		m_stale_wrong(a->r, a, what, res);
}

static void put_end(struct store_io *io, int res)
{
	struct actor *a = container_of(io, struct actor, io);

	if (io->view.st)
		m_stale_wrong(a->r, a, "put: left its view", res);
	if (res == -ENOENT && io->flags & STORE_IF_PRESENT) {
		undo(a);
		check_miss(a, "put: is absent, but can't be", res);
		return;
	}
	if (res && !(a->r->row->fails && res == -ENOSPC))
		m_stale_wrong(a->r, a, "put: failed", res);
	end(a, res ? MUT_FAILED : MUT_ACKED);
}

static void put_buffed(struct store_io *io, int res)
{
	struct actor *a = container_of(io, struct actor, io);

	if (res == -ENOENT && io->flags & STORE_IF_PRESENT) {
		check_miss(a, "buf: is absent, but can't be", res);
		a->is_busy = false;
		return;
	}
	if (res && a->r->row->fails && res == -ENOSPC) {
		a->is_busy = false;
		return;
	}
	if (res)
		m_stale_wrong(a->r, a, "buf: failed", res);
	begin(a, MUT_PUT);
	world_fill(&io->view, &io->key, a->id);
	io->op = STORE_PUT;
	io->end = put_end;
	store_submit(a->r->w.set, a->r->w.r[0], io);
}

static void del_end(struct store_io *io, int res)
{
	struct actor *a = container_of(io, struct actor, io);
	struct mut done = {.kind = MUT_DEL, .state = MUT_ACKED, .id = a->id, .begin = a->begin};

	if (res && res != -ENOENT) {
		if (!a->r->row->fails)
			m_stale_wrong(a->r, a, "del: failed", res);
		end(a, MUT_FAILED);
		return;
	}
	undo(a);
	if (res)
		check_miss(a, "del: is absent, but can't be", res);
	done.end = ++a->r->now;
	must(vec_push(&a->r->h.muts, done));
}

static void get_end(struct store_io *io, int res)
{
	struct actor *a = container_of(io, struct actor, io);

	if (res) {
		check_miss(a, "get: miss", res);
	} else {
		if (!world_seals_fit(&io->view, &io->key))
			m_stale_wrong(a->r, a, "get: seals don't fit", 0);
		if (!history_value(&a->r->h, a->begin, &io->view))
			m_stale_wrong(a->r, a, "get: wrong bytes", 0);
		store_release(&io->view, a->r->w.r[0], NULL);
	}
	a->is_busy = false;
}

static void exist_end(struct store_io *io, int res)
{
	struct actor *a = container_of(io, struct actor, io);

	if (res)
		check_miss(a, "exist: absent", res);
	else if (!history_hit_is_right(&a->r->h, a->begin, 0))
		m_stale_wrong(a->r, a, "exist: is there, but can't", res);
	a->is_busy = false;
}

static void match_end(struct store_io *io, int res)
{
	struct actor *a = container_of(io, struct actor, io);

	if (res)
		m_stale_wrong(a->r, a, "match: failed", res);
	if (a->found[0] == STORE_ABSENT)
		check_miss(a, "match: absent", -ENOENT);
	else if (!history_hit_is_right(&a->r->h, a->begin, 0))
		m_stale_wrong(a->r, a, "match: is there, but can't", res);
	a->is_busy = false;
}

static void list_end(struct store_io *io, int res)
{
	struct actor *a = container_of(io, struct actor, io);
	unsigned nr = 0;

	if (res)
		m_stale_wrong(a->r, a, "list: failed", res);
	for (uint32_t i = 0; i < io->list.nr; i++) {
		nr += store_key_equal(&io->list.keys[i], &a->r->h.key);
		if (i && store_key_cmp(&io->list.keys[i - 1], &io->list.keys[i]) >= 0)
			m_stale_wrong(a->r, a, "list: out of order, or twice", (int)i);
	}
	if (nr == 0)
		check_miss(a, "list: absent", -ENOENT);
	else if (!history_hit_is_right(&a->r->h, a->begin, 0))
		m_stale_wrong(a->r, a, "list: is there, but can't", (int)nr);
	a->is_busy = false;
}

static void flush_end(struct store_io *io, int res)
{
	struct actor *a = container_of(io, struct actor, io);

	if (res && !a->r->row->fails)
		m_stale_wrong(a->r, a, "flush: failed", res);
	a->is_busy = false;
}

/* ---- others' values, until ours is evicted --------------------------------------------------- */

static void filler_start(struct actor *a);

/* Zeros are enough; the seal has to fit, for it is checked when they are written back. */
static void filler_fill(struct store_io *io)
{
	static uint8_t zeros[FILLER_BYTES];
	struct mem_run run;

	for (uint64_t off = 0; off < FILLER_BYTES; off += run.len) {
		must(store_runs(&io->view, off, &run, 1) == 1);
		memset(world_run_ptr(&run), 0, run.len);
	}
	*store_seals(&io->view) = hash_xxh3(zeros, FILLER_BYTES,
					    peal_seal_seed_at(io->key.hash, 0));
}

static void look_end(struct store_io *io, int res)
{
}

/* Has the top our key? Asked without waiting and without a trace. */
static bool is_on_top(struct run *r)
{
	struct store_io io = {.op = STORE_GET,
			      .flags = STORE_NO_TOUCH | STORE_MEM_ONLY,
			      .key = r->h.key,
			      .end = look_end};
	bool is_top;

	store_submit(r->w.set, r->w.r[0], &io);
	is_top = io.view.st && io.view.tier == 0;
	store_release(&io.view, r->w.r[0], NULL);
	return is_top;
}

static void filler_put(struct store_io *io, int res)
{
	struct actor *a = container_of(io, struct actor, io);

	if (++a->nr_fillers < FILLERS_MAX && is_on_top(a->r))
		filler_start(a);
	else
		a->is_busy = false;
}

static void filler_buffed(struct store_io *io, int res)
{
	struct actor *a = container_of(io, struct actor, io);

	if (res) {
		filler_put(io, res);
		return;
	}
	filler_fill(io);
	io->op = STORE_PUT;
	io->end = filler_put;
	store_submit(a->r->w.set, a->r->w.r[0], io);
}

static void filler_start(struct actor *a)
{
	a->io.op = STORE_BUF;
	a->io.flags = 0;
	a->io.len = FILLER_BYTES;
	a->io.key = world_key(100 + a->nr_fillers);
	a->io.end = filler_buffed;
	store_submit(a->r->w.set, a->r->w.r[0], &a->io);
}

/* ---- actors ---------------------------------------------------------------------------------- */

static void ask(struct actor *a, enum store_op op, store_end_fn *fn)
{
	a->io.op = (uint8_t)op;
	a->io.end = fn;
	store_submit(a->r->w.set, a->r->w.r[0], &a->io);
}

void m_stale_start(struct actor *a)
{
	char verb = *a->next++;

	a->is_busy = true;
	a->begin = ++a->r->now;
	a->io.key = a->r->h.key;
	a->io.flags = verb == 'Q' ? STORE_IF_PRESENT : 0;
	a->io.ver = 0;
	a->io.off = verb == 'b' ? MEM_CHUNK_BYTES : 0;
	a->io.len = verb == 'a' ? MEM_CHUNK_BYTES : a->r->value_bytes;
	switch (verb) {
	case 'P':
	case 'Q':
		ask(a, STORE_BUF, put_buffed);
		return;
	case 'D':
		begin(a, MUT_DEL);
		ask(a, STORE_DEL, del_end);
		return;
	case 'G':
	case 'a':
	case 'b':
		ask(a, STORE_GET, get_end);
		return;
	case 'X':
		ask(a, STORE_EXIST, exist_end);
		return;
	case 'M':
		a->io.match =
			(struct store_match){.keys = &a->r->h.key, .found = a->found, .nr = 1};
		ask(a, STORE_MATCH, match_end);
		return;
	case 'L':
		a->io.list = (struct store_list){.keys = a->keys, .max = ARRAY_SIZE(a->keys)};
		ask(a, STORE_LIST, list_end);
		return;
	case 'F':
		ask(a, STORE_FLUSH, flush_end);
		return;
	case 'E':
		a->nr_fillers = 0;
		filler_start(a);
		return;
	default:
		must_not_reach();
	}
}
