/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a wave consists of. Every key is in one command of it at most, so what each will find is
 * known beforehand; the group's keys are its own. Planned by one lane, built by all.
 */
#include "g_int.h"

#include "base/container.h"

enum { DPTR_SGL, DPTR_SGL_LIST, DPTR_PRP, DPTR_NR };

void g_fill(uint64_t seed, uint64_t from, uint8_t *p, uint32_t bytes)
{
	for (uint64_t at = from; bytes;) {
		uint64_t x = seed + at / 8;
		uint64_t w = rng_splitmix(&x);
		uint32_t off = (uint32_t)(at % 8), n = min_t(uint32_t, bytes, 8 - off);

		memcpy(p, (uint8_t *)&w + off, n);
		p += n;
		at += n;
		bytes -= n;
	}
}

static uint64_t area(const struct g_group *g, uint32_t i)
{
	return g->area + (uint64_t)i * g->area_bytes;
}

static uint32_t room(const struct g_group *g)
{
	return g->area_bytes - (1 + G_LIST_PAGES) * FAKE_PAGE; /* wherever in a page it starts */
}

uint8_t *g_data(struct g_group *g, uint32_t i)
{
	return fake_tr_ptr(g->w->t, area(g, i)) + g->cmd[i].off;
}

struct peal_store_ex g_store_ex(const struct g_key *k)
{
	struct peal_store_ex ex = {.parent_len = 16, .group_len = 5, .cls = (uint16_t)k->seed};

	ex.cost_us = (uint32_t)(k->seed >> 16);
	g_fill(k->seed, 1 << 20, ex.parent, 16);
	g_fill(k->seed, 2 << 20, ex.group, 5);
	g_fill(k->seed, 3 << 20, ex.tag, sizeof(ex.tag));
	return ex;
}

/* ---- kinds ---- */

static struct g_key *take_key(struct g_group *g)
{
	uint32_t j, key, at = g->nr_taken++;

	if (at >= g->nr_keys)
		return NULL;
	j = at + (uint32_t)rng_below(&g->rng, g->nr_keys - at);
	key = g->order[j];
	g->order[j] = g->order[at];
	g->order[at] = key;
	return &g->keys[key];
}

/* The value that a Store leaves; room for the block in front of it is apart. */
static uint32_t any_len(struct g_group *g)
{
	/* Its share of what all keys have together. */
	uint32_t max = room(g) - PEAL_STORE_EX_BYTES;

	return rng_chance(&g->rng, 1, 4)
		       ? 1 + (uint32_t)rng_below(&g->rng, max)
		       : 1 + (uint32_t)rng_below(&g->rng, min_t(uint32_t, max, 600));
}

static void plan_store(struct g_group *g, struct g_cmd *c)
{
	struct g_key *k = c->key;

	c->opts = rng_chance(&g->rng, 1, 4) ? 1 + (uint32_t)rng_below(&g->rng, 2) : 0;
	if (c->opts == PEAL_STORE_IF_EXISTS && !k->is_there)
		c->want = PEAL_ST_NOT_FOUND;
	if (c->opts == PEAL_STORE_IF_ABSENT && k->is_there)
		c->want = PEAL_ST_EXISTS;
	c->was.len = any_len(g); /* what is sent */
	c->was.seed = rng_u64(&g->rng);
	c->bytes = c->was.len + (c->kind == G_STORE_EX ? PEAL_STORE_EX_BYTES : 0);
	if (c->want)
		return;
	k->is_there = true;
	k->len = c->was.len;
	k->seed = c->was.seed;
}

static void plan_retrieve(struct g_group *g, struct g_cmd *c)
{
	c->bytes = rng_chance(&g->rng, 3, 4) && c->was.is_there ? c->was.len : any_len(g);
}

static void plan_retrieve_ex(struct g_group *g, struct g_cmd *c)
{
	c->opts = PEAL_RETRIEVE_EX_META;
	if (c->was.is_there)
		c->range = (uint32_t)rng_below(&g->rng, (c->was.len - 1) / 4096 + 1) * 4096;
	c->bytes = PEAL_RETRIEVE_EX_BYTES + any_len(g) - 1; /* perhaps the block alone */
	c->want_dw0 = min_t(uint32_t, c->was.len - c->range, c->bytes - PEAL_RETRIEVE_EX_BYTES);
}

static void plan_match(struct g_group *g, struct g_cmd *c)
{
	uint32_t most = min_t(uint32_t, G_MATCH_MAX, room(g) / sizeof(struct peal_wire_key));
	struct g_key *k = c->key;

	for (; k && c->nr_match < most; k = rng_chance(&g->rng, 4, 5) ? take_key(g) : NULL) {
		if (c->want_dw0 == c->nr_match && k->is_there)
			c->want_dw0++;
		c->match[c->nr_match++] = k;
	}
	c->bytes = c->nr_match * (uint32_t)sizeof(struct peal_wire_key);
}

static void plan_kind(struct g_group *g, struct g_cmd *c)
{
	switch (c->kind) {
	case G_STORE:
	case G_STORE_EX:
		plan_store(g, c);
		break;
	case G_RETRIEVE:
		plan_retrieve(g, c);
		c->want_dw0 = c->was.len;
		break;
	case G_SIZE:
		c->want_dw0 = c->was.len;
		break;
	case G_RETRIEVE_EX:
		plan_retrieve_ex(g, c);
		break;
	case G_DELETE:
		c->key->is_there = false;
		break;
	case G_LIST:
		c->bytes = 4 + (uint32_t)rng_below(&g->rng, min_t(uint32_t, 900, room(g) - 3));
		break;
	case G_MATCH:
		plan_match(g, c);
		break;
	case G_HINT:
		c->bytes = sizeof(struct peal_wire_hint);
		break;
	case G_LEASE:
		c->bytes = min_t(uint32_t, 600, room(g));
		break;
	case G_EXEC:
		c->bytes = 64;
		break;
	case G_RELEASE:
		if (g->nr_leases)
			c->lease = g->lease[--g->nr_leases];
		break;
	case G_EXIST:
	case G_FLUSH:
	case G_NR_KINDS:
		break;
	}
}

static enum g_kind any_kind(struct g_group *g)
{
	static const uint8_t weight[G_NR_KINDS] = {
		[G_STORE] = 24,	     [G_STORE_EX] = 6, [G_RETRIEVE] = 34, [G_SIZE] = 3,
		[G_RETRIEVE_EX] = 8, [G_EXIST] = 8,    [G_DELETE] = 5,	  [G_LIST] = 1,
		[G_MATCH] = 3,	     [G_HINT] = 1,     [G_LEASE] = 4,	  [G_RELEASE] = 2,
		[G_FLUSH] = 1,	     [G_EXEC] = 1};
	uint32_t roll = (uint32_t)rng_below(&g->rng, 101), kind = 0;

	for (; roll >= weight[kind]; kind++)
		roll -= weight[kind];
	return (enum g_kind)kind;
}

static bool plan_one(struct g_group *g, struct g_cmd *c)
{
	struct g_key *k = take_key(g);

	if (!k)
		return false;
	*c = (struct g_cmd){.kind = any_kind(g), .key = k, .was = *k};
	if (c->kind == G_RELEASE && !g->nr_leases)
		c->kind = G_EXIST;
	c->dptr = (uint8_t)rng_below(&g->rng, DPTR_NR);
	c->off = (uint32_t)rng_below(&g->rng, FAKE_PAGE / 4) * 4;
	if (!k->is_there)
		c->was.len = 0;
	plan_kind(g, c);
	return true;
}

static void plan_data(struct g_group *g, uint32_t i)
{
	struct g_cmd *c = &g->cmd[i];
	uint8_t *p = g_data(g, i);

	memset(fake_tr_ptr(g->w->t, area(g, i)), G_POISON, g->area_bytes);
	if (c->kind == G_STORE_EX) {
		struct peal_store_ex ex = g_store_ex(&c->was);

		memcpy(p, &ex, sizeof(ex));
		p += sizeof(ex);
	}
	if (c->kind == G_STORE || c->kind == G_STORE_EX)
		g_fill(c->was.seed, 0, p, c->was.len);
	for (uint32_t j = 0; j < c->nr_match; j++) {
		struct peal_wire_key w = {.len = c->match[j]->k.len};

		memcpy(w.b, c->match[j]->k.b, 16);
		memcpy(p + j * sizeof(w), &w, sizeof(w));
	}
	if (c->kind == G_HINT) {
		struct peal_wire_hint h = {.len = c->key->k.len, .verb = PEAL_HINT_SCORE};

		memcpy(h.b, c->key->k.b, 16);
		memcpy(p, &h, sizeof(h));
	}
}

void g_plan(struct g_group *g)
{
	uint32_t most = g->q.size - 1;
	uint32_t nr = rng_chance(&g->rng, 1, 2) ? most : 1 + (uint32_t)rng_below(&g->rng, most);

	for (uint32_t i = 0; i < g->nr_cmds && g->nr_leases < G_LEASES_MAX; i++)
		if (g->cmd[i].kind == G_LEASE && g->cmd[i].lease)
			g->lease[g->nr_leases++] = g->cmd[i].lease;
	g->nr_taken = 0;
	for (g->nr_cmds = 0; g->nr_cmds < nr; g->nr_cmds++)
		if (!plan_one(g, &g->cmd[g->nr_cmds]))
			break;
}

/* ---- SQEs ---- */

/* Two or three pieces, one behind the other. */
static void sgl_list(struct g_group *g, uint32_t i, struct peal_sqe *s)
{
	const struct g_cmd *c = &g->cmd[i];
	uint64_t at = area(g, i) + c->off, list = area(g, i) + g->area_bytes - FAKE_PAGE;
	struct peal_sgl *d = (struct peal_sgl *)fake_tr_ptr(g->w->t, list);
	uint32_t cut = c->bytes / 3 & ~3u, nr = 0;

	if (cut) {
		d[nr++] = (struct peal_sgl){at, cut};
		d[nr++] = (struct peal_sgl){at + cut, cut};
	}
	d[nr++] = (struct peal_sgl){at + 2 * cut, c->bytes - 2 * cut};
	peal_sqe_sgl_list(s, list, nr, c->bytes);
}

static void build_data(struct g_group *g, uint32_t i, struct peal_sqe *s)
{
	const struct g_cmd *c = &g->cmd[i];
	uint64_t at = area(g, i) + c->off, list = area(g, i) + g->area_bytes - FAKE_PAGE;

	plan_data(g, i);
	if (!c->bytes)
		return;
	if (c->dptr == DPTR_SGL)
		peal_sqe_sgl(s, at, c->bytes);
	else if (c->dptr == DPTR_SGL_LIST)
		sgl_list(g, i, s);
	else
		peal_sqe_prp_list(s, at, c->bytes, (uint64_t *)fake_tr_ptr(g->w->t, list), list);
}

void g_plan_build(struct g_group *g, uint32_t i, struct peal_sqe *s)
{
	const struct g_cmd *c = &g->cmd[i];
	const struct peal_key *k = &c->key->k;

	switch (c->kind) {
	case G_STORE:
		peal_sqe_store(s, 1, k, c->opts);
		break;
	case G_STORE_EX:
		peal_sqe_store_ex(s, 1, k, c->opts);
		break;
	case G_RETRIEVE:
	case G_SIZE:
		peal_sqe_retrieve(s, 1, k, 0);
		break;
	case G_RETRIEVE_EX:
		peal_sqe_retrieve_ex(s, 1, k,
				     &(struct peal_sqe_range){c->range / 4096, 0, c->opts});
		break;
	case G_EXIST:
		peal_sqe_exist(s, 1, k);
		break;
	case G_DELETE:
		peal_sqe_delete(s, 1, k);
		break;
	case G_LIST:
		peal_sqe_list(s, 1, k);
		break;
	case G_MATCH:
		peal_sqe_match(s, 1, 0, 0, 0);
		break;
	case G_HINT:
		peal_sqe_hint(s, 1);
		break;
	case G_LEASE:
		peal_sqe_lease(s, 1, k, 60000);
		break;
	case G_RELEASE:
		peal_sqe_release(s, 1, c->lease);
		break;
	case G_FLUSH:
		peal_sqe_flush(s, 1);
		break;
	case G_EXEC:
	case G_NR_KINDS:
		peal_sqe_exec(s, 1, 1, 64);
		break;
	}
	build_data(g, i, s);
}
