/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the list of a RADOS namespace, on the link's thread: the cluster gives it in an order of
 * its own, a page at a time, and may take minutes for it. Keys go to the owners of their shards, a
 * message under way to each at most:
 *
 *     BEGIN to all, KEYS ..., END to all, again until nothing is left to sweep (STOP: it failed)
 *
 * A shard that is about to go takes no more of them (CEPH_SCAN_GONE).
 * tidy: no-test: test/ceph has it, with a real cluster
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/container.h"
#include "base/mono.h"
#include "store/rados/ceph_int.h"

#define SCAN_REST 10u /* times as long as it took it rests, at the least */
#define SCAN_QUIET_NS 10000000

static bool scan_is_stopping(struct ceph_link *link)
{
	return atomic_load_explicit(&link->is_stopping, memory_order_relaxed);
}

/* Until the owner has done with it. */
static void scan_wait(struct ceph_link *link, struct ceph_scan *sc)
{
	struct timespec ts;

	while (atomic_load_explicit(&sc->state, memory_order_acquire) == CEPH_SCAN_POSTED &&
	       !scan_is_stopping(link)) {
		clock_gettime(CLOCK_REALTIME, &ts);
		ts.tv_sec++;
		sem_timedwait(&link->scan_wake, &ts);
	}
}

/* False: the shard has gone. */
static bool scan_post(struct ceph_link *link, struct ceph_scan *sc, enum ceph_scan_what what)
{
	int idle = CEPH_SCAN_IDLE;

	scan_wait(link, sc);
	if (!atomic_compare_exchange_strong(&sc->state, &idle, CEPH_SCAN_POSTED))
		return false;
	sc->what = (uint8_t)what;
	sc->msg.fn = ceph_list_scanned;
	mbox_post(sc->s->st.owner, &sc->msg);
	return true;
}

static bool scan_all(struct ceph_link *link, enum ceph_scan_what what)
{
	for (uint32_t i = 0; i < link->o.nr_shards; i++)
		if (!scan_post(link, &link->scan[i], what))
			return false;
	for (uint32_t i = 0; i < link->o.nr_shards; i++)
		scan_wait(link, &link->scan[i]);
	return !scan_is_stopping(link);
}

/* The keys of a shard are on two pages by turns: one is filled while the owner has the other. */
static bool scan_key(struct ceph_link *link, const struct store_key *key)
{
	struct ceph_scan *sc = &link->scan[store_shard_of(key->hash, link->o.nr_shards)];

	sc->page[sc->nr_page++] = *key;
	if (sc->nr_page < CEPH_SCAN_PAGE)
		return true;
	scan_wait(link, sc);
	sc->keys = sc->page;
	sc->nr = sc->nr_page;
	sc->page = sc->page == sc->pages[0] ? sc->pages[1] : sc->pages[0];
	sc->nr_page = 0;
	return scan_post(link, sc, CEPH_SCAN_KEYS);
}

static bool scan_rest(struct ceph_link *link)
{
	struct ceph_scan *sc;

	for (uint32_t i = 0; i < link->o.nr_shards; i++) {
		sc = &link->scan[i];
		scan_wait(link, sc);
		sc->keys = sc->page;
		sc->nr = sc->nr_page;
		sc->nr_page = 0;
		if (sc->nr && !scan_post(link, sc, CEPH_SCAN_KEYS))
			return false;
	}
	for (uint32_t i = 0; i < link->o.nr_shards; i++)
		scan_wait(link, &link->scan[i]);
	return true;
}

/* 0: all of it was read. */
static int scan_pool(struct ceph_link *link, rados_ioctx_t io)
{
	struct store_key key;
	rados_list_ctx_t lc;
	const char *name;
	int err = rados_nobjects_list_open(io, &lc);

	if (err)
		return err;
	while (!(err = rados_nobjects_list_next(lc, &name, NULL, NULL))) {
		if (scan_is_stopping(link) || !ceph_link_io(link)) {
			err = -ECANCELED;
			break;
		}
		if (!ceph_obj_key(name, &key) && !scan_key(link, &key)) {
			err = -ECANCELED;
			break;
		}
	}
	rados_nobjects_list_close(lc);
	if (err != -ENOENT)
		return err;
	return scan_rest(link) ? 0 : -ECANCELED;
}

static void scan_tell(struct ceph_link *link)
{
	uint64_t nr = 0;
	char text[160];

	for (uint32_t i = 0; i < link->o.nr_shards; i++)
		nr += link->scan[i].nr_left_out;
	if (!nr != !link->nr_left_out && link->o.told) {
		snprintf(text, sizeof(text),
			 nr ? "rados: pool %s: List and MATCH leave out %llu keys, more than there "
			      "is room for"
			    : "rados: pool %s: List and MATCH leave out no keys any more",
			 link->o.pool, (unsigned long long)nr);
		link->o.told(link->o.arg, text);
	}
	link->nr_left_out = nr;
}

static bool scan_is_more(const struct ceph_link *link)
{
	for (uint32_t i = 0; i < link->o.nr_shards; i++)
		if (link->scan[i].is_more)
			return true;
	return false;
}

void ceph_scan_turn(struct ceph_link *link)
{
	rados_ioctx_t io = ceph_link_io(link);
	uint64_t begin = mono_ns(), took;
	enum ceph_scan_what end;

	if (!io || begin < link->scan_at_ns ||
	    !atomic_load_explicit(&link->is_ready, memory_order_acquire))
		return;
	for (uint32_t i = 0; i < link->o.nr_shards; i++)
		link->scan[i].nr_page = 0;
	link->scan_at_ns = begin + link->o.list_every_ns;
	if (!scan_all(link, CEPH_SCAN_BEGIN))
		return;
	end = scan_pool(link, io) ? CEPH_SCAN_STOP : CEPH_SCAN_END;
	do {
		if (!scan_all(link, end))
			return;
	} while (scan_is_more(link));
	scan_tell(link);
	if (end == CEPH_SCAN_END)
		atomic_fetch_add_explicit(&link->nr_scans, 1, memory_order_relaxed);
	took = mono_ns() - begin;
	link->scan_at_ns = max_t(uint64_t, link->scan_at_ns, begin + took + took * SCAN_REST);
}

bool ceph_scan_quiet(struct ceph_link *link)
{
	const struct timespec a_while = {.tv_nsec = SCAN_QUIET_NS};

	if (!atomic_load_explicit(&link->is_ready, memory_order_acquire))
		return false;
	for (;;) {
		if (!scan_all(link, CEPH_SCAN_QUIET))
			return false;
		if (!scan_is_more(link))
			return true;
		nanosleep(&a_while, NULL);
	}
}

int ceph_scan_init(struct ceph_link *link)
{
	link->scan = calloc(link->o.nr_shards, sizeof(*link->scan));
	sem_init(&link->scan_wake, 0, 0);
	if (!link->scan)
		return -ENOMEM;
	for (uint32_t i = 0; i < link->o.nr_shards; i++)
		link->scan[i].page = link->scan[i].pages[0];
	return 0;
}

void ceph_scan_fini(struct ceph_link *link)
{
	sem_destroy(&link->scan_wake);
	free(link->scan);
}
