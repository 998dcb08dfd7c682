/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tombstones. Two copies, one in each stream's open segment, so that no single fault of the medium
 * brings a dead value back; each is synced and read back. One that isn't there may have gone where
 * the other is, over a head that nobody looks at now: it is written again, some times. The key
 * counts as dead below `ver` when both have ended and one of them is proven.
 *
 * A tombstone is needed as long as a segment lives that was there when it was written, because no
 * record of an older version can be elsewhere. That is its barrier, the highest epoch at the time.
 * A value that is just being saved by eviction is a record that is still to come: its killer waits;
 * and eviction saves none that is being killed.
 *
 * One that failed may be on the medium all the same, and a recovery would heed it. In an immutable
 * set, where a fill of a value that is here has nothing to do, the value is no more here then: else
 * what is put afterwards, and acknowledged, would hang on the record that the tombstone kills. One
 * that found no place is nowhere, and leaves everything as it was.
 *
 * While a recovery reads, a key that was killed stays in the index as a ghost, so that what is
 * found of it later is known to be dead (ssd_recover_key.c); one whose tombstone failed, too, for
 * what is found of it may be what that kills. Until the recovery knows the epochs nobody knows a
 * barrier, and where the index has no room for the ghost it has when all is known: killers wait.
 * Runs on the shard's owner; the gate lets one mutation per key in.
 * tidy: no-test: t_ssd.c has the verbs, test/model/m_ssd all orders and faults
 */
#include <errno.h>
#include <stdlib.h>

#include "base/container.h"
#include "base/must.h"
#include "store/ssd/ssd_int.h"

#define KILL_TRIES 2u /* more, of copies that failed */

static void kill_wait(struct ssd *s, struct store_io *io)
{
	ssd_frame(io)->next = NULL;
	if (s->kill_tail)
		ssd_frame(s->kill_tail)->next = io;
	else
		s->kill_head = io;
	s->kill_tail = io;
}

static void kill_done(struct ssd_append *a, int res)
{
	struct ssd_kill *k = container_of(a - a->slot, struct ssd_kill, app[0]);
	struct ssd *s = k->s;
	struct store_io *io = k->io;
	struct ssd_place p = {.ver = k->ver - 1, .is_ghost = true, .is_tomb = true};
	struct ssd_entry *e;

	k->nr_good += res == 0;
	if (res < 0)
		k->res = res;
	if (a->epoch && (res == 0 || !k->nr_good)) {
		k->is_placed = true;
		k->seg = a->seg;
		k->off = a->off;
	}
	if (res < 0 && a->epoch && k->nr_tries) {
		k->nr_tries--;
		a->stream = a->slot;
		ssd_log_append(s, a);
		return;
	}
	if (--k->nr_left)
		return;
	p.seg = k->seg;
	p.off = k->off;
	res = k->nr_good ? 0 : k->res;
	if (k->is_reserved)
		ssd_index_unreserve(&s->ix);
	e = ssd_index_find(&s->ix, &io->key);
	p.is_tomb = !res;
	if (k->is_placed && k->is_reserved && ssd_recover_is_blind(s) && (!e || e->ver < k->ver))
		ssd_seg_enter(s, &io->key, &p);
	else if (!res && e && e->ver < k->ver)
		ssd_seg_drop(s, e);
	else if (k->is_placed && res && e && e->ver < k->ver && store_set_is_immutable(s->st.set))
		ssd_seg_ghost(s, e);
	list_add_head(&s->free_kills, &k->node);
	k->io = NULL;
	ssd_frame(io)->killed(io, res);
	ssd_kill_waiting(s);
}

static void kill_start(struct ssd *s, struct store_io *io)
{
	struct ssd_kill *k = list_first_entry(&s->free_kills, struct ssd_kill, node);
	int err = ssd_recover_is_blind(s) ? ssd_index_reserve_more(&s->ix, &io->key) : 0;

	if (err && ssd_recover_is_reading(s)) {
		kill_wait(s, io);
		return;
	}
	if (err) {
		ssd_evict_force(s);
		ssd_frame(io)->killed(io, err);
		return;
	}
	list_del(&k->node);
	k->is_reserved = ssd_recover_is_blind(s);
	k->s = s;
	k->io = io;
	k->ver = ssd_frame(io)->ver;
	k->nr_left = SSD_COPIES;
	k->nr_good = 0;
	k->nr_tries = KILL_TRIES;
	k->is_placed = false;
	k->res = 0;
	for (unsigned i = 0; i < SSD_COPIES; i++) {
		k->app[i] = (struct ssd_append){
			.done = kill_done,
			.ri = {.kind = SSD_REC_TOMB,
			       .key = io->key,
			       .ver = k->ver,
			       .barrier = s->epoch,
			       .copy = (uint8_t)(i + 1)},
			.stream = (uint8_t)i,
			.slot = (uint8_t)i,
			.wants_proof = true,
		};
		ssd_log_append(s, &k->app[i]);
	}
}

static bool kill_must_wait(const struct ssd *s, const struct store_io *io)
{
	return list_is_empty(&s->free_kills) || ssd_evict_is_saving(s, &io->key) ||
	       s->epoch_begin == UINT64_MAX;
}

void ssd_kill_waiting(struct ssd *s)
{
	struct store_io *io = s->kill_head, *next;

	/* Once round: one that must go on waiting joins the end. */
	s->kill_head = s->kill_tail = NULL;
	for (; io; io = next) {
		next = ssd_frame(io)->next;
		if (kill_must_wait(s, io))
			kill_wait(s, io);
		else
			kill_start(s, io);
	}
}

bool ssd_kill_is_on(const struct ssd *s, const struct store_key *key)
{
	for (uint32_t i = 0; i < SSD_KILLS; i++)
		if (s->kills[i].io && store_key_equal(&s->kills[i].io->key, key))
			return true;
	return false;
}

void ssd_kill(struct ssd *s, struct store_io *io, uint64_t ver,
	      void (*killed)(struct store_io *io, int res))
{
	ssd_frame(io)->ver = ver;
	ssd_frame(io)->killed = killed;
	if (ver > s->ver)
		s->ver = ver;
	if (kill_must_wait(s, io))
		kill_wait(s, io);
	else
		kill_start(s, io);
}
