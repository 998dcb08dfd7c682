/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hunt for stale values: a few actors on one key, over a store that holds everything below the
 * top until it is told to go on, in every possible order. A run is a string of choices (which actor
 * starts its next verb, what is let go, what fails); the string is counted up until all have been
 * tried, each from scratch.
 *
 * In each: a get that begins after an acknowledged put or del never sees an older version; a value
 * is whole and under seals that fit, or isn't there; what was acknowledged is found as long as
 * nothing failed; a list has each key once; afterwards nothing is pinned and the key is what the
 * last mutation made it.
 *
 * Scripts: P put, Q put if present, D del, G get, a/b get of the first/second chunk, X exist, M
 * match, L list, F flush, E puts of other keys until this one is evicted. With the row's name as an
 * argument only that row runs.
 */
#include <malloc.h>

#include "m_stale_int.h"

static const struct row rows[] = {
	{"mem: overwrite", HOLD_MEM, BELOW, true, false, {"P", "P", "G"}},
	{"mem: overwrite, delete", HOLD_MEM, BELOW, true, false, {"P", "D", "GG"}},
	{"mem: failures", HOLD_MEM, BELOW, false, true, {"PG", "D", "G"}},
	{"overwrite, late read", DRAM_HOLD_MEM, BELOW, true, false, {"P", "G", "G"}},
	{"overwrite, read again", DRAM_HOLD_MEM, BELOW, true, false, {"PG", "GG"}},
	{"two overwrites", DRAM_HOLD_MEM, BELOW, true, false, {"PG", "P", "G"}},
	{"delete, late read", DRAM_HOLD_MEM, BELOW, false, false, {"DG", "G", "X"}},
	{"delete, overwrite", DRAM_HOLD_MEM, BELOW, true, false, {"D", "P", "GG"}},
	{"delete of dirty", DRAM_HOLD_MEM, TOP, true, false, {"DG", "FG"}},
	{"write-back, overwrite", DRAM_HOLD_MEM, TOP, true, false, {"F", "PG"}},
	{"write-back, delete", DRAM_HOLD_MEM, TOP, true, false, {"F", "DG"}},
	{"write-back, overwrite, read", DRAM_HOLD_MEM, TOP, false, false, {"FG", "PG", "L"}},
	{"eviction, overwrite", DRAM_HOLD_MEM, TOP, true, false, {"EEG", "PG"}},
	{"eviction, delete", DRAM_HOLD_MEM, TOP, true, false, {"EEG", "DG"}},
	{"eviction, read", DRAM_HOLD_MEM, TOP, true, false, {"EEG", "GG"}},
	{"eviction of clean", DRAM_HOLD_MEM, BOTH, true, false, {"EEG", "P", "X"}},
	{"put if present", DRAM_HOLD_MEM, BELOW, false, false, {"Q", "D", "G"}},
	{"first put", DRAM_HOLD_MEM, NOTHING, true, false, {"PX", "GM"}},
	{"failed read", DRAM_HOLD_MEM, BELOW, true, true, {"GG", "PG"}},
	{"failed inval", DRAM_HOLD_MEM, BELOW, false, true, {"PG", "P", "G"}},
	{"failed delete", DRAM_HOLD_MEM, BELOW, false, true, {"DG", "PG", "L"}},
	{"failed write-back", DRAM_HOLD_MEM, TOP, false, true, {"FG", "PG"}},
	{"failed eviction, nothing older", DRAM_HOLD_MEM, BELOW, false, true, {"PEEG", "G"}},
	{"failed eviction", DRAM_HOLD_MEM, TOP, false, true, {"EEG", "DG"}},
	{"half a promotion, overwrite",
	 DRAM_HOLD_SLICE_MEM,
	 BELOW,
	 false,
	 false,
	 {"ab", "PG", "G"}},
	{"half a promotion, delete", DRAM_HOLD_SLICE_MEM, BELOW, false, false, {"ab", "DG", "b"}},
	{"two promotions, overwrite", DRAM_HOLD_SLICE_MEM, BELOW, false, false, {"ab", "ba", "P"}},
	{"half a promotion, late", DRAM_HOLD_SLICE_MEM, BELOW, true, false, {"abG", "PG"}},
	{"half a promotion, failure", DRAM_HOLD_SLICE_MEM, BELOW, false, true, {"abG", "PG"}},
	{"half a promotion, eviction",
	 DRAM_HOLD_SLICE_MEM,
	 BELOW,
	 false,
	 false,
	 {"abG", "EE", "P"}},
};

/* ---- one run --------------------------------------------------------------------------------- */

static void settle(struct run *r)
{
	for (unsigned i = 0, quiet = 0; i < SETTLE_TURNS && quiet < 3; i++)
		quiet = reactor_step(r->w.r[0]) > 0 ? 0 : quiet + 1;
}

static void run_init(struct run *r, const struct row *row)
{
	bool is_large = row->stack == DRAM_HOLD_SLICE_MEM;
	struct m_stack dram = {.dram_bytes = (is_large ? 608 : 352) << 10, .dram_keys = 64};
	struct mut none = {.kind = MUT_DEL, .state = MUT_ACKED};

	r->row = row;
	r->now = r->next_id = 1;
	r->value_bytes = is_large ? TWO_CHUNKS : VALUE_BYTES;
	r->at = 0;
	r->h.key = world_key(KEY_NO);
	vec_init(&r->h.muts);
	must(vec_push(&r->h.muts, none));
	world_set(&r->w, 1, 1 << 20);
	if (row->stack != HOLD_MEM)
		store_set_push(r->w.set, 0, m_layer_create(&dram, M_DRAM, 0));
	r->hold = hold_create(&r->h.key, row->holds_up);
	store_set_push(r->w.set, 0, &r->hold->st);
	if (row->stack == DRAM_HOLD_SLICE_MEM)
		store_set_push(r->w.set, 0, m_layer_create(&dram, M_SLICE, 0));
	r->below = m_layer_create(&dram, M_MEM, 0);
	store_set_push(r->w.set, 0, r->below);
	for (unsigned i = 0; i < ACTORS_MAX; i++)
		r->actors[i] = (struct actor){.r = r,
					      .next = row->scripts[i] ? row->scripts[i] : ""};
}

/* Lets everything go, in order. */
static void drain(struct run *r, const struct actor *a)
{
	for (unsigned i = 0; a->is_busy || r->hold->nr_held; i++) {
		must(i < 1000); /* else a verb never ends */
		settle(r);
		if (r->hold->nr_held)
			hold_go(r->hold, 0, false);
	}
	settle(r);
}

static void do_now(struct run *r, struct actor *a, const char *script)
{
	*a = (struct actor){.r = r, .next = script};
	while (*a->next) {
		m_stale_start(a);
		drain(r, a);
	}
}

/* What was there before. */
static void prepare(struct run *r)
{
	struct actor a;

	switch (r->row->before) {
	case NOTHING:
		break;
	case BELOW:
		do_now(r, &a, r->row->stack == HOLD_MEM ? "P" : "PEE");
		break;
	case TOP:
		do_now(r, &a, "P");
		break;
	case BOTH:
		do_now(r, &a, "PF");
		break;
	}
}

/* The next choice among n; its name is told to the trace by the caller. */
static unsigned choose(struct run *r, unsigned n)
{
	must(r->at < CHOICES_MAX && n > 0 && n < 256);
	if (r->at >= r->nr_choices) {
		r->choices[r->at] = 0;
		r->nr_options[r->at] = (uint8_t)n;
		r->nr_choices = r->at + 1;
	}
	must(r->nr_options[r->at] == n); /* else a replay isn't one */
	return r->choices[r->at++];
}

/* One event. False: there is none left. */
static bool event(struct run *r)
{
	static const char *const names[] = {"buf", "put",   "get",   "fill", "inval",
					    "del", "exist", "match", "list", "flush"};
	struct hold *hold = r->hold;
	struct actor *may[ACTORS_MAX];
	unsigned nr_may = 0, nr_fail = 0, c;
	char *text = r->trace[r->at];

	for (unsigned i = 0; i < ACTORS_MAX; i++)
		if (!r->actors[i].is_busy && *r->actors[i].next)
			may[nr_may++] = &r->actors[i];
	for (unsigned i = 0; r->row->fails && i < hold->nr_held; i++)
		nr_fail += !hold->held[i].is_up;
	if (nr_may + hold->nr_held == 0)
		return false;
	c = choose(r, nr_may + hold->nr_held + nr_fail);
	if (c < nr_may) {
		snprintf(text, sizeof(r->trace[0]), "actor %u: %c", (unsigned)(may[c] - r->actors),
			 *may[c]->next);
		m_stale_start(may[c]);
		return true;
	}
	c -= nr_may;
	if (c < hold->nr_held) {
		snprintf(text, sizeof(r->trace[0]), "%s goes %s", names[hold->held[c].io->op],
			 hold->held[c].is_up ? "up" : "down");
		hold_go(hold, c, false);
		return true;
	}
	c -= hold->nr_held;
	for (unsigned i = 0; i < hold->nr_held; i++) {
		if (hold->held[i].is_up || c-- > 0)
			continue;
		snprintf(text, sizeof(r->trace[0]), "%s fails", names[hold->held[i].io->op]);
		hold_go(hold, i, true);
		return true;
	}
	must_not_reach();
}

static void run_once(struct run *r, const struct row *row)
{
	struct actor last;

	run_init(r, row);
	prepare(r);
	do
		settle(r);
	while (event(r));
	for (unsigned i = 0; i < ACTORS_MAX; i++)
		if (r->actors[i].is_busy)
			m_stale_wrong(r, &r->actors[i], "a verb never ends", 0);
	do_now(r, &last, "GXMLabGFGEGXL");
	world_unset(&r->w);
	vec_fini(&r->h.muts);
}

/* The next string of choices; false: that was the last. */
static bool advance(struct run *r)
{
	while (r->nr_choices &&
	       r->choices[r->nr_choices - 1] + 1u == r->nr_options[r->nr_choices - 1])
		r->nr_choices--;
	if (!r->nr_choices)
		return false;
	r->choices[r->nr_choices - 1]++;
	return true;
}

int main(int argc, char **argv)
{
	static struct run r;
	unsigned nr_all = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	mallopt(M_TRIM_THRESHOLD, 64 << 20);
	mallopt(M_MMAP_MAX, 0);
	world_init(&r.w, 1, 1);
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned nr = 0;

		if (argc > 1 && strcmp(argv[1], rows[i].name) != 0)
			continue;
		r.nr_choices = 0;
		do {
			run_once(&r, &rows[i]);
			must(++nr < RUNS_MAX);
		} while (advance(&r));
		printf("  %-30s %6u orders\n", rows[i].name, nr);
		nr_all += nr;
	}
	printf("%u orders, nothing stale\n", nr_all);
	world_fini(&r.w);
	return 0;
}
