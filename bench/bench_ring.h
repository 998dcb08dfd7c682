/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit: a bare shared-memory ring between two threads pinned to two cores. The client writes a
 * 64-byte entry, the server copies `bytes` from a random place of an arena of at least 1 GiB into
 * the client's buffer with memcpy + XXH3 in one pass (hash_copy_xxh3) and publishes a 16-byte
 * answer. No index, no protocol: what the hardware and the checked copy allow. Nothing of Peal but
 * base/hash.
 */
#ifndef BENCH_BENCH_RING_H
#define BENCH_BENCH_RING_H

#include <stddef.h>
#include <stdint.h>

struct bench_ring;

struct bench_ring *bench_ring_create(int server_cpu, uint64_t arena_bytes, size_t bytes);
/*
 * Runs `nr` requests at depth, random places; ns in all. lat (may be NULL): nr latencies in ns, at
 * depth 1 only.
 */
uint64_t bench_ring_run(struct bench_ring *r, unsigned depth, uint64_t nr, uint64_t *lat);
void bench_ring_destroy(struct bench_ring *r);

/*
 * One thread: nr copies of `bytes` from random places of the arena to random places of a
 * destination of 64 MiB or more; ns in all. with_seal: one XXH3 per 64 KiB chunk in the same pass.
 */
uint64_t bench_copy_run(const void *arena, uint64_t arena_bytes, size_t bytes, uint64_t nr,
			int with_seal);

#endif
