/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The streams that the log is appended to: their memory, and their loss. A stream has packs for
 * what is short, and a line of the footer for each record of the segment that it has open, at most
 * as many as values of SSD_LINE_MEAN bytes fit. Made before the shard has an owner, ended when
 * nothing is under way.
 *
 * Of what comes from above there are two, by turns: to seal a segment takes two syncs, and to open
 * one a write that is read back, and all that while the other is written to.
 * tidy: no-test: t_ssd.c goes through it
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/container.h"
#include "base/hugemap.h"
#include "base/must.h"
#include "store/ssd/ssd_int.h"
#include "store/ssd/ssd_pace.h"

static int stream_init(struct ssd *s, uint8_t no)
{
	struct ssd_stream *st = &s->stream[no];
	uint32_t blocks = (uint32_t)div_round_up(s->super.seg_bytes / SSD_LINE_MEAN + 1, SSD_LINES);

	st->s = s;
	st->no = no;
	list_init(&st->waiting);
	list_init(&st->queue);
	st->max_lines = blocks * SSD_LINES;
	st->lines = mmap(NULL, (size_t)blocks * SSD_BLOCK, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (st->lines == MAP_FAILED) {
		st->lines = NULL;
		return -ENOMEM;
	}
	st->pack_mem = hugemap_own(SSD_PACKS * SSD_PACK_BYTES);
	if (st->pack_mem == MAP_FAILED) {
		st->pack_mem = NULL;
		return -ENOMEM;
	}
	st->block_mem = aligned_alloc(SSD_BLOCK, SSD_BLOCK);
	for (uint32_t i = 0; i < SSD_PACKS; i++) {
		st->packs[i].st = st;
		list_init(&st->packs[i].appends);
		st->packs[i].mem = st->pack_mem + (size_t)i * SSD_PACK_BYTES;
	}
	return st->block_mem ? 0 : -ENOMEM;
}

int ssd_stream_init(struct ssd *s)
{
	int err = 0;

	ssd_pace_init(s);
	for (uint8_t i = 0; i < SSD_STREAMS && !err; i++)
		err = stream_init(s, i);
	return err;
}

uint64_t ssd_stream_low(const struct ssd *s, uint32_t seg)
{
	uint64_t low = s->segs[seg].epoch;

	for (uint32_t i = 0; i < SSD_STREAMS; i++)
		if (s->stream[i].state != SSD_STREAM_CLOSED)
			low = min_t(uint64_t, low, s->segs[s->stream[i].seg].epoch);
	return low;
}

/* While one is sealed the other begins: reads find as little before them as ever. */
uint32_t ssd_stream_writing(const struct ssd_stream *st)
{
	const struct ssd_stream *all = st->s->stream;

	if (st->no == SSD_COLD)
		return st->nr_writing;
	return all[SSD_DATA].nr_writing + all[SSD_DATA_TOO].nr_writing;
}

void ssd_stream_turn(struct ssd_stream *st)
{
	struct ssd *s = st->s;
	struct ssd_stream *next = &s->stream[st->no == SSD_DATA ? SSD_DATA_TOO : SSD_DATA];
	struct ssd_append *a;

	if (st->no != s->data || next->state != SSD_STREAM_CLOSED)
		return;
	s->data = next->no;
	list_for_each_entry(a, &st->waiting, node)
		a->stream = next->no;
	list_splice_tail(&next->waiting, &st->waiting);
}

void ssd_stream_fini(struct ssd *s)
{
	ssd_pace_fini(s);
	for (uint32_t i = 0; i < SSD_STREAMS; i++) {
		struct ssd_stream *st = &s->stream[i];

		must(!st->nr_units && !st->nr_writing);
		if (st->pack_mem)
			munmap(st->pack_mem, SSD_PACKS * SSD_PACK_BYTES);
		free(st->block_mem);
		if (st->lines)
			munmap(st->lines, (size_t)st->max_lines / SSD_LINES * SSD_BLOCK);
	}
}

/*
 * What was written since the last good sync may not be there, and what was acknowledged is in
 * doubt: ghosts, all of the segment, for nobody knows which. Its tombstones stay where they are.
 */
static void lose_stream(struct ssd_stream *st)
{
	struct ssd *s = st->s;
	struct ssd_rec_info ri;
	struct ssd_entry *e;
	uint32_t off;

	if (st->state == SSD_STREAM_CLOSED)
		return;
	st->is_lost = true;
	/* Its head may be what was lost, and no later sync would say so. */
	if (st->state == SSD_STREAM_OPENING)
		return;
	for (uint32_t i = 0; i < st->nr_lines; i++) {
		if (!ssd_format_line_get(&st->lines[i / SSD_LINES].line[i % SSD_LINES], &ri, &off))
			continue;
		e = ssd_index_find(&s->ix, &ri.key);
		if (!e || e->seg != st->seg || e->off != off || e->is_ghost)
			continue;
		ssd_seg_ghost(s, e);
		s->has_lost = true;
	}
}

void ssd_stream_lose(struct ssd *s)
{
	for (uint32_t i = 0; i < SSD_STREAMS; i++)
		lose_stream(&s->stream[i]);
	/* Those that are open go on to SEALING at the next turn. */
}

void ssd_stream_fail(struct ssd *s, unsigned stream, int res)
{
	struct ssd_append *a;
	struct list done;

	list_init(&done);
	list_splice_tail(&done, &s->stream[stream].waiting);
	while (!list_is_empty(&done)) {
		a = list_first_entry(&done, struct ssd_append, node);
		list_del(&a->node);
		a->done(a, res);
	}
}
