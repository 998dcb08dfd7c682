/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handle: open, close, keys, counters. Everything else of peal.h is beside it, one file per
 * theme; call.h shows what a call is made of, keeper.h how a handle lives through a restart of the
 * daemon. Any thread.
 */
#include "peal/peal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "client/batch.h"
#include "client/call.h"
#include "client/errmsg.h"
#include "client/keeper.h"
#include "client/lease.h"
#include "client/memreg.h"

static void peal_free(struct peal *p)
{
	pthread_mutex_destroy(&p->lock);
	pthread_mutex_destroy(&p->mem_lock);
	free(p);
}

int peal_open(const char *uri, const struct peal_opts *o, struct peal **out)
{
	struct peal *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return errmsg_set(-ENOMEM, "no memory for a handle");
	if (o)
		p->opts = *o;
	p->fork_gen = keeper_fork_gen();
	pthread_mutex_init(&p->lock, NULL);
	pthread_mutex_init(&p->mem_lock, NULL);
	list_init(&p->queues);
	list_init(&p->leases);
	list_init(&p->mems);
	err = uri_parse(uri, &p->uri);
	if (!err)
		err = keeper_start(p);
	if (err) {
		peal_free(p);
		return err;
	}
	*out = p;
	return 0;
}

void peal_close(struct peal *p)
{
	/* In a child of fork() nothing can be undone: threads that hold locks aren't here. */
	if (!p || p->fork_gen != keeper_fork_gen())
		return;
	batch_close_all(p);
	lease_free_all(p);
	keeper_stop(p);
	memreg_free_all(p);
	if (p->conn)
		conn_put(p->conn);
	peal_free(p);
}

struct peal_key peal_key_text(const char *text)
{
	struct peal_key k = {0};

	if (!text || parse_key(text, k.b, &k.len) < 0)
		return (struct peal_key){0};
	return k;
}

struct peal_key peal_key_hex(const char *hex)
{
	if (!hex || hex[0] != '0' || (hex[1] != 'x' && hex[1] != 'X'))
		return (struct peal_key){0};
	return peal_key_text(hex);
}

struct peal_key peal_key_bytes(const void *b, size_t len)
{
	struct peal_key k = {0};

	if (!b || len < 1 || len > PEAL_KEY_MAX)
		return k;
	memcpy(k.b, b, len);
	k.len = (uint8_t)len;
	return k;
}

void peal_stats(struct peal *p, struct peal_stats *st)
{
	int err;
	struct conn *c = call_conn(p, &err);

	*st = (struct peal_stats){
		.calls = atomic_load_explicit(&p->calls, memory_order_relaxed),
		.hits = atomic_load_explicit(&p->hits, memory_order_relaxed),
		.misses = atomic_load_explicit(&p->misses, memory_order_relaxed),
		.timeouts = atomic_load_explicit(&p->timeouts, memory_order_relaxed),
		.reconnects = atomic_load_explicit(&p->reconnects, memory_order_relaxed),
		.bytes_in = atomic_load_explicit(&p->bytes_in, memory_order_relaxed),
		.bytes_out = atomic_load_explicit(&p->bytes_out, memory_order_relaxed),
		.bad_seals = atomic_load_explicit(&p->bad_seals, memory_order_relaxed),
		.bad_tags = atomic_load_explicit(&p->bad_tags, memory_order_relaxed),
	};
	if (!c)
		return;
	chan_reap_all(c);
	batch_reap_idle(p);
	st->quarantined_bytes = bufs_quarantined(&c->bufs);
	conn_put(c);
}
