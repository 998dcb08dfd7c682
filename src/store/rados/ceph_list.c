/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listing and matching, from the keys that are known (ceph_keys.h): nothing here waits for the
 * cluster. What others have put is known after the next scan of the pool; until then, and where
 * there are more keys than there is room for, List leaves it out and MATCH says that it isn't
 * there. Runs on the shard's owner.
 * tidy: no-test: t_ceph_keys.c has the keys, test/ceph the verbs
 */
#include "base/container.h"
#include "store/rados/ceph_int.h"

void ceph_list(struct store *st, struct store_io *io)
{
	ceph_keys_list(&ceph_of(st)->keys, &io->list);
	store_down(io, NULL);
}

void ceph_list_match(struct store *st, struct store_io *io)
{
	const struct ceph_keys *k = &ceph_of(st)->keys;

	for (uint32_t i = 0; i < io->match.nr; i++)
		if (store_match_wants(io, i) && ceph_keys_has(k, &io->match.keys[i]))
			io->match.found[i] = STORE_LOWER;
	store_down(io, NULL);
}

/* What the scan brings: one message at a time. */
void ceph_list_scanned(struct mbox_msg *m)
{
	struct ceph_scan *sc = container_of(m, struct ceph_scan, msg);
	struct ceph_keys *k = &sc->s->keys;
	struct ceph_link *link = sc->s->link;

	switch ((enum ceph_scan_what)sc->what) {
	case CEPH_SCAN_BEGIN:
		ceph_keys_scan_begin(k);
		break;
	case CEPH_SCAN_KEYS:
		for (uint32_t i = 0; i < sc->nr; i++)
			ceph_keys_scan_seen(k, &sc->keys[i]);
		break;
	case CEPH_SCAN_END:
	case CEPH_SCAN_STOP:
		sc->is_more = ceph_keys_scan_end(k, sc->what == CEPH_SCAN_END);
		sc->nr_left_out = k->nr_left_out;
		counter_set(&sc->s->count.keys, k->nr_keys);
		break;
	case CEPH_SCAN_QUIET:
		sc->is_more = sc->s->nr_reads || sc->s->nr_writes;
		break;
	}
	atomic_store_explicit(&sc->state, CEPH_SCAN_IDLE, memory_order_release);
	sem_post(&link->scan_wake);
}
