/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tiers hold a key: the top is asked, and when it or one below it has the value, the next one
 * below that, and so on. A look, not a use. See store.h. The question goes to the owner of the
 * key's shard by message and comes home with all answers.
 */
#include <errno.h>
#include <string.h>

#include "base/must.h"
#include "store/store_int.h"

static void where_home(struct mbox_msg *m)
{
	struct store_where *w = container_of(m, struct store_where, msg);

	w->done(w, w->res);
}

static void where_end(struct store_where *w, int res)
{
	w->res = res;
	w->msg.fn = where_home;
	reactor_send(w->set->shard[w->io.shard].owner, w->home, &w->msg);
}

static void where_ask(struct store_where *w, unsigned tier);

static void where_answer(struct store_io *io, int res)
{
	struct store_where *w = container_of(io, struct store_where, io);
	struct store_where_tier *t = &w->found[w->nr];

	if (res) {
		/* Untranslated results, and doubt, are a miss as ever. */
		where_end(w, w->nr ? 0 : -ENOENT);
		return;
	}
	must(io->view.st);
	*t = (struct store_where_tier){
		.tier = io->view.tier,
		.name = io->view.st->ops->name,
		.ver = io->view.ver,
		.value_len = io->view.value_len,
		.meta = *store_meta(&io->view),
	};
	w->nr++;
	store_release(&io->view, w->set->shard[io->shard].owner, NULL);
	where_ask(w, t->tier + 1u);
}

/* At most STORE_DEPTH_MAX deep, as the stack is. */
static void where_ask(struct store_where *w, unsigned tier)
{
	struct store_shard *sh = &w->set->shard[w->io.shard];

	if (tier >= sh->nr_tiers) {
		where_end(w, w->nr ? 0 : -ENOENT);
		return;
	}
	store_submit_at(sh->tier[tier], &w->io);
}

static void where_arrive(struct mbox_msg *m)
{
	struct store_where *w = container_of(m, struct store_where, msg);
	struct store_shard *sh = &w->set->shard[w->io.shard];

	if (sh->state == STORE_SHARD_CLOSING) {
		where_end(w, -ECANCELED);
		return;
	}
	if (sh->state == STORE_SHARD_NEW)
		store_shard_open(sh);
	where_ask(w, 0);
}

void store_where_start(struct store_where *w)
{
	w->nr = 0;
	memset(&w->io, 0, sizeof(w->io));
	w->io.op = STORE_GET;
	w->io.flags = STORE_NO_TOUCH;
	w->io.key = w->key;
	w->io.len = 1;
	w->io.end = where_answer;
	w->io.shard = (uint16_t)store_shard_of(w->key.hash, w->set->nr_shards);
	w->msg.fn = where_arrive;
	reactor_send(w->home, w->set->shard[w->io.shard].owner, &w->msg);
}
