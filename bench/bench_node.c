/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See bench_node.h. Every answer is checked: status, length, and the first and last word of the
 * value.
 */
#include "bench_node.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/must.h"
#include "base/rng.h"
#include "bench.h"
#include "core/env.h"
#include "kv/kv.h"
#include "store/store.h"
#include "transport/replay/replay.h"

enum node_phase {
	NODE_IDLE,
	NODE_FILL,
	NODE_READ,
};

struct node_load {
	struct replay_load load;
	struct bench_node *n;
	struct rng rng;
	uint64_t next;	 /* key to fill */
	uint64_t budget; /* commands that may still start; the phase's, UINT64_MAX = any */
	_Atomic uint64_t nr_done;
	uint64_t *keys; /* of the slot */
	uint32_t *own;	/* is_local: the keys of this worker's shard */
	uint64_t nr_own;
	unsigned worker;
};

struct bench_node {
	struct bench_node_opts o;
	struct tgt_node node;
	struct tgt_subsys *ss;
	const struct tgt_csi_ops *csi;
	struct tgt_ns *ns;
	struct replay_host *host;
	struct replay_queue *queue[REACTORS_MAX];
	struct node_load load[REACTORS_MAX];
	_Atomic int phase;
	_Atomic int is_over;
};

static void node_key(struct nvme_sqe *sqe, uint64_t i)
{
	struct peal_key k = bench_key(i);

	nvme_kv_key_set(sqe, k.b, k.len, 0);
}

static int64_t node_next(struct replay_load *rl, uint32_t slot, struct nvme_sqe *sqe, void *buf)
{
	struct node_load *l = container_of(rl, struct node_load, load);
	struct bench_node *n = l->n;
	int phase = atomic_load_explicit(&n->phase, memory_order_acquire);
	uint64_t key;

	if (phase == NODE_IDLE || l->budget == 0)
		return -EAGAIN;
	if (phase == NODE_FILL) {
		key = l->next;
		if (key >= n->o.nr_keys)
			return -EAGAIN;
		l->next += n->o.nr_workers;
		bench_value(key, buf, n->o.value_bytes);
		sqe->opc = NVME_KV_STORE;
	} else if (n->o.opc == NVME_KV_EXIST) {
		key = rng_below(&l->rng, 2 * n->o.nr_keys);
		sqe->opc = NVME_KV_EXIST;
	} else {
		key = rng_below(&l->rng, l->nr_own);
		if (l->own)
			key = l->own[key];
		sqe->opc = NVME_KV_RETRIEVE;
	}
	if (l->budget != UINT64_MAX)
		l->budget--;
	l->keys[slot] = key;
	sqe->nsid = 1;
	node_key(sqe, key);
	sqe->cdw10 = n->o.value_bytes;
	return n->o.value_bytes;
}

static void node_done(struct replay_load *rl, uint32_t slot, const struct nvme_cqe *cqe,
		      const void *buf)
{
	struct node_load *l = container_of(rl, struct node_load, load);
	struct bench_node *n = l->n;
	uint64_t nr = atomic_load_explicit(&l->nr_done, memory_order_relaxed);

	if (cqe->status >> 1 && !(n->o.opc == NVME_KV_EXIST && l->keys[slot] >= n->o.nr_keys)) {
		fprintf(stderr, "bench: key %lu: status %03xh\n", (unsigned long)l->keys[slot],
			cqe->status >> 1);
		exit(1);
	}
	if (atomic_load_explicit(&n->phase, memory_order_relaxed) == NODE_READ && nr % 64 == 0 &&
	    !n->o.opc && !bench_value_ok(l->keys[slot], buf, n->o.value_bytes)) {
		fprintf(stderr, "bench: WRONG BYTES of key %lu\n", (unsigned long)l->keys[slot]);
		exit(1);
	}
	atomic_store_explicit(&l->nr_done, nr + 1, memory_order_release);
}

static void node_reactor(struct bench_node *n, unsigned i)
{
	struct reactor_opts ro = {
		.id = i,
		.nr_peers = n->o.nr_workers,
		.spin_ns = UINT64_MAX,
		.cpu = n->o.is_threaded ? (int)i : -1,
	};

	bench_must(env_linux_create(64, &ro.env), "io_uring");
	n->node.reactors[i] = reactor_create(&ro);
	must(n->node.reactors[i]);
	n->node.nr = i + 1;
	bench_must(tgt_worker_create(n->node.reactors[i], i, 1024, &n->node.workers[i]), "worker");
}

static void node_own(struct node_load *l)
{
	const struct bench_node_opts *o = &l->n->o;
	struct peal_key k;

	l->nr_own = o->nr_keys;
	if (!o->is_local)
		return;
	l->nr_own = 0;
	l->own = calloc(o->nr_keys, sizeof(*l->own));
	must(l->own);
	for (uint64_t i = 0; i < o->nr_keys; i++) {
		k = bench_key(i);
		if (store_shard_of(hash_key(k.b, k.len), o->nr_workers) == l->worker)
			l->own[l->nr_own++] = (uint32_t)i;
	}
}

static void node_queue(struct bench_node *n, unsigned i)
{
	struct node_load *l = &n->load[i];
	struct replay_queue_opts qo = {
		.worker = i,
		.depth = n->o.depth,
		.slot_bytes = n->o.value_bytes,
		.load = &l->load,
	};

	l->load.next = node_next;
	l->load.done = node_done;
	l->n = n;
	l->worker = i;
	l->next = i;
	l->budget = UINT64_MAX;
	l->keys = calloc(n->o.depth + 1, sizeof(*l->keys));
	must(l->keys);
	rng_init(&l->rng, i + 1);
	node_own(l);
	bench_must(replay_queue_create(n->host, &qo, &n->queue[i]), "queue");
}

static uint64_t node_sum(struct bench_node *n)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n->o.nr_workers; i++)
		sum += atomic_load_explicit(&n->load[i].nr_done, memory_order_acquire);
	return sum;
}

static void node_turn(struct bench_node *n)
{
	if (n->o.is_threaded) {
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		return;
	}
	for (unsigned i = 0; i < n->o.nr_workers; i++)
		reactor_step(n->node.reactors[i]);
}

struct bench_node *bench_node_create(const struct bench_node_opts *o)
{
	struct tgt_subsys_opts so = {
		.nqn = "nqn.2026-11.io.peal:bench", .serial = "1", .model = "bench"};
	struct kv_ns_opts ko = {.name = "kv", .dram_bytes = o->dram_bytes, .is_immutable = true};
	struct bench_node *n = calloc(1, sizeof(*n));

	must(n);
	n->o = *o;
	ko.max_keys = (uint32_t)(o->nr_keys + o->nr_keys / 8 + 4096);
	bench_must(mem_guard_init(), "guard");
	for (unsigned i = 0; i < o->nr_workers; i++)
		node_reactor(n, i);
	bench_must(tgt_subsys_create(&n->node, &so, &n->ss), "subsystem");
	n->csi = kv_csi_create(n->ss, &ko);
	must(n->csi);
	tgt_subsys_csi_add(n->ss, n->csi);
	bench_must(kv_ns_create(n->ss, &ko, &n->ns), "namespace");
	bench_must(tgt_subsys_ns_add(n->ss, n->ns, 1), "namespace");
	bench_must(replay_host_create(n->ss, &n->host), "host");
	for (unsigned i = 0; i < o->nr_workers; i++)
		node_queue(n, i);
	for (unsigned i = 0; i < o->nr_workers && o->is_threaded; i++)
		bench_must(reactor_start(n->node.reactors[i], "bench"), "thread");
	atomic_store(&n->phase, NODE_FILL);
	while (node_sum(n) < o->nr_keys)
		node_turn(n);
	atomic_store(&n->phase, NODE_IDLE);
	return n;
}

uint64_t bench_node_run(struct bench_node *n, uint64_t nr, uint64_t ns)
{
	uint64_t before = node_sum(n);

	for (unsigned i = 0; i < n->o.nr_workers && !n->o.is_threaded; i++)
		n->load[i].budget = nr / n->o.nr_workers;
	atomic_store(&n->phase, NODE_READ);
	if (n->o.is_threaded) {
		nanosleep(&(struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
					     .tv_nsec = (long)(ns % 1000000000u)},
			  NULL);
		nr = node_sum(n) - before;
		atomic_store(&n->phase, NODE_IDLE);
		return nr;
	}
	nr = nr / n->o.nr_workers * n->o.nr_workers;
	while (node_sum(n) < before + nr)
		node_turn(n);
	atomic_store(&n->phase, NODE_IDLE);
	return nr;
}

static void node_over(void *arg)
{
	atomic_store(&((struct bench_node *)arg)->is_over, 1);
}

static void node_gone(void *arg, uint16_t st)
{
	node_over(arg);
}

struct node_msg {
	struct mbox_msg msg;
	struct bench_node *n;
};

static void node_stop_host(struct mbox_msg *m)
{
	struct bench_node *n = container_of(m, struct node_msg, msg)->n;

	replay_host_stop(n->host, node_over, n);
}

static void node_stop_ns(struct mbox_msg *m)
{
	struct bench_node *n = container_of(m, struct node_msg, msg)->n;

	tgt_subsys_ns_del(n->ss, 1, node_gone, n);
}

static void node_do(struct bench_node *n, void (*fn)(struct mbox_msg *m))
{
	struct node_msg m = {.msg.fn = fn, .n = n};

	atomic_store(&n->is_over, 0);
	mbox_post(n->node.reactors[0], &m.msg);
	while (!atomic_load(&n->is_over))
		node_turn(n);
}

void bench_node_destroy(struct bench_node *n)
{
	node_do(n, node_stop_host);
	node_do(n, node_stop_ns);
	for (unsigned i = 0; i < n->o.nr_workers && n->o.is_threaded; i++)
		reactor_stop(n->node.reactors[i]);
	for (unsigned i = 0; i < n->o.nr_workers && n->o.is_threaded; i++)
		reactor_join(n->node.reactors[i]);
	replay_host_destroy(n->host);
	tgt_subsys_destroy(n->ss);
	kv_csi_destroy(n->csi);
	for (unsigned i = 0; i < n->o.nr_workers; i++)
		tgt_worker_destroy(n->node.workers[i]);
	for (unsigned i = 0; i < n->o.nr_workers; i++) {
		reactor_destroy(n->node.reactors[i]);
		free(n->load[i].keys);
		free(n->load[i].own);
	}
	free(n);
}
