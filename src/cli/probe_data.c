/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the bytes of a value of `peal probe` lie, in each shape that a data pointer can have (NVMe
 * Base 2.0, 4.1.1 and 4.1.2), and what came back, judged. Pages are shuffled, so that a device that
 * takes a list for one stretch, or an offset for none, is seen.
 *
 * A value is words of 32 bits, each of which says to which value it belongs and at which place: a
 * right word at a wrong place, a place that nothing was written to, or one outside that was, is the
 * data pointer's fault; anything else that is wrong is the value's.
 */
/* tidy: no-test: test/peer/probe.py runs it against devices with planted faults */
#include <stdio.h>
#include <string.h>

#include "base/le.h"
#include "cli/probe.h"

#define DATA_MUL 0x9e3779b1u
#define DATA_ROT 13
#define DATA_AREA_BYTES (PROBE_AREA_PAGES * PROBE_PAGE)
#define DATA_BLANK_IN 0xb1b1b1b1u
#define DATA_BLANK_OUT 0x7e7e7e7eu
#define DATA_SGL_PIECES 7u
#define DATA_SGL_FIRST 4u /* of them in the first segment */
#define DATA_SGL_SLOT (8u * PROBE_PAGE)

const char *const probe_shapes[PROBE_NR_SHAPES] = {
	[PROBE_PRP1] = "PRP1",
	[PROBE_PRP2] = "PRP1 with an offset, PRP2",
	[PROBE_PRP_LIST] = "PRP list",
	[PROBE_PRP_CHAIN] = "PRP list over two pages",
	[PROBE_SGL_BLOCK] = "SGL data block",
	[PROBE_SGL_SEGMENTS] = "SGL segments",
};

/* ---- words ---- */

static uint32_t data_word(uint16_t tag, uint32_t i)
{
	uint32_t x = ((uint32_t)tag << 16 | i) * DATA_MUL;

	return x << DATA_ROT | x >> (32 - DATA_ROT);
}

/* What data_word() was made of. */
static uint32_t data_unword(uint32_t w)
{
	uint32_t inv = DATA_MUL;

	for (unsigned i = 0; i < 5; i++) /* Newton: each step doubles the bits that are right */
		inv *= 2 - DATA_MUL * inv;
	return (w >> DATA_ROT | w << (32 - DATA_ROT)) * inv;
}

void probe_data_value(const struct probe_key *k, uint8_t *buf)
{
	for (uint32_t i = 0; i < k->bytes; i += 4) {
		uint32_t w = data_word(k->tag, i / 4);

		memcpy(buf + i, &w, k->bytes - i < 4 ? k->bytes - i : 4);
	}
}

/* ---- places ---- */

static void data_shuffle(struct probe *p, uint8_t *perm, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		unsigned j = (unsigned)rng_below(&p->rng, i + 1);

		perm[i] = perm[j];
		perm[j] = (uint8_t)i;
	}
}

/* Of a layout: what goes out and what comes in have lists of their own. */
static uint32_t data_list_at(const struct probe_layout *l)
{
	uint32_t half = PROBE_LIST_PAGES / 2 * PROBE_PAGE;

	return PROBE_AT_LISTS + (l->area == PROBE_AT_OUT ? 0 : half);
}

static uint64_t data_iova(const struct probe_layout *l, unsigned piece)
{
	return PROBE_IOVA + l->area + l->pieces[piece].at;
}

/* The pages behind the first one, from `at` on; the list's last place in a page leads to `next`. */
static void data_prp_list(struct probe *p, const struct probe_layout *l, uint32_t at, uint32_t next)
{
	for (unsigned i = 1; i < l->nr; i++, at += 8) {
		if (at % PROBE_PAGE == PROBE_PAGE - 8 && i + 1 < l->nr) {
			le64_put(p->mem + at, PROBE_IOVA + next);
			at = next;
		}
		le64_put(p->mem + at, data_iova(l, i));
	}
}

static void data_lay_prp(struct probe *p, struct probe_layout *l, struct nvme_sqe *sqe)
{
	static const uint32_t offsets[] = {
		[PROBE_PRP1] = 0,
		[PROBE_PRP2] = 0x9b8,
		[PROBE_PRP_LIST] = 0x204,
		[PROBE_PRP_CHAIN] = 0x7f8,
	};
	uint32_t off = offsets[l->shape], left = l->bytes, list = data_list_at(l), at;
	uint8_t perm[PROBE_AREA_PAGES];

	data_shuffle(p, perm, PROBE_AREA_PAGES);
	for (l->nr = 0; left; l->nr++, off = 0) {
		uint32_t len = PROBE_PAGE - off < left ? PROBE_PAGE - off : left;

		l->pieces[l->nr].at = perm[l->nr] * PROBE_PAGE + off;
		l->pieces[l->nr].len = len;
		left -= len;
	}
	sqe->prp1 = data_iova(l, 0);
	if (l->nr == 2)
		sqe->prp2 = data_iova(l, 1);
	if (l->nr <= 2)
		return;
	at = list + (l->shape == PROBE_PRP_CHAIN ? PROBE_PAGE - 3 * 8 : 0x100);
	sqe->prp2 = PROBE_IOVA + at;
	data_prp_list(p, l, at, list + 2 * PROBE_PAGE);
}

static void data_descriptor(void *to, uint64_t addr, uint32_t len, unsigned type)
{
	struct nvme_sgl d = {.addr = addr, .len = len, .id = (uint8_t)(type << 4)};

	memcpy(to, &d, sizeof(d));
}

/* A segment of four descriptors, and a last one with the rest. */
static void data_sgl_segments(struct probe *p, const struct probe_layout *l, struct nvme_sqe *sqe)
{
	uint32_t first = data_list_at(l) + 0x40, last = data_list_at(l) + PROBE_PAGE + 0x10;
	uint32_t at = first;

	for (unsigned i = 0; i < l->nr; i++, at += 16) {
		if (i == DATA_SGL_FIRST) {
			data_descriptor(p->mem + at, PROBE_IOVA + last,
					(l->nr - DATA_SGL_FIRST) * 16, NVME_SGL_LAST_SEGMENT);
			at = last;
		}
		data_descriptor(p->mem + at, data_iova(l, i), l->pieces[i].len,
				NVME_SGL_DATA_BLOCK);
	}
	data_descriptor(&sqe->sgl, PROBE_IOVA + first, (DATA_SGL_FIRST + 1) * 16, NVME_SGL_SEGMENT);
}

static void data_lay_sgl(struct probe *p, struct probe_layout *l, struct nvme_sqe *sqe)
{
	uint32_t unit = (p->sgls & 3) == 2 ? 4 : 1, left = l->bytes;
	uint8_t perm[PROBE_AREA_PAGES * PROBE_PAGE / DATA_SGL_SLOT];

	sqe->flags = 1 << 6; /* PSDT 01b */
	if (l->shape == PROBE_SGL_BLOCK) {
		l->nr = 1;
		l->pieces[0].at = 0x334 - (unit == 1);
		l->pieces[0].len = l->bytes;
		data_descriptor(&sqe->sgl, data_iova(l, 0), l->bytes, NVME_SGL_DATA_BLOCK);
		return;
	}
	data_shuffle(p, perm, sizeof(perm));
	for (l->nr = 0; l->nr < DATA_SGL_PIECES; l->nr++) {
		uint32_t len = l->bytes / DATA_SGL_PIECES / 4 * 4 + 4 * l->nr;

		if (l->nr == DATA_SGL_PIECES - 1)
			len = left;
		l->pieces[l->nr].at = perm[l->nr] * DATA_SGL_SLOT +
				      unit * (uint32_t)rng_below(&p->rng, 1000);
		l->pieces[l->nr].len = len;
		left -= len;
	}
	data_sgl_segments(p, l, sqe);
}

void probe_data_lay(struct probe *p, struct probe_layout *l, struct nvme_sqe *sqe)
{
	if (l->shape >= PROBE_SGL_BLOCK)
		data_lay_sgl(p, l, sqe);
	else
		data_lay_prp(p, l, sqe);
}

/* ---- bytes ---- */

void probe_data_blank(struct probe *p, uint32_t area)
{
	memset(p->mem + area, area == PROBE_AT_OUT ? DATA_BLANK_OUT & 0xff : DATA_BLANK_IN & 0xff,
	       DATA_AREA_BYTES);
}

void probe_data_fill(struct probe *p, const struct probe_layout *l, const struct probe_key *k)
{
	static uint8_t value[DATA_AREA_BYTES];
	uint32_t at = 0;

	probe_data_value(k, value);
	for (unsigned i = 0; i < l->nr; at += l->pieces[i].len, i++)
		memcpy(p->mem + l->area + l->pieces[i].at, value + at, l->pieces[i].len);
}

struct data_count {
	uint32_t nr_misplaced, nr_blank, nr_foreign, nr_other, nr_outside;
	uint32_t first; /* byte of the value that is wrong */
};

static bool data_is_right(const struct data_count *c)
{
	return !(c->nr_misplaced | c->nr_blank | c->nr_foreign | c->nr_other | c->nr_outside);
}

static void data_count_word(struct data_count *c, const struct probe_key *k, uint32_t at,
			    uint32_t got)
{
	uint32_t from = data_unword(got);

	if (data_is_right(c))
		c->first = at;
	if (got == DATA_BLANK_IN)
		c->nr_blank++;
	else if (got == DATA_BLANK_OUT)
		c->nr_foreign++;
	else if (from >> 16 == k->tag && (from & 0xffff) < (k->bytes + 3) / 4)
		c->nr_misplaced++;
	else
		c->nr_other++;
}

/* Collects the value and blanks its places, so that what isn't blank then was written outside. */
static void data_collect(struct probe *p, const struct probe_layout *l, uint8_t *buf)
{
	uint32_t at = 0;

	for (unsigned i = 0; i < l->nr; at += l->pieces[i].len, i++) {
		uint8_t *from = p->mem + l->area + l->pieces[i].at;

		memcpy(buf + at, from, l->pieces[i].len);
		memset(from, DATA_BLANK_IN & 0xff, l->pieces[i].len);
	}
}

static void data_count_all(struct probe *p, const struct probe_layout *l, const struct probe_key *k,
			   struct data_count *c)
{
	static uint8_t got[DATA_AREA_BYTES], want[DATA_AREA_BYTES];

	data_collect(p, l, got);
	probe_data_value(k, want);
	for (uint32_t i = 0; i < k->bytes; i += 4) {
		uint32_t n = k->bytes - i < 4 ? k->bytes - i : 4, w = 0;

		if (memcmp(got + i, want + i, n) == 0)
			continue;
		memcpy(&w, got + i, n);
		data_count_word(c, k, i, w);
	}
	for (uint32_t i = 0; i < DATA_AREA_BYTES; i++)
		c->nr_outside += p->mem[l->area + i] != (DATA_BLANK_IN & 0xff);
}

bool probe_data_check(struct probe *p, const struct probe_layout *l, const struct probe_key *k)
{
	struct data_count c = {0};

	data_count_all(p, l, k, &c);
	if (data_is_right(&c))
		return true;
	if (c.nr_misplaced | c.nr_blank | c.nr_foreign | c.nr_outside)
		probe_bad(p, PROBE_DATA,
			  "%s: %u words at a wrong place, %u not written, %u from outside the "
			  "value, %u bytes written outside; first at byte %u of %u",
			  probe_shapes[l->shape], c.nr_misplaced, c.nr_blank, c.nr_foreign,
			  c.nr_outside, c.first, k->bytes);
	else
		probe_bad(p, PROBE_VALUE, "%u of %u words came back wrong, the first at byte %u",
			  c.nr_other, (k->bytes + 3) / 4, c.first);
	return false;
}
