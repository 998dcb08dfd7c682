/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads of records that were read lately. A get for a part of a piece needs the head for the seals;
 * the gets of one reader come a few at a time, so the first one reads it and the others, those that
 * come meanwhile included, take it from here.
 *
 * A table by place (segment, its epoch, offset, piece) in which each place has one line: a head
 * that is being read keeps it, any other gives way. A head proves nothing by itself: whoever takes
 * it compares it with what the index says, as one that was read. Runs on the shard's owner.
 * tidy: no-test: t_ssd_read.c counts the reads
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/must.h"
#include "store/ssd/ssd_head.h"
#include "store/ssd/ssd_int.h"

static struct ssd_head *head_line(struct ssd *s, const struct ssd_read *r)
{
	uint64_t h = ((uint64_t)r->seg << 40 ^ (uint64_t)r->off << 8 ^ r->piece) *
		     0x9E3779B97F4A7C15ull;

	return &s->heads[(h >> 32) % SSD_HEADS];
}

static bool head_is(const struct ssd_head *h, const struct ssd_read *r)
{
	return h->epoch == r->s->segs[r->seg].epoch && h->seg == r->seg && h->off == r->off &&
	       h->piece == r->piece;
}

static void head_take(const struct ssd_head *h, struct ssd_read *r)
{
	r->ri = h->ri;
	r->meta = h->meta;
	memcpy(r->seals, h->seals, sizeof(r->seals));
	r->has_head = true;
	r->err = ssd_check_head(r);
}

enum ssd_head_is ssd_head_find(struct ssd_read *r)
{
	struct ssd_head *h = head_line(r->s, r);

	r->head = NULL;
	if (h->epoch && head_is(h, r)) {
		if (h->is_read) {
			head_take(h, r);
			return SSD_HEAD_HERE;
		}
		list_add_tail(&h->waiting, &r->wait);
		return SSD_HEAD_COMES;
	}
	if (h->epoch && !h->is_read)
		return SSD_HEAD_MISSING; /* another one is coming here */
	h->epoch = r->s->segs[r->seg].epoch;
	h->seg = r->seg;
	h->off = r->off;
	h->piece = r->piece;
	h->is_read = false;
	must(list_is_empty(&h->waiting));
	r->head = h;
	return SSD_HEAD_MISSING;
}

void ssd_head_came(struct ssd_read *r, int err, struct list *woken)
{
	struct ssd_head *h = r->head;
	struct ssd_read *w;

	if (!h)
		return;
	r->head = NULL;
	h->is_read = true;
	h->ri = r->ri;
	h->meta = r->meta;
	memcpy(h->seals, r->seals, sizeof(h->seals));
	if (err)
		h->epoch = 0;
	list_for_each_entry(w, &h->waiting, wait) {
		if (err)
			w->err = -ECANCELED; /* whoever read it tells */
		else
			head_take(h, w);
	}
	list_splice_tail(woken, &h->waiting);
}

int ssd_head_init(struct ssd *s)
{
	s->heads = calloc(SSD_HEADS, sizeof(*s->heads));
	if (!s->heads)
		return -ENOMEM;
	for (uint32_t i = 0; i < SSD_HEADS; i++)
		list_init(&s->heads[i].waiting);
	return 0;
}

void ssd_head_fini(struct ssd *s)
{
	free(s->heads);
}
