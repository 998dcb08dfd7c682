/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See d_mem.h. Pages are handed out from a random place on, so that a buffer lies in one stretch or
 * in many, and beside others. One thread.
 */
#include "d_mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/container.h"
#include "base/must.h"
#include "d_model.h"

#define D_MAP_BYTES (D_MAP_PAGES * FAKE_PAGE)

static uint8_t *mem_at(struct d_mem *m, uint64_t addr)
{
	return fake_tr_ptr(m->t, addr);
}

static uint8_t *shadow_at(struct d_mem *m, uint64_t addr)
{
	return m->shadow + (addr - m->base);
}

static unsigned nr_maps(const struct d_mem *m)
{
	return m->nr_pages / D_MAP_PAGES;
}

void d_mem_init(struct d_mem *m, struct fake_tr *t, struct rng *rng, uint32_t nr_pages)
{
	uint64_t at;

	must(nr_pages % D_MAP_PAGES == 0 && nr_pages / D_MAP_PAGES <= D_MAPS_MAX);
	*m = (struct d_mem){.t = t, .rng = rng, .nr_pages = nr_pages};
	at = fake_tr_alloc(t, (uint64_t)nr_pages * FAKE_PAGE);
	must(at == FAKE_BUS); /* first of all, so that maps and area begin together */
	m->base = at;
	m->shadow = malloc((size_t)nr_pages * FAKE_PAGE);
	m->is_busy = calloc(nr_pages, 1);
	must(m->shadow && m->is_busy);
	d_value_fill(rng_u64(rng), 0, m->shadow, (size_t)nr_pages * FAKE_PAGE);
	memcpy(mem_at(m, at), m->shadow, (size_t)nr_pages * FAKE_PAGE);
}

void d_mem_fini(struct d_mem *m)
{
	d_mem_give(m);
	free(m->shadow);
	free(m->is_busy);
}

/* ---- taking it away ---- */

bool d_mem_is_away(const struct d_mem *m)
{
	for (unsigned i = 0; i < nr_maps(m); i++)
		if (m->is_unmapped[i] || m->is_poisoned[i])
			return true;
	return false;
}

static void map_protect(struct d_mem *m, unsigned i, int prot)
{
	must(!mprotect(mem_at(m, m->base + i * D_MAP_BYTES), D_MAP_BYTES, prot));
	m->is_poisoned[i] = prot == PROT_NONE;
}

void d_mem_take(struct d_mem *m)
{
	unsigned i = (unsigned)rng_below(m->rng, nr_maps(m));

	if (m->is_unmapped[i] || m->is_poisoned[i])
		return;
	if (rng_chance(m->rng, 1, 2)) {
		map_protect(m, i, PROT_NONE);
		return;
	}
	fake_tr_unmap(m->t, m->base + i * D_MAP_BYTES);
	m->is_unmapped[i] = true;
}

static void map_give(struct d_mem *m, unsigned i)
{
	if (m->is_poisoned[i])
		map_protect(m, i, PROT_READ | PROT_WRITE);
	if (m->is_unmapped[i])
		fake_tr_remap(m->t, m->base + i * D_MAP_BYTES);
	m->is_unmapped[i] = false;
}

void d_mem_give(struct d_mem *m)
{
	for (unsigned i = 0; i < nr_maps(m); i++)
		map_give(m, i);
}

bool d_mem_check(struct d_mem *m)
{
	uint64_t addr = m->base;

	for (uint32_t i = 0; i < m->nr_pages; i++, addr += FAKE_PAGE) {
		if (m->is_busy[i] || m->is_poisoned[i / D_MAP_PAGES])
			continue;
		if (memcmp(mem_at(m, addr), shadow_at(m, addr), FAKE_PAGE))
			return false;
	}
	return true;
}

/* ---- making buffers ---- */

static bool page_is_free(const struct d_mem *m, uint32_t i)
{
	return i < m->nr_pages && !m->is_busy[i] && !m->is_poisoned[i / D_MAP_PAGES];
}

static void page_take(struct d_mem *m, struct d_buf *b, uint32_t i)
{
	m->is_busy[i] = 1;
	b->pages[b->nr_pages++] = i;
}

/* nr pages, adjacent when asked for; the first one of them, or -1. */
static int64_t pages_take(struct d_mem *m, struct d_buf *b, unsigned nr, bool adjacent)
{
	uint32_t at = (uint32_t)rng_below(m->rng, m->nr_pages), run = 0, got = 0;

	for (uint32_t i = 0; i < 2 * m->nr_pages && got < nr; i++) {
		uint32_t p = (at + i) % m->nr_pages;

		if (p == 0)
			run = 0;
		run = page_is_free(m, p) ? run + 1 : 0;
		if (!run)
			continue;
		if (!adjacent) {
			page_take(m, b, p);
			got++;
			i += (uint32_t)rng_below(m->rng, 3);
		} else if (run == nr) {
			for (uint32_t k = 0; k < nr; k++)
				page_take(m, b, p + 1 - nr + k);
			return p + 1 - nr;
		}
	}
	return got == nr ? 0 : -1;
}

static void pages_give(struct d_mem *m, struct d_buf *b)
{
	for (unsigned i = 0; i < b->nr_pages; i++)
		m->is_busy[b->pages[i]] = 0;
	b->nr_pages = 0;
}

static bool buf_prp(struct d_mem *m, struct d_buf *b)
{
	bool adjacent = rng_chance(m->rng, 1, 2);
	uint64_t at = 0;
	unsigned nr;

	b->is_prp = true;
	b->off = rng_chance(m->rng, 1, 2) ? 0 : 4 * (uint32_t)rng_below(m->rng, FAKE_PAGE / 4);
	nr = (unsigned)div_round_up(b->off + b->bytes, FAKE_PAGE);
	b->seg = calloc(nr, sizeof(*b->seg));
	b->pages = calloc(nr, sizeof(*b->pages));
	must(b->seg && b->pages);
	if (pages_take(m, b, nr, adjacent) < 0)
		return false;
	for (b->nr = 0; b->nr < nr; b->nr++) {
		struct d_seg *s = &b->seg[b->nr];
		uint32_t off = b->nr ? 0 : b->off;

		s->addr = m->base + (uint64_t)b->pages[b->nr] * FAKE_PAGE + off;
		s->len = (uint32_t)min_t(uint64_t, FAKE_PAGE - off, b->bytes - at);
		at += s->len;
	}
	return true;
}

#define D_SEGS_MAX 24u

static bool buf_sgl(struct d_mem *m, struct d_buf *b, bool to_host)
{
	unsigned nr = 1 + (unsigned)rng_below(m->rng, rng_chance(m->rng, 1, 4) ? D_SEGS_MAX : 3);
	uint64_t left = b->bytes;
	int64_t page;

	b->is_prp = false;
	b->seg = calloc(nr, sizeof(*b->seg));
	b->pages = calloc(b->bytes / FAKE_PAGE + 2 * nr + 2, sizeof(*b->pages));
	must(b->seg && b->pages);
	while (left) {
		struct d_seg *s = &b->seg[b->nr++];
		uint32_t off = (uint32_t)rng_below(m->rng, FAKE_PAGE);

		s->len = (uint32_t)(b->nr == nr ? left : 1 + rng_below(m->rng, left));
		left -= s->len;
		s->is_sink = to_host && nr > 1 && rng_chance(m->rng, 1, 8);
		if (s->is_sink)
			continue;
		page = pages_take(m, b, (unsigned)div_round_up(off + s->len, FAKE_PAGE), true);
		if (page < 0)
			return false;
		s->addr = m->base + (uint64_t)page * FAKE_PAGE + off;
	}
	return true;
}

bool d_buf_make(struct d_mem *m, struct d_buf *b, uint64_t bytes, bool to_host)
{
	bool ok;

	*b = (struct d_buf){.bytes = bytes};
	ok = rng_chance(m->rng, 1, 2) ? buf_prp(m, b) : buf_sgl(m, b, to_host);
	if (!ok)
		d_buf_free(m, b);
	return ok;
}

void d_buf_free(struct d_mem *m, struct d_buf *b)
{
	pages_give(m, b);
	free(b->seg);
	free(b->pages);
	*b = (struct d_buf){0};
}

void d_buf_dptr(struct d_mem *m, const struct d_buf *b, struct nvme_sqe *sqe)
{
	struct nvme_sgl desc[D_SEGS_MAX];
	uint64_t *pages;

	if (b->is_prp) {
		pages = calloc(b->nr, sizeof(*pages));
		must(pages);
		for (unsigned i = 0; i < b->nr; i++)
			pages[i] = align_down(b->seg[i].addr, FAKE_PAGE);
		fake_tr_prp_pages(m->t, sqe, pages, b->nr, b->off);
		free(pages);
		return;
	}
	for (unsigned i = 0; i < b->nr; i++)
		desc[i] = (struct nvme_sgl){
			.addr = b->seg[i].addr,
			.len = b->seg[i].len,
			.id = (b->seg[i].is_sink ? NVME_SGL_BIT_BUCKET : NVME_SGL_DATA_BLOCK) << 4,
		};
	fake_tr_sgl(m->t, sqe, desc, b->nr, 2 + (unsigned)rng_below(m->rng, 20));
}

/* ---- the stream ---- */

struct d_walk {
	unsigned i;
	uint64_t at; /* of segment i in the stream */
	uint8_t *p;  /* NULL: a bit bucket */
	uint64_t len;
};

/* The next piece of [at, at + left). False: there is none. */
static bool buf_walk(struct d_mem *m, const struct d_buf *b, struct d_walk *w, uint64_t at,
		     uint64_t left)
{
	const struct d_seg *s;

	if (!left)
		return false;
	while (at >= w->at + b->seg[w->i].len) {
		w->at += b->seg[w->i++].len;
		must(w->i < b->nr);
	}
	s = &b->seg[w->i];
	w->len = min_t(uint64_t, left, s->len - (at - w->at));
	w->p = s->is_sink ? NULL : mem_at(m, s->addr + (at - w->at));
	return true;
}

void d_buf_write(struct d_mem *m, const struct d_buf *b, uint64_t at, const void *src, uint64_t len)
{
	const uint8_t *from = src;
	struct d_walk w = {0};

	for (; buf_walk(m, b, &w, at, len); at += w.len, len -= w.len, from += w.len)
		if (w.p)
			memcpy(w.p, from, w.len);
}

void d_buf_read(struct d_mem *m, const struct d_buf *b, uint64_t at, void *dst, uint64_t len)
{
	uint8_t *to = dst;
	struct d_walk w = {0};

	memset(dst, 0, len);
	for (; buf_walk(m, b, &w, at, len); at += w.len, len -= w.len, to += w.len)
		if (w.p)
			memcpy(to, w.p, w.len);
}

void d_buf_fill(struct d_mem *m, const struct d_buf *b, uint64_t at, struct d_part part)
{
	struct d_walk w = {0};

	for (; buf_walk(m, b, &w, at, part.len); at += w.len) {
		if (w.p)
			d_value_fill(part.seed, part.off, w.p, w.len);
		part.off += w.len;
		part.len -= w.len;
	}
}

bool d_buf_holds(struct d_mem *m, const struct d_buf *b, uint64_t at, struct d_part part)
{
	struct d_walk w = {0};

	for (; buf_walk(m, b, &w, at, part.len); at += w.len) {
		if (w.p && !d_value_check(part.seed, part.off, w.p, w.len))
			return false;
		part.off += w.len;
		part.len -= w.len;
	}
	return true;
}

uint64_t d_buf_shows(struct d_mem *m, const struct d_buf *b, uint64_t at, uint64_t len)
{
	struct d_walk w = {0};
	uint64_t nr = 0;

	for (; buf_walk(m, b, &w, at, len); at += w.len, len -= w.len)
		nr += w.p ? w.len : 0;
	return nr;
}

void d_buf_commit(struct d_mem *m, const struct d_buf *b)
{
	for (unsigned i = 0; i < b->nr; i++)
		if (!b->seg[i].is_sink)
			memcpy(shadow_at(m, b->seg[i].addr), mem_at(m, b->seg[i].addr),
			       b->seg[i].len);
}

void d_buf_reach(struct d_mem *m, const struct d_buf *b)
{
	for (unsigned i = 0; i < b->nr_pages; i++)
		if (m->is_poisoned[b->pages[i] / D_MAP_PAGES])
			map_protect(m, b->pages[i] / D_MAP_PAGES, PROT_READ | PROT_WRITE);
}

bool d_buf_settle(struct d_mem *m, struct d_buf *b, bool to_host)
{
	bool ok = true;

	if (to_host)
		d_buf_commit(m, b);
	for (unsigned i = 0; i < b->nr_pages; i++) {
		uint64_t addr = m->base + (uint64_t)b->pages[i] * FAKE_PAGE;

		ok = ok && !memcmp(mem_at(m, addr), shadow_at(m, addr), FAKE_PAGE);
	}
	d_buf_free(m, b);
	return ok;
}
