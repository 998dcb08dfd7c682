/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking without reading: exist, match, list. All from the index, at once; ghosts are absent, and
 * so is, while a recovery reads, what it doesn't know yet. Runs on the shard's owner.
 * tidy: no-test: t_ssd.c and test/model/m_ssd ask it
 */
#include <errno.h>

#include "base/container.h"
#include "store/ssd/ssd_int.h"

#define LOOK_HIDDEN 1024u /* keys that may not be told yet, passed over in a page */

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

void ssd_look_list(struct store *st, struct store_io *io)
{
	struct ssd *s = ssd_of(st);
	const struct store_key *key;
	uint32_t left = LOOK_HIDDEN;
	struct ssd_cursor c;

	ssd_index_cursor_init(&c, &s->ix, &io->list);
	for (uint32_t i = 0; i <= io->list.max; i++) {
		do
			key = ssd_index_cursor_next(&c);
		while (key && s->unread_epoch && !ssd_seg_live(s, key) && --left);
		if (!key || !left)
			break;
		store_list_add(&io->list, key);
	}
	store_down(io, NULL);
}
