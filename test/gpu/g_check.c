/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What came of a command: its status, DW0, every byte of its area. By the lane that looks.
 */
#include "g_int.h"

#include "base/container.h"
#include "base/must.h"
#include "store/store.h"

static const char *const names[G_NR_KINDS] = {
	"Store", "STORE_EX", "Retrieve", "Retrieve (size)", "RETRIEVE_EX", "Exist", "Delete",
	"List",	 "MATCH",    "HINT",	 "LEASE",	    "RELEASE",	   "Flush", "EXEC"};

static bool is_poison(const uint8_t *p, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i++)
		if (p[i] != G_POISON)
			return false;
	return true;
}

static bool is_value(const uint8_t *p, uint64_t seed, uint64_t from, uint32_t bytes)
{
	uint8_t want[512];

	for (uint32_t n; bytes; bytes -= n, p += n, from += n) {
		n = min_t(uint32_t, bytes, sizeof(want));
		g_fill(seed, from, want, n);
		if (memcmp(p, want, n))
			return false;
	}
	return true;
}

/* Nothing outside of [0, bytes) of the data was touched; the list's page is ours. */
static void check_rest(struct g_group *g, uint32_t i, uint32_t bytes)
{
	const struct g_cmd *c = &g->cmd[i];
	const uint8_t *p = g_data(g, i);
	uint64_t end = g->area_bytes - FAKE_PAGE * G_LIST_PAGES;

	g_check(g, is_poison(p - c->off, c->off), "%s %u: bytes before the data", names[c->kind],
		i);
	g_check(g, is_poison(p + bytes, end - c->off - bytes), "%s %u: bytes behind the data",
		names[c->kind], i);
}

static void check_value(struct g_group *g, uint32_t i, uint32_t hdr, uint32_t bytes)
{
	const struct g_cmd *c = &g->cmd[i];

	g_check(g, is_value(g_data(g, i) + hdr, c->was.seed, c->range, bytes), "%s %u: wrong bytes",
		names[c->kind], i);
	check_rest(g, i, hdr + bytes);
}

static void check_meta(struct g_group *g, uint32_t i)
{
	const struct g_cmd *c = &g->cmd[i];
	struct peal_retrieve_ex ex;

	memcpy(&ex, g_data(g, i), sizeof(ex));
	g_check(g, ex.value_bytes == c->was.len, "RETRIEVE_EX %u: a value of %u bytes, expected %u",
		i, ex.value_bytes, c->was.len);
}

static void check_list(struct g_group *g, uint32_t i, uint32_t nr_bytes)
{
	const uint8_t *p = g_data(g, i);
	uint32_t nr, at = 4;
	uint16_t len;

	memcpy(&nr, p, 4);
	for (; nr; nr--, at += nvme_kv_list_entry_bytes((uint8_t)len)) {
		g_check(g, at + 2 <= nr_bytes, "List: keys behind its end");
		memcpy(&len, p + at, 2);
		g_check(g, len && len <= 16, "List: a key of %u bytes", len);
	}
	g_check(g, at <= nr_bytes, "List: half a key");
}

static void check_lease(struct g_group *g, uint32_t i, const struct peal_result *r)
{
	struct g_cmd *c = &g->cmd[i];
	const uint8_t *p = g_data(g, i);
	struct peal_wire_lease l;
	struct peal_wire_extent x;
	uint32_t from = 0;

	/* The reply had no room: nothing is leased. Or the store has no arena to look into. */
	if (r->dw0 > c->bytes || !g->w->has_arena)
		return;
	memcpy(&l, p, sizeof(l));
	g_check(g, l.value_bytes == c->was.len, "LEASE %u: %u bytes, expected %u", i, l.value_bytes,
		c->was.len);
	c->lease = l.id;
	for (uint32_t j = 0; j < l.nr_ext; j++, from += x.len) {
		struct mem_region *reg;

		memcpy(&x, p + sizeof(l) + j * sizeof(x), sizeof(x));
		reg = tgt_subsys_segment_get(g->w->n->ss, x.segment);
		g_check(g, reg && x.offset + x.len <= reg->len, "LEASE %u: segment %u", i,
			x.segment);
		g_check(g, is_value(reg->base + x.offset, c->was.seed, from, x.len),
			"LEASE %u: wrong bytes", i);
		mem_region_put(reg);
	}
	g_check(g, from == c->was.len, "LEASE %u: extents of %u bytes", i, from);
}

static bool needs_key(enum g_kind kind)
{
	return kind == G_RETRIEVE || kind == G_SIZE || kind == G_RETRIEVE_EX || kind == G_EXIST ||
	       kind == G_DELETE || kind == G_LEASE;
}

static uint32_t wanted(const struct g_group *g, const struct g_cmd *c, const struct peal_result *r)
{
	if (c->kind == G_EXEC)
		return 1;
	if (needs_key(c->kind) && !c->was.is_there)
		return PEAL_ST_NOT_FOUND;
	if (c->kind == G_LEASE && r->status == PEAL_ST_INTERRUPTED)
		return PEAL_ST_INTERRUPTED;
	return c->want;
}

void g_check_result(struct g_group *g, uint32_t i, const struct peal_result *r)
{
	const struct g_cmd *c = &g->cmd[i];
	uint32_t want = wanted(g, c, r), dw0 = r->dw0;

	atomic_fetch_add_explicit(&g->w->nr_done, 1, memory_order_relaxed);
	g_check(g, r->status == want, "%s %u: status %03x, expected %03x", names[c->kind], i,
		r->status, want);
	if (want) {
		if (needs_key(c->kind))
			check_rest(g, i, 0);
		return;
	}
	if (c->kind == G_MATCH)
		dw0 &= 0xffff;
	if (c->kind == G_RETRIEVE || c->kind == G_SIZE || c->kind == G_RETRIEVE_EX ||
	    c->kind == G_MATCH)
		g_check(g, dw0 == c->want_dw0, "%s %u: DW0 %u, expected %u", names[c->kind], i, dw0,
			c->want_dw0);
	switch (c->kind) {
	case G_RETRIEVE:
		check_value(g, i, 0, min_t(uint32_t, c->was.len, c->bytes));
		break;
	case G_SIZE:
		check_rest(g, i, 0);
		break;
	case G_RETRIEVE_EX:
		check_meta(g, i);
		check_value(g, i, PEAL_RETRIEVE_EX_BYTES, dw0);
		break;
	case G_LIST:
		check_list(g, i, c->bytes);
		break;
	case G_LEASE:
		check_lease(g, i, r);
		break;
	default:
		break;
	}
}
