/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the handle is and what every call with a deadline has in common: checks, a reference to the
 * connection, the deadline, the buffer, statistics. A call reads:
 *
 *	err = call_begin(p, "put", k, c, &call);
 *	if (err) return err;
 *	err = call_buf(&call, bytes);                 copy in
 *	err = call_exec(&call, &cmd);                 0: answered, status not yet looked at
 *	                                              copy out
 *	return call_end(&call, err);                  buffer and connection go back
 *
 * Lock order: p->mem_lock, p->lock, then a connection's.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include "base/list.h"
#include "client/chan.h"
#include "client/conn.h"
#include "client/estimate.h"
#include "client/uri.h"
#include "peal/peal.h"

struct peal {
	struct uri uri;
	struct peal_opts opts;
	unsigned fork_gen;

	pthread_mutex_t lock; /* conn, queues, leases, last_error */
	struct conn *conn;    /* NULL: the daemon is gone */
	struct list queues;   /* batch.c */
	struct list leases;   /* lease.c */
	char last_error[256]; /* of the keeper's last try */

	pthread_mutex_t mem_lock; /* mems and their being mapped */
	struct list mems;	  /* memreg.c */
	_Atomic uint64_t mem_gen;

	/* keeper.c */
	pthread_t keeper;
	int keeper_fd;
	_Atomic bool is_closing;

	_Atomic uint64_t calls, hits, misses, timeouts, reconnects;
	_Atomic uint64_t bytes_in, bytes_out, bad_seals, bad_tags;
	_Atomic uint64_t ns_per_mib[ESTIMATE_NR]; /* estimate.c */
};

struct call {
	struct peal *p;
	struct conn *conn;
	const char *verb;
	const struct peal_key *key;
	uint64_t deadline_ns;
	struct buf buf; /* ptr NULL: none */
};

static inline void call_count(_Atomic uint64_t *counter, uint64_t n)
{
	if (n)
		atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* A reference, or NULL and a message. Also NULL in a child of fork(). */
struct conn *call_conn(struct peal *p, int *err);
/* Of a call that gave timeout_ms; 0 = the handle's. */
uint64_t call_deadline(const struct peal *p, uint32_t timeout_ms);
int call_check_key(const struct conn *c, const char *verb, const struct peal_key *k);

/* k NULL: a call without a key. */
int call_begin(struct peal *p, const char *verb, const struct peal_key *k,
	       const struct peal_call *c, struct call *call);
int call_buf(struct call *call, size_t bytes);
/* Names data_bytes of the call's buffer when there are any. */
int call_exec(struct call *call, struct chan_cmd *cmd);
/* errmsg_status() of the call's verb and key. */
int call_status(const struct call *call, uint16_t status);
/* STORE_EX's block of that metadata. */
void call_fill_store_ex(struct peal_store_ex *x, const struct peal_meta *m);
/* The whole of a call whose command has no data. */
int call_simple(struct peal *p, const char *verb, const struct peal_key *k, uint8_t opc,
		struct peal_call *c);
/* Counts the outcome and returns it. */
ssize_t call_end(struct call *call, ssize_t res);
/* The opcode's SQE with the call's key. */
struct chan_cmd call_cmd(const struct call *call, uint8_t opc, uint8_t opts);
