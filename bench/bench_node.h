/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon without sockets inside a bench: reactors, workers, one KV namespace of DRAM, and a
 * replay queue per worker whose load is 4 KiB values of numbered keys. Stepped by the caller's
 * thread (instructions) or by its own threads (throughput).
 */
#ifndef BENCH_BENCH_NODE_H
#define BENCH_BENCH_NODE_H

#include <stdint.h>

struct bench_node;

struct bench_node_opts {
	unsigned nr_workers;
	unsigned depth; /* commands under way per worker */
	uint64_t dram_bytes;
	uint64_t nr_keys;
	uint32_t value_bytes;
	uint8_t opc;	 /* NVME_KV_EXIST, half of its keys absent; 0: NVME_KV_RETRIEVE */
	int is_threaded; /* each reactor its own thread, pinned to core i */
	int is_local;	 /* each reactor reads keys of its own shard only */
};

struct bench_node *bench_node_create(
	const struct bench_node_opts *o); /* filled with nr_keys; exits on failure */
/* Retrieves of random keys: not threaded: exactly nr of them; threaded: for ns. Commands done. */
uint64_t bench_node_run(struct bench_node *n, uint64_t nr, uint64_t ns);
void bench_node_destroy(struct bench_node *n);

#endif
