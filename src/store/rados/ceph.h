/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rados tier: values as objects of a Ceph pool, one object each, shared by every machine that
 * sees the cluster. A value is found by its key's hex alone; doc/format.md has names and bytes.
 *
 *     shard's owner                                   threads of librados
 *     ceph_get, ceph_put  -- rados_aio_*() ---------> network, OSDs
 *          ^                                               |
 *          +------- mbox_post(), the request is the message+
 *
 *     ceph_link: connects, looks whether the cluster is back, reads the list of keys
 *     ceph_puts: checks and hands over values of more than a chunk, which librados copies
 *
 * Promises.
 *  - A reactor never waits for librados: every call on it is asynchronous, what is under way is
 *    bounded by us, in number and in bytes, far below the bounds at which librados makes its
 *    caller wait. What is beyond waits here, in bounded queues; then it is -EBUSY, or a miss.
 *  - Until the cluster answers, and when it has stopped to: a read is a miss, at once or when
 *    read_max_ns are over; a write fails, so that memory above keeps what it hasn't written as
 *    long as it has room, and counts what it drops then. One line says so, another one that it is
 *    over. Nothing has to be started again.
 *  - What is acknowledged is on all replicas. Store-if-absent and store-if-present are one
 *    operation of the cluster each, so they hold among all machines.
 *  - A version is RADOS's own, of the object: no two values of a key share one, whoever wrote them.
 *    Pieces of a value are pinned to it.
 *  - An object whose length, attributes or bytes don't fit is a miss, an alert, and is not deleted.
 *  - Nothing is evicted: the pool's quota is the capacity. Full is -ENOSPC, and counted.
 *  - What below() has, an ssd tier of this machine, is a cache: asked first, written behind.
 *
 * Without librados at build time no_ceph.c stands for all of it: -ENOSYS.
 */
#ifndef STORE_RADOS_CEPH_H
#define STORE_RADOS_CEPH_H

#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>

#include "core/mbox.h"
#include "store/store.h"

/* Data and attributes of one operation stay below osd_max_write_size, 90 MiB unless set. */
#define CEPH_VALUE_MAX (64u << 20)

struct ceph_opts {
	const char *conf;    /* NULL: where librados looks: /etc/ceph/ceph.conf, ... */
	const char *id;	     /* client.ID; NULL: admin */
	const char *keyring; /* NULL: as conf says */
	const char *pool;
	const char *ns;	      /* the RADOS namespace; "": the pool's default one */
	uint32_t timeout_s;   /* of an operation; whole seconds are what librados takes. 0: 5 */
	uint64_t read_max_ns; /* a read that takes longer is answered as a miss; 0: 1 s */
	/* of values being written, of all shards together, and one more each; 0: 128 MiB */
	uint64_t max_write_bytes;
	uint32_t max_keys;	/* that List and MATCH know of; 0: 1 M */
	uint64_t list_every_ns; /* how often the list of keys is read anew; 0: 60 s */
	uint32_t value_max;	/* 0, or more: CEPH_VALUE_MAX */
	uint32_t nr_shards;
	/* One line for a human: the cluster is gone, is back. Any thread; may be NULL. */
	void (*told)(void *arg, const char *what);
	void *arg;
};

/* A namespace's connection, which its shards share. */
struct ceph_link;

/*
 * Reads the configuration, and begins to connect; doesn't wait for it. 0; -ENOSYS: built without
 * librados; -ENOENT, -EINVAL, ...: the configuration can't be read, is wrong; -ENOMEM. Main thread
 * or home.
 */
int ceph_link_open(const struct ceph_opts *o, struct ceph_link **link);
/*
 * Its stores are gone. Waits for its threads, which may be asking a cluster that is silent: up to
 * twice timeout_s and a second. No reactor; NULL is no link.
 */
void ceph_link_close(struct ceph_link *link);
/*
 * The same from a reactor, home, which goes on: a thread of the link's does the waiting, and
 * closed() runs on home when it is over. Nothing is told any more then.
 */
struct ceph_closing {
	struct reactor *home;
	void (*closed)(struct ceph_closing *c);
	/* Ours. */
	struct mbox_msg msg;
	pthread_t thread;
	sem_t begun;
};
void ceph_link_close_from(struct ceph_link *link, struct ceph_closing *c);
/* Does the cluster answer? Any thread. */
bool ceph_link_is_up(const struct ceph_link *link);

/* The tier of one shard. 0 or -ENOMEM. The link outlives it. */
int ceph_create(struct ceph_link *link, uint16_t shard, struct store **s);
/* Once all of them have their places in the set: the list of keys is read, now and then. */
void ceph_link_ready(struct ceph_link *link);

#endif
