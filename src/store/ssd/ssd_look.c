/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking without reading: exist, match, list. All from the index, at once, but for lists while
 * much may not be told; ghosts are absent, and so is, while a recovery reads, what it doesn't know
 * yet. Runs on the shard's owner.
 * tidy: no-test: t_ssd.c and test/model/m_ssd ask it
 */
#include "store/ssd/ssd_look.h"

#include <errno.h>

#include "base/container.h"

#define LOOK_HIDDEN 1024u /* keys that may not be told yet, passed over in a turn */

void ssd_look_exist(struct store *st, struct store_io *io)
{
	struct ssd_entry *e = ssd_seg_live(ssd_of(st), &io->key);

	if (!e) {
		store_down(io, NULL);
		return;
	}
	io->view.value_len = (uint32_t)e->len;
	io->view.ver = e->ver;
	io->view.tier = st->tier;
	io->ver = e->ver;
	store_done(io, 0);
}

void ssd_look_match(struct store *st, struct store_io *io)
{
	struct ssd *s = ssd_of(st);
	struct ssd_entry *e;

	for (uint32_t i = 0; i < io->match.nr; i++)
		if (store_match_wants(io, i))
			ssd_index_prefetch(&s->ix, &io->match.keys[i], 0);
	for (uint32_t i = 0; i < io->match.nr; i++) {
		if (!store_match_wants(io, i))
			continue;
		e = ssd_seg_live(s, &io->match.keys[i]);
		if (!e)
			continue;
		io->match.found[i] = STORE_LOWER;
		if (!(io->flags & STORE_NO_TOUCH))
			e->hits += e->hits < SSD_HITS_MAX;
	}
	store_down(io, NULL);
}

/*
 * From the bucket on that the frame names. False: enough for a turn, and it names the next one. Who
 * is told of the end of a List believes it, so that what may not be told yet doesn't end a page.
 */
static bool look_page(struct ssd *s, struct store_io *io)
{
	struct ssd_frame *f = ssd_frame(io);
	const struct store_key *key;
	uint32_t left = LOOK_HIDDEN;
	struct ssd_cursor c;

	ssd_index_cursor_init(&c, &s->ix, &io->list);
	c.bucket = max_t(uint64_t, c.bucket, f->bucket);
	while ((key = ssd_index_cursor_next(&c))) {
		if (!s->unread_epoch || ssd_seg_live(s, key)) {
			if (!store_list_add(&io->list, key))
				return true;
			continue;
		}
		left -= left > 0;
		if (!left && c.at == c.nr) {
			f->bucket = c.bucket;
			return false;
		}
	}
	return true;
}

static void look_wait(struct ssd *s, struct store_io *io)
{
	ssd_frame(io)->next = NULL;
	if (s->list_tail)
		ssd_frame(s->list_tail)->next = io;
	else
		s->list_head = io;
	s->list_tail = io;
}

void ssd_look_list(struct store *st, struct store_io *io)
{
	struct ssd *s = ssd_of(st);

	ssd_frame(io)->bucket = 0;
	if (look_page(s, io))
		store_down(io, NULL);
	else
		look_wait(s, io);
}

int ssd_look_step(struct ssd *s)
{
	struct store_io *io = s->list_head;

	if (!io)
		return 0;
	s->list_head = ssd_frame(io)->next;
	if (!s->list_head)
		s->list_tail = NULL;
	if (look_page(s, io))
		store_down(io, NULL);
	else
		look_wait(s, io);
	return 1;
}
