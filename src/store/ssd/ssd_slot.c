/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What reads are read into: slots of four kinds in one mapping, made at the start, with huge pages
 * where there are some, so that a request is few segments for the device. A slot is taken from the
 * start of a read until its view is released, or, when nobody waits for it any more, until the
 * device has ended it: memory that a request was given is never used for another meanwhile.
 *
 *     small, part, large:  | head's block | payload ...        straight: | head's block | end |
 *
 * A packed record comes with the blocks that it begins and ends in. Runs on the shard's owner.
 * tidy: no-test: t_ssd_read.c goes through it
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/container.h"
#include "base/hugemap.h"
#include "base/must.h"
#include "store/ssd/ssd_int.h"

#define SLOT_WAKES 8u /* of one that has become free */

static const struct {
	uint32_t nr;
	uint32_t bytes;
} slot_kinds[SSD_READ_KINDS] = {
	[SSD_READ_SMALL] = {64, SSD_SMALL_READ},
	[SSD_READ_PART] = {64, SSD_PART_READ},
	[SSD_READ_LARGE] = {4, SSD_LARGE_READ},
	[SSD_READ_STRAIGHT] = {64, SSD_STRAIGHT_READ},
};

static size_t slot_bytes(void)
{
	size_t bytes = 0;

	for (uint32_t k = 0; k < SSD_READ_KINDS; k++)
		bytes += (size_t)slot_kinds[k].nr * slot_kinds[k].bytes;
	return bytes;
}

static int slot_map(struct ssd *s)
{
	uint8_t *at = hugemap_own(slot_bytes());

	if (at == MAP_FAILED)
		return -ENOMEM;
	s->read_mem = at;
	s->read_reg = mem_host_wrap(s->read_mem, slot_bytes(), MEM_READABLE | MEM_WRITABLE);
	return s->read_reg ? 0 : -ENOMEM;
}

int ssd_slot_init(struct ssd *s)
{
	struct ssd_read *r;
	uint8_t *at;
	int err;

	for (uint32_t k = 0; k < SSD_READ_KINDS; k++)
		list_init(&s->free_reads[k]);
	s->straight = SSD_STRAIGHT_HUGE;
	s->reads = calloc(SSD_READS, sizeof(*s->reads));
	if (!s->reads)
		return -ENOMEM;
	err = slot_map(s);
	if (err)
		return err;
	r = s->reads;
	at = s->read_mem;
	for (uint32_t k = 0; k < SSD_READ_KINDS; k++) {
		for (uint32_t i = 0; i < slot_kinds[k].nr; i++, r++) {
			r->s = s;
			r->kind = (uint8_t)k;
			r->is_small = k == SSD_READ_SMALL;
			r->mem = at;
			list_init(&r->busy);
			list_init(&r->wait);
			at += slot_kinds[k].bytes;
			list_add_tail(&s->free_reads[k], &r->node);
		}
	}
	must(r == s->reads + SSD_READS);
	return 0;
}

void ssd_slot_fini(struct ssd *s)
{
	if (s->is_told)
		reactor_io_memory_gone(s->st.owner, s->read_mem);
	if (s->read_reg)
		mem_region_put(s->read_reg);
	if (s->read_mem)
		munmap(s->read_mem, slot_bytes());
	free(s->reads);
}

/* Of packed records there are many a second, and each is a page or two. */
static void slot_tell(struct ssd *s)
{
	if (s->is_told)
		return;
	s->is_told = true;
	(void)reactor_io_memory(s->st.owner, s->read_mem,
				(uint64_t)slot_kinds[SSD_READ_SMALL].nr * SSD_SMALL_READ);
}

struct ssd_read *ssd_slot_get(struct ssd *s, enum ssd_read_kind kind)
{
	struct ssd_read *r;

	if (list_is_empty(&s->free_reads[kind]))
		return NULL;
	slot_tell(s);
	r = list_first_entry(&s->free_reads[kind], struct ssd_read, node);
	list_del(&r->node);
	r->into.st = NULL;
	r->err = 0;
	r->nr_left = 0;
	r->tail = 0;
	r->has_head = r->is_late = false;
	return r;
}

void ssd_slot_put(struct ssd_read *r)
{
	list_add_head(&r->s->free_reads[r->kind], &r->node);
}

/* ---- who waits for one ----------------------------------------------------------------------- */

void ssd_slot_wait(struct ssd *s, struct ssd_gets *q, struct store_io *io)
{
	ssd_frame(io)->next = NULL;
	ssd_frame(io)->since_ns = reactor_turn_ns(s->st.owner);
	if (q->tail)
		ssd_frame(q->tail)->next = io;
	else
		q->head = io;
	q->tail = io;
}

struct store_io *ssd_slot_unwait(struct ssd_gets *q)
{
	struct store_io *io = q->head;

	q->head = ssd_frame(io)->next;
	if (!q->head)
		q->tail = NULL;
	return io;
}

void ssd_slot_wake(struct ssd *s, enum ssd_read_kind kind)
{
	struct ssd_gets *q = &s->gets[kind];

	for (uint32_t i = 0; i < SLOT_WAKES && q->head && !list_is_empty(&s->free_reads[kind]); i++)
		ssd_read_get(&s->st, ssd_slot_unwait(q));
}

int ssd_slot_step(struct ssd *s)
{
	int n = 0;

	for (uint32_t k = 0; k < SSD_READ_KINDS; k++) {
		if (!s->gets[k].head || list_is_empty(&s->free_reads[k]))
			continue;
		ssd_slot_wake(s, k);
		n++;
	}
	return n;
}
