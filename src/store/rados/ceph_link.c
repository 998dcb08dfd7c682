/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection of a namespace. A thread of its own does what waits: connecting, finding the pool,
 * and, when operations aren't answered any more, asking every half second whether they would be.
 *
 *     no ioctx --connected, pool found--> up --an operation timed out--> down --a stat answered--+
 *        ^                                ^ |                                                     |
 *        +---- the pool is another one ---+-+-----------------------------------------------------+
 *
 * Refused (no rights, or this client is on the cluster's blocklist), it goes on as it is, and tries
 * now and then whether a new connection would be let in: rights and blocklists are a connection's.
 * Down, likewise: a handle has the key and the monitors' addresses that it was made with, and is
 * silent for ever when they aren't the cluster's any more. A new one that is answered takes the old
 * one's place when nothing is under way there.
 *
 * Only an ioctx leaves it, by an atomic that any thread may read; one that was given out stays
 * for as long as an operation may be under way. Each change is told once.
 * tidy: no-test: test/ceph has it against clusters that come and go
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/container.h"
#include "base/mono.h"
#include "base/must.h"
#include "core/thread.h"
#include "store/rados/ceph_int.h"

#define LINK_TIMEOUT_S 5u
#define LINK_READ_NS 1000000000ull /* half of what a client's call waits, unless told otherwise */
#define LINK_LATES 4u		   /* in a row: it isn't one OSD's fault */
#define LINK_WRITE_BYTES (128ull << 20)
#define LINK_KEYS (1u << 20)
#define LINK_LIST_NS 60000000000ull
#define LINK_RETRY_NS 1000000000ull
#define LINK_PROBE_NS 500000000ull
#define LINK_LOOK_NS 5000000000ull /* is it still that pool? */
#define LINK_ANEW_NS 1000000000ull /* a new handle: between tries, twice as long each time, */
#define LINK_ANEW_MAX_NS 60000000000ull

static bool link_is_stopping(struct ceph_link *link)
{
	return atomic_load_explicit(&link->is_stopping, memory_order_relaxed);
}

/* Sleeps, until somebody wakes it. */
static void link_sleep(struct ceph_link *link, uint64_t ns)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ns += (uint64_t)ts.tv_nsec;
	ts.tv_sec += (time_t)(ns / 1000000000u);
	ts.tv_nsec = (long)(ns % 1000000000u);
	sem_timedwait(&link->wake, &ts);
	while (!sem_trywait(&link->wake))
		;
}

static void link_text(const struct ceph_link *link, int err, char *text, size_t bytes)
{
	const char *pool = link->o.pool;

	switch (err) {
	case 0:
		snprintf(text, bytes, "rados: pool %s answers", pool);
		break;
	case -ESHUTDOWN:
		snprintf(
			text, bytes,
			"rados: pool %s: the cluster has shut this client out (blocklisted): reads "
			"from it are misses, writes fail, until a new connection is let in",
			pool);
		break;
	case -EACCES:
		snprintf(text, bytes,
			 "rados: pool %s: the monitors refuse client.%s: reads from it are misses, "
			 "writes fail, until its key ring is right; `peal doctor --rados` says "
			 "more",
			 pool, link->o.id);
		break;
	case -EPERM:
		snprintf(
			text, bytes,
			"rados: pool %s: client.%s lacks rights in RADOS namespace '%s': what is "
			"refused is a miss, or a write that fails, until it has them; `peal doctor "
			"--rados` says which",
			pool, link->o.id, link->o.ns);
		break;
	default:
		snprintf(text, bytes,
			 "rados: pool %s: %s: reads from it are misses, writes fail, until it is "
			 "back",
			 pool, strerror(-err));
	}
}

/* err: 0 it is up, unless it refuses; else why it isn't. Nothing is said twice. */
static void link_tell(struct ceph_link *link, int err)
{
	char text[400];

	if (!err)
		err = atomic_load_explicit(&link->refused, memory_order_relaxed);
	if (err == link->told || link_is_stopping(link))
		return;
	link_text(link, err, text, sizeof(text));
	link->told = err;
	if (link->o.told)
		link->o.told(link->o.arg, text);
}

/* ---- what others ask ------------------------------------------------------------------------- */

rados_ioctx_t ceph_link_io(struct ceph_link *link)
{
	if (atomic_load_explicit(&link->is_down, memory_order_relaxed))
		return NULL;
	return atomic_load_explicit(&link->io, memory_order_acquire);
}

bool ceph_link_is_up(const struct ceph_link *link)
{
	return ceph_link_io((struct ceph_link *)link);
}

void ceph_link_ready(struct ceph_link *link)
{
	atomic_store_explicit(&link->is_ready, true, memory_order_release);
	sem_post(&link->wake);
}

void ceph_link_late(struct ceph_link *link)
{
	if (atomic_fetch_add_explicit(&link->nr_late, 1, memory_order_relaxed) + 1 < LINK_LATES)
		return;
	if (!atomic_exchange_explicit(&link->is_down, true, memory_order_relaxed))
		sem_post(&link->wake);
}

static void link_refuse(struct ceph_link *link, int err)
{
	int none = 0;

	if (atomic_load_explicit(&link->refused, memory_order_relaxed))
		return;
	if (atomic_compare_exchange_strong(&link->refused, &none, err))
		sem_post(&link->wake);
}

/* What all reactors read isn't written to by each operation. */
void ceph_link_ended(struct ceph_link *link, int res)
{
	if (res == -ETIMEDOUT) {
		ceph_link_late(link);
		return;
	}
	if (res == -EPERM || res == -EACCES)
		link_refuse(link, -EPERM);
	else if (res == -ESHUTDOWN)
		link_refuse(link, res);
	if (atomic_load_explicit(&link->nr_late, memory_order_relaxed))
		atomic_store_explicit(&link->nr_late, 0, memory_order_relaxed);
}

void ceph_link_suspect(struct ceph_link *link)
{
	if (!atomic_exchange_explicit(&link->is_suspect, true, memory_order_relaxed))
		sem_post(&link->wake);
}

/* ---- connecting ------------------------------------------------------------------------------ */

static int link_pool(struct ceph_link *link)
{
	rados_ioctx_t io;
	int err;

	if (link->nr_pools == CEPH_POOLS_MAX)
		return -EMFILE;
	err = ceph_conn_pool(link, link->cluster, &io);
	if (err)
		return err;
	link->pools[link->nr_pools++] = io;
	atomic_store_explicit(&link->io, io, memory_order_release);
	return 0;
}

static int link_begin(struct ceph_link *link)
{
	int err = ceph_conn_open(link, &link->cluster);

	return err ? err : link_pool(link);
}

/* A pool of that name may be another one by now. -ETIMEDOUT: nobody can say. */
static int link_look(struct ceph_link *link)
{
	rados_ioctx_t io = atomic_load_explicit(&link->io, memory_order_relaxed);
	bool is_suspect = atomic_exchange_explicit(&link->is_suspect, false, memory_order_relaxed);
	int64_t id;
	int err;

	link->look_at_ns = mono_ns() + LINK_LOOK_NS;
	if ((is_suspect || !ceph_conn_knows(link, link->cluster)) &&
	    !ceph_conn_has_mon(link->cluster))
		return -ETIMEDOUT;
	if (is_suspect)
		rados_wait_for_latest_osdmap(link->cluster);
	id = rados_pool_lookup(link->cluster, link->o.pool);
	if (io && id == rados_ioctx_get_id(io))
		return 0;
	if (io && id < 0 && id != -ENOENT)
		return 0;
	atomic_store_explicit(&link->io, NULL, memory_order_release);
	err = link_pool(link);
	link_tell(link, err == -ETIMEDOUT ? link->silence : err);
	return err;
}

/* ---- a new handle ---------------------------------------------------------------------------- */

/*
 * What is asked for to see whether anybody answers: no key's name, and never there. Another one
 * each time: a placement group may be silent for ever while all others answer (its OSDs are gone;
 * or it stays "laggy" after an OSD stood still, tracker.ceph.com/issues/80404).
 */
static void link_object(struct ceph_link *link, char name[CEPH_NAME_BYTES])
{
	snprintf(name, CEPH_NAME_BYTES, "peal.probe.%u", link->nr_probes++);
}

static void link_drop(struct ceph_link *link)
{
	for (unsigned i = 0; i < link->nr_pools; i++)
		rados_ioctx_destroy(link->pools[i]);
	link->nr_pools = 0;
	if (link->cluster)
		rados_shutdown(link->cluster);
	link->cluster = NULL;
}

/*
 * In the place of what there was, when nothing is under way there any more. refused: 0, or what the
 * new one isn't allowed.
 */
static int link_replace(struct ceph_link *link, rados_t cl, rados_ioctx_t io, int refused)
{
	rados_ioctx_t was = atomic_exchange_explicit(&link->io, NULL, memory_order_acq_rel);

	if (!ceph_scan_quiet(link)) {
		atomic_store_explicit(&link->io, was, memory_order_release);
		return -ECANCELED;
	}
	link_drop(link);
	link->cluster = cl;
	link->pools[link->nr_pools++] = io;
	link->silence = -ETIMEDOUT;
	atomic_store_explicit(&link->refused, refused, memory_order_relaxed);
	atomic_store_explicit(&link->nr_late, 0, memory_order_relaxed);
	atomic_store_explicit(&link->is_down, false, memory_order_relaxed);
	atomic_store_explicit(&link->io, io, memory_order_release);
	return 0;
}

/*
 * Would one that connects now, with the conf and the key ring as they are now, be served? Where the
 * old one is silent one that is answered will do, whatever it may: -EPERM is an answer.
 */
static int link_anew(struct ceph_link *link, bool is_silent)
{
	char name[CEPH_NAME_BYTES];
	rados_ioctx_t io;
	rados_t cl;
	int err = ceph_conn_open(link, &cl), refused = 0;

	if (err)
		return err == -EPERM ? -EACCES : err;
	err = link_is_stopping(link) ? -ECANCELED : ceph_conn_pool(link, cl, &io);
	if (err)
		goto shutdown;
	link_object(link, name);
	err = link_is_stopping(link) ? -ECANCELED : ceph_conn_may(io, name);
	if (is_silent && (err == -EPERM || err == -EACCES)) {
		refused = -EPERM;
		err = 0;
	}
	if (!err)
		err = link_replace(link, cl, io, refused);
	if (!err)
		return 0;
	rados_ioctx_destroy(io);
shutdown:
	rados_shutdown(cl);
	return err;
}

/*
 * The same, if it is time. -EAGAIN: it isn't. Twice as long until the next one, also behind one
 * that was let in: what it was asked may not be what it is needed for.
 */
static int link_try(struct ceph_link *link, bool is_silent)
{
	uint64_t now = mono_ns();
	int err;

	if (now < link->anew_at_ns)
		return -EAGAIN;
	if (now - link->anew_at_ns > LINK_ANEW_MAX_NS)
		link->anew_ns = LINK_ANEW_NS;
	else
		link->anew_ns = min_t(uint64_t, 2 * link->anew_ns, LINK_ANEW_MAX_NS);
	err = link_anew(link, is_silent);
	if (!err)
		link_tell(link, 0);
	link->anew_at_ns = mono_ns() + link->anew_ns;
	return err;
}

static void link_refused(struct ceph_link *link)
{
	link_tell(link, atomic_load_explicit(&link->refused, memory_order_relaxed));
	link_try(link, false);
}

/* Nobody answers the handle that we have. True: a new one is answered, and is in its place. */
static bool link_silent(struct ceph_link *link)
{
	int err = link_is_stopping(link) ? -ECANCELED : link_try(link, true);

	if (err && err != -EAGAIN && err != -ECANCELED) {
		link->silence = err;
		link_tell(link, err);
	}
	return !err;
}

/* ---- down ------------------------------------------------------------------------------------ */

/*
 * Does it answer again? Any object does, present or not, where the map says that it is now; if
 * that can't be had, where it was. What it answers is the operations' own business.
 */
static int link_probe(struct ceph_link *link)
{
	rados_ioctx_t io = atomic_load_explicit(&link->io, memory_order_relaxed);
	char name[CEPH_NAME_BYTES];
	uint64_t size;
	time_t mtime;
	int err = 0;

	if (ceph_conn_has_mon(link->cluster))
		rados_wait_for_latest_osdmap(link->cluster);
	link_object(link, name);
	if (io && !link_is_stopping(link))
		err = rados_stat(io, name, &size, &mtime);
	return err == -ETIMEDOUT ? err : 0;
}

/* True: operations may begin again. */
static bool link_is_back(struct ceph_link *link)
{
	link_tell(link, link->silence);
	if (link_probe(link))
		return link_silent(link);
	link->silence = -ETIMEDOUT;
	atomic_store_explicit(&link->nr_late, 0, memory_order_relaxed);
	atomic_store_explicit(&link->is_down, false, memory_order_relaxed);
	if (atomic_load_explicit(&link->io, memory_order_relaxed))
		link_tell(link, 0);
	return true;
}

/* ---- its thread ------------------------------------------------------------------------------ */

/* Until the next thing that is to be done. */
static uint64_t link_rest(const struct ceph_link *link)
{
	uint64_t now = mono_ns(), at = link->look_at_ns;

	if (!ceph_link_is_up(link))
		return LINK_RETRY_NS;
	if (atomic_load_explicit(&link->is_ready, memory_order_relaxed))
		at = min_t(uint64_t, at, link->scan_at_ns);
	if (atomic_load_explicit(&link->refused, memory_order_relaxed))
		at = min_t(uint64_t, at, link->anew_at_ns);
	return at > now ? at - now : 0;
}

static uint64_t link_turn(struct ceph_link *link)
{
	int err;

	if (!link->cluster) {
		err = link_begin(link);
		link_tell(link, err == -EPERM ? -EACCES : err);
		if (err)
			return LINK_RETRY_NS;
		link->look_at_ns = mono_ns() + LINK_LOOK_NS;
	}
	if (atomic_load_explicit(&link->is_down, memory_order_relaxed) && !link_is_back(link))
		return LINK_PROBE_NS;
	if (atomic_load_explicit(&link->refused, memory_order_relaxed))
		link_refused(link);
	if (link_is_stopping(link))
		return 0;
	if (mono_ns() >= link->look_at_ns || !ceph_link_is_up(link) ||
	    atomic_load_explicit(&link->is_suspect, memory_order_relaxed)) {
		if (link_look(link) == -ETIMEDOUT && !ceph_link_is_up(link))
			link_silent(link);
	}
	ceph_scan_turn(link);
	return link_rest(link);
}

static void link_free(struct ceph_link *link)
{
	free((void *)link->o.conf);
	free((void *)link->o.id);
	free((void *)link->o.keyring);
	free((void *)link->o.pool);
	free((void *)link->o.ns);
	sem_destroy(&link->wake);
	sem_destroy(&link->puts_wake);
	ceph_scan_fini(link);
	free(link);
}

static void link_end(struct ceph_link *link)
{
	link_drop(link);
	link_free(link);
}

static void *link_run(void *arg)
{
	struct ceph_link *link = arg;

	while (!link_is_stopping(link))
		link_sleep(link, link_turn(link));
	if (atomic_exchange(&link->is_over, true))
		link_end(link); /* nobody waits for us any more */
	return NULL;
}

/* ---- open, close ----------------------------------------------------------------------------- */

static char *link_copy(const char *s, bool *is_short)
{
	char *copy = s ? strdup(s) : NULL;

	*is_short |= s && !copy;
	return copy;
}

static int link_opts(struct ceph_link *link, const struct ceph_opts *o)
{
	struct ceph_opts *to = &link->o;
	bool is_short = false;

	*to = *o;
	to->conf = link_copy(o->conf, &is_short);
	to->id = link_copy(o->id ? o->id : "admin", &is_short);
	to->keyring = link_copy(o->keyring, &is_short);
	to->pool = link_copy(o->pool, &is_short);
	to->ns = link_copy(o->ns ? o->ns : "", &is_short);
	to->timeout_s = o->timeout_s ? o->timeout_s : LINK_TIMEOUT_S;
	to->read_max_ns = o->read_max_ns ? o->read_max_ns : LINK_READ_NS;
	to->max_write_bytes = o->max_write_bytes ? o->max_write_bytes : LINK_WRITE_BYTES;
	to->max_keys = o->max_keys ? o->max_keys : LINK_KEYS;
	to->list_every_ns = o->list_every_ns ? o->list_every_ns : LINK_LIST_NS;
	if (!to->value_max || to->value_max > CEPH_VALUE_MAX)
		to->value_max = CEPH_VALUE_MAX;
	to->nr_shards = o->nr_shards ? o->nr_shards : 1;
	return is_short ? -ENOMEM : 0;
}

/* What is wrong with the configuration shows now, not when nobody looks any more. */
static int link_check(const struct ceph_link *link)
{
	rados_t cl;
	int err = ceph_conn_handle(link, &cl);

	if (!err)
		rados_shutdown(cl);
	return err;
}

int ceph_link_open(const struct ceph_opts *o, struct ceph_link **out)
{
	struct ceph_link *link = calloc(1, sizeof(*link));
	int err;

	if (!link)
		return -ENOMEM;
	sem_init(&link->wake, 0, 0);
	sem_init(&link->puts_wake, 0, 0);
	mbox_init(&link->puts);
	link->told = 1; /* nothing */
	link->silence = -ETIMEDOUT;
	link->anew_ns = LINK_ANEW_NS;
	err = link_opts(link, o);
	if (!err)
		err = ceph_scan_init(link);
	if (!err)
		err = link_check(link);
	if (err)
		goto free_link;
	err = ceph_puts_start(link);
	if (err)
		goto free_link;
	err = thread_start(&link->thread, "peal-ceph", -1, link_run, link);
	if (err)
		goto stop_puts;
	*out = link;
	return 0;

stop_puts:
	ceph_puts_stop(link);
free_link:
	link_free(link);
	return err;
}

static void link_stop(struct ceph_link *link)
{
	atomic_store_explicit(&link->is_stopping, true, memory_order_release);
	sem_post(&link->wake);
	sem_post(&link->puts_wake);
}

/*
 * Every call of its thread's has an end, unless the monitors go between their answer and what is
 * asked of them next: then the thread is left behind, with what it has, until librados lets it go.
 */
static void link_join(struct ceph_link *link)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += 2 * link->o.timeout_s + 1;
	if (!pthread_timedjoin_np(link->thread, NULL, &ts)) {
		link_end(link);
		return;
	}
	pthread_detach(link->thread);
	if (atomic_exchange(&link->is_over, true))
		link_end(link);
}

void ceph_link_close(struct ceph_link *link)
{
	if (!link)
		return;
	link_stop(link);
	ceph_puts_stop(link);
	link_join(link);
}

/* On c->home. Its thread has posted this as the last that it does. */
static void link_closed(struct mbox_msg *m)
{
	struct ceph_closing *c = container_of(m, struct ceph_closing, msg);

	pthread_join(c->thread, NULL);
	sem_destroy(&c->begun);
	c->closed(c);
}

void ceph_link_close_from(struct ceph_link *link, struct ceph_closing *c)
{
	c->msg.fn = link_closed;
	c->thread = link->puts_thread;
	sem_init(&c->begun, 0, 0);
	link->closing = c;
	link_stop(link);
	/* The link may be gone from here on; c is there until this reactor's turn is over. */
	sem_post(&c->begun);
}

void ceph_link_puts_over(struct ceph_link *link)
{
	struct ceph_closing *c = link->closing;

	if (!c)
		return;
	while (sem_wait(&c->begun) && errno == EINTR)
		;
	link_join(link);
	mbox_post(c->home, &c->msg);
}
